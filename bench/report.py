#!/usr/bin/env python3
"""A page of results: `./dev bench report FOLDER`.

    bench/report.py FOLDER|FILE ... [--out FOLDER]

Reads the rows of all *.jsonl files, as `breccia bench --json-out-file` and `bench/standard.py
--out` write them, older ones too, and writes report.html, one page that needs nothing else, and the
drawings in it as SVG files for other documents; into --out, or `report` in the first folder. Runs
of one step in one file make a group: its median, and least to greatest. Files are never mixed, as
machines of one kind differ.

Exit code 1: some lines could not be read. They are named on stderr and on the page; the rest is
there. 2: nothing could be read, or nothing written.
"""
import argparse
import html
import json
import math
import os
import re
import statistics
import sys
from collections import defaultdict

import charts
import standard

PERCENTILES = (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"))
# What rows of one group have in common, where they have it.
CONFIGURATION = ("commit", "build", "machine", "backend", "state", "threads", "batch_size", "keys",
                 "num", "key_set", "key_size", "value_size", "skew", "misses", "columns",
                 "prebuilt", "target_rate", "memtable_bytes", "memtable_bytes_asked",
                 "log_segment_bytes", "log_preallocate_bytes", "cache_bytes", "clean_bytes",
                 "entry_cache_bytes", "bloom_bits",
                 "compression", "durability", "rocksdb", "rocksdb_assertions", "settings")
LIMITS = ("copy_bytes_per_s", "gather_128_byte_rows_per_s", "random_8_byte_reads_per_s",
          "disk_write_bytes_per_s")


TEXTS = ("benchmark", "case", "way", "engine", "backend", "state", "command", "settings", "machine",
         "commit")
# What XML does not know.
UNSHOWN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Wrong(Exception):
    """What is wrong with a line."""


def number(row, name, least=0.0, above=False):
    """A figure of a row, finite and from `least` up, or above it; None if there is none."""
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(f"{name} is {json.dumps(value)}, no number")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value) or value < least or (above and value == least):
        raise Wrong(f"{name} is {value:g}, not a number {'above' if above else 'from'} {least:g}"
                    f"{'' if above else ' up'}")
    return value


def refuse(constant):
    raise Wrong(f"{constant} is no number")


def checked(line):
    """The row of a line."""
    try:
        row = json.loads(line, parse_constant=refuse)
    except (json.JSONDecodeError, RecursionError) as error:
        raise Wrong(f"no JSON: {error}") from error
    if not isinstance(row, dict):
        raise Wrong("no JSON object")
    for name in TEXTS:
        if row.get(name) is not None and not isinstance(row[name], str):
            raise Wrong(f"{name} is {json.dumps(row[name])}, no text")
    for name, value in row.items():
        if isinstance(value, str) and UNSHOWN.search(name + value):
            raise Wrong(f"{json.dumps(name)} holds a character that no page can show")
    if row.get("benchmark") is None:
        return row
    for name in LIMITS:
        number(row, name)
    if standard.is_machine(row):
        return row
    for name, needed in ((standard.RATE, False), ("ops_per_sec", row.get(standard.RATE) is None)):
        if number(row, name, above=True) is None and needed:
            raise Wrong("neither ops_per_sec nor " + standard.RATE)
    for name in ("p50_us", "p99_us", "p999_us", "ops_per_sec_store_alone", "batch_size", "threads",
                 "key_size", "value_size", "keys", "num", "target_rate"):
        number(row, name)
    return row


