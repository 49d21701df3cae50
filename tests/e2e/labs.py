"""The labs: both ends on one machine, on two, with loss; and what they say when used wrongly."""

import dataclasses
import functools
import os
import pathlib
import re
import signal
import time

from cases import LO, LO_LOSS, VETHS, WAITING_VETH, Case, check_output, next_tcp_port
from connections import wait_for_line
import labs_wrong
from labs_wrong import ONE_PROCESS, RANKS
from programs import CaseFailed, CaseSkipped, need_programs, tail

LIST = pathlib.Path(__file__).resolve().parents[2] / "labs/list.txt"
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

    def chosen(self, _):
        return self.arguments

    def run(self, host, network):
        argv = [host.verbena, "lab", self.lab, *self.chosen(network)]
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
class BesideTheUsualPorts(Case):
    """Other programs listen where the labs' servers usually do, by rdma_cm and by TCP."""

    def run(self, host, network):
        need_programs("rping", "python3")
        namespace = network.server.namespace
        holder = ("import signal, socket\n"
                  "held = [socket.create_server(('127.0.0.1', p)) for p in (7471, 18515)]\n"
                  "print('held', flush=True)\n"
                  "signal.pause()")
        others = [host.start(namespace, ["rping", "-s", "-P", "-v", "-a", "127.0.0.1", "-p", "7471"]),
                  host.start(namespace, ["python3", "-c", holder], preload=False)]
        try:
            wait_for_line(host, others[1], "^held$")
            deadline = host.deadline(10)
            client = ["rping", "-c", "-a", "127.0.0.1", "-p", "7471", "-C", "1"]
            while host.run(namespace, client)[0] != 0:
                if time.monotonic() > deadline:
                    raise CaseFailed("rping doesn't listen on port 7471\n" + tail(others[0]))
            for lab in ("hello", "across-hosts", "pingpong", "rendezvous"):
                Lab(self.topology, self.label, lab=lab).run(host, network)
            if others[0].poll() is not None:
                raise CaseFailed("the program beside the labs ended\n" + tail(others[0]))
            return ""
        finally:
            for process in others:
                process.kill()


@dataclasses.dataclass(frozen=True)
class ShowsProgress(Case):
    """Much to do: on a terminal a line says how far it is."""

    def run(self, host, network):
        need_programs("script")
        lab = f"{host.verbena} lab write-read --size 1M --iters 100000000 --timeout 2"
        status, output = host.run(network.server.namespace,
                                  ["env", "SHELL=/bin/sh", "script", "-qec", lab, "/dev/null"],
                                  preload=False)
        return check_output(status, output, 1,
                            (r"\d+ of 100000000 rounds, 0 %, about \d+ s left", "--timeout"))


class OnDevice(Lab):
    """Both ends on a device that 127.0.0.1 doesn't belong to."""

    def chosen(self, network):
        return ("--device", network.server.device)


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


def run_ranks(host, timeout, starts):
    """`starts` start a rank each; all must end well."""
    ranks = []
    try:
        for start in starts:
            ranks.append(start())
        deadline = host.deadline(timeout)
        for process in ranks:
            verdict(process, process.wait(deadline))
        return ""
    except CaseFailed as failure:
        raise CaseFailed("\n".join([str(failure), *(tail(p) for p in ranks)])) from None
    finally:
        for process in ranks:
            process.kill()


@dataclasses.dataclass(frozen=True)
class RanksOnTwoHosts(Case):
    """Rank 0 on one, rank 1 on the other, told by hand what a launcher would tell them."""
    lab: str = ""
    family: int = 4

    def run(self, host, network):
        port = str(next_tcp_port())

        def start(number, end):
            argv = [host.verbena, "lab", self.lab, "--ranks", "2", "--rank", str(number), "--root",
                    network.server.addresses[self.family], "--port", port]
            return host.start(end.namespace, argv, preload=False)

        return run_ranks(host, self.timeout, (functools.partial(start, number, end) for number, end
                                              in enumerate((network.server, network.client))))


