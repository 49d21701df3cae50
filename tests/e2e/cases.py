"""The table: which stock programs run where, and what their output must say."""

import dataclasses
import itertools
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import threading

import kill
from network import Topology
from programs import CaseFailed, CaseSkipped, need_programs, tail

# ---------------------------------------------------------------- topologies

LO = Topology("lo")
LO_LOSS = Topology("lo-loss", loss=True)
VETHS = [Topology(f"veth{mtu}", mtu=mtu) for mtu in (1500, 9000)]
# At 1500 single packets are lost, at 9000 whole batches.
VETH_LOSSES = [Topology(f"veth{mtu}-loss", mtu=mtu, loss=True, offloads=mtu == 9000)
               for mtu in (1500, 9000)]
WAITING_LO = Topology("lo-waiting", waits=True)
WAITING_VETH = Topology("veth-waiting", mtu=1500, waits=True)

PERFTEST = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat")
KIB, MIB = 1 << 10, 1 << 20

_tcp_ports = itertools.count(21000)
_compiling = threading.Lock()  # cases run side by side


def next_tcp_port():
    return next(_tcp_ports)


# ---------------------------------------------------------------- kinds of cases

@dataclasses.dataclass(frozen=True)
class Case:
    topology: Topology
    label: str
    quick: bool = dataclasses.field(default=False, kw_only=True)
    timeout: float = dataclasses.field(default=60, kw_only=True)
    # VERBENA_WIRE, for a case of one wire alone. `run.py --wire` leaves such a case out.
    wire: str = dataclasses.field(default="", kw_only=True)

    @property
    def name(self):
        return f"{self.topology.name}/{self.label}"

    def run(self, host, network):
        """Returns a few words for the report; raises CaseFailed or CaseSkipped."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Pair(Case):
    """A server, and a client that gets the server's address as last argument."""
    program: str = ""
    arguments: tuple = ()
    family: int = 4
    leaves: tuple = ()  # files that the program itself leaves behind
    # The receive buffers that sockets have on most machines, whatever this one allows.
    default_buffers: bool = dataclasses.field(default=False, kw_only=True)

    def run(self, host, network):
        need_programs(self.program)
        for path in self.leaves:
            make_way(host, path)
        server = client = None
        wrapper = (compiled(host, "default_buffers"),) if self.default_buffers else ()
        try:
            server, client = start_pair(host, network, self.program, self.arguments, self.family,
                                        wrapper)
            return check_pair(self.program, server, client,
                              wait_for_pair(host, server, client, self.timeout))
        except CaseFailed as failure:
            logs = "\n".join(tail(p) for p in (server, client) if p)
            raise CaseFailed(f"{failure}\n{logs}") from None
        finally:
            for process in (server, client):
                if process:
                    process.kill()
            for path in self.leaves:
                pathlib.Path(path).unlink(missing_ok=True)


def make_way(host, path):
    """The program wants this very file; one that another user left there is in its way."""
    try:
        if os.stat(path).st_uid != host.uid():
            os.unlink(path)
    except FileNotFoundError:
        pass
    except PermissionError:
        raise CaseSkipped(f"{path} is another user's: remove it") from None


def compiled(host, name, *libraries):
    """The path of a program of ours, made when it is needed first."""
    need_programs("cc")
    source = pathlib.Path(__file__).parent / "programs" / f"{name}.c"
    program = os.path.join(host.logs, name)
    with _compiling:
        if not os.path.exists(program):
            subprocess.run(["cc", "-O2", "-o", program, str(source), *libraries], check=True)
            os.chmod(program, 0o755)
    return program


def start_pair(host, network, program, arguments, family, wrapper=()):
    """(server, client), the client started as soon as the server listens."""
    port = next_tcp_port()
    server = host.start(network.server.namespace,
                        [*wrapper, *pair_argv(host, network.server, program, arguments, family,
                                              port)])
    try:
        host.wait_listening(network.server.namespace, port, server)
        # The programs' own TCP connection speaks IPv4, whatever the GIDs are.
        argv = pair_argv(host, network.client, program, arguments, family, port)
        argv.append(network.server.addresses[4])
        return server, host.start(network.client.namespace, [*wrapper, *argv])
    except BaseException:
        server.kill()
        raise


