"""Two processes of one host: the middle of a message, memory that is taken back, forks, odd shapes.

Each program checks every byte itself; see its head. Cases whose name ends in -udp repeat others over
UDP, where the same must hold. `run.py --wire udp` does so for all.
"""

import dataclasses
import itertools
import re

from cases import LO, VETHS, Case, compiled
from programs import CaseFailed, CaseSkipped

SKIPPED = 77  # the exit status of a program that lacks something, and says what
OPERATIONS = ("write", "send", "read")
ENDS = ("requester", "responder")

# Of the messages in whose middle a process dies or stands still.
MEBIBYTES = 128
# Of the messages in whose middle memory goes. A scheduler's turn is shorter than it takes.
MEMORY_MEBIBYTES = 32

DEATHS = ("kill", "exit", "exec")
STANDSTILLS = ("stop", "pause")
LOSSES = ("dereg", "munmap", "protect", "readonly", "truncate")


@dataclasses.dataclass(frozen=True)
class Program(Case):
    """A program of ours that ends by itself, and says in a line what it has seen."""
    program: str = ""
    arguments: tuple = ()

    def run(self, host, network):
        argv = [compiled(host, self.program, "-libverbs", "-pthread"), *map(str, self.argv())]
        status, output = host.run(network.server.namespace, argv, timeout=self.timeout)
        if status == SKIPPED:
            raise CaseSkipped(output.strip())
        if status != 0:
            raise CaseFailed(f"{' '.join(argv)} ended with {status}:\n{output}")
        return output.strip().splitlines()[-1]

    def argv(self):
        return self.arguments


@dataclasses.dataclass(frozen=True)
class Midway(Program):
    """Something happens to each end, in turn, in the middle of a message."""
    program: str = "midway"
    operation: str = ""
    action: str = ""
    rounds: int = 1

    def argv(self):
        mebibytes = MEMORY_MEBIBYTES if self.action in LOSSES + ("error",) else MEBIBYTES
        return self.rounds, mebibytes << 20, self.operation, self.action


def on_both_wires(case):
    yield case
    yield dataclasses.replace(case, label=case.label + "-udp", wire="udp")


def midway_cases():
    rounds = [(action, 1) for action in (*DEATHS, *STANDSTILLS)]
    rounds += [("error", 2), *((action, 4) for action in LOSSES)]
    for (action, count), operation in itertools.product(rounds, OPERATIONS):
        case = Midway(LO, f"ipv4/host/midway/{action}-{operation}", action=action,
                      operation=operation, rounds=count, timeout=300)
        yield from on_both_wires(case) if action in LOSSES else (case,)


def after_dereg_cases():
    for operation, end in itertools.product(OPERATIONS, ENDS):
        case = Program(LO, f"ipv4/host/after-dereg/{operation}-{end}", program="after_dereg",
                       arguments=(1_000, operation, end), timeout=300)
        yield from on_both_wires(case)
        yield dataclasses.replace(case, label=case.label + "-10000",
                                  arguments=(10_000, operation, end))


def shape_cases():
    for how in ("apart", "together", "itself"):
        yield from on_both_wires(Program(LO, f"ipv4/host/shapes/{how}", program="shapes",
                                         arguments=(how,), timeout=120))
    yield Program(LO, "ipv4/host/shapes/2-gib", program="shapes", arguments=("huge",), timeout=400)


@dataclasses.dataclass(frozen=True)
class Figures(Program):
    """A program whose last line has figures; none may be larger than these."""
    pattern: str = ""
    most: tuple = ()

    def run(self, host, network):
        line = super().run(host, network)
        figures = [float(figure) for figure in re.search(self.pattern, line).groups()]
        if any(figure > most for figure, most in zip(figures, self.most, strict=True)):
            raise CaseFailed(f"{line}: at most {self.most}")
        return line


def cost_cases():
    # One sleep for each message, or hardly more: nobody else is woken for it. It would be two otherwise.
    yield Figures(LO, "ipv4/host/one-wake-up", program="wakeups", arguments=(5000,),
                  pattern=r"([\d.]+) sleeps each at one end, ([\d.]+) at the other",
                  most=(1.6, 1.6), timeout=60, wire="auto")
    # Each look at the idle device would cost a call or two, and there are eight to a message.
    yield Figures(VETHS[0], "ipv4/host/idle-device", program="idle_device", arguments=(2000,),
                  pattern=r"([\d.]+) system calls each, ([\d.]+) with", most=(2, 3), timeout=60,
                  wire="auto")
    # So many processes to a core may keep one of them waiting for half a second.
    for processes, timeout in ((16, 14), (64, 17)):
        yield Figures(LO, f"ipv4/host/mesh-{processes}", program="mesh",
                      arguments=(processes, 8, timeout), pattern=r"(-?[\d.]+) MiB", most=(32,),
                      timeout=240)


def page_server_cases():
    for label, arguments in (("user", ("user",)), ("all", ("all",)),
                             ("all-by-the-kernel", ("all", "by-kernel"))):
        yield from on_both_wires(Program(LO, f"ipv4/host/page-server/{label}", program="page_server",
                                         arguments=(200, *arguments)))
    # Only faults in user mode may be served, and system calls don't have any.
    yield Program(LO, "ipv4/host/page-server/user-by-the-kernel", program="page_server",
                  arguments=(1, "user", "by-kernel"))


def all_cases():
    yield from cost_cases()
    yield from on_both_wires(Program(LO, "ipv4/host/beside-stopped", program="beside_stopped",
                                     arguments=(200,), timeout=120))
    yield from midway_cases()
    yield from after_dereg_cases()
    yield from shape_cases()
    yield from page_server_cases()
    for label, program, rounds in (("fork", "fork_in_traffic", 500), ("ud-exit", "ud_exit", 100),
                                   ("unsignaled-tail", "tails", 1000)):
        yield from on_both_wires(Program(LO, f"ipv4/host/{label}", program=program,
                                         arguments=(rounds,), timeout=120))
