#!/usr/bin/env python3
"""Verbena beside what the machine can do without it, in one run: bare loops, TCP, UDP, UCX.

  run.py BUILD                    BUILD holds bin/verbena, bench/limits/ and bench/verbs_stream
  run.py BUILD --rounds 9         medians of so many rounds, each of which runs everything once
  run.py BUILD --only 'lat|slot'  only measures whose names match
  run.py BUILD --json FILE        keeps all values; --before FILE compares with an earlier run's
  run.py BUILD --pairs 1,2,4,8    also so many pairs of processes at once
  run.py BUILD --pin              each end on its core, also ends that don't pin themselves
  run.py --list                   the names of the measures
  run.py --show FILE              the tables of an earlier run

All on 127.0.0.1 (device vb_lo). Rounds alternate the programs, so that a noisy machine is noisy to
all. The slot ping-pong and the bare loops have a core for each end; --cores chooses them. All other
programs run where the scheduler puts them.
✓ and ✗ say whether a goal is met. What the machine lacks is skipped, and the output says so.
Exit status: 0; 1 if a program failed; 2 usage. Goals that are missed don't count.
"""
import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import machine  # noqa: E402
import measure  # noqa: E402
import suite  # noqa: E402
import tables  # noqa: E402
from programs import Programs  # noqa: E402


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--before", metavar="FILE", type=measure.Results.load)
    parser.add_argument("--show", metavar="FILE", type=measure.Results.load)
    parser.add_argument("--pairs", type=numbers, default=[], metavar="N,…")
    parser.add_argument("--cores", type=numbers, default=machine.separate_cores(), metavar="A,B,…")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if not (args.build or args.list or args.show):
        parser.error("which BUILD?")
    if args.rounds < 1:
        parser.error("--rounds: at least 1")
    return args


def show(results, args):
    about = results.machine
    print(", ".join(f"{name} {about[name]}" for name in about) + "\n")
    writer = tables.Writer(results, args.before)
    layout = tables.as_markdown if args.markdown else tables.as_text
    for table in tables.all_tables(writer, args.pairs):
        print(layout(table) + "\n")
    print(f"goals: {writer.met} met, {len(writer.missed)} missed")
    for goal in writer.missed:
        print(f"  ✗ {goal}")
    for name, reason in results.missing.items():
        print(f"  skipped: {name}: {reason}")
    for name, reason in results.failed:
        print(f"  FAILED: {name}: {reason.strip().splitlines()[0]}")


def main():
    measure.end_by_signal()
    args = arguments()
    if args.show:
        show(args.show, args)
        return 0
    programs = Programs(args.build or pathlib.Path(), args.cores, args.pin)
    measures = [m for m in suite.measures(programs, args.pairs) if args.only.search(m.name)]
    if args.list:
        print("\n".join(m.name for m in measures))
        return 0
    if len(args.cores) < 2:
        sys.exit("run.py: two cores are needed, one for each end")
    results = measure.Results(machine.describe(programs.verbena))
    results.machine["cores used"] = ",".join(map(str, args.cores[:2])) + (" by all" * args.pin)
    try:
        measure.run(measures, args.rounds, results, suite.SLOT)
    except KeyboardInterrupt:
        measure.say("interrupted: this is what was measured")
    finally:
        if args.json:
            results.save(args.json)
    show(results, args)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
