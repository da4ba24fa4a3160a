#!/usr/bin/env python3
"""Runs tests with a planted fault, and fails if they do not find it as they should.

must_fail.py OUTCOME PROGRAM ARGUMENTS, OUTCOME one of
  fails           a test says so, or an assertion does
  fails_or_hangs  likewise, or a test does not end, which a test's own time limit finds
  crashes         the program dies
"""

import signal
import subprocess
import sys

LIMIT_S = 30
DEATHS = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT}


def main():
    wanted, command = sys.argv[1], sys.argv[2:]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace",
                             timeout=LIMIT_S)
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        said = said if isinstance(said, str) else said.decode(errors="replace")
        if wanted == "fails_or_hangs" and "[ RUN      ]" in said:
            return 0
        print(f"{' '.join(command)} did not end within {LIMIT_S} s")
        return 1
    has_begun = "[ RUN      ]" in run.stdout
    has_failed = run.returncode == 1 and "[  FAILED  ]" in run.stdout
    has_aborted = run.returncode == -signal.SIGABRT
    outcomes = {"fails": has_failed or has_aborted,
                "fails_or_hangs": has_failed or has_aborted,
                "crashes": run.returncode in DEATHS}
    if has_begun and outcomes.get(wanted, False):
        return 0
    print(run.stdout[-4000:], run.stderr[-4000:], sep="\n")
    print(f"{' '.join(command)} ended with {run.returncode}, and not as one that {wanted}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
