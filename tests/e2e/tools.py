"""`verbena` itself: stat, devices, and what `run` says when something is wrong."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from cases import LO, Case, Tool, arguments, check_output, next_tcp_port, start_pair
from connections import wait_for_line
from observing import expect, open_folder
from programs import CaseFailed, CaseSkipped, is_real_root, need_programs, tail

# ---------------------------------------------------------------- verbena stat


def stat_json(host, end):
    status, output = host.run(end.namespace, [host.verbena, "stat", "--json"], preload=False)
    check_output(status, output, 0, ())
    return {process["pid"]: process for process in json.loads(output)}


def packets_of(process):
    """(sent, received) on vb_lo; (0, 0) before its first."""
    for port in process.get("ports", ()):
        if port["device"] == "vb_lo":
            return port["counters"]["port_xmit_packets"], port["counters"]["port_rcv_packets"]
    return 0, 0


def wait_for_processes(host, end, pids, packets):
    """Until all of them are seen to have sent and received that many."""
    limit = host.deadline(20)
    while True:
        seen = stat_json(host, end)
        if all(pid in seen and min(packets_of(seen[pid])) >= packets for pid in pids):
            return seen
        if time.monotonic() > limit:
            raise CaseFailed(f"{pids} have not sent {packets} packets: {seen}")
        time.sleep(0.02)


@contextlib.contextmanager
def busy_pair(host, network):
    """A server and a client that exchange messages until they are ended."""
    need_programs("ibv_rc_pingpong")
    pair = start_pair(host, network, "ibv_rc_pingpong", ("-n", "100000000"), 4)
    try:
        yield pair
    except CaseFailed as failure:
        raise CaseFailed("\n".join([str(failure), *map(tail, pair)])) from None
    finally:
        for process in pair:
            process.kill()


@dataclasses.dataclass(frozen=True)
class StatShows(Case):
    """Both ends of a pair, as they are now; once killed, they are gone."""

    def run(self, host, network):
        end = network.server
        with busy_pair(host, network) as pair:
            pids = [process.pid for process in pair]
            first = wait_for_processes(host, end, pids, 100)
            expect(set(first) == set(pids), f"others than {pids}: {sorted(first)}")
            for pid in pids:
                self._check_process(first[pid])
            wait_for_processes(host, end, pids, packets_of(first[pids[0]])[0] + 100)
            status, table = host.run(end.namespace, [host.verbena, "stat"], preload=False)
            check_output(status, table, 0, [
                rf"^ *{pid} ibv_rc_pingpong +vb_lo +1 +[01] +[01]( +[1-9]\d+){{4}} +\d+ +0$" for pid in pids])
            self._check_other_user(host, network)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            for process in pair:
                process.wait(host.deadline(5))
        expect(stat_json(host, end) == {}, "killed processes are still shown")
        status, output = host.run(end.namespace, [host.verbena, "stat"], preload=False)
        return check_output(status, output, 0, ("none of your processes",))

    @staticmethod
    def _check_process(process):
        expect(process["answers"] and process["program"] == "ibv_rc_pingpong", f"{process}")
        port, = process["ports"]
        expect(port["queue_pairs"] == 1, f"{port['queue_pairs']} queue pairs instead of 1")
        expect(port["counters"]["port_xmit_data"] > 0 and port["hw_counters"]["sent_pkts"] > 0,
               f"{port}")

    @staticmethod
    def _check_other_user(host, network):
        """They are nobody's, and root has a registry of its own."""
        if not is_real_root():
            return
        shown = json.loads(network.server.namespace.run(host.verbena, "stat", "--json"))
        expect(shown == [], f"another user sees {shown}")