@dataclasses.dataclass(frozen=True)
class Launched(Case):
    """Two ranks on this machine, told by a launcher's variables."""
    lab: str = ""
    launcher: str = ""

    def variables(self, number, port):
        if self.launcher == "torchrun":
            return {"RANK": number, "WORLD_SIZE": "2", "LOCAL_RANK": number,
                    "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        return {"SLURM_PROCID": number, "SLURM_LOCALID": number, "SLURM_NTASKS": "2",
                "SLURM_STEP_NUM_TASKS": "2", "SLURM_NNODES": "1", "SLURM_STEP_NUM_NODES": "1",
                "SLURM_STEP_NODELIST": "localhost", "SLURM_LAUNCH_NODE_IPADDR": "192.0.2.1"}

    def run(self, host, network):
        port = str(next_tcp_port())
        own = () if self.launcher == "torchrun" else ("--port", port)

        def start(number):
            return host.start(network.server.namespace, [host.verbena, "lab", self.lab, *own],
                              preload=False, env=self.variables(number, port))

        return run_ranks(host, self.timeout, (functools.partial(start, number)
                                              for number in ("0", "1")))


@dataclasses.dataclass(frozen=True)
class StrangersAtRank0(Case):
    """One who says nothing and one who talks nonsense are sent away, and the ranks meet."""

    def run(self, host, network):
        namespace, port = network.server.namespace, str(next_tcp_port())
        rank = [host.verbena, "lab", "rendezvous", "--ranks", "2", "--root", "127.0.0.1", "--port",
                port, "--timeout", "30", "--rank"]
        started = [host.start(namespace, [*rank, "0"], preload=False)]
        try:
            host.wait_listening(namespace, int(port), started[0])
            for words in ("", "printf 'GET / HTTP/1.1%100s' >&3;"):
                script = (f"exec 3<>/dev/tcp/127.0.0.1/{port}; {words} "
                          "read -t 20 -u 3 answer || true")
                started.append(host.start(namespace, ["bash", "-c", script], preload=False))
            wait_for_line(host, started[0], r"is turned away: that is no end of")
            wait_for_line(host, started[0], r"is turned away: it showed no badge")
            started.append(host.start(namespace, [*rank, "1"], preload=False))
            deadline = host.deadline(self.timeout)
            for process in (started[0], started[-1]):
                verdict(process, process.wait(deadline))
            return ""
        finally:
            for process in started:
                process.kill()


