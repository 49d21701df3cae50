"""`verbena bench`: its table, its files, its page, two hosts, faults, and comparisons. No times are asserted."""

import csv
import dataclasses
import json
import os
import pathlib
import re
import signal
import time

from browser import need_browser, opened_alone
from cases import LO, VETHS, Case, check_output, next_tcp_port
from observing import expect, open_folder
from programs import CaseFailed, CaseSkipped, need_programs, tail

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs/bench-schema.json"
TINY = ("--seconds", "0.01")


def bench(host, end, *words, status=0, expected=(), timeout=60):
    """What it printed."""
    got, output = host.run(end.namespace, [host.verbena, "bench", *words], preload=False, timeout=timeout)
    check_output(got, output, status, expected)
    return output


def validated(path):
    """The JSON, which is as its schema says."""
    found = json.loads(path.read_text())
    try:
        import jsonschema
    except ImportError:
        raise CaseSkipped("python3-jsonschema is not installed") from None
    for error in jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(found):
        raise CaseFailed(f"{path.name}, {'/'.join(map(str, error.path))}: {error.message}")
    return found


def check_intervals(results):
    for m in results["measurements"]:
        for name, figure in m["figures"].items():
            values = sorted(value for value in figure["rounds"] if value is not None)
            expect(values and values[0] <= figure["low"] <= figure["median"] <= figure["high"] <= values[-1],
                   f"{m['id']}, {name}: {figure}")
        expect(m["test"] == "bandwidth" or m["transport"] != "rdma" or m["histogram_ns"],
               f"{m['id']}: no histogram")


@dataclasses.dataclass(frozen=True)
class Files(Case):
    """A run of everything: the table has what the JSON has, and so has the CSV."""

    def run(self, host, network):
        with open_folder(host) as folder:
            table = bench(host, network.server, "--quick", "--rounds", "1", *TINY, "--json",
                          f"{folder}/out.json", "--csv", f"{folder}/out.csv")
            results = validated(folder / "out.json")
            check_intervals(results)
            self._check_table(table, results)
            self._check_csv(folder / "out.csv", results)
        expect(not results["failed"], f"{results['failed']}")
        kinds = {(m["transport"], m["test"]) for m in results["measurements"]}
        wanted = {("rdma", "bandwidth"), ("rdma", "latency"), ("tcp", "bandwidth"), ("tcp", "latency"),
                  ("udp", "bandwidth"), ("udp", "latency")}
        if len(os.sched_getaffinity(0)) > 1:
            wanted |= {("memcpy", "bandwidth"), ("ring", "bandwidth"), ("slot", "latency")}
        expect(wanted <= kinds, f"not measured: {wanted - kinds}; skipped: {results['skipped']}")
        ways = {(m["operation"], m["service"]) for m in results["measurements"]}
        expect({("write", "RC"), ("read", "RC"), ("send", "RC"), ("send", "UC"), ("send", "UD"),
                ("write", "UC")} <= ways, f"only {ways}")
        lossy = [m for m in results["measurements"] if m["loss_percent"] > 0]
        expect(lossy and all(m["figures"]["resent_percent"]["median"] > 0 for m in lossy if
                             m["loss_percent"] >= 1), "nothing was sent again in spite of losses")
        return f"{len(results['measurements'])} measurements"

    @staticmethod
    def _check_table(table, results):
        machine = results["machine"]
        check_output(0, table, 0, [re.escape(machine["processor"]), rf"load {machine['load_before']} before",
                                   "too few to conclude", *(re.escape(m["title"])
                                                            for m in results["measurements"])])
        rows = [line for line in table.splitlines() if re.match(r"[\d.]+ (B|[KM]iB) ", line)]
        expect(len(rows) == len(results["measurements"]), f"{len(rows)} rows:\n{table}")

    @staticmethod
    def _check_csv(path, results):
        with open(path, newline="") as file:
            lines = list(csv.DictReader(file))
        wanted = {(m["id"], name): figure for m in results["measurements"]
                  for name, figure in m["figures"].items()}
        expect({(line["id"], line["figure"]) for line in lines} == set(wanted) and len(lines) == len(wanted),
               f"{len(lines)} lines, {len(wanted)} figures")
        specs = {m["id"]: m for m in results["measurements"]}
        for line in lines:
            figure, spec = wanted[line["id"], line["figure"]], specs[line["id"]]
            for name in ("median", "low", "high"):
                expect(float(line[name]) == figure[name], f"{line} instead of {figure}")
            for name in ("transport", "test", "operation", "service", "completion", "wire"):
                expect(line[name] == spec[name], f"{line} instead of {spec}")
            for name in ("size", "depth", "queue_pairs", "loss_percent"):
                expect(float(line[name]) == spec[name], f"{line} instead of {spec}")


