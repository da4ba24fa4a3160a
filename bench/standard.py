#!/usr/bin/env python3
"""The standard set of benchmarks: `./dev bench standard`.

    bench/standard.py build/release/breccia [--folder /tmp] [--out FILE] [--only NAME ...]
    bench/standard.py build/release/breccia --against OTHER [--rounds 5]

Runs the cases below on Breccia, and on RocksDB at its best where a case names it, prints a table
and appends every row to FILE. Sizes are those of the machine: 10 M keys on the host, 100 M with a
GPU. With --against only Breccia runs, in turns with the program `breccia` in the folder OTHER, on
the same seeds; then the ratios of medians and the quartiles of the pairs are printed, and results
must have equal hashes (exit code 3 if not).
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

GET = "multireadrandom"
STATES = ["memtable", "clean", "tree-warm", "tree-cold"]
WORKLOADS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workloads")


class Case:
    """A run of `breccia bench`: what it is called, its words, and the engines that run it."""

    def __init__(self, name, words, engines=("breccia",)):
        self.name, self.words, self.engines = name, words.split(), engines


class Sizes:
    """How large the set is. Time decides: three minutes on two cores, eight with a GPU."""

    def __init__(self, has_gpu, scale):
        self.threads = min(16, os.cpu_count() or 1)
        self.batch = 1 << 20 if has_gpu else 1 << 16
        self.keys = max(1000, int((100e6 if has_gpu else 10e6) * scale))
        self.reads = max(100, int((4e6 if has_gpu else 2.5e5) * scale))
        self.records = self.keys // 20
        self.singles = max(100, int(2e5 * scale))
        self.sustained = max(1, round((60 if has_gpu else 10) * min(1, scale)))


def cases(sizes):
    requests = (f"--threads={sizes.threads} --batch_size={sizes.batch} --num={sizes.reads} "
                "--key_set=uniform ")
    base = f"--keys={sizes.keys} " + requests
    states = ",".join(f"{GET}@{state}" for state in STATES)
    numbers = "--key_size=8 --value_size=8 "
    both = ("breccia", "rocksdb")
    yield Case("put, get 16 B/100 B", base + f"--benchmarks=filluniquerandom,{states}")
    # What a part of the keys shows as well. RocksDB's load of all takes a minute on two cores.
    part = f"--keys={sizes.keys // 5} " + requests
    yield Case("put, get 16 B/100 B, a fifth of the keys", part +
               f"--benchmarks=filluniquerandom,{states}", both)
    yield Case("get 16 B/100 B, skew 0.99", part + "--skew=0.99 --benchmarks=filluniquerandom,"
               f"{GET}@memtable,{GET}@clean,{GET}@tree-warm")
    yield Case("misses 16 B/100 B", part +
               f"--misses=1 --benchmarks=filluniquerandom,{GET}@tree-warm")
    yield Case("put, get 8 B/8 B", base + numbers + f"--benchmarks=filluniquerandom,{GET}",
               ("breccia", "flatmap"))
    yield Case("update, range 8 B/8 B", base + numbers +
               "--benchmarks=filluniquerandom,mergerandom,flush,seekrandom --reads="
               f"{max(100, sizes.reads // 100)}")
    yield Case("transactions 8 B/8 B", base + numbers +
               "--benchmarks=filluniquerandom,transactionrandom,validatedrandom")
    yield Case("put 16 B/100 B, sustained", base +
               f"--benchmarks=overwrite --duration={sizes.sustained}")
    singles = (f"--threads=1 --num={sizes.singles} --keys={sizes.records} --key_set=uniform "
               "--benchmarks=filluniquerandom,flush,readrandom,overwrite,readrandom ")
    yield Case("single requests 16 B/100 B", singles, both)
    for letter in "abcdf":
        for how, batch, count in (("batches", sizes.batch, sizes.reads * sizes.threads),
                                  ("single", 1, sizes.singles)):
            yield Case(f"ycsb {letter}, {how}",
                       f"ycsb -P {WORKLOADS}/workload{letter} -p recordcount={sizes.records} "
                       f"-p operationcount={count} --threads={sizes.threads} "
                       f"--batch_size={batch}", both if letter == "a" else ("breccia",))


def run(program, case, engine, seed, folder, with_machine):
    """The rows of a run; none, and the reason on stderr, if the engine is not there."""
    database = os.path.join(folder, "db")
    shutil.rmtree(database, ignore_errors=True)
    words = ["--json", f"--db={database}", f"--seed={seed}"]
    words += [] if with_machine else ["--no_machine"]
    words += [f"--engine={engine}"] if engine != "rocksdb" else ["--compare=rocksdb", "--rounds=1"]
    command = [program, "bench", *case.words, *words]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(database, ignore_errors=True)
    print(f"{case.name} on {engine}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    if done.returncode != 0:
        print(f"{case.name} on {engine}: exit code {done.returncode}\n{done.stderr}",
              file=sys.stderr)
        return []
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [{"case": case.name, **row} for row in rows]


def shown(rate):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.3g}"


def print_rows(rows):
    head = ["case", "benchmark", "engine", "filled ops/s", "store alone", "p50 us", "p99 us",
            "p99.9 us", "stalls"]
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        if row["benchmark"] == "machine":
            continue
        cells = [row["case"], row["benchmark"], row["engine"],
                 shown(row["ops_per_sec_filling_included"]), shown(row["ops_per_sec_store_alone"]),
                 *(f"{row[name]:,.1f}" for name in ("p50_us", "p99_us", "p999_us")),
                 str(row.get("stall_seconds", ""))]
        print(f"| {' | '.join(cells)} |")


def print_machine(row):
    print(f"machine: {row['machine']}: memcpy {row['copy_bytes_per_s'] / 1e9:.1f} GB/s read and "
          f"written, {shown(row['gather_128_byte_rows_per_s'])} random rows of 128 B/s, "
          f"{shown(row['random_8_byte_reads_per_s'])} random words/s, disk "
          f"{row['disk_write_bytes_per_s'] / 1e6:,.0f} MB/s")


def ratio_line(ours, theirs):
    """Ratio of medians, then first quartile, median and third quartile of the pairs."""
    pairs = sorted(a / b for a, b in zip(ours, theirs))
    quartiles = (statistics.quantiles(pairs, n=4, method="inclusive") if len(pairs) > 1
                 else pairs * 3)
    return statistics.median(ours) / statistics.median(theirs), quartiles


def differing(rows):
    """(case, benchmark, seed) of results whose hashes are not all equal."""
    hashes = defaultdict(set)
    for row in rows:
        if row.get("result_hash") is not None:
            hashes[row["case"], row["benchmark"], row["seed"]].add(row["result_hash"])
    return [key for key, found in hashes.items() if len(found) > 1]


def print_ratios(rows):
    """Our rows have build 0, those of the other one build 1."""
    rates = defaultdict(lambda: ([], []))
    for row in rows:
        if row["benchmark"] != "machine":
            rates[row["case"], row["benchmark"]][row["build"]].append(
                row["ops_per_sec_filling_included"])
    head = ["case", "benchmark", "this", "other", "ratio of medians", "pairs: quartiles"]
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for (case, benchmark), (ours, theirs) in rates.items():
        if len(ours) != len(theirs) or not ours:
            print(f"| {case} | {benchmark} | {len(ours)} and {len(theirs)} runs | | | |")
            continue
        ratio, (low, middle, high) = ratio_line(ours, theirs)
        print(f"| {case} | {benchmark} | {shown(statistics.median(ours))} | "
              f"{shown(statistics.median(theirs))} | {ratio:.2f} | "
              f"{middle:.2f} ({low:.2f}-{high:.2f}) |")


def keep(arguments, rows):
    """Appends rows as they come, so that a run that is stopped has shown something."""
    if arguments.out:
        with open(arguments.out, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows


def against(arguments, chosen, folder):
    programs = [arguments.program, os.path.join(arguments.against, "breccia")]
    rows = []
    for turn in range(arguments.rounds):
        for case in chosen:
            # Who begins changes every round, so that warmth and wear favour neither.
            for build in (0, 1) if turn % 2 == 0 else (1, 0):
                found = run(programs[build], case, "breccia", turn + 1, folder, False)
                rows += keep(arguments, [{**row, "build": build} for row in found])
    print_ratios(rows)
    wrong = differing(rows)
    for case, benchmark, seed in wrong:
        print(f"{case}, {benchmark}, seed {seed}: the builds returned different results",
              file=sys.stderr)
    return 3 if wrong else 0


def standard(arguments, chosen, folder):
    rows = []
    for case in chosen:
        for engine in case.engines:
            rows += keep(arguments, run(arguments.program, case, engine, 1, folder,
                                        with_machine=not rows))
    for row in rows:
        if row["benchmark"] == "machine":
            print_machine(row)
    print_rows(rows)
    wrong = differing(rows)
    for case, benchmark, _ in wrong:
        print(f"{case}, {benchmark}: the engines returned different results", file=sys.stderr)
    return 3 if wrong else 0


def self_test():
    def row(build, rate, found="a", seed=1):
        return {"case": "c", "benchmark": "b", "build": build, "seed": seed, "result_hash": found,
                "ops_per_sec_filling_included": rate}
    ratio, quartiles = ratio_line([2, 4, 6], [1, 4, 2])
    assert ratio == 2 and quartiles == [1.5, 2, 2.5], (ratio, quartiles)
    assert ratio_line([3], [2]) == (1.5, [1.5] * 3)
    assert not differing([row(0, 1), row(1, 1), row(0, 1, "b", 2), row(1, 1, None)])
    assert differing([row(0, 1), row(1, 1, "b")]) == [("c", "b", 1)]
    assert [shown(x) for x in (5, 1234, 2.5e6)] == ["5", "1.23 k", "2.5 M"]
    names = [case.name for case in cases(Sizes(False, 1))]
    assert len(set(names)) == len(names)
    print(f"standard: {len(names)} cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="a `breccia`")
    parser.add_argument("--against", help="folder of another build's `breccia`")
    parser.add_argument("--rounds", type=int, default=5, help="of --against")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where databases are made")
    parser.add_argument("--out", help="file that rows of JSON are appended to")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names hold such a word")
    parser.add_argument("--scale", type=float, default=1, help="sizes are so many times the usual")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if not arguments.program:
        parser.error("which program?")
    sizes = Sizes(os.path.exists("/dev/nvidiactl"), arguments.scale)
    chosen = [case for case in cases(sizes)
              if not arguments.only or any(word in case.name for word in arguments.only)]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        return (against if arguments.against else standard)(arguments, chosen, folder)


if __name__ == "__main__":
    sys.exit(main())