def wait_for_pair(host, server, client, timeout):
    """The exit statuses (client, server). A server whose client has failed may wait for ever."""
    deadline = host.deadline(timeout)
    status = client.wait(deadline)
    if status != 0:
        deadline = min(deadline, host.deadline(3))
        try:
            server.wait(deadline)
        except CaseFailed:
            pass  # the client's failure is the news
        return status, server.poll()
    return status, server.wait(deadline)


def is_pingpong(program):
    return program.endswith("_pingpong")


def pair_argv(host, end, program, arguments, family, port):
    argv = [program, "-d", end.device, "-p", str(port), *arguments]
    if is_pingpong(program):
        argv += ["-g", str(host.gid_index(end, family))]
    elif family == 6:  # perftest finds the IPv4 GID by itself
        argv += ["-x", str(host.gid_index(end, family))]
    return argv


ERROR_LINE = re.compile(r"completion with error|failed status|invalid data|couldn't|unable to", re.I)
PINGPONG_RESULT = re.compile(r"(\d+) iters in [\d.]+ seconds = ([\d.]+) usec/iter")
XSRQ_RESULT = re.compile(r"^success$", re.M)
# "#bytes #iterations peak average MsgRate" and "#bytes #iterations t_min t_max t_typical …"
PERFTEST_RESULT = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", re.M)


def check_pair(program, server, client, statuses):
    if statuses != (0, 0):
        raise CaseFailed(f"client ended with {statuses[0]}, server with {statuses[1]}")
    for process in (server, client):
        bad = ERROR_LINE.search(process.output())
        if bad:
            raise CaseFailed(f"it says \"{bad.group(0)}\"")
    pattern = (XSRQ_RESULT if program == "ibv_xsrq_pingpong" else
               PINGPONG_RESULT if is_pingpong(program) else PERFTEST_RESULT)
    result = pattern.search(client.output())
    if not result:
        raise CaseFailed("no result line in the client's output")
    if pattern is XSRQ_RESULT:
        return ""
    if is_pingpong(program):
        return f"{result.group(2)} us/iteration"
    if program.endswith("_bw"):
        return f"{result.group(4)} MB/s"
    return f"{result.group(5)} us typical"


@dataclasses.dataclass(frozen=True)
class Output(Case):
    """A program that ends by itself, and what its output must and must not contain."""
    command: tuple = ()
    expect: tuple = ()  # regular expressions
    status: int = 0

    def run(self, host, network):
        need_programs(self.command[0])
        status, output = host.run(network.server.namespace, self.command)
        return check_output(status, output, self.status, self.expect)


def check_output(status, output, expected_status, expect):
    quoted = "\n".join("    | " + line for line in output.splitlines()[-20:])
    if status != expected_status:
        raise CaseFailed(f"exit status {status} instead of {expected_status}\n{quoted}")
    for pattern in expect:
        if not re.search(pattern, output, re.M | re.I):
            raise CaseFailed(f"nothing matches /{pattern}/ in\n{quoted}")
    return ""


@dataclasses.dataclass(frozen=True)
class Tool(Case):
    """`verbena` itself. `prepare(folder)` makes a file and returns arguments."""
    prepare: object = None
    expect: tuple = ()
    status: int = 0
    env: tuple = ()

    def run(self, host, network):
        with tempfile.TemporaryDirectory(dir=host.logs) as folder:
            os.chmod(folder, 0o755)
            argv = [host.verbena, *self.prepare(folder)]
            status, output = host.run(network.server.namespace, argv, preload=False,
                                      env=dict(self.env))
        return check_output(status, output, self.status, self.expect)


