"""The middleware that applications stand on, unmodified: UCX, libfabric, fio, QEMU, librpma, DAPL.
docs/clients.md has the commands; mpi.py and iser.py have further ones."""

import dataclasses
import json
import os
import pathlib
import re
import socket
import subprocess
import time

from cases import LO, Case, Output, check_output, compiled, next_tcp_port
from connections import wait_for_line, wait_for_udp
from network import ROCE_PORT, Topology
from programs import CaseFailed, CaseSkipped, need_programs, tail

FABRIC = Topology("fabric", mtu=9000)  # for clients that use no loopback interface


def bytes_sent(folder, device):
    """What each process sent by a device, largest first, of the files of --stats=FOLDER/stats.json:
    from the IP header to the ICRC."""
    counts = []
    for file in pathlib.Path(folder).glob("stats*.json"):
        counts += [4 * port["counters"]["port_xmit_data"]
                   for port in json.loads(file.read_text())["ports"] if port["device"] == device]
    return sorted(counts, reverse=True)


def run_pair(host, network, server_argv, client_argv, port, timeout, env=None):
    """The client's output. Both must end well."""
    server = host.start(network.server.namespace, server_argv, env=env)
    client = None
    try:
        host.wait_listening(network.server.namespace, port, server)
        deadline = host.deadline(timeout)
        client = host.start(network.client.namespace, client_argv, env=env)
        status = client.wait(deadline)
        if status != 0:
            raise CaseFailed(f"the client ended with {status}")
        if server.wait(deadline) != 0:
            raise CaseFailed(f"the server ended with {server.poll()}")
        return client.output()
    except CaseFailed as failure:
        logs = "\n".join(tail(p) for p in (server, client) if p)
        raise CaseFailed(f"{failure}\n{logs}") from None
    finally:
        for process in (server, client):
            if process:
                process.kill()


# ---------------------------------------------------------------- UCX

def need_ucx():
    """Debian's UCX 1.23 comes without its InfiniBand transports."""
    need_programs("ucx_info")
    if not any(pathlib.Path("/usr/lib").glob("*/ucx/libuct_ib.so.*")):
        raise CaseSkipped("this UCX has no InfiniBand transports (libuct_ib)")


@dataclasses.dataclass(frozen=True)
class UcxInfo(Output):
    def run(self, host, network):
        need_ucx()
        return super().run(host, network)


@dataclasses.dataclass(frozen=True)
class Ucx(Case):
    """ucx_perftest over one transport of ours and no other."""
    transport: str = ""
    test: str = ""
    size: int = 4000

    def run(self, host, network):
        need_ucx()
        port = next_tcp_port()
        # Where it was built with MPI, that leaves files behind: in /dev/shm, if not told otherwise.
        env = {"UCX_TLS": f"{self.transport},self",
               "UCX_NET_DEVICES": f"{network.server.device}:1", "OMPI_MCA_btl": "self"}
        program = ("ucx_perftest", *self._without_mpi(), "-p", str(port))
        client = (*program, "-t", self.test, "-s", str(self.size), "-n", "200", "-w", "10", "-f",
                  network.server.addresses[4])
        with host.scratch() as folder:
            env["TMPDIR"] = folder
            output = run_pair(host, network, program, client, port, self.timeout, env)
        result = re.search(r"^(?:Final:|\|)? *[\w]* +(\d+) +([\d.]+) +([\d.]+)", output, re.M)
        if not result or int(result.group(1)) < 200:
            raise CaseFailed(f"no result of 200 iterations:\n{output}")
        return f"{result.group(3)} us"

    @staticmethod
    def _without_mpi():
        """Where it was built with MPI, a program without a terminal takes itself for a rank."""
        usage = subprocess.run(["ucx_perftest", "-h"], capture_output=True, text=True, check=False)
        return ("-P", "0") if "MPI mode" in usage.stdout + usage.stderr else ()


# ---------------------------------------------------------------- fio

@dataclasses.dataclass(frozen=True)
class Fio(Case):
    """The rdma engine: the client reads or writes the server's memory, all of `size`. The server
    is whoever has rw=read. --thread: otherwise a job is a process in a session of its own."""
    verb: str = "write"

    def run(self, host, network):
        need_programs("fio")
        engines = subprocess.run(["fio", "--enghelp"], capture_output=True, text=True).stdout
        if "rdma" not in engines.split():
            raise CaseSkipped("this fio has no rdma engine")
        port = next_tcp_port()
        common = ("fio", "--ioengine=rdma", f"--port={port}", "--bs=64k", "--size=4m",
                  "--iodepth=8", "--thread", "--output-format=json")
        server = host.start(network.server.namespace, (*common, "--name=server", "--rw=read"))
        try:
            wait_for_udp(host, network, ROCE_PORT, server)
            client = (*common, "--name=client", "--rw=write", f"--verb={self.verb}",
                      f"--hostname={network.server.addresses[4]}")
            status, output = host.run(network.client.namespace, client, timeout=self.timeout)
            if status != 0:
                raise CaseFailed(f"fio ended with {status}:\n{output}")
            job = json.loads(output[output.index("{"):])["jobs"][0]
            side = job["write"]  # what it is called, whatever the verb
            if job["error"] != 0 or side["io_bytes"] != 4 << 20:
                raise CaseFailed(f"error {job['error']}, {side['io_bytes']} bytes")
            if server.wait(host.deadline(10)) != 0:
                raise CaseFailed("the server ended with " + str(server.poll()))
            return f"{side['bw'] // 1024} MiB/s"
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()


