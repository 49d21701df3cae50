"""By shared memory or by UDP: which way a connection takes, why, and what it does to the data."""

import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import time

from cases import (LO, VETHS, Case, Pair, Tool, arguments, check_output, check_pair, compiled,
                   next_tcp_port, pair_argv, wait_for_pair)
from clients import Ucx
from connections import COMPLAINT, run_client, stream
from network import ROCE_PORT, Namespace
from observing import events_in, expect, named, open_folder
from programs import CaseFailed, CaseSkipped, is_real_root, need_programs, tail
from tools import busy_pair, stat_json, wait_for_processes

SHM = ("shm", "")
CHECKED = ("-c", "-n", "200", "-s", "10000")
RDMA_CM_PING = (("-s", "-a", "{server}", "-p", "{port}", "-C", "20", "-V"),
                ("-c", "-a", "{server}", "-p", "{port}", "-C", "20", "-V"))


def udp(why):
    return "udp", why


def ways_in(file):
    """Of the connected queue pairs in the statistics of one process."""
    pairs = json.loads(pathlib.Path(file).read_text())["qps"]
    return {(qp["way"], qp["why"]) for qp in pairs if qp["way"]}


def expect_ways(folder, **wanted):
    for end, way in wanted.items():
        found = ways_in(f"{folder}/{end}.json")
        expect(found == {way}, f"the {end}'s connections go by {found}, not by {way}")


def observed(host, folder, end, *options):
    return host.with_options(f"--stats={folder}/{end}.json", *options)


@contextlib.contextmanager
def ended(*processes):
    """Their output, if something is wrong; none of them is left."""
    processes = list(processes)
    try:
        yield processes
    except CaseFailed as failure:
        raise CaseFailed("\n".join([str(failure), *map(tail, processes)])) from None
    finally:
        for process in processes:
            process.kill()


def start_server_of(host, end, program, extra, family=4, wrapper=()):
    """(it, its TCP port), once it listens."""
    need_programs(program)
    port = next_tcp_port()
    server = host.start(end.namespace, [*wrapper, *pair_argv(host, end, program, extra, family, port)])
    try:
        host.wait_listening(end.namespace, port, server)
    except BaseException:
        server.kill()
        raise
    return server, port


def start_client_of(host, end, program, extra, port, to, family=4, wrapper=()):
    argv = pair_argv(host, end, program, extra, family, port)
    return host.start(end.namespace, [*wrapper, *argv, to.addresses[4]])


# ---------------------------------------------------------------- which way, and why

@dataclasses.dataclass(frozen=True)
class Way(Case):
    """A pair of programs that meet by TCP, with options and limits of their own at each end."""
    program: str = "ibv_rc_pingpong"
    arguments: tuple = CHECKED
    server: tuple = SHM
    client: tuple = SHM
    server_options: tuple = ()
    client_options: tuple = ()
    server_wrapper: tuple = ()
    client_wrapper: tuple = ()
    family: int = 4
    needs: tuple = ()

    def run(self, host, network):
        need_programs(*self.needs)
        with open_folder(host) as folder:
            words = self._run(host, network, folder)
            expect_ways(folder, server=self.server, client=self.client)
            return words

    def _run(self, host, network, folder):
        server, port = start_server_of(observed(host, folder, "server", *self._words(
            self.server_options, folder)), network.server, self.program, self.arguments, self.family,
            self.server_wrapper)
        with ended(server) as started:
            client = start_client_of(observed(host, folder, "client", *self._words(
                self.client_options, folder)), network.client, self.program, self.arguments, port,
                network.server, self.family, self.client_wrapper)
            started.append(client)
            return check_pair(self.program, server, client,
                              wait_for_pair(host, server, client, self.timeout))

    @staticmethod
    def _words(options, folder):
        return [word.format(folder=folder) for word in options]


