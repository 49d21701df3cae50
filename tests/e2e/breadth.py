"""The options of perftest on every service; what libfabric and qperf test of a device; programs on a
bad network. docs/clients.md has the tables."""

import dataclasses
import pathlib
import re
import subprocess

from cases import (ERROR_LINE, LO, Case, check_pair, compiled, make_way, next_tcp_port, start_pair,
                   wait_for_pair)
from clients import FABRIC, run_pair
from connections import Connected, Perftest, wait_for_line
from observing import Faulty
from programs import CaseFailed, need_programs, tail

# ---------------------------------------------------------------- perftest

# "#bytes #iterations t_avg tps", where other latencies have minimum and maximum
LATENCY_OF_DURATION = re.compile(r"tps average\s+\d+ +[1-9]\d* +[\d.]+ +[\d.]+ *$", re.M)
# perftest goes on without an option that it thinks the device hasn't got.
REFUSED_OPTION = re.compile(r"^.*not recognized.*$", re.M)
# Some releases of perftest have them (4.5), some don't (25.01).
VARYING_OPTIONS = ("--inline_recv",)
XRC_FILES = tuple(f"/tmp/xrc_domain_{end}" for end in ("client", "server"))


def lacking_options(pair):
    program, *options = pair.split()
    varying = [option for option in options if option.split("=")[0] in VARYING_OPTIONS]
    if not varying:
        return []
    usage = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    known = usage.stdout + usage.stderr
    return [option for option in varying if option.split("=")[0] not in known]


@dataclasses.dataclass(frozen=True)
class Together(Case):
    """Pairs of perftest side by side, each with options of its own. A short run is mostly perftest's
    measuring of the processor's clock, so all take little longer than one."""
    pairs: tuple = ()  # "PROGRAM OPTION …"
    # The receive buffers that sockets have on most machines, whatever this one allows.
    default_buffers: bool = dataclasses.field(default=False, kw_only=True)
    # A process that ends may cost its neighbours' UC queue pairs a message (decision 001).
    one_by_one: bool = dataclasses.field(default=False, kw_only=True)

    def run(self, host, network):
        need_programs(*(pair.split()[0] for pair in self.pairs))
        for path in XRC_FILES:
            make_way(host, path)
        try:
            for pairs in ([pair] for pair in self.pairs) if self.one_by_one else [self.pairs]:
                self.run_together(host, network, pairs)
        finally:
            for path in XRC_FILES:
                pathlib.Path(path).unlink(missing_ok=True)
        lacking = [option for pair in self.pairs for option in lacking_options(pair)]
        without = f", without {' '.join(lacking)}, which this perftest lacks" if lacking else ""
        return f"{len(self.pairs)} pairs{without}"

    def run_together(self, host, network, pairs):
        wrapper = (compiled(host, "default_buffers"),) if self.default_buffers else ()
        started = []
        try:
            for pair in pairs:
                program, *options = pair.split()
                options = [o for o in options if o not in lacking_options(pair)]
                started.append((program, *start_pair(host, network, program, options, 4, wrapper)))
            for program, server, client in started:
                self.check(host, program, server, client)
        finally:
            for _, *processes in started:
                for process in processes:
                    process.kill()

    def check(self, host, program, server, client):
        try:
            statuses = wait_for_pair(host, server, client, self.timeout)
            if refused := REFUSED_OPTION.search(client.output()):
                raise CaseFailed(refused.group())
            if statuses == (0, 0) and LATENCY_OF_DURATION.search(client.output()):
                return
            check_pair(program, server, client, statuses)
        except CaseFailed as failure:
            raise CaseFailed(f"{client.title()}: {failure}\n{tail(server)}\n{tail(client)}"
                             ) from None


@dataclasses.dataclass(frozen=True)
class Counted(Together):
    """perftest shows how much the counters of its device have grown."""

    def check(self, host, program, server, client):
        super().check(host, program, server, client)
        grown = re.findall(r"^\s*(\w+/\w+)=(\d+)", client.output(), re.M)
        if not grown or any(int(value) == 0 for _, value in grown):
            raise CaseFailed(f"{client.title()}: counters that grew: {grown}")