# ---------------------------------------------------------------- QEMU

class Qmp:
    """A machine's control socket."""

    def __init__(self, path, deadline):
        while True:
            self._socket = socket.socket(socket.AF_UNIX)
            try:
                self._socket.connect(path)
                break
            except OSError as error:
                self._socket.close()
                if time.monotonic() > deadline:
                    raise CaseFailed(f"{path}: {error}") from None
                time.sleep(0.02)
        self._socket.settimeout(30)
        self._lines = self._socket.makefile("r")
        self._lines.readline()  # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command, **words):
        message = {"execute": command, **({"arguments": words} if words else {})}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        while True:
            line = self._lines.readline()
            if not line:
                raise CaseFailed(f"the machine ended at {command}")
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise CaseFailed(f"{command}: {answer['error']['desc']}")

    def close(self):
        self._lines.close()
        self._socket.close()


@dataclasses.dataclass(frozen=True)
class QemuMigration(Case):
    """A small emulated machine moves to another process over RDMA, running. Its memory goes by
    RDMA WRITE, its registers by SEND."""

    def run(self, host, network):
        need_programs("qemu-system-x86_64")
        port = next_tcp_port()
        sockets = [os.path.join(host.temporary, f"{end}.qmp") for end in ("from", "to")]
        where = f"rdma:{network.server.addresses[4]}:{port}"
        machine = ("qemu-system-x86_64", "-accel", "tcg", "-m", "16", "-nodefaults", "-display",
                   "none", "-net", "none")
        processes = []
        try:
            for path, more in zip(sockets, ((), ("-incoming", where))):
                processes.append(host.start(network.server.namespace, (
                    *machine, "-qmp", f"unix:{path},server=on,wait=off", *more)))
            return self.migrate(host, sockets, where)
        except CaseFailed as failure:
            logs = "\n".join(tail(p) for p in processes)
            raise CaseFailed(f"{failure}\n{logs}") from None
        finally:
            for process in processes:
                process.kill()
            for path in sockets:
                pathlib.Path(path).unlink(missing_ok=True)

    def migrate(self, host, sockets, where):
        deadline = host.deadline(self.timeout)
        source, target = (Qmp(path, deadline) for path in sockets)
        try:
            source.ask("migrate", uri=where)
            while True:
                state = source.ask("query-migrate")
                if state.get("status") == "completed":
                    break
                if state.get("status") == "failed" or time.monotonic() > deadline:
                    raise CaseFailed(f"the migration: {state}")
                time.sleep(0.02)
            while target.ask("query-status")["status"] != "running":
                if time.monotonic() > deadline:
                    raise CaseFailed("the target doesn't run")
                time.sleep(0.02)
            if source.ask("query-status")["status"] != "postmigrate":
                raise CaseFailed("the source runs on")
            return f"{state['ram']['transferred'] >> 10} KiB in {state['total-time']} ms"
        finally:
            source.close()
            target.close()


# ---------------------------------------------------------------- librpma

@dataclasses.dataclass(frozen=True)
class Rpma(Case):
    """See programs/rpma.c. Between two addresses: librpma finds a server's device by binding to its
    address without a port, and an id that is bound to loopback has no device then."""
    SIZE = 1 << 20  # of programs/rpma.c; written, and read back

    def run(self, host, network):
        if not os.path.exists("/usr/include/librpma.h"):
            raise CaseSkipped("librpma-dev is not installed")
        program = compiled(host, "rpma", "-lrpma", "-libverbs")
        where = (network.server.addresses[4], str(next_tcp_port()))
        with host.scratch() as folder:
            counting = host.with_options(f"--stats={folder}/stats.json")
            server = counting.start(network.server.namespace, (program, "server", *where))
            try:
                wait_for_line(host, server, "listening")
                status, output = counting.run(network.client.namespace, (program, "client", *where),
                                              timeout=self.timeout)
                check_output(status, output, 0, (rf"^{self.SIZE} bytes are right$",))
                check_output(server.wait(host.deadline(10)), server.output(), 0,
                             (rf"^{self.SIZE} bytes are right$",))
            except CaseFailed as failure:
                raise CaseFailed(f"{failure}\n{tail(server)}") from None
            finally:
                server.kill()
            sent = {end.device: bytes_sent(folder, end.device)
                    for end in (network.server, network.client)}
        for device, counts in sent.items():
            if sum(counts) < self.SIZE:
                raise CaseFailed(f"{device} carried {counts} bytes, not {self.SIZE}")
        return f"{sent[network.client.device][0] >> 10} KiB"


# ---------------------------------------------------------------- DAPL