@dataclasses.dataclass(frozen=True)
class Choices(Case):
    """Sizes, operations, services, queue pairs and completions as they were wished for."""

    def run(self, host, network):
        with open_folder(host) as folder:
            bench(host, network.server, "--sizes", "64,4K", "--operations", "write,send", "--services",
                  "RC,UD", "--queue-pairs", "1,3", "--completions", "events", "--rounds", "1", *TINY, "--json",
                  f"{folder}/out.json")
            results = validated(folder / "out.json")
        streams = {(m["operation"], m["service"], m["size"], m["queue_pairs"]) for m in results["measurements"]
                   if m["transport"] == "rdma" and m["test"] == "bandwidth"}
        wanted = {(o, s, size, n) for o, s in (("write", "RC"), ("send", "RC"), ("send", "UD"))
                  for size in (64, 4096) for n in (1, 3)}
        expect(streams == wanted, f"{streams ^ wanted}")
        expect(all(m["completion"] == "events" for m in results["measurements"] if m["transport"] == "rdma"),
               "not all completions were events")
        return ""


@dataclasses.dataclass(frozen=True)
class Others(Case):
    """UCX and libfabric, where they are."""

    def run(self, host, network):
        need_programs("ucx_perftest", "fi_pingpong")
        with open_folder(host) as folder:
            bench(host, network.server, "--only", r"^(ucx|libfabric)\n", "--rounds", "1", *TINY, "--json",
                  f"{folder}/out.json")
            results = validated(folder / "out.json")
        found = {(m["transport"], name) for m in results["measurements"] for name, figure in m["figures"].items()
                 if figure["median"] > 0}
        wanted = {("ucx", "gb_per_s"), ("ucx", "p50_us"), ("libfabric", "mean_us")}
        expect(wanted <= found, f"only {found}; skipped: {results['skipped']}")
        return ""


# ---------------------------------------------------------------- two hosts, and what goes wrong there


def start_server(host, network, port):
    server = host.start(network.server.namespace, [host.verbena, "bench", "server", "--port", str(port)],
                        preload=False)
    host.wait_listening(network.server.namespace, port, server)
    return server


@dataclasses.dataclass(frozen=True)
class TwoHosts(Case):
    def run(self, host, network):
        port = next_tcp_port()
        server = start_server(host, network, port)
        try:
            with open_folder(host) as folder:
                bench(host, network.client, network.server.addresses[4], "--port", str(port), "--quick",
                      "--rounds", "1", *TINY, "--only", r"^(write rc|read rc|send rc|send ud|tcp|raw udp)\n", "--json",
                      f"{folder}/out.json")
                results = validated(folder / "out.json")
            expect(server.poll() is None, f"the server ended\n{tail(server)}")
        finally:
            server.kill()
        expect(not results["failed"] and not results["skipped"], f"{results['failed']} {results['skipped']}")
        expect(results["host"] == network.server.addresses[4], f"host {results['host']}")
        transports = {m["transport"] for m in results["measurements"]}
        expect(transports == {"rdma", "tcp", "udp"}, f"{transports}")
        expect(network.client.device in results["machine"]["devices"], f"{results['machine']}")
        return f"{len(results['measurements'])} measurements"


