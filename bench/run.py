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

TCP = "TCP stream"
UDP = "UDP stream"  # GSO, GRO
PING_PONG = "ping-pong"  # UDP, 64 B, spinning
CALLS = "the wire's calls"  # the same, as our wire sends and receives, and copies
RATE = "ib_write_bw 64 B, window 128"
START = "ibv_devinfo, more than without"


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


def start_of(command):
    """Milliseconds of a run; that it finds no device is no matter."""
    begin = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    return 1000 * (time.monotonic() - begin)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text:<60}\r{text}", end="", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    build = args.build

    def bandwidth(program, size):
        return max, lambda: 1.048576 * float(perftest(build, program, "-s", str(size))[3])

    def latency(program):
        return min, lambda: float(perftest(build, program, "-s", "64")[4])

    measures = {
        TCP: (max, lambda: raw(build, "tcp-stream")),
        UDP: (max, lambda: raw(build, "udp-stream")),
        **{f"{program} {size >> 10} KiB": bandwidth(program, size)
           for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw") for size in (1 << 16, 1 << 20)},
        PING_PONG: (min, lambda: raw(build, "udp-pingpong")),
        CALLS: (min, lambda: raw(build, "wire-pingpong")),
        **{f"{program} 64 B": latency(program) for program in ("ib_write_lat", "ib_send_lat")},
        RATE: (max, lambda: float(
            perftest(build, "ib_write_bw", "-s", "64", "-t", "128", "-n", "200000")[4])),
        START: (min, lambda: start_of([build / "bin" / "verbena", "run", "--", "ibv_devinfo"])
                - start_of(["ibv_devinfo"])),
    }
    best = {}
    for n in range(args.rounds):
        for name, (better, measure) in measures.items():
            progress(f"round {n + 1}/{args.rounds}: {name}")
            value = measure()
            best[name] = better(best.get(name, value), value)
    progress("")

    def table(title, names, unit, *limits):
        print(f"{title:<30}{'':>10} {'':<6}" + "".join(f"{'× ' + of:>14}" for of in limits))
        for name in names:
            print(f"{name:<30}{best[name]:>10.2f} {unit:<6}" +
                  "".join(f"{best[name] / best[of]:>14.2f}" for of in limits))
        print()

    table("bandwidth", [n for n in measures if n in (TCP, UDP) or "_bw" in n and n != RATE], "MB/s",
          TCP, UDP)
    table("latency, one way, typical", [n for n in measures if n in (PING_PONG, CALLS) or "_lat" in n],
          "µs", PING_PONG, CALLS)
    print(f"{RATE:<30}{best[RATE]:>10.2f} million/s")
    print(f"{START:<30}{best[START]:>10.1f} ms")


if __name__ == "__main__":
    main()