@dataclasses.dataclass(frozen=True)
class Dapl(Case):
    """dapltest moves data by SEND, RDMA WRITE and RDMA READ both ways and compares it (-V). It ends
    with 0 whatever happens, so its own account must have every byte."""
    provider: str = ""

    # What a line of dat.conf names: a library, and the interface or device that it uses.
    PROVIDERS = {"cma": ("libdaplofa.so.2", "{interface} 0"),
                 "scm": ("libdaploscm.so.2", "{device} 1")}
    ROUNDS, THREADS, ENDPOINTS = 50, 2, 2
    SIZE = 16384

    def run(self, host, network):
        need_programs("dapltest")
        with host.scratch() as folder:
            library, where = self.PROVIDERS[self.provider]
            for end in (network.server, network.client):
                where_here = where.format(interface=end.device.removeprefix("vb_"),
                                          device=end.device)
                pathlib.Path(folder, end.device).write_text(
                    f'ia u2.0 nonthreadsafe default {library} dapl.2.0 "{where_here}" ""\n')
            return self.measure(host, network, folder)

    @staticmethod
    def dapltest(end, folder, kind, *arguments):
        return {"argv": ("dapltest", "-T", kind, "-D", "ia", *arguments),
                "env": {"DAT_OVERRIDE": os.path.join(folder, end.device)}}

    def measure(self, host, network, folder):
        counting = host.with_options(f"--stats={folder}/stats.json")
        server = counting.start(network.server.namespace,
                                **self.dapltest(network.server, folder, "S"))
        try:
            wait_for_line(host, server, "Service Point Ready")
            to = ("-s", network.server.addresses[4])
            work = [word for who in ("client", "server") for kind in ("SR", "RW", "RR")
                    for word in (who, kind, str(self.SIZE))]
            request = self.dapltest(network.client, folder, "T", *to, "-V", "-i", str(self.ROUNDS),
                                    "-t", str(self.THREADS), "-w", str(self.ENDPOINTS), *work)
            status, output = counting.run(network.client.namespace, timeout=self.timeout, **request)
            self.check_account(status, output)
            status, output = host.run(network.client.namespace, timeout=self.timeout,
                                      **self.dapltest(network.client, folder, "Q", *to))
            check_output(status, output, 0, ("End of Work",))
            check_output(server.wait(host.deadline(10)), server.output(), 0,
                         ("Transaction Test Finished",))
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()
        for end in (network.server, network.client):
            sent = bytes_sent(folder, end.device)
            if sum(sent) < self.total():
                raise CaseFailed(f"{end.device} carried {sent} bytes, not {self.total()}")
        return f"{sum(sent) >> 10} KiB from the client"

    def total(self):
        """Bytes that each operation moves in all."""
        return self.ROUNDS * self.THREADS * self.ENDPOINTS * self.SIZE

    def check_account(self, status, output):
        check_output(status, output, 0, ("End of Work",))
        wrong = re.search(r"^.*(?:\berror\b|fail|could not|mismatch|unexpected|DAT_).*$", output,
                          re.M | re.I)
        if wrong:
            raise CaseFailed(f"it says \"{wrong.group(0)}\"")
        for kind in ("Send", "RDMA Read", "RDMA Write"):
            found = re.search(rf"^Total {kind} *: *([\d.]+) MB", output, re.M)
            if not found or float(found.group(1)) < self.total() / 1e6 - 0.01:
                raise CaseFailed(f"Total {kind}: not {self.total()} bytes\n{output}")


# ---------------------------------------------------------------- the table

def ucx_cases():
    yield UcxInfo(LO, "ucx/info", ("ucx_info", "-d"),
                 (r"Transport: rc_verbs\n# +Device: vb_lo:1", r"Transport: ud_verbs"), quick=True)
    for transport in ("rc_v", "ud_v"):
        for test in ("tag_lat", "tag_bw", "stream_bw", "ucp_put_bw", "ucp_get"):
            yield Ucx(LO, f"ucx/{transport}-{test}", transport, test)
        for test in ("ucp_fadd", "ucp_cswap"):
            yield Ucx(LO, f"ucx/{transport}-{test}", transport, test, 8)


def fabric_cases():
    # -n: without an address rdma_cm answers with the loopback device, which libfabric has no use for.
    for provider, kind in (("verbs", "FI_EP_MSG"), ("verbs;ofi_rxm", "FI_EP_RDM")):
        yield Output(FABRIC, f"libfabric/info-{kind.lower()}",
                     ("fi_info", "-p", provider, "-n", "10.99.0.1", "-t", kind),
                     (rf"^provider: {provider}$", r"domain: vb_left$", rf"type: {kind}$"))


def all_cases():
    return [*ucx_cases(), *fabric_cases(),
            *(Fio(LO, f"fio/{verb}", verb) for verb in ("write", "read")),
            QemuMigration(LO, "qemu/migration"),
            Rpma(FABRIC, "librpma/write-flush-read"),
            *(Dapl(FABRIC, f"dapl/{name}", name) for name in Dapl.PROVIDERS)]
