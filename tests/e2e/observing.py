"""`verbena run --faults --pcap --trace --stats`: what they do to programs, and what they show."""

import contextlib
import dataclasses
import glob
import ipaddress
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import zlib

import connections
from cases import LO, Case, Pair, Tool, arguments, check_output, compiled
from programs import CaseFailed, need_programs

ROUGH = "drop=1%,reorder=2%,dup=1%,delay=2ms,seed=7"


@contextlib.contextmanager
def open_folder(host):
    """A folder in which the programs may write."""
    folder = tempfile.mkdtemp(dir=host.logs)
    os.chmod(folder, 0o777)
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder)


def expect(condition, words):
    if not condition:
        raise CaseFailed(words)


def files_of_both(folder, stem, suffix):
    """The first process has the name, the second its process id in it."""
    files = sorted(glob.glob(f"{folder}/{stem}*{suffix}"))
    expect(len(files) == 2, f"two processes wrote {files}")
    first = f"{folder}/{stem}{suffix}"
    expect(first in files, f"nobody has {first}: {files}")
    other = next(f for f in files if f != first)
    expect(re.fullmatch(rf"{stem}\.\d+{re.escape(suffix)}", os.path.basename(other)),
           f"no process id in {other}")
    return files


# ---------------------------------------------------------------- faults and statistics

@dataclasses.dataclass(frozen=True)
class Faulty(Pair):
    """A pair over a network that misbehaves: it ends well, and the counters show why not at once."""
    faults: str = ""
    shows: tuple = ()  # (section, counter) that must not be zero, of both ends together

    def run(self, host, network):
        with open_folder(host) as folder:
            words = super().run(host.with_options(
                "--faults", self.faults, f"--stats={folder}/stats.json"), network)
            both = [json.loads(pathlib.Path(f).read_text())
                    for f in files_of_both(folder, "stats", ".json")]
        for section, counter in self.shows:
            total = sum(self._values(stats, section, counter) for stats in both)
            expect(total > 0, f"{section} {counter} is 0 at both ends")
        for stats in both:
            self._check_sums(stats)
        return words

    @staticmethod
    def _values(stats, section, counter):
        if section == "port":
            return sum(port["hw_counters"][counter] for port in stats["ports"])
        return stats[section][counter]

    @staticmethod
    def _check_sums(stats):
        for port in stats["ports"]:
            for name, value in port["hw_counters"].items():
                pairs = sum(qp["counters"][name] for qp in stats["qps"]
                            if qp["device"] == port["device"])
                expect(pairs == value, f"{name}: {value} at the port, {pairs} at its queue pairs")
            counters = port["counters"]
            expect(counters["port_xmit_packets"] > 0 and counters["port_rcv_packets"] > 0
                   and counters["port_xmit_data"] > 0, f"no traffic in {counters}")


@dataclasses.dataclass(frozen=True)
class Table(Pair):
    """--stats alone: the table of both ends is behind their output."""

    def run(self, host, network):
        words = super().run(host.with_options("--stats"), network)
        logs = sorted(pathlib.Path(host.logs).glob(f"*-{self.program}.log"))[-2:]
        for log in logs:
            check_output(0, log.read_text(), 0,
                         (rf"^verbena: {self.program[:15]}, process \d+", r"^ +vb_lo/1 +0x",
                          r"^  port_xmit_packets +\d", r"^  sent_pkts +\d+ +\d+"))
        return words


# ---------------------------------------------------------------- captures

BAD_PACKETS = ("_ws.malformed || _ws.expert.severity >= 0x00600000 || ip.checksum.status == 0"
               " || udp.checksum.status == 0")


def tshark(host, network, path, *more):
    """The lines that it prints; a word on standard error is a failure."""
    need_programs("tshark")
    result = subprocess.run(
        host.as_user(network.server.namespace)
        + ["tshark", "-r", path, "--disable-protocol", "rpcordma",
           "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", *more],
        capture_output=True, text=True, timeout=120, cwd="/",  # it reads files of where it is
        env={"PATH": "/usr/bin:/bin", "HOME": host.temporary, "LC_ALL": "C"})
    expect(result.returncode == 0, f"tshark ended with {result.returncode}: {result.stderr}")
    # An ordinary user's tests run as the root of a user namespace, which it warns of.
    words = [line for line in result.stderr.splitlines() if line and "Running as user" not in line]
    expect(not words, f"tshark says: {words}")
    return result.stdout.splitlines()