@dataclasses.dataclass(frozen=True)
class WrongHost(Case):
    """Nothing listens; no such host; something else listens."""

    def run(self, host, network):
        port = str(next_tcp_port())
        here = network.server.addresses[4]
        bench(host, network.client, here, "--port", port, "--quick", *TINY, status=1,
              expected=("Connection refused", 'start "verbena bench server" on that host'))
        bench(host, network.client, "no-such-host.invalid", "--quick", *TINY, status=1,
              expected=('host "no-such-host.invalid"',))
        # That server expects another greeting.
        stranger = host.start(network.server.namespace,
                              ["python3", "-c", STRANGER.format(port=port)], preload=False)
        try:
            host.wait_listening(network.server.namespace, int(port), stranger)
            bench(host, network.client, here, "--port", port, "--quick", "--only", "64 B.*tcp|tcp.*64 B",
                  "--rounds", "1", *TINY, status=1, expected=('no end of "verbena bench"',))
        finally:
            stranger.kill()
        return ""


STRANGER = """
import socket
with socket.create_server(("", {port})) as server:
    while True:
        guest, _ = server.accept()
        guest.sendall(b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n")
        guest.recv(1000000)
        guest.close()
"""


GUEST = """
import contextlib, socket
with socket.create_connection(("{}", {})) as server, contextlib.suppress(ConnectionResetError):
    server.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
    while server.recv(4096):
        pass
"""


def children_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def wait_until(host, condition, what):
    limit = host.deadline(20)
    while not condition():
        if time.monotonic() > limit:
            raise CaseFailed(f"waited in vain: {what}")
        time.sleep(0.01)


def start_long_run(host, network, port, server):
    """A client that measures for minutes, and has begun."""
    client = host.start(network.client.namespace,
                        [host.verbena, "bench", network.server.addresses[4], "--port", str(port), "--sizes",
                         "64K", "--operations", "send", "--rounds", "1", "--seconds", "100"], preload=False)
    wait_until(host, lambda: children_of(server.pid) or client.poll() is not None, "the server has no guest")
    expect(client.poll() is None, f"the client ended\n{tail(client)}")
    return client


@dataclasses.dataclass(frozen=True)
class ServerKilled(Case):
    def run(self, host, network):
        port = next_tcp_port()
        server = start_server(host, network, port)
        try:
            client = start_long_run(host, network, port, server)
            os.kill(server.pid, signal.SIGKILL)
            status = client.wait(host.deadline(40))
            check_output(status, client.output(), 1,
                         ("the other end of the measurement is gone", "start \"verbena bench server\""))
        finally:
            server.kill()
        return ""


@dataclasses.dataclass(frozen=True)
class ClientKilled(Case):
    """The server notices, says so, and serves the next one; so it does after a guest that speaks something else."""

    def run(self, host, network):
        port = next_tcp_port()
        server = start_server(host, network, port)
        try:
            client = start_long_run(host, network, port, server)
            client.kill()
            wait_until(host, lambda: not children_of(server.pid), "the server still has its guest")
            address = network.server.addresses[4]
            check_output(*host.run(network.client.namespace, ["python3", "-c", GUEST.format(address, port)],
                                   preload=False), 0, ())
            bench(host, network.client, address, "--port", str(port), "--sizes", "64", "--rounds", "1", *TINY)
            check_output(0, server.output(), 0, ("the other end of the measurement is gone",
                                                 'no end of "verbena bench"'))
        finally:
            server.kill()
        return ""


@dataclasses.dataclass(frozen=True)
class Interrupted(Case):
    """Ctrl-C: what was measured is printed, and no process is left."""

    def run(self, host, network):
        run = host.start(network.server.namespace,
                         [host.verbena, "bench", "--sizes", "64K", "--rounds", "1000", *TINY], preload=False)
        try:
            wait_until(host, lambda: "round 2 " in run.output() or run.poll() is not None, "no second round")
            os.killpg(run.pid, signal.SIGINT)
            status = run.wait(host.deadline(20))
            check_output(status, run.output(), 130, ("^64 KiB +WRITE RC", "interrupted"))
        finally:
            run.kill()
        return ""