@dataclasses.dataclass(frozen=True)
class Pairs(Case):
    """All at once, each with its data checked."""
    count: int = 8

    def run(self, host, network):
        need_programs("ibv_rc_pingpong")
        pairs = []
        try:
            for _ in range(self.count):
                pairs.append(start_pair(host, network, "ibv_rc_pingpong",
                                        ("-e", "-c", "-n", "2000"), 4))
            for server, client in pairs:
                check_pair("ibv_rc_pingpong", server, client,
                           wait_for_pair(host, server, client, self.timeout))
        except CaseFailed as failure:
            logs = "\n".join(tail(p, 5) for pair in pairs for p in pair)
            raise CaseFailed(f"{failure}\n{logs}") from None
        finally:
            for pair in pairs:
                for process in pair:
                    process.kill()
        return ""


@dataclasses.dataclass(frozen=True)
class Incast(Case):
    """Sixteen sender processes to one, at the default receive buffer: see programs/incast.c."""
    kind: str = ""
    size: int = 0

    def run(self, host, network):
        program = compiled(host, "incast", "-libverbs")
        command = (program, "-d", network.server.device, "-m", "16", self.kind, str(self.size))
        status, output = host.run(network.server.namespace, command, timeout=self.timeout)
        check_output(status, output, 0, (r"\bratio\b",))
        return "goodput " + re.search(r"ratio [\d.]+", output).group(0) + " to one sender's"


@dataclasses.dataclass(frozen=True)
class KillOne(Case):
    def run(self, host, network):
        return kill.run(host, network, start_pair, check_pair)


# ---------------------------------------------------------------- programs to refuse

def copy_of(program, folder):
    path = os.path.join(folder, "program")
    shutil.copyfile(shutil.which(program), path)
    os.chmod(path, 0o755)
    return path


def setuid_program(folder):
    path = copy_of("true", folder)
    os.chmod(path, 0o4755)
    if not os.stat(path).st_mode & stat.S_ISUID:
        raise CaseSkipped("this file system keeps no setuid bit")
    return "run", "--", path


def capable_program(folder):
    path = copy_of("true", folder)
    # struct vfs_cap_data, revision 2: CAP_NET_RAW permitted and effective.
    value = bytes([1, 0, 0, 2, 0, 0x20, 0, 0]) + bytes(12)
    try:
        os.setxattr(path, "security.capability", value)
    except OSError as error:
        raise CaseSkipped(f"file capabilities can't be set here: {error}") from None
    return "run", "--", path


def static_program(folder):
    del folder
    for path in ("/bin/busybox", "/sbin/ldconfig.real", "/sbin/ldconfig"):
        if not os.access(path, os.X_OK):
            continue
        start = pathlib.Path(path).read_bytes()[:4096]
        if start.startswith(b"\x7fELF") and b"/ld-linux" not in start:
            return "run", "--", path, "--version"
    raise CaseSkipped("no static program at hand (busybox-static has one)")


def script(folder):
    path = os.path.join(folder, "program")
    pathlib.Path(path).write_text('#!/bin/sh\nibv_devices\nexit 7\n')
    os.chmod(path, 0o755)
    return "run", "--", path


def arguments(*words):
    return lambda folder: words


# ---------------------------------------------------------------- the table

def tool_cases():
    yield Tool(LO, "tool/devices", arguments("devices"), (r"^vb_lo +verbena", r"RoCE v2"), quick=True)
    yield Tool(LO, "tool/run-refuses-setuid", setuid_program, ("setuid",), 126, quick=True)
    yield Tool(LO, "tool/run-refuses-capabilities", capable_program, ("capabilities",), 126)
    yield Tool(LO, "tool/run-refuses-static", static_program, ("static",), 126)
    yield Tool(LO, "tool/run-no-such-program", arguments("run", "--", "no-such-program"),
               ("no such program",), 127)
    yield Tool(LO, "tool/run-script", script, ("vb_lo",), 7)
    yield Tool(LO, "tool/run-unknown-variable", arguments("run", "--", "ibv_devices"),
               ("VERBENA_NO_SUCH", "VERBENA_ONLY="), 2, (("VERBENA_NO_SUCH", "1"),))


