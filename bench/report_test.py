#!/usr/bin/env python3
"""Tests of bench/report.py on rows of a few lines, broken ones among them."""
import contextlib
import io
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

import charts
import report
import standard


def row(**fields):
    return json.dumps({"benchmark": "fillrandom", "engine": "breccia", "ops_per_sec": 2e6,
                       "p50_us": 10.0, "p99_us": 20.0, "p999_us": 30.0, "batch_size": 100,
                       "key_size": 8, "value_size": 8, **fields})


MACHINE = json.dumps({"benchmark": "machine", "machine": "a <machine>", "copy_bytes_per_s": 1e9,
                      "gather_128_byte_rows_per_s": 1e7, "disk_write_bytes_per_s": 1e8,
                      "random_8_byte_reads_per_s": 1e8})


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, "out")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, *lines):
        with open(self.path(name), "wb") as file:
            file.write(b"\n".join(line if isinstance(line, bytes) else line.encode()
                                  for line in lines))

    def made(self, *paths):
        """(exit code, stderr, page) of a report of the folder, or of `paths`."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = report.main([*(paths or (self.folder.name,)), "--out", self.out])
        page = ""
        if code != 2:
            with open(os.path.join(self.out, "report.html"), encoding="utf-8") as file:
                page = file.read()
        return code, said.getvalue(), page

    # Goal: each line that is none is named by file, line and reason; nothing else is lost.
    # Method: every kind of broken line between two good ones.
    # Mutation: a check that is left out, or a reader that stops at the first, fails.
    def test_broken_lines(self):
        broken = [(b"{", "no JSON"), (b"[1]", "no JSON object"), (b"\xff", "utf-8"),
                  (b'{"benchmark":"x","ops_per_sec":NaN}', "NaN is no number"),
                  (b'{"benchmark":"x"}', "neither ops_per_sec"),
                  (b'{"benchmark":3}', "benchmark is 3, no text"),
                  (row(ops_per_sec=0).encode(), "above 0"),
                  (row(ops_per_sec="fast").encode(), "ops_per_sec is \"fast\", no number"),
                  (row(ops_per_sec=True).encode(), "ops_per_sec is true, no number"),
                  (row(p50_us=-1).encode(), "p50_us is -1"),
                  (row(key_size=1e999).encode(), "Infinity is no number"),
                  (b'{"benchmark":"x","ops_per_sec":1' + b"0" * 400 + b"}", "inf, not a number"),
                  (b'{"benchmark":"machine","copy_bytes_per_s":"x"}', "copy_bytes_per_s"),
                  (row(case=["a"]).encode(), "case is [\"a\"], no text"),
                  (row(state=3).encode(), "state is 3, no text"),
                  (row(case="\0").encode(), "no page can show"),
                  (row(settings="\ud800").encode(), "no page can show")]
        self.write("a.jsonl", row(), *(line for line, _ in broken), row(benchmark="readrandom"),
                   '{"cuts": 5, "test": "<power>"}', "")
        code, said, page = self.made()
        self.assertEqual(code, 1)
        for place, (_, what) in enumerate(broken, 2):
            named = [line for line in said.splitlines() if f"a.jsonl:{place}: " in line]
            self.assertEqual(len(named), 1, place)
            self.assertIn(what, named[0])
        for words in ("Lines that could not be read", "fillrandom", "readrandom", "&lt;power&gt;"):
            self.assertIn(words, page)

    # Goal: the page needs nothing else, is whole, and escapes what rows say.
    # Method: rows whose texts are markup; the page and every drawing parsed.
    # Mutation: a text that is not escaped fails.
    def test_page(self):
        evil = '<script>&"'
        self.write("a.jsonl", MACHINE, *(row(case=evil, way=way, benchmark=evil, settings=evil,
                                             command=evil, ops_per_sec=rate)
                                         for way in ("breccia", "rocksdb") for rate in (1e6, 3e6)))
        code, said, page = self.made()
        self.assertEqual((code, said), (0, ""))
        self.assertNotIn("<script", page)
        self.assertNotIn("src=", page)
        self.assertIn("a &lt;machine&gt;", page)
        drawings = [name for name in os.listdir(self.out) if name.endswith(".svg")]
        self.assertEqual(sorted(drawings), ["a-peers.svg", "a-throughput.svg"])
        for name in drawings:
            root = xml.etree.ElementTree.parse(os.path.join(self.out, name)).getroot()
            self.assertEqual(root.attrib["role"], "img")
            self.assertEqual(root[0].tag.rpartition("}")[2], "title")

    # Goal: rows may leave out everything but a benchmark and a rate.
    # Method: every field null, beside whole rows; a machine of nulls.
    # Mutation: a field that is taken for granted is a traceback.
    def test_nulls(self):
        names = [*report.CONFIGURATION, *report.TEXTS, "p50_us", "p99_us", "p999_us",
                 "per_second", standard.RATE, "ops_per_sec_store_alone", *report.LIMITS]
        nothing = {name: None for name in names if name != "benchmark"}
        self.write("a.jsonl", MACHINE, row(), row(**nothing),
                   json.dumps({"benchmark": "machine", **{name: None for name in report.LIMITS}}),
                   json.dumps({"benchmark": None}), json.dumps({**nothing, "benchmark": "x",
                                                                "ops_per_sec": 1}))
        self.write("b.jsonl", row(case="c", way="breccia", p50_us=None))
        code, said, page = self.made()
        self.assertEqual((code, said), (0, ""))
        self.assertIn("unknown machine", page)

    # Goal: runs of a step make one group, of one file, with its spread.
    # Method: five runs, two engines, two files.
    # Mutation: a mean in place of the median, or files that are mixed, fails.
    def test_groups(self):
        rates = (5e6, 1e6, 2e6, 9e6, 3e6)
        self.write("a.jsonl", *(row(ops_per_sec=rate) for rate in rates), row(engine="rocksdb"))
        self.write("b.jsonl", row(ops_per_sec=7e6))
        read = [report.File(path) for path in report.files_of([self.folder.name])]
        groups = [report.groups_of(file.rows) for file in read]
        self.assertEqual([len(own) for own in groups], [2, 1])
        self.assertEqual(groups[0][0].spread(report.rate_of), (3e6, 1e6, 9e6))
        self.assertEqual(groups[0][0].case, "8 B/8 B, batches of 100")
        turns = [json.loads(row(way="breccia", build=build)) for build in (0, 1, 0)]
        self.assertEqual([group.who for group in report.groups_of(turns)],
                         ["breccia 0", "breccia 1"])
        code, _, page = self.made()
        self.assertEqual(code, 0)
        self.assertIn("1 M to 9 M", page)

    # Goal: shares of the machine are of the least work, and steps that say nothing are left out.
    # Method: shares worked out by hand; a single request, YCSB and scans.
    # Mutation: bytes that are only read, or entries over a line counted as one line, fail.
    def test_machine_share(self):
        def share(**fields):
            file = report.File.__new__(report.File)
            file.machines = [json.loads(MACHINE)]
            drawing = report.machine_share("x", file, report.groups_of([json.loads(row(**fields))]))
            title = xml.etree.ElementTree.fromstring(drawing.svg())[1].text if drawing else None
            return title and title.rpartition(": ")[2]
        self.assertEqual(share(ops_per_sec=1e7), "32%")
        self.assertEqual(share(ops_per_sec=1e6, benchmark="multireadrandom@clean"), "10%")
        self.assertEqual(share(ops_per_sec=1e6, benchmark="readrandom", value_size=121), "20%")
        self.assertEqual(share(ops_per_sec=5e6, benchmark="overwrite", per_second=[1]), "80%")
        self.assertIsNone(share(batch_size=1))
        self.assertIsNone(share(benchmark="seekrandom"))
        self.assertIsNone(share(benchmark="readrandom", misses=1))
        self.assertIsNone(share(benchmark="readrandom", state="tree-warm"))
        self.assertIsNone(share(engine="rocksdb"))
        self.assertIsNone(share(case="ycsb a, batches", benchmark="workloada"))

    # Goal: latency over rate is drawn from paced rows, which the throughput leaves out.
    # Method: three rates, two engines, one percentile missing.
    # Mutation: paced rows among the others, or rows without a percentile as zero, fail.
    def test_over_rate(self):
        self.write("a.jsonl", row(), *(row(benchmark=f"readrandom:{rate}", engine=engine,
                                           target_rate=rate, p999_us=None)
                                       for engine in ("breccia", "rocksdb")
                                       for rate in (100, 1000, 3000)))
        self.assertEqual(self.made()[0], 0)
        with open(os.path.join(self.out, "a-over-rate.svg"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count('class="curve"'), 4)
        with open(os.path.join(self.out, "a-throughput.svg"), encoding="utf-8") as file:
            self.assertNotIn("GET", file.read())
        self.assertEqual(report.label_of("multireadrandom@clean#2"), "GET, clean, pass 2")
        self.assertEqual(report.label_of("workloada"), "workloada")

    # Goal: rows of the standard set show what must show; input that is not there is said.
    # Method: a goal's two rows; no file, an empty file, a folder without rows.
    # Mutation: a page of nothing, or a traceback, fails.
    def test_goals_and_nothing(self):
        goal = standard.GOALS[0]
        self.write("empty.jsonl", "")
        self.assertEqual(self.made()[0], 2)
        self.write("a.jsonl", *(row(case=goal.case, benchmark=goal.step, way=way,
                                    **{goal.figure: rate})
                                for way, rate in (("breccia", 6e6), ("rocksdb", 1e6))))
        code, _, page = self.made()
        self.assertEqual(code, 0)
        self.assertIn(f"<td>{goal.what}</td>", page)
        self.assertIn("6.00x", page)
        self.assertEqual(self.made(self.path("none.jsonl"))[0], 2)

    # Goal: axes hold all values, from one value to ten decades.
    # Method: the ends of the scale beside the values.
    # Mutation: an axis that ends below the greatest value fails.
    def test_scales(self):
        for values in ([1], [10], [1, 1.01], [3e-7, 5e9], [999, 1001], [20, 50], [1e6, 30e6]):
            scale = charts.LogScale(values, 100, 500)
            for value in values:
                self.assertTrue(99.99 <= scale.at(value) <= 500.01, values)
            self.assertTrue(2 <= len(scale.ticks) <= 20, values)


if __name__ == "__main__":
    unittest.main()
