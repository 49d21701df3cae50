#!/usr/bin/env python3
"""A file from one process of this host to another: verbena send beside rcopy, a raw TCP copy that
hashes too, and cp followed by a hash of both files.

  transfer.py BUILD   BUILD holds bin/verbena and bench/tcp_copy

The files are in /dev/shm, so that no disk is measured; all are in memory before. Medians of
interleaved rounds. Goals: 1.5 times the TCP copy, 0.7 of cp.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import machine  # noqa: E402
import measure  # noqa: E402
import tables  # noqa: E402
from programs import TIME_LIMIT, Failed, Missing, free_port, spoken, stop  # noqa: E402

OURS, RCOPY, TCP, CP = "verbena send", "rcopy", "TCP copy with hashes", "cp, then hashes of both"


class Copies:
    def __init__(self, build, folder, mebibytes):
        self._verbena = build / "bin/verbena"
        self._tcp_copy = build / "bench/tcp_copy"
        self._folder = folder
        self._size = mebibytes << 20
        self._source = folder / "source"
        with open(self._source, "wb") as out:
            for _ in range(mebibytes):
                out.write(os.urandom(1 << 20))

    def _figures(self, begin):
        seconds = time.monotonic() - begin
        return {"gb_per_s": self._size / seconds / 1e9, "seconds": seconds}

    def _check(self, copy):
        """Every round's copy is right. The next one begins without it."""
        same = subprocess.run(["cmp", "-s", self._source, copy], timeout=TIME_LIMIT).returncode == 0
        os.unlink(copy)
        if not same:
            raise Failed(f"{copy} is no copy")

    def _pair(self, receiver, sender, listening, copy, ends=True):
        """From the sender's start until both are done."""
        server = subprocess.Popen(list(map(str, receiver)), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                  cwd=self._folder)
        try:
            if listening:
                while listening not in (line := server.stdout.readline()):
                    if not line:
                        raise Failed(f"{spoken(receiver)}: it ended")
            else:
                time.sleep(0.5)  # rcopy doesn't say when it listens
            begin = time.monotonic()
            done = subprocess.run(list(map(str, sender)), capture_output=True, text=True,
                                  timeout=TIME_LIMIT)
            if done.returncode != 0 or (ends and server.wait(timeout=TIME_LIMIT) != 0):
                raise Failed(f"{spoken(sender)}: {done.stdout}{done.stderr}")
            figures = self._figures(begin)
        finally:
            stop(server)
        self._check(copy)
        return figures

    def ours(self):
        port = free_port()
        into = self._folder / "into"
        into.mkdir(exist_ok=True)
        return self._pair([self._verbena, "receive", "--port", port, into],
                          [self._verbena, "send", "--port", port, self._source, "127.0.0.1"],
                          "receiving into", into / "source")

    def rcopy(self):
        if not shutil.which("rcopy"):
            raise Missing("there is no rcopy here (Debian's package rdmacm-utils has it)")
        port = free_port()
        run = [self._verbena, "run", "--", "rcopy"]
        return self._pair([*run, "-p", port],
                          [*run, self._source, f"127.0.0.1:{self._folder / 'copy'}", "-p", port],
                          "", self._folder / "copy", ends=False)

    def tcp(self):
        port = free_port()
        return self._pair([self._tcp_copy, "receive", port, self._folder / "copy"],
                          [self._tcp_copy, "send", port, self._source], "listening",
                          self._folder / "copy")

    def cp(self):
        copy = self._folder / "copy"
        begin = time.monotonic()
        for command in (["cp", "--reflink=never", self._source, copy],
                        [self._tcp_copy, "hash", self._source, copy]):
            done = subprocess.run(list(map(str, command)), capture_output=True, timeout=TIME_LIMIT)
            if done.returncode != 0:
                raise Failed(f"{spoken(command)}: {done.stderr.decode()}")
        figures = self._figures(begin)
        self._check(copy)
        return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    measure.end_by_signal()
    results = measure.Results(machine.describe(args.build / "bin/verbena"))
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="verbena-bench.") as folder:
        copies = Copies(args.build, pathlib.Path(folder), args.mebibytes)
        measures = [measure.Measure(OURS, copies.ours), measure.Measure(TCP, copies.tcp),
                    measure.Measure(CP, copies.cp), measure.Measure(RCOPY, copies.rcopy)]
        measure.run(measures, args.rounds, results, "")
    if args.json:
        results.save(args.json)
    writer = tables.Writer(results)
    ours = writer.median(OURS, "gb_per_s")
    rows = [[name, writer.value(name, "gb_per_s"),
             writer.ratio(OURS, ours, writer.median(name, "gb_per_s"), goal, name)
             if name != OURS else tables.EMPTY]
            for name, goal in ((OURS, None), (TCP, 1.5), (CP, 0.7), (RCOPY, None))]
    print(", ".join(f"{name} {value}" for name, value in results.machine.items()) + "\n")
    print(tables.as_text(tables.Table(f"A file of {args.mebibytes} MiB, start to end, GB/s",
                                      ["GB/s", "verbena send is × that"], rows)))
    print(f"\ngoals: {writer.met} met, {len(writer.missed)} missed")
    for name, reason in [*results.missing.items(), *results.failed]:
        print(f"  {name}: {reason.strip().splitlines()[0]}")
    return 1 if results.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Missing, Failed) as reason:
        sys.exit(f"transfer.py: {reason}")
