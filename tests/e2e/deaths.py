"""A process with rdma_cm connections is killed: who hears of it, and from whom.

Events are waited for; the bound of a wait says how long an event may take at most.
"""

import contextlib
import dataclasses
import os
import re
import signal
import time

from cases import LO, WAITING_VETH, Case, compiled, next_tcp_port
from connections import REFUSED, start_server
from programs import CaseFailed, need_programs, tail

SOON = 2.0  # seconds; without rdma_cm's help the peer would wait for ever
START = 30.0  # of a program, on a busy machine


@dataclasses.dataclass(frozen=True)
class Deaths(Case):
    """`count` connections between two processes of programs/deaths.c, which the body is given."""
    count: int = 1

    def run(self, host, network):
        with contextlib.ExitStack() as stack:
            server = self.start(host, stack, network.server, network, "serve")
            self.expect(host, server, "^listening", START)
            client = self.start(host, stack, network.client, network, "connect", self.port(server))
            for process in (server, client):
                self.expect(host, process, f"^connected {self.count}$", START)
            return self.body(host, network, stack, server, client)

    def body(self, host, network, stack, server, client):
        raise NotImplementedError

    def start(self, host, stack, end, network, role, port=None):
        port = port or next_tcp_port()
        process = host.start(end.namespace,
                             [compiled(host, "deaths", "-lrdmacm", "-libverbs"), role,
                              network.server.addresses[4], str(port), str(self.count)])
        process.deaths_port = port
        stack.callback(process.kill)
        return process

    @staticmethod
    def port(server):
        return server.deaths_port

    def neighbour(self, host, stack, end):
        """A process beside those of `end`, with a NIC and no connections."""
        process = host.start(end.namespace,
                             [compiled(host, "deaths", "-lrdmacm", "-libverbs"), "serve",
                              end.addresses[4], str(next_tcp_port()), "1"])
        stack.callback(process.kill)
        self.expect(host, process, "^listening", START)
        return process

    @staticmethod
    def expect(host, process, pattern, seconds=SOON):
        deadline = host.deadline(seconds)
        while not re.search(pattern, process.output(), re.M):
            if process.poll() is not None or time.monotonic() > deadline:
                raise CaseFailed(f"/{pattern}/ doesn't come\n" + tail(process))
            time.sleep(0.005)

    def expect_end(self, host, process, received=0):
        self.expect(host, process, f"^disconnected {self.count}, received {received}$")
        if process.wait(host.deadline(30)) != 0:
            raise CaseFailed(f"it ended with {process.poll()}\n" + tail(process))

    def expect_none_ended(self, host, process):
        os.kill(process.pid, signal.SIGHUP)
        self.expect(host, process, f"^still {self.count}$")


@dataclasses.dataclass(frozen=True)
class PeerDies(Deaths):
    """`how` is the signal that ends one of them; `who` that is."""
    how: int = signal.SIGKILL
    who: str = "client"

    def body(self, host, network, stack, server, client):
        dead, other = (client, server) if self.who == "client" else (server, client)
        os.kill(dead.pid, self.how)
        self.expect_end(host, other)
        return ""


@dataclasses.dataclass(frozen=True)
class LastWords(Deaths):
    """What the dead one had sent is received before the end of the connection is told."""

    def body(self, host, network, stack, server, client):
        os.kill(server.pid, signal.SIGSTOP)
        os.kill(client.pid, signal.SIGUSR1)
        if client.wait(host.deadline(SOON)) != -signal.SIGKILL:
            raise CaseFailed(f"the client ended with {client.poll()}\n" + tail(client))
        os.kill(server.pid, signal.SIGCONT)
        self.expect_end(host, server, received=self.count)
        return ""


@dataclasses.dataclass(frozen=True)
class StoppedIsNotDead(Deaths):
    """A process that is stopped keeps its connections."""

    def body(self, host, network, stack, server, client):
        self.neighbour(host, stack, network.client)
        os.kill(client.pid, signal.SIGSTOP)
        # Somebody else's death makes all look whether there are more.
        self.neighbour(host, stack, network.client).kill()
        self.neighbour(host, stack, network.client)
        self.expect_none_ended(host, server)
        os.kill(client.pid, signal.SIGCONT)
        self.expect_none_ended(host, client)
        self.expect_none_ended(host, server)
        os.kill(client.pid, signal.SIGKILL)
        self.expect_end(host, server)
        return ""


@dataclasses.dataclass(frozen=True)
class ChildrenAreNotTheOwner(Deaths):
    """The end of a forked child ends no connection, and a child that lives keeps none."""

    def body(self, host, network, stack, server, client):
        os.kill(client.pid, signal.SIGQUIT)
        self.expect(host, client, "^forked")
        child = int(re.search(r"^forked (\d+)", client.output(), re.M).group(1))
        stack.callback(os.kill, child, signal.SIGKILL)
        self.expect_none_ended(host, server)
        self.expect_none_ended(host, client)
        os.kill(client.pid, signal.SIGKILL)
        self.expect_end(host, server)
        return ""


