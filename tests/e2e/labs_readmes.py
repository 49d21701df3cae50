"""What the labs' READMEs tell the reader to try and that isn't one command: blocks of several
commands, captures to look into, ranks to kill. And that each exercise of a README is tested.
"""

import dataclasses
import os
import pathlib
import re
import signal

from cases import LO, Case, check_output, next_tcp_port
from connections import wait_for_line
import labs_exercises
from programs import PATH, CaseFailed, need_programs, tail

LABS = pathlib.Path(__file__).resolve().parents[2] / "labs"
EXERCISE = re.compile(r"^```sh exercise\n(.*?)^```$", re.M | re.S)


def blocks_of(lab):
    return [m.group(1) for m in EXERCISE.finditer((LABS / lab / "README.md").read_text("utf-8"))]


@dataclasses.dataclass(frozen=True)
class Block(Case):
    """The exercise of a README that contains these words, run as it stands. It may fail."""
    lab: str = ""
    words: str = ""
    status: int = 0  # of its last command
    says: tuple = ()

    def text(self):
        found = [block for block in blocks_of(self.lab) if self.words in block]
        if len(found) != 1:
            raise CaseFailed(f"{len(found)} exercises of labs/{self.lab}/README.md contain "
                             f"{self.words!r} instead of one")
        return found[0]

    def run(self, host, network):
        need_programs("ibv_rc_pingpong")
        with host.scratch() as folder:
            status, output = host.run(
                network.server.namespace, ["bash", "-uc", f"cd {folder}\n{self.text()}"],
                preload=False, timeout=self.timeout,
                env={"PATH": f"{host.prefix}/bin:{PATH}", "HOME": folder})
        return check_output(status, output, self.status, self.says)


@dataclasses.dataclass(frozen=True)
class Captured(Case):
    """A lab with --pcap, and what Wireshark makes of the file."""
    lab: str = ""
    arguments: tuple = ()
    fields: tuple = ("_ws.col.Info",)
    says: tuple = ()  # each matches a part of tshark's output, a line a packet
    never: tuple = ()

    def run(self, host, network):
        need_programs("tshark")
        with host.scratch() as folder:
            capture = f"{folder}/lab.pcapng"
            status, output = host.run(
                network.server.namespace,
                [host.verbena, "lab", self.lab, *self.arguments, "--pcap", capture], preload=False)
            check_output(status, output, 0, ())
            columns = [word for field in self.fields for word in ("-e", field)]
            status, packets = host.run(network.server.namespace,
                                       ["tshark", "-r", capture, "-T", "fields", *columns],
                                       preload=False, timeout=self.timeout)
        check_output(status, packets, 0, self.says)
        for pattern in self.never:
            if re.search(pattern, packets, re.M):
                raise CaseFailed(f"/{pattern}/ in the capture")
        return ""


@dataclasses.dataclass(frozen=True)
class RankKilled(Case):
    """SIGKILL to one rank of a long run by one command, or by two."""
    by_hand: bool = False
    says: tuple = ()

    def run(self, host, network):
        long = [host.verbena, "lab", "rendezvous", "--iters", "1000000", "--timeout", "20"]
        rank = [*long, "--ranks", "2", "--root", "127.0.0.1", "--port", str(next_tcp_port()),
                "--rank"]
        commands = [[*rank, "0"], [*rank, "1"]] if self.by_hand else [long]
        started = []
        try:
            for command in commands:
                started.append(host.start(network.server.namespace, command, preload=False))
            wait_for_line(host, started[0], r"^rank 0 \| \d ranks, as")
            wait_for_line(host, started[0], r"of 1000000 rounds")
            os.kill(started[1].pid if self.by_hand else self.a_rank_of(started[0]), signal.SIGKILL)
            status = started[0].wait(host.deadline(self.timeout))
            return check_output(status, started[0].output(), 1, self.says)
        except CaseFailed as failure:
            raise CaseFailed("\n".join([str(failure), *(tail(p) for p in started)])) from None
        finally:
            for process in started:
                process.kill()

    @staticmethod
    def a_rank_of(process):
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return int(children.split()[-1])


