#!/usr/bin/env python3
"""Plants each bug of mutants.py in a copy of the source and checks that a test notices it.

  tests/mutants/run.py                 all of them
  tests/mutants/run.py --only REGEX    those whose name matches
  tests/mutants/run.py --list          only checks that each still applies

One line for each bug. A test that runs into its limit of CPU time has noticed it, too: bugs may
hang the simulation. Exit status 1: a bug survived, doesn't apply any more, or doesn't compile.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from mutants import MUTANTS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_COPIED = {"build", ".git"}
# Quick ones first. What two threads do to each other takes a different time on each machine, and
# no bug here is about threads.
PROPERTIES = "*Property*"
INCAST = "*SixteenToOne*"
RUNS = [
    ("verbena_sim_test", f"-{PROPERTIES}:{INCAST}"),
    ("verbena_unit_engine_test", "-CompletionQueue.NoCompletionIsMissedBetweenArmingAndSleeping"),
    ("verbena_unit_packet_test", "*"),
    ("verbena_unit_cm_test", "*"),
    ("verbena_sim_test", PROPERTIES),
    ("verbena_sim_test", INCAST),
]
# Bugs below these folders have tests of their own, and no other notices them.
RUNS_BELOW = {
    "src/host/progress/": [("verbena_unit_host_test", "Progress*:SpareCore*")],
    "src/memory/": [("verbena_unit_memory_test", "*")],
    "src/registry/": [("verbena_unit_registry_test", "*")],
    "src/wire/shm/": [
        ("verbena_interleaving_test", "*"),
        ("verbena_unit_wire_test", "Ring*:Segment*:*HostileWriter*:Link*:Waking*:TwoProcesses*:"
                                   "Offers*:Contents*:Shm*"),
    ],
}
INCAST_SEEDS = 2  # one takes as long as hundreds of the properties'
MEMORY_LIMIT = 4 << 30  # a bug may post events for ever
CPU_LIMIT = 10  # seconds at least, 20 times what the tests take without a bug
WALL_LIMIT = 600  # seconds, for those that sleep for ever


class Failure(Exception):
    """The bug could not be tried."""


def pattern_of(text):
    """White space and line breaks match any: formatting may change them."""
    return re.compile(r"\s+".join(re.escape(word) for word in text.split()))


def plant(source, old, new):
    """The source with the bug in it."""
    pattern = pattern_of(old)
    found = len(pattern.findall(source))
    if found != 1:
        raise Failure(f"does not apply: {found} places match, there must be 1")
    return pattern.sub(lambda _: new, source)


def runs_for(file):
    """The tests that may notice a bug in this file, the quick ones first."""
    for folder, runs in RUNS_BELOW.items():
        if file.startswith(folder):
            return runs
    return RUNS


def check_applies(mutants):
    """Prints a line for each; the number of those that don't apply."""
    bad = 0
    for name, file, old, new in mutants:
        try:
            plant((ROOT / file).read_text(), old, new)
            print(f"{name:44} {file}")
        except (Failure, OSError) as e:
            print(f"{name:44} {file}: {e}")
            bad += 1
    return bad


