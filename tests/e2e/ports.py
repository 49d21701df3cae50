"""Interfaces that go down, come up, and change their addresses under running programs."""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import time

from cases import Case, check_pair, compiled, next_tcp_port, start_pair, wait_for_pair
from connections import run_client, wait_for_line
from network import Topology
from programs import CaseFailed, need_programs, tail

LINK = Topology("link", mtu=1500)  # nobody else's: it breaks
SPARE = "10.99.0.77"
SECOND = "10.99.0.78"


def set_link(end, state):
    end.namespace.run("ip", "link", "set", interface(end), state)


def change_address(end, verb, address):
    end.namespace.run("ip", "addr", verb, f"{address}/24", "dev", interface(end))


def interface(end):
    return end.device.removeprefix("vb_")


def mend(network):
    """As it was, whatever a case that failed has left."""
    for end in (network.server, network.client):
        set_link(end, "up")
        end.namespace.run("ip", "link", "set", interface(end), "mtu", str(LINK.mtu))
    for address in (SPARE, SECOND):
        try:
            change_address(network.server, "del", address)
        except RuntimeError:
            pass  # it isn't there


def wait_for_lines(host, process, pattern, count):
    """Until it has said so that often."""
    wait_for_line(host, process, rf"(?s)(?:{pattern}.*){{{count}}}")


@dataclasses.dataclass(frozen=True)
class Watched(Case):
    """A program that watches its port, and a body that does things to it."""

    def command(self, host, end):
        raise NotImplementedError

    def body(self, host, network, watcher):
        raise NotImplementedError

    def run(self, host, network):
        need_programs("stdbuf")
        end = network.server
        watcher = host.start(end.namespace, ["stdbuf", "-oL", *self.command(host, end)])
        try:
            self.body(host, network, watcher)
            if watcher.poll() is not None:
                raise CaseFailed(f"it ended with {watcher.poll()}")
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(watcher)}") from None
        finally:
            watcher.kill()
            mend(network)
        return ""


@dataclasses.dataclass(frozen=True)
class Asyncwatch(Watched):
    """The stock program, which prints the names of events."""

    def command(self, host, end):
        need_programs("ibv_asyncwatch")
        return ["ibv_asyncwatch", "-d", end.device]

    def body(self, host, network, watcher):
        own, peer = network.server, network.client
        wait_for_line(host, watcher, f"^{own.device}: async event FD")
        set_link(own, "down")
        wait_for_line(host, watcher, "IBV_EVENT_PORT_ERR")
        set_link(own, "up")
        wait_for_line(host, watcher, "IBV_EVENT_PORT_ACTIVE")
        # The carrier is the peer's.
        set_link(peer, "down")
        wait_for_lines(host, watcher, "IBV_EVENT_PORT_ERR", 2)
        set_link(peer, "up")
        wait_for_lines(host, watcher, "IBV_EVENT_PORT_ACTIVE", 2)
        told = len(re.findall("IBV_EVENT_GID_CHANGE", watcher.output()))
        change_address(own, "add", SPARE)
        wait_for_lines(host, watcher, "IBV_EVENT_GID_CHANGE", told + 1)
        change_address(own, "del", SPARE)
        wait_for_lines(host, watcher, "IBV_EVENT_GID_CHANGE", told + 2)