def perftest_cases():
    yield Counted(LO, "perftest/counters", (
        "ib_send_bw -n 100 -W counters/port_xmit_data,counters/port_rcv_packets,"
        "hw_counters/sent_pkts",))
    yield Together(LO, "perftest/send", (
        "ib_send_bw -b -n 100",
        "ib_send_bw -e -X 0 -q 16 -n 20",
        "ib_send_bw -Q 20 -t 64 -r 32 -n 100",
        "ib_send_bw -l 16 --recv_post_list=16 -n 160",
        "ib_send_bw --use-srq -q 16 -n 20",
        "ib_send_bw --use-srq -q 4 -e -n 20",
        "ib_send_bw -I 512 -s 512 -m 256 -n 100"))
    yield Together(LO, "perftest/send-set-up", (
        "ib_send_bw --odp --mr_per_qp -q 4 -n 50",
        "ib_send_bw -b --report-both --report_gbits -n 100",
        "ib_send_bw --reversed --tclass=96 -S 3 -u 18 -n 100",
        "ib_send_bw --use_old_post_send --inline_recv=64 -s 64 --pkey_index=0 -n 100",
        "ib_send_bw -N -w 0.001 -y 0.000001 -i 1 --disable_pcie_relaxed --force-link=Ethernet -n 100",
        "ib_send_bw --ipv6 --dlid 5 --source_ip 127.0.0.1 --wait_destroy=1 -n 100",
        "ib_send_bw -x 1 --rate_limit=2 --rate_limit_type=SW --burst_size=10 -n 100"))
    yield Together(LO, "perftest/duration", (
        "ib_send_bw -D 1 -f 0 --cpu_util",
        "ib_send_bw -D 1 -f 0 -c UD",
        "ib_write_bw -D 1 -f 0 -c UC",
        "ib_read_bw -D 1 -f 0",
        "ib_atomic_bw -D 1 -f 0",
        "ib_send_lat -D 1 -f 0"))
    # At these buffers each of several queue pairs alone could overflow the receiver.
    yield Together(LO, "perftest/unreliable", (
        "ib_send_bw -c UC -q 8 -n 200",
        "ib_send_bw -c UD -q 8 -n 500",
        "ib_send_bw -c UC -e -q 16 -n 100",
        "ib_send_bw -c UC -b -q 4 -m 1024 -n 100",
        "ib_send_bw -c UD -b -m 2048 -n 100",
        "ib_send_bw -c UD -l 8 -I 884 -s 884 -n 160",
        "ib_write_bw -c UC -b -q 8 -n 100"), default_buffers=True, one_by_one=True, timeout=120)
    yield Together(LO, "perftest/xrc", (
        "ib_send_bw -c XRC -b -q 4 -n 50",
        "ib_send_bw -c XRC -e -n 50",
        *(f"ib_{verb}_bw -c XRC -n 50" for verb in ("write", "read", "atomic")),
        *(f"ib_{verb}_lat -c XRC -n 50" for verb in ("send", "write", "read", "atomic"))))
    yield Together(LO, "perftest/write", (
        "ib_write_bw -b -q 16 -l 4 -n 80",
        "ib_write_bw -I 256 -s 256 -Q 10 -n 100",
        "ib_write_bw --odp -m 512 -t 16 -n 50",
        "ib_write_bw --perform_warm_up -c UC -n 100",
        "ib_write_lat -I 200 -s 200 -n 50",
        "ib_write_lat -c UC -u 18 -n 50"))
    yield Together(LO, "perftest/read-and-atomic", (
        "ib_read_bw -b -q 8 -n 50",
        "ib_read_bw -o 1 -e -n 50",
        "ib_read_bw -m 256 -l 8 --odp -n 80",
        "ib_read_lat -o 2 -e -n 50",
        "ib_atomic_bw -b -q 8 -n 100",
        "ib_atomic_bw -o 1 -e -n 50",
        "ib_atomic_bw -l 8 -n 80",
        "ib_atomic_lat -A CMP_AND_SWAP -e -n 50"))
    yield Together(LO, "perftest/latency", (
        "ib_send_lat -e -C -n 50",
        "ib_send_lat -H -n 50",
        "ib_send_lat -U -n 50",
        "ib_send_lat -I 64 -s 64 --latency_gap=100 -n 50",
        "ib_send_lat --use-srq -n 50",
        "ib_send_lat -c UD -e -n 50",
        "ib_send_lat -c UC -e -n 50"))
    yield Together(LO, "perftest/all-sizes", (
        "ib_send_bw -a -b -n 5",
        "ib_send_bw -a -c UD -n 5"), timeout=180)
    words = ("-z", "-p", "{port}", "-n", "100")
    yield Perftest(LO, "perftest/send-z", "ib_send_bw", words, (*words, "{server}"))
    words = ("-R", "-T", "96", "--retry_count=3", "-p", "{port}", "-n", "100")
    yield Perftest(LO, "perftest/send-R-tos", "ib_send_bw", words, (*words, "{server}"))


# ---------------------------------------------------------------- libfabric

@dataclasses.dataclass(frozen=True)
class FabricPingpong(Case):
    """fi_pingpong between two hosts, all sizes, the data compared."""
    provider: str = ""
    kind: str = ""
    iterations: int = 10
    named: bool = False  # datagrams: the device has to be named, or it is the loopback's

    def run(self, host, network):
        need_programs("fi_pingpong")
        port = next_tcp_port()
        common = ("-p", self.provider, "-e", self.kind, "-I", str(self.iterations), "-c")

        def device(end):
            return ("-d", f"{end.device}-dgram") if self.named else ()

        output = run_pair(host, network,
                          ("fi_pingpong", *common, *device(network.server), "-B", str(port)),
                          ("fi_pingpong", *common, *device(network.client), "-P", str(port),
                           network.server.addresses[4]), port, self.timeout)
        sizes = re.findall(rf"^(\S+) +{self.iterations} +={self.iterations} ", output, re.M)
        if "4k" not in sizes:
            raise CaseFailed(f"no line for each size:\n{output}")
        return f"{len(sizes)} sizes"


