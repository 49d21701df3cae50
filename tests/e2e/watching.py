"""`verbena top` in a real terminal (tmux), and `verbena metrics` with good, slow and hostile clients."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time

from cases import LO, Case, Tool, arguments, check_output, start_pair
from connections import wait_for_line
from observing import expect
from programs import PATH, CaseFailed, CaseSkipped, need_programs, tail
from tools import busy_pair, stat_json, wait_for_processes

# ---------------------------------------------------------------- a terminal


class Terminal:
    """A shell in a terminal of its own, with keys to press and a screen to look at."""

    def __init__(self, host, end, columns=80, lines=24):
        need_programs("tmux")
        self._host, self._end = host, end
        self._socket = f"{host.temporary}/tmux.{os.urandom(4).hex()}"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines),
                   "env", "TERM=screen-256color", "PS1=ready> ", "sh")
        self.wait_for("ready>")

    def _tmux(self, *words):
        status, output = self._host.run(self._end.namespace, ["tmux", "-S", self._socket, *words],
                                        preload=False, env={"SHELL": "/bin/sh"})
        check_output(status, output, 0, ())
        return output

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def type(self, text):
        self._tmux("send-keys", "-l", text)

    def command(self, text):
        self.type(text)
        self.press("Enter")

    def resize(self, columns, lines):
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self):
        return self._tmux("capture-pane", "-p")

    def tell(self, what):
        """A format of tmux."""
        return self._tmux("display-message", "-p", f"#{{{what}}}").strip()

    def wait_for(self, pattern, absent=False):
        limit = self._host.deadline(20)
        while True:
            screen = self.screen()
            if bool(re.search(pattern, screen, re.M)) != absent:
                return screen
            if time.monotonic() > limit:
                raise CaseFailed(f"{'still' if absent else 'no'} /{pattern}/ on the screen:\n{screen}")
            time.sleep(0.05)

    def program(self):
        """The pid of what the shell has started."""
        shell = self.tell("pane_pid")
        with open(f"/proc/{shell}/task/{shell}/children", encoding="ascii") as children:
            return int(children.read().split()[0])

    def close(self):
        """The server ends with it, and removes its socket."""
        self._host.run(self._end.namespace, ["tmux", "-S", self._socket, "kill-server"],
                       preload=False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket)


@contextlib.contextmanager
def terminal(host, end, **size):
    opened = Terminal(host, end, **size)
    try:
        yield opened
    finally:
        opened.close()


def row_of(pid):
    return rf"^ *{pid} +ibv_rc_pingpong"


@dataclasses.dataclass(frozen=True)
class Screen(Case):
    """Both ends of a pair, by every key; one of them is killed while it is shown."""

    def run(self, host, network):
        end = network.server
        with busy_pair(host, network) as pair, terminal(host, end) as shown:
            pids = [process.pid for process in pair]
            wait_for_processes(host, end, pids, 100)
            shown.command(f"{host.verbena} top --interval 0.2")
            self._check_views(shown, pids)
            self._check_details(shown)
            self._check_filter(shown, pids)
            self._check_sizes(shown)
            os.kill(pids[0], signal.SIGKILL)
            shown.press("1")
            shown.wait_for(row_of(pids[0]), absent=True)
            shown.press("q")
            shown.wait_for(r"^ready> .*top --interval 0.2\nready>")
        return ""

    @staticmethod
    def _check_views(shown, pids):
        for pid in pids:
            # Rates appear with the second look.
            shown.wait_for(row_of(pid) + r" +vb_lo +1 +[\d.]+[kMG] ")
        expect(re.search(r"^q quit .*Enter details", shown.screen().splitlines()[23]),
               f"the keys are not at the bottom: {shown.screen()}")
        shown.press("2")
        for pid in pids:
            shown.wait_for(row_of(pid) + r" +0x\w{6} +RTS +(shm|udp) +[\d.]+[kMG] ")
        shown.press("Tab")
        shown.wait_for(r"\[3 devices\]")
        shown.wait_for(r"^vb_lo +.*verbena +.*2 ")
        shown.press("1")
        shown.wait_for(r"\[1 processes\]")

    @staticmethod
    def _check_details(shown):
        shown.press("2", "Down", "Enter")
        shown.wait_for(r"^queue pair 0x\w{6} of ibv_rc_pingpong \(process \d+\)$")
        shown.wait_for(r"^peer +\S+ qp 0x\w{6}, process \d+ \(ibv_rc_pingpong\)$")
        shown.wait_for(r"^(sent|rcvd)_bytes +\d+ +[\d.]+[kMG]$")
        shown.press("Escape")
        shown.wait_for(r"\[2 queue pairs\]")
        shown.wait_for(r"^ +PID +PROGRAM")

    @staticmethod
    def _check_filter(shown, pids):
        shown.press("1")
        shown.type(f"/{pids[0]}")
        shown.press("Enter")
        shown.wait_for(row_of(pids[1]), absent=True)
        shown.wait_for(row_of(pids[0]))
        shown.press("Escape")
        shown.wait_for(row_of(pids[1]))
        # By PID, upwards and downwards.
        shown.press("<", "<", "<", "<")
        shown.wait_for("<> PID down")
        order = sorted(pids)
        shown.wait_for(rf"{row_of(order[1])}.*\n.*{order[0]} ")
        shown.press("r")
        shown.wait_for(rf"{row_of(order[0])}.*\n.*{order[1]} ")

    @staticmethod
    def _check_sizes(shown):
        shown.press("2")
        expect("POSTED" not in shown.screen(), "a column for wide screens")
        shown.resize(200, 50)
        shown.wait_for(r"PEER.*POSTED.*RECVS +CQ$")
        expect(re.search("^q quit", shown.screen().splitlines()[49]), "the keys are not at the bottom")
        shown.resize(40, 8)
        shown.wait_for(r"^ +PID +PROGRAM|^ +PID +QP")
        expect(len(shown.screen().splitlines()) <= 8, "the screen scrolled")
        shown.resize(80, 24)


@dataclasses.dataclass(frozen=True)
class LeavesTerminal(Case):
    """However it ends, the terminal is then as it was."""
    WAYS = (("C-c", 0), ("q", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGSEGV, 139))

    def run(self, host, network):
        with terminal(host, network.server) as shown:
            shown.command('modes=$(stty -a); echo shown before')
            shown.wait_for("^shown before$")
            for way, status in self.WAYS:
                self._end(host, shown, way, status)
            self._stop_and_go_on(host, shown)
        return ""

    def _end(self, host, shown, way, status):
        shown.command(f"{host.verbena} top; echo ended with $?")
        self._wait_until_shown(shown)
        if isinstance(way, str):
            shown.press(way)
        else:
            os.kill(shown.program(), way)
        shown.wait_for(f"^ended with {status}$")
        self._check(shown, way)
        shown.command("clear; echo shown before")
        shown.wait_for(r"\A(ready> )?shown before$")

    def _stop_and_go_on(self, host, shown):
        shown.command(f"{host.verbena} stat --watch 1")  # the same program
        self._wait_until_shown(shown)
        shown.press("C-z")
        shown.wait_for("Stopped")
        self._check(shown, "Ctrl-Z")
        shown.command("fg")
        self._wait_until_shown(shown)
        shown.press("q")
        shown.wait_for(r"fg\n.*\nready>")
        self._check(shown, "Ctrl-Z and fg")

    @staticmethod
    def _wait_until_shown(shown):
        shown.wait_for("^q quit")
        expect(shown.tell("alternate_on") == "1", "it writes over what the terminal shows")

    @staticmethod
    def _check(shown, way):
        expect(shown.tell("alternate_on") == "0", f"{way}: the second screen is left on")
        expect(shown.tell("cursor_flag") == "1", f"{way}: there is no cursor")
        shown.wait_for("^shown before$")
        shown.command('[ "$(stty -a)" = "$modes" ] && echo same modes')
        shown.wait_for("^same modes$")


# ---------------------------------------------------------------- top --once

def top_json(host, end):
    status, output = host.run(end.namespace,
                              [host.verbena, "top", "--once", "--json", "--interval", "0.2"],
                              preload=False)
    check_output(status, output, 0, ())
    return json.loads(output)


def check_between(name, least, value, most):
    """Counters that grow meanwhile."""
    expect(least <= value <= most, f"{name} is {value}, but it was {least} before and {most} after")


def check_counters_between(before, now, after):
    expect(set(before) == set(now), f"other counters: {set(before) ^ set(now)}")
    for name, value in now.items():
        check_between(name, before[name], value, after[name])


@dataclasses.dataclass(frozen=True)
class Once(Case):
    """The counters are those of `verbena stat`; rates and queue pairs fit the traffic."""

    def run(self, host, network):
        end = network.server
        with busy_pair(host, network) as pair:
            pids = [process.pid for process in pair]
            before = wait_for_processes(host, end, pids, 100)
            told = top_json(host, end)
            after = stat_json(host, end)
            processes = {process["pid"]: process for process in told["processes"]}
            expect(set(processes) == set(pids), f"others than {pids}: {sorted(processes)}")
            for pid in pids:
                port, = processes[pid]["ports"]
                for kind in ("counters", "hw_counters"):
                    check_counters_between(before[pid]["ports"][0][kind], port[kind],
                                           after[pid]["ports"][0][kind])
                self._check_rates(told, processes[pid], port)
            self._check_queue_pairs(*(processes[pid]["queue_pairs"][0] for pid in pids))
            status, table = host.run(end.namespace, [host.verbena, "top", "--once"], preload=False)
            return check_output(status, table, 0, [
                rf"^ *{pid} +ibv_rc_pingpong +vb_lo +0x\w+ +RC +RTS" for pid in pids])

    @staticmethod
    def _check_rates(told, process, port):
        expect(0.2 <= told["interval"], f"the interval is {told['interval']}")
        expect(len(process["queue_pairs"]) == 1 and process["queue_pairs_unlisted"] == 0, f"{process}")
        for rates in (port["rates"], process["queue_pairs"][0]["rates"]):
            expect(rates["sent_bytes"] > 0 and rates["received_packets"] > 0, f"{rates}")

    @staticmethod
    def _check_queue_pairs(one, other):
        expect(one["qp"] == other["peer_qp"] and other["qp"] == one["peer_qp"], f"{one} {other}")
        for pair in (one, other):
            expect(pair["state"] == "RTS" and pair["service"] == "RC", f"{pair}")
            expect(pair["way"] in ("shm", "udp"), f"{pair}")
            expect(pair["send_queue"]["posted"] <= pair["send_queue"]["entries"], f"{pair}")
            expect(0 < pair["receive_queue"]["posted"] <= 500, f"{pair}")
            expect(pair["counters"]["sent_bytes"] > 0, f"{pair}")


@dataclasses.dataclass(frozen=True)
class ManyQueuePairs(Case):
    """More than a process tells at once; all are listed."""
    COUNT = 150

    def run(self, host, network):
        need_programs("ib_write_bw")
        end = network.server
        pair = start_pair(host, network, "ib_write_bw", ("-q", str(self.COUNT), "-D", "60"), 4)
        try:
            return self._body(host, end, [process.pid for process in pair])
        except CaseFailed as failure:
            raise CaseFailed("\n".join([str(failure), *map(tail, pair)])) from None
        finally:
            for process in pair:
                process.kill()

    def _body(self, host, end, pids):
        limit = host.deadline(20)
        while True:
            told = {process["pid"]: process for process in top_json(host, end)["processes"]}
            pairs = [told[pid].get("queue_pairs", ()) if pid in told else () for pid in pids]
            if all(len(listed) == self.COUNT and all(qp["peer_qp"] for qp in listed) for listed in pairs):
                break
            if time.monotonic() > limit:
                raise CaseFailed(f"{[len(listed) for listed in pairs]} are listed")
            time.sleep(0.05)
        ours, peers = ({qp[member] for qp in listed} for listed, member in zip(pairs, ("qp", "peer_qp")))
        expect(len(ours) == self.COUNT and ours == peers, "their peers are others")
        expect(all(told[pid]["queue_pairs_unlisted"] == 0 for pid in pids), f"{told[pids[0]]}")
        status, text = host.run(end.namespace, [host.verbena, "metrics", "--queue-pairs", "100"],
                                preload=False)
        check_output(status, text, 0, [
            rf'^verbena_process_unlisted_queue_pairs\{{pid="{pid}",.*\}} 50$' for pid in pids])
        families, _ = parsed_metrics(text)
        expect(len(families["verbena_qp_info"]) == 200, f"{len(families['verbena_qp_info'])} have metrics")
        return f"{len(text)} bytes"


# A sysfs in which the kernel has a device.
PLANTED = """
ip link set lo up
mount -t tmpfs none /sys/class
port=/sys/class/infiniband/mlx5_0/ports/1
mkdir -p $port/counters $port/hw_counters
echo 1000 > $port/counters/port_xmit_data
echo "N/A (not supported)" > $port/counters/port_rcv_data
echo 7 > $port/hw_counters/rnr_nak_retry_err
echo 12 > $port/hw_counters/lifespan
"""


@dataclasses.dataclass(frozen=True)
class KernelDevice(Case):
    """A device of the kernel is shown by its counters, without those that it doesn't have."""

    def run(self, host, network):
        told = json.loads(self._run(host, network, "top --once --json --interval 0.1"))
        port, = told["kernel_ports"]
        expect((port["device"], port["port"]) == ("mlx5_0", 1), f"{port}")
        expect(port["counters"] == {"port_xmit_data": 1000}, f"{port}")
        expect(port["hw_counters"] == {"rnr_nak_retry_err": 7}, f"{port}")
        expect(port["rates"]["sent_bytes"] == 0 and port["rates"]["received_bytes"] is None, f"{port}")
        metrics = self._run(host, network, "metrics")
        return check_output(0, metrics, 0, (
            r'^verbena_kernel_port_sent_bytes_total\{device="mlx5_0",port="1"\} 4000$',
            r'^verbena_kernel_port_events_total\{device="mlx5_0",port="1",event="rnr_nak_retry_err"\} 7$'))

    @staticmethod
    def _run(host, network, command):
        status, output = host.run(
            network.server.namespace,
            ["unshare", "-Urnm", "sh", "-ec", f"{PLANTED}\nexec {host.verbena} {command}"],
            preload=False)
        if "unshare" in output and status != 0:
            raise CaseSkipped(f"no user namespace: {output.strip()}")
        check_output(status, output, 0, ())
        return output


