#!/usr/bin/env python3
"""Checks bench/run.py without measuring: what it would measure, and how it judges made-up figures.

  check_run.py ROOT
"""
import argparse
import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv.pop()).resolve()
sys.path.insert(0, str(ROOT / "bench"))
import measure  # noqa: E402
import programs  # noqa: E402
import suite  # noqa: E402
import tables  # noqa: E402
import versus  # noqa: E402


def run_py(*options):
    return subprocess.run([sys.executable, ROOT / "bench" / "run.py", *options], capture_output=True,
                          text=True, timeout=60)


def cells(table, name):
    return next([cell.text for cell in row[1:]] for row in table.rows if row[0] == name)


def made_up(figures):
    """Results of one round."""
    results = measure.Results()
    for name, figure, value in figures:
        results.add(name, {figure: value})
    return results


class List(unittest.TestCase):
    def test_names_each_measure_once(self):
        done = run_py("--list", "--pairs", "1,2")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = done.stdout.splitlines()
        self.assertEqual(len(names), len(set(names)))
        self.assertIn(suite.SLOT, names)
        self.assertIn(suite.pairs(2, suite.tcp(65536)), names)

    def test_only_chooses(self):
        done = run_py("--list", "--only", "^slot")
        self.assertEqual(done.stdout, f"{suite.SLOT}\n")

    def test_wants_a_build(self):
        self.assertEqual(run_py().returncode, 2)


class Tables(unittest.TestCase):
    def test_every_measure_is_in_a_table(self):
        every = suite.measures(programs.Programs(ROOT, [0, 1], False), [1, 2])
        figures = ("gb_per_s", "million_per_s", "p50_us", "p99_us", "value", "ms",
                   "sender_cpu_s_per_gb", "receiver_cpu_s_per_gb")
        results = made_up((m.name, figure, 1.0) for m in every for figure in figures)
        shown = {row[0] for table in tables.all_tables(tables.Writer(results), [1, 2])
                 for row in table.rows}
        self.assertEqual([m.name for m in every if m.name not in shown], [])

    def test_bandwidth_is_judged_by_the_best_loop_ucx_and_tcp(self):
        size = 65536
        name = suite.perftest("write", size, "auto")
        results = made_up([(suite.loop("pull", size, False), "gb_per_s", 5.0),
                           (suite.loop("ring_direct", size, False), "gb_per_s", 10.0),
                           (suite.ucx(size), "gb_per_s", 8.0), (suite.tcp(size), "gb_per_s", 3.0),
                           (name, "gb_per_s", 6.5)])
        writer = tables.Writer(results)
        table = next(t for t in tables.all_tables(writer, []) if t.title.startswith("One host, band"))
        self.assertEqual(cells(table, name), ["6.50", "0.65 ✓ ≥ 0.6", "0.81 ✗ ≥ 1", "2.17 ✓ ≥ 2"])
        self.assertEqual(writer.met, 2)
        self.assertEqual(len(writer.missed), 1)

    def test_a_rewritten_buffer_is_judged_by_rewritten_buffers(self):
        size = 1 << 20
        name = suite.stream("send", size, "auto", rewritten=True)
        results = made_up([(suite.loop("ring_direct", size, False), "gb_per_s", 100.0),
                           (suite.loop("ring_direct", size, True), "gb_per_s", 10.0),
                           (name, "gb_per_s", 7.4)])
        table = tables.same_host(tables.Writer(results))
        self.assertIn("0.74 ✗ ≥ 0.75", cells(table, name))

    def test_latency_is_judged_by_the_slots(self):
        for value, verdict in ((0.89, "0.89 ✓ ≤ 0.90"), (0.91, "0.91 ✗ ≤ 0.90")):
            name = suite.latency("send", "auto")
            results = made_up([(suite.SLOT, "p50_us", 0.2), (name, "p50_us", value)])
            self.assertIn(verdict, cells(tables.same_host_latency(tables.Writer(results)), name))

    def test_queue_pairs_are_judged_by_the_fastest(self):
        results = made_up([(suite.queue_pairs(1, 64), "million_per_s", 2.0),
                           (suite.queue_pairs(512, 64), "million_per_s", 1.5)])
        table = tables.queue_pairs(tables.Writer(results))
        self.assertIn("1.33 ✗ ≤ 1.30", cells(table, suite.queue_pairs(512, 64)))

    def test_the_udp_wire_is_judged_by_an_earlier_run(self):
        name = suite.perftest("read", 65536, "udp")
        writer = tables.Writer(made_up([(name, "gb_per_s", 2.0)]), made_up([(name, "gb_per_s", 2.5)]))
        self.assertIn("0.80 ✗ ≥ 1", cells(tables.udp_wire(writer), name))

    def test_medians_come_with_their_spread(self):
        results = measure.Results()
        for value in (1.0, 9.0, 2.0):
            results.add(suite.tcp(65536), {"gb_per_s": value})
        table = tables.same_host(tables.Writer(results))
        self.assertIn("2.00  (1.00 to 9.00)", cells(table, suite.tcp(65536)))