@dataclasses.dataclass(frozen=True)
class Queries(Watched):
    """After an event the queries tell what is: see programs/port.c."""

    def command(self, host, end):
        need_programs("cc")
        program = os.path.join(host.logs, "port")
        source = pathlib.Path(__file__).parent / "programs" / "port.c"
        subprocess.run(["cc", "-O2", "-o", program, str(source), "-libverbs"], check=True)
        os.chmod(program, 0o755)
        return [program, end.device]

    def body(self, host, network, watcher):
        own = network.server
        address = re.escape(own.addresses[4])
        spare = re.escape(SPARE)
        wait_for_line(host, watcher, f"^start: active, mtu 1024, gids .*{address}")
        change_address(own, "add", SPARE)
        wait_for_line(host, watcher, f"GID table change: active, .*{address} {spare}$")
        # It leaves a hole, and comes back to its place.
        change_address(own, "add", SECOND)
        change_address(own, "del", SPARE)
        wait_for_line(host, watcher, rf"GID table change: active, .*{address} - 10\.99\.0\.78$")
        change_address(own, "add", SPARE)
        wait_for_line(host, watcher, rf"GID table change: active, .*{address} {spare} 10\.99\.0\.78$")
        own.namespace.run("ip", "link", "set", interface(own), "mtu", "9000")
        set_link(own, "down")
        wait_for_line(host, watcher, f"port error: down, mtu 4096, gids .*{address}")
        set_link(own, "up")
        wait_for_line(host, watcher, f"port active: active, mtu 4096, gids .*{address}")


@dataclasses.dataclass(frozen=True)
class MissedNews(Queries):
    """More changes than the kernel keeps for a process that doesn't read them: it asks anew."""
    changes: int = 2000

    def body(self, host, network, watcher):
        own = network.server
        spare = re.escape(SPARE)
        wait_for_line(host, watcher, "^start: active")
        os.kill(watcher.pid, signal.SIGSTOP)
        try:
            flutter = "".join(f"addr {verb} 10.98.0.1/24 dev {interface(own)}\n"
                              for _ in range(self.changes) for verb in ("add", "del"))
            own.namespace.run("ip", "-batch", "-", input=flutter)
            change_address(own, "add", SPARE)
            drops = sum(int(line.split()[8]) for line in own.namespace.proc_net("netlink"))
            if drops == 0:
                raise CaseFailed(f"{self.changes} changes were too few: nothing was dropped")
        finally:
            os.kill(watcher.pid, signal.SIGCONT)
        wait_for_line(host, watcher, f"GID table change: active, .*{spare}")
        change_address(own, "del", SPARE)


@dataclasses.dataclass(frozen=True)
class Removed(Watched):
    """An interface that is taken away is the end of its device."""

    def command(self, host, end):
        need_programs("ibv_asyncwatch")
        end.namespace.run("ip", "link", "add", "gone0", "type", "veth", "peer", "name", "gone1")
        end.namespace.run("ip", "addr", "add", "10.98.0.1/24", "dev", "gone0")
        for name in ("gone0", "gone1"):
            end.namespace.run("ip", "link", "set", name, "up")
        return ["ibv_asyncwatch", "-d", "vb_gone0"]

    def body(self, host, network, watcher):
        wait_for_line(host, watcher, "^vb_gone0: async event FD")
        network.server.namespace.run("ip", "link", "del", "gone0")
        wait_for_line(host, watcher, "IBV_EVENT_DEVICE_FATAL")


@dataclasses.dataclass(frozen=True)
class SharedMac(Case):
    """librdmacm tells our devices apart by their GUIDs alone; interfaces may have the same MAC, as
    VLANs have."""

    def run(self, host, network):
        end = network.server
        end.namespace.run("ip", "link", "add", "twin0", "address", "02:00:00:00:00:77", "type", "veth",
                          "peer", "name", "twin1", "address", "02:00:00:00:00:77")
        try:
            for i in (0, 1):
                end.namespace.run("ip", "addr", "add", f"10.98.{i}.1/24", "dev", f"twin{i}")
                end.namespace.run("ip", "link", "set", f"twin{i}", "up")
            program = compiled(host, "bound_devices", "-libverbs", "-lrdmacm")
            status, output = host.run(end.namespace, [program, "10.98.0.1", "10.98.1.1"])
        finally:
            end.namespace.run("ip", "link", "del", "twin0")
        if status != 0 or output != "10.98.0.1 vb_twin0\n10.98.1.1 vb_twin1\n":
            raise CaseFailed(f"exit status {status}:\n{output}")
        return ""


