"""The counters below /sys/class/infiniband: what a program reads of its own NIC."""

import dataclasses

from cases import LO, Case, Tool, check_output, compiled
from observing import expect

# Of a RoCE NIC's ports/1/counters, and of the kernel's rxe's hw_counters.
PORT = {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
        "port_rcv_errors", "port_xmit_discards", "symbol_error", "link_error_recovery",
        "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
        "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
        "port_xmit_constraint_errors", "port_rcv_constraint_errors"}
HARDWARE = {"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err",
            "send_rnr_err", "rcvd_seq_err", "ack_deferred", "retry_exceeded_err",
            "retry_rnr_exceeded_err", "completer_retry_err", "send_err", "rdma_sends", "rdma_recvs",
            "lifespan"}

WRITES, SIZE, MTU = 16, 64 << 10, 1024  # of programs/counters.c
PACKETS = WRITES * SIZE // MTU
RETH, ACK = 16, 48  # of a WRITE's first packet; a whole acknowledgement with its IP header


class Readings:
    """What programs/counters.c printed."""

    def __init__(self, output):
        self._values = {}
        for line in output.splitlines():
            path, *values = line.split()
            self._values[path] = [int(v) for v in values]

    def names(self, folder):
        return {path.partition("/")[2] for path in self._values if path.startswith(folder + "/")}

    def __getitem__(self, path):
        return self._values[path]

    def grown(self, path):
        before, between, _ = self._values[path]
        return between - before


@dataclasses.dataclass(frozen=True)
class Grow(Case):
    """They begin at zero, grow with the traffic to the byte, and stay when queue pairs go."""

    def run(self, host, network):
        status, output = host.run(network.server.namespace, [compiled(host, "counters", "-libverbs")])
        check_output(status, output, 0, ())
        readings = Readings(output)
        self._check_names(readings)
        for path in ("counters/port_xmit_packets", "hw_counters/sent_pkts"):
            expect(readings[path][0] == 0, f"{path} is {readings[path][0]} before anything was sent")
            expect(readings[path][2] >= readings[path][1], f"{path} shrank: {readings[path]}")
        packets = readings.grown("counters/port_xmit_packets")
        acks = packets - PACKETS - readings.grown("hw_counters/retransmitted_pkts")
        expect(WRITES // 2 <= acks <= PACKETS, f"{packets} packets, of them {acks} acknowledgements")
        if readings.grown("hw_counters/retransmitted_pkts") == 0:
            self._check_bytes(readings, acks)
        expect(readings.grown("hw_counters/sent_pkts") == packets, "the queue pairs' packets differ")
        expect(readings.grown("counters/port_rcv_errors") == 0, "errors on a good network")
        return f"{packets} packets"

    @staticmethod
    def _check_names(readings):
        for folder, names in (("counters", PORT), ("hw_counters", HARDWARE)):
            missing = names - readings.names(folder)
            expect(not missing, f"{folder} lacks {sorted(missing)}")

    @staticmethod
    def _check_bytes(readings, acks):
        """IP and UDP headers (28), BTH (12), payload, ICRC (4); in words of four bytes."""
        total = PACKETS * (28 + 12 + MTU + 4) + WRITES * RETH + acks * ACK
        for name in ("port_xmit_data", "port_rcv_data"):
            words = readings.grown(f"counters/{name}")
            expect(words == total // 4, f"{name} is {words} for {total} bytes")


@dataclasses.dataclass(frozen=True)
class Errors(Case):
    """Damaged packets are errors of the port; what they cost is in the hardware's counters."""

    def run(self, host, network):
        status, output = host.with_options("--faults", "corrupt=2%,seed=3").run(
            network.server.namespace, [compiled(host, "counters", "-libverbs")], timeout=self.timeout)
        check_output(status, output, 0, ())
        readings = Readings(output)
        for path in ("counters/port_rcv_errors", "hw_counters/retransmitted_pkts",
                     "hw_counters/completer_retry_err"):
            expect(readings.grown(path) > 0, f"{path} stays {readings[path]}")
        sent, received, bad = (readings[f"counters/port_{name}"][2]
                               for name in ("xmit_packets", "rcv_packets", "rcv_errors"))
        # The last ones may be on their way still.
        expect(sent >= received + bad, f"{sent} sent, {received} received, {bad} bad")
        expect(received > PACKETS, f"{received} received, {PACKETS} requests are among them")
        return f"{bad} of {sent} packets were damaged"


def all_cases():
    return [
        Grow(LO, "counters/grow", quick=True),
        Errors(LO, "counters/errors", quick=True),
        Tool(LO, "counters/of-another-process", lambda folder: (
            "run", "--", "cat", "/sys/class/infiniband/vb_lo/ports/1/counters/port_xmit_data"),
            (r"\A0\n\Z",)),
        Tool(LO, "counters/no-such", lambda folder: (
            "run", "--", "cat", "/sys/class/infiniband/vb_lo/ports/1/hw_counters/no_such"),
            ("No such file",), 1),
    ]