# ---------------------------------------------------------------- metrics

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\d+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def parsed_metrics(text):
    """{name: {labels: value}}, of the exposition format 0.0.4, strictly: each family once, its HELP
    and TYPE first, no sample twice."""
    expect(text.endswith("\n"), "the last line has no end")
    families, types, current, helped = {}, {}, None, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
            expect(helped not in families and len(line.split(" ", 3)) == 4, f"again: {line}")
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            expect(current == helped and kind in ("counter", "gauge"), f"unexpected: {line}")
            expect((kind == "counter") == current.endswith("_total"), f"{line}: its name's end")
            families[current], types[current] = {}, kind
        else:
            match = SAMPLE.fullmatch(line)
            expect(match and match[1] == current, f"not a sample of {current}: {line}")
            labels = frozenset(LABEL.findall(match[2] or ""))
            expect(labels not in families[current], f"twice: {line}")
            families[current][labels] = int(match[3])
    expect(all(families.values()), "a family without samples")
    return families, types


def check_with_promtool(text):
    """Prometheus' own opinion, where it is installed."""
    promtool = shutil.which("promtool", path=PATH)
    if promtool:
        done = subprocess.run([promtool, "check", "metrics"], input=text, text=True,
                              capture_output=True, check=False)
        expect(done.returncode == 0, f"promtool: {done.stdout}{done.stderr}")