class File:
    """The rows of a file, and its lines that are none."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        self.rows, self.machines, self.others, self.wrong = [], [], [], []
        with open(path, "rb") as file:
            for place, line in enumerate(file, 1):
                if line.strip():
                    self.take(place, line)

    def take(self, place, line):
        try:
            row = checked(line.decode("utf-8"))
        except (Wrong, UnicodeDecodeError) as error:
            self.wrong.append((place, str(error)))
            return
        if row.get("benchmark") is None:
            self.others.append((place, row))
        elif standard.is_machine(row):
            self.machines.append(row)
        else:
            self.rows.append(row)


def rate_of(row):
    rate = row.get(standard.RATE)
    return row["ops_per_sec"] if rate is None else rate


def size_of(row, name):
    return f"{row[name]:,.0f} B" if row.get(name) is not None else "?"


def case_of(row):
    """Its case; of rows of before there were any, what tells them apart."""
    if row.get("case"):
        return row["case"]
    batch = row.get("batch_size", 0) or 0
    return (f"{size_of(row, 'key_size')}/{size_of(row, 'value_size')}, "
            + (f"batches of {batch:,.0f}" if batch > 1 else "single")
            + (f", {row['threads']:.0f} threads" if row.get("threads") else ""))


def who_of(row):
    who = row.get("way") or row.get("engine") or "breccia"
    # A standard set is of one commit.
    build = row.get("build")
    if build is None and not row.get("way"):
        build = row.get("commit")
    return who if build is None else f"{who} {build}"


REQUESTS = {"fillseq": "PUT, in order", "fillrandom": "PUT", "filluniquerandom": "PUT",
            "overwrite": "PUT, again", "bulkload": "load into files", "readrandom": "GET",
            "multireadrandom": "GET", "deleterandom": "DELETE", "mergerandom": "UPDATE",
            "seekrandom": "RANGE", "transactionrandom": "transactions",
            "validatedrandom": "transactions, validated", "readwhilewriting": "GET beside a writer"}


def label_of(benchmark):
    """A benchmark in words: `multireadrandom@clean#2` as `GET, clean, pass 2`."""
    name, _, again = benchmark.partition("#")
    name, _, state = name.partition("@")
    parts = [REQUESTS.get(name, name), state, f"pass {again}" if again else ""]
    return ", ".join(filter(None, parts))


class Group:
    """Runs of one step by one engine."""

    def __init__(self, case, benchmark, who):
        self.case, self.benchmark, self.who = case, benchmark, who
        self.rows = []

    def spread(self, figure):
        """(median, least, greatest), or None if no row has it above zero."""
        values = [value for value in map(figure, self.rows) if value]
        return (statistics.median(values), min(values), max(values)) if values else None

    def configuration(self):
        """(name, value) of what its rows say; several values if they differ."""
        for name in CONFIGURATION:
            values = list(dict.fromkeys(json.dumps(row[name], ensure_ascii=False).strip('"')
                                        for row in self.rows if row.get(name) is not None))
            if values:
                yield name, ", ".join(values)


def groups_of(rows):
    groups = {}
    for row in rows:
        key = case_of(row), row["benchmark"], who_of(row)
        groups.setdefault(key, Group(*key)).rows.append(row)
    return list(groups.values())


# They look the same in all drawings.
KNOWN = {"breccia": 0, "rocksdb": 1, "breccia, columns": 2, "flatmap": 3, "breccia, no device": 4}


def named_series(groups):
    """{who: colour and shape}, Breccia first; more than can be told apart are left to the table."""
    names = list(dict.fromkeys(group.who for group in groups))
    if not set(names) <= set(KNOWN):
        names.sort(key=lambda name: not name.startswith("breccia"))
        return {name: series for series, name in enumerate(names[:charts.SERIES_MAX])}
    return {name: series for name, series in KNOWN.items() if name in names}


def times(ratio):
    return f"{ratio:.1f}x" if ratio >= 10 else f"{ratio:.2f}x"


def throughput(name, title, groups, only_shared):
    """A row for each step, a mark for each engine; `only_shared`: where RocksDB is beside, and a
    load is not but the way to something else."""
    names = named_series(groups)
    paced = {group.case for group in groups if group.rows[0].get("target_rate")}
    steps = defaultdict(dict)
    for group in groups:
        spread = group.spread(rate_of)
        if spread and group.who in names and not group.rows[0].get("target_rate"):
            steps[group.case, group.benchmark][group.who] = spread
    rows = []
    for (case, benchmark), marks in steps.items():
        peer = next((who for who in marks if who.startswith("rocksdb")), None)
        ours = next((who for who in marks if who.startswith("breccia")), None)
        if only_shared:
            if not (peer and ours) or benchmark == "load" or case in paced:
                continue
            marks = {peer: marks[peer], ours: marks[ours]}
        words = f"{times(marks[ours][0] / marks[peer][0])} RocksDB" if peer and ours else ""
        rows.append((case, label_of(benchmark), marks, words))
    shown = {who: series for who, series in names.items() if any(who in row[2] for row in rows)}
    return charts.dots(name, title, "requests a second, filling of batches included", rows,
                       shown) if rows else None


def over_rate(name, groups):
    paced = [group for group in groups if group.rows[0].get("target_rate")]
    if not paced:
        return None
    panels = []
    for heading, figure in PERCENTILES:
        own = defaultdict(list)
        for group in paced:
            spread = group.spread(lambda row, figure=figure: row.get(figure))
            if spread:
                own[group.who].append((group.rows[0]["target_rate"], *spread))
        if own:
            panels.append((heading, own))
    names = named_series(paced)
    case = paced[0].case.removeprefix("latency over rate, ")
    return charts.curves(name, "Latency over rate: " + case, panels, names) if panels else None


def least_work(row):
    """(what limits it, units of that a request needs at the least), or None.

    A put copies its bytes once: read and written. A lookup in memory takes its lines of 128 bytes
    from a random place. A sustained put goes to the disk.
    """
    entry = (row.get("key_size") or 0) + (row.get("value_size") or 0)
    step = row["benchmark"]
    if not entry or (row.get("batch_size") or 1) <= 1 or "ycsb" in case_of(row):
        return None
    if row.get("misses") or (row.get("state") or "").startswith("tree"):
        return None
    if step.startswith("overwrite") and row.get("per_second"):
        return "disk_write_bytes_per_s", entry
    if step.startswith(("fill", "overwrite")):
        return "copy_bytes_per_s", 2 * entry
    if step.startswith(("readrandom", "multireadrandom")):
        return "gather_128_byte_rows_per_s", math.ceil(entry / 128)
    return None


LIMIT_NAMES = {"copy_bytes_per_s": "of memcpy", "gather_128_byte_rows_per_s": "of random rows",
               "disk_write_bytes_per_s": "of the disk"}


def machine_share(name, file, groups):
    rows = []
    for group in groups:
        work = least_work(group.rows[0])
        spread = group.spread(rate_of)
        if not work or not spread or not file.machines or group.who.startswith("rocksdb"):
            continue
        limit = file.machines[0].get(work[0])
        if limit:
            who = "" if group.who == "breccia" else f", {group.who.removeprefix('breccia, ')}"
            rows.append((group.case, label_of(group.benchmark) + who, spread[0] * work[1] / limit,
                         LIMIT_NAMES[work[0]]))
    return charts.bars(name, "Share of what the machine gives", rows,
                       "the least work that requests need, of the limit measured in the same run"
                       ) if rows else None


def drawings(file, stem):
    groups = groups_of(file.rows)
    made = [throughput(f"{stem}-peers", "Beside RocksDB at its best", groups, True),
            throughput(f"{stem}-throughput", "Throughput", groups, False),
            over_rate(f"{stem}-over-rate", groups),
            machine_share(f"{stem}-machine", file, groups)]
    return [drawing for drawing in made if drawing]


PAGE_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--line:#d8dee4;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9ea7b3;--line:#30363d;
--paper:#0d1117}}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);
background:var(--paper);margin:2rem auto;max-width:72rem;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:3rem;border-top:1px solid var(--line);
padding-top:1.5rem}h3{font-size:1rem;margin-top:2rem}
svg{max-width:100%;height:auto;display:block;margin:1.2rem 0}
table{border-collapse:collapse;font-size:13px;width:100%}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);
vertical-align:top}th{color:var(--soft);font-weight:600}.n{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}.how{position:relative}
.how summary{white-space:nowrap}.how>div{position:absolute;right:0;z-index:1;width:44rem;
max-width:90vw;padding:.2rem 1rem;background:var(--paper);border:1px solid var(--line)}
code{font-size:12px;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--soft)}.soft{color:var(--soft)}
"""


