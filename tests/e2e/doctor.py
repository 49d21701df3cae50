"""`verbena doctor`: each fault is made, and named; after the command that it prints, it is gone."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from cases import LO, WAITING_LO, WAITING_VETH, Case, check_output, compiled, start_pair
from connections import wait_for_line
from network import Namespace, run_checked
from observing import expect
from programs import CaseFailed, CaseSkipped, need_programs


# ---------------------------------------------------------------- reading what it says

def findings_in(output):
    """{id: finding}; of several with one id, the worst."""
    try:
        report = json.loads(output[output.index("{\n"):])
    except ValueError as error:
        raise CaseFailed(f"verbena doctor --json: {error}\n{output}") from None
    rank = ("ok", "warn", "fail")
    found = {}
    for finding in report["findings"]:
        known = found.get(finding["id"])
        if known is None or rank.index(finding["verdict"]) > rank.index(known["verdict"]):
            found[finding["id"]] = finding
    for verdict, count in (("fail", "failures"), ("warn", "warnings")):
        expect(report[count] == sum(f["verdict"] == verdict for f in report["findings"]),
               f"{count} is not their number: {report}")
    return found


def examine(host, namespace, *words, wrapper=(), **kwargs):
    """The findings; the exit status says whether something failed."""
    status, output = host.run(namespace, [*wrapper, host.verbena, "doctor", "--json", *words],
                              preload=False, timeout=30, **kwargs)
    found = findings_in(output)
    failed = sorted(name for name, f in found.items() if f["verdict"] == "fail")
    expect(status == (1 if failed else 0), f"exit status {status}, failed: {failed}")
    return found


def check_named(found, name, verdict, seen):
    finding = found.get(name)
    expect(finding, f"nothing is said of {name}: {sorted(found)}")
    expect(finding["verdict"] == verdict and re.search(seen, finding["seen"]),
           f"{name}: not {verdict} with /{seen}/: {json.dumps(finding, indent=2)}")
    if verdict != "ok":
        expect(finding["why"], f"it doesn't say why: {finding}")
    return finding


def commands_of(finding):
    expect(finding["mend"], f"no command: {finding}")
    return [mend["command"] for mend in finding["mend"]]


def check_gone(found, name):
    expect(found[name]["verdict"] == "ok", f"{name} is still there: {found[name]}")


# ---------------------------------------------------------------- one machine

@dataclasses.dataclass(frozen=True)
class Healthy(Case):
    """No check fails, in JSON and in words, in UTF-8 and without."""

    def run(self, host, network):
        namespace = network.server.namespace
        found = examine(host, namespace)
        failed = {name: f for name, f in found.items() if f["verdict"] == "fail"}
        expect(not failed, f"failed: {failed}")
        check_named(found, "same-host", "ok", "by shared memory")
        check_named(found, "port-4791", "ok", "free")
        status, words = host.run(namespace, [host.verbena, "doctor"], preload=False)
        check_output(status, words, 0, (r"^ok devices +ours: .*vb_lo", r"^0 failures, "))
        expect(words.isascii(), f"not ASCII: {words}")
        status, words = host.run(namespace, [host.verbena, "doctor"], preload=False,
                                 env={"LC_ALL": "C.UTF-8"})
        return check_output(status, words, 0, (r"^✓ +devices +ours: .*vb_lo",))


@dataclasses.dataclass(frozen=True)
class InShell(Case):
    """A fault of a shell: the shell makes it, the doctor names it, the shell runs the command."""
    fault: str = ""
    finding: str = ""
    verdict: str = "fail"
    seen: str = ""
    # False: the command needs more than this shell may do.
    mends: bool = True
    inside: tuple = ()  # what to run the shell with: unshare …
    prepare: object = None
    other: str = ""  # HOST

    def run(self, host, network):
        with host.scratch() as folder:
            if self.prepare:
                self.prepare(host, folder)
            first = self._shell(host, network, folder, "")
            finding = check_named(first, self.finding, self.verdict, self.seen)
            if self.mends:
                mend = "\n".join(commands_of(finding))
                check_gone(self._shell(host, network, folder, mend), self.finding)
            self._check_strict(host, network, folder)
            return ""

    def _run(self, host, network, folder, command):
        script = f"cd {folder}\nPATH={host.prefix}/bin:$PATH\n{self.fault}\n{command}"
        status, output = host.run(network.server.namespace,
                                  [*self.inside, "bash", "-uc", script], preload=False, timeout=30)
        if self.inside and output.startswith(self.inside[0]):
            raise CaseSkipped(output.strip())
        return status, output

    def _shell(self, host, network, folder, mend):
        return findings_in(self._run(host, network, folder, f"{mend}\nverbena doctor --json {self.other}")[1])

    def _check_strict(self, host, network, folder):
        if self.verdict == "warn":
            status, _ = self._run(host, network, folder, "verbena doctor --strict > /dev/null")
            expect(status == 1, f"--strict ends with {status}")


def plant_elf(name, machine=62, kind=2):
    """A 64-bit x86 header, unless told otherwise."""
    def plant(host, folder):
        del host
        header = bytes([0x7F, 0x45, 0x4C, 0x46, kind, 1, 1]) + bytes(9)
        header += (3).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(60)
        path = pathlib.Path(folder, name)
        path.write_bytes(header)
        path.chmod(0o755)
    return plant


def second_verbena(host, folder):
    shutil.copytree(f"{host.prefix}/lib/verbena", f"{folder}/other", symlinks=True)


def verbena_alone(host, folder):
    """The program without its library."""
    os.mkdir(f"{folder}/bin")
    shutil.copy(host.verbena, f"{folder}/bin/verbena")
    os.chmod(f"{folder}/bin/verbena", 0o755)


def older_library(host, folder):
    """Another build's library beside the program."""
    verbena_alone(host, folder)
    version = run_checked([host.verbena, "--version"]).split()[-1].encode()
    shutil.copytree(f"{host.prefix}/lib/verbena", f"{folder}/lib/verbena", symlinks=True)
    library = pathlib.Path(folder, "lib/verbena/libibverbs.so.1").resolve()
    library.write_bytes(library.read_bytes().replace(version + b"\0", b"0.0.0\0"))


