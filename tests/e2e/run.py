#!/usr/bin/env python3
"""End-to-end tests: stock RDMA programs, unmodified, on Verbena's devices.

  run.py --build build/release              install to a temporary prefix, run everything
  run.py --prefix DIR                       use what is installed there
  run.py … --only 'lo/.*pingpong'           the cases whose names match
  run.py … --quick                          a small choice, under a minute
  run.py … --long none                      without the cases that only `make test-all` runs
  run.py … --long only                      those alone
  run.py … --times 20                       also name the 20 cases that took longest
  run.py … --soak SECONDS                   in random order, again and again
  run.py … --again 2                        a failed case gets that many further chances
  run.py … --wire udp                       everything over UDP; cases of one wire are left out
  run.py … --only flood --frames 10000000   ten million frames of strangers
  run.py … --only midway --mebibytes 1024   processes die in the middle of 1 GiB
  run.py … --only transfer/killed --kills 200  ends of a transfer are killed so often
  run.py --list                             the names of the cases
  run.py --selfcheck                        does this harness notice failures?

Root runs the programs as `nobody`. Anybody else runs them as himself, in namespaces of
`unshare -Urn`. A case that failed and then passed is said to be unsteady;
more than one in a hundred of those is a failure too.
Exit status: 0 all passed (skips are said), 1 something failed, 2 usage.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import benchmarks  # noqa: E402
import breadth  # noqa: E402
import cases  # noqa: E402
import clients  # noqa: E402
import connection_lifetimes  # noqa: E402
import connections  # noqa: E402
import counters  # noqa: E402
import deaths  # noqa: E402
import devinfo  # noqa: E402
import doctor  # noqa: E402
import documents  # noqa: E402
import environment  # noqa: E402
import examples  # noqa: E402
import fault_handlers  # noqa: E402
import flood  # noqa: E402
import gpu  # noqa: E402
import iser  # noqa: E402
import labs  # noqa: E402
import labs_exercises  # noqa: E402
import labs_gpu  # noqa: E402
import labs_readmes  # noqa: E402
import lanes  # noqa: E402
import mpi  # noqa: E402
import observing  # noqa: E402
import one_host  # noqa: E402
import outputs  # noqa: E402
import pictures  # noqa: E402
import ports  # noqa: E402
import progress  # noqa: E402
import pyverbs  # noqa: E402
import raw_packets  # noqa: E402
import report_captures  # noqa: E402
import report_page  # noqa: E402
import report_page_made_up  # noqa: E402
import robustness  # noqa: E402
import selfcheck  # noqa: E402
import tools  # noqa: E402
import transfer  # noqa: E402
import watching  # noqa: E402
import ways  # noqa: E402
from network import Network  # noqa: E402
from programs import CaseFailed, CaseSkipped, Files, Host, is_real_root  # noqa: E402

INSIDE = "E2E_INSIDE_USER_NAMESPACE"


class Report:
    """One line per case, and the sum."""

    def __init__(self, out=sys.stdout):
        self.counts = collections.Counter()
        self.failed = []
        self.unsteady = []
        self.times = []
        self._out = out
        self._lock = threading.Lock()
        self._start = time.monotonic()

    def add(self, verdict, name, seconds, words=""):
        with self._lock:
            self.counts[verdict] += 1
            self.times.append((seconds, name))
            first, _, rest = words.partition("\n")
            line = f"{verdict:<5} {name:<44} {seconds:6.1f} s  {first}".rstrip()
            print(line + ("\n" + rest.rstrip() if rest else ""), file=self._out, flush=True)
            if verdict == "FAIL":
                self.failed.append(name)
            if verdict == "again":
                self.unsteady.append(name)

    def print_slowest(self, count):
        total = sum(seconds for seconds, _ in self.times)
        print(f"{total:.0f} s in all cases, one after the other; the slowest:", file=self._out)
        for seconds, name in sorted(self.times, reverse=True)[:count]:
            print(f"  {seconds:6.1f} s  {name}", file=self._out)

    def close(self):
        """The closing line; True when nothing failed."""
        for name in sorted(set(self.failed)):
            print(f"failed: {name}", file=self._out)
        for name in sorted(set(self.unsteady) - set(self.failed)):
            print(f"unsteady: {name}", file=self._out)
        print(f"{self.counts['ok']} passed, {self.counts['FAIL']} failed, "
              f"{self.counts['skip']} skipped, {len(set(self.unsteady))} unsteady "
              f"in {time.monotonic() - self._start:.0f} s",
              file=self._out, flush=True)
        return self.counts["FAIL"] == 0 and len(set(self.unsteady)) <= 1 + self.counts["ok"] // 100


def run_case(case, host, network, report, chances=1):
    """Reports how it went; True unless it failed and has further chances."""
    start = time.monotonic()
    if case.wire:
        host = host.with_wire(case.wire)
    try:
        verdict, words = "ok", case.run(host, network) or ""
    except CaseSkipped as reason:
        verdict, words = "skip", str(reason)
    except CaseFailed as reason:
        verdict, words = "FAIL", str(reason)
    except Exception as error:  # the harness or the machine: not to be taken for a pass
        verdict, words = "FAIL", f"{type(error).__name__}: {error}"
    final = verdict != "FAIL" or chances == 1
    report.add(verdict if final else "again", case.name, time.monotonic() - start, words)
    return final


def check_nothing_left(name, host, find, report, words=""):
    """`find` says what is left. Sockets may need a moment after the last exit; half a second is no
    timewait."""
    start = time.monotonic()
    deadline = host.deadline(0.5)
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        words = "left behind:\n    " + "\n    ".join(left)
    report.add("FAIL" if left else "ok", name, time.monotonic() - start, words)


def check_network(topology, host, network, report):
    name = f"{topology.name}/nothing-left"
    lost, arrived = network.packets_lost() or (None, 0)
    # Of so many, with 1 % loss, none is lost once in five hundred million runs. A soak's handful of
    # cases may send less.
    if lost == 0 and arrived > 2000:
        report.add("FAIL", name, 0, f"nft dropped none of {arrived} packets: no loss to survive")
        return
    check_nothing_left(name, host, network.leftovers, report,
                       f"{lost} of {arrived} packets were lost on purpose" if arrived else "")


def run_topology(topology, waiting, host, outer, again, report):
    """Runs the cases of the deque `waiting` until it is empty; others may take from it, too."""
    missing = topology.missing_tools()
    if (outer and topology.private) or missing:
        reason = f"missing: {', '.join(missing)}" if missing else f"no private network: {outer}"
        for case in taken_from(waiting):
            report.add("skip", case.name, 0, reason)
        return
    if not waiting:
        return
    try:
        network = Network(topology, outer=bool(outer))
    except (RuntimeError, OSError) as error:
        for case in taken_from(waiting):
            report.add("FAIL", case.name, 0, f"network set-up: {error}")
        return
    try:
        if topology.loss and topology.mtu is None:
            host = host.with_wire("udp")  # nothing else meets with the loss
        for case in taken_from(waiting):
            chances = 1 + again
            while not run_case(case, host, network, report, chances):
                chances -= 1
        check_network(topology, host, network, report)
    finally:
        network.close()


def taken_from(waiting):
    while waiting:
        try:
            yield waiting.popleft()
        except IndexError:  # another lane was faster
            return


def run_all(chosen, host, outer, jobs, again, report):
    """Cases that keep a processor busy run in `jobs` lanes. In twice as many run those that mostly
    wait; when the first are done, their lanes help. Those that need the machine alone come last."""
    files = Files(host)
    busy, idle, alone = (collections.defaultdict(collections.deque) for _ in range(3))
    for case in chosen:
        mostly_waits = not outer and (case.topology.waits or lanes.mostly_waits(case.name))
        group = alone if lanes.runs_alone(case.name) else idle if mostly_waits else busy
        group[case.topology].append(case)
    with (concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool,
          concurrent.futures.ThreadPoolExecutor(max_workers=2 * jobs) as beside):
        plan = [(pool, *group) for group in busy.items()]
        for group in idle.items():
            plan += [(beside, *group)] * 2 * jobs + [(pool, *group)] * jobs
        futures = [executor.submit(run_topology, topology, waiting, host, outer, again, report)
                   for executor, topology, waiting in plan]
        for future in futures:
            future.result()
    for topology, waiting in alone.items():
        run_topology(topology, waiting, host, outer, again, report)
    check_nothing_left("files/nothing-left", host, files.new, report)


def soak(chosen, host, outer, jobs, seconds, report):
    seed = random.randrange(1 << 32)
    print(f"soak: {seconds} s, seed {seed}", flush=True)
    dice = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not report.failed:
        sample = dice.sample(chosen, min(len(chosen), 10))
        run_all(sample, host, outer, jobs, 0, report)


# ---------------------------------------------------------------- set-up

def install(build, folder):
    prefix = os.path.join(folder, "prefix")
    result = subprocess.run(["cmake", "--install", build, "--prefix", prefix],
                            capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"run.py: cmake --install {build}: {result.stderr or result.stdout}")
    # Whatever the umask was: `nobody` must be able to read it.
    subprocess.run(["chmod", "-R", "a+rX", prefix], check=True)
    return prefix


def stand_in_for_cuda(build, folder):
    """A folder with the tests' own libcuda.so.1 and their programs for it; empty: not built."""
    files = [pathlib.Path(build, "tests", name) for name in ("cuda/libcuda.so.1", "gpu_transfers",
                                                             "gpu_misuse")]
    if not all(file.exists() for file in files):
        return ""
    place = os.path.join(folder, "cuda")
    os.mkdir(place, 0o755)
    for file in files:
        shutil.copy(file, place)
        os.chmod(os.path.join(place, file.name), 0o755)
    return place