def by_label(family, name):
    """The sum for each value of a label."""
    sums = {}
    for labels, value in family.items():
        key = dict(labels)[name]
        sums[key] = sums.get(key, 0) + value
    return sums


def check_grown(earlier, later):
    """Counters of what is still there."""
    (before, types), (after, _) = parsed_metrics(earlier), parsed_metrics(later)
    for name, kind in types.items():
        for labels, value in before[name].items() if kind == "counter" else ():
            expect(after[name][labels] >= value, f"{name} {labels} went back from {value}")
    return before, after


@dataclasses.dataclass(frozen=True)
class MetricsOnce(Case):
    """Valid, and between what `verbena stat` says before and after."""

    def run(self, host, network):
        end = network.server
        with busy_pair(host, network) as pair:
            pids = [process.pid for process in pair]
            before = wait_for_processes(host, end, pids, 100)
            status, text = host.run(end.namespace, [host.verbena, "metrics"], preload=False)
            check_output(status, text, 0, ())
            after = stat_json(host, end)
        families, _ = parsed_metrics(text)
        check_with_promtool(text)
        packets = by_label(families["verbena_port_sent_packets_total"], "pid")
        payload = by_label(families["verbena_qp_sent_bytes_total"], "pid")
        for pid in pids:
            old, new = (told[pid]["ports"][0] for told in (before, after))
            check_between("packets", old["counters"]["port_xmit_packets"], packets[str(pid)],
                          new["counters"]["port_xmit_packets"])
            check_between("payload", old["hw_counters"]["sent_bytes"], payload[str(pid)],
                          new["hw_counters"]["sent_bytes"])
        return f"{len(families)} metrics"