NAMESPACES = ("unshare", "-Urnm")
PLANT_HARDWARE = """
ip link set lo up
mount -t tmpfs none /sys/class
mkdir -p /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs
"""


def shell_cases():
    yield InShell(LO, "doctor/preload-missing", "export LD_PRELOAD=/no/such.so", "preload",
                  seen=r"/no/such\.so \(No such file")
    yield InShell(LO, "doctor/preload-missing-beside-another",
                  "export LD_PRELOAD=libm.so.6:/no/such.so", "preload", seen=r"/no/such\.so")
    yield InShell(LO, "doctor/preload-missing-verbena",
                  "export LD_PRELOAD=/no/verbena/libibverbs.so.1", "preload", seen="No such file")
    yield InShell(LO, "doctor/preload-other-processor",
                  "export LD_PRELOAD=$PWD/arm.so", "preload", seen="ELF machine 183",
                  prepare=plant_elf("arm.so", machine=183))
    yield InShell(LO, "doctor/preload-32-bit", "export LD_PRELOAD=$PWD/i386.so", "preload",
                  seen="32-bit", prepare=plant_elf("i386.so", machine=3, kind=1))
    yield InShell(LO, "doctor/preload-no-library", "echo text > x.so; export LD_PRELOAD=$PWD/x.so",
                  "preload", seen="no shared library")
    yield InShell(LO, "doctor/preload-other-verbena",
                  "export LD_PRELOAD=$PWD/other/libibverbs.so.1", "preload", "warn",
                  "not this Verbena's", prepare=second_verbena)
    yield InShell(LO, "doctor/no-library", "PATH=$PWD/bin:$PATH", "library",
                  seen="build or install Verbena again", mends=False, prepare=verbena_alone)
    yield InShell(LO, "doctor/older-library", "PATH=$PWD/bin:$PATH", "library",
                  seen=r"verbena [\d.]+, and its library verbena 0\.0\.0", mends=False,
                  prepare=older_library)
    yield InShell(LO, "doctor/wrong-variable", "export VERBENA_NO_SUCH=1", "variables",
                  seen="VERBENA_NO_SUCH")
    yield InShell(LO, "doctor/faults", "export VERBENA_FAULTS=drop=5%", "variables", "warn",
                  "VERBENA_FAULTS=drop=5%")
    yield InShell(LO, "doctor/open-files", "ulimit -S -n 200", "open-files", "warn", "200")
    yield InShell(LO, "doctor/no-user-namespace",
                  "ip link set lo up; echo 0 > /proc/sys/user/max_user_namespaces", "namespaces",
                  "warn", "No space left", inside=NAMESPACES)
    yield InShell(LO, "doctor/no-active-port", "", "devices", seen="no device has an active port",
                  inside=NAMESPACES)
    yield InShell(LO, "doctor/small-interface",
                  "ip link set lo up; ip link add small0 type veth peer name small1; "
                  "ip link set small0 mtu 600 up; ip link set small1 up; "
                  "ip addr add 10.97.0.1/24 dev small0", "mtu", "warn",
                  "vb_small0: packets carry 512 bytes", inside=NAMESPACES)
    yield InShell(LO, "doctor/no-module", PLANT_HARDWARE, "modules", seen="mlx5_0.*uverbs.*rdma_cm",
                  mends=False, inside=NAMESPACES)
    yield InShell(LO, "doctor/memlock", PLANT_HARDWARE + "ulimit -S -l 64", "memlock", "warn",
                  "64 KiB; mlx5_0 pins", mends=False, inside=NAMESPACES)
    yield InShell(LO, "doctor/no-device-on-the-route", PLANT_HARDWARE + """
ip link add full0 type veth peer name full1
ip link set full0 up
ip link set full1 up
ip addr add 10.97.0.1/24 dev full0
ip neigh add 10.97.0.2 lladdr 02:00:00:00:00:01 dev full0
echo full0 > /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0
""", "host-4791", seen=r"leave from 10\.97\.0\.1, where no device is", mends=False,
                  inside=NAMESPACES, other="10.97.0.2")