@dataclasses.dataclass(frozen=True)
class NothingLeft(Case):
    """A lab with a temporary folder, ended by a signal to it, or by its own --timeout."""
    arguments: tuple = ()
    number: int = 0

    def run(self, host, network):
        argv = [host.verbena, "lab", "file", "--iters", "100000000", *self.arguments, "--port",
                str(next_tcp_port())]
        with host.scratch() as folder:
            process = host.start(network.server.namespace, argv, preload=False,
                                 env={"TMPDIR": folder})
            try:
                wait_for_line(host, process, r"may write")
                if not os.listdir(folder):
                    raise CaseFailed(f"it made no folder in {folder}\n" + tail(process))
                if self.number:
                    os.kill(process.pid, self.number)
                process.wait(host.deadline(self.timeout))
                deadline = host.deadline(5)  # the server ends when its parent has
                while os.listdir(folder):
                    if time.monotonic() > deadline:
                        raise CaseFailed(f"left behind: {os.listdir(folder)}\n" + tail(process))
                    time.sleep(0.05)
                return ""
            finally:
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
    hint = r"again: verbena lab hello --device vb_nosuch --drop 1% --timeout 5\n"
    return [
        Wrong(LO, "labs/wrong/all-help", status=0, arguments=("all", "--help"),
              says="usage: verbena lab list"),
        Wrong(LO, "labs/wrong/all-unknown-option", arguments=("all", "--colour"),
              says="no lab has the option --colour"),
        Wrong(LO, "labs/wrong/all-one-end", arguments=("all", "server"), says="both ends"),
        Wrong(LO, "labs/wrong/all-gives-what-each-takes", status=1, timeout=90,
              arguments=("all", "--device", "vb_nosuch", "--drop", "1%", "--timeout", "5"),
              says=r"(?s)" + hint + r".*loss +runs without --drop 1%: this lab"),
        Wrong(LO, "labs/wrong/rate-nan", arguments=("loss", "--rates", "0,nan"),
              says="0.001 to 50"),
        Wrong(LO, "labs/wrong/rate-tiny", arguments=("loss", "--rates", "1e-9"),
              says="0.001 to 50"),
        Wrong(LO, "labs/wrong/option-without-effect", arguments=("hello", "--iters", "2"),
              says="--iters"),
        Wrong(LO, "labs/wrong/mode", arguments=("across-hosts", "--mode", "none"),
              says="send-only,recv-only,both"),
        # The server's own reason, not only that the client found it gone.
        Wrong(LO, "labs/wrong/why-the-server-failed", status=1,
              arguments=("file", "--into", "/", "--timeout", "20"),
              says=r"^server: /\.generated.*(denied|Read-only)"),
        Wrong(LO, "labs/wrong/unknown-lab", arguments=("helo",), says=r"Did you mean hello\?"),
        Wrong(LO, "labs/wrong/no-lab", says="usage: verbena lab list"),
        Wrong(LO, "labs/wrong/missing-host", arguments=("hello", "client"), says="HOST"),
        Wrong(LO, "labs/wrong/option", arguments=("hello", "--colour"), says="--colour"),
        Wrong(LO, "labs/wrong/size-0", arguments=("hello", "--size", "0"), says="at least 1"),
        Wrong(LO, "labs/wrong/size-negative", arguments=("hello", "--size", "-1"), says="is negative"),
        Wrong(LO, "labs/wrong/size-beyond-memory", arguments=("hello", "--size", "100T"),
              says="choose less"),
        Wrong(LO, "labs/wrong/fault", arguments=("hello", "--drop", "many"), says="many"),
        Wrong(LO, "labs/wrong/fault-on-hardware",
              arguments=("hello", "--device", "mlx5_0", "--drop", "1%"), says="not a device of Verbena"),
        Wrong(LO, "labs/wrong/device", arguments=("hello", "--device", "vb_nosuch"), status=1,
              says="vb_nosuch.*there is"),
        Wrong(LO, "labs/wrong/refused-port", arguments=("hello", "client", "127.0.0.1", "--port",
                                                        "7999"), status=1,
              says="nobody listens"),
        Wrong(LO, "labs/wrong/client-of-ranks", arguments=("rendezvous", "client", "127.0.0.1"),
              says="has ranks.*--root HOST"),
        Wrong(LO, "labs/wrong/server-of-one-process", arguments=("two-qp", "server"),
              says="in one process"),
        Wrong(LO, "labs/wrong/unknown-host", arguments=("hello", "client", "no.such.host.invalid"),
              status=1, says="no.such.host.invalid"),
        Wrong(WAITING_VETH, "labs/wrong/unreachable-host",
              arguments=("hello", "client", "10.99.0.77", "--timeout", "5"), status=1,
              says="10.99.0.77"),
    ]


def all_cases():
    found = [Lab(LO, f"labs/{name}", timeout=90, lab=name) for name in names()]
    found += [Lab(LO_LOSS, f"labs/{name}", timeout=90, lab=name,
                  arguments=("--size", "64K") if name == "gpu" else ()) for name in names()]
    for n, name in enumerate(name for name in names() if name not in ONE_PROCESS):
        kind = RanksOnTwoHosts if name in RANKS else TwoHosts
        found.append(kind(VETHS[0], f"labs/{name}", timeout=90, lab=name, family=6 if n % 2 else 4))
    found += [BesideTheUsualPorts(LO, "labs/beside-the-usual-ports"),
              ShowsProgress(LO, "labs/progress")]
    found += [Lab(LO, f"labs/send-recv-{option}", lab="send-recv", arguments=(f"--{option}", "20%"))
              for option in ("dup", "duplicate")]
    found += [Lab(VETHS[0], f"labs/{name}", timeout=90, lab=name)  # on another device
              for name in sorted(ONE_PROCESS)]
    found += [OnDevice(VETHS[0], f"labs/{name}-on-device", timeout=90, lab=name)
              for name in ("hello", "cm", "pingpong", "rendezvous", "loss")]
    found += [Launched(LO, f"labs/{lab}-by-{launcher}", lab=lab, launcher=launcher)
              for lab in sorted(RANKS) for launcher in ("srun", "torchrun")]
    found += [StrangersAtRank0(LO, "labs/strangers-at-rank-0"),
              NothingLeft(LO, "labs/nothing-left-by-sigterm", number=signal.SIGTERM),
              NothingLeft(LO, "labs/nothing-left-by-ctrl-c", number=signal.SIGINT),
              NothingLeft(LO, "labs/nothing-left-by-timeout", arguments=("--timeout", "2"))]
    return found + wrong_usage() + labs_wrong.all_cases(names())