# In the programs' namespace: scrapes twice, with clients of all kinds in between.
CLIENTS = """
import json, socket, sys, urllib.request
port = int(sys.argv[1])
def scrape():
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()
def ask(*pieces):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        try:
            for piece in pieces:
                s.sendall(piece)
        except OSError:
            return "broken off"
        answer = b""
        try:
            while piece := s.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer.decode()
told = {"first": scrape()}
idle = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(300)]
for s in idle:
    s.sendall(b"GET /met")
for s in idle[-20:]:  # who never reads what he asked for
    s.sendall(b"rics HTTP/1.1\\r\\n\\r\\n")
told["split"] = ask(b"GET /me", b"trics HT", b"TP/1.1\\r\\n", b"Host: x\\r\\n\\r\\n")
told["garbage"] = ask(bytes(range(256)) + b"\\r\\n\\r\\n")
told["long"] = ask(b"GET /" + b"x" * 100000)
told["post"] = ask(b"POST /metrics HTTP/1.1\\r\\nContent-Length: 3\\r\\n\\r\\nabc")
told["other"] = ask(b"GET /etc/passwd HTTP/1.1\\r\\n\\r\\n")
told["nothing"] = ask(b"\\n")  # and waits: it is told so after some seconds
told["second"] = scrape()
print(json.dumps(told))
"""