@dataclasses.dataclass(frozen=True)
class WrongOptions(Case):
    def run(self, host, network):
        for words, expected in (
                (("--sizes", "64Q"), '"64Q" is no size'),
                (("--sizes", "0"), "nothing is left to measure"),
                (("--only", "("), "no regular expression"),
                (("--only", "nothing has this name"), "verbena bench --list"),
                (("--operations", "swim"), "swim"),
                (("--quick", "--full"), "excludes"),
                (("--json", "/no/such/folder/out.json"), "/no/such/folder/out.json"),
                (("--compare", "/no/such/file.json"), "/no/such/file.json")):
            bench(host, network.server, *words, status=2, expected=(re.escape(expected),))
        bench(host, network.server, "--list", expected=("^bandwidth +64 KiB +WRITE RC$",))
        bench(host, network.server, "--device", "vb_none", "--sizes", "64", "--only", "write", "--rounds", "1",
              *TINY, status=1, expected=('device "vb_none"', "verbena devices"))
        return ""


# ---------------------------------------------------------------- comparisons


@dataclasses.dataclass(frozen=True)
class Compared(Case):
    """With made-up earlier runs: one a thousand times as fast, and one of which nothing can be said."""

    def run(self, host, network):
        words = ("--sizes", "4K", "--only", "bandwidth", "--rounds", "5", *TINY)
        with open_folder(host) as folder:
            bench(host, network.server, *words, "--json", f"{folder}/old.json")
            old = validated(folder / "old.json")
            self._write(folder / "fast.json", old, lambda i: 1000)
            self._write(folder / "noise.json", old, lambda i: (1e-4, 1e4)[i % 2])
            (folder / "wrong.json").write_text('{"schema": "of something else"}')
            bench(host, network.server, *words, "--compare", f"{folder}/fast.json", "--fail", status=1,
                  expected=("^slower:$", r"stream +4 KiB +WRITE RC +gb_per_s", "slower than in"))
            said = bench(host, network.server, *words, "--compare", f"{folder}/noise.json", "--fail",
                         expected=("the noise is larger than the difference", "^0 slower, 0 faster"))
            expect("slower:" not in said, said)
            bench(host, network.server, *words, "--compare", f"{folder}/wrong.json", status=1,
                  expected=("wrong.json: its schema isn't verbena-bench-1",))
        return ""

    @staticmethod
    def _write(path, results, gain):
        """As if RDMA had been gain(i) times as fast in round i."""
        made_up = json.loads(json.dumps(results))
        for m in made_up["measurements"]:
            for name, figure in m["figures"].items():
                if m["transport"] == "rdma" and name in ("gb_per_s", "cpu_s_per_gb", "p50_us", "p99_us"):
                    power = 1 if name == "gb_per_s" else -1
                    figure["rounds"] = [value * gain(i) ** power for i, value in enumerate(figure["rounds"])]
        path.write_text(json.dumps(made_up))


# ---------------------------------------------------------------- the page


PLOTS = ("bandwidth", "cpu", "latency", "goodput", "resends")
SCALES = {"messages_per_s": 1e-6}