HOLD_PORT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 4791))
print("ready", flush=True)
sys.stdin.read()
"""


@dataclasses.dataclass(frozen=True)
class PortTaken(Case):
    """The doctor names the program; the command that it prints ends it."""

    def run(self, host, network):
        namespace = network.server.namespace
        holder = subprocess.Popen(host.as_user(namespace) + ["python3", "-c", HOLD_PORT],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            expect(holder.stdout.readline() == b"ready\n", "the holder doesn't start")
            finding = check_named(examine(host, namespace), "port-4791", "fail",
                                  rf"vb_lo at 127\.0\.0\.1: .*python3 \(pid {holder.pid}\)")
            command, = commands_of(finding)
            host.run(namespace, ["sh", "-c", command], preload=False)
            holder.wait(timeout=10)
        finally:
            holder.kill()
            holder.communicate()
        check_gone(examine(host, namespace), "port-4791")


@dataclasses.dataclass(frozen=True)
class SmallBuffers(Case):
    """A UDP socket gets the default buffer, as where net.core.rmem_max or wmem_max isn't larger. The
    command would change the whole machine."""
    setting: str = ""
    option: str = ""

    def run(self, host, network):
        program = compiled(host, "refuse_call")
        found = examine(host, network.server.namespace, wrapper=(program, self.option, "--"))
        finding = check_named(found, self.setting, "warn", rf"net.core.{self.setting}_max allows .* of "
                                                           "the 4 MiB")
        expect(commands_of(finding) == [f"sysctl -w net.core.{self.setting}_max=4194304"]
               and finding["mend"][0]["root"], f"{finding}")


@dataclasses.dataclass(frozen=True)
class NoRings(Case):
    """A seccomp filter forbids what rings need."""
    call: str = ""
    verdict: str = ""
    seen: str = ""

    def run(self, host, network):
        need_programs("cc")
        program = compiled(host, "refuse_call")
        found = examine(host, network.server.namespace, wrapper=(program, self.call, "--"))
        finding = check_named(found, "same-host", self.verdict, self.seen)
        expect("seccomp=unconfined" in commands_of(finding)[0], f"{finding}")


@dataclasses.dataclass(frozen=True)
class DamagedPackets(Case):
    """Running programs drop packets whose ICRC is wrong."""

    def run(self, host, network):
        need_programs("ibv_rc_pingpong")
        namespace = network.server.namespace
        pair = start_pair(host.with_options("--wire", "udp", "--faults", "seed=1,corrupt=5%"),
                          network, "ibv_rc_pingpong", ("-n", "100000000"), 4)
        try:
            limit = host.deadline(20)
            while True:
                finding = examine(host, namespace)["traffic"]
                if finding["verdict"] == "warn":
                    return check_named({"traffic": finding}, "traffic", "warn", "ICRC is wrong") and ""
                expect(time.monotonic() < limit, f"it isn't noticed: {finding}")
        finally:
            for process in pair:
                process.kill()


@dataclasses.dataclass(frozen=True)
class StoppedProgram(Case):
    """The command that it prints lets the program go on."""

    def run(self, host, network):
        need_programs("rping")
        namespace = network.server.namespace
        server = host.start(namespace, ["rping", "-s", "-P", "-a", "127.0.0.1", "-p", "20999"])
        try:
            limit = host.deadline(10)
            while not re.search("^1 of your", examine(host, namespace)["traffic"]["seen"]):
                expect(time.monotonic() < limit, "rping doesn't use a device")
            host.run(namespace, ["kill", "-STOP", str(server.pid)], preload=False)
            finding = check_named(examine(host, namespace), "traffic", "warn", "rping .*stopped")
            host.run(namespace, ["sh", "-c", commands_of(finding)[0]], preload=False)
            check_gone(examine(host, namespace), "traffic")
        finally:
            server.kill()


@dataclasses.dataclass(frozen=True)
class MissingRdmaCore(Case):
    """The system's librdmacm can't be loaded."""

    def run(self, host, network):
        listed = run_checked(["/sbin/ldconfig", "-p"])
        files = set(re.findall(r"librdmacm\.so\.1 .*=> (\S+)", listed))
        if not files:
            raise CaseSkipped("librdmacm is not installed")
        cover = "; ".join(f"mount --bind /dev/null {os.path.realpath(file)}" for file in files)
        script = f"{cover}; ip link set lo up; {host.verbena} doctor --json"
        _, output = host.run(network.server.namespace, ["unshare", "-Urnm", "sh", "-c", script],
                             preload=False)
        if "unshare:" in output:
            raise CaseSkipped(output.strip())
        finding = check_named(findings_in(output), "rdma-core", "warn", r"librdmacm\.so\.1")
        expect(commands_of(finding) == ["apt-get install --reinstall librdmacm1"], f"{finding}")


@dataclasses.dataclass(frozen=True)
class Gpu(Case):
    """A driver of our own making: one GPU, a driver that fails, and one that crashes."""
    made: str = ""
    verdict: str = ""
    seen: str = ""

    def run(self, host, network):
        need_programs("cc")
        source = pathlib.Path(__file__).parent / "programs" / "made_up_cuda.c"
        with host.scratch() as folder:
            os.chmod(folder, 0o755)
            subprocess.run(["cc", "-shared", "-fPIC", f"-D{self.made}", "-o",
                            f"{folder}/libcuda.so.1", str(source)], check=True)
            os.chmod(f"{folder}/libcuda.so.1", 0o755)
            found = examine(host, network.server.namespace, env={"LD_LIBRARY_PATH": folder})
        check_named(found, "gpu", self.verdict, self.seen)


# ---------------------------------------------------------------- two hosts

@contextlib.contextmanager
def listener_on(host, namespace):
    """`verbena doctor --listen`, ready."""
    process = host.start(namespace, [host.verbena, "doctor", "--listen"], preload=False)
    try:
        wait_for_line(host, process, "ready")
        yield process
    finally:
        process.kill()


@contextlib.contextmanager
def rules_of(program, namespace, rules):
    """A file for nft, or the arguments of iptables."""
    if program != "nft":
        try:
            namespace.run(program, *rules.split())
        except RuntimeError as error:  # newer kernels may lack it
            raise CaseSkipped(str(error)) from None
    else:
        namespace.run("nft", "-f", "-", input=rules)
    try:
        yield
    finally:
        namespace.run(*((program, "-F") if program != "nft" else ("nft", "flush", "ruleset")))


def as_root(host, namespace):
    """What root's doctor says there of the firewall."""
    argv = namespace.enter() + [host.verbena, "doctor", "--json"]
    output = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    return findings_in(output)["firewall"]