@dataclasses.dataclass(frozen=True)
class RpingServerEnds(Case):
    """rping's server, which only waits for its client, ends when that is killed."""

    def run(self, host, network):
        need_programs("rping")
        port = next_tcp_port()
        server = start_server(host, network, ["rping", "-s", "-a", network.server.addresses[4],
                                              "-p", str(port)])
        client = None
        try:
            client = self._in_traffic(host, network, server, port)
            client.kill()
            server.wait(host.deadline(10))
            if not re.search("DISCONNECT EVENT", server.output()):
                raise CaseFailed("it didn't hear of it\n" + tail(server))
        finally:
            for process in (client, server):
                if process:
                    process.kill()
        return ""

    @staticmethod
    def _in_traffic(host, network, server, port):
        """The first may be refused: the server doesn't listen yet."""
        argv = ["rping", "-c", "-v", "-a", network.server.addresses[4], "-p", str(port)]
        deadline = host.deadline(10)
        while True:
            client = host.start(network.client.namespace, argv)
            while not re.search("ping data", client.output()) and client.poll() is None:
                time.sleep(0.005)
            if client.poll() is None:
                return client
            if time.monotonic() > deadline or not REFUSED.search(client.output()):
                raise CaseFailed("no connection\n" + tail(client) + tail(server))


@dataclasses.dataclass(frozen=True)
class NeighbourDisconnects(Deaths):
    """On the dead one's host another process is left, which had come before or after it. `dying`
    others die at the same time."""
    dying: int = 0

    def body(self, host, network, stack, server, client):
        first = [self.neighbour(host, stack, network.client) for _ in range(self.dying)]
        self.neighbour(host, stack, network.client)
        first += [self.neighbour(host, stack, network.client) for _ in range(self.dying)]
        for process in (client, *first):
            os.kill(process.pid, signal.SIGKILL)
        self.expect_end(host, server)
        return ""


@dataclasses.dataclass(frozen=True)
class NeighbourDiesToo(Deaths):
    """What is sent for the dead one is lost; the neighbours that send it are killed as well, but one.
    That one gets through at last."""

    def body(self, host, network, stack, server, client):
        need_programs("nft")
        dying = [client, *(self.neighbour(host, stack, network.client) for _ in range(2))]
        self.neighbour(host, stack, network.client)
        self._lose_all(network.server.namespace)
        for process in dying:
            before = self._lost(network.server.namespace)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(host.deadline(SOON))
            deadline = host.deadline(10)  # the third retry comes after four seconds
            while self._lost(network.server.namespace) == before:
                if time.monotonic() > deadline:
                    raise CaseFailed("nobody disconnects for it\n" + tail(process))
                time.sleep(0.01)
        self.expect_none_ended(host, server)
        network.server.namespace.run("nft", "delete", "table", "inet", "deaths")
        self.expect(host, server, f"^disconnected {self.count}, received 0$", 10)
        return ""

    @staticmethod
    def _lose_all(namespace):
        namespace.run("nft", "-f", "-", input="""
            table inet deaths {
              chain arriving {
                type filter hook input priority 0;
                udp dport 4791 counter drop
              }
            }""")

    @staticmethod
    def _lost(namespace):
        rules = namespace.run("nft", "list", "table", "inet", "deaths")
        return int(re.search(r"counter packets (\d+)", rules).group(1))


@dataclasses.dataclass(frozen=True)
class NobodyIsLeft(Deaths):
    """Nobody is left on the dead one's host, so the peer keeps the connection until its own program
    ends it: see docs/troubleshooting.md."""

    def body(self, host, network, stack, server, client):
        os.kill(client.pid, signal.SIGKILL)
        client.wait(host.deadline(SOON))
        time.sleep(SOON)  # as long as it would take with a neighbour
        self.expect_none_ended(host, server)
        return ""


def all_cases():
    return [
        PeerDies(LO, "deaths/client-killed", quick=True),
        PeerDies(LO, "deaths/server-killed", who="server"),
        PeerDies(LO, "deaths/client-execs", how=signal.SIGUSR2, quick=True),
        PeerDies(LO, "deaths/server-execs", how=signal.SIGUSR2, who="server"),
        PeerDies(LO, "deaths/300-connections", count=300),
        LastWords(LO, "deaths/last-words", count=8, quick=True),
        ChildrenAreNotTheOwner(LO, "deaths/children"),
        RpingServerEnds(LO, "deaths/rping"),
        StoppedIsNotDead(LO, "deaths/stopped"),
        StoppedIsNotDead(WAITING_VETH, "deaths/stopped"),
        NeighbourDisconnects(WAITING_VETH, "deaths/neighbour", quick=True),
        NeighbourDisconnects(WAITING_VETH, "deaths/neighbour-300-connections", count=300),
        NeighbourDisconnects(WAITING_VETH, "deaths/neighbours-die-at-once", dying=3),
        NeighbourDiesToo(WAITING_VETH, "deaths/neighbours-die-in-turn", count=8),
        NobodyIsLeft(WAITING_VETH, "deaths/nobody-left"),
    ]