@dataclasses.dataclass(frozen=True)
class TracedWay(Way):
    """The trace has the way of requests at one end, of answers at the other."""

    def run(self, host, network):
        with open_folder(host) as folder:
            trace = f"{folder}/out.jsonl"
            words = dataclasses.replace(
                self, server_options=("--trace", trace, *self.server_options),
                client_options=("--trace", trace, *self.client_options))._run(host, network, folder)
            processes = events_in(trace)
        expect(len(processes) == 2, f"{len(processes)} processes wrote the trace")
        seen = [{(e["of"], e["way"], e.get("why", "")) for e in named(events, "way")}
                for events in processes.values()]
        way, why = self.client
        expect({("requests", way, why)} in seen, f"no end says that requests go by {self.client}: {seen}")
        expect({("answers", way, "")} in seen, f"no end says that answers go by {way}: {seen}")
        return words


@dataclasses.dataclass(frozen=True)
class ConnectedWay(Case):
    """rping over rdma_cm; its data are checked."""
    way: tuple = SHM
    server_wrapper: tuple = ()
    client_wrapper: tuple = ()
    options: tuple = ()
    needs: tuple = ()

    def run(self, host, network):
        need_programs("rping", *self.needs)
        port = str(next_tcp_port())
        places = {"server": network.server.addresses[4], "port": port}
        server_words, client_words = ([*wrapper, "rping", *(w.format(**places) for w in words)]
                                      for wrapper, words in zip(
                                          (self.server_wrapper, self.client_wrapper), RDMA_CM_PING))
        with open_folder(host) as folder:
            server = observed(host, folder, "server", *self.options).start(
                network.server.namespace, server_words)
            with ended(server):
                deadline = host.deadline(self.timeout)
                run_client(observed(host, folder, "client", *self.options), network, server,
                           client_words, deadline)
                self.check(network, server)
                expect(server.wait(deadline) == 0, "the server failed")
                expect(not COMPLAINT.search(server.output()), "the server complains")
            expect_ways(folder, server=self.way, client=self.way)
        return ""

    def check(self, network, server):
        """After the client."""


@dataclasses.dataclass(frozen=True)
class StatCounts(Case):
    """`verbena stat` counts the connections by their way."""

    def run(self, host, network):
        end = network.server
        for wire, counts in (("auto", {"shm": 1, "udp": 0}), ("udp", {"shm": 0, "udp": 1})):
            with busy_pair(host.with_wire(wire), network) as pair:
                pids = [process.pid for process in pair]
                seen = wait_for_processes(host, end, pids, 100)
                for pid in pids:
                    port, = seen[pid]["ports"]
                    expect(port["connections"] == counts, f"{port['connections']} by wire {wire}")
                status, table = host.run(end.namespace, [host.verbena, "stat"], preload=False)
                check_output(status, table, 0, [
                    rf"^ *PID +PROGRAM +DEVICE +QPS +SHM +UDP ",
                    *(rf"^ *{pid} ibv_rc_pingpong +vb_lo +1 +{counts['shm']} +{counts['udp']} "
                      for pid in pids)])
        return ""


# ---------------------------------------------------------------- never by UDP

def udp_ports(namespace):
    return {int(line.split()[1].rpartition(":")[2], 16)
            for name in ("udp", "udp6") for line in namespace.proc_net(name)}


@dataclasses.dataclass(frozen=True)
class NoUdp(Case):
    """--wire shm: connections work, and no UDP port is open meanwhile."""

    def run(self, host, network):
        end = network.server
        with busy_pair(host.with_wire("shm"), network) as pair:
            pids = [process.pid for process in pair]
            wait_for_processes(host, end, pids, 100)
            ports = udp_ports(end.namespace)
        expect(not ports, f"UDP ports {ports} are open")
        return ""


@dataclasses.dataclass(frozen=True)
class Refused(Case):
    """--wire shm, and a peer that shared memory doesn't reach: an error names both, and why."""
    server_wire: str = "auto"
    why: str = ""

    def run(self, host, network):
        server, port = start_server_of(host.with_wire(self.server_wire), network.server,
                                       "ibv_rc_pingpong", CHECKED)
        with ended(server) as started:
            client = start_client_of(host.with_wire("shm"), network.client, "ibv_rc_pingpong",
                                     CHECKED, port, network.server)
            started.append(client)
            status = client.wait(host.deadline(self.timeout))
            return check_output(1 if status else 0, client.output(), 1, (
                rf"ibv_modify_qp: qp 0x\w+: (peer )?{network.server.addresses[4]}( qp 0x\w+)? can't be "
                rf"reached from {network.client.addresses[4]}: {self.why}, and --wire shm takes no "
                r"network; use --wire auto",))


