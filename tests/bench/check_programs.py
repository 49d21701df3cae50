#!/usr/bin/env python3
"""Checks that the programs of bench/ measure something: each prints JSON with positive figures.

  check_programs.py limits BUILD SOURCES   the programs of SOURCES/*.cc, in BUILD/bench/limits
  check_programs.py stream BUILD           BUILD/bench/verbs_stream, on Verbena's device

How fast the machine is doesn't matter.
"""
import json
import math
import pathlib
import subprocess
import sys

STREAMS = {"pull", "ring_direct", "ring_private_frames", "ring_system_calls", "tcp_stream"}
PING_PONGS = {"slot_ping_pong", "eventfd_ping_pong", "tcp_ping_pong"}
SHORT = ["--seconds", "0.02"]


def run(command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)


def complaint(command, wanted):
    """What is wrong with a run; "": nothing."""
    done = run(command)
    spoken = " ".join(map(str, command))
    if done.returncode == 77:
        print(f"skipped: {spoken}: {done.stderr.strip()}")
        return ""
    if done.returncode != 0:
        return f"{spoken}: status {done.returncode}: {done.stderr}"
    try:
        figures = json.loads(done.stdout)
    except ValueError:
        return f"{spoken}: no JSON: {done.stdout}"
    if set(figures) < wanted:
        return f"{spoken}: {sorted(wanted - set(figures))} is missing in {figures}"
    bad = {name: value for name, value in figures.items()
           if not math.isfinite(value) or value < 0 or (value == 0 and "cpu" not in name)}
    return f"{spoken}: {bad}" if bad else ""


def limits(build, sources):
    folder = build / "bench" / "limits"
    names = {path.stem for path in sources.glob("*.cc")}
    complaints = [f"{folder / name} isn't built" for name in names if not (folder / name).exists()]
    if not names >= STREAMS | PING_PONGS:
        complaints.append(f"{sources}: only {sorted(names)}")
    if complaints:
        return complaints
    runs = []
    for name in sorted(names):
        wanted = {"p50_us", "p99_us"} if name in PING_PONGS else {"gb_per_s"}
        variants = [["--size", "64"], ["--size", "1000"]]
        if name in STREAMS:
            # Whole pieces, a part of one, less than one; the end of the ring is in between.
            variants = [["--size", size, *more] for size in ("65536", "100001", "500")
                        for more in ([], ["--rewrite"])]
        if name == "tcp_ping_pong":
            variants.append(["--spin"])
        runs += [([folder / name, *SHORT, *options], wanted) for options in variants]
    complaints = [complaint(*each) for each in runs]
    for options in (["--no-such-option"], ["--size", "0"], ["--cores", "0"], ["--size"]):
        done = run([folder / "memory_copy", *options])
        if done.returncode != 2 or "usage:" not in done.stderr:
            complaints.append(f"memory_copy {options}: status {done.returncode}: {done.stderr}")
    return complaints


def stream(build):
    program = [build / "bin" / "verbena", "run", "--", build / "bench" / "verbs_stream"]
    wanted = {"gb_per_s", "sender_cpu_s_per_gb", "receiver_cpu_s_per_gb"}
    complaints = [complaint([*program, kind, *SHORT, "--size", "70000", *options], wanted)
                  for kind in ("write", "send", "read")
                  for options in ([], ["--rewrite"], ["--events"], ["--depth", "1"])]
    done = run([*program, "swim"])
    if done.returncode != 2 or "usage:" not in done.stderr:
        complaints.append(f"verbs_stream swim: status {done.returncode}: {done.stderr}")
    return complaints


def main():
    what, *folders = sys.argv[1:]
    complaints = {"limits": limits, "stream": stream}[what](*(pathlib.Path(f) for f in folders))
    for text in filter(None, complaints):
        print(text)
    return 1 if any(complaints) else 0


if __name__ == "__main__":
    sys.exit(main())
