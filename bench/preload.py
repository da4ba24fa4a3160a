#!/usr/bin/env python3
"""Stock db_bench on RocksDB and on breccia, side by side.

    bench/preload.py --library build/release/libbreccia_preload.so [--rounds 5] [--folder /tmp]

Runs each line of WORKLOADS in turn on both, `rounds` times, and prints the median operations per
second of each benchmark, with the lowest and the highest, as a Markdown table. Set BRECCIA_*
variables outside; they are for breccia's runs alone.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile

WORKLOADS = [
    "--benchmarks=fillseq,readseq,readreverse",
    "--benchmarks=fillrandom,overwrite,readrandom,multireadrandom,seekrandom,readwhilewriting,"
    "deleterandom",
    "--benchmarks=fillrandom,flush,readrandom,multireadrandom,seekrandom",
    "--benchmarks=fillrandom --batch_size=1000",
    "--benchmarks=fillrandom,readrandom,multireadrandom --threads=2",
    "--benchmarks=fillrandom --disable_wal",
    "--benchmarks=fillrandom --sync --num=2000",
    "--benchmarks=mergerandom,readrandom --merge_operator=uint64add --value_size=8",
]


def run(flags, folder, library):
    """Operations per second of each benchmark that the flags name."""
    environment = {name: value for name, value in os.environ.items()
                   if library or not name.startswith("BRECCIA_")}
    if library:
        environment["LD_PRELOAD"] = library
    database = os.path.join(folder, "db")
    shutil.rmtree(database, ignore_errors=True)
    command = ["db_bench", f"--db={database}", "--seed=1", "--num=500000", "--cache_size=268435456",
               "--compression_type=none", "--batch_size=1", *flags.split()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    found = re.findall(r"^(\w+) +: .*?([\d]+) ops/sec", done.stdout, re.MULTILINE)
    return [(name, int(rate)) for name, rate in found]


def shown(rates):
    middle = statistics.median(rates)
    return f"{middle / 1000:,.0f} ({min(rates) / 1000:,.0f}-{max(rates) / 1000:,.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="/tmp")
    arguments = parser.parse_args()
    library = os.path.abspath(arguments.library)
    print("| flags | benchmark | RocksDB, 1000 ops/s | breccia, 1000 ops/s | ratio |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for flags in WORKLOADS:
            runs = [[run(flags, folder, which) for which in (None, library)]
                    for _ in range(arguments.rounds)]
            for i, (name, _) in enumerate(runs[0][0]):
                theirs, ours = ([a_round[side][i][1] for a_round in runs] for side in (0, 1))
                ratio = statistics.median(ours) / statistics.median(theirs)
                cells = ["" if i else f"`{flags}`", name, shown(theirs), shown(ours)]
                print(f"| {' | '.join(cells)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