def fabric_cases():
    yield FabricPingpong(FABRIC, "libfabric/pingpong-msg", "verbs", "msg")
    yield FabricPingpong(FABRIC, "libfabric/pingpong-rdm", "verbs;ofi_rxm", "rdm")
    yield FabricPingpong(FABRIC, "libfabric/pingpong-dgram", "verbs", "dgram", named=True)


# ---------------------------------------------------------------- qperf

QPERF = (("rc_lat", "rc_bw", "rc_bi_bw", "rc_compare_swap_mr"),
         ("rc_rdma_read_bw", "rc_rdma_read_lat", "rc_fetch_add_mr", "ver_rc_compare_swap"),
         ("rc_rdma_write_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat", "ver_rc_fetch_add"))
REFUSED_BY_ROCE = ("uc_lat", "ud_lat")


@dataclasses.dataclass(frozen=True)
class Qperf(Case):
    """Its tests, one second each, of several pairs of a server and a client side by side."""

    def run(self, host, network):
        need_programs("qperf")
        servers, clients = [], []
        try:
            for tests in QPERF:
                port = next_tcp_port()
                servers.append(self.start_server(host, network, port))
                clients.append((tests, host.start(network.client.namespace, (
                    "qperf", "-lp", str(port), "-t", "1", network.server.addresses[4], "-cm", "1",
                    *tests))))
            deadline = host.deadline(self.timeout)
            for tests, client in clients:
                self.check(tests, client.wait(deadline), client.output())
        except CaseFailed as failure:
            logs = "\n".join(tail(p) for p in (*servers, *(c for _, c in clients)))
            raise CaseFailed(f"{failure}\n{logs}") from None
        finally:
            for process in (*servers, *(client for _, client in clients)):
                process.kill()
        return f"{sum(map(len, QPERF))} tests"

    @staticmethod
    def start_server(host, network, port):
        server = host.start(network.server.namespace, ("qperf", "-lp", str(port)))
        host.wait_listening(network.server.namespace, port, server)
        return server

    @staticmethod
    def check(tests, status, output):
        if status != 0 or ERROR_LINE.search(output):
            raise CaseFailed(f"a client ended with {status}")
        for test in tests:
            if not re.search(rf"^{test}:\n +\w+ += +[\d.]+ \S+$", output, re.M):
                raise CaseFailed(f"no result of {test}")


@dataclasses.dataclass(frozen=True)
class QperfWithoutGrh(Case):
    """UC and UD know no -cm, and their address vectors no GRH: refused, with the reason."""

    def run(self, host, network):
        need_programs("qperf")
        port = next_tcp_port()
        server = Qperf.start_server(host, network, port)
        try:
            for test in REFUSED_BY_ROCE:
                status, output = host.run(network.client.namespace, (
                    "qperf", "-lp", str(port), "-t", "1", network.server.addresses[4], test))
                if status == 0 or "Invalid argument" not in output:
                    raise CaseFailed(f"{test} ended with {status}:\n{output}")
            wait_for_line(host, server, "the address vector has no GRH")
        finally:
            server.kill()


# ---------------------------------------------------------------- a bad network

BAD = "seed=11,drop=1%,reorder=2%,duplicate=1%,delay=2ms"
LATE = "seed=11,reorder=2%,duplicate=1%,delay=2ms"  # UC and UD wait for what is lost for ever


def fault_cases():
    retried = (("port", "retransmitted_pkts"),)
    for program, options in (("ibv_srq_pingpong", ("-c", "-q", "4", "-n", "50")),
                             ("ibv_rc_pingpong", ("-c", "-e", "-n", "100")),
                             ("ib_send_bw", ("-q", "4", "-n", "50")),
                             ("ib_atomic_bw", ("-n", "100"))):
        yield Faulty(LO, f"faults/bad-{program}", program, options, 4, faults=BAD,
                     shows=(("faults", "dropped"), *retried), timeout=120)
    for service in ("uc", "ud"):
        yield Faulty(LO, f"faults/late-{service}_pingpong", f"ibv_{service}_pingpong",
                     ("-n", "100"), 4, faults="seed=11,delay=2ms", timeout=120)
    yield Faulty(LO, "faults/late-ib_send_bw-ud", "ib_send_bw", ("-c", "UD", "-n", "200"), 4,
                 faults=LATE, shows=(("faults", "reordered"), ("faults", "duplicated")), timeout=120)


@dataclasses.dataclass(frozen=True)
class FaultyConnected(Connected):
    def run(self, host, network):
        return super().run(host.with_options("--faults", BAD), network)


def all_cases():
    ping = ("-a", "{server}", "-p", "{port}", "-C", "30", "-V")
    return [*perftest_cases(), *fabric_cases(), Qperf(LO, "qperf/rc", timeout=90),
            QperfWithoutGrh(LO, "qperf/no-grh"), *fault_cases(),
            FaultyConnected(LO, "faults/bad-rping", "rping", ("-s", *ping), ("-c", *ping))]
