"""Programs of rdma_cm: the system's librdmacm, unmodified, on our devices."""

import dataclasses
import json
import os
import pathlib
import re
import time

from cases import (ERROR_LINE, LO, LO_LOSS, PERFTEST_RESULT, VETHS, VETH_LOSSES, Case, MIB,
                   next_tcp_port)
from network import ROCE_PORT
from programs import CaseFailed, CaseSkipped, need_programs, tail

# An ordinary TCP program speaks rsockets with this one, which calls librdmacm, which calls us.
LIBRSPRELOAD = f"/usr/lib/{os.uname().machine}-linux-gnu/rsocket/librspreload.so"
OVER_RSOCKETS = ("sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:$0" exec "$@"', LIBRSPRELOAD)

# What a client says when nobody listens (yet) on the port of its server.
REFUSED = re.compile(r"RDMA_CM_EVENT_REJECTED, error:? 8\b|RDMA_CM_EVENT_UNREACHABLE, error: 1\b"
                     r"|Connection refused|Unexpected CM event bl blka 8\b", re.I)
# What no program may say. Its events have a status only where something went wrong.
# (A thread of rping asks for events while the other closes the channel. rsockets don't know all
# options of TCP, and iperf says so.)
COMPLAINT = re.compile(ERROR_LINE.pattern + r"|\bfailed\b(?!: Operation not supported)|data mismatch"
                       r"|RDMA_CM_EVENT_\w+, error"
                       r"|(?<!rdma_get_cm_event)(?<!failed): (?:Invalid|Bad|No|Cannot|Operation|Input|Connection) \w+", re.I)


# ---------------------------------------------------------------- servers that can't be seen

def start_server(host, network, argv, udp_port=ROCE_PORT):
    """It has a socket on `udp_port`: nobody but a NIC refuses what comes too early, and what
    nobody refuses is repeated after seconds."""
    server = host.start(network.server.namespace, argv)
    wait_for_udp(host, network, udp_port, server)
    return server


def run_client(host, network, server, argv, deadline):
    """A client that ended well. Nobody can see whether an rdma_cm server listens already: a
    client that is refused is started again."""
    while True:
        client = host.start(network.client.namespace, argv)
        try:
            status = client.wait(deadline)
            refused = REFUSED.search(client.output())
            if refused and server.poll() is None and time.monotonic() < deadline:
                continue
            complaint = COMPLAINT.search(client.output())
            if status != 0 or complaint:
                words = f", it says \"{complaint.group(0)}\"" if complaint else ""
                raise CaseFailed(f"the client ended with {status}{words}\n" + tail(client))
            return client
        finally:
            client.kill()


def expect_in(process, patterns):
    for pattern in patterns:
        if not re.search(pattern, process.output(), re.M):
            raise CaseFailed(f"nothing matches /{pattern}/ in\n" + tail(process))


def expect_clean_end(server, statuses, deadline):
    status = server.wait(deadline)
    complaint = COMPLAINT.search(server.output())
    if status not in statuses or complaint:
        words = f", it says \"{complaint.group(0)}\"" if complaint else ""
        raise CaseFailed(f"the server ended with {status}{words}\n" + tail(server))


def words_for(network, family, port, arguments):
    """{server}, {client}: the addresses; {port}: free to listen on."""
    places = {"server": network.server.addresses[family],
              "client": network.client.addresses[family], "port": str(port)}
    return [word.format(**places) for word in arguments]


# ---------------------------------------------------------------- kinds of cases

@dataclasses.dataclass(frozen=True)
class Connected(Case):
    """A server, and its clients one after the other."""
    program: str = ""
    server: tuple = ()
    client: tuple = ()
    family: int = 4
    expect: tuple = ()         # regular expressions, of the client's output
    expect_server: tuple = ()
    statuses: tuple = (0,)     # of the server
    endless: bool = dataclasses.field(default=False, kw_only=True)  # the server is one by design
    clients: int = dataclasses.field(default=1, kw_only=True)
    client_program: str = dataclasses.field(default="", kw_only=True)
    wrapper: tuple = dataclasses.field(default=(), kw_only=True)
    udp: bool = dataclasses.field(default=False, kw_only=True)  # it meets its client by UDP

    def run(self, host, network):
        need_programs(self.program)
        port = next_tcp_port()
        server = self.start_server(host, network, port)
        try:
            deadline = host.deadline(self.timeout)
            for _ in range(self.clients):
                client = run_client(host, network, server, self._words(
                    network, port, self.client_program or self.program, self.client), deadline)
                expect_in(client, self.expect)
                self.check_sockets(network, port)
            if not self.endless:
                expect_clean_end(server, self.statuses, deadline)
                expect_in(server, self.expect_server)
            elif server.poll() is not None:
                raise CaseFailed(f"the server ended with {server.poll()}")
            return self.words(client)
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()

    def _words(self, network, port, program, arguments):
        return [*self.wrapper, program, *words_for(network, self.family, port, arguments)]

    def start_server(self, host, network, port):
        return start_server(host, network, self._words(network, port, self.program, self.server),
                            port if self.udp else ROCE_PORT)

    def check_sockets(self, network, port):
        """After a client."""

    def words(self, client):
        """For the report."""
        return ""


def wait_for_udp(host, network, port, server):
    """Until there is a socket on that port, or the server has ended."""
    deadline = host.deadline(10)
    namespace = network.server.namespace
    while not any(int(line.split()[1].rpartition(":")[2], 16) == port
                  for name in ("udp", "udp6") for line in namespace.proc_net(name)):
        if server.poll() is not None:
            return
        if time.monotonic() > deadline:
            server.kill()
            raise CaseFailed(f"the server has no socket on UDP port {port}\n" + tail(server))
        time.sleep(0.01)


@dataclasses.dataclass(frozen=True)
class Perftest(Connected):
    def words(self, client):
        result = PERFTEST_RESULT.search(client.output())
        if not result:
            raise CaseFailed("no result line in the client's output\n" + tail(client))
        return (f"{result.group(4)} MB/s" if self.program.endswith("_bw") else
                f"{result.group(5)} us typical")


@dataclasses.dataclass(frozen=True)
class OverRsockets(Connected):
    """A program of ordinary TCP sockets: librspreload makes rsockets of them, those speak to us."""
    wrapper: tuple = dataclasses.field(default=OVER_RSOCKETS, kw_only=True)
    frames: int = dataclasses.field(default=0, kw_only=True)  # at least so many of ours

    def run(self, host, network):
        if not os.path.exists(LIBRSPRELOAD):
            raise CaseSkipped(f"missing: {LIBRSPRELOAD}")
        with host.scratch() as folder:
            words = super().run(host.with_options(f"--stats={folder}/stats.json"), network)
            sent = sum(json.loads(file.read_text())["wire"]["frames_sent"]
                       for file in pathlib.Path(folder).iterdir())
        if sent < self.frames:
            raise CaseFailed(f"{sent} frames sent, {self.frames} at least expected")
        return words

    def check_sockets(self, network, port):
        # One that was closed is still seen, in TIME_WAIT: whoever closed first has it.
        for end in (network.server, network.client):
            if end.namespace.has_tcp(port):
                raise CaseFailed(f"a TCP socket of the kernel has port {port}")

    def words(self, client):
        return re.search(r"[\d.]+ [MG]bits/sec", client.output()).group(0)


@dataclasses.dataclass(frozen=True)
class ForkOverRsockets(OverRsockets):
    """A server that forks for its client. librspreload connects with TCP first, and the child
    listens anew for the rsocket."""
    wrapper: tuple = dataclasses.field(default=("env", "RDMAV_FORK_SAFE=1", *OVER_RSOCKETS),
                                       kw_only=True)
    SEMAPHORE = "/dev/shm/sem.rsocket_fork"  # librspreload's: never removed, one user's

    def run(self, host, network):
        if os.path.exists(self.SEMAPHORE):
            raise CaseSkipped(f"{self.SEMAPHORE} may be another user's")
        try:
            return super().run(host, network)
        finally:
            if os.path.exists(self.SEMAPHORE):
                os.unlink(self.SEMAPHORE)

    def start_server(self, host, network, port):
        server = host.start(network.server.namespace,
                            self._words(network, port, self.program, self.server))
        deadline = host.deadline(10)
        while not network.server.namespace.listens(port) and server.poll() is None:
            if time.monotonic() > deadline:
                server.kill()
                raise CaseFailed(f"the server doesn't listen on TCP port {port}\n" + tail(server))
            time.sleep(0.01)
        return server

    def check_sockets(self, network, port):
        """Its TCP connection was there, on purpose."""

    def words(self, client):
        return ""


@dataclasses.dataclass(frozen=True)
class Multicast(Case):
    """mckey: a receiver that has joined, then a sender."""
    group: str = ""
    family: int = 4
    arguments: tuple = ()

    def run(self, host, network):
        need_programs("mckey", "stdbuf")
        own = words_for(network, self.family, 0, ("-b", "{server}"))
        receiver = host.start(network.server.namespace,
                              ["stdbuf", "-oL", "mckey", "-m", self.group, *own, *self.arguments])
        try:
            wait_for_line(host, receiver, r"^mckey: joined")
            own = words_for(network, self.family, 0, ("-b", "{client}"))
            deadline = host.deadline(self.timeout)
            status = host.run(network.client.namespace,
                              ["mckey", "-s", "-m", self.group, *own, *self.arguments])
            if status[0] != 0:
                raise CaseFailed(f"the sender ended with {status[0]}:\n{status[1]}")
            expect_clean_end(receiver, (0,), deadline)
            expect_in(receiver, (r"data transfers complete", r"return status 0"))
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(receiver)}") from None
        finally:
            receiver.kill()
        return ""