def packets_in(path):
    """(flags, bytes from the IP header on) of each packet of a pcapng file."""
    data = pathlib.Path(path).read_bytes()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        expect(struct.unpack_from("<I", data, at + length - 4)[0] == length, "a block's lengths differ")
        if kind == 6:
            size = struct.unpack_from("<I", data, at + 20)[0]
            yield struct.unpack_from("<I", data, at + length - 12)[0], data[at + 28:at + 28 + size]
        at += length


def icrc_is_right(packet):
    """IBA annex A17.3.3, on its own feet."""
    v4 = packet[0] >> 4 == 4
    header = bytearray(packet[:20 if v4 else 40])
    if v4:
        header[1] = header[8] = header[10] = header[11] = 0xff
    else:
        header[0] |= 0x0f
        header[1] = header[2] = header[3] = header[7] = 0xff
    udp = bytearray(packet[len(header):len(header) + 8])
    udp[6] = udp[7] = 0xff
    rest = bytearray(packet[len(header) + 8:-4])
    rest[4] = 0xff
    crc = zlib.crc32(b"\xff" * 8 + header + udp + rest)
    return struct.pack("<I", crc) == packet[-4:]


def check_capture(host, network, path, family):
    packets = list(packets_in(path))
    expect(packets, f"{path} has no packet")
    wrong = sum(not icrc_is_right(packet) for _, packet in packets)
    expect(wrong == 0, f"{wrong} of {len(packets)} packets have a wrong ICRC")
    directions = {flags & 3 for flags, _ in packets}
    expect(directions == {1, 2}, f"directions {directions} instead of received and sent")
    address = ipaddress.ip_address(network.server.addresses[family])
    source = slice(12, 16) if family == 4 else slice(8, 24)
    expect(any(packet[source] == address.packed for _, packet in packets),
           f"nothing came from {address}")
    expect(len(tshark(host, network, path)) == len(packets), "tshark sees another number of packets")
    bad = tshark(host, network, path, "-Y", BAD_PACKETS)
    expect(not bad, "tshark complains of\n" + "\n".join(bad[:5]))
    return len(packets)


@dataclasses.dataclass(frozen=True)
class Captured(Pair):
    def run(self, host, network):
        need_programs("tshark")
        with open_folder(host) as folder:
            super().run(host.with_options("--pcap", f"{folder}/out.pcapng"), network)
            counts = [check_capture(host, network, f, self.family)
                      for f in files_of_both(folder, "out", ".pcapng")]
        return f"{counts[0]} and {counts[1]} packets"


@dataclasses.dataclass(frozen=True)
class CapturedConnection(connections.Connected):
    def run(self, host, network):
        need_programs("tshark")
        with open_folder(host) as folder:
            words = super().run(host.with_options("--pcap", f"{folder}/out.pcapng"), network)
            lines = "\n".join(tshark(host, network, f"{folder}/out.pcapng"))
            check_capture(host, network, f"{folder}/out.pcapng", 4)
        order = r"CM: ConnectRequest[\s\S]*CM: ConnectReply[\s\S]*CM: ReadyToUse[\s\S]*RDMA Read"
        expect(re.search(order, lines), "no REQ, REP, RTU and READ in this order:\n" + lines[:2000])
        return words


# ---------------------------------------------------------------- traces

QPN = re.compile(r"0x[0-9a-f]{6}")


def events_in(path):
    """Of a trace: the events of each process, in the order of time."""
    processes = {}
    with open(path) as lines:
        for line in lines:
            event = json.loads(line)
            processes.setdefault(event["pid"], []).append(event)
            for name in ("qp", "destination_qp", "peer_qp"):
                expect(name not in event or QPN.fullmatch(event[name]), f"{name} in {line}")
            expect(isinstance(event.get("wr_id", ""), str), f"wr_id in {line}")
    for events in processes.values():
        expect(events[0]["event"] == "start" and events[0]["version"] == 2,
               f"the first event is {events[0]}")
        expect(all(e["t"] >= events[0]["t"] for e in events), "events before the start")
        events.sort(key=lambda e: e["t"])
    return processes


def named(events, name):
    return [e for e in events if e["event"] == name]