@dataclasses.dataclass(frozen=True)
class HealthyWay(Case):
    """To a host with a listener, over IPv4 and IPv6, and to one with any other program."""

    def run(self, host, network):
        left, right = network.server, network.client
        with listener_on(host, right.namespace):
            for family in (4, 6):
                found = examine(host, left.namespace, right.addresses[family])
                for name in ("host-4791", "nat", "host-mtu", "host-data"):
                    check_named(found, name, "ok", ".")
                check_named(found, "host-data", "ok", r"came back by RDMA \(udp\)")
        server = host.start(right.namespace, ["rping", "-s", "-P", "-a", right.addresses[4]])
        try:
            limit = host.deadline(10)
            while not any(":12B7" in line.split()[1] for line in right.namespace.proc_net("udp")):
                expect(time.monotonic() < limit, "rping has no socket")
                time.sleep(0.02)
            found = examine(host, left.namespace, right.addresses[4])
            check_named(found, "host-4791", "ok", "answers")
            check_named(found, "host-mtu", "ok", "arrive")
        finally:
            server.kill()


@dataclasses.dataclass(frozen=True)
class NobodyThere(Case):
    """The port is closed: after the command on the other host, it is open."""

    def run(self, host, network):
        left, right = network.server, network.client
        found = examine(host, left.namespace, right.addresses[4])
        finding = check_named(found, "host-4791", "fail", "closed")
        expect(commands_of(finding) == ["verbena doctor --listen"]
               and finding["mend"][0]["where"] == right.addresses[4], f"{finding}")
        with listener_on(host, right.namespace):
            check_gone(examine(host, left.namespace, right.addresses[4]), "host-4791")


