"""rdma-core's own tests of the verbs, as Debian's python3-pyverbs brings them: all that are not a
vendor's own. docs/conformance.md has the table of those that are skipped, and why."""

import collections
import dataclasses
import gzip
import os
import pathlib
import re
import shutil
import tempfile

from cases import LO, Case, Pair
from programs import CaseFailed, CaseSkipped

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PROGRAMS = pathlib.Path(__file__).parent / "programs"

# The only reasons to skip. Whatever else is skipped is a capability that was lost.
REASONS = {
    "no dma-buf": r"dmabuf is not supported|/dev/dri/|cuda-python",
    "no raw packets": r"root on Ethernet|Raw Packet QP|QP type 8 is",
    "no tag matching": r"^tests\.test_tag_matching\.",
    "no huge pages here": r"[Hh]uge pages",
    "full GID table": r"All gid indices populated",
}
FEWEST = 141  # of 171, on a machine without huge pages


@dataclasses.dataclass(frozen=True)
class Pyverbs(Case):
    """The modules of the suite that match. `fewest` must pass, and none may fail."""
    modules: str = ""
    fewest: int = 0

    def run(self, host, network):
        if not SUITE.is_dir():
            raise CaseSkipped("python3-pyverbs is not installed")
        end = network.server
        with tempfile.TemporaryDirectory(dir=host.logs) as folder:
            chosen = unpack(pathlib.Path(folder) / "tests", self.modules)
            os.chmod(folder, 0o755)
            runner = shutil.copy(PROGRAMS / "pyverbs_tests.py", folder)
            argv = ["/usr/bin/python3", "-B", runner, folder, end.addresses[4], "--dev", end.device,
                    "--gid", str(host.gid_index(end, 4)), "--port", "1", "-v", *chosen]
            status, output = host.run(end.namespace, argv, timeout=self.timeout)
        return judge(status, output, self.fewest)


def unpack(folder, modules):
    """Copies the suite there; returns the names of the modules that match."""
    folder.mkdir(mode=0o755)
    for path in SUITE.iterdir():
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        (folder / path.name.removesuffix(".gz")).write_bytes(data)
    return sorted(p.stem for p in folder.glob("test_*.py") if re.fullmatch(modules, p.stem))


def judge(status, output, fewest):
    ran = re.search(r"^RAN (\d+)$", output, re.M)
    if status != 0 or not ran:
        raise CaseFailed(f"exit status {status}:\n{output}")
    skipped = collections.Counter()
    for line in re.findall(r"^SKIPPED (.*)$", output, re.M):
        reason = next((r for r, pattern in REASONS.items() if re.search(pattern, line)), None)
        if reason is None:
            raise CaseFailed(f"skipped, and nobody knows why: {line}")
        skipped[reason] += 1
    passed = int(ran.group(1)) - skipped.total()
    if passed < fewest:
        raise CaseFailed(f"{passed} passed, {fewest} should: {dict(skipped)}")
    words = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
    return f"{passed} passed" + (f"; skipped: {words}" if words else "")


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
        Pyverbs(LO, "pyverbs", r"test_(?!mlx5|efa).*", FEWEST, timeout=120, quick=True),
        *pingpong_cases(),
    ]
