"""rdma-core's own tests of the verbs, as Debian's python3-pyverbs brings them: all that are not a
vendor's own. docs/conformance.md has the table of those that are skipped, and why."""

import collections
import contextlib
import dataclasses
import fcntl
import gzip
import os
import pathlib
import re
import shutil
import tempfile

from cases import LO, Case, Pair
from programs import CaseFailed, CaseSkipped, is_real_root, need_programs

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PROGRAMS = pathlib.Path(__file__).parent / "programs"

# The only reasons to skip. Whatever else is skipped is a capability that was lost.
NO_ROOT = "no user namespaces here"
NO_HUGE_PAGES = "no huge pages here"
REASONS = {
    NO_ROOT: r"by root on Ethernet|CAP_NET_RAW",
    NO_HUGE_PAGES: r"[Hh]uge pages",
    "no dma-buf": r"dmabuf (export )?is not supported|/dev/dri/|cuda-python",
    "no tag matching": r"^tests\.test_tag_matching\.",
    "no resizing of shared queues": r"SRQ resize is not supported",
    "no rate limits": r"^tests\.test_qp\.\S+_rate_limit_",
    "no DMA handles": r"Failed to create DMA Handle",
    "no confidential computing": r"CC PD is not supported|CC_DMA_BOUNCE",
    "no PTP clock": r"No PHC",
}


@dataclasses.dataclass(frozen=True)
class Fewest:
    """How many must pass."""
    anywhere: int
    on_huge_pages: int
    as_root: int  # with a user namespace, for raw packets

    def there(self, huge, root):
        return self.anywhere + (self.on_huge_pages if huge else 0) + (self.as_root if root else 0)


# By how many there are, for the releases of rdma-core that were tried: 44, 56, 65. With others, each
# must pass or have a reason.
FEWEST = {171: Fewest(142, 3, 11), 182: Fewest(152, 3, 11), 234: Fewest(176, 4, 12)}

# Raw packets need CAP_NET_RAW, which an ordinary user has in a namespace of his own.
DEVICE, ADDRESS = "vb_raw0", "10.77.0.1"
MAKE_NETWORK = f"""set -e
ip link set lo up
ip link add raw0 type veth peer name raw1
ip link set raw0 addrgenmode none
ip link set raw1 addrgenmode none
ip address add {ADDRESS}/24 dev raw0
ip link set raw0 up
ip link set raw1 up
exec "$@"
"""


@dataclasses.dataclass(frozen=True)
class Outcome:
    ran: int
    skipped: dict  # name: reason

    def passed(self):
        return self.ran - len(self.skipped)


@dataclasses.dataclass(frozen=True)
class Pyverbs(Case):
    """The modules of the suite that match. `fewest` must pass, and none may fail."""
    modules: str = ""
    fewest: int = 0

    def run(self, host, network):
        with unpacked(host) as suite:
            return judge(self.as_user(host, network, suite), self.fewest)

    def as_user(self, host, network, suite):
        end = network.server
        modules = sorted(p.stem for p in (suite / "tests").glob("test_*.py")
                         if re.fullmatch(self.modules, p.stem))
        argv = suite_argv(suite, end.device, end.addresses[4], host.gid_index(end, 4), modules)
        return parse(*host.run(end.namespace, argv, timeout=self.timeout))


@dataclasses.dataclass(frozen=True)
class All(Pyverbs):
    """All of them: with huge pages, if they can be had, and those that need root as the root of a
    namespace that the user makes."""

    def run(self, host, network):
        with unpacked(host) as suite, huge_pages() as huge:
            outcome = self.as_user(host, network, suite)
            root = makes_namespaces(host, network)
            if root:
                outcome = self.again_as_root(host, network, suite, outcome)
        fewest = FEWEST.get(outcome.ran, Fewest(0, 0, 0)).there(huge, root)
        lacking = {reason for reason, there in ((NO_ROOT, root), (NO_HUGE_PAGES, huge)) if not there}
        return judge(outcome, fewest, lacking)

    def again_as_root(self, host, network, suite, first):
        left = {n: r for n, r in first.skipped.items() if reason_of(n, r) != NO_ROOT}
        names = sorted(n.removeprefix("tests.") for n in first.skipped.keys() - left.keys())
        if not names:
            return first  # the user is that root already
        argv = ["unshare", "-Urn", "--", "sh", "-c", MAKE_NETWORK, "sh", host.verbena, "run", "--",
                *suite_argv(suite, DEVICE, ADDRESS, 0, names)]
        second = parse(*host.run(network.server.namespace, argv, timeout=self.timeout,
                                 preload=False))
        if second.ran != len(names):
            raise CaseFailed(f"{second.ran} ran as root, {len(names)} should")
        return Outcome(first.ran, {**left, **second.skipped})


