"""Connections of rdma_cm that are many, that are cut short, and what is left of them."""

import dataclasses
import gzip
import os
import pathlib
import re
import shlex
import shutil
import signal
import tempfile
import time

from cases import LO, VETHS, Case, MIB, compiled, next_tcp_port
from connections import REFUSED, expect_in, run_client, start_server, wait_for_line
from programs import CaseFailed, CaseSkipped, need_programs, tail

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def build_connections(host):
    return compiled(host, "connections", "-lrdmacm", "-libverbs")


@dataclasses.dataclass(frozen=True)
class WithServer(Case):
    """`serve` starts it; the body is given it."""

    def serve(self, host, network, port):
        raise NotImplementedError

    def body(self, host, network, port, server):
        raise NotImplementedError

    def run(self, host, network):
        port = next_tcp_port()
        server = start_server(host, network, self.serve(host, network, port))
        try:
            return self.body(host, network, port, server)
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()


# ---------------------------------------------------------------- many

@dataclasses.dataclass(frozen=True)
class Churn(WithServer):
    """A thousand connections at once, forty times over, by one pair of processes. Nothing grows:
    after some seconds, as many leave time-wait as come. Fast machines need the many rounds."""
    rounds: int = 40
    count: int = 1000

    def serve(self, host, network, port):
        return self._argv(host, network, port, "serve")

    def _argv(self, host, network, port, role):
        return [build_connections(host), role, network.server.addresses[4], str(port),
                str(self.rounds), str(self.count)]

    def body(self, host, network, port, server):
        wait_for_line(host, server, "^listening")
        deadline = host.deadline(self.timeout)
        client = run_client(host, network, server, self._argv(host, network, port, "connect"),
                            deadline)
        if server.wait(deadline) != 0:
            raise CaseFailed(f"the server ended with {server.poll()}")
        rates = [self._check_growth(process) for process in (server, client)]
        return f"{min(rates):.0f} connections/s"

    def _check_growth(self, process):
        """Returns the median rate."""
        total = self.rounds * self.count
        expect_in(process, (rf"^end: {total} closed, 0 broken",))
        lines = re.findall(r"rate (\d+)/s, rss (\d+) KiB, fds (\d+)", process.output())
        rates, resident, descriptors = ([int(line[i]) for line in lines] for i in range(3))
        if descriptors[-1] > descriptors[0]:
            raise CaseFailed("more and more descriptors\n" + tail(process))
        # In the first half there is more and more in time-wait, some seconds of each.
        if resident[-1] - resident[self.rounds // 2 - 1] > 2 * MIB // 1024:
            raise CaseFailed("more and more memory\n" + tail(process))
        return sorted(rates)[len(rates) // 2]


@dataclasses.dataclass(frozen=True)
class Cmtime(WithServer):
    count: int = 1000

    def serve(self, host, network, port):
        need_programs("cmtime")
        return ["cmtime", "-b", network.server.addresses[4], "-p", str(port)]

    def body(self, host, network, port, server):
        """The server never ends, by design. The client says 0 even if all were refused."""
        argv = ["cmtime", "-s", network.server.addresses[4], "-p", str(port), "-c", str(self.count)]
        deadline = host.deadline(self.timeout)
        while True:
            client = run_client(host, network, server, argv, deadline)
            total = re.search(r"^disconnect *: *([\d.]+)", client.output(), re.M)
            if total and float(total.group(1)) > 0:
                return f"connect: {connect_milliseconds(client):.0f} ms for {self.count}"
            if time.monotonic() > deadline:
                raise CaseFailed("it never disconnected anything\n" + tail(client))


def connect_milliseconds(client):
    return float(re.search(r"^connect *: *([\d.]+)", client.output(), re.M).group(1))


# ---------------------------------------------------------------- cut short

def rping_server(network, port):
    return ["rping", "-s", "-P", "-a", network.server.addresses[4], "-p", str(port)]


def rping_client(network, port):
    return ["rping", "-c", "-V", "-C", "3", "-a", network.server.addresses[4], "-p", str(port)]


@dataclasses.dataclass(frozen=True)
class ListenerKilled(WithServer):
    """Its port is free at once, and until somebody takes it connections are refused: by any NIC
    that the address has, here the client's own."""

    def serve(self, host, network, port):
        need_programs("rping")
        return rping_server(network, port)

    def body(self, host, network, port, server):
        deadline = host.deadline(self.timeout)
        run_client(host, network, server, rping_client(network, port), deadline)
        server.kill()
        status, output = host.run(network.client.namespace, rping_client(network, port))
        if status == 0 or not REFUSED.search(output):
            raise CaseFailed(f"a client of nobody ended with {status}:\n{output}")
        heir = start_server(host, network, rping_server(network, port))
        try:
            run_client(host, network, heir, rping_client(network, port), deadline)
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\nThe next server:\n{tail(heir)}") from None
        finally:
            heir.kill()
        return ""


@dataclasses.dataclass(frozen=True)
class ClientVanishes(WithServer):
    """Killed between its request and the third message: others are served as if nothing was."""

    def serve(self, host, network, port):
        return self._argv(host, network, port, "serve", "2", "20")

    @staticmethod
    def _argv(host, network, port, role, *counts):
        return [build_connections(host), role, network.server.addresses[4], str(port), *counts]

    def body(self, host, network, port, server):
        wait_for_line(host, server, "^listening")
        for _ in range(5):
            status, output = host.run(network.client.namespace,
                                      self._argv(host, network, port, "vanish"))
            if status != -signal.SIGKILL:
                raise CaseFailed(f"it should have killed itself, but ended with {status}:\n{output}")
        deadline = host.deadline(self.timeout)
        client = run_client(host, network, server,
                            self._argv(host, network, port, "connect", "2", "20"), deadline)
        expect_in(client, (r"^end: 40 closed, 0 broken",))
        if server.wait(deadline) != 0:
            raise CaseFailed(f"the server ended with {server.poll()}")
        return ""


@dataclasses.dataclass(frozen=True)
class Rejected(WithServer):
    """A server that says no, and why."""

    def serve(self, host, network, port):
        return self._argv(host, network, port, "serve")

    @staticmethod
    def _argv(host, network, port, role):
        return [compiled(host, "reject", "-lrdmacm", "-libverbs"), role,
                network.server.addresses[4], str(port)]

    def body(self, host, network, port, server):
        deadline = host.deadline(self.timeout)
        while True:
            status, output = host.run(network.client.namespace,
                                      self._argv(host, network, port, "connect"))
            early = re.search(r"REJECTED, status 8\b", output)  # nobody listens yet
            if not early or server.poll() is not None or time.monotonic() > deadline:
                break
        wanted = 'RDMA_CM_EVENT_REJECTED, status 28, private data "no, and this is why'
        if status != 0 or wanted not in output:
            raise CaseFailed(f"the client ended with {status}:\n{output}")
        if server.wait(deadline) != 0:
            raise CaseFailed(f"the server ended with {server.poll()}")
        return ""


@dataclasses.dataclass(frozen=True)
class Stopped(WithServer):
    """A process that is stopped (SIGSTOP) keeps nobody else on its address from connecting."""

    def serve(self, host, network, port):
        need_programs("rping")
        return rping_server(network, port)

    def body(self, host, network, port, server):
        deadline = host.deadline(self.timeout)
        run_client(host, network, server, rping_client(network, port), deadline)
        os.kill(server.pid, signal.SIGSTOP)
        other_port = next_tcp_port()
        other = start_server(host, network, rping_server(network, other_port))
        try:
            for _ in range(3):
                run_client(host, network, other, rping_client(network, other_port), deadline)
        finally:
            other.kill()
        os.kill(server.pid, signal.SIGCONT)
        run_client(host, network, server, rping_client(network, port), deadline)
        return ""


@dataclasses.dataclass(frozen=True)
class ManyClients(WithServer):
    """One client after the other. Each closes its event channel while a thread of its own waits
    on it, and ends with an error if that thread hears of it."""
    count: int = 300

    def serve(self, host, network, port):
        need_programs("rping")
        return rping_server(network, port)

    def body(self, host, network, port, server):
        client = shlex.join(rping_client(network, port))
        loop = f"for i in $(seq {self.count}); do {client} || exit 1; done"
        run_client(host, network, server, ["sh", "-c", loop], host.deadline(self.timeout))
        return f"{self.count} clients"


# ---------------------------------------------------------------- files and suites

@dataclasses.dataclass(frozen=True)
class Copy(WithServer):
    """rcopy: a file of some MiB arrives as it was."""
    size: int = 5 * MIB + 123

    def serve(self, host, network, port):
        need_programs("rcopy")
        return ["rcopy", "-p", str(port)]

    def body(self, host, network, port, server):
        source = pathlib.Path(host.logs) / f"rcopy.{port}"
        target = pathlib.Path(host.temporary) / f"rcopy.{port}"
        source.write_bytes(os.urandom(self.size))
        try:
            run_client(host, network, server,
                       ["rcopy", str(source), f"{network.server.addresses[4]}:{target}", "-p",
                        str(port)], host.deadline(self.timeout))
            if target.read_bytes() != source.read_bytes():
                raise CaseFailed(f"what arrived is not the file: {target.stat().st_size} bytes")
        finally:
            source.unlink()
            target.unlink(missing_ok=True)
        return ""


@dataclasses.dataclass(frozen=True)
class Pyverbs(Case):
    """rdma-core's own tests, as Debian's python3-pyverbs brings them."""
    module: str = ""
    count: int = 0

    def run(self, host, network):
        suite = pathlib.Path("/usr/share/doc/rdma-core/tests")
        if not suite.is_dir():
            raise CaseSkipped("python3-pyverbs is not installed")
        end = network.server
        with tempfile.TemporaryDirectory(dir=host.logs) as folder:
            unpack(suite, pathlib.Path(folder) / "tests")
            os.chmod(folder, 0o755)
            argv = ["/usr/bin/python3", "-B", self._runner(folder), folder, end.addresses[4],
                    "--dev", end.device, "--gid", str(host.gid_index(end, 4)), "--port", "1", "-v",
                    self.module]
            status, output = host.run(end.namespace, argv, timeout=self.timeout)
        passed = len(re.findall(r"\.\.\. ok$", output, re.M))
        if status != 0 or passed != self.count:
            raise CaseFailed(f"{passed} of {self.count} passed, exit status {status}:\n{output}")
        return f"{passed} passed"

    @staticmethod
    def _runner(folder):
        return shutil.copy(PROGRAMS / "pyverbs_tests.py", folder)


def unpack(suite, folder):
    folder.mkdir(mode=0o755)
    for path in suite.iterdir():
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        (folder / path.name.removesuffix(".gz")).write_bytes(data)


def all_cases():
    return [
        Churn(LO, "rdma_cm/churn", timeout=240),
        Cmtime(LO, "rdma_cm/cmtime"),
        ListenerKilled(LO, "rdma_cm/listener-killed", quick=True),
        ClientVanishes(LO, "rdma_cm/client-vanishes", quick=True),
        Rejected(LO, "rdma_cm/rejected", quick=True),
        Rejected(VETHS[0], "rdma_cm/rejected"),
        Stopped(LO, "rdma_cm/stopped-neighbour", quick=True),
        ManyClients(LO, "rdma_cm/many-clients"),
        Copy(LO, "rdma_cm/rcopy", quick=True),
        Copy(VETHS[0], "rdma_cm/rcopy"),
        Pyverbs(LO, "rdma_cm/pyverbs", "test_rdmacm", 10),
    ]