@dataclasses.dataclass(frozen=True)
class NoHost(Case):
    """No such name, no route, no such host."""

    def run(self, host, network):
        left = network.server.namespace
        for target, name, seen in (("no-such-host.invalid", "host", "no-such-host"),
                                   ("fe80::1", "host", "needs the name of its interface"),
                                   ("192.0.2.77", "host", "no route.*unreachable"),
                                   ("10.99.0.77", "host-4791", "no host answers at 10.99.0.77")):
            check_named(examine(host, left, target), name, "fail", seen)
        self._check_route(host, network)

    @staticmethod
    def _check_route(host, network):
        """After the command, the host is found."""
        left, right = network.server.namespace, network.client.namespace
        command, = commands_of(examine(host, left, "192.0.2.77")["host"])
        right.run("ip", "addr", "add", "192.0.2.77/32", "dev", "right")
        try:
            with listener_on(host, right):
                left.run("sh", "-c", command.replace("GATEWAY", "10.99.0.2"))
                check_gone(examine(host, left, "192.0.2.77"), "host-4791")
        finally:
            right.run("ip", "addr", "del", "192.0.2.77/32", "dev", "right")
            left.run("ip", "route", "del", "192.0.2.77")


DROP_IN = "table inet f {{\nchain input {{\ntype filter hook input priority 0; {}\n}}\n}}\n"
DROP_OUT = "table inet f {{\nchain output {{\ntype filter hook output priority 0; {}\n}}\n}}\n"