@dataclasses.dataclass(frozen=True)
class DecodeKilled(Case):
    """SIGKILL to the client of kv-cache: the server hears of it."""

    def run(self, host, network):
        lab = [host.verbena, "lab", "kv-cache"]
        there = ["--port", str(next_tcp_port())]
        namespace = network.server.namespace
        server = host.start(namespace, [*lab, "server", *there], preload=False)
        client = None
        try:
            wait_for_line(host, server, r"\bready$")
            client = host.start(namespace, [*lab, "client", "127.0.0.1", "--iters", "100000", *there],
                                preload=False)
            wait_for_line(host, client, r"of 100000 rounds")
            client.kill()
            status = server.wait(host.deadline(self.timeout))
            return check_output(status, server.output(), 1, ("decode hung up",))
        except CaseFailed as failure:
            logs = "\n".join(tail(p) for p in (server, client) if p)
            raise CaseFailed(f"{failure}\n{logs}") from None
        finally:
            for process in (server, client):
                if process:
                    process.kill()


@dataclasses.dataclass(frozen=True)
class EveryExerciseIsRun(Case):
    """Each block `sh exercise` of each README is a row of the table, or is run as it stands."""

    def run(self, host, network):
        commands = {" ".join(["verbena lab", row.lab, *row.arguments])
                    for row in labs_exercises.all_cases()}
        whole = {(row.lab, row.text()) for row in whole_blocks()}
        missing, count = [], 0
        for readme in sorted(LABS.glob("*/README.md")):
            lab = readme.parent.name
            for block in blocks_of(lab):
                count += 1
                if (lab, block) not in whole:
                    missing += [f"{lab}: {line}" for line in block.splitlines()
                                if line not in commands]
        if missing or count < 10:
            raise CaseFailed(f"{count} exercises; in no table:\n    " + "\n    ".join(missing))
        return f"{count} exercises"


def whole_blocks():
    return [
        Block(LO, "labs/readme/pingpong/no-gid", lab="pingpong", words="ibv_rc_pingpong -d vb_lo 127",
              says=("^server: ibv_modify_qp: .*init to rtr: RoCE needs is_global",
                    "GID ::", "Couldn't read/write remote address")),
        Block(LO, "labs/readme/pingpong/two-mtus", lab="pingpong", words="--mtu 4096", status=1,
              says=("^client: .*REM_INV_REQ_ERR",)),
    ]


def captures():
    hello = (r"ConnectRequest\n(.*\n)*.*ConnectReply\n(.*\n)*.*ReadyToUse\n(.*\n)*"
             r".*RDMA Write Only .*\n(.*\n)*.*Acknowledge .*\n(.*\n)*"
             r".*RDMA Read Request .*\n(.*\n)*.*RDMA Read Response Only")
    syndrome = ("infiniband.aeth.syndrome",)
    return [
        Captured(LO, "labs/readme/hello/capture", lab="hello", says=(hello,)),
        Captured(LO, "labs/readme/imm/capture", lab="imm", arguments=("--iters", "2", "--size", "16K"),
                 fields=("_ws.col.Info", "infiniband.immdt"),
                 says=(r"RDMA Write Last Immediate .*\t01020304", r"RDMA Write Only Immediate ")),
        # 7 is the timer code of the server: 0.12 ms. 0x20 says RNR NAK.
        Captured(LO, "labs/readme/send-recv/capture", lab="send-recv", arguments=("--iters", "1"),
                 fields=syndrome, says=(r"^(39|0x27)$",)),
        Captured(LO, "labs/readme/errors/capture", lab="errors", fields=syndrome,
                 says=(r"^(97|0x61)$", r"^(98|0x62)$", r"^(39|0x27)$")),
    ]


def all_cases():
    return [
        *whole_blocks(), *captures(),
        RankKilled(LO, "labs/readme/rendezvous/killed", says=("^a rank: Killed$",)),
        RankKilled(LO, "labs/readme/rendezvous/killed-by-hand", by_hand=True,
                   says=("RETRY_EXC_ERR|not done within --timeout",)),
        DecodeKilled(LO, "labs/readme/kv-cache/killed"),
        EveryExerciseIsRun(LO, "labs/readme/every-exercise"),
    ]