@dataclasses.dataclass(frozen=True)
class LateAddress(Case):
    """An address that comes later is open to who is reached everywhere."""

    def run(self, host, network):
        own = network.server
        program = host.start(own.namespace, self.command(host, own))
        try:
            self.wait_until_up(host, network, program)
            change_address(own, "add", SPARE)
            self.check(host, network, program)
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(program)}") from None
        finally:
            program.kill()
            own.namespace.run("sh", "-c", f"ip addr del {SPARE}/24 dev {interface(own)} || :")
        return ""


@dataclasses.dataclass(frozen=True)
class LateForDatagrams(LateAddress):
    def command(self, host, end):
        return [compiled(host, "late_address", "-libverbs"), end.device, SPARE]

    def wait_until_up(self, host, network, program):
        wait_for_line(host, program, "^ready$")

    def check(self, host, network, program):
        if program.wait(host.deadline(20)) != 0:
            raise CaseFailed(f"it ended with {program.poll()}")
        if f"received from {SPARE}" not in program.output():
            raise CaseFailed("nothing came from the new address")


@dataclasses.dataclass(frozen=True)
class LateForListener(LateAddress):
    port: int = dataclasses.field(default_factory=next_tcp_port)

    def command(self, host, end):
        need_programs("rping")
        return ["rping", "-s", "-P", "-a", "0.0.0.0", "-p", str(self.port)]

    def wait_until_up(self, host, network, program):
        self._connect(host, network, program, network.server.addresses[4])

    def check(self, host, network, program):
        self._connect(host, network, program, SPARE)

    def _connect(self, host, network, program, address):
        run_client(host, network, program,
                   ["rping", "-c", "-V", "-C", "3", "-a", address, "-p", str(self.port)],
                   host.deadline(20))


@dataclasses.dataclass(frozen=True)
class Flap(Case):
    """The link fails for a moment under a connection: what was sent is sent again."""

    def run(self, host, network):
        need_programs("ibv_rc_pingpong")
        server = client = None
        try:
            server, client = start_pair(host, network, "ibv_rc_pingpong", ("-c", "-n", "20000"), 4)
            wait_for_traffic(host, network.server)
            for _ in range(3):
                set_link(network.server, "down")
                set_link(network.server, "up")
            if client.poll() is not None:
                raise CaseFailed("it was over before the link failed")
            return check_pair("ibv_rc_pingpong", server, client,
                              wait_for_pair(host, server, client, self.timeout))
        except CaseFailed as failure:
            logs = "\n".join(tail(p) for p in (server, client) if p)
            raise CaseFailed(f"{failure}\n{logs}") from None
        finally:
            for process in (server, client):
                if process:
                    process.kill()


def packets_received(end):
    for line in end.namespace.proc_net("dev"):
        name, _, numbers = line.partition(":")
        if name.strip() == interface(end):
            return int(numbers.split()[1])
    raise CaseFailed(f"{interface(end)} is not in /proc/net/dev")


def wait_for_traffic(host, end, packets=1000):
    limit = host.deadline(10)
    goal = packets_received(end) + packets
    while packets_received(end) < goal:
        if time.monotonic() > limit:
            raise CaseFailed(f"fewer than {packets} packets in 10 s")
        time.sleep(0.01)


def all_cases():
    return [
        Asyncwatch(LINK, "events/asyncwatch", quick=True),
        Queries(LINK, "events/queries", quick=True),
        MissedNews(LINK, "events/missed-news"),
        Removed(LINK, "events/interface-removed"),
        SharedMac(LINK, "rdma_cm/shared-mac", quick=True),
        LateForDatagrams(LINK, "events/late-address-datagrams", quick=True),
        LateForListener(LINK, "events/late-address-listener", quick=True),
        Flap(LINK, "events/pingpong-while-the-link-fails"),
    ]
