#!/usr/bin/env python3
"""Random writes under CPU load: RocksDB, and RocksDB whose compactions Breccia does.

    bench/compaction_load.py --library build/release/libbreccia_preload.so
                             --rocksdb_lib .deps/rocksdb-release/lib
                             [--value_sizes 32,128,1024,4096] [--gigabytes 5]
                             [--loads 0,20,40,60,80] [--ways rocksdb,breccia,uncompacted]
                             [--rounds 1] [--db /tmp] [--out FILE] [--plots FOLDER]
    bench/compaction_load.py --show --out FILE [--plots FOLDER]

Stock db_bench fills a new database at random, once as it is and once under the preload with
BRECCIA_COMPACTION=1, with the same flags, while stress-ng keeps the same cores busy. The clock
covers the writes, and a second one goes on until no compaction is left. A row of JSON for each run
is appended to FILE; at the end come a table, what must show, and drawings as SVG files in FOLDER.

The third way, uncompacted, is RocksDB whose compactions never run, and whose writes wait for none:
what is left of a ratio when compactions cost nothing at all.

Exit code 1: a run failed; why stands on stderr, and the others are there. 2: wrong arguments.
"""
import argparse
import glob
import json
import math
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from typing import NamedTuple

import charts
import report
import standard

WAYS = ("rocksdb", "breccia")
CEILING = "uncompacted"
NEVER = ["--disable_auto_compactions=1", "--level0_slowdown_writes_trigger=1000000",
         "--level0_stop_writes_trigger=1000000", "--soft_pending_compaction_bytes_limit=0",
         "--hard_pending_compaction_bytes_limit=0"]
KEY_SIZE = 16
# What must show: so many times RocksDB's throughput.
GOAL_VALUE_SIZE, GOAL_LOAD, GOAL = 128, 60, 2
# Of the time: with less RocksDB's writes were not held up by compactions.
STALL_SHARE_MIN = 0.05
# A database may take so much more room than its keys and values: files that wait to be compacted,
# outputs of compactions that run, the log.
ROOM = 2.5
PRELOAD = {"BRECCIA_COMPACTION": "1", "BRECCIA_COMPACTION_REPORT": "1"}
# What else says where compactions run: it is part of the command that a row holds.
WHERE = ("BRECCIA_BACKEND", "BRECCIA_DEVICE", "BRECCIA_DEVICE_BYTES")


class Failed(Exception):
    """A run that has no row, and why."""


class Run(NamedTuple):
    """One fill by one of the ways."""
    way: str
    value_size: int
    gigabytes: float
    cpu_load: int
    seed: int

    @property
    def keys(self):
        return max(1, int(self.gigabytes * 1e9 / (KEY_SIZE + self.value_size)))

    def case(self):
        return (f"fillrandom {KEY_SIZE} B/{self.value_size} B, {self.gigabytes:g} GB, "
                f"{self.cpu_load} % load")

    def __str__(self):
        return f"{self.case()}, {self.way}, seed {self.seed}"


def turns_of(how):
    """All runs. Who begins changes every round, and from one case to the next."""
    cases = [(value_size, gigabytes, load) for gigabytes in how.gigabytes
             for value_size in how.value_sizes for load in how.loads]
    return [Run(way, *case, turn + 1) for turn in range(how.rounds)
            for place, case in enumerate(cases)
            for way in how.ways[::1 if (turn + place) % 2 == 0 else -1]]


# ---- commands ----------------------------------------------------------------------------------


def flags_of(run, how):
    """db_bench's flags, without those that name this machine's folders; alike for WAYS."""
    # Compactions that never run would be waited for in vain.
    end = [] if run.way == CEILING else ["waitforcompaction", "stats"]
    return [f"--benchmarks={','.join(['fillrandom', 'stats', *end])}",
            f"--num={run.keys}", f"--writes={max(1, run.keys // how.threads)}",
            f"--threads={how.threads}", f"--key_size={KEY_SIZE}", f"--value_size={run.value_size}",
            "--compression_type=none", "--bloom_bits=10", f"--max_background_jobs={how.cores}",
            f"--subcompactions={how.subcompactions}", f"--write_buffer_size={64 << 20}",
            "--max_write_buffer_number=4", f"--disable_wal={int(how.disable_wal)}",
            "--statistics", "--histogram", f"--seed={run.seed}", *shlex.split(how.flags),
            *(NEVER if run.way == CEILING else [])]


def load_words(run, how):
    return ["--cpu", str(how.cores), "--cpu-load", str(run.cpu_load)]


def shown_command(run, how):
    """The command of a row, as it is written elsewhere: without this machine's folders."""
    words = [] if run.cpu_load == 0 else ["stress-ng", *load_words(run, how), "&"]
    words += ["LD_LIBRARY_PATH=ROCKSDB_LIB"] if how.rocksdb_lib else []
    if run.way == "breccia":
        told = {name: os.environ[name] for name in WHERE if name in os.environ}
        words += ["LD_PRELOAD=libbreccia_preload.so"]
        words += [f"{name}={value}" for name, value in {**PRELOAD, **told}.items()]
    return " ".join([*words, "db_bench", *map(shlex.quote, flags_of(run, how))])