@dataclasses.dataclass(frozen=True)
class MetricsEndpoint(Case):
    """Two scrapes, with hundreds of slow and hostile clients between them; then SIGTERM."""

    def run(self, host, network):
        end = network.server
        with busy_pair(host, network) as pair:
            wait_for_processes(host, end, [process.pid for process in pair], 100)
            server = host.start(end.namespace, [host.verbena, "metrics", "--listen", "127.0.0.1:0"],
                                preload=False)
            try:
                wait_for_line(host, server, r"http://127\.0\.0\.1:\d+/metrics\n")
                port = re.search(r":(\d+)/metrics", server.output())[1]
                status, output = host.run(end.namespace, ["python3", "-c", CLIENTS, port],
                                          timeout=60, preload=False)
                check_output(status, output, 0, ())
                words = self._check(json.loads(output))
                os.kill(server.pid, signal.SIGTERM)
                expect(server.wait(host.deadline(10)) == 0, tail(server))
            finally:
                server.kill()
        return words

    @staticmethod
    def _check(told):
        (kind, first), (_, second) = told["first"], told["second"]
        expect(kind == "text/plain; version=0.0.4; charset=utf-8", kind)
        before, after = check_grown(first, second)
        grown = [sum(families["verbena_port_sent_packets_total"].values()) for families in (before, after)]
        expect(grown[0] < grown[1], f"packets don't grow: {grown}")
        for name, status in (("split", "200 OK"), ("garbage", "400 "), ("post", "405 "),
                             ("other", "404 "), ("nothing", "408 ")):
            expect(told[name].startswith(f"HTTP/1.1 {status}"), f"{name}: {told[name][:100]}")
        expect(told["long"] == "broken off" or told["long"].startswith("HTTP/1.1 431 "),
               f"long: {told['long'][:100]}")
        return f"{len(before)} metrics"


# ---------------------------------------------------------------- the table

def all_cases():
    return [
        Screen(LO, "top/screen", quick=True),
        LeavesTerminal(LO, "top/leaves-terminal"),
        Once(LO, "top/once", quick=True),
        ManyQueuePairs(LO, "top/many-queue-pairs"),
        KernelDevice(LO, "top/kernel-device"),
        Tool(LO, "top/no-terminal", arguments("top"),
             (r"top: standard input is no terminal: use verbena top --once",), 2),
        Tool(LO, "top/json-alone", arguments("top", "--json"), ("--json requires --once",), 2),
        Tool(LO, "top/no-such-view", arguments("top", "--once", "--view", "cpus"), ("--view",), 2),
        Tool(LO, "top/no-such-column", arguments("top", "--once", "--sort", "speed"),
             ('--sort: no table has a column "speed"; there are PID, PROGRAM, DEVICE, QPS',), 2),
        Tool(LO, "top/nothing-there", arguments("top", "--once", "--interval", "0.1"),
             (r"\A0 processes, 0 queue pairs",)),
        Tool(LO, "top/help", arguments("top", "--help"), (r"^Examples:\n  verbena top", "^Exit status: ")),
        MetricsOnce(LO, "metrics/once", quick=True),
        MetricsEndpoint(LO, "metrics/endpoint"),
        Tool(LO, "metrics/nothing-there", arguments("metrics"), (r"^verbena_processes 0$",)),
        Tool(LO, "metrics/open-to-others", arguments("metrics", "--listen", "0.0.0.0:0"),
             (r"--listen 0\.0\.0\.0:0: other machines could read.*--allow-remote",), 2),
        Tool(LO, "metrics/no-address", arguments("metrics", "--listen", "localhost"),
             (r'"localhost" is no ADDRESS:PORT, such as 127\.0\.0\.1:9464',), 2),
        Tool(LO, "metrics/help", arguments("metrics", "--help"),
             (r"^Examples:\n  verbena metrics", "^Exit status: ")),
    ]
