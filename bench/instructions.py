#!/usr/bin/env python3
"""Counts the instructions of one message, from post to completion, both ends in one thread.

usage: bench/instructions.py BUILD [OTHER_BUILD] [--rounds N]

BUILD holds bin/verbena and bench/messages. valgrind counts in user space, on the thread that posts
and polls: the count depends neither on the machine's speed nor on its load. The median of N rounds.
With two builds their ratio is printed: what a change costs or saves.
"""
import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

CASES = [("write", 64), ("write", 65536), ("send", 64), ("send", 65536), ("read", 64), ("read", 65536)]
FEW, MANY = 300, 1300  # messages; the difference leaves set-up out


def instructions(build, driver, what, size, count):
    """Of the thread that posts and polls."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [build / "bin" / "verbena", "run", "--", "valgrind", "--tool=callgrind",
             "--separate-threads=yes", f"--callgrind-out-file={folder}/out", driver, what, str(size),
             str(count)], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            sys.exit(f"messages {what} {size} {count} of {build} failed:\n{done.stderr}")
        text = pathlib.Path(folder, "out-01").read_text()
        return int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)[1])


def per_message(build, driver, what, size):
    few, many = (instructions(build, driver, what, size, n) for n in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="+", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("instructions.py: there is no valgrind on this machine; apt-get install valgrind")
    builds = [b.resolve() for b in args.builds]
    driver = builds[0] / "bench" / "messages"  # the same program on each library

    for what, size in CASES:
        counts = {b: [] for b in builds}
        for _ in range(args.rounds):
            for b in builds:
                counts[b].append(per_message(b, driver, what, size))
        medians = [statistics.median(counts[b]) for b in builds]
        row = f"{what:<6}{size:>6} B" + "".join(f"{m:>12.0f}" for m in medians)
        print(row + (f"{medians[-1] / medians[0]:>8.3f}" if len(builds) > 1 else ""), flush=True)


if __name__ == "__main__":
    main()