def enter_user_namespace():
    """Re-executes this program under `unshare -Urn`. Returns the reason when that can't be."""
    probe = subprocess.run(["unshare", "-Urn", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        return f"unshare -Urn: {probe.stderr.strip()}"
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-Urn", "--", sys.executable, os.path.abspath(__file__),
                          *sys.argv[1:]])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--build", help="build folder to install from [build/release]")
    where.add_argument("--prefix", help="prefix that Verbena is installed in")
    parser.add_argument("--only", metavar="REGEX", default="", help="choose cases by name")
    parser.add_argument("--quick", action="store_true", help="a small choice")
    parser.add_argument("--long", choices=("too", "none", "only"), default="too",
                        help="the cases that only `make test-all` runs [%(default)s]")
    parser.add_argument("--times", metavar="N", type=int, default=0,
                        help="name the N cases that took longest")
    parser.add_argument("--soak", metavar="SECONDS", type=float, help="repeat in random order")
    parser.add_argument("--again", metavar="N", type=int, default=0,
                        help="chances of a case that failed [0]")
    parser.add_argument("--frames", metavar="N", type=int, default=flood.FRAMES,
                        help="of the case flood/strangers [%(default)s]")
    parser.add_argument("--mebibytes", metavar="N", type=int, default=one_host.MEBIBYTES,
                        help="of the messages in whose middle a process dies [%(default)s]")
    parser.add_argument("--kills", metavar="N", type=int, default=transfer.KILLS,
                        help="of the case transfer/killed [%(default)s]")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2),
                        help="cases side by side that keep a processor busy; beside them run "
                             "twice as many that mostly wait [half the processors]")
    parser.add_argument("--wire", metavar="NAME", default="",
                        help="VERBENA_WIRE of the programs, for cases that don't choose it "
                             "themselves [what it is by default]")
    parser.add_argument("--slow", type=float, default=1.0, help="factor on every time limit")
    parser.add_argument("--keep", action="store_true", help="keep the programs' output")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--selfcheck", action="store_true", help="test this harness")
    return parser.parse_args()