@dataclasses.dataclass(frozen=True)
class Page(Case):
    """Without errors, with all plots, of which every point is a median of the JSON."""

    def run(self, host, network):
        need_browser()
        with open_folder(host) as folder:
            bench(host, network.server, "--quick", "--rounds", "1", *TINY, "--only", "^(write rc|tcp|bare ring)",
                  "--json", f"{folder}/out.json", "--html", f"{folder}/out.html")
            results = validated(folder / "out.json")
            with opened_alone(folder / "out.html", width=1280, height=1000) as browser:
                self._check_points(browser, results)
                self._check_curves(browser, results)
                self._check_table(browser, results)
                self._check_legend(browser)
            with opened_alone(folder / "out.html", width=390, height=844, phone=True) as browser:
                self._check_width(browser)
        return ""

    @staticmethod
    def _check_points(browser, results):
        plots = browser.run("return [...document.querySelectorAll('[data-plot]')].map((p) => p.dataset.plot)")
        sizes = {m["size"] for m in results["measurements"] if m["queue_pairs"] > 1}
        expect(set(plots) == set(PLOTS) | {f"queue-pairs-{size}" for size in sizes}, f"plots: {plots}")
        figures = {m["id"]: m["figures"] for m in results["measurements"]}
        points = browser.run("""return [...document.querySelectorAll('circle')].map((c) => [
            c.closest('[data-plot]').dataset.plot, c.dataset.id, c.dataset.figure, Number(c.dataset.value),
            Number(c.getAttribute('cx')), Number(c.getAttribute('cy'))])""")
        for plot, name, figure, value, x, y in points:
            median = figures[name][figure]["median"] * SCALES.get(figure, 1)
            expect(abs(value - median) <= 1e-9 * median, f"{plot}: {name} is {value} instead of {median}")
            expect(0 <= x <= 1280 and 0 <= y <= 400, f"{plot}: {name} is at {x}, {y}")
        shown = {(plot, name) for plot, name, *_ in points}
        for m in results["measurements"]:
            plain = (m["test"] == "bandwidth" and not m["loss_percent"] and m["queue_pairs"] == 1
                     and m["completion"] == "polling" and m["service"] in ("RC", ""))
            expect(not plain or ("bandwidth", m["id"]) in shown, f"{m['id']} isn't in the plot of bandwidths")
            expect(not m["loss_percent"] or ("goodput", m["id"]) in shown, f"{m['id']} isn't in that of losses")

    @staticmethod
    def _check_curves(browser, results):
        drawn = browser.run("""return [...document.querySelectorAll('#latency [data-id]')]
            .map((path) => path.dataset.id)""")
        wanted = [m["id"] for m in results["measurements"]
                  if m["test"] == "latency" and len(m["histogram_ns"]) > 1]
        expect(sorted(drawn) == sorted(wanted), f"curves of {drawn} instead of {wanted}")

    @staticmethod
    def _check_table(browser, results):
        rows = browser.run("return [...document.querySelectorAll('tbody tr')].map((r) => r.dataset.id)")
        expect(sorted(rows) == sorted(m["id"] for m in results["measurements"]), f"{len(rows)} rows")

    @staticmethod
    def _check_legend(browser):
        count = "document.querySelectorAll('#bandwidth circle').length"
        before = browser.run(f"return {count}")
        browser.run("document.querySelector('#bandwidth .legend button').click()")
        hidden = browser.run(f"return {count}")
        browser.run("document.querySelector('#bandwidth .legend button').click()")
        expect(hidden < before == browser.run(f"return {count}"), f"{before} points, then {hidden}")

    @staticmethod
    def _check_width(browser):
        inner, wide = browser.run("return [innerWidth, document.documentElement.scrollWidth]")
        expect(inner == wide, f"{wide} pixels on a screen of {inner}")
        outside = browser.run("""return [...document.querySelectorAll('.card, .tile, .legend button, svg text')]
            .filter((e) => e.getBoundingClientRect().width > 0)
            .filter((e) => { const b = e.getBoundingClientRect(); return b.left < -1 || b.right > innerWidth + 1; })
            .map((e) => e.textContent)""")
        expect(not outside, f"beyond the edge: {outside}")


def all_cases():
    veth = VETHS[0]
    return [
        Files(LO, "bench/table-json-csv", quick=True),
        Choices(LO, "bench/choices"),
        Others(LO, "bench/others"),
        TwoHosts(veth, "bench/two-hosts"),
        WrongHost(veth, "bench/wrong-host"),
        ServerKilled(veth, "bench/server-killed"),
        ClientKilled(veth, "bench/client-killed"),
        Interrupted(LO, "bench/interrupted"),
        WrongOptions(LO, "bench/wrong-options"),
        Compared(LO, "bench/compare"),
        Page(LO, "bench/page"),
    ]
