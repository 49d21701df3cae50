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
from programs import CaseFailed, tail

SOON = 2.0  # seconds; without rdma_cm's help the peer would wait for ever


@dataclasses.dataclass(frozen=True)
class Deaths(Case):
    """`count` connections between two processes of programs/deaths.c, which the body is given."""
    count: int = 1

    def run(self, host, network):
        with contextlib.ExitStack() as stack:
            server = self.start(host, stack, network.server, network, "serve")
            self.expect(host, server, "^listening")
            client = self.start(host, stack, network.client, network, "connect", self.port(server))
            for process in (server, client):
                self.expect(host, process, f"^connected {self.count}$", 30)
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
        self.expect(host, process, "^listening")
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
    """The process that disconnects for the dead one is killed before the peer could answer; so is
    the next one. The third one does it."""

    def body(self, host, network, stack, server, client):
        os.kill(server.pid, signal.SIGSTOP)  # it takes a DREQ and doesn't answer
        line = [client, *(self.neighbour(host, stack, network.client) for _ in range(2))]
        self.neighbour(host, stack, network.client)
        for process in line:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(host.deadline(SOON))
        os.kill(server.pid, signal.SIGCONT)
        self.expect_end(host, server)
        return ""


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
        StoppedIsNotDead(LO, "deaths/stopped"),
        StoppedIsNotDead(WAITING_VETH, "deaths/stopped"),
        NeighbourDisconnects(WAITING_VETH, "deaths/neighbour", quick=True),
        NeighbourDisconnects(WAITING_VETH, "deaths/neighbour-300-connections", count=300),
        NeighbourDisconnects(WAITING_VETH, "deaths/neighbours-die-at-once", dying=3),
        NeighbourDiesToo(WAITING_VETH, "deaths/neighbours-die-in-turn", count=8),
        NobodyIsLeft(WAITING_VETH, "deaths/nobody-left"),
    ]
