#!/usr/bin/env python3
"""The standard set of benchmarks: `./dev bench standard`.

    bench/standard.py build/release/breccia [--folder /tmp] [--out FILE] [--rounds 1] [--only NAME]
                                            [--must_show]
    bench/standard.py build/release/breccia --against OTHER [--rounds 5]

Runs the cases below on Breccia, and where a case names them on RocksDB at its best and on a hash
table in memory, prints tables, among them what must show against RocksDB, and appends every row,
with its command, to FILE: `bench/report.py` draws it. Sizes are those of the machine: 10 M keys on
the host, 100 M with a GPU. With --against only Breccia runs, in turns with the program `breccia` in
the folder OTHER, on the same seeds; then the ratios of medians and the quartiles of the pairs are
printed. Results must have equal hashes (exit code 3 if not).
"""
import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

GET = "multireadrandom"
LIST = "--benchmarks="
STATES = ["memtable", "clean", "tree-warm", "tree-cold"]
WORKLOADS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workloads")


class Case:
    """A run of `breccia bench`: what it is called, its words, and who runs it (see WAYS).

    once: it runs in the first round alone, with five passes over its data that count.
    """

    def __init__(self, name, words, ways=("breccia",), once=False):
        self.name, self.words, self.ways, self.once = name, words.split(), ways, once

    def only(self, steps, ways):
        """The case with what it begins with and `steps` alone, for `ways`."""
        words = [self.with_steps(word, steps) for word in self.words]
        return Case(self.name, " ".join(words), [way for way in self.ways if way in ways],
                    self.once)

    @staticmethod
    def with_steps(word, steps):
        if not word.startswith(LIST):
            return word
        first, *others = word.removeprefix(LIST).split(",")
        kept = {*steps, "compact", "readrandom@tree-warm"}  # those bring files where they are to be
        return LIST + ",".join([first, *(step for step in others if step in kept)])


# Who runs a case: words for the program. RocksDB alone in a comparison is RocksDB at its best.
WAYS = {
    "breccia": ["--engine=breccia"],
    "breccia, columns": ["--engine=breccia", "--columns"],
    "breccia, registered": ["--engine=breccia", "--columns", "--registered"],
    "breccia, values in place": ["--engine=breccia", "--in_place"],
    "breccia, no device": ["--engine=breccia", "--backend=host"],
    "rocksdb": ["--compare=rocksdb", "--rounds=1"],
    "flatmap": ["--engine=flatmap"],
}
BOTH = ("breccia", "rocksdb")


