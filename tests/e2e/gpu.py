"""GPU memory, on the tests' own libcuda.so.1 (tests/support/cuda): programs can't touch its memory,
and its copies take time.
"""

import dataclasses
import json
import pathlib
import re

from cases import LO, Case
from programs import CaseFailed, CaseSkipped


def stand_in(host):
    """The folder of the stand-in, and that of the tests' programs."""
    tests = pathlib.Path(host.build) / "tests" if host.build else None
    if tests is None or not (tests / "cuda/libcuda.so.1").exists():
        raise CaseSkipped("the build folder has no stand-in for libcuda")
    return tests


@dataclasses.dataclass(frozen=True)
class Transfers(Case):
    """Random transfers between random places of GPU and host memory of two processes."""
    rounds: int = 300

    def run(self, host, network):
        tests = stand_in(host)
        status, output = host.run(network.server.namespace,
                                  [str(tests / "gpu_transfers"), str(self.rounds), "3"],
                                  timeout=120, env={"LD_LIBRARY_PATH": str(tests / "cuda")})
        if status != 0 or "all bytes right" not in output:
            raise CaseFailed(f"gpu_transfers ended with {status}:\n{output}")
        return output.strip().splitlines()[-1]


@dataclasses.dataclass(frozen=True)
class Seen(Case):
    """What programs look for before they register GPU memory, with a GPU and without."""

    def run(self, host, network):
        tests = stand_in(host)
        namespace = network.server.namespace
        for devices, there in ((1, True), (0, False)):
            env = {"LD_LIBRARY_PATH": str(tests / "cuda"),
                   "VERBENA_TEST_CUDA_DEVICES": str(devices)}
            status, output = host.verbena(namespace, ["devices", "--json"], env=env)
            gpus = [entry for entry in json.loads(output) if "gpu" in entry]
            if status != 0 or bool(gpus) != there:
                raise CaseFailed(f"with {devices} GPUs `verbena devices` shows {gpus}")
        return gpus


def all_cases():
    yield Transfers(LO, "ipv4/gpu/transfers")
    yield Transfers(LO, "ipv4/gpu/transfers-udp", wire="udp", rounds=100)