class Rounds(unittest.TestCase):
    def test_what_is_missing_or_fails_is_said_and_the_rest_is_measured(self):
        def take(value):
            if isinstance(value, Exception):
                raise value
            return {"p50_us": value}

        results = measure.Results()
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            measure.run([measure.Measure("a", lambda: take(programs.Missing("no UCX"))),
                         measure.Measure("b", lambda: take(programs.Failed("status 1"))),
                         measure.Measure(suite.SLOT, lambda: take(0.25))], 2, results, suite.SLOT)
        self.assertEqual(results.values, {suite.SLOT: {"p50_us": [0.25, 0.25]}})
        self.assertEqual(results.missing, {"a": "no UCX"})
        self.assertEqual(len(results.failed), 2)
        self.assertEqual(said.getvalue().count("no UCX"), 1)
        self.assertEqual(said.getvalue().count("0.250 µs"), 2)

    def test_a_saved_run_can_be_shown(self):
        results = made_up([(suite.SLOT, "p50_us", 0.123)])
        with tempfile.NamedTemporaryFile() as file:
            results.save(file.name)
            done = run_py("--show", file.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0.12", done.stdout)


BUSY = """
import sys, time
sys.path.insert(0, sys.argv[1])
import machine, measure
measure.end_by_signal()
with machine.busy() as loops:
    print(*(loop.pid for loop in loops), flush=True)
    time.sleep(60)
"""


class Signals(unittest.TestCase):
    def test_a_run_that_is_ended_leaves_no_process(self):
        with subprocess.Popen([sys.executable, "-c", BUSY, ROOT / "bench"], text=True,
                              stdout=subprocess.PIPE) as run:
            loops = [int(word) for word in run.stdout.readline().split()]
            self.assertTrue(loops)
            run.terminate()
            self.assertEqual(run.wait(timeout=30), 128 + signal.SIGTERM)
        for pid in loops:
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, 0)


class Applications(unittest.TestCase):
    def compare(self, *rows):
        """The exit status, and what was printed."""
        args = argparse.Namespace(build=ROOT, only=re.compile("read"), rounds=3, json=None, wire="auto")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            status = versus.compare("Made up", rows, args, "per_s", "requests a second")
        return status, printed.getvalue()

    def test_rdma_is_judged_by_tcp(self):
        status, text = self.compare(
            versus.Row("read", lambda: {"per_s": 90.0}, lambda: {"per_s": 100.0}),
            versus.Row("reread", lambda: {"per_s": 300.0}, lambda: {"per_s": 100.0}),
            versus.Row("write", lambda: self.fail("not chosen"), lambda: self.fail("not chosen")))
        self.assertEqual(status, 0)
        self.assertRegex(text, r"(?m)^read +90 .* 100 .* 0\.90 ✗ ≥ 1$")
        self.assertRegex(text, r"(?m)^reread +300 .* 100 .* 3\.00 ✓ ≥ 1$")
        self.assertIn("1 met, 1 missed", text)

    def test_a_failure_is_the_status(self):
        def fails():
            raise programs.Failed("status 3")

        status, text = self.compare(versus.Row("read", fails, lambda: {"per_s": 100.0}))
        self.assertEqual(status, 1)
        self.assertIn("FAILED: read, RDMA: status 3", text)


class Output(unittest.TestCase):
    def test_the_last_line_of_figures_counts(self):
        self.assertEqual(programs.numbers("---\n 64 1 2\n 64  5\t6\nbye\n"), ["64", "5", "6"])
        with self.assertRaises(programs.Failed):
            programs.numbers("nothing\n")


if __name__ == "__main__":
    unittest.main()