def main():
    args = parse_arguments()
    flood.FRAMES = args.frames
    one_host.MEBIBYTES = args.mebibytes
    transfer.KILLS = args.kills
    modules = (cases, benchmarks, breadth, clients, mpi, iser, connections, connection_lifetimes,
               deaths, ports,
               progress, one_host, pyverbs, raw_packets, robustness, fault_handlers, observing,
               counters, devinfo, tools, transfer, watching,
               report_captures, report_page, report_page_made_up, labs, labs_exercises, labs_gpu, gpu,
               labs_readmes, documents, outputs, pictures, environment, examples, flood, ways,
               doctor)
    table = [case for module in modules for case in module.all_cases()]
    chosen = [case for case in table
              if re.search(args.only, case.name) and (case.quick or not args.quick)
              and not (args.wire and case.wire)
              and (args.long == "too" or lanes.is_long(case.name) == (args.long == "only"))]
    if args.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not chosen:
        print(f"run.py: no case matches {args.only!r}; see --list", file=sys.stderr)
        return 2

    outer = ""
    if not is_real_root() and INSIDE not in os.environ:
        outer = enter_user_namespace()

    folder = tempfile.mkdtemp(prefix="verbena-e2e.", dir="/tmp")
    os.chmod(folder, 0o755)
    keep = args.keep
    try:
        logs = os.path.join(folder, "logs")
        os.mkdir(logs, 0o755)
        if args.selfcheck:
            return selfcheck.main(Host(folder, logs), outer, Report, run_case, check_nothing_left)
        build = args.build or str(pathlib.Path(__file__).resolve().parents[2] / "build/release")
        prefix = os.path.abspath(args.prefix) if args.prefix else install(build, folder)
        report = Report()
        host = Host(prefix, logs, args.slow, wire=args.wire, cuda=stand_in_for_cuda(build, folder))
        if args.soak:
            soak(chosen, host, outer, args.jobs, args.soak, report)
        else:
            run_all(chosen, host, outer, args.jobs, args.again, report)
        if args.times:
            report.print_slowest(args.times)
        if report.close():
            return 0
        keep = True
        print(f"the programs' output: {logs}")
        return 1
    finally:
        if not keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