@dataclasses.dataclass(frozen=True)
class Traced(Pair):
    """Both ends write into one file."""
    messages: int = 0
    faults: str = ROUGH

    def run(self, host, network):
        with open_folder(host) as folder:
            words = super().run(host.with_options(
                "--faults", self.faults, "--trace", f"{folder}/out.jsonl"), network)
            expect(os.listdir(folder) == ["out.jsonl"], f"the traces are {os.listdir(folder)}")
            processes = events_in(f"{folder}/out.jsonl")
        expect(len(processes) == 2, f"{len(processes)} processes wrote the trace")
        again = sum(self._check(events) for events in processes.values())
        expect(again > 0, "nobody sent a frame again")
        self._check_together([e for events in processes.values() for e in events])
        return words

    def _check(self, events):
        """How many frames it sent again."""
        expect(len(named(events, "post_send")) == self.messages,
               f"{len(named(events, 'post_send'))} posts")
        done = [e for e in named(events, "completion") if e["status"] == "SUCCESS"]
        for kind in ("SEND", "RECV"):
            count = sum(e["op"] == kind for e in done)
            expect(count == self.messages, f"{count} completions of {kind}")
        states = named(events, "state")
        expect([(e["from"], e["to"]) for e in states]
               == [("", "RESET"), ("RESET", "INIT"), ("INIT", "RTR"), ("RTR", "RTS"),
                   ("RTS", "DESTROYED")], f"{states}")
        expect(all(e["type"] == "RC" for e in states), f"{states}")
        expect(states[2]["device"] == "vb_lo" and states[2]["peer"] == "::ffff:127.0.0.1"
               and states[2]["mtu"] == 1024, f"{states[2]}")
        again = sum(e["again"] for e in named(events, "sent"))
        expect(named(events, "retry") or not again,
               f"{again} frames were sent again, and nobody says why")
        return again

    @staticmethod
    def _check_together(events):
        """Each end has the other for its peer, and what one received the other has sent."""
        ready = [e for e in named(events, "state") if e["to"] == "RTR"]
        expect([e["peer_qp"] for e in ready] == [e["qp"] for e in reversed(ready)], f"{ready}")
        sent = {(e["headers"], e["bytes"]) for e in named(events, "sent")}
        strange = [e for e in named(events, "received") if (e["headers"], e["bytes"]) not in sent]
        expect(not strange, f"nobody sent {strange[:1]}")
        kinds = {e["kind"] for e in named(events, "fault")}
        expect(kinds == {"drop", "duplicate", "reorder"}, f"the faults are {kinds}")


@dataclasses.dataclass(frozen=True)
class TracedDamage(Pair):
    """A frame that is damaged on its way arrives, and is dropped with its reason."""

    def run(self, host, network):
        with open_folder(host) as folder:
            super().run(host.with_options("--faults", "corrupt=5%", "--trace",
                                          f"{folder}/out.jsonl"), network)
            events = [e for of in events_in(f"{folder}/out.jsonl").values() for e in of]
        struck = [e for e in named(events, "fault") if e["kind"] == "corrupt"]
        dropped = [e for e in named(events, "dropped") if e["reason"] == "icrc_errors"]
        expect(struck and dropped, f"{len(struck)} frames were damaged, {len(dropped)} dropped")
        # Its last answer may reach nobody.
        expect(len(dropped) <= len(struck), f"{len(struck)} damaged, {len(dropped)} dropped")
        sent = {e["headers"] for e in named(events, "sent")}
        expect(all(e["headers"] in sent for e in struck), "a fault shows a frame that nobody sent")
        return f"{len(dropped)} frames dropped"


@dataclasses.dataclass(frozen=True)
class TracedConnection(connections.Connected):
    """Both ends of a connection in one file, with the messages that make and end it."""
    ORDER = ("sent ConnectRequest", "received ConnectRequest", "sent ConnectReply",
             "received ConnectReply", "sent ReadyToUse", "received ReadyToUse")

    def run(self, host, network):
        with open_folder(host) as folder:
            words = super().run(host.with_options("--trace", f"{folder}/out.jsonl"), network)
            processes = events_in(f"{folder}/out.jsonl")
        expect(len(processes) == 2, f"{len(processes)} processes wrote the trace")
        expect({events[0]["program"] for events in processes.values()} == {"rping"},
               f"{[events[0] for events in processes.values()]}")
        messages = [e for events in processes.values() for e in events if "cm" in e]
        messages.sort(key=lambda e: e["t"])
        order = [f"{e['event']} {e['cm']}" for e in messages]
        # A request that nobody listens for yet is refused, and made again.
        first = len(order) - 1 - order[::-1].index(self.ORDER[0])
        expect(tuple(order[first:first + len(self.ORDER)]) == self.ORDER, f"{order}")
        expect("sent DisconnectRequest" in order and "received DisconnectRequest" in order,
               f"{order}")
        for e in messages:
            expect(e["qp"] == e["peer_qp"] == "0x000001" and len(e["headers"]) == 2 * 276, f"{e}")
        return words


