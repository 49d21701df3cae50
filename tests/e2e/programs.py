"""Running stock programs under `verbena run`: as `nobody` when we are root, bounded, logged."""

import contextlib
import copy
import dataclasses
import itertools
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class CaseFailed(Exception):
    """The product did not do what it should."""


class CaseSkipped(Exception):
    """This machine lacks something."""


def is_real_root():
    """Root of the machine, not of a user namespace."""
    if os.geteuid() != 0:
        return False
    return pathlib.Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


class Process:
    """One started program. Its output goes to a file: nobody has to read a pipe."""

    def __init__(self, argv, log, env):
        self.argv = argv
        self.log = log
        with open(log, "wb") as out:
            self._popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                           stderr=subprocess.STDOUT, cwd="/", env=env,
                                           start_new_session=True)
        self.pid = self._popen.pid  # nsenter, setpriv and verbena exec in place: the program's

    def poll(self):
        return self._popen.poll()

    def wait(self, deadline):
        """The exit status; CaseFailed when it is still running at `deadline` (monotonic)."""
        try:
            return self._popen.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise CaseFailed(f"still running at the time limit: {self.title()}") from None

    def kill(self):
        if self._popen.poll() is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._popen.wait()

    def cpu_seconds(self):
        try:
            stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return 0.0
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def output(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def title(self):
        start = self.argv.index("--", self.argv.index("run")) + 1 if "run" in self.argv else 0
        return " ".join(self.argv[start:])


@dataclasses.dataclass
class Host:
    """Where the product is installed, who runs the programs, where their output goes."""
    prefix: str
    logs: str
    slow: float = 1.0  # factor on every time limit
    options: tuple = ()  # of `verbena run`
    wire: str = ""  # VERBENA_WIRE; empty: what it is by default
    cuda: str = ""  # folder of the tests' own libcuda.so.1; empty: there is none

    def __post_init__(self):
        self.user = pwd.getpwnam("nobody") if is_real_root() else None
        # The programs' own temporary folder: whatever they leave there is seen.
        self.temporary = tempfile.mkdtemp(prefix="tmp.", dir=self.logs)
        if self.user:
            os.chown(self.temporary, self.user.pw_uid, self.user.pw_gid)
        self._count = itertools.count(1)  # atomic: cases may run side by side
        self._gids = {}

    @property
    def verbena(self):
        return os.path.join(self.prefix, "bin", "verbena")

    def with_options(self, *options):
        """The same, but what it starts gets these options of `verbena run`."""
        other = copy.copy(self)
        other.options = options
        return other

    def with_wire(self, wire):
        """The same, but the frames of what it starts take this wire."""
        other = copy.copy(self)
        other.wire = wire
        return other

    @contextlib.contextmanager
    def scratch(self):
        """A folder that the programs may write to; it goes with what they leave there."""
        folder = tempfile.mkdtemp(dir=self.temporary)
        try:
            if self.user:
                os.chown(folder, self.user.pw_uid, self.user.pw_gid)
            yield folder
        finally:
            shutil.rmtree(folder)

    def uid(self):
        return self.user.pw_uid if self.user else os.getuid()

    def as_user(self, namespace):
        """What to put in front of a command to run it there, without any privilege."""
        argv = namespace.enter()
        if self.user:
            argv = argv + ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}",
                           "--clear-groups", "--inh-caps=-all", "--"]
        return argv

    def start(self, namespace, argv, preload=True, env=None):
        number = next(self._count)
        log = os.path.join(self.logs, f"{number:05d}-{os.path.basename(argv[0])}.log")
        prefix = [self.verbena, "run", *self.options, "--"] if preload else []
        environment = {"PATH": PATH, "HOME": "/", "LC_ALL": "C", "TMPDIR": self.temporary}
        if self.wire:
            environment["VERBENA_WIRE"] = self.wire
        if self.cuda and "lab gpu" in " ".join(map(str, argv)):  # it needs a GPU; see tests/support/cuda
            environment["LD_LIBRARY_PATH"] = self.cuda
        environment.update(env or {})
        return Process(self.as_user(namespace) + prefix + list(argv), log, environment)

    def deadline(self, seconds):
        return time.monotonic() + seconds * self.slow

    def run(self, namespace, argv, timeout=20, **kwargs):
        """(exit status, output) of a program that ends by itself."""
        process = self.start(namespace, argv, **kwargs)
        try:
            status = process.wait(self.deadline(timeout))
            return status, process.output()
        finally:
            process.kill()

    def wait_listening(self, namespace, port, server, timeout=10):
        deadline = self.deadline(timeout)
        while not namespace.listens(port):
            if server.poll() is not None:
                raise CaseFailed(f"the server ended with {server.poll()} before it listened\n"
                                 + tail(server))
            if time.monotonic() > deadline:
                raise CaseFailed(f"the server does not listen on TCP port {port}\n" + tail(server))
            time.sleep(0.01)

    def gid_index(self, end, family):
        """The index of the GID of an end's address, as `verbena devices` tells it."""
        key = end.namespace.pid, end.device, family
        if key not in self._gids:
            self._gids[key] = self._find_gid_index(end, family)
        return self._gids[key]

    def _find_gid_index(self, end, family):
        status, output = self.run(end.namespace, [self.verbena, "devices", "--json"], preload=False)
        if status != 0:
            raise CaseFailed(f"verbena devices --json: exit {status}\n{output}")
        try:
            devices = json.loads(output)
        except json.JSONDecodeError as error:
            raise CaseFailed(f"verbena devices --json: {error}\n{output}") from None
        for device in devices:
            for port in device["ports"] if device["name"] == end.device else []:
                for gid in port["gids"]:
                    if gid["address"] == end.addresses[family]:
                        return gid["index"]
        raise CaseFailed(f"{end.device} has no GID {end.addresses[family]}:\n{output}")


def tail(process, lines=15):
    text = process.output().rstrip().splitlines()
    shown = "\n".join("    | " + line for line in text[-lines:]) or "    | (no output)"
    return f"  {process.title()} -> {process.poll()}\n{shown}"


def need_programs(*names):
    for name in names:
        if not shutil.which(name, path=PATH):
            raise CaseSkipped(f"{name} is not installed")


FOLDERS = ("/tmp", "/dev/shm")
TEST_FOLDERS = ("verbena-e2e.", "verbena-kernel-test.")  # of test runs, perhaps beside this one


class Files:
    """What appears in the shared folders, and in the programs' own, while a case runs."""

    def __init__(self, host):
        self._host = host
        self._before = self._list()

    def _list(self):
        found = set()
        for folder in FOLDERS:
            for entry in os.scandir(folder):
                if entry.name.startswith(TEST_FOLDERS):
                    continue
                try:
                    # Ours by name, or by owner where nobody else runs as that user.
                    if "verbena" in entry.name.lower() or (
                            self._host.user and entry.stat(follow_symlinks=False).st_uid
                            == self._host.uid()):
                        found.add(entry.path)
                except FileNotFoundError:
                    pass
        found.update(entry.path for entry in os.scandir(self._host.temporary))
        return found

    def new(self):
        """Sentences."""
        return [f"file {path}" for path in sorted(self._list() - self._before)]