def environment_of(way, how):
    """What a way's db_bench is started with; RocksDB's gets nothing of Breccia's."""
    found = {name: value for name, value in os.environ.items()
             if way == "breccia" or not name.startswith("BRECCIA_")}
    found.pop("LD_PRELOAD", None)
    if how.rocksdb_lib:
        before = found.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = how.rocksdb_lib + (":" + before if before else "")
    if way == "breccia":
        found.update(PRELOAD, LD_PRELOAD=how.library, BRECCIA_QUIET="0", BRECCIA_PRELOAD="1")
    return found


# ---- what programs say -------------------------------------------------------------------------


FILL = re.compile(r"^fillrandom +: .* (\d+) ops/sec ([\d.]+) seconds (\d+) operations", re.M)
LATENCY = re.compile(r"^Microseconds per write:\nCount: \d+ +Average: ([\d.]+).*\n.*\n"
                     r"Percentiles: .*\bP99: ([\d.]+) P99\.9: ([\d.]+)", re.M)
STALL = re.compile(r"^Cumulative stall: (\d+):(\d+):([\d.]+) H:M:S", re.M)
LEVEL0 = re.compile(r"^ +L0 +(\d+)/", re.M)
SUM = re.compile(r"^ +Sum +\S+ +\S+ \S+(.*)$", re.M)
EVENT = re.compile(r'EVENT_LOG_v1 \{"time_micros": (\d+),.*?"event": "(\w+)"')
SETTLING = ("compaction_finished", "trivial_move", "flush_finished")


def fill_figures(text, run):
    """What db_bench's output says of the writes, and of the tree when they ended and later."""
    fill, latency, stall = (pattern.search(text) for pattern in (FILL, LATENCY, STALL))
    if not (fill and latency and stall):
        raise Failed("db_bench's output lacks the line of fillrandom, its histogram or the stalls")
    seconds, requests = float(fill[2]), int(fill[3])
    hours, minutes, rest = (float(part) for part in stall.groups())
    level0, sums = LEVEL0.search(text), SUM.findall(text)
    return {
        "keys": requests,
        "seconds": seconds,
        "ops_per_sec": int(fill[1]),
        "mb_per_sec": round(requests * (KEY_SIZE + run.value_size) / 1e6 / max(seconds, 1e-3), 2),
        "mean_us": float(latency[1]),
        "p99_us": float(latency[2]),
        "p999_us": float(latency[3]),
        "stall_seconds": round(3600 * hours + 60 * minutes + rest, 3),
        "level0_files": int(level0[1]) if level0 else 0,
        "write_amplification": float(sums[-1].split()[7]) if sums else None,
        "settled": "): finished" in text,
    }


def log_figures(text):
    """(when the last file was written or moved, in seconds; compactions begun; ended)."""
    # Without a log the memtable is written as the database closes, which nobody waits for.
    events = EVENT.findall(text.partition("Shutdown: canceling all background work")[0])
    last = max((int(micros) for micros, event in events if event in SETTLING), default=0)
    begun, ended = (sum(event == name for _, event in events)
                    for name in ("compaction_started", "compaction_finished"))
    return last / 1e6, begun, ended


def job_figures(text):
    """What BRECCIA_COMPACTION_REPORT=1 printed: one part for each service."""
    places, left, errors = defaultdict(int), defaultdict(int), []
    offered = 0
    for line in text.replace("\r", "\n").splitlines():
        name, _, value = line.rpartition(": ")
        if name == "jobs offered":
            offered += int(value)
        elif name.startswith("jobs by "):
            places[name.removeprefix("jobs by ")] += int(value)
        elif name.startswith("left to RocksDB, "):
            left[name.removeprefix("left to RocksDB, ")] += int(value)
        elif line.startswith("last error: "):
            errors.append(line.removeprefix("last error: "))
    done = sum(count for place, count in places.items() if place != "RocksDB")
    return {"jobs_offered": offered, "jobs_done": done, "jobs_left": places["RocksDB"],
            "jobs_by": dict(places), "left_why": dict(left),
            "last_error": "; ".join(errors) or None}


NO_JOBS = {name: None for name in job_figures("")}


# ---- programs ----------------------------------------------------------------------------------


class Child:
    """A program in a process group of its own, which is gone at the end of the `with`, and dies
    with us if we are killed."""

    def __init__(self, words, **how):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *words],
                                        stdin=subprocess.DEVNULL, start_new_session=True, **how)
        self.code, self.cpu_seconds = None, None

    def wait(self, seconds=math.inf):
        """Whether it has ended within that time."""
        end = time.monotonic() + seconds
        while self.code is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_seconds = usage.ru_utime + usage.ru_stime
            elif time.monotonic() >= end:
                return False
            else:
                time.sleep(0.02)
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.wait(0):
                os.killpg(self.process.pid, number)
                self.wait(10)


class Nothing:
    """In the place of a program that does not run."""
    cpu_seconds = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def start_load(run, how, folder):
    """stress-ng, or Nothing."""
    if run.cpu_load == 0:
        return Nothing()
    said = os.path.join(folder, "stress-ng")
    with open(said, "wb") as file:
        load = Child([how.stress_ng, "--quiet", *load_words(run, how)], cwd=folder, stdout=file,
                     stderr=file)
    try:
        if load.wait(1):  # until all its processes run
            raise Failed(f"stress-ng ended with {load.code}: {tail_of(said)}")
    except BaseException:
        load.__exit__()
        raise
    return load