@dataclasses.dataclass(frozen=True)
class Firewall(Case):
    """The doctor with HOST infers it; root's doctor where it is names the chain; after its command
    both find nothing."""
    rules: str = ""
    here: bool = False  # on our side, not on HOST
    program: str = "nft"
    seen: str = ""
    chain: str = ""

    def run(self, host, network):
        left, right = network.server, network.client
        place = (left if self.here else right).namespace
        need_programs(self.program)
        with listener_on(host, right.namespace), rules_of(self.program, place, self.rules):
            found = examine(host, left.namespace, right.addresses[4])
            finding = check_named(found, "host-4791", "fail", self.seen)
            mend, = finding["mend"]
            expect(mend["command"] == "verbena doctor" and mend["root"] and
                   mend["where"] == ("here" if self.here else right.addresses[4]), f"{finding}")
            named = as_root(host, place)
            check_named({"firewall": named}, "firewall", "fail", self.chain)
            for command in commands_of(named):
                place.run("sh", "-c", command)
            check_gone({"firewall": as_root(host, place)}, "firewall")
            check_gone(examine(host, left.namespace, right.addresses[4]), "host-4791")


@contextlib.contextmanager
def routed(mtu_of_second=1500):
    """left - middle - right: two cables, and a router that we own."""
    left, middle, right = ends = [Namespace() for _ in range(3)]
    try:
        for end, name, address, gateway in ((left, "left", "10.1.0", 2), (right, "right", "10.2.0", 2)):
            middle.run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", name,
                       "netns", str(end.pid))
            middle.run("ip", "addr", "add", f"{address}.{gateway}/24", "dev", f"to-{name}")
            end.run("ip", "addr", "add", f"{address}.1/24", "dev", name)
            for side, interface in ((end, name), (middle, f"to-{name}")):
                side.run("ip", "link", "set", interface, "up")
            end.run("ip", "route", "add", "default", "via", f"{address}.{gateway}")
        middle.run("sysctl", "-w", "net.ipv4.ip_forward=1")
        for end, name in ((left, "left"), (right, "right")):  # packets, not batches of them
            end.run("ethtool", "-K", name, "tx-udp-segmentation", "off", "gso", "off")
        for side, interface in ((right, "right"), (middle, "to-right")):
            side.run("ip", "link", "set", interface, "mtu", str(mtu_of_second))
        yield left, middle, right
    finally:
        for end in ends:
            end.close()


@dataclasses.dataclass(frozen=True)
class SmallHop(Case):
    """A link on the way carries less than our interface: a router says so, or big packets vanish."""
    says_so: bool = True

    def run(self, host, network):
        del network
        need_programs("nft")
        with routed(1000 if self.says_so else 1500) as (left, middle, right):
            if not self.says_so:
                middle.run("nft", "-f", "-", input="""table ip f {
                    chain forward {
                      type filter hook forward priority 0; meta length > 1000 drop
                    }
                  }""")
            with listener_on(host, right):
                found = examine(host, left, "10.2.0.1")
                seen = r"packets of 1108 .* carries 1000" if self.says_so else r"packets of 1108 bytes"
                finding = check_named(found, "host-mtu", "fail", seen)
                command, = commands_of(finding)
                left.run("sh", "-c", command)
                found = examine(host, left, "10.2.0.1")
                check_gone(found, "host-mtu")
                check_gone(found, "host-data")


@dataclasses.dataclass(frozen=True)
class Nat(Case):
    """The router rewrites our address; after the command there, it leaves our packets alone."""
    def run(self, host, network):
        del network
        need_programs("nft")
        with routed() as (left, middle, right):
            middle.run("nft", "-f", "-", input="""table ip nat {
                  chain postrouting {
                    type nat hook postrouting priority srcnat; oifname "to-right" masquerade
                  }
                }""")
            with listener_on(host, right):
                finding = check_named(examine(host, left, "10.2.0.1"), "nat", "fail",
                                      r"our address is 10\.1\.0\.1, and 10\.2\.0\.1 sees 10\.2\.0\.2")
                command, = commands_of(finding)
                middle.run("sh", "-c", command)
                found = examine(host, left, "10.2.0.1")
                check_gone(found, "nat")
                check_gone(found, "host-4791")


