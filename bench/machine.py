"""The machine that is measured: its description, its cores, and how to keep it busy."""
import contextlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys


def allowed_cores():
    return sorted(os.sched_getaffinity(0))


def siblings(core):
    """The CPUs that share a core's units with it, itself included."""
    path = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        text = path.read_text()
    except OSError:
        return {core}
    cores = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cores |= set(range(int(first), int(last or first) + 1))
    return cores


def separate_cores():
    """The allowed CPUs, at most one of each core."""
    chosen, taken = [], set()
    for core in allowed_cores():
        if core not in taken:
            chosen.append(core)
            taken |= siblings(core)
    return chosen


def _first(pattern, text, otherwise="unknown"):
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip() if match else otherwise


def _version_of(command, pattern):
    if not shutil.which(command[0]):
        return "not installed"
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    return _first(pattern, done.stdout + done.stderr)


def describe(verbena):
    """What a table of figures needs beside it."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    return {
        "model": _first(r"^model name\s*:(.*)", cpuinfo),
        "cores": len(allowed_cores()),
        "physical cores": len(separate_cores()),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "verbena": _version_of([str(verbena), "--version"], r"([\d.]+)"),
        "perftest": _version_of(["ib_write_bw", "--version"], r"Version:?\s*(.+)"),
        "ucx": _version_of(["ucx_info", "-v"], r"[Vv]ersion:? (\S+)"),
    }


@contextlib.contextmanager
def busy():
    """As many endless loops as there are cores."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in allowed_cores()]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()