def wait_for_line(host, process, pattern):
    deadline = host.deadline(10)
    while not re.search(pattern, process.output(), re.M):
        if process.poll() is not None or time.monotonic() > deadline:
            raise CaseFailed(f"no line /{pattern}/ of {process.title()}")
        time.sleep(0.01)


# ---------------------------------------------------------------- the table

def rping(topology, family, label, *extra, **kwargs):
    extra = ("-V", *extra)
    return Connected(topology, f"ipv{family}/rping-{label}", "rping",
                     ("-s", "-a", "{server}", "-p", "{port}", *extra),
                     ("-c", "-a", "{server}", "-p", "{port}", *extra), family,
                     statuses=(0, 255), **kwargs)


def ucmatose(topology, family, label, *extra, **kwargs):
    ends = (r"^data transfers complete", r"^return status 0")
    return Connected(topology, f"ipv{family}/ucmatose-{label}", "ucmatose",
                     ("-b", "{server}", "-p", "{port}", *extra),
                     ("-s", "{server}", "-p", "{port}", *extra), family, ends, ends, **kwargs)


def udaddy(topology, family, label, *extra, **kwargs):
    ends = (r"^data transfers complete", r"^return status 0")
    return Connected(topology, f"ipv{family}/udaddy-{label}", "udaddy", ("-b", "{server}", *extra),
                     ("-s", "{server}", *extra), family, ends, ends, **kwargs)