@contextlib.contextmanager
def unpacked(host):
    """A folder with the suite in it, and our program that runs it."""
    if not SUITE.is_dir():
        raise CaseSkipped("python3-pyverbs is not installed")
    with tempfile.TemporaryDirectory(dir=host.logs) as name:
        folder = pathlib.Path(name)
        (folder / "tests").mkdir(mode=0o755)
        for path in SUITE.iterdir():
            data = path.read_bytes()
            if path.suffix == ".gz":
                data = gzip.decompress(data)
            (folder / "tests" / path.name.removesuffix(".gz")).write_bytes(data)
        shutil.copy(PROGRAMS / "pyverbs_tests.py", folder)
        os.chmod(folder, 0o755)
        yield folder


def suite_argv(suite, device, address, gid_index, names):
    return ["/usr/bin/python3", "-B", str(suite / "pyverbs_tests.py"), str(suite), address,
            "--dev", device, "--gid", str(gid_index), "--port", "1", "-v", *names]


@contextlib.contextmanager
def huge_pages(wanted=8):
    """Whether there are some: root sets a few aside for the time being where there are none."""
    setting = pathlib.Path("/proc/sys/vm/nr_hugepages")
    if not is_real_root() or not setting.exists():
        yield free_huge_pages() > 0
        return
    with setting.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of these tests would take them away again
        before = setting.read_text()
        try:
            if free_huge_pages() == 0:
                with contextlib.suppress(OSError):  # the machine's owner may forbid it, even to root
                    setting.write_text(str(int(before) + wanted))
            yield free_huge_pages() > 0
        finally:
            if setting.read_text() != before:
                setting.write_text(before)


def free_huge_pages():
    found = re.search(r"^HugePages_Free:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)
    return int(found.group(1)) if found else 0


def makes_namespaces(host, network):
    need_programs("unshare", "ip")
    status, _ = host.run(network.server.namespace, ["unshare", "-Urn", "true"], preload=False)
    return status == 0


def parse(status, output):
    ran = re.search(r"^RAN (\d+)$", output, re.M)
    if status != 0 or not ran:
        raise CaseFailed(f"exit status {status}:\n{output}")
    lines = re.findall(r"^SKIPPED (\S+): (.*)$", output, re.M)
    return Outcome(int(ran.group(1)), dict(lines))


def reason_of(name, why):
    """The first of REASONS that fits; None: none does."""
    return next((r for r, p in REASONS.items() if re.search(p, f"{name}: {why}")), None)


def judge(outcome, fewest, lacking=frozenset()):
    """`lacking` are the reasons that this machine gives."""
    skipped = collections.Counter()
    for name, why in outcome.skipped.items():
        reason = reason_of(name, why)
        if reason is None or reason in {NO_ROOT, NO_HUGE_PAGES} - lacking:
            raise CaseFailed(f"skipped, and nobody knows why: {name}: {why}")
        skipped[reason] += 1
    passed = outcome.passed()
    if passed < fewest:
        raise CaseFailed(f"{passed} passed, {fewest} should: {dict(skipped)}")
    words = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items()))
    return f"{passed} of {outcome.ran} passed" + (f"; skipped: {words}" if words else "")


def pingpong_cases():
    """The newer half of the verbs, in rdma-core's own examples."""
    options = {
        # Not -t with -e, which ends with "poll CQ failed 2" in half of its runs. As we read it, and have
        # not proven: the example takes an event for a completion that is still there, though it
        # may have taken it with the one before.
        "rc": (("new-send", "-N"), ("new-send-events", "-N", "-e"), ("timestamps", "-t"),
               ("new-send-timestamps", "-N", "-t"),
               ("odp", "-o"), ("odp-prefetch", "-o", "-P"), ("implicit-odp", "-O"),
               ("implicit-odp-prefetch", "-O", "-P"), ("device-memory", "-j"),
               ("device-memory-new-send", "-j", "-N")),
        "srq": (("odp", "-o"),),
        "xsrq": (("odp", "-o"),),
    }
    for service, cases in options.items():
        for label, *arguments in cases:
            # Device memory can't be looked at, and is copied for the check; xsrq's -c is another.
            check = () if service == "xsrq" else ("-c",)
            yield Pair(LO, f"ipv4/{service}_pingpong-{label}", f"ibv_{service}_pingpong",
                       (*arguments, *check), 4,
                       ("/tmp/xrc_domain",) if service == "xsrq" else (),
                       quick=label in ("new-send-timestamps", "implicit-odp-prefetch"))


def all_cases():
    return [
        Pyverbs(LO, "rdma_cm/pyverbs", "test_rdmacm", 10, timeout=60),
        All(LO, "pyverbs", r"test_(?!mlx5|efa).*", timeout=120, quick=True),
        *pingpong_cases(),
    ]
