"""Connections of rdma_cm that are many, that are cut short, and what is left of them."""

import dataclasses
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

from cases import LO, VETHS, WAITING_VETH, Case, MIB, compiled, next_tcp_port
from connections import REFUSED, expect_in, run_client, start_server, wait_for_line
from programs import CaseFailed, need_programs, tail



def build_connections(host):
    return compiled(host, "connections", "-lrdmacm", "-libverbs")


@dataclasses.dataclass(frozen=True)
class WithServer(Case):
    """`serve` starts it; the body is given it."""

    def serve(self, host, network, port):
        raise NotImplementedError

    def body(self, host, network, port, server):
        raise NotImplementedError

    def run(self, host, network):
        port = next_tcp_port()
        server = start_server(host, network, self.serve(host, network, port))
        try:
            return self.body(host, network, port, server)
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()


# ---------------------------------------------------------------- many

@dataclasses.dataclass(frozen=True)
class Churn(WithServer):
    """A thousand connections at once, ten times over, by one pair of processes. Nothing grows."""
    rounds: int = 10
    count: int = 1000

    def serve(self, host, network, port):
        return self._argv(host, network, port, "serve")

    def _argv(self, host, network, port, role):
        return [build_connections(host), role, network.server.addresses[4], str(port),
                str(self.rounds), str(self.count)]

    def body(self, host, network, port, server):
        wait_for_line(host, server, "^listening")
        deadline = host.deadline(self.timeout)
        client = run_client(host, network, server, self._argv(host, network, port, "connect"),
                            deadline)
        if server.wait(deadline) != 0:
            raise CaseFailed(f"the server ended with {server.poll()}")
        rates = [self._check_growth(process) for process in (server, client)]
        return f"{min(rates):.0f} connections/s"

    def _check_growth(self, process):
        """Returns the median rate."""
        total = self.rounds * self.count
        expect_in(process, (rf"^end: {total} closed, 0 broken",))
        lines = re.findall(r"rate (\d+)/s, rss (\d+) KiB, fds (\d+)", process.output())
        rates, resident, descriptors = ([int(line[i]) for line in lines] for i in range(3))
        if descriptors[-1] > descriptors[0]:
            raise CaseFailed("more and more descriptors\n" + tail(process))
        # In the first rounds more and more is in time-wait, a quarter of a second of each.
        if resident[-1] - resident[self.rounds // 2 - 1] > 2 * MIB // 1024:
            raise CaseFailed("more and more memory\n" + tail(process))
        return sorted(rates)[len(rates) // 2]


@dataclasses.dataclass(frozen=True)
class Cmtime(WithServer):
    """Each generation of cmtime has options, a table and an end of its own."""
    count: int = 1000

    def serve(self, host, network, port):
        address = network.server.addresses[4]
        if self._is_mesh():  # since rdma-core 60
            return ["cmtime", "-L", "-b", address, "-C", address, "-p", str(port), *self._count()]
        return ["cmtime", "-b", address, "-p", str(port), *self._count()]

    def run(self, host, network):
        if not self._is_mesh():
            return super().run(host, network)
        # It asks for a device when all its peers are there, whom it awaits on a TCP port.
        port = next_tcp_port()
        server = host.start(network.server.namespace, self.serve(host, network, port))
        try:
            host.wait_listening(network.server.namespace, port, server)
            return self.body(host, network, port, server)
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()

    def body(self, host, network, port, server):
        """Before rdma-core 50 the server never ends. The client says 0 even if all were refused."""
        address = network.server.addresses[4]
        if self._is_mesh():
            argv = ["cmtime", "-b", network.client.addresses[4], "-C", address]
        else:
            argv = ["cmtime", "-s", address]
        argv += ["-p", str(port), *self._count()]
        deadline = host.deadline(self.timeout)
        while True:
            client = run_client(host, network, server, argv, deadline)
            if milliseconds(client, "disconnect") > 0:
                return f"connect: {milliseconds(client, 'connect'):.0f} ms for {self.count}"
            if time.monotonic() > deadline:
                raise CaseFailed("it never disconnected anything\n" + tail(client))

    def _count(self):
        return ["-c", str(self.count)]

    @staticmethod
    def _is_mesh():
        need_programs("cmtime")
        usage = subprocess.run(["cmtime", "-?"], capture_output=True, text=True, check=False)
        return "controller_address" in usage.stdout


def milliseconds(client, step):
    """What cmtime says of the first test that it made, the one with queue pairs."""
    old = re.search(rf"^{step} *: *([\d.]+)", client.output(), re.M)
    if old:
        return float(old.group(1))
    new = re.search(rf"^(?:cm )?{step} +\d+ +(\d+)", client.output(), re.M)  # average, total in us
    return int(new.group(1)) / 1000 if new else 0.0


# ---------------------------------------------------------------- cut short

def rping_server(network, port, family=4):
    return ["rping", "-s", "-P", "-a", network.server.addresses[family], "-p", str(port)]


def rping_client(network, port, family=4):
    return ["rping", "-c", "-V", "-C", "3", "-a", network.server.addresses[family], "-p", str(port)]


@dataclasses.dataclass(frozen=True)
class ListenerKilled(WithServer):
    """Its port is free at once, and until somebody takes it connections are refused: by any NIC
    that the address has, here the client's own."""

    def serve(self, host, network, port):
        need_programs("rping")
        return rping_server(network, port)

    def body(self, host, network, port, server):
        deadline = host.deadline(self.timeout)
        run_client(host, network, server, rping_client(network, port), deadline)
        server.kill()
        status, output = host.run(network.client.namespace, rping_client(network, port))
        if status == 0 or not REFUSED.search(output):
            raise CaseFailed(f"a client of nobody ended with {status}:\n{output}")
        heir = start_server(host, network, rping_server(network, port))
        try:
            run_client(host, network, heir, rping_client(network, port), deadline)
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\nThe next server:\n{tail(heir)}") from None
        finally:
            heir.kill()
        return ""


@dataclasses.dataclass(frozen=True)
class PeerKilled(WithServer):
    """A client whose server was killed says good-bye, and doesn't wait for an answer as long as the
    repetitions would take, a minute: a process beside the dead one answers for it, or else the
    network says that nobody is there. See programs/goodbye.c."""
    neighbour: bool = False

    def serve(self, host, network, port):
        return self._argv(host, network, port, "serve")

    @staticmethod
    def _argv(host, network, port, role):
        return [compiled(host, "goodbye", "-lrdmacm", "-libverbs"), role,
                network.server.addresses[4], str(port)]

    def body(self, host, network, port, server):
        other = client = None
        try:
            if self.neighbour:
                other = start_server(host, network, self._argv(host, network, next_tcp_port(), "serve"))
            client = self._connected(host, network, port)
            server.kill()
            os.kill(client.pid, signal.SIGUSR1)
            if client.wait(host.deadline(self.timeout)) != 0:
                raise CaseFailed(f"the client ended with {client.poll()}\n{tail(client)}")
            status, took = re.search(r"DISCONNECTED, status (-?\d+), after ([\d.]+) s",
                                     client.output()).groups()
            wanted, most = ("0", 1) if self.neighbour else ("-110", 5)
            if status != wanted or float(took) > most * host.slow:
                raise CaseFailed(f"status {status} after {took} s; expected {wanted} within {most} s")
            return f"disconnected after {took} s"
        finally:
            for process in (client, other):
                if process:
                    process.kill()

    def _connected(self, host, network, port):
        """The first may be refused: the server doesn't listen yet."""
        deadline = host.deadline(10)
        while True:
            client = host.start(network.client.namespace, self._argv(host, network, port, "connect"))
            while not re.search("^connected$", client.output(), re.M) and client.poll() is None:
                time.sleep(0.01)
            if client.poll() is None:
                return client
            if time.monotonic() > deadline or not re.search("REJECTED, error 8", client.output()):
                raise CaseFailed("no connection\n" + tail(client))


@dataclasses.dataclass(frozen=True)
class ClientVanishes(WithServer):
    """Killed between its request and the third message: others are served as if nothing was."""

    def serve(self, host, network, port):
        return self._argv(host, network, port, "serve", "2", "20")

    @staticmethod
    def _argv(host, network, port, role, *counts):
        return [build_connections(host), role, network.server.addresses[4], str(port), *counts]

    def body(self, host, network, port, server):
        wait_for_line(host, server, "^listening")
        for _ in range(5):
            status, output = host.run(network.client.namespace,
                                      self._argv(host, network, port, "vanish"))
            if status != -signal.SIGKILL:
                raise CaseFailed(f"it should have killed itself, but ended with {status}:\n{output}")
        deadline = host.deadline(self.timeout)
        client = run_client(host, network, server,
                            self._argv(host, network, port, "connect", "2", "20"), deadline)
        expect_in(client, (r"^end: 40 closed, 0 broken",))
        if server.wait(deadline) != 0:
            raise CaseFailed(f"the server ended with {server.poll()}")
        return ""


@dataclasses.dataclass(frozen=True)
class Rejected(WithServer):
    """A server that says no, and why."""

    def serve(self, host, network, port):
        return self._argv(host, network, port, "serve")

    @staticmethod
    def _argv(host, network, port, role):
        return [compiled(host, "reject", "-lrdmacm", "-libverbs"), role,
                network.server.addresses[4], str(port)]

    def body(self, host, network, port, server):
        deadline = host.deadline(self.timeout)
        while True:
            status, output = host.run(network.client.namespace,
                                      self._argv(host, network, port, "connect"))
            early = re.search(r"REJECTED, status 8\b", output)  # nobody listens yet
            if not early or server.poll() is not None or time.monotonic() > deadline:
                break
        wanted = 'RDMA_CM_EVENT_REJECTED, status 28, private data "no, and this is why'
        if status != 0 or wanted not in output:
            raise CaseFailed(f"the client ended with {status}:\n{output}")
        if server.wait(deadline) != 0:
            raise CaseFailed(f"the server ended with {server.poll()}")
        return ""


@dataclasses.dataclass(frozen=True)
class Stopped(WithServer):
    """A process that is stopped (SIGSTOP) keeps nobody else on its address from connecting."""

    def serve(self, host, network, port):
        need_programs("rping")
        return rping_server(network, port)

    def body(self, host, network, port, server):
        deadline = host.deadline(self.timeout)
        run_client(host, network, server, rping_client(network, port), deadline)
        os.kill(server.pid, signal.SIGSTOP)
        other_port = next_tcp_port()
        other = start_server(host, network, rping_server(network, other_port))
        try:
            for _ in range(3):
                run_client(host, network, other, rping_client(network, other_port), deadline)
        finally:
            other.kill()
        os.kill(server.pid, signal.SIGCONT)
        run_client(host, network, server, rping_client(network, port), deadline)
        return ""


@dataclasses.dataclass(frozen=True)
class StoppedAmongThree(WithServer):
    """Three processes hold an address, each is stopped in its turn, and a fourth one is connected to.
    What waits for the stopped one comes again after 200 ms, and then after 1 s; the next time after
    more than 4 s."""
    most: float = 2.0  # seconds of a connection, on a busy machine

    def serve(self, host, network, port):
        need_programs("rping")
        return rping_server(network, port)

    def body(self, host, network, port, server):
        deadline = host.deadline(self.timeout)
        servers = {port: server}
        took = []
        try:
            for _ in range(2):
                port = next_tcp_port()
                servers[port] = start_server(host, network, rping_server(network, port))
            for port, process in servers.items():
                run_client(host, network, process, rping_client(network, port), deadline)
            for process in servers.values():
                os.kill(process.pid, signal.SIGSTOP)
                took += self._fourth(host, network, deadline)
                os.kill(process.pid, signal.SIGCONT)
            for port, process in servers.items():
                run_client(host, network, process, rping_client(network, port), deadline)
        finally:
            for process in list(servers.values())[1:]:
                process.kill()
        if max(took) > self.most * host.slow:
            raise CaseFailed(f"a client took {max(took):.2f} s beside a stopped process")
        return f"{len(took)} clients, the slowest {max(took):.2f} s, set-up and end included"

    @staticmethod
    def _fourth(host, network, deadline):
        """How long each client took, the first of them included, which may find no listener yet."""
        port = next_tcp_port()
        server = start_server(host, network, rping_server(network, port))
        took = []
        try:
            for _ in range(4):
                begin = time.monotonic()
                run_client(host, network, server, rping_client(network, port), deadline)
                took.append(time.monotonic() - begin)
        finally:
            server.kill()
        return took


@dataclasses.dataclass(frozen=True)
class Nobody(Case):
    """A client whose server's host runs none: the network says so (ICMP), and after three seconds
    the client hears of it. One whose server starts meanwhile is connected."""
    family: int = 4

    def run(self, host, network):
        need_programs("rping")
        port = next_tcp_port()
        begin = time.monotonic()
        status, output = host.run(network.client.namespace, rping_client(network, port, self.family))
        took = time.monotonic() - begin
        if status == 0 or not re.search(r"RDMA_CM_EVENT_UNREACHABLE, error -111\b", output):
            raise CaseFailed(f"a client of nobody ended with {status} after {took:.1f} s:\n{output}")
        # The kernel sends one ICMP message a second to an address, after six at once: one that is
        # held back costs the usual time of a repetition.
        if not 3 <= took <= 3 + 10 * host.slow:
            raise CaseFailed(f"it took {took:.1f} s")

        client = host.start(network.client.namespace, rping_client(network, port, self.family))
        server = None
        try:
            self._wait_for_refusals(host, network)
            begin = time.monotonic()
            server = host.start(network.server.namespace, rping_server(network, port, self.family))
            if client.wait(host.deadline(self.timeout)) != 0:
                raise CaseFailed("the server came in time, and the client failed\n" + tail(client))
            return (f"unreachable after {took:.1f} s; connected {time.monotonic() - begin:.1f} s "
                    "after the server's start")
        finally:
            client.kill()
            if server:
                server.kill()

    def _wait_for_refusals(self, host, network, count=2):
        """Datagrams to a port that nobody has, as the server's host counts them."""
        def refused():
            if self.family == 6:
                lines = dict(line.split() for line in network.server.namespace.proc_net("snmp6"))
                return int(lines["Udp6NoPorts"])
            lines = [line.split() for line in network.server.namespace.proc_net("snmp")]
            names, numbers = [line for line in lines if line[0] == "Udp:"][:2]
            return int(numbers[names.index("NoPorts")])

        goal = refused() + count
        deadline = host.deadline(5)
        while refused() < goal:
            if time.monotonic() > deadline:
                raise CaseFailed(f"fewer than {count} requests came in 5 s")
            time.sleep(0.01)


@dataclasses.dataclass(frozen=True)
class ManyClients(WithServer):
    """One client after the other. Each closes its event channel while a thread of its own waits
    on it, and ends with an error if that thread hears of it."""
    count: int = 300

    def serve(self, host, network, port):
        need_programs("rping")
        return rping_server(network, port)

    def body(self, host, network, port, server):
        client = shlex.join(rping_client(network, port))
        loop = f"for i in $(seq {self.count}); do {client} || exit 1; done"
        run_client(host, network, server, ["sh", "-c", loop], host.deadline(self.timeout))
        return f"{self.count} clients"


# ---------------------------------------------------------------- files and suites

@dataclasses.dataclass(frozen=True)
class Copy(WithServer):
    """rcopy: a file of some MiB arrives as it was."""
    size: int = 5 * MIB + 123

    def serve(self, host, network, port):
        need_programs("rcopy")
        return ["rcopy", "-p", str(port)]

    def body(self, host, network, port, server):
        source = pathlib.Path(host.logs) / f"rcopy.{port}"
        target = pathlib.Path(host.temporary) / f"rcopy.{port}"
        source.write_bytes(os.urandom(self.size))
        try:
            run_client(host, network, server,
                       ["rcopy", str(source), f"{network.server.addresses[4]}:{target}", "-p",
                        str(port)], host.deadline(self.timeout))
            if target.read_bytes() != source.read_bytes():
                raise CaseFailed(f"what arrived is not the file: {target.stat().st_size} bytes")
        finally:
            source.unlink()
            target.unlink(missing_ok=True)
        return ""


def all_cases():
    return [
        Churn(LO, "rdma_cm/churn", timeout=240),
        Cmtime(LO, "rdma_cm/cmtime"),
        ListenerKilled(LO, "rdma_cm/listener-killed", quick=True),
        PeerKilled(WAITING_VETH, "rdma_cm/peer-killed", timeout=40),
        PeerKilled(WAITING_VETH, "rdma_cm/peer-killed-beside-another", timeout=40, neighbour=True),
        ClientVanishes(LO, "rdma_cm/client-vanishes", quick=True),
        Rejected(LO, "rdma_cm/rejected", quick=True),
        Rejected(VETHS[0], "rdma_cm/rejected"),
        Stopped(LO, "rdma_cm/stopped-neighbour", quick=True),
        StoppedAmongThree(LO, "rdma_cm/stopped-among-three", timeout=90),
        Nobody(WAITING_VETH, "rdma_cm/nobody-there", quick=True),
        Nobody(WAITING_VETH, "rdma_cm/nobody-there-ipv6", family=6),
        ManyClients(LO, "rdma_cm/many-clients"),
        Copy(LO, "rdma_cm/rcopy", quick=True),
        Copy(VETHS[0], "rdma_cm/rcopy"),
    ]
