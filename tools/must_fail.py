#!/usr/bin/env python3
"""Runs tests with a planted fault, and fails if they do not find it.

must_fail.py PROGRAM ARGUMENTS
"""

import subprocess
import sys

LIMIT_S = 30


def main():
    try:
        run = subprocess.run(sys.argv[1:], capture_output=True, text=True, errors="replace",
                             timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"found: it did not end within {LIMIT_S} s")
        return 0
    has_begun = "[ RUN      ]" in run.stdout
    has_died = run.returncode < 0
    if has_begun and run.returncode != 0 and (has_died or "[  FAILED  ]" in run.stdout):
        print("found")
        return 0
    print(run.stdout[-4000:], run.stderr[-4000:], sep="\n")
    print(f"not found: {' '.join(sys.argv[1:])} ended with {run.returncode}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