class Gpu:
    """Samples of the GPU's utilisation, each half second, if there is nvidia-smi."""

    def __init__(self, program):
        self.samples = []  # (when, per cent)
        self.child = Nothing()
        if program:
            self.child = Child([program, f"--id={os.environ.get('BRECCIA_DEVICE', '0')}",
                                "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits",
                                "-lms", "500"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.reader = threading.Thread(target=self.read, daemon=True)
            self.reader.start()

    def read(self):
        for line in self.child.process.stdout:
            try:
                self.samples.append((time.time(), float(line)))
            except ValueError:
                pass  # a GPU that does not tell

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.__exit__()
        if not isinstance(self.child, Nothing):
            self.reader.join(10)

    def mean(self, begin, end):
        """In per cent; None if nothing was sampled."""
        found = [share for when, share in self.samples if begin <= when <= end]
        return round(statistics.mean(found), 1) if found else None


def tail_of(path):
    """The last of what a program said, without db_bench's counting."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().replace("\r", "\n").splitlines()
    said = [line for line in lines if line.strip() and not line.startswith("... finished")]
    return "\n".join(said[-15:])


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def fill(run, how, folder):
    """Runs db_bench; returns (its output, when the writes ended, the Child)."""
    words = [how.db_bench, *flags_of(run, how), f"--db={os.path.join(folder, 'db')}"]
    output, filled_at = [], None
    with open(os.path.join(folder, "stderr"), "wb") as errors, \
            Child(words, env=environment_of(run.way, how), stdout=subprocess.PIPE, stderr=errors,
                  text=True, errors="replace") as child:
        # db_bench flushes its output behind each benchmark.
        for line in child.process.stdout:
            if filled_at is None and FILL.match(line):
                filled_at = time.time()
                say(f"  written: {line.strip()}; waiting for compactions")
            output.append(line)
        child.wait()
    return "".join(output), filled_at, child


def checked(run, folder, child, filled_at):
    """Raises what went wrong."""
    said = os.path.join(folder, "stderr")
    if child.code != 0 or filled_at is None:
        raise Failed(f"db_bench ended with {child.code}:\n{tail_of(said)}")
    if run.way == "breccia" and "breccia: compacts " not in read(said):
        raise Failed(f"the preload did not give the database its service:\n{tail_of(said)}")


def measured(run, how, folder):
    """The row of a run."""
    begin = time.monotonic()
    with start_load(run, how, folder) as load, Gpu(how.nvidia_smi) as gpu:
        output, filled_at, child = fill(run, how, folder)
    seconds = time.monotonic() - begin
    checked(run, folder, child, filled_at)
    figures = fill_figures(output, run)
    settled_at, begun, ended = log_figures(read(os.path.join(folder, "db", "LOG")))
    settled = figures["seconds"] + max(0, settled_at - filled_at)
    figures["settled"] = figures["settled"] and begun == ended
    jobs = NO_JOBS if run.way != "breccia" else job_figures(read(os.path.join(folder, "stderr")))
    share = load.cpu_seconds and round(100 * load.cpu_seconds / seconds / how.cores)
    return {"benchmark": "compaction_load", "case": run.case(), **run._asdict(), **figures,
            "seconds_settled": round(settled, 3),
            "ops_per_sec_settled": round(figures["keys"] / max(settled, 1e-3)),
            "gpu_utilisation": gpu.mean(filled_at - figures["seconds"],
                                        max(filled_at, settled_at)),
            "cpu_seconds": round(child.cpu_seconds, 2), "cpu_load_measured": share,
            "compactions": ended, **jobs, "key_size": KEY_SIZE, "threads": how.threads,
            "rocksdb": how.rocksdb, "rocksdb_assertions": how.has_assertions,
            "machine": how.machine, "commit": os.environ.get("BRECCIA_COMMIT"),
            "run_seconds": round(seconds, 1), "command": shown_command(run, how)}


def one(run, how):
    """The row of a run in a folder of its own; none, and the reason on stderr, if it failed."""
    with tempfile.TemporaryDirectory(dir=how.db, prefix="compaction-load-") as folder:
        try:
            need, free = ROOM * run.gigabytes, shutil.disk_usage(folder).free / 1e9
            if need > free:
                raise Failed(f"a database may take {need:.1f} GB, and {free:.1f} GB are free in "
                             "the folder of --db")
            row = measured(run, how, folder)
        except (Failed, OSError) as error:
            say(f"{run}: {error}")
            return None
    say(f"  {standard.shown(row['ops_per_sec'])} writes/s, "
        f"{standard.shown(row['ops_per_sec_settled'])} until compacted, stalls "
        f"{row['stall_seconds']:.1f} s, {row['run_seconds']:.0f} s in all"
        + ("" if row["settled"] else "; compactions were left"))
    return row


# ---- rounds ------------------------------------------------------------------------------------


def say(words):
    print(words, file=sys.stderr, flush=True)


def expected_seconds(rows, run):
    """How long a run takes, going by such runs, else by the nearest of the same way and load."""
    def distance(row):
        return abs(math.log(row["keys"] / run.keys))
    known = [row for row in rows if (row["way"], row["cpu_load"]) == (run.way, run.cpu_load)]
    such = [row["run_seconds"] for row in known
            if (row["value_size"], row["gigabytes"]) == (run.value_size, run.gigabytes)]
    if such:
        return max(such)
    if not rows:
        return 15 + run.keys / 1e5
    row = min(known or rows, key=distance)
    # By keys or by bytes, whichever is more.
    return row["run_seconds"] * max(run.keys / row["keys"], run.gigabytes / row["gigabytes"])


def left_of(turns, rows, how):
    """Those that no row is of."""
    done = {row.get("command") for row in rows}
    return [run for run in turns if shown_command(run, how) not in done]


def all_of(how):
    """Runs what is to be run; returns the rows of what was asked for, how many runs failed, and how
    many there was no time for."""
    begin = time.monotonic()
    turns = turns_of(how)
    asked = {shown_command(run, how) for run in turns}
    rows = standard.read_rows(how.out) if how.go_on else []
    rows = [row for row in rows if row.get("benchmark") == "compaction_load"]
    turns, failed, left_out = left_of(turns, rows, how), 0, 0
    for place, run in enumerate(turns):
        takes = expected_seconds(rows, run)
        if how.minutes and time.monotonic() - begin + takes > 60 * how.minutes:
            left_out += 1
            continue
        rest = sum(expected_seconds(rows, later) for later in turns[place:])
        say(f"{place + 1} of {len(turns)}: {run}: some {takes:.0f} s, all that is left "
            f"{rest / 60:.0f} min")
        row = one(run, how)
        failed += row is None
        rows += standard.keep(how, [row] if row else [])
    say(f"{time.monotonic() - begin:.0f} s in all")
    # The file may hold runs with other flags.
    return [row for row in rows if row.get("command") in asked], failed, left_out


# ---- results -----------------------------------------------------------------------------------


def by_case(rows):
    """{(gigabytes, value size, load): {way: rows}}, in order."""
    cases = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cases[row["gigabytes"], row["value_size"], row["cpu_load"]][row["way"]].append(row)
    return {key: cases[key] for key in sorted(cases)}


def figures_of(rows, name):
    return [row[name] for row in rows if row.get(name) is not None]


def middle(rows, name):
    values = figures_of(rows, name)
    return statistics.median(values) if values else None


def ratio_of(ways, name, who="breccia"):
    """Its median of RocksDB's; None if one of them is missing, or is zero."""
    ours, theirs = (middle(ways.get(way, []), name) for way in (who, "rocksdb"))
    return ours / theirs if ours and theirs else None


def shown_ratio(ratio):
    return "" if ratio is None else f"{ratio:.2f}x"


HEAD = ["GB", "value", "load", "who", "runs", "writes/s", "MB/s", "writes/s until compacted",
        "mean us", "p99 us", "p99.9 us", "stalls, s", "GPU", "CPU, s", "jobs done of offered",
        "of RocksDB's", "until compacted"]


def table_lines(rows):
    """A line for each way of each case: medians, and ratios to RocksDB."""
    lines = []
    for (gigabytes, value_size, load), ways in by_case(rows).items():
        for way in (way for way in (*WAYS, CEILING) if way in ways):
            some = ways[way]
            gpu, offered = middle(some, "gpu_utilisation"), middle(some, "jobs_offered")
            jobs = "" if offered is None else f"{middle(some, 'jobs_done'):g} of {offered:g}"
            ratios = [ratio_of(ways, name, way) if way != "rocksdb" else None
                      for name in ("ops_per_sec", "ops_per_sec_settled")]
            lines.append([
                f"{gigabytes:g}", f"{value_size} B", f"{load} %", way, str(len(some)),
                standard.shown(middle(some, "ops_per_sec")), f"{middle(some, 'mb_per_sec'):.1f}",
                standard.shown(middle(some, "ops_per_sec_settled")),
                *(f"{middle(some, name):,.1f}" for name in ("mean_us", "p99_us", "p999_us")),
                f"{middle(some, 'stall_seconds'):.1f}", "" if gpu is None else f"{gpu:.0f} %",
                f"{middle(some, 'cpu_seconds'):.1f}", jobs, *map(shown_ratio, ratios)])
    return lines


GOAL_HEAD = ["must show", "Breccia", "RocksDB", "ratio", "until compacted", "goal", "met",
             "RocksDB's stalls", "without compactions"]


def goal_line(gigabytes, ways):
    what = f"{gigabytes:g} GB, {GOAL_VALUE_SIZE} B at {GOAL_LOAD} % load"
    goal = f"at least {GOAL}x"
    ratio = ratio_of(ways, "ops_per_sec")
    if ratio is None:
        return [what, "", "", "not measured", "", goal, "", "", ""]
    ours, theirs = (middle(ways[way], "ops_per_sec") for way in ("breccia", "rocksdb"))
    share = middle(ways["rocksdb"], "stall_seconds") / middle(ways["rocksdb"], "seconds")
    share /= middle(ways["rocksdb"], "threads")
    why = f"{share:.0%} of the time" + ("" if share >= STALL_SHARE_MIN else
                                        ": compactions did not hold its writes up")
    fewest = min(len(ways[way]) for way in WAYS)
    return [what, standard.shown(ours), standard.shown(theirs), shown_ratio(ratio),
            shown_ratio(ratio_of(ways, "ops_per_sec_settled")), goal,
            ("yes" if ratio >= GOAL else "NO") + (f", of {fewest}" if fewest < 5 else ""), why,
            shown_ratio(ratio_of(ways, "ops_per_sec", CEILING))]


def goal_lines(rows, sizes):
    cases = by_case(rows)
    return [goal_line(gigabytes, cases.get((gigabytes, GOAL_VALUE_SIZE, GOAL_LOAD), {}))
            for gigabytes in sizes]


DOTS = (("ops_per_sec", "throughput", "Throughput of random writes", "writes a second"),
        ("ops_per_sec_settled", "settled", "Throughput until all is compacted",
         "writes a second, by the time until no compaction is left"),
        ("mean_us", "mean", "Mean latency of a write", "microseconds"),
        ("p99_us", "p99", "99th percentile of the latency of a write", "microseconds"))


def drawings(rows):
    """Figures over load for each size; on the right Breccia's as a multiple of RocksDB's."""
    cases = by_case(rows)
    series = {way: report.KNOWN[way] for way in WAYS if any(way in ways for ways in cases.values())}
    for figure, name, title, unit in DOTS:
        lines = []
        for (gigabytes, value_size, load), ways in cases.items():
            marks = {way: (middle(some, figure), min(figures_of(some, figure)),
                           max(figures_of(some, figure))) for way, some in ways.items()
                     if way in WAYS}
            ratio = ratio_of(ways, figure)
            lines.append((f"{gigabytes:g} GB, values of {value_size} B", f"{load} % load", marks,
                          f"{report.times(ratio)} RocksDB" if ratio else ""))
        yield charts.dots(f"compaction-load-{name}", title, unit, lines, series)
    yield from share_drawings(cases)


def share_drawings(cases):
    """Shares of the time: of stalls, and of the GPU, where there is one."""
    shares = {"stalls": [], "gpu": []}
    for (gigabytes, value_size, load), ways in cases.items():
        for way, some in ((way, ways[way]) for way in WAYS if way in ways):
            place = f"{gigabytes:g} GB, values of {value_size} B", f"{load} % load, {way}"
            time_of_all = middle(some, "seconds") * middle(some, "threads")
            stalled, gpu = middle(some, "stall_seconds"), middle(some, "gpu_utilisation")
            shares["stalls"].append((*place, stalled / time_of_all, f"{stalled:.1f} s"))
            if gpu is not None and way == "breccia":
                shares["gpu"].append((*place, gpu / 100, ""))
    yield charts.bars("compaction-load-stalls", "Writes held up", shares["stalls"],
                      "of the time of the writes, of all threads")
    if shares["gpu"]:
        yield charts.bars("compaction-load-gpu", "Utilisation of the GPU", shares["gpu"],
                          "mean of samples, of the time until all is compacted")


def show(rows, how):
    if not rows:
        return
    standard.print_table(HEAD, table_lines(rows))
    standard.print_table(GOAL_HEAD, goal_lines(rows, how.gigabytes))
    if how.plots:
        os.makedirs(how.plots, exist_ok=True)
        for drawing in drawings(rows):
            with open(os.path.join(how.plots, drawing.name + ".svg"), "w",
                      encoding="utf-8") as file:
                file.write(drawing.svg())


# ---- the machine, arguments --------------------------------------------------------------------


def machine_name(nvidia_smi):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = re.findall(r"^model name\s*: (.*)$", file.read(), re.M)
    name = f"{models[0] if models else 'unknown processor'}, {cores()} cores"
    if not nvidia_smi:
        return name
    done = subprocess.run([nvidia_smi, "--query-gpu=name", "--format=csv,noheader"],
                          capture_output=True, text=True, check=False)
    names = done.stdout.splitlines()
    return f"{name}, {names[0].strip()}" if done.returncode == 0 and names else name


def cores():
    return len(os.sched_getaffinity(0))


def library_of(how):
    """The librocksdb that db_bench loads; None if it holds RocksDB itself."""
    done = subprocess.run(["ldd", how.db_bench], capture_output=True, text=True, check=False,
                          env=environment_of("rocksdb", how))
    found = re.search(r"librocksdb\S* => (\S+)", done.stdout)
    return found[1] if found else None


def has_assertions(library):
    """A build with NDEBUG does not import that function."""
    with open(library, "rb") as file:
        return b"__assert_fail" in file.read()


def wrong_arguments(how):
    """What is wrong; None if nothing is."""
    if how.go_on and not how.out:
        return "--go_on with which rows? name their file: --out"
    if not set(how.ways) <= {*WAYS, CEILING}:
        return f"--ways are {', '.join((*WAYS, CEILING))}"
    if how.threads < 1 or how.rounds < 1 or min(how.gigabytes) <= 0 or min(how.value_sizes) < 1:
        return "--threads, --rounds, --gigabytes and --value_sizes are numbers above zero"
    if not all(0 <= load <= 100 for load in how.loads):
        return "--loads are per cent of each core"
    if not how.db_bench or not os.access(how.db_bench, os.X_OK):
        return "no db_bench: install the package rocksdb-tools, or name it with --db_bench"
    if any(how.loads) and not (how.stress_ng and os.access(how.stress_ng, os.X_OK)):
        return ("no stress-ng, which loads above 0 need: install the package stress-ng, or name it "
                "with --stress_ng")
    if "breccia" in how.ways and not (how.library and os.path.isfile(how.library)):
        return "where is libbreccia_preload.so? name it with --library"
    if how.rocksdb_lib and not glob.glob(os.path.join(how.rocksdb_lib, "librocksdb.so.*")):
        return f"no librocksdb.so in --rocksdb_lib {how.rocksdb_lib}"
    return None


def look_around(how):
    """What rows say of the machine and of RocksDB; returns what is wrong."""
    library = library_of(how)
    if library is None:
        return f"{how.db_bench} holds RocksDB as a static library, which the preload cannot reach"
    how.cores = cores()
    how.nvidia_smi = shutil.which("nvidia-smi")
    how.machine = machine_name(how.nvidia_smi)
    how.has_assertions = has_assertions(library)
    done = subprocess.run([how.db_bench, "--version"], capture_output=True, text=True, check=False,
                          env=environment_of("rocksdb", how))
    how.rocksdb = (done.stdout.split() or ["unknown"])[-1]
    if how.has_assertions:
        say("this librocksdb has assertions on, which make it slow: no fair comparison. Name a "
            "release build with --rocksdb_lib (`./dev rocksdb-release`)")
    return None


def numbers(kind):
    def read_them(text):
        return [kind(part) for part in text.split(",")]
    return read_them


def parser_of():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=os.path.abspath, help="libbreccia_preload.so")
    parser.add_argument("--rocksdb_lib", type=os.path.abspath, metavar="FOLDER",
                        help="where a release build of librocksdb lies; it is used by both")
    parser.add_argument("--db_bench", default=shutil.which("db_bench"))
    parser.add_argument("--stress_ng", default=shutil.which("stress-ng"))
    parser.add_argument("--value_sizes", type=numbers(int), default=[32, 128, 1024, 4096])
    parser.add_argument("--gigabytes", type=numbers(float), default=[5.0],
                        help="keys and values, in 10^9 bytes")
    parser.add_argument("--loads", type=numbers(int), default=[0, 20, 40, 60, 80],
                        help="per cent of each core that stress-ng takes")
    parser.add_argument("--ways", type=numbers(str), default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="that write, in db_bench")
    parser.add_argument("--subcompactions", type=int, default=1, help="of both")
    parser.add_argument("--disable_wal", action="store_true", help="write no log")
    parser.add_argument("--flags", default="", help="more flags for db_bench, of both")
    parser.add_argument("--db", default=tempfile.gettempdir(), metavar="FOLDER",
                        help="where databases are made")
    parser.add_argument("--out", help="file that rows of JSON are appended to")
    parser.add_argument("--plots", metavar="FOLDER", help="for drawings")
    parser.add_argument("--minutes", type=float, help="no run begins that would end later, going "
                        "by how long such runs took")
    parser.add_argument("--go_on", action="store_true", help="go on with what --out holds already: "
                        "runs that are in it are not made again")
    parser.add_argument("--show", action="store_true", help="make no run: show what --out holds")
    parser.add_argument("--self-test", action="store_true")
    return parser


def end_by_signal(number, _):
    sys.exit(128 + number)  # an exception, so that no program is left


def main(words=None):
    parser = parser_of()
    how = parser.parse_args(words)
    if how.self_test:
        return self_test()
    if how.show:
        if not how.out:
            parser.error("--show wants --out")
        show([row for row in standard.read_rows(how.out)
              if row.get("benchmark") == "compaction_load"], how)
        return 0
    wrong = wrong_arguments(how) or look_around(how)
    if wrong:
        parser.error(wrong)
    signal.signal(signal.SIGTERM, end_by_signal)
    standard.name_commit()
    rows, failed, left_out = all_of(how)
    show(rows, how)
    if left_out:
        say(f"{left_out} runs were left out, as there was no time for them: --go_on with the same "
            "--out makes up for them")
    return 1 if failed else 0


# ---- self test ---------------------------------------------------------------------------------


OUTPUT = """\
DB path: [/db]
fillrandom   :      12.795 micros/op 78153 ops/sec 3.199 seconds 250000 operations;   10.7 MB/s
Microseconds per write:
Count: 250000 Average: 12.8013  StdDev: 120.67
Min: 4  Median: 8.4713  Max: 19619
Percentiles: P50: 8.47 P75: 9.74 P99: 36.43 P99.9: 109.64 P99.99: 4917.65
------------------------------------------------------
(       3,       4 ]       31   0.012%   0.012% 

** Compaction Stats [default] **
Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp ...
------------------------------------------------------------------------------------------------
  L0     12/0    6.37 MB   0.5      0.0     0.0      0.0       0.0      0.0       0.0   1.0      0.0
 Sum      7/0   25.22 MB   0.0      0.0     0.0      0.0       0.1      0.0       0.0   1.9     25.1
Cumulative stall: 00:01:2.500 H:M:S, 0.1 percent
Interval stall: 00:00:0.000 H:M:S, 0.0 percent
waitforcompaction(/db): started
waitforcompaction(/db): active(rocksdb.num-running-compactions). Sleep 10 seconds
waitforcompaction(/db): finished
  L0      2/0    6.37 MB   0.5      0.0     0.0      0.0       0.0      0.0       0.0   1.0      0.0
 Sum      7/0   25.22 MB   0.0      0.0     0.0      0.0       0.1      0.0       0.0   2.5     25.1
Cumulative stall: 00:01:2.500 H:M:S, 0.1 percent
"""
LOG = """\
2026/11/25-13:51:01.333 EVENT_LOG_v1 {"time_micros": 1000000, "job": 6, "event": \
"compaction_started", "files_L0": [15, 13], "score": 1}
2026/11/25-13:51:01.544 EVENT_LOG_v1 {"time_micros": 3500000, "job": 6, "event": \
"compaction_finished", "output_level": 1, "lsm_state": [0, 3]}
2026/11/25-13:51:01.545 EVENT_LOG_v1 {"time_micros": 3600000, "cf_name": "default", "job": 7, \
"event": "table_file_creation", "file_number": 35}
2026/11/25-13:51:01.546 EVENT_LOG_v1 {"time_micros": 3700000, "job": 7, "event": \
"flush_finished", "lsm_state": [1, 3]}
2026/11/25-13:51:09.546 11742 [db/db_impl/db_impl.cc:496] Shutdown: canceling all background work
2026/11/25-13:51:09.547 EVENT_LOG_v1 {"time_micros": 9900000, "job": 8, "event": \
"flush_finished", "lsm_state": [2, 3]}
"""
REPORT = """\
breccia: compacts /db, which RocksDB serves (BRECCIA_COMPACTION=0 turns it off)
... finished 100 ops\rbreccia: compactions
jobs offered: 5
jobs by device: 2
jobs by host: 1
jobs by RocksDB: 2
left to RocksDB, a small job: 1
left to RocksDB, RocksDB is faster: 1
bytes read: 12481823
pace of host: 4.104
last error: IO error: no space: disk full
"""


def test_parsers():
    run = Run("breccia", 128, 0.05, 0, 1)
    assert run.keys == 347222, run.keys
    figures = fill_figures(OUTPUT, run)
    assert figures == {
        "keys": 250000, "seconds": 3.199, "ops_per_sec": 78153, "mb_per_sec": 11.25,
        "mean_us": 12.8013, "p99_us": 36.43, "p999_us": 109.64, "stall_seconds": 62.5,
        "level0_files": 12, "write_amplification": 2.5, "settled": True}, figures
    for part in ("fillrandom ", "Microseconds", "Cumulative"):
        try:
            fill_figures(OUTPUT.replace(part, "other"), run)
        except Failed:
            continue
        raise AssertionError(part)
    assert not fill_figures(OUTPUT.partition("waitforcompaction")[0], run)["settled"]
    assert log_figures(LOG) == (3.7, 1, 1) and log_figures("") == (0, 0, 0)
    jobs = job_figures(REPORT)
    assert jobs == {
        "jobs_offered": 5, "jobs_done": 3, "jobs_left": 2,
        "jobs_by": {"device": 2, "host": 1, "RocksDB": 2},
        "left_why": {"a small job": 1, "RocksDB is faster": 1},
        "last_error": "IO error: no space: disk full"}, jobs
    assert job_figures(REPORT + REPORT)["jobs_offered"] == 10
    assert set(NO_JOBS.values()) == {None}


def test_turns(how):
    turns = turns_of(how)
    assert [(run.value_size, run.cpu_load, run.way, run.seed) for run in turns] == [
        (128, 0, "rocksdb", 1), (128, 0, "breccia", 1),
        (128, 60, "breccia", 1), (128, 60, "rocksdb", 1),
        (128, 0, "breccia", 2), (128, 0, "rocksdb", 2),
        (128, 60, "rocksdb", 2), (128, 60, "breccia", 2)], turns
    commands = [shown_command(run, how) for run in turns]
    assert len(set(commands)) == len(turns)
    assert commands[1].startswith("LD_LIBRARY_PATH=ROCKSDB_LIB LD_PRELOAD=libbreccia_preload.so "
                                  "BRECCIA_COMPACTION=1"), commands[1]
    assert commands[3].startswith("stress-ng --cpu 4 --cpu-load 60 & LD_LIBRARY_PATH"), commands[3]
    assert not any("/some" in command for command in commands)
    # The ways differ in nothing but the environment; the third is told not to compact.
    assert flags_of(turns[0], how) == flags_of(turns[1], how)
    ceiling = flags_of(turns[0]._replace(way=CEILING), how)
    assert ceiling[0] == "--benchmarks=fillrandom,stats", ceiling
    assert ceiling[1:] == flags_of(turns[0], how)[1:] + NEVER
    os.environ["BRECCIA_BACKEND"] = "host"
    ours, theirs = (environment_of(way, how) for way in ("breccia", "rocksdb"))
    del os.environ["BRECCIA_BACKEND"]
    assert ours["LD_PRELOAD"] == "/some/libbreccia_preload.so" and ours["BRECCIA_BACKEND"] == "host"
    assert "LD_PRELOAD" not in theirs and not any(name.startswith("BRECCIA_") for name in theirs)
    assert ours["LD_LIBRARY_PATH"] == theirs["LD_LIBRARY_PATH"]
    assert ours["LD_LIBRARY_PATH"].startswith("/some/lib")
    rows = [test_row("rocksdb", 0, 100), {"command": commands[2]}]
    assert left_of(turns, rows, how) == turns[:2] + turns[3:]


def test_row(way, load, rate, seed=1):
    run = Run(way, 128, 5.0, load, seed)
    ours = {"gpu_utilisation": 30.0, "jobs_offered": 4, "jobs_done": 3} if way == "breccia" else {}
    return {"benchmark": "compaction_load", "case": run.case(), **run._asdict(), "keys": run.keys,
            "seconds": 100.0, "ops_per_sec": rate, "ops_per_sec_settled": rate / 2,
            "mb_per_sec": 1.0, "mean_us": 5.0, "p99_us": 1234.5, "p999_us": 3000.0,
            "stall_seconds": 40.0 if load else 0.0, "cpu_seconds": 200.0, "threads": 1,
            "run_seconds": 120.0 + load, **NO_JOBS, **ours}


def test_results():
    rates = {"rocksdb": (100e3, 90e3, 110e3), "breccia": (210e3, 190e3, 220e3)}
    rows = [test_row(way, load, rate, seed) for load in (0, 60) for way in WAYS
            for seed, rate in enumerate(rates[way], 1)]
    lines = table_lines(rows)
    assert lines[1] == ["5", "128 B", "0 %", "breccia", "3", "210 k", "1.0", "105 k", "5.0",
                        "1,234.5", "3,000.0", "0.0", "30 %", "200.0", "3 of 4", "2.10x",
                        "2.10x"], lines[1]
    assert lines[2][3:6] == ["rocksdb", "3", "100 k"] and lines[2][12:] == ["", "200.0", "", "", ""]
    assert len(lines) == 4 and all(len(line) == len(HEAD) for line in lines)
    ceiling = [test_row(CEILING, 60, 250e3)]
    met, missing = goal_lines(rows + ceiling, [5.0, 20.0])
    assert met == ["5 GB, 128 B at 60 % load", "210 k", "100 k", "2.10x", "2.10x", "at least 2x",
                   "yes, of 3", "40% of the time", "2.50x"], met
    last = table_lines(rows + ceiling)[-1]
    assert last[3] == CEILING and last[15:] == ["2.50x", "2.50x"], last
    assert missing[3] == "not measured" and len(missing) == len(GOAL_HEAD)
    slower = [{**row, "stall_seconds": 1.0} if row["way"] == "rocksdb" else
              {**row, "ops_per_sec": 199e3} for row in rows]
    assert goal_lines(slower, [5.0])[0][6:] == \
        ["NO, of 3", "1% of the time: compactions did not hold its writes up", ""]
    names = [drawing.name for drawing in drawings(rows) if drawing.svg()]
    assert names == [f"compaction-load-{name}" for name in
                     ("throughput", "settled", "mean", "p99", "stalls", "gpu")], names
    # The page of results takes the rows as they are, each case a group of its own.
    for row in rows:
        report.checked(json.dumps(row))
    assert len(report.groups_of(rows)) == 4
    run = Run("rocksdb", 128, 5.0, 60, 4)
    assert expected_seconds([], run) == 15 + run.keys / 1e5
    assert expected_seconds(rows, run) == 180
    assert expected_seconds(rows, run._replace(gigabytes=10.0)) > 359
    assert expected_seconds(rows, run._replace(value_size=32)) > 500
    return len(lines)


def test_arguments():
    def wrong(words):
        return wrong_arguments(parser_of().parse_args(["--db_bench=/bin/sh", *words.split()]))
    assert wrong("--ways=rocksdb --loads=0") is None
    for words, part in (
            ("--ways=rocksdb --loads=0,60 --stress_ng=/nowhere", "package stress-ng"),
            ("--ways=rocksdb --loads=0 --db_bench=/nowhere", "package rocksdb-tools"),
            ("--ways=rocksdb --loads=101", "per cent"), ("--ways=other --loads=0", "--ways"),
            ("--loads=0", "--library"), ("--ways=rocksdb --loads=0 --go_on", "--out"),
            ("--ways=rocksdb --loads=0 --rocksdb_lib=/nowhere", "librocksdb"),
            ("--ways=rocksdb --loads=0 --gigabytes=0", "above zero")):
        assert part in (wrong(words) or ""), words


def test_children():
    with Child(["sleep", "100"]) as child:
        assert not child.wait(0)
    assert child.code == -signal.SIGTERM and child.cpu_seconds < 1
    with Child(["sh", "-c", "echo 7; exec sleep 0.1"], stdout=subprocess.PIPE) as child:
        assert child.process.stdout.read() == b"7\n" and child.wait() and child.code == 0
    with Gpu(None) as gpu:
        assert gpu.mean(0, math.inf) is None
    gpu.samples = [(1, 10.0), (2, 20.0), (3, 60.0)]
    assert gpu.mean(2, 3) == 40


def self_test():
    how = parser_of().parse_args(
        ["--value_sizes=128", "--loads=0,60", "--rounds=2", "--rocksdb_lib=/some/lib",
         "--library=/some/libbreccia_preload.so"])
    how.cores = 4
    test_parsers()
    test_turns(how)
    lines = test_results()
    test_arguments()
    test_children()
    print(f"compaction_load: {lines} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