@dataclasses.dataclass(frozen=True)
class StatOfStopped(Case):
    """One that is stopped is named, and holds nobody up."""

    def run(self, host, network):
        need_programs("rping")
        end = network.server
        servers = [host.start(end.namespace, ["rping", "-s", "-P", "-a", "127.0.0.1", "-p",
                                              str(next_tcp_port())]) for _ in range(2)]
        try:
            return self._body(host, end, *servers)
        except CaseFailed as failure:
            raise CaseFailed("\n".join([str(failure), *map(tail, servers)])) from None
        finally:
            for server in servers:
                server.kill()

    def _body(self, host, end, running, stopped):
        self._wait_for_answers(host, end, {running.pid, stopped.pid})
        os.kill(stopped.pid, signal.SIGSTOP)
        start = time.monotonic()
        seen = stat_json(host, end)
        took = time.monotonic() - start
        expect(took < 3 * host.slow, f"it took {took:.1f} s")
        expect(seen[running.pid]["answers"], "the other one doesn't answer, either")
        silent = seen[stopped.pid]
        expect(not silent["answers"] and silent["stopped"], f"{silent}")
        status, table = host.run(end.namespace, [host.verbena, "stat"], preload=False)
        check_output(status, table, 0, (rf"^ *{stopped.pid} rping +stopped",
                                        rf"^ *{running.pid} rping +(-|vb_lo) +0 "))
        os.kill(stopped.pid, signal.SIGCONT)
        self._wait_for_answers(host, end, {running.pid, stopped.pid})
        return f"{took:.2f} s"

    @staticmethod
    def _wait_for_answers(host, end, pids):
        limit = host.deadline(10)
        while True:
            seen = stat_json(host, end)
            if {pid for pid, process in seen.items() if process["answers"]} == pids:
                return
            if time.monotonic() > limit:
                raise CaseFailed(f"{pids} don't both answer: {seen}")
            time.sleep(0.02)


@dataclasses.dataclass(frozen=True)
class StatWatch(Case):
    """A list on each line, until it is ended."""

    def run(self, host, network):
        watcher = host.start(network.server.namespace,
                             [host.verbena, "stat", "--json", "--watch", "0.1"], preload=False)
        try:
            wait_for_line(host, watcher, r"\A\[\]\n\[\]\n\[\]\n")
        finally:
            watcher.kill()


# ---------------------------------------------------------------- verbena devices

WITHOUT = """
ip link set lo up
ip link add down0 type veth peer name bare0
ip link set bare0 addrgenmode none
ip link set bare0 up
ip link add full0 type veth peer name full1
ip link set full1 addrgenmode none
ip link set full0 up
ip link set full1 up
ip addr add 10.97.0.1/24 dev full0
"""
# A sysfs in which hardware has one interface, and the kernel's rxe another.
PLANTED = WITHOUT + """
mount -t tmpfs none /sys/class
plant() {
  mkdir -p /sys/class/infiniband/$1/ports/1/gid_attrs/ndevs
  echo $2 > /sys/class/infiniband/$1/ports/1/gid_attrs/ndevs/0
}
plant mlx5_0 full0
plant rxe0 lo
echo lo > /sys/class/infiniband/rxe0/parent
"""


@dataclasses.dataclass(frozen=True)
class Interfaces(Case):
    """Why an interface has no device, in words and in JSON."""
    script: str = ""
    reasons: tuple = ()  # (interface, expression)
    devices: tuple = ()
    status: int = 0

    def run(self, host, network):
        words = self._run(host, network, "devices", self.status)
        for interface, reason in self.reasons:
            check_output(0, words, 0, (rf"^{interface} +.*{reason}",))
        output = self._run(host, network, "devices --json 2>/dev/null", self.status)
        listed = json.loads(output[output.index("["):])
        names = tuple(entry["name"] for entry in listed if entry["verbena"])
        expect(names == self.devices, f"devices {names} instead of {self.devices}")
        told = {entry["interface"]: entry["problem"] for entry in listed if entry["name"] is None}
        for interface, reason in self.reasons:
            expect(re.search(reason, told.get(interface, "")), f"no /{reason}/ of {interface}: {told}")
        expect(len(told) == len(self.reasons), f"further reasons in {told}")

    def _run(self, host, network, command, expected):
        status, output = host.run(
            network.server.namespace,
            ["unshare", "-Urnm", "sh", "-ec", f"{self.script}\nexec {host.verbena} {command}"],
            preload=False)
        if "unshare" in output and status != expected:
            raise CaseSkipped(f"no user namespace: {output.strip()}")
        check_output(status, output, expected, ())
        return output


# ---------------------------------------------------------------- verbena run