NUMBER = ' class="n"'


def table(head, lines, numbers=()):
    """Cells are HTML; those of the columns `numbers` stand on the right."""
    def cell(column, text):
        kind = NUMBER if column in numbers else ""
        return f"<td{kind}>{text}</td>"
    return ("<table><thead><tr>"
            + "".join(f'<th scope="col"{NUMBER if column in numbers else ""}>{html.escape(name)}'
                      "</th>" for column, name in enumerate(head))
            + "</tr></thead><tbody>"
            + "".join(f"<tr>{''.join(cell(*one) for one in enumerate(line))}</tr>"
                      for line in lines)
            + "</tbody></table>")


def details(group):
    """The commands of a group, and its configuration in effect."""
    commands = list(dict.fromkeys(row["command"] for row in group.rows if row.get("command")))
    inside = "".join(f"<p><code>{html.escape(command)}</code></p>" for command in commands)
    inside += "<p>" + "; ".join(f"{html.escape(name)} {html.escape(value)}"
                                for name, value in group.configuration()) + "</p>"
    if not commands:
        inside = '<p class="soft">The rows do not hold their command.</p>' + inside
    return f'<details class="how"><summary>how</summary><div>{inside}</div></details>'


def group_line(group):
    rate = group.spread(rate_of)
    alone = group.spread(lambda row: row.get("ops_per_sec_store_alone"))
    cells = [html.escape(text) for text in (group.case, group.benchmark, group.who)]
    cells += [charts.shown(rate[0]), f"{charts.shown(rate[1])} to {charts.shown(rate[2])}",
              str(len(group.rows)), charts.shown(alone[0]) if alone else ""]
    for _, figure in PERCENTILES:
        spread = group.spread(lambda row, figure=figure: row.get(figure))
        cells.append(charts.shown_us(spread[0]) if spread else "")
    return [*cells, details(group)]