# ---------------------------------------------------------------- the port is somebody else's

HOLD_PORT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[2] == "reuse":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind((sys.argv[1], 4791))
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held_port(namespace, address, reuse):
    """By a program of root's. The programs of the cases are another user's."""
    if not is_real_root():
        raise CaseSkipped("only root can start programs of two users")
    holder = subprocess.Popen(
        namespace.enter() + ["python3", "-c", HOLD_PORT, address, "reuse" if reuse else ""],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if holder.stdout.readline() != b"ready\n":
            raise CaseFailed(f"nobody holds UDP {address}:{ROCE_PORT}")
        yield holder
    finally:
        holder.communicate()


@dataclasses.dataclass(frozen=True)
class PortTaken(Case):
    """Beside somebody else's socket on UDP port 4791, the case works all the same."""
    case: Case = None
    address: str = "0.0.0.0"
    reuse: bool = False

    def run(self, host, network):
        with held_port(network.server.namespace, self.address, self.reuse):
            return self.case.run(host, network)


def beside_a_holder(label, case):
    for address, reuse in (("0.0.0.0", False), ("0.0.0.0", True), ("127.0.0.1", False),
                           ("127.0.0.1", True)):
        name = f"ways/port-taken/{'any' if address == '0.0.0.0' else 'own'}" \
               f"{'-reuse' if reuse else ''}/{label}"
        yield PortTaken(LO, name, case=case, address=address, reuse=reuse, timeout=case.timeout)


@dataclasses.dataclass(frozen=True)
class PortTakenHere(Case):
    """Other hosts are out of reach: an error names who holds the port."""

    def run(self, host, network):
        need_programs("rping")
        client, server = network.client, network.server
        holder = r"UDP port 4791 at \S+ is taken by a program of user 0: end it, or use another"
        with held_port(client.namespace, "0.0.0.0", False):
            status, output = host.run(client.namespace, [
                "rping", "-c", "-a", server.addresses[4], "-p", str(next_tcp_port()), "-C", "1"])
            check_output(1 if status else 0, output, 1, (
                rf"rdma_connect: {server.addresses[4]} can't be reached from {client.addresses[4]}: "
                rf"it is not an address of this host, and {holder}", r"RDMA_CM_EVENT_UNREACHABLE, error -113"))
            process, port = start_server_of(host, server, "ibv_rc_pingpong", CHECKED)
            with ended(process) as started:
                other = start_client_of(host, client, "ibv_rc_pingpong", CHECKED, port, server)
                started.append(other)
                status = other.wait(host.deadline(self.timeout))
                return check_output(1 if status else 0, other.output(), 1, (
                    rf"ibv_modify_qp: qp 0x\w+: {server.addresses[4]} can't be reached from "
                    rf"{client.addresses[4]}: .*{holder}",))


# ---------------------------------------------------------------- frames of strangers

@dataclasses.dataclass(frozen=True)
class Injected(Case):
    """A forged request and a forged answer come by UDP to queue pairs that use shared memory."""

    def run(self, host, network):
        with open_folder(host) as folder:
            status, output = host.with_options(f"--stats={folder}/stats.json").run(
                network.server.namespace, [compiled(host, "ways", "-libverbs"), "injected"],
                timeout=self.timeout)
            check_output(status, output, 0, ())
            files = sorted(folder.glob("stats*.json"))
            expect(len(files) == 2, f"two processes wrote {files}")
            for file in files:
                expect(ways_in(file) == {SHM}, f"{ways_in(file)}")
                dropped = json.loads(file.read_text())["ports"][0]["hw_counters"]["drop_way"]
                expect(dropped == 1, f"{dropped} frames were dropped")
        return ""


@dataclasses.dataclass(frozen=True)
class Namesake(Case):
    """A queue pair of another host has the number of one here: the frames leave for that host."""
    elsewhere: str = "127.0.0.99"  # an address that no device has: as good as another host's

    def run(self, host, network):
        program = compiled(host, "ways", "-libverbs")
        listener = subprocess.Popen(
            network.server.namespace.enter() + ["python3", "-c", LISTEN, self.elsewhere],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            if listener.stdout.readline() != "ready\n":
                raise CaseFailed(f"no socket at {self.elsewhere}")
            with open_folder(host) as folder:
                status, output = host.with_options(f"--stats={folder}/stats.json").run(
                    network.server.namespace, [program, "namesake", self.elsewhere],
                    timeout=self.timeout)
                check_output(status, output, 0, ())
                own = int(re.search(r"qp (\d+) has the number", output).group(1))
                pairs = json.loads((folder / "stats.json").read_text())["qps"]
            sender = next(qp for qp in pairs if qp["peer"] == self.elsewhere)
            expect((sender["way"], sender["why"]) == udp("other_host"), f"{sender}")
            asked = int(listener.stdout.readline())
            expect(asked == own, f"the other host was asked for qp {asked}, not {own}")
        finally:
            listener.kill()
            listener.communicate()
        return ""


# Prints the queue pair that the first frame is for.
LISTEN = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 4791))
print("ready", flush=True)
print(int.from_bytes(s.recv(9000)[5:8], "big"), flush=True)
"""


# ---------------------------------------------------------------- borders

@dataclasses.dataclass(frozen=True)
class LoopbackGoes(Case):
    """`ip link set lo down` under traffic on 127.0.0.1: UDP would stop, shared memory doesn't."""

    def run(self, host, network):
        need_programs("rping")
        namespace = Namespace()
        try:
            return self._body(host, namespace)
        finally:
            namespace.close()

    def _body(self, host, namespace):
        port, count = str(next_tcp_port()), "200000"
        words = ("-a", "127.0.0.1", "-p", port, "-C", count, "-V", "-S", "1000")
        with open_folder(host) as folder:
            server = observed(host, folder, "server").start(namespace, ["rping", "-s", *words])
            with ended(server) as started:
                client = self._start_client(host, folder, namespace, server, words)
                started.append(client)
                namespace.run("ip", "link", "set", "lo", "down")
                # From here on, everything that passes does so without the interface.
                before = self._packets(host, namespace, client)
                limit = host.deadline(self.timeout)
                while self._packets(host, namespace, client) < before + 2000:
                    if time.monotonic() > limit or client.poll() is not None:
                        raise CaseFailed("the traffic has stopped")
                    time.sleep(0.02)
                expect(server.poll() is None, "the server has ended")
        return ""

    @staticmethod
    def _packets(host, namespace, process):
        end = dataclasses.make_dataclass("End", ["namespace"])(namespace)
        seen = stat_json(host, end).get(process.pid, {})
        return sum(port["counters"]["port_rcv_packets"] for port in seen.get("ports", ()))

    def _start_client(self, host, folder, namespace, server, words):
        """Once it has exchanged some."""
        limit = host.deadline(20)
        while True:
            client = observed(host, folder, "client").start(namespace, ["rping", "-c", *words])
            while client.poll() is None:
                if self._packets(host, namespace, client) >= 500:
                    return client
                if time.monotonic() > limit:
                    client.kill()
                    raise CaseFailed("no traffic\n" + tail(client))
                time.sleep(0.01)
            if server.poll() is not None or time.monotonic() > limit:
                raise CaseFailed("no connection\n" + tail(client))


