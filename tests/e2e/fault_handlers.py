"""Copies in user mode beside everything that a program does with SIGSEGV and SIGBUS: memory is taken
away under traffic all the time (programs/thefts.h), each theft is seen by the right status, and the
program's own faults and signals come to it as ever."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import typing

from cases import LO, Case, check_output
from programs import CaseFailed, CaseSkipped, need_programs, tail

PROGRAMS = pathlib.Path(__file__).parent / "programs"
VERBS = ("-libverbs", "-pthread")
OUT = "OUT"  # in a command: the path of what it makes
HELD = (r" thefts under traffic| held$",)
CRASHED = -signal.SIGSEGV  # as subprocess has it

_building = threading.Lock()


# ---------------------------------------------------------------- programs, made when needed first

def made(host, name, *command, lacks="", **environment):
    """The path of NAME in the folder of this run. `lacks`: an error that means that this machine
    lacks what the program needs."""
    path = os.path.join(host.logs, name)
    with _building:
        if not os.path.exists(path):
            need_programs(command[0])
            argv = [path if word == OUT else word for word in command]
            result = subprocess.run(argv, capture_output=True, text=True, check=False,
                                    env={**os.environ, **environment})
            if lacks and re.search(lacks, result.stderr):
                raise CaseSkipped(result.stderr.strip()[:200])
            if result.returncode != 0:
                raise CaseFailed(f"{' '.join(argv)}:\n{result.stderr}")
            os.chmod(path, 0o755)
    return path


def c_program(host, name, *libraries, lacks=""):
    return made(host, name, "cc", "-O2", "-o", OUT, str(PROGRAMS / f"{name}.c"), *libraries,
                lacks=lacks)


def sanitized(host, name, sanitizer):
    return made(host, f"{name}-{sanitizer}", "cc", "-O1", "-g", f"-fsanitize={sanitizer}", "-o", OUT,
                str(PROGRAMS / f"{name}.c"), *VERBS, lacks=r"cannot find|unsupported|unrecognized")


def thefts_library(host):
    return made(host, "libthefts.so", "cc", "-O2", "-fPIC", "-shared", "-o", OUT,
                str(PROGRAMS / "thefts_library.c"), *VERBS)


def java_library(host, home):
    return made(host, "libjavathefts.so", "cc", "-O2", "-fPIC", "-shared", "-DWITH_JNI",
                f"-I{home}/include", f"-I{home}/include/linux", "-o", OUT,
                str(PROGRAMS / "thefts_library.c"), *VERBS)


def go_program(host):
    need_programs("cc")
    return made(host, "fault_go", "go", "build", "-o", OUT, str(PROGRAMS / "fault_go.go"),
                GOCACHE=f"{host.logs}/go-cache", GO111MODULE="off", CGO_CFLAGS=f"-O2 -I{PROGRAMS}")


def exceptions(host):
    library = thefts_library(host)
    return made(host, "fault_exceptions", "c++", "-O2", "-fnon-call-exceptions", "-o", OUT,
                str(PROGRAMS / "fault_exceptions.cc"), library, "-libverbs")


def java_command(host, *options):
    need_programs("javac", "java")
    home = pathlib.Path(shutil.which("javac")).resolve().parents[1]
    if not (home / "include/jni.h").exists():
        raise CaseSkipped(f"{home} has no jni.h")
    library = java_library(host, home)
    # One class, no inner ones: the compiler's output has its name.
    with _building:
        subprocess.run(["javac", "-d", host.logs, str(PROGRAMS / "FaultTraffic.java")], check=True)
    return "java", "-XX:-UsePerfData", *options, "-cp", host.logs, "FaultTraffic", library


def python_command(host):
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        raise CaseSkipped(f"{python} is not installed")
    script = os.path.join(host.logs, "fault_python.py")
    shutil.copy(PROGRAMS / "fault_python.py", script)
    os.chmod(script, 0o644)
    return python, "-B", script, thefts_library(host)


# ---------------------------------------------------------------- kinds of cases

@dataclasses.dataclass(frozen=True)
class Held(Case):
    """A program that ends by itself. `command`: its argv, of a host."""
    command: typing.Callable = None
    arguments: tuple = ()
    status: int = 0
    expect: tuple = HELD
    preload: bool = True
    never: str = "a fault of a copy|Segmentation fault|WARNING: ThreadSanitizer"

    def run(self, host, network):
        argv = self.command(host)
        argv = [argv] if isinstance(argv, str) else list(argv)
        status, output = host.run(network.server.namespace, [*argv, *map(str, self.arguments)],
                                  timeout=self.timeout, preload=self.preload)
        check_output(status, output, self.status, self.expect)
        wrong = re.search(self.never, output) if self.never else None
        if wrong:
            raise CaseFailed(f"it says \"{wrong.group(0)}\":\n{output}")
        return output.strip().splitlines()[-1]


class Dlopened(Held):
    """The library is opened by dlopen(), not preloaded."""

    def run(self, host, network):
        status, output = host.run(network.server.namespace, [host.verbena, "env"], preload=False)
        check_output(status, output, 0, ("LD_PRELOAD=",))
        library = re.search(r"/[^:'\"\s]*libibverbs\.so\.1", output).group(0)
        there = dataclasses.replace(self, arguments=(library, thefts_library(host), *self.arguments))
        return super(Dlopened, there).run(host, network)


@dataclasses.dataclass(frozen=True)
class Killed(Case):
    """SIGSEGV from outside ends a program that has no handler."""

    def run(self, host, network):
        program = c_program(host, "fault_processes", *VERBS)
        process = host.start(network.server.namespace, [program, "waits"])
        try:
            deadline = host.deadline(self.timeout)
            while "page" not in process.output():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise CaseFailed(f"it doesn't begin\n{tail(process)}")
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGSEGV)
            status = process.wait(deadline)
            if status != CRASHED:
                raise CaseFailed(f"{CRASHED} wanted, {status} seen\n{tail(process)}")
            return ""
        finally:
            process.kill()


# ---------------------------------------------------------------- the table

def c_case(label, name, *arguments, libraries=VERBS, lacks="", **kwargs):
    return Held(LO, f"fault-handlers/{label}", lambda host: c_program(host, name, *libraries, lacks=lacks),
                arguments, **kwargs)


def sanitizer_case(sanitizer, kind, when):
    return Held(LO, f"fault-handlers/{sanitizer}-{kind}-{when}",
                lambda host: sanitized(host, "fault_handlers", sanitizer), (kind, when, 30),
                timeout=120)


def handler_cases():
    kinds = ("sigaction", "nodefer", "resethand", "onstack", "siglongjmp", "signal", "sysv_signal",
             "sigset", "chained")
    for kind in kinds:
        for when in ("before", "after"):
            yield c_case(f"{kind}-{when}", "fault_handlers", kind, when, 100,
                         quick=kind == "sigaction")
    yield c_case("sigaction-after-udp", "fault_handlers", "sigaction", "after", 50, wire="udp")
    for kind in ("sigaction", "nodefer", "onstack", "siglongjmp", "chained"):
        for when in ("before", "after"):
            yield sanitizer_case("address", kind, when)
    # ThreadSanitizer gives handlers a mask of its own, and shows others than were installed.
    for kind, when in (("sigaction", "after"), ("onstack", "after"), ("siglongjmp", "before"),
                       ("siglongjmp", "after")):
        yield sanitizer_case("thread", kind, when)


def signal_cases():
    for kind in ("blocked", "masks", "contexts", "ignored", "raw", "timer", "sent", "mask-stays"):
        yield c_case(kind, "fault_signals", kind, 100, quick=kind in ("blocked", "masks"))
    for kind in ("blocked", "masks", "timer"):
        yield c_case(f"{kind}-udp", "fault_signals", kind, 30, wire="udp")


def process_cases():
    yield c_case("children", "fault_processes", "children", 100)
    yield c_case("children-udp", "fault_processes", "children", 30, wire="udp")
    for end, status in (("crash", CRASHED), ("sent", CRASHED), ("abort", -signal.SIGABRT)):
        yield c_case(f"ends-by-{end}", "fault_processes", end, status=status, expect=(r"^page",))
    yield Killed(LO, "fault-handlers/killed")
    for sanitizer, status in (("address", 1), ("thread", 66)):
        yield Held(LO, f"fault-handlers/{sanitizer}-crash",
                   lambda host, s=sanitizer: sanitized(host, "fault_processes", s), ("crash",),
                   status=status, expect=(r"SUMMARY: \w+Sanitizer: SEGV .*in main",))


def language_cases():
    for label, options in (("compiled", ()), ("interpreted", ("-Xint",)),
                           ("checked", ("-Xcheck:jni",))):
        yield Held(LO, f"fault-handlers/java-{label}", lambda host, o=options: java_command(host, *o), (100,),
                   timeout=120)
    yield Held(LO, "fault-handlers/java-udp", lambda host: java_command(host, "-Xint"), (20,), wire="udp",
               timeout=120)
    yield Held(LO, "fault-handlers/go", go_program, (200,), timeout=120)
    yield Held(LO, "fault-handlers/python", python_command, (200,), never="Fatal Python error")
    yield Held(LO, "fault-handlers/python-crash", python_command, (20, "crash"), status=CRASHED, never="",
               expect=(r"thefts under traffic\nFatal Python error: Segmentation fault", "string_at"))
    yield Held(LO, "fault-handlers/exceptions", exceptions, (100,))
    yield c_case("libsigsegv", "fault_libsigsegv", 200, libraries=("-lsigsegv", *VERBS),
                 lacks="sigsegv.h")


def all_cases():
    return [*handler_cases(), *signal_cases(), *process_cases(), *language_cases(),
            Dlopened(LO, "fault-handlers/dlopen", lambda host: c_program(host, "fault_dlopen", "-ldl"),
                     (200,), preload=False)]