def limits_words(machine):
    copied, rows, words, disk = (machine.get(name) or 0 for name in LIMITS)
    return (f"{machine.get('machine') or 'unknown machine'}: memcpy {copied / 1e9:.1f} GB/s read "
            f"and written, {charts.shown(rows)} random rows of 128 B/s, {charts.shown(words)} "
            f"random words/s, disk {disk / 1e6:,.0f} MB/s")


def file_section(file, made):
    parts = [f"<h2>{html.escape(file.name)}</h2>"]
    parts += [f'<p class="soft">{html.escape(limits_words(row))}</p>' for row in file.machines]
    standard_rows = [row for row in file.rows
                     if all(row.get(name) for name in ("case", "way", standard.RATE, standard.P50))]
    if standard_rows:
        goals = standard.goals_of(standard_rows)
        lines = [[html.escape(cell) for cell in line]
                 for line in standard.goal_lines(standard_rows, goals)]
        parts.append("<h3>What must show</h3>"
                     + table(standard.GOAL_HEAD, lines, range(1, 4)))
    parts += [drawing.svg() for drawing in made]
    groups = groups_of(file.rows)
    if groups:
        parts.append("<h3>All steps</h3>" + table(
            ["case", "benchmark", "who", "requests/s", "least to greatest", "runs", "store alone",
             "p50", "p99", "p99.9", ""], map(group_line, groups), range(3, 10)))
    if file.others:
        shown = (f"<p>line {place}: <code>{html.escape(json.dumps(row))}</code></p>"
                 for place, row in file.others)
        parts.append("<details><summary>rows that are no benchmark's</summary>" + "".join(shown)
                     + "</details>")
    if file.wrong:
        parts.append("<h3>Lines that could not be read</h3>" + table(
            ["line", "what is wrong"],
            [[str(place), html.escape(what)] for place, what in file.wrong], (0,)))
    return "".join(parts)


def page(sections):
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>Breccia: results</title><style>{PAGE_STYLE}</style></head><body>"
            "<h1>Breccia: results</h1><p>Marks are medians of the runs of a file, lines least to "
            "greatest. Machines of one kind differ: figures of different files do not say which "
            "code is faster.</p>" + "".join(sections) + "</body></html>\n")


def files_of(paths):
    for path in paths:
        if os.path.isdir(path):
            yield from (os.path.join(path, name) for name in sorted(os.listdir(path))
                        if name.endswith(".jsonl"))
        else:
            yield path


def say(words):
    print("report: " + words, file=sys.stderr)


def write(paths, out):
    """Writes the page and its drawings; returns the exit code."""
    files = []
    for path in files_of(paths):
        files.append(File(path))
        for place, what in files[-1].wrong:
            say(f"{path}:{place}: {what}")
    if not any(file.rows or file.machines or file.others for file in files):
        say("no rows in " + " ".join(paths))
        return 2
    os.makedirs(out, exist_ok=True)
    sections, count = [], 0
    for file in files:
        made = drawings(file, os.path.splitext(file.name)[0])
        sections.append(file_section(file, made))
        for drawing in made:
            with open(os.path.join(out, drawing.name + ".svg"), "w", encoding="utf-8") as target:
                target.write(drawing.svg())
        count += len(made)
    with open(os.path.join(out, "report.html"), "w", encoding="utf-8") as target:
        target.write(page(sections))
    print(f"{os.path.join(out, 'report.html')}, and {count} drawings beside it")
    return 1 if any(file.wrong for file in files) else 0


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", metavar="FOLDER|FILE", help="where the rows are")
    parser.add_argument("--out", help="folder of the page; default: `report` beside the rows")
    arguments = parser.parse_args(words)
    first = arguments.paths[0]
    beside = first if os.path.isdir(first) else os.path.dirname(first)
    try:
        return write(arguments.paths, arguments.out or os.path.join(beside, "report"))
    except OSError as error:
        say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
