#!/usr/bin/env python3
"""The UDP wire beside what the kernel's own sockets do, in one run, as ratios.

usage: bench/run.py BUILD [--rounds N]

BUILD holds bin/verbena and bench/raw_sockets. All on 127.0.0.1 (device vb_lo). Rounds alternate
the programs, so that a noisy machine is noisy to all; the best of each is taken.
"""
import argparse
import pathlib
import re
import socket
import subprocess
import sys
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    wanted = f":{port:04X} "
    with open("/proc/net/tcp") as table:
        return any(wanted in line and " 0A " in line for line in table)


def raw(build, what):
    done = subprocess.run([build / "bench" / "raw_sockets", what], check=True, timeout=60,
                          capture_output=True, text=True)
    return float(done.stdout)


def perftest(build, program, *options):
    """One run on vb_lo; the last row of numbers that the client prints."""
    port = free_port()
    command = [build / "bin" / "verbena", "run", "--", program, "-d", "vb_lo", "-F", "-p",
               str(port), *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 10
        while not listening(port):
            if server.poll() is not None or time.monotonic() > end:
                sys.exit(f"{program}: the server does not listen: {server.stderr.read()}")
            time.sleep(0.01)
        client = subprocess.run([*command, "127.0.0.1"], timeout=120, capture_output=True, text=True)
        server.wait(timeout=10)
    finally:
        if server.poll() is None:
            server.kill()
    if client.returncode != 0:
        sys.exit(f"{program}: {client.stdout}{client.stderr}")
    rows = [line.split() for line in client.stdout.splitlines() if re.match(r"\s*\d+\s+\d+\s", line)]
    return rows[-1]


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text:<60}\r{text}", end="", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    build = args.build

    measures = {
        "TCP stream": (max, lambda: raw(build, "tcp-stream")),
        "UDP GSO/GRO stream": (max, lambda: raw(build, "udp-stream")),
        "ib_write_bw 64 KiB": (max, lambda: 1.048576 * float(
            perftest(build, "ib_write_bw", "-s", "65536")[3])),
        "UDP spinning ping-pong 64 B": (min, lambda: raw(build, "udp-pingpong")),
        "ib_write_lat 64 B": (min, lambda: float(perftest(build, "ib_write_lat", "-s", "64")[4])),
        "ib_send_lat 64 B": (min, lambda: float(perftest(build, "ib_send_lat", "-s", "64")[4])),
    }
    best = {}
    for n in range(args.rounds):
        for name, (better, measure) in measures.items():
            progress(f"round {n + 1}/{args.rounds}: {name}")
            value = measure()
            best[name] = better(best.get(name, value), value)
    progress("")

    def row(name, unit, limit):
        print(f"{name:<30}{best[name]:>10.2f} {unit:<6}{best[name] / best[limit]:>8.2f}")

    print(f"{'bandwidth':<30}{'':>10} {'':<6}{'× UDP':>8}")
    for name in ("TCP stream", "UDP GSO/GRO stream", "ib_write_bw 64 KiB"):
        row(name, "MB/s", "UDP GSO/GRO stream")
    print(f"\n{'latency, one way, typical':<30}{'':>10} {'':<6}{'× UDP':>8}")
    for name in ("UDP spinning ping-pong 64 B", "ib_write_lat 64 B", "ib_send_lat 64 B"):
        row(name, "µs", "UDP spinning ping-pong 64 B")


if __name__ == "__main__":
    main()
