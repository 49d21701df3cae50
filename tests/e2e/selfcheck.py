"""Does the harness notice what it is there to notice? Needs no RDMA device.

Plants a failing program, a hanging one, a server that never listens, a lossy link, things left
behind, a ladder that differs from a document's, and expects the right verdict on each.
"""

import dataclasses
import io
import os
import re
import subprocess
import sys
import time

from cases import Case, check_output
import outputs
from network import ROCE_PORT, Network, Topology
from programs import CaseFailed, CaseSkipped, Files

PLAIN = Topology("selfcheck")


@dataclasses.dataclass(frozen=True)
class Planted(Case):
    body: object = None

    def run(self, host, network):
        return self.body(host, network)


def failing_program(host, network):
    status, output = host.run(network.server.namespace, ["false"], preload=False)
    return check_output(status, output, 0, ())


def wrong_output(host, network):
    status, output = host.run(network.server.namespace, ["echo", "something"], preload=False)
    return check_output(status, output, 0, ("else",))


def hanging_program(host, network):
    host.run(network.server.namespace, ["sleep", "60"], timeout=0.3, preload=False)


def deaf_server(host, network):
    server = host.start(network.server.namespace, ["sleep", "60"], preload=False)
    try:
        host.wait_listening(network.server.namespace, 21000, server, timeout=0.3)
    finally:
        server.kill()


def dead_server(host, network):
    server = host.start(network.server.namespace, ["true"], preload=False)
    host.wait_listening(network.server.namespace, 21000, server)


def broken_harness(host, network):
    raise ValueError("planted")


def missing_thing(host, network):
    raise CaseSkipped("planted")


def good_program(host, network):
    status, output = host.run(network.server.namespace, ["id", "-u"], preload=False)
    check_output(status, output, 0, (rf"^{host.uid()}$",))


PLANTED = [(failing_program, "FAIL"), (wrong_output, "FAIL"), (hanging_program, "FAIL"),
           (deaf_server, "FAIL"), (dead_server, "FAIL"), (broken_harness, "FAIL"),
           (missing_thing, "skip"), (good_program, "ok")]

COUNT_DATAGRAMS = f"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
s.bind(("0.0.0.0", {ROCE_PORT}))
print("ready", flush=True)
count = 0
while s.recv(100) != b"end":
    count += 1
print(count)
"""
SEND_DATAGRAMS = f"""
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(2000):
    s.sendto(b"x", (sys.argv[1], {ROCE_PORT}))
    if i % 50 == 0: time.sleep(0.001)
for i in range(20):
    time.sleep(0.01)
    s.sendto(b"end", (sys.argv[1], {ROCE_PORT}))
"""


def datagrams_of_2000(network):
    """How many of 2000 datagrams cross the network."""
    receiver = subprocess.Popen(
        network.server.namespace.enter() + [sys.executable, "-c", COUNT_DATAGRAMS],
        stdout=subprocess.PIPE, text=True)
    try:
        receiver.stdout.readline()
        network.client.namespace.run(sys.executable, "-c", SEND_DATAGRAMS,
                                     network.server.addresses[4])
        return int(receiver.communicate(timeout=10)[0])
    finally:
        receiver.kill()
        receiver.wait()


def expect(failures, what, condition):
    print(f"{'ok' if condition else 'FAIL':<5} {what}", flush=True)
    if not condition:
        failures.append(what)


class FailsOnce:
    def __init__(self):
        self.failed = False

    def __call__(self, host, network):
        if not self.failed:
            self.failed = True
            raise CaseFailed("the first time")


def check_verdicts(host, network, report_type, run_case, failures):
    for body, verdict in PLANTED:
        text = io.StringIO()
        report = report_type(text)
        run_case(Planted(PLAIN, body.__name__, body), host, network, report)
        fine = report.close() == (verdict != "FAIL")
        expect(failures, f"{body.__name__} is reported as {verdict}",
               fine and text.getvalue().startswith(verdict))
    for times, passes in ((1, True), (2, False)):
        report = report_type(io.StringIO())
        for n in range(times):
            case = Planted(PLAIN, f"unsteady-{n}", FailsOnce())
            chances = 2
            while not run_case(case, host, network, report, chances):
                chances -= 1
        expect(failures, f"{times} of {times} cases unsteady is {'let pass' if passes else 'not'}",
               report.close() == passes and len(report.unsteady) == times)
    expect(failures, "no planted program survives", not network.namespaces[0].processes())


def check_leftovers(host, network, report_type, check_nothing_left, failures):
    def verdict(files):
        text = io.StringIO()
        report = report_type(text)
        check_nothing_left("nothing-left", host, lambda: network.leftovers() + files.new(), report)
        return text.getvalue()

    files = Files(host)
    expect(failures, "a clean network is reported as ok", verdict(files).startswith("ok"))

    script = ("import socket, sys; u = socket.socket(socket.AF_UNIX); "
              "u.bind('\\0verbena-planted'); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
              f"s.bind(('127.0.0.1', {ROCE_PORT})); print('ready', flush=True); sys.stdin.read()")
    planted = subprocess.Popen(
        network.namespaces[0].enter() + [sys.executable, "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    planted.stdout.readline()
    path = os.path.join("/tmp", f"verbena-planted.{os.getpid()}")
    with open(path, "w", encoding="ascii"):
        text = verdict(files)
    os.unlink(path)
    planted.communicate()
    for what in ("process ", f"socket on port {ROCE_PORT}", "@verbena-planted", f"file {path}"):
        expect(failures, f"left behind and found: {what}", text.startswith("FAIL") and what in text)


def check_veth(failures):
    for topology, low, high in ((Topology("veth", mtu=9000), 2000, 2000),
                                (Topology("veth-loss", mtu=1500, loss=True, offloads=False),
                                 1900, 1998)):
        network = Network(topology)
        try:
            left = network.namespaces[0]
            expect(failures, f"{topology.name}: MTU {topology.mtu}",
                   f"mtu {topology.mtu}" in left.run("ip", "link", "show", "left"))
            gro = "on" if topology.offloads else "off"
            expect(failures, f"{topology.name}: GRO {gro}",
                   f"generic-receive-offload: {gro}" in left.run("ethtool", "-k", "left"))
            addresses = left.run("ip", "addr", "show", "left")
            expect(failures, f"{topology.name}: fd99::1 is usable at once",
                   "fd99::1/64" in addresses and "tentative" not in addresses)
            arrived = datagrams_of_2000(network)
            expect(failures, f"{topology.name}: {arrived} of 2000 datagrams arrive",
                   low <= arrived <= high)
            if topology.loss:
                lost, seen = network.packets_lost()
                expect(failures, f"{topology.name}: the rest is counted",
                       lost >= 2000 - arrived and seen >= 2000)
        finally:
            namespace = f"/proc/{network.namespaces[0].pid}"
            network.close()
            expect(failures, f"{topology.name}: its namespaces are gone",
                   not os.path.exists(namespace))


LADDER = """\
                a 1                                      b 2
                QP 0x1, vb_lo                  QP 0x2, vb_lo
      0.100 ms  ○ post RECV wr_id 0, 8 B                   │
      0.101 ms  ⋮ 2 more like this                         │
      0.200 ms  │                  post SEND wr_id 1, 8 B ●
      0.201 ms  │◀────────────────── SEND only, PSN 7, 8 B ─┤
      0.202 ms  ├─ RNR NAK, wait 120 µs, PSN 7 ────────────▶│
      0.203 ms  │    receiver not ready: again from PSN 7 ↻
      0.300 ms  │◀═══════════ SEND only, PSN 7, 8 B, again ═┤
      0.301 ms  ✔ RECV completed wr_id 0: SUCCESS          │
      0.302 ms  ├─ ACK, PSN 7 ─────────────────────────────▶│
      0.303 ms  │◀──────────────────── READ request, PSN 8 ─┤
      0.304 ms  │◀───────────────── WRITE only, PSN 9, 4 B ─┤
      0.305 ms  ├─ READ response only, PSN 8, 16 B ────────▶│
      0.400 ms  ⋮ 5 lines more                             │
