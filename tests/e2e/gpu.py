"""GPU memory, on the tests' own libcuda.so.1 (tests/support/cuda): programs can't touch its memory,
and its copies take time.
"""

import dataclasses
import json
import os

from cases import LO, Case, check_output
from labs_gpu import need_stand_in
from programs import CaseFailed


@dataclasses.dataclass(frozen=True)
class Transfers(Case):
    """Random transfers between random places of GPU and host memory of two processes."""
    rounds: int = 300

    def run(self, host, network):
        need_stand_in(host)
        status, output = host.run(network.server.namespace,
                                  [os.path.join(host.cuda, "gpu_transfers"), str(self.rounds), "3"],
                                  timeout=120, env={"LD_LIBRARY_PATH": host.cuda})
        if status != 0 or "all bytes right" not in output:
            raise CaseFailed(f"gpu_transfers ended with {status}:\n{output}")
        return output.strip().splitlines()[-1]


@dataclasses.dataclass(frozen=True)
class Misuse(Case):
    """Wrong registrations, inline data, and memory that is freed before its request."""

    def run(self, host, network):
        need_stand_in(host)
        status, output = host.run(network.server.namespace,
                                  [os.path.join(host.cuda, "gpu_misuse")], timeout=60,
                                  env={"LD_LIBRARY_PATH": host.cuda, "VERBENA_LOG": "error"})
        return check_output(status, output, 0, ("a WRITE to freed memory: remote access error",
                                                "a WRITE from freed memory: local protection error"))


@dataclasses.dataclass(frozen=True)
class Devices(Case):
    """`verbena devices` names the GPUs whose memory can be registered."""

    def run(self, host, network):
        need_stand_in(host)
        for count in (0, 2):
            env = {"LD_LIBRARY_PATH": host.cuda, "TEST_CUDA_DEVICES": str(count)}
            shown = {}
            for option in ((), ("--json",)):
                status, shown[option] = host.run(network.server.namespace,
                                                 [host.verbena, "devices", *option], preload=False,
                                                 env=env)
                if status != 0:
                    raise CaseFailed(f"verbena devices ended with {status}:\n{shown[option]}")
            gpus = [entry for entry in json.loads(shown[("--json",)]) if "gpu" in entry]
            lines = shown[()].count("ibv_reg_mr with a pointer of CUDA's")
            if len(gpus) != count or lines != count:
                raise CaseFailed(f"{count} GPUs, and it shows {gpus} and\n{shown[()]}")
        return gpus[0]["gpu"]


@dataclasses.dataclass(frozen=True)
class PeerMemory(Case):
    """What NCCL and UCX look for is there with a GPU's driver, and not without one."""

    def run(self, host, network):
        need_stand_in(host)
        script = ("import ctypes, os, sys\n"
                  "if sys.argv[1] == 'driver': ctypes.CDLL('libcuda.so.1')\n"
                  "for path in ('/sys/module/nvidia_peermem/version',"
                  " '/sys/kernel/mm/memory_peers/nv_mem/version'):\n"
                  "  print(os.path.exists(path) and open(path).read().strip() != '')\n"
                  "print(os.path.exists('/sys/module/nvidia_peermem/other'))\n")
        if os.path.exists("/dev/nvidiactl"):
            wanted = {"driver": "True True False", "none": "True True False"}
        else:
            wanted = {"driver": "True True False", "none": "False False False"}
        for kind, lines in wanted.items():
            status, output = host.run(network.server.namespace, ["python3", "-c", script, kind],
                                      env={"LD_LIBRARY_PATH": host.cuda, "VERBENA_ONLY": "1"})
            if status != 0 or output.split() != lines.split():
                raise CaseFailed(f"{kind}: {output} instead of {lines}")
        return "shown with a driver only"


def all_cases():
    yield Transfers(LO, "ipv4/gpu/transfers")
    yield Transfers(LO, "ipv4/gpu/transfers-udp", wire="udp", rounds=100)
    yield Misuse(LO, "ipv4/gpu/misuse")
    yield Misuse(LO, "ipv4/gpu/misuse-udp", wire="udp")
    yield Devices(LO, "gpu/devices")
    yield PeerMemory(LO, "gpu/peer-memory")