def device_cases():
    yield Output(LO, "ibv_devices", ("ibv_devices",), (r"^ *vb_lo\b",), quick=True)
    yield Output(LO, "ibv_devinfo", ("ibv_devinfo", "-v", "-d", "vb_lo"),
                 (r"hca_id:\s*vb_lo", r"state:\s*PORT_ACTIVE", r"link_layer:\s*Ethernet",
                  r"active_mtu:\s*4096", r"GID\[.*127\.0\.0\.1.*RoCE v2"), quick=True)
    for topology, mtu in zip(VETHS, (1024, 4096)):
        yield Output(topology, "ibv_devinfo", ("ibv_devinfo", "-v", "-d", "vb_left"),
                     (r"state:\s*PORT_ACTIVE", rf"active_mtu:\s*{mtu}", r"GID\[.*10\.99\.0\.1",
                      r"GID\[.*fd99::1"))


def pingpong(topology, family, label, *extra, **kwargs):
    return Pair(topology, f"ipv{family}/rc_pingpong-{label}", "ibv_rc_pingpong", extra, family,
                **kwargs)


def pingpong_cases(topology, family, largest_mtu, thorough):
    yield pingpong(topology, family, "poll", quick=True)
    yield pingpong(topology, family, "events", "-e", "-c", quick=True)
    for mtu in (256, 512, 1024, 2048, 4096):
        if mtu <= largest_mtu and (thorough or mtu in (256, largest_mtu)):
            yield pingpong(topology, family, f"mtu-{mtu}", "-c", "-m", str(mtu), "-s", "10000",
                           "-n", "300")
    sizes = ((1, 1000), (2, 500), (4095, 500), (64 * KIB, 200), (MIB, 50), (8 * MIB, 10))
    for size, iterations in sizes:
        if thorough or size in (1, 8 * MIB):
            # rx-depth as large as needed: the default of 500 receives is fine for all.
            yield pingpong(topology, family, f"size-{size}", "-c", "-s", str(size), "-n",
                           str(iterations), quick=thorough and size in (1, 8 * MIB))


def perftest_cases(topology, family, quick=()):
    for program in PERFTEST:
        yield Pair(topology, f"ipv{family}/{program}", program, (), family, quick=program in quick,
                   timeout=120 if topology.loss else 60)


def service_pingpong(topology, family, service, label, *extra, **kwargs):
    return Pair(topology, f"ipv{family}/{service}_pingpong-{label}", f"ibv_{service}_pingpong",
                extra, family, ("/tmp/xrc_domain",) if service == "xsrq" else (), **kwargs)


def service_cases(topology, family, mtu, thorough):
    """The services beside RC, and what they share. The networks lose nothing: UC and UD would hang."""
    for service in ("uc", "ud", "srq", "xsrq"):
        # UD has no -m: its messages fit the port's MTU. A UD message and its GRH fit one page.
        message = ("-s", str(min(mtu, 2048))) if service == "ud" else ("-s", "10000", "-m", str(mtu))
        yield service_pingpong(topology, family, service, "poll", *message, quick=thorough)
        if thorough:
            yield service_pingpong(topology, family, service, "events", "-e", *message)
            yield service_pingpong(topology, family, service, "small", "-s", "1")
    for program, label, extra in service_perftests(thorough):
        files = [f"/tmp/xrc_domain_{end}" for end in ("client", "server")] if label == "xrc" else ()
        yield Pair(topology, f"ipv{family}/{program}-{label}", program, extra, family,
                   tuple(files), quick=thorough and label in ("uc", "ud", "swap", "xrc"),
                   default_buffers=label.startswith(("uc", "ud")))


