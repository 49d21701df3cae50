"""Private networks for the cases: namespaces held by a process, a veth pair, loss by nft.

A namespace lives as long as its holder, and the holder ends when our end of its pipe closes:
nothing has to be cleaned up by name, whatever happens to this program.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import time

ROCE_PORT = 4791
# ip, nft and ethtool lie where ordinary users' PATH doesn't look.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


def run_checked(argv, **kwargs):
    result = subprocess.run(argv, capture_output=True, text=True, **kwargs)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {result.returncode}: {result.stderr.strip()}")
    return result.stdout


class Namespace:
    """A network namespace with lo up."""

    def __init__(self):
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self._holder.stdout.readline() != b"ready\n":
            reason = self._holder.communicate()[1].decode().strip()
            raise RuntimeError(f"no network namespace: {reason}")
        self.pid = self._holder.pid
        self.run("ip", "link", "set", "lo", "up")

    def enter(self):
        """What to put in front of a command."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def run(self, *argv, **kwargs):
        return run_checked(self.enter() + list(argv), **kwargs)

    def proc_net(self, name):
        """The lines of /proc/net/NAME of this namespace, without the heading."""
        return pathlib.Path(f"/proc/{self.pid}/net/{name}").read_text().splitlines()[1:]

    def listens(self, port):
        """True when a TCP socket listens on `port`."""
        for name in ("tcp", "tcp6"):
            for line in self.proc_net(name):
                local, state = line.split()[1], line.split()[3]
                if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                    return True
        return False

    def has_tcp(self, port):
        """True when there is a TCP socket with `port` on either side, in whatever state."""
        for name in ("tcp", "tcp6"):
            for line in self.proc_net(name):
                if port in (int(end.rpartition(":")[2], 16) for end in line.split()[1:3]):
                    return True
        return False

    def processes(self):
        """The other processes in this namespace."""
        own = os.readlink(f"/proc/{self.pid}/ns/net")
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.pid:
                continue
            try:
                if os.readlink(entry / "ns/net") == own and (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass  # it ended, or it is somebody else's
        return found

    def close(self):
        self._holder.stdin.close()
        self._holder.wait(timeout=10)
        self._holder.stdout.close()
        self._holder.stderr.close()


class OuterNamespace:
    """The namespace that we are in, where private ones can't be had."""

    pid = "self"

    def enter(self):
        return []

    proc_net = Namespace.proc_net
    listens = Namespace.listens
    has_tcp = Namespace.has_tcp

    def close(self):
        pass


@dataclasses.dataclass(frozen=True)
class End:
    """One side of a pair of programs."""
    namespace: object
    device: str
    addresses: dict  # 4 or 6 -> text


@dataclasses.dataclass(frozen=True)
class Topology:
    """How the two ends are joined. `mtu` None: both on 127.0.0.1 and ::1 of one namespace."""
    name: str
    mtu: int = None
    loss: bool = False
    # False: no GSO and no GRO on the pair, so that nft loses single packets. With them it
    # loses whole batches, which is the harder test.
    offloads: bool = True
    # True: its cases mostly wait, so they run beside those of other topologies.
    waits: bool = False

    @property
    def private(self):
        """True when it needs a namespace of its own."""
        return self.mtu is not None or self.loss

    def missing_tools(self):
        needed = ["unshare", "nsenter", "ip"]
        needed += ["ethtool"] if self.mtu is not None else []
        needed += ["nft"] if self.loss else []
        return [tool for tool in needed if not shutil.which(tool)]


class Network:
    """A topology that exists."""

    def __init__(self, topology, outer=False):
        self.topology = topology
        self.namespaces = []
        try:
            if outer:
                self._ends = self._build_loopback(OuterNamespace())
            elif topology.mtu is None:
                self._ends = self._build_loopback(Namespace())
            else:
                self._ends = self._build_veth()
            if topology.loss:
                for namespace in self.namespaces:
                    self._lose_packets(namespace)
        except BaseException:
            self.close()
            raise

    @property
    def server(self):
        return self._ends[0]

    @property
    def client(self):
        return self._ends[1]

    def _build_loopback(self, namespace):
        self.namespaces.append(namespace)
        end = End(namespace, "vb_lo", {4: "127.0.0.1", 6: "::1"})
        return end, end

    def _build_veth(self):
        ends = []
        for index, interface in enumerate(("left", "right"), 1):
            namespace = Namespace()
            self.namespaces.append(namespace)
            ends.append(End(namespace, f"vb_{interface}",
                            {4: f"10.99.0.{index}", 6: f"fd99::{index}"}))
        left, right = self.namespaces
        left.run("ip", "link", "add", "left", "type", "veth", "peer", "name", "right", "netns",
                 str(right.pid))
        switch = "on" if self.topology.offloads else "off"
        for namespace, interface, end in ((left, "left", ends[0]), (right, "right", ends[1])):
            # Duplicate address detection would keep the addresses unusable for a second.
            namespace.run("sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{interface}/accept_dad")
            namespace.run("ip", "link", "set", interface, "mtu", str(self.topology.mtu), "up")
            namespace.run("ip", "addr", "add", end.addresses[4] + "/24", "dev", interface)
            namespace.run("ip", "addr", "add", end.addresses[6] + "/64", "dev", interface, "nodad")
            namespace.run("ethtool", "-K", interface, "gro", switch)
            if not self.topology.offloads:
                namespace.run("ethtool", "-K", interface, "tx-udp-segmentation", "off", "gso", "off")
        for namespace in self.namespaces:
            self._wait_for_addresses(namespace)
        return tuple(ends)

    @staticmethod
    def _wait_for_addresses(namespace):
        """Until no address is tentative: devices that start later see all their GIDs."""
        deadline = time.monotonic() + 5
        while namespace.run("ip", "-6", "addr", "show", "tentative"):
            if time.monotonic() > deadline:
                raise RuntimeError("IPv6 addresses are still tentative after 5 s")
            time.sleep(0.01)

    @staticmethod
    def _lose_packets(namespace):
        """1 % of what arrives; every end does it, so both directions suffer."""
        namespace.run("nft", "-f", "-", input=f"""
            table inet loss {{
              chain arriving {{
                type filter hook input priority 0;
                udp dport {ROCE_PORT} counter
                udp dport {ROCE_PORT} numgen random mod 1000 < 10 counter drop
              }}
            }}""")

    def packets_lost(self):
        """What nft has dropped so far, and of how many; None where there is no loss."""
        if not self.topology.loss:
            return None
        arrived = lost = 0
        for namespace in self.namespaces:
            words = namespace.run("nft", "list", "table", "inet", "loss").split()
            counts = [int(words[i + 2]) for i, word in enumerate(words) if word == "counter"]
            arrived += counts[0]
            lost += counts[1]
        return lost, arrived

    def leftovers(self):
        """Sentences about what programs have left behind in the network."""
        found = []
        for namespace in self.namespaces:
            if isinstance(namespace, OuterNamespace):
                continue  # others' sockets are there too
            for pid in namespace.processes():
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"process {pid}: {command.decode(errors='replace')}")
            for name in ("udp", "udp6"):
                for line in namespace.proc_net(name):
                    port = int(line.split()[1].rpartition(":")[2], 16)
                    found.append(f"{name} socket on port {port}")
            for line in namespace.proc_net("unix"):
                fields = line.split()
                if len(fields) > 7 and "verbena" in fields[7].lower():
                    found.append(f"unix socket {fields[7]}")
        return found

    def close(self):
        for namespace in self.namespaces:
            namespace.close()