def example(topology, family, server, client, *extra, label="", **kwargs):
    # On every address, where that can be: of IPv4.
    at = ("-s", "{server}") if family == 6 else ()
    return Connected(topology, f"ipv{family}/{client}{label}", server,
                     (*at, "-p", "{port}", *extra),
                     ("-s", "{server}", "-p", "{port}", *extra), family, (rf"^{client}: end 0",),
                     (rf"^{server}: end 0",), client_program=client, **kwargs)


def stream(topology, family, program, label, *extra, client=(), **kwargs):
    return Connected(topology, f"ipv{family}/{program}-{label}", program,
                     ("-b", "{server}", "-p", "{port}", *extra),
                     ("-s", "{server}", "-p", "{port}", *(client or extra)), family,
                     (r"^name +bytes .*\n\S+ +\S+ .*\d",), **kwargs)


def perftest(topology, family, program, label, *extra, **kwargs):
    # Debian 12's refuses UC with -R, and resolves addresses of IPv4 alone.
    words = ("-R", "-p", "{port}", *extra)
    return Perftest(topology, f"ipv{family}/{program}-R{label}", program, words,
                    (*words, "{server}"), family, **kwargs)


def udpong(topology, family, label, *extra, **kwargs):
    return Connected(topology, f"ipv{family}/udpong-{label}", "udpong",
                     ("-b", "{server}", "-p", "{port}", *extra),
                     ("-s", "{server}", "-p", "{port}", *extra), family,
                     (r"^name +bytes .*\n\S+ +\S+ .*\d",), endless=True, udp=True, **kwargs)


def iperf(topology, family, **kwargs):
    words = ("-p", "{port}", *(("-V",) if family == 6 else ()))
    return OverRsockets(topology, f"ipv{family}/iperf-over-rsockets", "iperf",
                        ("-s", "-P", "1", "-B", "{server}", *words),
                        ("-c", "{server}", "-t", "1", *words), family,
                        (r"[\d.]+ [MG]bits/sec",), frames=1000, **kwargs)


def basic_cases(topology, family, quick=False):
    """Every program once."""
    yield rping(topology, family, "validate", "-C", "20", quick=quick)
    yield ucmatose(topology, family, "default", quick=quick)
    yield udaddy(topology, family, "default", quick=quick)
    yield example(topology, family, "rdma_server", "rdma_client", quick=quick)
    yield stream(topology, family, "rstream", "verify", "-S", "4000", "-I", "10", "-C", "10", "-T",
                 "v", quick=quick)
    yield stream(topology, family, "riostream", "verify", "-S", "4000", "-I", "10", "-C", "10",
                 "-T", "v")
    yield iperf(topology, family, quick=quick)
    yield udpong(topology, family, "echo", "-C", "100", "-S", "500", "-T", "e")


