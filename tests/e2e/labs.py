"""The labs: both ends on one machine, on two, with loss; and what they say when used wrongly."""

import dataclasses
import pathlib
import re

from cases import LO, LO_LOSS, VETHS, Case, check_output, next_tcp_port
from connection_lifetimes import wait_for_line
from programs import CaseFailed, CaseSkipped, tail

LIST = pathlib.Path(__file__).resolve().parents[2] / "labs/list.txt"
ONE_PROCESS = {"two-qp"}  # labs without a server and a client
RANKS = {"parameter-server", "rendezvous"}  # labs of equals
SKIPPED = 77


def names():
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def verdict(process, status):
    if status == SKIPPED:
        raise CaseSkipped(process.output().strip().splitlines()[-1])
    if status != 0:
        raise CaseFailed(f"exit status {status}\n" + tail(process))


@dataclasses.dataclass(frozen=True)
class Lab(Case):
    """As a learner starts it."""
    lab: str = ""
    arguments: tuple = ()

    def run(self, host, network):
        argv = [host.verbena, "lab", self.lab, *self.arguments, "--port", str(next_tcp_port())]
        process = host.start(network.server.namespace, argv, preload=False)
        try:
            verdict(process, process.wait(host.deadline(self.timeout)))
            shown = re.findall(r"^shown: (.*)", process.output(), re.M)
            if len(shown) != 1:
                raise CaseFailed(f"{len(shown)} lines begin with \"shown: \" instead of one\n"
                                 + tail(process))
            return shown[0]
        finally:
            process.kill()


@dataclasses.dataclass(frozen=True)
class TwoHosts(Case):
    """The server on one, the client on the other."""
    lab: str = ""
    family: int = 4

    def run(self, host, network):
        port = str(next_tcp_port())
        lab = [host.verbena, "lab", self.lab]
        server = host.start(network.server.namespace, [*lab, "server", "--port", port],
                            preload=False)
        client = None
        try:
            wait_for_line(host, server, r"\bready$")
            client = host.start(
                network.client.namespace,
                [*lab, "client", network.server.addresses[self.family], "--port", port],
                preload=False)
            deadline = host.deadline(self.timeout)
            verdict(client, client.wait(deadline))
            verdict(server, server.wait(deadline))
            return ""
        except CaseFailed as failure:
            logs = "\n".join(tail(p) for p in (server, client) if p)
            raise CaseFailed(f"{failure}\n{logs}") from None
        finally:
            for process in (server, client):
                if process:
                    process.kill()


@dataclasses.dataclass(frozen=True)
class RanksOnTwoHosts(Case):
    """Rank 0 on one, rank 1 on the other, told by hand what a launcher would tell them."""
    lab: str = ""
    family: int = 4

    def run(self, host, network):
        port = str(next_tcp_port())
        ranks = []
        try:
            for number, end in enumerate((network.server, network.client)):
                argv = [host.verbena, "lab", self.lab, "--ranks", "2", "--rank", str(number),
                        "--root", network.server.addresses[self.family], "--port", port]
                ranks.append(host.start(end.namespace, argv, preload=False))
            deadline = host.deadline(self.timeout)
            for process in ranks:
                verdict(process, process.wait(deadline))
            return ""
        except CaseFailed as failure:
            raise CaseFailed("\n".join([str(failure), *(tail(p) for p in ranks)])) from None
        finally:
            for process in ranks:
                process.kill()


@dataclasses.dataclass(frozen=True)
class Wrong(Case):
    """Says what is wrong and what to do, within its time limit."""
    arguments: tuple = ()
    status: int = 2
    says: str = ""

    def run(self, host, network):
        status, output = host.run(network.server.namespace,
                                  [host.verbena, "lab", *self.arguments], preload=False,
                                  timeout=self.timeout)
        return check_output(status, output, self.status, (self.says,))


def wrong_usage():
    return [
        Wrong(LO, "labs/wrong/unknown-lab", arguments=("helo",), says="did you mean hello"),
        Wrong(LO, "labs/wrong/no-lab", says="usage: verbena lab list"),
        Wrong(LO, "labs/wrong/missing-host", arguments=("hello", "client"), says="HOST"),
        Wrong(LO, "labs/wrong/option", arguments=("hello", "--colour"), says="--colour"),
        Wrong(LO, "labs/wrong/size-0", arguments=("hello", "--size", "0"), says="at least 1"),
        Wrong(LO, "labs/wrong/size-beyond-memory", arguments=("hello", "--size", "100T"),
              says="choose less"),
        Wrong(LO, "labs/wrong/fault", arguments=("hello", "--drop", "many"), says="many"),
        Wrong(LO, "labs/wrong/fault-on-hardware",
              arguments=("hello", "--device", "mlx5_0", "--drop", "1%"), says="not Verbena's"),
        Wrong(LO, "labs/wrong/device", arguments=("hello", "--device", "vb_nosuch"), status=1,
              says="vb_nosuch.*there is"),
        Wrong(LO, "labs/wrong/refused-port", arguments=("hello", "client", "127.0.0.1", "--port",
                                                        "7999"), status=1,
              says="nobody listens"),
        Wrong(LO, "labs/wrong/unknown-host", arguments=("hello", "client", "no.such.host.invalid"),
              status=1, says="no.such.host.invalid"),
        Wrong(VETHS[0], "labs/wrong/unreachable-host",
              arguments=("hello", "client", "10.99.0.77", "--timeout", "5"), status=1,
              says="10.99.0.77"),
    ]


def all_cases():
    found = [Lab(LO, f"labs/{name}", timeout=90, lab=name) for name in names()]
    found += [Lab(LO_LOSS, f"labs/{name}", timeout=90, lab=name) for name in names()]
    for n, name in enumerate(name for name in names() if name not in ONE_PROCESS):
        kind = RanksOnTwoHosts if name in RANKS else TwoHosts
        found.append(kind(VETHS[0], f"labs/{name}", timeout=90, lab=name, family=6 if n % 2 else 4))
    return found + wrong_usage()