@dataclasses.dataclass(frozen=True)
class ListenerStays(Case):
    """Strangers' bytes don't end the listener; its port can't be had twice."""

    def run(self, host, network):
        namespace = network.server.namespace
        with listener_on(host, namespace):
            host.run(namespace, ["python3", "-c", """
import os, socket
for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
    for _ in range(50):
        s = socket.socket(socket.AF_INET, kind)
        s.connect(("127.0.0.1", 4792))
        s.send(os.urandom(2000))
        s.close()
"""], preload=False)
            status, output = host.run(namespace, [host.verbena, "doctor", "--listen"], preload=False)
            check_output(status, output, 1, ("TCP port 4792: Address already in use",))
            check_gone(examine(host, namespace, "127.0.0.1"), "host-data")


def all_cases():
    port = "a firewall|vanish"
    return [
        Healthy(LO, "doctor/healthy", quick=True),
        *shell_cases(),
        PortTaken(LO, "doctor/port-taken"),
        SmallBuffers(LO, "doctor/rmem", setting="rmem", option="rcvbuf"),
        SmallBuffers(LO, "doctor/wmem", setting="wmem", option="sndbuf"),
        NoRings(LO, "doctor/no-memfd", call="memfd_create", verdict="fail",
                seen="can't exchange.*refuses memfd_create.*seccomp filter is on"),
        NoRings(LO, "doctor/no-seal", call="seal", verdict="warn",
                seen="by UDP.*refuses sealing.*seccomp filter is on"),
        DamagedPackets(LO, "doctor/damaged-packets", wire="udp"),
        StoppedProgram(LO, "doctor/stopped-program"),
        MissingRdmaCore(LO, "doctor/no-librdmacm"),
        Gpu(LO, "doctor/gpu", made="ONE_GPU", verdict="ok",
            seen="1 of NVIDIA: Made Up 100; this Verbena registers their memory"),
        Gpu(LO, "doctor/gpu-fails", made="FAILS", verdict="warn", seen="cuInit fails with 999"),
        Gpu(LO, "doctor/gpu-crashes", made="CRASHES", verdict="warn", seen="crashes"),
        ListenerStays(LO, "doctor/listener-stays"),
        HealthyWay(WAITING_VETH, "doctor/healthy-way"),
        NobodyThere(WAITING_VETH, "doctor/nobody-there"),
        NoHost(WAITING_VETH, "doctor/no-host"),
        Firewall(WAITING_VETH, "doctor/firewall-drops-there", DROP_IN.format("udp dport 4791 drop"),
                 seen="vanish, and the host itself answers", chain="inet f input"),
        Firewall(WAITING_VETH, "doctor/firewall-policy-there",
                 DROP_IN.format("policy drop; ct state established,related accept; iif lo accept; "
                                "tcp dport { 22, 4792 } accept; meta l4proto ipv6-icmp accept;"),
                 seen=port, chain="the policy of nft chain inet f input"),
        Firewall(WAITING_VETH, "doctor/firewall-rejects-there",
                 DROP_IN.format("udp dport 4791 reject with icmpx admin-prohibited"),
                 seen="a firewall rejects", chain="inet f input"),
        Firewall(WAITING_VETH, "doctor/firewall-refuses-there", DROP_IN.format("udp dport 4791 reject"),
                 seen="a firewall rejects", chain="inet f input"),
        Firewall(WAITING_VETH, "doctor/firewall-drops-here", DROP_IN.format("udp dport 4791 drop"), here=True,
                 seen="gets our packets, and its answers don't arrive", chain="inet f input"),
        Firewall(WAITING_VETH, "doctor/firewall-holds-back-here", DROP_OUT.format("udp dport 4791 drop"),
                 here=True, seen="holds packets to .* back", chain="inet f output"),
        Firewall(WAITING_VETH, "doctor/firewall-of-iptables", "-A INPUT -p udp --dport 4791 -j REJECT",
                 program="iptables-legacy", seen="a firewall rejects",
                 chain="a rule of iptables-legacy chain INPUT"),
        SmallHop(WAITING_LO, "doctor/small-hop"),
        SmallHop(WAITING_LO, "doctor/small-hop-without-icmp", says_so=False),
        Nat(WAITING_LO, "doctor/nat"),
    ]