def service_perftests(thorough):
    few = ("-n", "1000")
    # As they are by default: far more than fits the receive buffer.
    yield "ib_send_bw", "uc", ("-c", "UC")
    yield "ib_send_bw", "ud", ("-c", "UD")
    yield "ib_write_bw", "uc", ("-c", "UC")
    yield "ib_atomic_bw", "swap", ("-A", "CMP_AND_SWAP", *few)
    yield "ib_atomic_lat", "add", ("-A", "FETCH_AND_ADD", *few)
    if not thorough:
        return
    yield "ib_send_lat", "uc", ("-c", "UC", *few)
    yield "ib_send_lat", "ud", ("-c", "UD", *few)
    yield "ib_write_lat", "uc", ("-c", "UC", *few)
    yield "ib_atomic_bw", "add", ("-A", "FETCH_AND_ADD", *few)
    yield "ib_atomic_lat", "swap", ("-A", "CMP_AND_SWAP", *few)
    yield "ib_send_bw", "srq", ("--use-srq", "-q", "4", *few)
    yield "ib_send_bw", "xrc", ("-c", "XRC", *few)
    yield "ib_send_bw", "events", ("-e", *few)
    yield "ib_send_bw", "ud-events", ("-c", "UD", "-e")
    yield "ib_send_bw", "uc-events", ("-c", "UC", "-e")
    yield "ib_send_bw", "ud-small", ("-c", "UD", "-s", "8", "-n", "20000")
    yield "ib_send_bw", "uc-both-ways", ("-c", "UC", "-b")


def multicast_case(topology, family):
    """perftest's own group is of interface scope, and leaves no machine: others have to be named."""
    group = ("-M", "255:14:0:0:0:0:0:0:0:0:255:255:239:1:2:3" if family == 4 else
             "255:14:0:0:0:0:0:0:0:0:0:0:0:0:18:52")
    extra = ("-c", "UD", "-g", *group, "-s", "1024", "-n", "100")
    return Pair(topology, f"ipv{family}/ib_send_bw-multicast", "ib_send_bw", extra, family,
                quick=topology is LO)


def all_cases():
    cases = [*tool_cases(), *device_cases()]
    cases += pingpong_cases(LO, 4, 4096, thorough=True)
    cases += perftest_cases(LO, 4, quick=PERFTEST)
    cases += [pingpong(LO, 6, "poll", "-c"), *perftest_cases(LO, 6)]
    cases += [*service_cases(LO, 4, 4096, thorough=True), *service_cases(LO, 6, 1024, thorough=False)]
    for topology, mtu in zip(VETHS, (1024, 4096)):
        for family in (4, 6):
            cases += service_cases(topology, family, mtu, thorough=False)
    # Linux has no route for IPv6 multicast on the loopback interface.
    for topology, family in ((LO, 4), (VETHS[0], 4), (VETHS[0], 6)):
        cases.append(multicast_case(topology, family))
    for topology, largest_mtu in zip(VETHS, (1024, 4096)):
        for family in (4, 6):
            cases += pingpong_cases(topology, family, largest_mtu, thorough=False)
            cases += perftest_cases(topology, family,
                                    quick=("ib_write_bw",) if family == 4 else ())
    for topology, largest_mtu in ((LO_LOSS, 4096), (VETH_LOSSES[0], 1024), (VETH_LOSSES[1], 4096)):
        for family in (4,) if topology is LO_LOSS else (4, 6):
            cases.append(pingpong(topology, family, "poll", "-c"))
            cases.append(pingpong(topology, family, "events", "-e", "-c", "-m", str(largest_mtu)))
            cases += perftest_cases(topology, family,
                                    quick=("ib_write_bw", "ib_read_bw") if family == 4 else ())
    cases.append(Pairs(LO, "eight-pairs", quick=True))
    for kind, size in itertools.product(("send", "write", "read"), (64, 4 * KIB, 64 * KIB, MIB)):
        cases.append(Incast(LO, f"incast/{kind}-{size}", kind, size, timeout=130,
                            quick=size == 64 * KIB))
    cases.append(KillOne(WAITING_LO, "eight-pairs-one-killed", timeout=120))
    return cases