def thorough_cases():
    """Their options, on the loopback interface."""
    for size in (23, 1000, 65535):  # the least and the most that it takes
        yield rping(LO, 4, f"size-{size}", "-S", str(size), "-C", "5")
    yield rping(LO, 4, "verbose", "-v", "-C", "5")
    yield rping(LO, 4, "own-qp", "-q", "-C", "5")
    yield Connected(LO, "ipv4/rping-persistent", "rping",
                    ("-s", "-P", "-a", "{server}", "-p", "{port}"),
                    ("-c", "-V", "-a", "{server}", "-p", "{port}", "-C", "5"), endless=True,
                    clients=3)
    yield ucmatose(LO, 4, "100-connections", "-c", "100", quick=True)
    yield ucmatose(LO, 4, "sizes", "-c", "3", "-C", "20", "-S", "100000")
    yield ucmatose(LO, 4, "migrate", "-c", "10", "-m")
    yield ucmatose(LO, 4, "ack-timeout", "-a", "17", "-t", "32")
    yield udaddy(LO, 4, "10-paths", "-c", "10", "-S", "1000")
    for kind in ("r", "x"):
        yield example(LO, 4, "rdma_xserver", "rdma_xclient", "-c", kind, label=f"-{kind}")
    yield from stream_cases()


def stream_cases():
    few = ("-S", "2000", "-I", "10", "-C", "10")
    yield stream(LO, 4, "rstream", "all-sizes", timeout=120)
    for mode in ("b", "n", "r"):
        yield stream(LO, 4, "rstream", f"mode-{mode}", *few, "-T", mode, "-T", "v")
    # Only the server: an asynchronous client takes the server's good-bye for a failure when it
    # arrives together with the last data.
    yield stream(LO, 4, "rstream", "mode-a", *few, "-T", "a", "-T", "v",
                 client=(*few, "-T", "b", "-T", "v"))
    for size in (1, 64, 65536, MIB):
        yield stream(LO, 4, "rstream", f"size-{size}", "-S", str(size), "-I", "2", "-C", "4", "-T",
                     "v")
    yield stream(LO, 4, "rstream", "preloaded", *few, "-T", "s", "-T", "v", wrapper=OVER_RSOCKETS,
                 quick=True)
    yield ForkOverRsockets(LO, "ipv4/rstream-fork", "rstream",
                           ("-b", "{server}", "-p", "{port}", *few, "-T", "f", "-T", "v"),
                           ("-s", "{server}", "-p", "{port}", *few, "-T", "f", "-T", "v"), 4,
                           (r"^name +bytes .*\n\S+ +\S+ .*\d",), frames=100)
    for mode in ("b", "n"):
        yield stream(LO, 4, "riostream", f"mode-{mode}", *few, "-T", mode)
    for mode in ("b", "n", "a"):
        yield udpong(LO, 4, f"mode-{mode}", "-C", "50", "-S", "200", "-T", mode)


def perftest_cases(topology, thorough):
    few = ("-n", "500")
    for verb in ("send", "write", "read", "atomic"):
        for measure in ("bw", "lat"):
            yield perftest(topology, 4, f"ib_{verb}_{measure}", "", *few,
                           quick=thorough and measure == "bw")
    yield perftest(topology, 4, "ib_send_bw", "-ud", "-c", "UD")
    if thorough:
        yield perftest(topology, 4, "ib_send_bw", "-events", "-e", *few)
        yield perftest(topology, 4, "ib_send_bw", "-ud-events", "-c", "UD", "-e")
        yield perftest(topology, 4, "ib_write_bw", "-8-queue-pairs", "-q", "8", *few)


def loss_cases(topology):
    yield rping(topology, 4, "validate", "-C", "100", "-S", "20000", quick=True)
    # A lost DREP whose sender has ended by then costs its peer all repetitions of the DREQ: 70 s.
    yield ucmatose(topology, 4, "3-connections", "-c", "3", timeout=120)
    yield stream(topology, 4, "rstream", "verify", "-S", "4000", "-I", "10", "-C", "20", "-T", "v",
                 timeout=90)
    yield perftest(topology, 4, "ib_send_bw", "", "-n", "200")


def all_cases():
    cases = [*basic_cases(LO, 4, quick=True), *basic_cases(LO, 6), *thorough_cases(),
             *perftest_cases(LO, thorough=True)]
    for family in (4, 6):
        cases += basic_cases(VETHS[0], family)
    cases += perftest_cases(VETHS[0], thorough=False)
    for topology in (LO_LOSS, VETH_LOSSES[0]):
        cases += loss_cases(topology)
    for topology, family, group in ((LO, 4, "239.1.2.3"), (VETHS[0], 4, "239.1.2.3"),
                                    (VETHS[0], 6, "ff1e::1234")):
        cases.append(Multicast(topology, f"ipv{family}/mckey", group, family))
    return cases