@dataclasses.dataclass(frozen=True)
class OtherUser(Case):
    """Two users on one host: UDP between their addresses; a second one at an address is told who
    has the port."""

    def run(self, host, network):
        need_programs("rping")
        if not is_real_root():
            raise CaseSkipped("only root can start programs of two users")
        end = network.server
        interface = end.device.removeprefix("vb_")
        end.namespace.run("ip", "addr", "add", "10.99.0.9/24", "dev", interface)
        try:
            return self._body(host, end)
        finally:
            end.namespace.run("ip", "addr", "del", "10.99.0.9/24", "dev", interface)

    def _body(self, host, end):
        port = str(next_tcp_port())
        words = ["-a", end.addresses[4], "-p", port, "-C", "20", "-V"]
        with open_folder(host) as folder:
            server = observed(host, folder, "server").start(end.namespace, ["rping", "-s", *words])
            with ended(server):
                limit = host.deadline(20)
                while ROCE_PORT not in udp_ports(end.namespace):
                    expect(time.monotonic() < limit and server.poll() is None, "no server")
                    time.sleep(0.01)
                status, output = self._as_other(host, folder, end, [*words, "-I", "10.99.0.9"])
                check_output(status, output, 0, ())
                expect(server.wait(host.deadline(self.timeout)) == 0, "the server failed")
            expect_ways(folder, server=udp("other_host"), client=udp("other_host"))
        return ""

    @staticmethod
    def _as_other(host, folder, end, words):
        argv = end.namespace.enter() + [
            "setpriv", "--reuid=1", "--regid=1", "--clear-groups", "--inh-caps=-all", "--",
            host.verbena, "run", f"--stats={folder}/client.json", "--", "rping", "-c", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd="/", check=False)
        return done.returncode, done.stdout + done.stderr


