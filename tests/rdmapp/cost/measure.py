#!/usr/bin/env python3
"""Counts the instructions of the data path in C and with rdma++, and compares.

  measure.py PROGRAM [--most N]    PROGRAM is built from data_path.cc; run it under the preload
                                   library (verbena run) or on a machine with a device

Exit status: 0 no pair differs by more than N instructions [6], 1 one does, 77 no valgrind.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAIRS = [("write", "post a WRITE, signaled"),
         ("send", "post a SEND, inline, immediate, solicited"),
         ("chain", "post a chain: WRITE, SEND"),
         ("recv", "post a receive"),
         ("poll_one", "poll one completion"),
         ("poll_batch", "poll a batch of 16")]


def self_costs(text):
    """Function -> instructions of its own, of callgrind's output format."""
    costs, names = collections.Counter(), {}
    function, after_calls = None, False
    for line in text.splitlines():
        if line.startswith("fn="):
            number, name = re.match(r"fn=\((\d+)\)(?: (.*))?", line).groups()
            names.setdefault(number, name)
            function = names[number]
        elif line.startswith(("cfn=", "cfi=", "cob=")):
            match = re.match(r"cfn=\((\d+)\) (.*)", line)
            if match:
                names.setdefault(*match.groups())
        elif line.startswith("calls="):
            after_calls = True  # the next line is the callee's cost
        elif re.match(r"[+\-*\d]", line):
            if not after_calls and function:
                costs[function] += int(line.split()[1])
            after_calls = False
    return costs


def measure(program):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "callgrind.out")
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program],
                             capture_output=True, text=True, timeout=300)
        calls = re.search(r"^calls (\d+)$", run.stdout, re.MULTILINE)
        if run.returncode != 0 or not calls:
            sys.exit(f"{program} failed under valgrind:\n{run.stdout}{run.stderr}")
        return int(calls[1]), self_costs(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--most", type=float, default=6, help="instructions per call that may differ")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("SKIPPED: there is no valgrind on this machine; apt-get install valgrind")
        return 77

    calls, costs = measure(args.program)
    worst = 0
    print(f"{'instructions per call':<44}{'C':>7}{'rdma++':>8}")
    for name, words in PAIRS:
        plain, wrapped = costs[f"c_{name}"] / calls, costs[f"cpp_{name}"] / calls
        if plain == 0 or wrapped == 0:
            sys.exit(f"measure.py: callgrind saw no c_{name} or no cpp_{name}")
        worst = max(worst, wrapped - plain)
        print(f"{words:<44}{plain:>7.1f}{wrapped:>8.1f}")
    if worst > args.most:
        print(f"rdma++ costs up to {worst:.1f} more; {args.most:.0f} are allowed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