class Sizes:
    """How large the set is."""

    def __init__(self, has_gpu, scale):
        self.has_gpu = has_gpu
        self.threads = min(16, os.cpu_count() or 1)
        self.batch = 1 << 20 if has_gpu else 1 << 16
        self.keys = max(1000, int((100e6 if has_gpu else 10e6) * scale))
        # What a part of the keys shows as well.
        self.part = max(200, self.keys // 5)
        # RocksDB's load of more takes minutes.
        self.peer = max(200, self.keys // (20 if has_gpu else 5))
        self.few = max(50, self.keys // 40)
        self.reads = max(100, int((4e6 if has_gpu else 2.5e5) * scale))
        self.singles = max(100, int(1e5 * scale))
        self.sustained = max(1, round((60 if has_gpu else 10) * min(1, scale)))
        self.rates = [rate * (4 if has_gpu else 1) for rate in RATES]
        # The log's pages are there before the clock: making them takes longer than writing them.
        self.prepared = ("--memtable_bytes=34359738368 --log_segment_bytes=1073741824 "
                         "--log_preallocate_bytes=17179869184 " if has_gpu else "")


NUMBERS = "--key_size=8 --value_size=8 "
RECORD_BYTES = 128  # in the log, of 16 B and 100 B

# More have results that leave the caches before anybody reads them.
RANGES_AT_ONCE = 16 << 10

# Single lookups a second of all threads, where latency over rate is measured.
RATES = (25_000, 50_000, 100_000, 200_000, 400_000)

IN_MEMORY = "put, get 16 B/100 B, in memory"
NUMBERS_IN_MEMORY = "put, get 8 B/8 B, in memory"
FLUSHED = "put, get 16 B/100 B, flushed"
PART = "put, get 16 B/100 B, beside RocksDB"
COLD = "get 16 B/100 B from files, beside RocksDB"
BUDGET = "get 16 B/100 B, skew 0.99, a tenth of it clean"
MISSES = "misses 16 B/100 B"
RESIDENT = "get 16 B/100 B, resident files"
RESIDENT_LEVELS = "get 16 B/100 B, resident files that overlap"
RESIDENT_MISSES = "misses 16 B/100 B, resident files"
RESIDENT_LZ4 = "get 16 B/100 B, resident files of LZ4, beside RocksDB"
RESIDENT_RANGES = "range of 100 8 B/8 B, resident files, beside RocksDB"
RESIDENT_COLD = "get 16 B/100 B, resident files that are not cached"
UPDATES = "update 8 B/8 B, in memory"
RESIDENT_UPDATES = "update 8 B/8 B, resident files"
RANGES = "range of 100 8 B/8 B, in memory"
YCSB_RESIDENT = "ycsb c, b, d, a, batches, resident files, beside RocksDB"
SUSTAINED = "put 16 B/100 B, sustained"
SINGLE = "single requests 16 B/100 B"
# On what is loaded once, those that write least first. Of them one inserts.
TOGETHER = "cbda"
YCSB = "ycsb c, b, d, a, batches"
YCSB_BESIDE = "ycsb c, b, d, a, batches, beside RocksDB"
YCSB_F, YCSB_E = "ycsb f, batches", "ycsb e, batches"
YCSB_FIFTH = "ycsb c, b, d, a, f, batches, a fifth in memory"
YCSB_E_FIFTH = "ycsb e, batches, a fifth in memory"
MINUTE = "ycsb a for a minute, log and files on the disk"
# Bound by the disk.
TO_DISK = (SUSTAINED, MINUTE)


def cases(sizes):
    requests = (f"--threads={sizes.threads} --batch_size={sizes.batch} --num={sizes.reads} "
                "--key_set=uniform --ready ")
    base = f"--keys={sizes.keys} " + requests
    part = f"--keys={sizes.part} " + requests
    peer = f"--keys={sizes.peer} " + requests
    few = f"--keys={sizes.few} " + requests
    states = [f"{GET}@{state}" for state in STATES]
    # In memory more are needed to tell something: behind a load runs are still merged, and a pass
    # should last.
    in_memory = f"--benchmarks=filluniquerandom,{GET},{GET} --reads="
    # Five passes that count, behind those in which runs are merged and caches filled.
    again, more = (4, 7) if sizes.has_gpu else (0, 2)
    yield Case(FLUSHED, base + sizes.prepared + f"--reads={2 * sizes.reads} "
               f"--benchmarks=filluniquerandom,{states[0]},{states[1]}" +
               (1 + again) * f",{states[1]}", once=sizes.has_gpu)
    # So many that a pass lasts, of either; fewer where each is read from a file.
    part_reads = 3 * sizes.reads
    if sizes.has_gpu:
        part_reads = min(sizes.reads, max(sizes.batch, sizes.reads // 8))
    yield Case(PART, peer + f"--reads={part_reads} --benchmarks=filluniquerandom,"
               f"{','.join(states[:3])}" + again * f",{states[2]}", BOTH, once=sizes.has_gpu)
    yield Case(COLD, peer + f"--benchmarks=filluniquerandom,{states[3]}", BOTH)
    yield Case(IN_MEMORY, base + f"{in_memory}{2 * sizes.reads} " + sizes.prepared,
               ("breccia", "breccia, columns", "breccia, registered", "breccia, values in place"))
    yield Case(NUMBERS_IN_MEMORY,
               base + NUMBERS + f"{in_memory}{8 * sizes.reads} " + sizes.prepared,
               ("breccia", "breccia, columns", "breccia, registered", "flatmap"))
    yield Case("get 16 B/100 B, skew 0.99", part + "--skew=0.99 --benchmarks=filluniquerandom,"
               f"{GET}@memtable,{GET}@clean,{GET}@tree-warm")
    budget = f"--clean_bytes={sizes.part * RECORD_BYTES // 10} "
    yield Case(BUDGET, part + budget + "--skew=0.99 --benchmarks=filluniquerandom" +
               (1 + more) * f",{GET}@clean", once=sizes.has_gpu)
    # The filter of all keys is built within the first passes.
    yield Case(MISSES, part + f"--reads={(1 if sizes.has_gpu else 4) * sizes.reads} "
               "--misses=1 --benchmarks=filluniquerandom" + (4 + again) * f",{GET}@tree-warm",
               once=sizes.has_gpu)
    yield from resident_cases(sizes)
    yield Case("update, range of 100, 8 B/8 B", few + NUMBERS +
               "--benchmarks=filluniquerandom,mergerandom,flush,seekrandom --reads="
               f"{max(100, sizes.reads // 50)}", BOTH)
    yield Case("transactions 8 B/8 B", few.replace("--ready ", "") + NUMBERS +
               "--benchmarks=filluniquerandom,transactionrandom,validatedrandom", BOTH)
    yield Case(SUSTAINED, base.replace("--ready ", "") +
               f"--benchmarks=overwrite --duration={sizes.sustained}")
    yield from single_cases(sizes)
    yield from ycsb_cases(sizes)


def resident_cases(sizes):
    """Nothing in memory, keys of all files resident."""
    def load(keys, compression="none", batch=sizes.batch, num=sizes.reads):
        return (f"--keys={keys} --threads={sizes.threads} --batch_size={batch} "
                f"--num={num} --key_set=uniform --ready --entry_cache_bytes=0 "
                f"--compression_type={compression} --residency_bytes=8000000000 ")

    passes = 6 * f",{GET}@tree-warm"
    compacted = "--benchmarks=filluniquerandom,compact" + passes
    longer = f"--reads={4 * sizes.reads} "
    ways = ("breccia", "breccia, columns")
    yield Case(RESIDENT, load(sizes.keys) + sizes.prepared + longer + compacted,
               (*ways, "breccia, registered"), once=True)
    # Five flushes, or so.
    yield Case(RESIDENT_LEVELS, load(sizes.keys) + longer + "--disable_auto_compactions "
               f"--memtable_bytes={50 * sizes.keys} --benchmarks=filluniquerandom" + passes, ways,
               once=True)
    yield Case(RESIDENT_MISSES, load(sizes.keys) + sizes.prepared + "--misses=1 " + compacted,
               ("breccia, columns",), once=True)
    # Each of these takes a microsecond or more: fewer on a GPU, where others take nanoseconds.
    fewer = max(100, sizes.reads // (4 if sizes.has_gpu else 1))
    yield Case(RESIDENT_LZ4, load(sizes.part, "lz4") + f"--reads={fewer} " + compacted, BOTH,
               once=True)
    at_once = min(sizes.batch, RANGES_AT_ONCE)
    yield Case(RESIDENT_RANGES, load(sizes.part, batch=at_once) + NUMBERS +
               f"--reads={max(100, fewer // 2)} --benchmarks=filluniquerandom,compact" +
               6 * ",seekrandom@tree-warm", ("breccia, columns", "rocksdb"), once=True)
    if sizes.has_gpu:
        in_memory = "--benchmarks=filluniquerandom,"
        yield Case(RANGES, load(sizes.keys, batch=at_once) + NUMBERS + sizes.prepared +
                   f"--reads={max(100, fewer)} {in_memory}seekrandom" + 6 * ",seekrandom",
                   ("breccia, columns",), once=True)
        yield Case(UPDATES, load(sizes.keys) + NUMBERS + sizes.prepared +
                   f"{in_memory}readrandom" + 6 * ",mergerandom", ("breccia, columns",), once=True)
        # So few that most keys are in the tree alone until the end.
        yield Case(RESIDENT_UPDATES, load(sizes.keys, num=fewer // 2) + NUMBERS + sizes.prepared +
                   f"{in_memory}compact,readrandom@tree-warm" + 6 * ",mergerandom",
                   ("breccia, columns",), once=True)
    yield Case(RESIDENT_COLD, load(sizes.keys) + f"--reads={max(100, fewer // 4)} "
               "--benchmarks=filluniquerandom,compact" + 5 * f",{GET}@tree-cold",
               ("breccia, columns",), once=True)


def single_cases(sizes):
    single = f"--threads=1 --keys={sizes.few} --key_set=uniform "
    ways = ("breccia", "breccia, no device", "rocksdb") if sizes.has_gpu else BOTH
    again = 4 if sizes.has_gpu else 0
    yield Case(SINGLE, single + f"--num={sizes.singles} "
               "--benchmarks=filluniquerandom" + (2 + again) * ",readrandom@memtable" +
               ",readrandom@clean,overwrite,readrandom@tree-warm", ways, once=sizes.has_gpu)
    steps = ",".join(f"readrandom@clean:{rate}" for rate in sizes.rates)
    yield Case("latency over rate, single get 16 B/100 B", single +
               f"--num={max(50, sizes.singles // 4)} --benchmarks=filluniquerandom,{steps}", ways)


def ycsb_cases(sizes):
    # The paper's records, of 100 bytes; YCSB's keys have about 23.
    data = "-p fieldcount=1 -p fieldlength=100 "

    def ycsb(letters, records, requests, batch):
        first, *others = (f"{WORKLOADS}/workload{letter}" for letter in letters)
        return (f"ycsb -P {first} {''.join(f'--next {other} ' for other in others)}{data}"
                f"-p recordcount={records} -p operationcount={max(50, requests)} "
                f"--threads={sizes.threads} --batch_size={batch} --ready " +
                sizes.prepared.replace("=17179869184", "=34359738368"))  # behind the load, too

    count = sizes.reads * sizes.threads * (2 if sizes.has_gpu else 3)
    batch = max(2, sizes.batch // (1 if sizes.has_gpu else 4))
    if sizes.has_gpu:
        yield Case(YCSB, ycsb(TOGETHER, sizes.keys, count, batch))
        yield Case(YCSB_BESIDE, ycsb(TOGETHER, sizes.peer, count // 16, batch), ("rocksdb",))
        fifth = (f"--clean_bytes={sizes.keys * RECORD_BYTES // 5} --state=clean "
                 "--entry_cache_bytes=0 --residency_bytes=8000000000 --compression_type=none")
        yield Case(YCSB_FIFTH, ycsb(TOGETHER + "f", sizes.keys, count, batch) + fifth)
        yield Case(YCSB_E_FIFTH, ycsb("e", sizes.keys, count // 2, RANGES_AT_ONCE) + fifth)
        yield Case(MINUTE, f"ycsb -P {WORKLOADS}/workloada {data}-p recordcount={sizes.keys} "
                   f"-p operationcount={count // 2} -p maxexecutiontime={sizes.sustained} "
                   f"--threads={sizes.threads} --batch_size={64 << 10} "
                   "--residency_bytes=8000000000 --compression_type=none", BOTH, once=True)
    else:
        yield Case(YCSB, ycsb(TOGETHER, sizes.part, count, batch), BOTH)
        yield Case(YCSB_RESIDENT, ycsb(TOGETHER, sizes.keys, count, batch) + "--state=tree-warm "
                   "--residency_bytes=8000000000 --compression_type=none", BOTH)
    records = sizes.keys if sizes.has_gpu else sizes.part
    yield Case(YCSB_F, ycsb("f", records, count, batch))
    # A batch of scans returns fifty records for each.
    scans = (count // 64, max(2, sizes.batch // 64))
    yield Case(YCSB_E, ycsb("e", records, *scans), ("breccia",) if sizes.has_gpu else BOTH)
    if sizes.has_gpu:
        yield Case("ycsb e, batches, beside RocksDB",
                   ycsb("e", sizes.peer, scans[0] // 16, scans[1]), ("rocksdb",))
    yield Case("ycsb, single", ycsb(TOGETHER + "f", sizes.few, sizes.singles // 4, 1))


RATE, ALONE, P50 = "ops_per_sec_filling_included", "ops_per_sec_store_alone", "p50_us"


class Goal:
    """What must show of a step: its figure, or its ratio to what stands beside it.

    A step's name is that of its benchmark; `#2` behind it is the second pass, `#2+` all from the
    second on.
    """

    def __init__(self, what, case, step, goal, *, way="breccia", figure=RATE, beside=None):
        """beside: None, a figure of the machine, or (case, step, way)."""
        self.what, self.case, self.step, self.way = what, case, step, way
        self.figure, self.goal, self.beside = figure, goal, beside
        self.how = "at most" if figure == P50 else "at least"

    def unit(self):
        if self.beside is None:
            return shown(self.goal)
        return f"{self.goal:g}x"

    def words(self):
        return f"{self.how} {self.unit()}"


def ratio_goal(what, case, step, goal, **words):
    return Goal(what, case, step, goal, beside=(case, step, "rocksdb"), **words)


# On two cores, against RocksDB at its best.
GOALS = [
    ratio_goal("clean GET in batches", PART, f"{GET}@clean", 5),
    ratio_goal("tree-warm GET in batches", PART, f"{GET}@tree-warm", 1.3),
    *[ratio_goal(f"YCSB {letter.upper()} in batches", YCSB, f"workload{letter}", 3)
      for letter in "abcd"],
    *[ratio_goal(f"YCSB {letter.upper()} in batches, resident files", YCSB_RESIDENT,
                 f"workload{letter}", goal) for letter, goal in (("a", 3), ("c", 4))],
    *[ratio_goal(f"single {what}, p50", SINGLE, step, 1.1, figure=P50) for what, step in
      (("GET from memory", "readrandom@memtable"), ("GET, clean", "readrandom@clean"),
       ("GET, tree-warm", "readrandom@tree-warm"), ("PUT", "overwrite"))],
]

# On one GPU of the H100's or H200's class, 16 cores, log on tmpfs.
FILL, COLUMNS, REGISTERED = "filluniquerandom", "breccia, columns", "breccia, registered"
PASS = f"{GET}#2"  # behind the first, in which runs are still merged
SINGLE_PASSES = "readrandom@memtable#2+"
GPU_GOALS = [
    Goal("PUT 16 B/100 B", IN_MEMORY, FILL, 150e6),
    Goal("PUT 16 B/100 B, store alone", IN_MEMORY, FILL, 250e6, figure=ALONE),
    Goal("PUT 16 B/100 B by columns", IN_MEMORY, FILL, 220e6, way=COLUMNS),
    Goal("PUT 16 B/100 B sustained, bytes written, of the disk's rate", SUSTAINED, "overwrite",
         0.5, figure="disk_bytes_per_s", beside="disk_write_bytes_per_s"),
    Goal("PUT 8 B/8 B", NUMBERS_IN_MEMORY, FILL, 250e6),
    Goal("PUT 8 B/8 B by columns", NUMBERS_IN_MEMORY, FILL, 500e6, way=COLUMNS),
    Goal("GET 16 B/100 B from memory", IN_MEMORY, PASS, 200e6),
    Goal("the same, values in place", IN_MEMORY, PASS, 200e6, way="breccia, values in place"),
    *[goal for words, way in (("columns", COLUMNS), ("columns of registered memory", REGISTERED))
      for goal in (Goal(f"GET 16 B/100 B by {words}", IN_MEMORY, PASS, 280e6, way=way),
                   Goal("the same, of the rate at which rows are gathered", IN_MEMORY, PASS, 0.7,
                        way=way, beside="gather_128_byte_rows_per_s"),
                   Goal("the same, of the rate at which values are gathered into columns",
                        IN_MEMORY, PASS, 0.7, way=way, beside="gather_100_of_128_bytes_per_s"))],
    Goal("GET 16 B/100 B clean, of that from memory", FLUSHED, f"{GET}@clean#2+", 0.9,
         beside=(IN_MEMORY, PASS, "breccia")),
    Goal("clean budget of a tenth, Zipf 0.99", BUDGET, f"{GET}@clean#4+", 25e6),
    ratio_goal("tree alone, warm", PART, f"{GET}@tree-warm#1+", 1.3),
    Goal("misses, tree alone", MISSES, f"{GET}@tree-warm#4+", 100e6),
    *[Goal(f"GET from resident files{words}", case, f"{GET}@tree-warm#2+", goal, way=way)
      for case, words, way, goal in (
          (RESIDENT, "", "breccia", 150e6), (RESIDENT, " by columns", COLUMNS, 180e6),
          (RESIDENT_LEVELS, " that overlap", "breccia", 100e6),
          (RESIDENT_LEVELS, " that overlap, by columns", COLUMNS, 120e6),
          (RESIDENT_MISSES, ", misses", COLUMNS, 300e6))],
    Goal("the same, of the rate at which values of a mapped file are gathered", RESIDENT,
         f"{GET}@tree-warm#2+", 0.6, way=COLUMNS,
         beside="gather_100_of_128_bytes_of_a_mapped_file_per_s"),
    ratio_goal("GET from resident files of LZ4", RESIDENT_LZ4, f"{GET}@tree-warm#2+", 3),
    Goal("RANGE(100) 8 B/8 B from resident files by columns", RESIDENT_RANGES,
         "seekrandom@tree-warm#2+", 5e6, way=COLUMNS),
    Goal("the same, from memory", RANGES, "seekrandom#2+", 20e6, way=COLUMNS),
    Goal("UPDATE 8 B/8 B by columns from memory", UPDATES, "mergerandom#2+", 180e6, way=COLUMNS),
    Goal("the same, previous values in resident files", RESIDENT_UPDATES, "mergerandom#2+", 80e6,
         way=COLUMNS),
    Goal("keys of files become resident, bytes of files a second", RESIDENT,
         f"{GET}@tree-warm#2+", 5e9, way=COLUMNS, figure="residency_load_bytes_per_s"),
    Goal("GET from resident files that are not cached, of the disk's random reads", RESIDENT_COLD,
         f"{GET}@tree-cold", 0.8, way=COLUMNS, beside="disk_random_reads_per_s"),
    Goal("GET 8 B/8 B from memory", NUMBERS_IN_MEMORY, PASS, 350e6),
    Goal("GET 8 B/8 B by columns", NUMBERS_IN_MEMORY, PASS, 1200e6, way=COLUMNS),
    Goal("GET 8 B/8 B by columns of registered memory", NUMBERS_IN_MEMORY, PASS, 1200e6,
         way=REGISTERED),
    Goal("GET 8 B/8 B by columns, of the hash table's", NUMBERS_IN_MEMORY, PASS, 3, way=COLUMNS,
         beside=(NUMBERS_IN_MEMORY, PASS, "flatmap")),
    Goal("single GET on a device store, of the host backend's", SINGLE, SINGLE_PASSES, 1.1,
         figure=P50, beside=(SINGLE, SINGLE_PASSES, "breccia, no device")),
    *[Goal(f"YCSB {letter.upper()}", case, f"workload{letter}", goal)
      for letter, case, goal in (("a", YCSB, 60e6), ("b", YCSB, 90e6), ("c", YCSB, 120e6),
                                 ("d", YCSB, 90e6), ("f", YCSB_F, 50e6), ("e", YCSB_E, 1e6))],
    *[Goal(f"YCSB {letter.upper()}, a fifth in memory", case, f"workload{letter}", goal)
      for letter, case, goal in (("a", YCSB_FIFTH, 60e6), ("b", YCSB_FIFTH, 90e6),
                                 ("c", YCSB_FIFTH, 120e6), ("d", YCSB_FIFTH, 90e6),
                                 ("f", YCSB_FIFTH, 50e6), ("e", YCSB_E_FIFTH, 2e6))],
    *[Goal(f"YCSB {letter.upper()}, a fifth in memory, of RocksDB's best with a twentieth of the "
           "records", YCSB_FIFTH, f"workload{letter}", 30,
           beside=(YCSB_BESIDE, f"workload{letter}", "rocksdb")) for letter in "abcd"],
    ratio_goal("YCSB A for a minute, log and files on the disk", MINUTE, "workloada", 10),
    *[Goal(f"YCSB {letter.upper()}, of RocksDB's best with a twentieth of the records", YCSB,
           f"workload{letter}", 20, beside=(YCSB_BESIDE, f"workload{letter}", "rocksdb"))
      for letter in "abcd"],
]


def goals_of(rows):
    has_gpu = any(str(row.get("backend", "")).startswith("CUDA") for row in rows)
    return GPU_GOALS if has_gpu else GOALS


def places_of(goals):
    """(case, step, way) of goals and of what stands beside them."""
    beside = (goal.beside for goal in goals if isinstance(goal.beside, tuple))
    return [(goal.case, goal.step, goal.way) for goal in goals] + list(beside)


def needed(listed, goals):
    """Of the cases that are listed what goals name."""
    places = places_of(goals)
    for case in listed:
        own = [(step.split("#")[0], way) for name, step, way in places if name == case.name]
        if own:
            yield case.only({step for step, _ in own}, {way for _, way in own})


PASSES_MAX = 100
GOAL_HEAD = ["must show", "Breccia", "beside it", "ratio", "goal", "met", "RocksDB's settings"]


def shown_command(case, way, seed):
    """The command of a row, as it is written elsewhere: without this machine's folders."""
    words = ["breccia", "bench", *case.words, *WAYS[way], f"--seed={seed}"]
    return shlex.join(word.replace(WORKLOADS, "bench/workloads") for word in words)


def run(program, case, way, seed, folder, with_machine):
    """The rows of a run; none, and the reason on stderr, if the engine is not there."""
    database = os.path.join(folder, "db")
    shutil.rmtree(database, ignore_errors=True)
    words = ["--json", f"--db={database}", f"--seed={seed}", *WAYS[way]]
    words += [] if with_machine else ["--no_machine"]
    begin = time.monotonic()
    done = subprocess.run([program, "bench", *case.words, *words], capture_output=True, text=True,
                          check=False)
    shutil.rmtree(database, ignore_errors=True)
    seconds = time.monotonic() - begin
    print(f"{case.name} on {way}: {seconds:.1f} s", file=sys.stderr)
    if done.returncode != 0:
        print(f"{case.name} on {way}: exit code {done.returncode}\n{done.stderr}",
              file=sys.stderr)
        return []
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    command = shown_command(case, way, seed)
    return [{"case": case.name, "way": way, **row, "run_seconds": round(seconds, 1),
             "command": command} for row in rows]


def shown(rate):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.3g}"


def print_table(head, lines):
    print(f"\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def is_machine(row):
    return row["benchmark"] == "machine"


def by_step(rows):
    """Rows by (case, benchmark, way), in the order of their coming."""
    groups = defaultdict(list)
    for row in rows:
        if not is_machine(row):
            groups[row["case"], row["benchmark"], row["way"]].append(row)
    return groups


def rows_of(groups, place):
    """The rows of a goal's step."""
    case, step, way = place
    if not step.endswith("+"):
        return groups.get(place, [])
    base, first = step[:-1].split("#")
    found = []
    for number in range(int(first), PASSES_MAX):
        name = base if number == 1 else f"{base}#{number}"
        found += groups.get((case, name, way), [])
    return found


def median_of(rows, figure):
    return statistics.median(row[figure] for row in rows)


def print_rows(rows):
    lines = []
    for (case, benchmark, way), some in by_step(rows).items():
        rates = [row[RATE] for row in some]
        lines.append([case, benchmark, way, shown(statistics.median(rates)),
                      f"{shown(min(rates))} to {shown(max(rates))}" if len(rates) > 1 else "",
                      shown(median_of(some, "ops_per_sec_store_alone")),
                      *(f"{median_of(some, name):,.1f}" for name in (P50, "p99_us", "p999_us")),
                      str(max((row.get("stall_seconds", 0) for row in some), default=0) or "")])
    print_table(["case", "benchmark", "who", "filled ops/s", "runs", "store alone", "p50 us",
                 "p99 us", "p99.9 us", "stalls"], lines)


def figure_beside(goal, rows, groups):
    """The figures beside a goal's step, and their settings; ([], "") if it was not measured."""
    if isinstance(goal.beside, str):
        # The disk is measured where the case has its database.
        machines = [row for row in rows if is_machine(row)]
        own = [row for row in machines if row["case"] == goal.case]
        return [row[goal.beside] for row in own or machines], ""
    theirs = rows_of(groups, goal.beside)
    return [row[goal.figure] for row in theirs], theirs[0].get("settings", "") if theirs else ""


def goal_lines(rows, goals):
    """A line for each goal; those whose rows are missing say so."""
    groups = by_step(rows)
    lines = []
    for goal in goals:
        text = (lambda x: f"{x:.2f} us") if goal.figure == P50 else shown
        ours = [row[goal.figure] for row in rows_of(groups, (goal.case, goal.step, goal.way))]
        theirs, settings = ([], "") if goal.beside is None else figure_beside(goal, rows, groups)
        if not ours or (goal.beside is not None and not theirs):
            lines.append([goal.what, "", "", "not measured", goal.words(), "", ""])
            continue
        a = value = statistics.median(ours)
        b, ratio = "", ""
        if theirs:
            value = a / statistics.median(theirs)
            is_alike = not isinstance(goal.beside, tuple) or \
                goal.step.endswith("+") == goal.beside[1].endswith("+")
            between = spread(ours, theirs) if is_alike else ""
            b, ratio = text(statistics.median(theirs)), f"{value:.2f}x{between}"
        met = value >= goal.goal if goal.how == "at least" else value <= goal.goal
        fewest = min(len(ours), len(theirs) or len(ours))
        lines.append([goal.what, text(a), b, ratio, goal.words(),
                      ("yes" if met else "NO") + (f", of {fewest}" if fewest < 5 else ""),
                      settings])
    return lines


def spread(ours, theirs):
    """The least and the greatest ratio of a round, or of a pass; empty for one."""
    if len(ours) != len(theirs) or len(ours) < 2:
        return ""
    pairs = [a / b for a, b in zip(ours, theirs)]
    return f" ({min(pairs):.2f}-{max(pairs):.2f})"


def print_peers(rows):
    """How many times what each peer gives Breccia gives, where both ran."""
    groups = by_step(rows)
    lines = []
    for (case, benchmark, way), ours in groups.items():
        if not way.startswith("breccia"):
            continue
        for peer in ("rocksdb", "flatmap"):
            theirs = groups.get((case, benchmark, peer))
            if theirs:
                lines.append([case, benchmark, way, peer,
                              f"{median_of(ours, RATE) / median_of(theirs, RATE):.2f}x",
                              f"{median_of(ours, P50) / median_of(theirs, P50):.2f}x",
                              theirs[0].get("settings", "")])
    print_table(["case", "benchmark", "who", "beside", "ops/s", "p50", "the other's settings"],
                lines)


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
            # A case has other requests where others of its steps come before.
            steps = [word for word in row.get("command", "").split() if word.startswith(LIST)]
            hashes[row["case"], row["benchmark"], row["seed"], *steps].add(row["result_hash"])
    return [key for key, found in hashes.items() if len(found) > 1]


def print_ratios(rows):
    """Our rows have build 0, those of the other one build 1."""
    rates = defaultdict(lambda: ([], []))
    for row in rows:
        if not is_machine(row):
            rates[row["case"], row["benchmark"], row["way"]][row["build"]].append(row[RATE])
    lines = []
    for (case, benchmark, way), (ours, theirs) in rates.items():
        if len(ours) != len(theirs) or not ours:
            runs = f"{len(ours)} and {len(theirs)} runs"
            lines.append([case, benchmark, way, runs, "", "", ""])
            continue
        ratio, (low, middle, high) = ratio_line(ours, theirs)
        lines.append([case, benchmark, way, shown(statistics.median(ours)),
                      shown(statistics.median(theirs)), f"{ratio:.2f}",
                      f"{middle:.2f} ({low:.2f}-{high:.2f})"])
    print_table(["case", "benchmark", "who", "this", "other", "ratio of medians",
                 "pairs: quartiles"], lines)


def keep(arguments, rows):
    """Appends rows as they come, so that a run that is stopped has shown something."""
    if arguments.out:
        with open(arguments.out, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return rows


def against(arguments, chosen, folder):
    programs = [arguments.program, os.path.join(arguments.against, "breccia")]
    rows = []
    for turn in range(arguments.rounds or 5):
        for case in chosen:
            # A peer beside says nothing about two builds.
            for way in (way for way in case.ways if way.startswith("breccia")):
                # Who begins changes every round, so that warmth and wear favour neither.
                for build in (0, 1) if turn % 2 == 0 else (1, 0):
                    found = run(programs[build], case, way, turn + 1, folder, False)
                    rows += keep(arguments, [{**row, "build": build} for row in found])
    print_ratios(rows)
    return verdict(rows)


def verdict(rows):
    wrong = differing(rows)
    for case, benchmark, seed, *_ in wrong:
        print(f"{case}, {benchmark}, seed {seed}: different results for the same requests",
              file=sys.stderr)
    return 3 if wrong else 0


def read_rows(path):
    """The rows of a file that is there."""
    if not path or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def turns_of(chosen, rounds):
    """(turn, case, way) of all runs. A disk that was written to for a minute slows down what comes
    behind it, so the turns of such cases are the last."""
    turns = [(turn, case, way) for turn in range(rounds) for case in chosen
             if turn == 0 or not case.once
             # Who begins changes every round.
             for way in (case.ways if turn % 2 == 0 else case.ways[::-1])]
    return sorted(turns, key=lambda one: one[1].name in TO_DISK)


def left_of(turns, rows):
    """Those that no row is of."""
    done = {row["command"] for row in rows if "command" in row}
    return [(turn, case, way) for turn, case, way in turns
            if shown_command(case, way, turn + 1) not in done]


def expected_seconds(rows, case, way):
    """How long a run takes, going by those that were."""
    known = [row["run_seconds"] for row in rows
             if row["case"] == case.name and row["way"] == way and "run_seconds" in row]
    return max(known, default=60)


def standard(arguments, chosen, folder, disk_folder):
    begin = time.monotonic()
    rows = read_rows(arguments.out) if arguments.go_on else []
    turns = left_of(turns_of(chosen, arguments.rounds or 1), rows)
    left_out = 0
    is_known = False  # what this machine can do
    for turn, case, way in turns:
        end = time.monotonic() - begin + expected_seconds(rows, case, way)
        if arguments.minutes and end > 60 * arguments.minutes:
            left_out += 1
            continue
        to_disk = case.name in TO_DISK
        found = run(arguments.program, case, way, turn + 1, disk_folder if to_disk else folder,
                    with_machine=to_disk or not is_known)
        is_known = is_known or bool(found)
        rows += keep(arguments, found)
    for row in filter(is_machine, rows):
        print_machine(row)
    print_rows(rows)
    print_peers(rows)
    print_table(GOAL_HEAD, goal_lines(rows, goals_of(rows)))
    print(f"\n{time.monotonic() - begin:.0f} s in all", file=sys.stderr)
    if left_out:
        print(f"{left_out} runs were left out, as there was no time for them: --go_on with the "
              "same --out makes up for them", file=sys.stderr)
    return verdict(rows)


def name_commit():
    """Rows name the commit that is checked out here, unless the caller names another."""
    done = subprocess.run(["git", "-C", os.path.dirname(WORKLOADS), "describe", "--always",
                           "--dirty"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        os.environ.setdefault("BRECCIA_COMMIT", done.stdout.strip())


def self_test():
    def row(build, rate, found="a", seed=1, way="breccia"):
        return {"case": "c", "benchmark": "b", "way": way, "build": build, "seed": seed,
                "result_hash": found, RATE: rate}
    ratio, quartiles = ratio_line([2, 4, 6], [1, 4, 2])
    assert ratio == 2 and quartiles == [1.5, 2, 2.5], (ratio, quartiles)
    assert ratio_line([3], [2]) == (1.5, [1.5] * 3)
    assert not differing([row(0, 1), row(1, 1), row(0, 1, "b", 2), row(1, 1, None)])
    assert differing([row(0, 1), row(1, 1, "b")]) == [("c", "b", 1)]
    assert [shown(x) for x in (5, 1234, 2.5e6)] == ["5", "1.23 k", "2.5 M"]
    for has_gpu in (False, True):
        listed = list(cases(Sizes(has_gpu, 1)))
        names = [case.name for case in listed]
        assert len(set(names)) == len(names)
        assert all(way in WAYS for case in listed for way in case.ways)
        # Every goal, and what stands beside it, names a step that somebody runs, often enough.
        goals = GPU_GOALS if has_gpu else GOALS
        for all_of_it in (listed, list(needed(listed, goals))):
            for name, step, way in places_of(goals):
                found = next(one for one in all_of_it if one.name == name)
                base, _, passes = step.partition("#")
                least = int(passes.rstrip("+") or 1) + (4 if passes.endswith("+") else 0)
                runs = sum(word.count(base) for word in found.words)
                assert way in found.ways and runs >= least, (name, step, way)
    trimmed = list(needed([Case(PART, LIST + "fill,a,b#x,a", ("x", "y"))],
                          [Goal("a", PART, "a#2", 1, way="y")]))
    assert [(case.words, case.ways) for case in trimmed] == [([LIST + "fill,a,a"], ["y"])]
    goal = GOALS[0]
    rows = [{**row(0, 0, way=way), "case": goal.case, "benchmark": goal.step, goal.figure: rate}
            for way, rates in (("breccia", (40, 60, 50)), ("rocksdb", (10, 10, 9)))
            for rate in rates]
    lines = goal_lines(rows, GOALS)
    assert lines[0][:6] == [goal.what, "50", "10", "5.00x (4.00-6.00)", "at least 5x",
                            "yes, of 3"], \
        lines[0]
    assert goal_lines([rows[2], rows[3]], GOALS)[0][3] == "5.00x"
    assert all(line[3] == "not measured" for line in lines[1:])
    assert goal_lines([{**one, goal.figure: 49.9} if one["way"] == "breccia" else one
                       for one in rows], GOALS)[0][5] == "NO, of 3"
    share = Goal("share", goal.case, goal.step, 0.7, beside="gather")
    assert goal_lines(rows, [share])[0][3] == "not measured"
    machine = {"case": "any", "benchmark": "machine", "gather": 100}
    assert goal_lines(rows + [machine], [share])[0][3:6] == ["0.50x", "at least 0.7x", "NO, of 1"]
    own = {**machine, "case": goal.case, "gather": 50}
    assert goal_lines(rows + [machine, own], [share])[0][3] == "1.00x"
    absolute = Goal("absolute", goal.case, goal.step, 2e6)
    assert goal_lines(rows, [absolute])[0][1:6] == ["50", "", "", "at least 2 M", "NO, of 3"]
    assert goal_lines(2 * rows, [absolute])[0][5] == "NO"
    few = [Case(SUSTAINED, ""), Case("other", "", BOTH)]
    turns = turns_of(few, 2)
    assert [(turn, case.name, way) for turn, case, way in turns] == \
        [(0, "other", "breccia"), (0, "other", "rocksdb"), (1, "other", "rocksdb"),
         (1, "other", "breccia"), (0, SUSTAINED, "breccia"), (1, SUSTAINED, "breccia")], turns
    assert len(turns_of([Case("one", "", BOTH, once=True)], 5)) == 2
    passes = {("c", name, "w"): [number] for number, name in enumerate(("b", "b#2", "b#3"), 1)}
    assert [rows_of(passes, ("c", step, "w")) for step in ("b#2+", "b#1+", "b#2", "b#4")] == \
        [[2, 3], [1, 2, 3], [2], []]
    known = [{"case": "other", "way": "rocksdb", "seed": 1, "run_seconds": 70,
              "command": shown_command(few[1], "rocksdb", 1)}]
    assert left_of(turns, known) == turns[:1] + turns[2:]
    assert [expected_seconds(known, few[1], way) for way in BOTH] == [60, 70]
    print(f"standard: {len(names)} cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="a `breccia`")
    parser.add_argument("--against", help="folder of another build's `breccia`")
    parser.add_argument("--rounds", type=int, help="runs of each; default 1, with --against 5")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where databases are made")
    parser.add_argument("--disk_folder", help="where the databases of cases that are bound by the "
                        "disk are made; default: --folder, which may be in memory")
    parser.add_argument("--out", help="file that rows of JSON are appended to")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names hold such a word")
    parser.add_argument("--must_show", action="store_true",
                        help="only the cases that the last table names")
    parser.add_argument("--scale", type=float, default=1, help="sizes are so many times the usual")
    parser.add_argument("--minutes", type=float, help="no run begins that would end later, going "
                        "by how long it took before")
    parser.add_argument("--go_on", action="store_true", help="go on with what --out holds already: "
                        "runs that are in it are not made again")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if not arguments.program:
        parser.error("which program?")
    if arguments.against and (arguments.minutes or arguments.go_on):
        parser.error("--minutes and --go_on are not for --against")
    if arguments.go_on and not arguments.out:
        parser.error("--go_on with which rows? name their file: --out")
    sizes = Sizes(os.path.exists("/dev/nvidiactl"), arguments.scale)
    chosen = [case for case in cases(sizes)
              if not arguments.only or any(word in case.name for word in arguments.only)]
    if arguments.must_show:
        chosen = list(needed(chosen, GPU_GOALS if sizes.has_gpu else GOALS))
    if not arguments.against:
        name_commit()
    with (tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
          tempfile.TemporaryDirectory(dir=arguments.disk_folder or arguments.folder) as on_disk):
        if arguments.against:
            return against(arguments, chosen, folder)
        return standard(arguments, chosen, folder, on_disk)


if __name__ == "__main__":
    sys.exit(main())
