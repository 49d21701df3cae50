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
from cases import LO, Pair, Tool, arguments, check_output
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

@dataclasses.dataclass(frozen=True)
class Traced(Pair):
    messages: int = 0

    def run(self, host, network):
        with open_folder(host) as folder:
            words = super().run(host.with_options(
                "--faults", ROUGH, "--trace", f"{folder}/out.jsonl"), network)
            again = sum(self._check([json.loads(line) for line in open(file)])
                        for file in files_of_both(folder, "out", ".jsonl"))
        expect(again > 0, "nobody sent a frame again")
        return words

    def _check(self, events):
        """How many frames it sent again."""
        def of(name):
            return [e for e in events if e["event"] == name]
        expect(events[0]["event"] == "start", f"the first event is {events[0]}")
        expect(all(e["t"] >= events[0]["t"] for e in events), "events before the start")
        expect(len(of("post_send")) == self.messages, f"{len(of('post_send'))} posts")
        done = [e for e in of("completion") if e["status"] == "SUCCESS"]
        for kind in ("SEND", "RECV"):
            count = sum(e["op"] == kind for e in done)
            expect(count == self.messages, f"{count} completions of {kind}")
        states = [(e["from"], e["to"]) for e in of("state")]
        expect(states[:3] == [("RESET", "INIT"), ("INIT", "RTR"), ("RTR", "RTS")], f"{states}")
        again = sum(e["again"] for e in of("sent"))
        expect(of("retry") or not again, f"{again} frames were sent again, and nobody says why")
        return again


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