@dataclasses.dataclass(frozen=True)
class SameAddressElsewhere(Case):
    """Two network namespaces with the same address: each has pairs of its own, and nobody hears of
    a listener in the other."""

    def run(self, host, network):
        need_programs("rping")
        other = Namespace()
        try:
            return self._body(host, network.server.namespace, other)
        finally:
            other.close()

    def _body(self, host, here, there):
        port = str(next_tcp_port())
        words = ("-a", "127.0.0.1", "-p", port)
        with ended(host.start(here, ["rping", "-s", "-P", *words])) as (server,):
            limit = host.deadline(20)
            while ROCE_PORT not in udp_ports(here):
                expect(time.monotonic() < limit and server.poll() is None, "no server")
                time.sleep(0.01)
            status, output = host.run(there, ["rping", "-c", *words, "-C", "1"])
            expect(status != 0 and "RDMA_CM_EVENT_REJECTED" in output,
                   f"a client in another namespace is not refused\n{output}")
        pairs = [(self._start_pair(host, namespace)) for namespace in (here, there)]
        with ended(*(process for pair in pairs for process in pair)):
            for server, client in pairs:
                check_pair("ibv_rc_pingpong", server, client,
                           wait_for_pair(host, server, client, self.timeout))
                for process in (server, client):
                    expect(", by shm\n" in process.output(), "not by shared memory")
        return ""

    @staticmethod
    def _start_pair(host, namespace):
        end = dataclasses.make_dataclass("End", ["namespace", "device", "addresses"])(
            namespace, "vb_lo", {4: "127.0.0.1"})
        server, port = start_server_of(host.with_options("--stats"), end, "ibv_rc_pingpong", CHECKED)
        return server, start_client_of(host.with_options("--stats"), end, "ibv_rc_pingpong", CHECKED,
                                       port, end)


@dataclasses.dataclass(frozen=True)
class AcrossUserNamespaces(Case):
    """One user, inside and outside of a user namespace where it is root: both share the UDP port,
    so all must be of one registry, or frames reach the wrong process. Several pairs at once."""

    def run(self, host, network):
        wrappers = ((), ROOT_USER_NAMESPACE)
        pairs = [(server, client) for server in wrappers for client in wrappers] * 2
        with open_folder(host) as folder, ended() as started:
            for i, (server_wrapper, client_wrapper) in enumerate(pairs):
                server, port = start_server_of(observed(host, folder, f"server{i}"), network.server,
                                               "ibv_rc_pingpong", CHECKED, wrapper=server_wrapper)
                started.append(server)
                started.append(start_client_of(observed(host, folder, f"client{i}"), network.client,
                                               "ibv_rc_pingpong", CHECKED, port, network.server,
                                               wrapper=client_wrapper))
            for server, client in zip(started[::2], started[1::2]):
                check_pair("ibv_rc_pingpong", server, client,
                           wait_for_pair(host, server, client, self.timeout))
            expect_ways(folder, **{f"{end}{i}": SHM for i in range(len(pairs))
                                   for end in ("server", "client")})
        return ""


