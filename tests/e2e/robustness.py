"""Programs in unusual company: many of them, sanitizers, debuggers, containers, memory that goes."""

import dataclasses
import os
import pathlib
import re
import shlex
import signal
import subprocess

import kill
from cases import (LO, WAITING_LO, Case, Pair, Pairs, check_output, check_pair, compiled, start_pair,
                   wait_for_pair)
from programs import CaseFailed, CaseSkipped, need_programs, tail

ABI = pathlib.Path(__file__).resolve().parents[1] / "abi"


@dataclasses.dataclass(frozen=True)
class Alone(Case):
    """A program of ours that ends by itself. `most`: of the figure in its output, if there is one."""
    program: str = ""
    arguments: tuple = ()
    libraries: tuple = ("-libverbs", "-pthread")
    expect: str = ""
    most: float = 0

    def run(self, host, network):
        argv = [compiled(host, self.program, *self.libraries), *map(str, self.arguments)]
        status, output = host.run(network.server.namespace, argv, timeout=self.timeout)
        check_output(status, output, 0, (self.expect,))
        figure = re.search(self.expect, output).groups()
        if figure and float(figure[0]) > self.most:
            raise CaseFailed(f"wanted: at most {self.most}; seen: {output}")
        return output.strip()


@dataclasses.dataclass(frozen=True)
class Sanitized(Case):
    """A program that was built with a sanitizer."""
    sanitizer: str = ""
    options: str = ""

    def run(self, host, network):
        need_programs("cc")
        program = os.path.join(host.logs, f"loopback-{self.sanitizer}")
        built = subprocess.run(["cc", "-O1", "-g", f"-fsanitize={self.sanitizer}", "-o", program,
                                str(ABI / "loopback.c"), "-libverbs"],
                               capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise CaseSkipped(f"-fsanitize={self.sanitizer}: {built.stderr.strip()[-200:]}")
        status, output = host.run(network.server.namespace, [program], timeout=self.timeout,
                                  env={self.options.split("=")[0]: self.options.partition("=")[2]})
        check_output(status, output, 0, ())
        if "Sanitizer" in output:
            raise CaseFailed(output)
        return ""


@dataclasses.dataclass(frozen=True)
class Under(Pair):
    """A pair of programs, each run by another one."""
    wrapper: tuple = ()

    def run(self, host, network):
        need_programs(self.wrapper[0], self.program)
        server, client = start_pair(host, network, self.program, self.arguments, 4, self.wrapper)
        try:
            return check_pair(self.program, server, client,
                              wait_for_pair(host, server, client, self.timeout))
        except CaseFailed as failure:
            raise CaseFailed("\n".join((str(failure), tail(server), tail(client)))) from None
        finally:
            server.kill()
            client.kill()


class Containers(Under):
    """The network namespace in common, /tmp and /dev/shm each its own."""

    def run(self, host, network):
        prefix = shlex.quote(host.prefix)
        private = (f"mount -t tmpfs none /dev/shm && mkdir /dev/shm/prefix && "
                   f"mount --bind {prefix} /dev/shm/prefix && mount -t tmpfs none /tmp && "
                   f"mkdir -p {prefix} && mount --bind /dev/shm/prefix {prefix} && exec \"$@\"")
        inside = dataclasses.replace(self, wrapper=("unshare", "-Urm", "sh", "-c", private, "sh"))
        return super(Containers, inside).run(host, network)


@dataclasses.dataclass(frozen=True)
class StoppedInTraffic(Case):
    """A process that a debugger has stopped in the middle of its traffic keeps no other one."""

    def run(self, host, network):
        need_programs("ib_write_bw", "ibv_rc_pingpong")
        stopped = start_pair(host, network, "ib_write_bw", ("-D", "60", "-f", "1"), 4)
        others = ()
        try:
            kill.wait_for_traffic(host, [stopped])
            for process in stopped:
                os.kill(process.pid, signal.SIGSTOP)
            others = start_pair(host, network, "ibv_rc_pingpong", ("-c", "-n", "2000"), 4)
            return check_pair("ibv_rc_pingpong", *others,
                              wait_for_pair(host, *others, self.timeout))
        except CaseFailed as failure:
            raise CaseFailed("\n".join((str(failure), *map(tail, (*stopped, *others))))) from None
        finally:
            for process in (*stopped, *others):
                process.kill()


def all_cases():
    gdb = ("gdb", "-q", "-batch", "-return-child-result", "-ex", "run", "--args")
    return [
        Alone(WAITING_LO, "robust/asleep", program="asleep", arguments=(10,), timeout=40,
              expect=r"^([\d.]+) ms of CPU", most=10),
        Alone(LO, "robust/memory-goes", program="memory_goes", arguments=(20,), timeout=120,
              expect=r"thefts under traffic, each seen"),
        Alone(LO, "robust/10000-queue-pairs", program="many_queue_pairs", arguments=(2, 10_000),
              timeout=120, expect=r"growth (-?\d+) KiB", most=1023),
        Alone(LO, "robust/descriptor-reuse", program="descriptor_reuse",
              libraries=("-lrdmacm", "-libverbs"), expect=r"no longer than the channel has it"),
        Alone(LO, "robust/dlvsym", program="by_dlvsym", libraries=("-ldl",),
              expect=r"every function by dlvsym"),
        Sanitized(LO, "robust/asan", sanitizer="address", options="ASAN_OPTIONS=detect_leaks=1"),
        Sanitized(LO, "robust/tsan", sanitizer="thread", options="TSAN_OPTIONS=halt_on_error=1"),
        Sanitized(LO, "robust/ubsan", sanitizer="undefined", options="UBSAN_OPTIONS=halt_on_error=1"),
        Under(LO, "robust/valgrind", program="ibv_rc_pingpong", arguments=("-c", "-n", "50"),
              wrapper=("valgrind", "-q", "--error-exitcode=9"), timeout=120),
        Under(LO, "robust/gdb", program="ibv_rc_pingpong", arguments=("-c", "-n", "200"),
              wrapper=gdb, timeout=90),
        Containers(LO, "robust/containers", program="ibv_rc_pingpong", arguments=("-c", "-n", "500")),
        StoppedInTraffic(LO, "robust/stopped-in-traffic"),
        Pairs(LO, "robust/sixteen-pairs", count=16, timeout=120),
        Pair(LO, "robust/1000-queue-pairs-in-traffic", program="ib_write_bw", timeout=120,
             arguments=("-q", "1000", "-n", "5", "-t", "5", "-s", "4096", "-Q", "1")),
    ]