class Workshop:
    """A copy of the tree with a build of its own."""

    def __init__(self, folder, jobs, seeds):
        self.tree = folder / "tree"
        self.build_folder = folder / "build"
        self.jobs = jobs
        self.seeds = seeds
        self.environment = dict(os.environ, GTEST_FAIL_FAST="1")
        self.environment.pop("SEED", None)
        self.limits = {}

    def copy_tree(self):
        """Files that are the same keep their time, so that a build folder can be used again."""
        wanted = set()
        for path in ROOT.rglob("*"):
            relative = path.relative_to(ROOT)
            if relative.parts[0] in NOT_COPIED or not path.is_file():
                continue
            wanted.add(relative)
            target = self.tree / relative
            if target.is_file() and target.read_bytes() == path.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            shutil.copymode(path, target)
        for path in list(self.tree.rglob("*")):
            if path.is_file() and path.relative_to(self.tree) not in wanted:
                path.unlink()

    def configure(self):
        """Warnings off: a bug may leave a variable unused. No debug information: links fast."""
        subprocess.run(
            ["cmake", "-S", self.tree, "-B", self.build_folder, "-G", "Ninja",
             "-DCMAKE_BUILD_TYPE=", "-DVERBENA_BENCH=OFF",
             "-DCMAKE_CXX_FLAGS=-O1 -w -D_GLIBCXX_ASSERTIONS"],
            check=True, stdout=subprocess.DEVNULL)

    def build(self, runs):
        """None, or what stopped the compiler."""
        targets = sorted({target for target, _ in runs})
        done = subprocess.run(
            ["cmake", "--build", self.build_folder, "-j", str(self.jobs), "--target", *targets],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        return None if done.returncode == 0 else done.stdout

    def run(self, target, tests):
        """None when all pass; otherwise which test failed and how."""
        command = [self.build_folder / "tests" / target, f"--gtest_filter={tests}"]
        environment = self.environment | {
            "SEEDS": str(INCAST_SEEDS if tests == INCAST else self.seeds)}
        limit = self.limits.get((target, tests), WALL_LIMIT)
        try:
            done = subprocess.run(
                command, env=environment, timeout=WALL_LIMIT, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace",
                preexec_fn=lambda: confine(limit))
        except subprocess.TimeoutExpired:
            return f"{target}, which was not through after {WALL_LIMIT} s"
        if done.returncode == 0:
            return None
        if done.returncode == -signal.SIGXCPU:
            return f"{running_test(done.stdout)}, which hit its limit of {limit} s"
        if done.returncode < 0:
            return f"{running_test(done.stdout)}, which died of signal {-done.returncode}"
        failed = re.search(r"^\[  FAILED  \] ([\w./]+)", done.stdout, re.MULTILINE)
        return failed[1] if failed else f"{target}: {done.stdout.strip().splitlines()[-1:]}"

    def measure(self, runs):
        """The tests must pass without a bug; what they take then gives the limits."""
        for target, tests in runs:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            failed = self.run(target, tests)
            if failed:
                raise Failure(f"{failed} fails without any planted bug")
            took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            self.limits[target, tests] = max(CPU_LIMIT, int(20 * took))

    def verdict(self, file, old, new):
        """What noticed the bug, or None: it survived."""
        path = self.tree / file
        right = path.read_text()
        wrong = plant(right, old, new)
        try:
            path.write_text(wrong)
            runs = runs_for(file)
            errors = self.build(runs)
            if errors is not None:
                if "static assertion failed" in errors:
                    return "a static_assert"
                raise Failure("does not compile:\n" + errors)
            for target, tests in runs:
                failed = self.run(target, tests)
                if failed:
                    return failed
            return None
        finally:
            path.write_text(right)


def confine(cpu_seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def running_test(output):
    """The last test that began."""
    begun = re.findall(r"^\[ RUN      \] ([\w./]+)", output, re.MULTILINE)
    return begun[-1] if begun else "the program's start"


def try_all(workshop, mutants):
    """Prints a line for each; (caught, survived, not tried)."""
    caught, survived, failed = 0, 0, 0
    for i, (name, file, old, new) in enumerate(mutants, 1):
        start = time.monotonic()
        try:
            by = workshop.verdict(file, old, new)
            caught += by is not None
            survived += by is None
            text = f"caught by {by}" if by else f"SURVIVED ({file})"
        except Failure as e:
            failed += 1
            text = f"ERROR {e} ({file})"
        took = time.monotonic() - start
        print(f"[{i:3}/{len(mutants)}] {name:42} {text} ({took:.0f} s)", flush=True)
    return caught, survived, failed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="check that each applies, run nothing")
    parser.add_argument("--only", metavar="REGEX", default="", help="those whose name matches")
    parser.add_argument("--seeds", type=int, default=int(os.environ.get("SEEDS", "300")),
                        help="programs of the property tests for each bug (default: SEEDS or 300)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    parser.add_argument("--work", metavar="FOLDER", type=pathlib.Path,
                        help="keep the copy and its build here, and use them again")
    options = parser.parse_args()

    names = [m[0] for m in MUTANTS]
    if len(names) != len(set(names)):
        sys.exit("mutants.py: a name stands there twice")
    mutants = [m for m in MUTANTS if re.search(options.only, m[0])]
    if not mutants:
        sys.exit(f"no planted bug has a name that matches \"{options.only}\"; --list shows all")
    if options.list:
        bad = check_applies(mutants)
        print(f"{len(mutants) - bad} apply, {bad} do not")
        return 1 if bad else 0

    folder = options.work or pathlib.Path(tempfile.mkdtemp(prefix="verbena-mutants."))
    try:
        workshop = Workshop(folder, options.jobs, options.seeds)
        print(f"building the tests for {len(mutants)} planted bugs in {folder}", flush=True)
        workshop.copy_tree()
        workshop.configure()
        runs = list(dict.fromkeys(run for m in mutants for run in runs_for(m[1])))
        errors = workshop.build(runs)
        if errors is not None:
            sys.exit("the source without a planted bug does not compile:\n" + errors)
        workshop.measure(runs)
        caught, survived, failed = try_all(workshop, mutants)
    except Failure as e:
        sys.exit(str(e))
    finally:
        if not options.work:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{caught} caught, {survived} survived" + (f", {failed} not tried" if failed else ""))
    return 0 if survived == failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