@dataclasses.dataclass(frozen=True)
class TracedFork(Case):
    """A forked child that opens the device itself writes into the same file, as itself."""

    def run(self, host, network):
        with open_folder(host) as folder:
            status, output = host.with_options("--trace", f"{folder}/out.jsonl").run(
                network.server.namespace, [compiled(host, "forks", "-libverbs")],
                timeout=self.timeout)
            check_output(status, output, 0, ())
            processes = events_in(f"{folder}/out.jsonl")
        expect(len(processes) == 2, f"the processes are {list(processes)}")
        expect(all(len(named(events, "start")) == 1 for events in processes.values()),
               "a process began twice")
        return ""


# ---------------------------------------------------------------- the table

def all_cases():
    checked = ("-c", "-n", "100", "-s", "10000")
    retransmitted = (("port", "retransmitted_pkts"), ("port", "completer_retry_err"))
    yield Faulty(LO, "faults/rc_pingpong-rough", "ibv_rc_pingpong", checked, 4, faults=ROUGH,
                 shows=(("faults", "dropped"), ("faults", "duplicated"), ("faults", "reordered"),
                        ("port", "duplicate_request"), *retransmitted), quick=True)
    yield Faulty(LO, "faults/rc_pingpong-events-rough", "ibv_rc_pingpong", ("-e", *checked), 4,
                 faults=ROUGH, shows=retransmitted)
    yield Faulty(LO, "faults/rc_pingpong-corrupt", "ibv_rc_pingpong", checked, 4,
                 faults="corrupt=2%", shows=(("faults", "corrupted"), ("wire", "icrc_errors"),
                                             *retransmitted))
    yield Faulty(LO, "faults/rc_pingpong-jitter", "ibv_rc_pingpong", ("-c", "-n", "50"), 4,
                 faults="delay=2ms~1ms")
    yield Faulty(LO, "faults/ib_write_bw-rough", "ib_write_bw", ("-n", "100", "-s", "65536"), 4,
                 faults=ROUGH, shows=(("faults", "dropped"), *retransmitted))
    yield Faulty(LO, "faults/ib_read_bw-rough", "ib_read_bw", ("-n", "100", "-s", "65536"), 4,
                 faults=ROUGH, shows=(("faults", "dropped"), *retransmitted))
    yield Faulty(LO, "faults/ib_write_bw-rate", "ib_write_bw", ("-n", "100", "-s", "65536"), 4,
                 faults="rate=500Mbit")
    yield Table(LO, "stats/ib_write_bw", "ib_write_bw", ("-n", "100"), 4)
    yield Captured(LO, "pcap/rc_pingpong", "ibv_rc_pingpong", checked, 4, quick=True)
    yield Captured(LO, "pcap/rc_pingpong-ipv6", "ibv_rc_pingpong", checked, 6)
    yield Captured(LO, "pcap/ib_write_bw-batches", "ib_write_bw", ("-n", "20", "-s", "262144"), 4)
    yield CapturedConnection(LO, "pcap/rping", "rping",
                             ("-s", "-a", "{server}", "-p", "{port}", "-C", "5", "-V"),
                             ("-c", "-a", "{server}", "-p", "{port}", "-C", "5", "-V"))
    yield Traced(LO, "trace/rc_pingpong-rough", "ibv_rc_pingpong", checked, 4, messages=100)
    yield TracedDamage(LO, "trace/rc_pingpong-corrupt", "ibv_rc_pingpong", checked, 4)
    yield TracedConnection(LO, "trace/rping", "rping",
                           ("-s", "-a", "{server}", "-p", "{port}", "-C", "5", "-V"),
                           ("-c", "-a", "{server}", "-p", "{port}", "-C", "5", "-V"))
    yield TracedFork(LO, "trace/fork")
    yield Tool(LO, "tool/run-bad-faults", arguments("run", "--faults", "drop=7", "--", "ibv_devices"),
               (r'"drop=7".*0% to 100%',), 2)
    yield Tool(LO, "tool/run-bad-faults-variable", arguments("run", "--", "ibv_devices"),
               (r'VERBENA_FAULTS: "delay=2".*2ms~0\.5ms',), 2, (("VERBENA_FAULTS", "delay=2"),))
    yield Tool(LO, "tool/run-pcap-nowhere",
               arguments("run", "--pcap", "/no/such/folder/out", "--", "ibv_devices"),
               ("--pcap /no/such/folder/out: No such file",), 2)
    yield Tool(LO, "tool/run-pcap-disk-full",
               arguments("run", "--pcap", "/dev/full", "--", "ibv_rc_pingpong", "-d", "vb_lo", "-g", "0"),
               ("/dev/full: No space left on device; make room",), 1)
