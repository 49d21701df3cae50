"""Every lab, used wrongly: what is wrong and what to do, the right exit status, in time.

A case is one way to be wrong; it tries all labs, several at a time, and names those that fail. A
device's processes share its address: a connection request that comes to one while it ends is lost,
and repeated after 4.3 s only. So the next labs start when all of those before have ended.
"""

import concurrent.futures
import dataclasses
import os
import re
import signal
import time

from cases import LO, VETHS, WAITING_VETH, Case, next_tcp_port
from connections import wait_for_line
from programs import CaseFailed, tail

USAGE, FAILED = 2, 1


def judge(status, output, wanted, patterns):
    """What is wrong with it; empty: nothing."""
    if status != wanted:
        return f"exit status {status} instead of {wanted}: {output.strip()[-300:]}"
    for pattern in patterns:
        if not re.search(pattern, output, re.S):
            return f"nothing matches /{pattern}/ in: {output.strip()[-300:]}"
    return ""


@dataclasses.dataclass(frozen=True)
class EveryLab(Case):
    labs: tuple = ()
    at_once: int = 4  # more where they only wait

    def run(self, host, network):
        problems = []
        labs = tuple(lab for lab in self.labs if lab != "gpu" or host.cuda)
        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            for first in range(0, len(labs), self.at_once):
                problems += pool.map(lambda lab: self.try_one(host, network, lab),
                                     labs[first:first + self.at_once])
        wrong = [f"  {lab}: {why}" for lab, why in zip(labs, problems) if why]
        if wrong:
            raise CaseFailed(f"{len(wrong)} of {len(labs)} labs\n" + "\n".join(wrong))
        return f"{len(labs)} labs"

    def try_one(self, host, network, lab):
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Refused(EveryLab):
    """One command, which ends by itself within `limit` seconds."""
    arguments: tuple = ()
    for_ranks: tuple = None  # labs of equals: they have no client
    status: int = FAILED
    says: tuple = ()
    limit: float = 12

    def try_one(self, host, network, lab):
        arguments = self.arguments
        if self.for_ranks is not None and lab in RANKS:
            arguments = self.for_ranks
        if "--port" not in arguments and lab not in ONE_PROCESS:
            arguments = (*arguments, "--port", str(next_tcp_port()))
        try:
            status, output = host.run(network.server.namespace,
                                      [host.verbena, "lab", lab, *arguments],
                                      preload=False, timeout=self.limit)
        except CaseFailed as failure:
            return str(failure)
        return judge(status, output, self.status, self.says)


def start_server(host, network, folder, lab, port, *arguments):
    server = host.start(network.server.namespace,
                        [host.verbena, "lab", lab, "server", "--port", port, *arguments],
                        preload=False, env={"TMPDIR": folder})
    try:
        wait_for_line(host, server, r"\bready$")
    except CaseFailed:
        server.kill()
        raise
    return server


@dataclasses.dataclass(frozen=True)
class OfAnotherLab(EveryLab):
    """A client of the lab before: told both names; the server waits on, for its own."""

    def try_one(self, host, network, lab):
        with host.scratch() as folder:
            return self.meet(host, network, folder, lab)

    def meet(self, host, network, folder, lab):
        other = self.labs[self.labs.index(lab) - 1]
        port = str(next_tcp_port())
        server = start_server(host, network, folder, lab, port, "--timeout", "20")
        try:
            command = [host.verbena, "lab", other, "client", "127.0.0.1", "--port", port,
                       "--timeout", "10"]
            status, output = host.run(network.server.namespace, command, preload=False, timeout=15)
            why = judge(status, output, FAILED,
                        (f"an end of `verbena lab {lab}`, this is one of `verbena lab {other}`",))
            if why:
                return f"client of {other}: {why}\n{tail(server)}"
            if server.poll() is not None:
                return f"the server ended\n{tail(server)}"
            wait_for_line(host, server, rf"is turned away: .*`verbena lab {other}`")
            return ""
        except CaseFailed as failure:
            return str(failure)
        finally:
            server.kill()


@dataclasses.dataclass(frozen=True)
class ServerDies(EveryLab):
    """SIGKILL in the middle of more work than there is time for."""

    def try_one(self, host, network, lab):
        with host.scratch() as folder:
            return self.kill_server(host, network, folder, lab)

    def kill_server(self, host, network, folder, lab):
        port = str(next_tcp_port())
        common = ("--iters", "10000000", "--timeout", "7")
        server = start_server(host, network, folder, lab, port, *common)
        client = None
        try:
            client = host.start(
                network.client.namespace,
                [host.verbena, "lab", lab, "client", network.server.addresses[4], "--port", port,
                 *common], preload=False, env={"TMPDIR": folder})
            # There is no event to wait for: in the middle of a lab it prints nothing.
            time.sleep(1)
            if client.poll() is not None:
                return f"the client ended before\n{tail(client)}"
            os.killpg(server.pid, signal.SIGKILL)
            status = client.wait(host.deadline(15))
            return judge(status, client.output(), FAILED,
                         (r"retr(y|ies)|gone|hung up|closed|reset|died|dead|--timeout|disconnected"
                          r"|running there",))
        except CaseFailed as failure:
            return str(failure)
        finally:
            for process in (server, client):
                if process:
                    process.kill()


