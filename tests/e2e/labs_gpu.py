"""Lab gpu where something is missing or broken: no driver, no GPU, calls that fail, a wrong byte.

The GPU is the stand-in of tests/support/cuda; its variables (control.h) say what goes wrong.
"""

import ctypes
import dataclasses

from cases import LO, Case, check_output, next_tcp_port
from connections import wait_for_line
from programs import CaseFailed, CaseSkipped, tail

FAILED, SKIPPED = 1, 77


def need_stand_in(host):
    if not host.cuda:
        raise CaseSkipped("the stand-in for libcuda.so.1 isn't built")


@dataclasses.dataclass(frozen=True)
class Broken(Case):
    """Both ends get these variables."""
    variables: tuple = ()
    arguments: tuple = ()
    status: int = FAILED
    says: tuple = ()

    def run(self, host, network):
        need_stand_in(host)
        status, output = host.run(network.server.namespace,
                                  [host.verbena, "lab", "gpu", *self.arguments], preload=False,
                                  timeout=self.timeout, env=dict(self.variables))
        return check_output(status, output, self.status, self.says)


@dataclasses.dataclass(frozen=True)
class WithoutDriver(Case):
    """There is no libcuda.so.1: the lab is skipped, and says why."""

    def run(self, host, network):
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            pass
        else:
            raise CaseSkipped("this machine has a libcuda.so.1")
        status, output = host.run(network.server.namespace, [host.verbena, "lab", "gpu"],
                                  preload=False, env={"LD_LIBRARY_PATH": ""})
        return check_output(status, output, SKIPPED, ("SKIPPED: no NVIDIA driver: libcuda.so.1: ",))


@dataclasses.dataclass(frozen=True)
class WrongByte(Case):
    """The server's driver copies a byte wrong, once. Both ends say which transfer it was in."""
    arguments: tuple = ()

    def run(self, host, network):
        need_stand_in(host)
        lab = [host.verbena, "lab", "gpu", "--port", str(next_tcp_port()), *self.arguments]
        # Which of the two brings the first message depends on its size.
        faults = "cuMemcpyHtoDAsync:1:flip,cuMemcpy2DAsync:1:flip"
        server = host.start(network.server.namespace, [*lab[:3], "server", *lab[3:]], preload=False,
                            env={"TEST_CUDA_FAIL": faults})
        try:
            wait_for_line(host, server, r"\bready$")
            status, output = host.run(network.server.namespace,
                                      [*lab[:3], "client", "127.0.0.1", *lab[3:]], preload=False,
                                      timeout=self.timeout)
            wrong = r"^{}: WRITE +GPU +to GPU *, round 0: byte \d+ of \d+ isn't what was sent$"
            check_output(status, output, FAILED, (wrong.format("client"),))
            return check_output(server.wait(host.deadline(self.timeout)), server.output(), FAILED,
                                (wrong.format("server"),))
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()


def fails(name, plan, *says, arguments=(), status=FAILED):
    return Broken(LO, f"labs/gpu/{name}", variables=(("TEST_CUDA_FAIL", plan),),
                  arguments=arguments, status=status, says=says)


def all_cases():
    return [
        WithoutDriver(LO, "labs/gpu/no-driver"),
        Broken(LO, "labs/gpu/no-gpu", variables=(("TEST_CUDA_DEVICES", "0"),), status=SKIPPED,
               says=("SKIPPED: .*finds no GPU",)),
        Broken(LO, "labs/gpu/second-gpu", variables=(("TEST_CUDA_DEVICES", "2"),), status=0,
               arguments=("--gpu", "1", "--size", "64K"),
               says=(r"^client \| stand-in for a GPU 1 and vb_lo;", "each byte checked")),
        fails("driver-broken", "cuInit:1:999", r"^server: cuInit: CUDA_ERROR_UNKNOWN \(unknown"),
        # The first allocation is the result of the checking kernel.
        fails("out-of-memory", "cuMemAlloc:2:2",
              r"^(client|server): cuMemAlloc of \d+ bytes \(choose a smaller --size\): "
              r"CUDA_ERROR_OUT_OF_MEMORY"),
        fails("no-jit", "cuModuleLoadData:1:218",
              r"^server: cuModuleLoadData of the lab's kernels: CUDA_ERROR_INVALID_PTX"),
        fails("no-dma-buf", "cuMemGetHandleForAddressRange:*:801",
              "SKIPPED: this driver exports no dma-buf", arguments=("--dmabuf",), status=SKIPPED),
        # The device's stream: the transfer fails, and the program is told.
        fails("device-cant-copy", "cuMemcpy2DAsync:*:700", r"LOC_PROT_ERR|REM_OP_ERR|REM_ACCESS_ERR",
              arguments=("--size", "64K")),
        WrongByte(LO, "labs/gpu/wrong-byte"),
        WrongByte(LO, "labs/gpu/wrong-byte-of-a-small-message", arguments=("--size", "100")),
    ]