@dataclasses.dataclass(frozen=True)
class NoUserNumber(Case):
    """In a user namespace that has no number for the user, all users look the same: an error."""

    def run(self, host, network):
        need_programs("rping")
        status, output = host.run(network.server.namespace, [
            *UNMAPPED, "rping", "-s", "-a", network.server.addresses[4]])
        return check_output(1 if status else 0, output, 1, (
            r"registry: this user namespace numbers user \d+ as it does users who aren't mapped",))


# What ibv_rc_pingpong and we say of it.
TOO_MANY = "Too many open files|Couldn't connect to|"
TOO_MANY += "Couldn't listen to port|accept\\(\\) failed|pipe for|Couldn't get"
# A founder of the registry that has no descriptor left for others.
TOO_MANY += "|did not finish within 1 s"


@dataclasses.dataclass(frozen=True)
class FewDescriptors(Case):
    """One end or both under each limit of open files: either a clear error or all data, and by UDP
    only because descriptors are missing."""
    server: bool = False
    client: bool = False

    def run(self, host, network):
        ways, failures = set(), []
        for limit in range(14, 34):
            try:
                ways |= self._try(host, network, limit)
            except CaseFailed as failure:  # it depends on the limit, so all that fail are told
                failures.append(f"limit {limit}: {failure}")
        expect(not failures, "\n".join(failures))
        expect(SHM in ways, f"no limit was enough: {ways}")
        expect(ways <= {SHM, udp("peer_declines"), udp("no_memory")}, f"{ways}")
        expect(len(ways) > 1, "no limit was too tight for a ring, and enough for UDP")
        return ", ".join(sorted(f"{way} {why}".strip() for way, why in ways))

    def _try(self, host, network, limit):
        """The ways of both ends; none: they couldn't begin."""
        tight = ("sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh")
        with open_folder(host) as folder:
            try:
                server, port = start_server_of(observed(host, folder, "server"), network.server,
                                               "ibv_rc_pingpong", CHECKED,
                                               wrapper=tight if self.server else ())
            except CaseFailed as failure:
                if not self.server or not re.search(TOO_MANY, str(failure)):
                    raise
                return set()
            with ended(server) as started:
                client = start_client_of(observed(host, folder, "client"), network.client,
                                         "ibv_rc_pingpong", CHECKED, port, network.server,
                                         wrapper=tight if self.client else ())
                started.append(client)
                statuses = wait_for_pair(host, server, client, 20)
                if any(statuses):
                    expect(re.search(TOO_MANY, server.output() + client.output()), f"{statuses}")
                    return set()
                check_pair("ibv_rc_pingpong", server, client, statuses)
            return ways_in(f"{folder}/server.json") | ways_in(f"{folder}/client.json")


# ---------------------------------------------------------------- the table

BUBBLE = ("bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-user", "--unshare-pid",
          "--uid", "1000", "--die-with-parent", "--")
# The same user has another number in each. With their own, the tests' user nobody couldn't be told
# from users without a number.
OTHER_USER_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--")
ROOT_USER_NAMESPACE = ("unshare", "--user", "--map-root-user", "--")
UNMAPPED = ("unshare", "--user", "--")