ONE_PROCESS = {"two-qp", "verbs"}
RANKS = {"parameter-server", "rendezvous"}
BY_SOCKET = ("across-hosts", "loss", "ud")  # these meet over TCP, with a badge
STOCK = {"pingpong"}  # speaks with ibv_rc_pingpong, which has no badge
SHORT = {"hello", "cm", "registration", "bulk"}  # over within a second, whatever --iters is


ENDLESS = ("write-read", "imm", "send-recv", "two-qp", "pingpong", "across-hosts", "events",
           "errors", "file", "loss", "rendezvous", "srq")  # --iters may be any number
WAITING = 20


def all_cases(names):
    two_ends = tuple(n for n in names if n not in ONE_PROCESS | RANKS)
    ranked = two_ends + tuple(sorted(RANKS))
    by_cm = tuple(n for n in two_ends if n not in {*BY_SOCKET, *STOCK})
    sized = tuple(n for n in names if n != "atomics")
    unused = str(next_tcp_port())
    return [
        Refused(LO, "labs/wrong/every/option", labs=tuple(names), arguments=("--colour",),
                status=USAGE, says=("--colour",)),
        Refused(LO, "labs/wrong/every/size-0", labs=sized, arguments=("--size", "0"), status=USAGE,
                says=("at least 1",)),
        Refused(LO, "labs/wrong/every/size-beyond-memory", labs=sized,
                arguments=("--size", "100T"), status=USAGE, says=("choose less",)),
        Refused(LO, "labs/wrong/every/two-faults-in-one", labs=tuple(names),
                arguments=("--dup=1%,reorder=5%",), status=USAGE, says=("one value",)),
        Refused(LO, "labs/wrong/every/one-file-for-two", labs=tuple(names),
                arguments=("--pcap", "./x", "--trace", "x"), status=USAGE, says=("use two files",)),
        Refused(LO, "labs/wrong/every/device", labs=tuple(names),
                arguments=("--device", "vb_nosuch", "--timeout", "5"),
                says=("vb_nosuch.*there is vb_lo",)),
        Refused(LO, "labs/wrong/every/missing-host", labs=ranked, arguments=("client",),
                for_ranks=("--ranks", "2", "--rank", "1"), status=USAGE,
                says=("HOST",)),
        Refused(LO, "labs/wrong/every/refused-port", labs=by_cm, at_once=1,
                arguments=("client", "127.0.0.1", "--timeout", "8", "--port", unused),
                says=("nobody listens", "`verbena lab .* running there")),
        Refused(LO, "labs/wrong/every/refused-port-by-tcp", labs=(*BY_SOCKET, *STOCK, *RANKS),
                at_once=WAITING,
                arguments=("client", "127.0.0.1", "--timeout", "2", "--port", unused),
                for_ranks=("--ranks", "2", "--rank", "1", "--root", "127.0.0.1", "--timeout", "2",
                           "--port", unused),
                says=("nobody listens", "`verbena lab .* running there")),
        Refused(WAITING_VETH, "labs/wrong/every/unreachable-host", labs=ranked, at_once=WAITING,
                arguments=("client", "10.99.0.77", "--timeout", "4"),
                for_ranks=("--ranks", "2", "--rank", "1", "--root", "10.99.0.77", "--timeout", "4"),
                says=(r"10\.99\.0\.77", "`verbena lab .* running there")),
        Refused(VETHS[0], "labs/wrong/every/no-route", labs=ranked,
                arguments=("client", "192.0.2.1", "--timeout", "4"),
                for_ranks=("--ranks", "2", "--rank", "1", "--root", "192.0.2.1", "--timeout", "4"),
                says=(r"192\.0\.2\.1", "nreachable|no route")),
        Refused(LO, "labs/wrong/every/nobody-comes", labs=two_ends, at_once=WAITING,
                arguments=("server", "--timeout", "1"), says=("no client connected", "client HOST")),
        Refused(LO, "labs/wrong/every/too-much", labs=ENDLESS, at_once=6,
                arguments=("--iters", "100000000", "--timeout", "3"), limit=20,
                says=("not done within --timeout.*give more time or less work",)),
        OfAnotherLab(LO, "labs/wrong/every/of-another-lab", labs=by_cm),
        OfAnotherLab(LO, "labs/wrong/every/of-another-lab-by-tcp", labs=BY_SOCKET),
        ServerDies(WAITING_VETH, "labs/wrong/every/server-dies", at_once=7,
                   labs=tuple(n for n in two_ends if n not in SHORT)),
    ]