"""
CHANGES = (  # of what is seen: pattern and replacement; accepted; accepted where repairs count
    ("other times", r"0\.", "1.", True, True),
    ("other PSNs", r"PSN \d", "PSN 5", True, True),
    ("no acknowledgement", r".* ACK,.*\n", "", True, True),
    ("a completion later", r"(.*completed.*\n)((?:.*\n){3})", r"\2\1", True, True),
    ("no repairs", r".*(?:RNR|again).*\n", "", True, False),
    ("a repair more", r"(.*═.*\n)", r"\1\1", True, True),
    ("a receive less", "2 more like this", "1 more like this", False, False),
    ("a packet less", r".*READ request.*\n", "", False, False),
    ("packets in another order", r"(.*READ request.*\n)(.*WRITE.*\n)", r"\2\1", False, False),
    ("another packet", "WRITE only", "WRITE last", False, False),
    ("other bytes", ", 16 B", ", 17 B", False, False),
    ("another status", "SUCCESS", "WR_FLUSH_ERR", False, False),
    ("the ends swapped", r"├─ READ response only, PSN 8, 16 B ────────▶│",
     "│◀──────── READ response only, PSN 8, 16 B ─┤", False, False),
)


def check_ladders(failures):
    found = outputs.ladders_of(f"a line\n\n{LADDER}\n{LADDER}\n12 packets\n")
    expect(failures, "two ladders are found", found == [LADDER, LADDER])
    for what, pattern, replacement, *accepted in CHANGES:
        seen = re.sub(pattern, replacement, LADDER)
        verdicts = [not outputs.first_difference(LADDER, seen, repairs) for repairs in (False, True)]
        expect(failures, f"a ladder with {what} is {'accepted' if accepted[0] else 'refused'}",
               seen != LADDER and verdicts == accepted)


def main(host, outer, report_type, run_case, check_nothing_left):
    if outer:
        print(f"SKIPPED: no private network: {outer}")
        return 77
    missing = Topology("all", mtu=1500, loss=True).missing_tools()
    if missing:
        print(f"SKIPPED: missing: {', '.join(missing)}")
        return 77
    start = time.monotonic()
    failures = []
    check_ladders(failures)
    network = Network(PLAIN)
    try:
        check_verdicts(host, network, report_type, run_case, failures)
        check_leftovers(host, network, report_type, check_nothing_left, failures)
        listener = subprocess.Popen(
            network.server.namespace.enter() + [sys.executable, "-c",
             "import socket, sys; s = socket.create_server(('127.0.0.1', 21001)); sys.stdin.read()"],
            stdin=subprocess.PIPE)
        idle = host.start(network.server.namespace, ["sleep", "60"], preload=False)
        try:
            host.wait_listening(network.server.namespace, 21001, idle)
            expect(failures, "a listening server is seen", True)
        except CaseFailed as failure:
            expect(failures, f"a listening server is seen: {failure}", False)
        finally:
            idle.kill()
            listener.communicate()
    finally:
        network.close()
    check_veth(failures)
    print(f"{len(failures)} failed in {time.monotonic() - start:.1f} s")
    return 1 if failures else 0