def choices():
    for service in ("rc", "uc"):
        yield Way(LO, f"ways/shm/{service}", f"ibv_{service}_pingpong",
                  CHECKED if service == "rc" else ("-n", "20"), quick=True)
    yield Way(LO, "ways/shm/ipv6", family=6)
    yield Way(LO, "ways/wire-udp", server=udp("settings"), client=udp("settings"),
              server_options=("--wire", "udp"), client_options=("--wire", "udp"))
    yield Way(LO, "ways/peer-by-udp", server=udp("settings"), client=udp("peer_declines"),
              server_options=("--wire", "udp"))
    yield Way(LO, "ways/capture", server=udp("peer_declines"), client=udp("capture"),
              client_options=("--pcap", "{folder}/out.pcapng"))
    yield Way(LO, "ways/faults", server=udp("faults"), client=udp("peer_declines"),
              server_options=("--faults", "delay=10us"))
    yield Way(VETHS[0], "ways/other-host", server=udp("other_host"), client=udp("other_host"))
    writes = ("-n", "100", "-s", "65536")
    yield TracedWay(LO, "ways/trace-shm", "ib_write_bw", writes)
    yield TracedWay(LO, "ways/trace-udp", "ib_write_bw", writes, client=udp("peer_declines"),
                    server_options=("--wire", "udp"))
    yield ConnectedWay(LO, "ways/rdma_cm")
    yield StatCounts(LO, "ways/stat")


@dataclasses.dataclass(frozen=True)
class ByDefault(Case):
    """A case with the wire that programs have by default, whatever the others are tested with."""
    case: Case = None

    def run(self, host, network):
        return self.case.run(host.with_wire("auto"), network)


def all_cases():
    for case in table():
        yield ByDefault(case.topology, case.label, case=case, quick=case.quick, timeout=case.timeout)


def table():
    yield from choices()
    yield NoUdp(LO, "ways/wire-shm/no-udp-port")
    yield ConnectedWay(LO, "ways/wire-shm/rdma_cm", options=("--wire", "shm"))
    yield Refused(LO, "ways/wire-shm/peer-by-udp", "udp", "the peer declines .*")
    yield Refused(VETHS[0], "ways/wire-shm/other-host", "auto", "it is not an address of this host")
    for option, value in (("--pcap", "out"), ("--faults", "drop=1%")):
        yield Tool(LO, f"ways/wire-shm/{option[2:]}",
                   arguments("run", "--wire", "shm", option, value, "--", "true"),
                   (rf"{option}\): capture and faults take the network, which .*--wire shm\) rules "
                    "out; use --wire auto or udp",), 2)
    for label, case in (
            ("rc_pingpong", Way(LO, "", "ibv_rc_pingpong")),
            ("ib_write_bw", Way(LO, "", "ib_write_bw", ("-n", "100", "-s", "65536"))),
            ("rping", ConnectedWay(LO, ""))):
        yield from beside_a_holder(label, case)
    for label, case in (
            ("ud_pingpong", Pair(LO, "", "ibv_ud_pingpong", ("-n", "20"))),
            ("rstream", stream(LO, 4, "rstream", "", "-S", "2000", "-I", "10", "-C", "10")),
            ("ucx-rc", Ucx(LO, "", "rc_v", "tag_lat")), ("ucx-ud", Ucx(LO, "", "ud_v", "tag_bw"))):
        yield PortTaken(LO, f"ways/port-taken/any/{label}", case=case)
    yield PortTakenHere(VETHS[0], "ways/port-taken/other-host")
    yield Injected(LO, "ways/injected")
    yield Namesake(LO, "ways/namesake")
    yield LoopbackGoes(VETHS[0], "ways/loopback-goes")
    yield OtherUser(VETHS[0], "ways/other-user")
    yield ConnectedWay(LO, "ways/user-namespace/rdma_cm", client_wrapper=OTHER_USER_NAMESPACE)
    yield Way(LO, "ways/user-namespace/rc_pingpong", server_wrapper=OTHER_USER_NAMESPACE)
    yield AcrossUserNamespaces(LO, "ways/user-namespace/root")
    yield NoUserNumber(LO, "ways/user-namespace/unmapped")
    yield ConnectedWay(LO, "ways/bubblewrap/rdma_cm", client_wrapper=BUBBLE, needs=("bwrap",))
    yield Way(LO, "ways/bubblewrap/rc_pingpong", client_wrapper=BUBBLE, needs=("bwrap",))
    yield SameAddressElsewhere(LO, "ways/same-address-elsewhere")
    for label, server, client in (("server", True, False), ("client", False, True),
                                  ("both", True, True)):
        yield FewDescriptors(LO, f"ways/few-descriptors/{label}", server=server, client=client,
                             timeout=120)
