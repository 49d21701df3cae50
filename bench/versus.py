"""Applications that have an RDMA and a TCP transport: both in turn, and whether RDMA is ahead."""
import argparse
import collections
import pathlib
import re
import sys

import machine
import measure
import tables

# A row of the table: its name, and two functions that return {figure: value}.
Row = collections.namedtuple("Row", "name rdma tcp")


def arguments(description, **further):
    """`further`: positional arguments beside BUILD, and their help."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    for name, text in further.items():
        parser.add_argument(name, type=lambda p: pathlib.Path(p).resolve(), help=text)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--wire", default="auto", choices=("auto", "udp", "shm"))
    parser.add_argument("--seconds", type=int, default=3, help="for one run")
    parser.add_argument("--cores", type=lambda text: [int(word) for word in text.split(",")],
                        default=machine.separate_cores(), metavar="A,B")
    args = parser.parse_args()
    if args.rounds < 1 or len(args.cores) < 2:
        parser.error("--rounds: at least 1; --cores: two")
    return args


def rdma(name):
    return f"{name}, RDMA"


def tcp(name):
    return f"{name}, TCP"


def table(title, writer, rows, figure, unit, digits):
    lines = []
    for row in rows:
        ours, theirs = (writer.median(end(row.name), figure) for end in (rdma, tcp))
        lines.append([row.name, writer.value(rdma(row.name), figure, digits),
                      writer.value(tcp(row.name), figure, digits),
                      writer.ratio(row.name, ours, theirs, 1, "TCP")])
    return tables.Table(f"{title}, {unit}", ["RDMA", "TCP", "× TCP"], lines)


def compare(title, rows, args, figure, unit, digits=0):
    """Runs everything and prints the table; the exit status."""
    rows = [row for row in rows if args.only.search(row.name)]
    results = measure.Results(machine.describe(args.build / "bin" / "verbena"))
    results.machine["wire"] = args.wire
    measures = [measure.Measure(name(row.name), getattr(row, take)) for row in rows
                for name, take in ((rdma, "rdma"), (tcp, "tcp"))]
    try:
        measure.run(measures, args.rounds, results, "")
    except KeyboardInterrupt:
        measure.say("interrupted: this is what was measured")
    finally:
        if args.json:
            results.save(args.json)
    writer = tables.Writer(results)
    print(", ".join(f"{name} {value}" for name, value in results.machine.items()) + "\n")
    print(tables.as_text(table(title, writer, rows, figure, unit, digits)))
    print(f"\ngoals: {writer.met} met, {len(writer.missed)} missed")
    for name, reason in results.missing.items():
        print(f"  skipped: {name}: {reason}")
    for name, reason in results.failed:
        print(f"  FAILED: {name}: {reason.strip().splitlines()[0]}")
    return 1 if results.failed else 0


def main(function):
    measure.end_by_signal()
    try:
        sys.exit(function())
    except (measure.Missing, measure.Failed) as reason:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {reason}")