HOLD_PORT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 4791))
print("ready", flush=True)
sys.stdin.read()
"""


@dataclasses.dataclass(frozen=True)
class PortHeld(Case):
    """UDP port 4791 is somebody else's: `verbena devices` says so beforehand; a program that needs
    it ends, and a line says what to do."""
    by_verbena: bool = False  # of another user; else by any program

    def run(self, host, network):
        need_programs("rping")
        with self._holder(host, network) as holder:
            self._check_devices(host, network, holder)
            status, output = host.with_wire("udp").run(network.server.namespace,
                                      ["rping", "-s", "-a", "127.0.0.1", "-p", str(next_tcp_port())])
        if status == 0:
            raise CaseFailed(f"rping runs although the port is taken\n{output}")
        return check_output(0, output, 0, (
            r"verbena.*bind UDP 127\.0\.0\.1.*4791.*another user's Verbena.*ss -ulnp.*end it, or use",))

    def _check_devices(self, host, network, holder):
        # Root's holder is another user's: the programs run as nobody, and can't look into it.
        who = "a program of user 0" if is_real_root() else rf"python3 \(pid {holder.pid}\)"
        reason = (rf"UDP port 4791 is taken by {who}: only your own programs on this host reach each "
                  r"other here\. For other hosts end it, or.*`verbena netns -- COMMAND`")
        status, words = host.run(network.server.namespace, [host.verbena, "devices"], preload=False)
        check_output(status, words, 0, (rf"^vb_lo +\d+  127\.0\.0\.1: {reason}",))
        status, output = host.run(network.server.namespace, [host.verbena, "devices", "--json"],
                                  preload=False)
        check_output(status, output, 0, ())
        gids = [gid for device in json.loads(output) if device["name"] == "vb_lo"
                for port in device["ports"] for gid in port["gids"]]
        problems = {gid["address"]: gid.get("problem") for gid in gids}
        expect(re.fullmatch(reason, problems["127.0.0.1"] or ""), f"not /{reason}/ in {problems}")
        free = [address for address, problem in problems.items() if problem is None]
        expect(free == [a for a in problems if a != "127.0.0.1"], f"more than one taken: {problems}")

    @contextlib.contextmanager
    def _holder(self, host, network):
        namespace = network.server.namespace
        if not self.by_verbena:
            command = ["python3", "-c", HOLD_PORT]
        elif is_real_root():
            command = [host.verbena, "run", "--", "rping", "-s", "-P", "-a", "127.0.0.1", "-p",
                       str(next_tcp_port())]
        else:
            raise CaseSkipped("only root can start programs of two users")
        holder = subprocess.Popen(namespace.enter() + command, stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._wait_until_held(host, namespace)
            yield holder
        finally:
            holder.kill()
            holder.communicate()

    @staticmethod
    def _wait_until_held(host, namespace):
        limit = host.deadline(10)
        while not any(line.split()[1].endswith(f":{4791:04X}") for line in namespace.proc_net("udp")):
            if time.monotonic() > limit:
                raise CaseFailed("nobody holds the port")
            time.sleep(0.01)


def not_executable(folder):
    path = os.path.join(folder, "program")
    pathlib.Path(path).write_text("#!/bin/sh\n")
    return "run", "--", path


@dataclasses.dataclass(frozen=True)
class NetnsSide(Case):
    """From within `verbena netns`, to a side and back, and there again."""
    side: str = ""

    def run(self, host, network):
        def on(side):
            return [host.verbena, "netns", side, "--"]

        other = "left" if self.side == "right" else "right"
        argv = [host.verbena, "netns", "--", *on(self.side), *on(other), *on(self.side),
                "cat", "/proc/net/dev"]
        status, output = host.run(network.server.namespace, argv, preload=False)
        return check_output(status, output, 0, (rf"^ *{self.side}:",))


# ---------------------------------------------------------------- verbena trace, verbena report

@dataclasses.dataclass(frozen=True)
class EndedBySignal(Case):
    """The program ends with it, and no temporary file remains."""
    signal: int = signal.SIGTERM
    command: tuple = ("trace", "--", "sh", "-c", "echo pid $$; exec sleep 60")
    ready: str = r"pid \d+"

    def run(self, host, network):
        with open_folder(host) as folder:
            process = host.start(network.server.namespace, [host.verbena, *self.command],
                                 preload=False, env={"TMPDIR": str(folder)})
            try:
                wait_for_line(host, process, self.ready)
                expect(os.listdir(folder), "there is no temporary trace")
                os.kill(process.pid, self.signal)
                status = process.wait(host.deadline(10))
            finally:
                process.kill()
            check_output(status, process.output(), 128 + self.signal, ())
            expect(not os.listdir(folder), f"{os.listdir(folder)} remain")
        child = re.search(r"^pid (\d+)", process.output(), re.M)
        expect(not child or not os.path.exists(f"/proc/{child[1]}"), "the program still runs")
        return ""


@dataclasses.dataclass(frozen=True)
class KeptTrace(Case):
    """If the report can't be written, the program's run was not for nothing."""

    def run(self, host, network):
        with open_folder(host) as folder:
            status, output = host.run(
                network.server.namespace,
                [host.verbena, "trace", "--html", "/dev/full", "--", host.verbena, "lab", "hello"],
                preload=False, env={"TMPDIR": str(folder)})
            check_output(status, output, 1, ("/dev/full: No space left",))
            kept = re.search(r"the trace is kept in (\S+);", output)
            expect(kept, f"it doesn't say where the trace is: {output}")
            status, output = host.run(network.server.namespace,
                                      [host.verbena, "report", kept[1]], preload=False)
        return check_output(status, output, 0, ("RDMA_WRITE",))


def report_of(*options, broken=""):
    """Of a small trace, which {file} stands for."""
    def prepare(folder):
        file = f"{folder}/in.jsonl"
        headers = "0440ffff000000128000000a"
        lines = [
            '"event":"start","version":2,"wall":0,"program":"p","host":"h","boot":"b"',
            '"event":"state","qp":"0x000011","from":"INIT","to":"RTR","type":"RC","device":"vb_lo",'
            '"local":"::ffff:10.0.0.1","peer":"::ffff:10.0.0.2","peer_qp":"0x000012","mtu":1024',
            '"event":"sent","qp":"0x000011","destination_qp":"0x000012","opcode":"RC SEND only",'
            f'"psn":10,"bytes":0,"ack_request":true,"headers":"{headers}"']
        pathlib.Path(file).write_text(
            "".join(f'{{"t":{t},"pid":1,{line}}}\n' for t, line in enumerate(lines)) + broken)
        return "report", file, *(option.format(file=file, folder=folder) for option in options)
    return prepare


def report_cases():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        yield EndedBySignal(LO, f"trace/ended-by-{signal.Signals(number).name}", signal=number)
    yield EndedBySignal(LO, "trace/lab-ended-by-SIGTERM", ready="ready",
                        command=("lab", "hello", "server", "--ladder"))
    yield KeptTrace(LO, "trace/report-fails")
    yield Tool(LO, "trace/no-device", arguments("trace", "--", "sh", "-c", "exit 3"),
               ("the program opened no device: there is nothing to show",), 3)
    yield Tool(LO, "trace/no-queue-pair", arguments("trace", "--", "ibv_devinfo", "-d", "vb_lo"),
               ("^no queue pair did anything",))
    yield Tool(LO, "trace/html-nowhere",
               arguments("trace", "--html", "/no/such/a.html", "--", "echo", "ran"),
               (r"\Averbena trace: --html /no/such/a.html: No such file",), 2)
    for option in ("--html", "--svg"):
        yield Tool(LO, f"report/{option[2:]}-over-its-input", report_of(option, "{folder}/./in.jsonl"),
                   ("in.jsonl: the report would overwrite its input",), 1)
    yield Tool(LO, "report/same-file-twice", report_of("{folder}/./in.jsonl"),
               ("is the same file as .*, and is read once", "^1 packet"))
    yield Tool(LO, "report/damaged-line",
               report_of(broken='{"t":"x","pid":1,"event":"sent","qp":"0x000011"}\n'),
               ("in.jsonl:4: this line is no event, and is left out",))
    for option, value in (("--from", "nan"), ("--from", "1e400"), ("--to", "inf"), ("--to", "1s")):
        yield Tool(LO, f"report/{option[2:]}-{value}", report_of(option, value),
                   (f'{option}: "{value}" is no time in milliseconds',), 2)
    for value in ("-1", "1.5"):
        yield Tool(LO, f"report/lines-{value}", report_of("--lines", value),
                   (f'--lines: "{value}" is no number of lines',), 2)


def run_cases():
    shell = ("run", "--", "sh", "-c")
    yield Tool(LO, "tool/run-status", arguments(*shell, "exit 41"), (), 41)
    yield Tool(LO, "tool/run-killed-by-signal", arguments(*shell, "kill -TERM $$"), (),
               -signal.SIGTERM)
    for wire in ("auto", "shm", "udp"):
        yield Tool(LO, f"tool/run-wire-{wire}",
                   arguments("run", "--wire", wire, "--", "ibv_devices"), ("vb_lo",))
    yield Tool(LO, "tool/run-no-such-wire", arguments("run", "--wire", "tcp", "--", "true"),
               (r'--wire.*"tcp" is not a wire; use auto, shm or udp',), 2)
    yield Tool(LO, "tool/run-no-such-wire-variable", arguments("run", "--", "true"),
               (r'VERBENA_WIRE: "tcp" is not a wire; use auto, shm or udp',), 2,
               (("VERBENA_WIRE", "tcp"),))
    for option in ("--pcap", "--trace"):
        yield Tool(LO, f"tool/run{option}-of-nothing", arguments("run", option, "--", "true"),
                   (rf"{option}.*FILE is missing",), 2)
    yield Tool(LO, "tool/run-wrong-option", arguments("run", "--no-such", "--", "true"),
               ("--no-such", "--help"), 2)
    yield Tool(LO, "tool/run-options-of-the-program", arguments("run", "ibv_devinfo", "-v"),
               ("-v", "Put -- before PROGRAM"), 2)
    yield Tool(LO, "tool/run-nothing", arguments("run"), ("PROGRAM is required",), 2)
    yield Tool(LO, "tool/run-not-executable", not_executable, ("not executable by this user",), 126)
    yield Tool(LO, "tool/run-folder", arguments("run", "--", "/usr"), ("not a regular file",), 126)
    yield Tool(LO, "tool/no-such-command", arguments("no-such"), ("no command.*--help",), 2)
    yield Tool(LO, "tool/no-such-command-help", arguments("no-such", "--help"), ("no command.*--help",), 2)
    yield Tool(LO, "tool/stat-wrong-watch", arguments("stat", "--watch", "0"), ("--watch",), 2)
    for command in ("run", "devices", "stat", "doctor", "netns"):
        yield Tool(LO, f"tool/help-{command}", arguments(command, "--help"),
                   (rf"^Examples:\n  verbena {command}", "^Exit status: "))
    for side in ("left", "right"):
        yield NetnsSide(LO, f"tool/netns-{side}", side)
    yield Tool(LO, "tool/netns-left-alone", arguments("netns", "left", "--", "cat", "/proc/net/dev"),
               ("^ *left:",))
    yield Tool(LO, "tool/netns-right-of-nothing", arguments("netns", "right", "--", "true"),
               ("not inside verbena netns",), 2)
    yield Tool(LO, "tool/help", arguments("--help"), (r"^Examples:\n  verbena devices",))


def all_cases():
    return [
        StatShows(LO, "stat/shows-processes", quick=True),
        StatOfStopped(LO, "stat/stopped-process", quick=True),
        StatWatch(LO, "stat/watch"),
        Interfaces(LO, "devices/no-interface-is-up", "", (("lo", "down: .ip link set lo up"),), (), 1),
        Interfaces(LO, "devices/down-or-without-address", WITHOUT,
                   (("down0", "down: .ip link set down0 up"), ("bare0", "no address: .ip addr add"),
                    ("full1", "no address")), ("vb_full0", "vb_lo"), quick=True),
        Interfaces(LO, "devices/whose-roce-is-taken", PLANTED,
                   (("down0", "down"), ("bare0", "no address"), ("full1", "no address"),
                    ("full0", "a RoCE card with its own device: use mlx5_0"),
                    ("lo", "rxe owns its UDP port 4791: use rxe0.*rdma link delete rxe0")), (), 1),
        PortHeld(LO, "tool/port-held-by-a-program"),
        PortHeld(LO, "tool/port-held-by-another-user", by_verbena=True),
        *run_cases(),
        *report_cases(),
    ]
