#!/usr/bin/env python3
"""SPDK's NVMe over Fabrics target and initiator: its RDMA transport on Verbena beside its TCP one.

  spdk.py BUILD SPDK   BUILD holds bin/verbena; SPDK is SPDK's folder of sources, built, with
                       build/bin/nvmf_tgt and build/bin/spdk_nvme_perf

One target with both listeners, pinned to a core, with a disk in its memory; the initiator is pinned to
another core. Both poll. Medians of interleaved rounds; the goal is TCP's rate.

How to build SPDK 26.05 on Debian 12, with Debian's DPDK (libdpdk-dev 22.11), libaio-dev, libfuse3-dev,
libjson-c-dev, libncurses-dev, uuid-dev, nasm, python3-jinja2, python3-pyelftools and python3-tabulate (for
/usr/bin/python3); isa-l c196241 and isa-l_crypto 07d0b25 lie in SPDK's folder:

  sed -i 's/minor > 4/minor > 11/' lib/env_dpdk/pci_dpdk.c
  sed -i 's/rte_log rte_telemetry rte_argparse/rte_telemetry/' lib/env_dpdk/env.mk
  sed -i -E '/^DIRS-y \\+= (trace|trace_record|iscsi_tgt|spdk_tgt|spdk_lspci|spdk_top|spdk_dd)$/d' app/Makefile
  ./configure --with-dpdk --with-rdma --with-shared --disable-tests --disable-unit-tests \\
    --disable-examples --without-vhost --without-virtio --without-crypto
  for d in isalbuild isalcryptobuild include lib; do make -C $d; done
  for m in sock blob accel keyring scheduler env_dpdk bdev blobfs event fsdev bdev event; do
    make -k -C module/$m; done   # the second time for what the first one missed
  make -C app
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import versus  # noqa: E402
from programs import Failed, Missing, free_port, spoken, stop  # noqa: E402

NQN = "nqn.2026-01.io.verbena:bench"
BUFFERS = 16_384  # for both transports
DISK, BLOCK = 128 << 20, 512
LARGEST = 131_072
CAPSULE = 8192  # writes up to this size carry their data
START_LIMIT = 60  # seconds until the target answers; it registers all its memory

# bytes, depth
LOADS = ((4096, 1), (4096, 128), (LARGEST, 32))


class Rpc:
    """The target's JSON-RPC."""

    def __init__(self, path, target):
        end = time.monotonic() + START_LIMIT
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(START_LIMIT)
        while True:
            try:
                self._socket.connect(path)
                return
            except (FileNotFoundError, ConnectionRefusedError):
                if target.poll() is not None or time.monotonic() > end:
                    raise Failed("nvmf_tgt doesn't start") from None
                time.sleep(0.05)

    def __call__(self, method, **parameters):
        request = {"jsonrpc": "2.0", "id": 1, "method": method}
        if parameters:
            request["params"] = parameters
        self._socket.sendall(json.dumps(request).encode())
        text = ""
        while True:
            data = self._socket.recv(65_536)
            if not data:
                raise Failed(f"nvmf_tgt ended in {method}")
            text += data.decode()
            try:
                answer = json.loads(text)
            except ValueError:
                continue
            if "error" in answer:
                raise Failed(f"{method}: {answer['error']}")
            return answer["result"]


class Spdk:
    """A target that runs, and its initiators."""

    def __init__(self, args, folder):
        self._args = args
        self._folder = folder
        self._programs = args.spdk / "build" / "bin"
        self._ports = {"RDMA": free_port(), "TCP": free_port()}
        libraries = [args.spdk / part for part in ("build/lib", "isa-l/.libs", "isa-l-crypto/.libs",
                                                   "dpdk/build/lib")]
        self._environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
        for program in ("nvmf_tgt", "spdk_nvme_perf"):
            if not (self._programs / program).exists():
                raise Missing(f"{self._programs / program} isn't built")

    def _command(self, program, core, *options, rdma=True):
        verbena = [self._args.build / "bin" / "verbena", "run", "--wire", self._args.wire, "--"]
        command = [self._programs / program, "--no-huge", *options, f"{1 << core:#x}"]
        return [str(word) for word in (verbena if rdma else []) + command]

    def __enter__(self):
        path = f"{self._folder}/rpc"
        self._log = open(f"{self._folder}/target", "w")
        command = self._command("nvmf_tgt", self._args.cores[0], "-s", 1024, "-r", path,
                                "--wait-for-rpc", "--disable-cpumask-locks", "-m")
        self._target = subprocess.Popen(command, stdout=self._log, stderr=self._log,
                                        env=self._environment, start_new_session=True)
        try:
            self._set_up(Rpc(path, self._target))
        except Failed as failure:
            self.__exit__()
            raise Failed(f"{failure}\n{self.log()}") from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        stop(self._target)
        self._log.close()

    def log(self):
        return pathlib.Path(self._log.name).read_text()[-2000:]

    def _set_up(self, rpc):
        rpc("iobuf_set_options", small_pool_count=BUFFERS, large_pool_count=1024)
        rpc("framework_start_init")
        rpc("framework_wait_init")
        for transport in self._ports:
            rpc("nvmf_create_transport", trtype=transport, max_io_size=LARGEST,
                io_unit_size=LARGEST, in_capsule_data_size=CAPSULE)
        rpc("bdev_malloc_create", name="Malloc0", num_blocks=DISK // BLOCK, block_size=BLOCK)
        rpc("nvmf_create_subsystem", nqn=NQN, allow_any_host=True)
        rpc("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "Malloc0"})
        for transport, port in self._ports.items():
            rpc("nvmf_subsystem_add_listener", nqn=NQN,
                listen_address={"trtype": transport, "adrfam": "IPv4", "traddr": "127.0.0.1",
                                "trsvcid": str(port)})

    def perf(self, transport, kind, size, depth):
        where = (f"trtype:{transport} adrfam:IPv4 traddr:127.0.0.1 "
                 f"trsvcid:{self._ports[transport]} subnqn:{NQN}")
        command = self._command("spdk_nvme_perf", self._args.cores[1], "-s", 512, "-q", depth, "-o",
                                size, "-w", kind, "-t", self._args.seconds, "-r", where, "-c",
                                rdma=transport == "RDMA")
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=self._environment,
                                  timeout=self._args.seconds + START_LIMIT)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{spoken(command)}: not done after {error.timeout} s") from error
        row = re.search(r"^Total\s*:\s*([\d.]+)\s+([\d.]+)\s+([\d.]+)", done.stdout, re.MULTILINE)
        if done.returncode != 0 or row is None or float(row[1]) == 0:
            raise Failed(f"{spoken(command)}: status {done.returncode}: {done.stderr}{done.stdout}")
        return {"per_s": float(row[1]), "gb_per_s": float(row[1]) * size / 1e9,
                "average_us": float(row[3])}

    def rows(self):
        for size, depth in LOADS:
            for kind in ("randread", "randwrite"):
                def take(transport, load=(kind, size, depth)):
                    return self.perf(transport, *load)

                yield versus.Row(f"{kind} {size >> 10} KiB, depth {depth}",
                                 lambda take=take: take("RDMA"), lambda take=take: take("TCP"))


def main():
    args = versus.arguments(__doc__, spdk="SPDK's folder")
    with tempfile.TemporaryDirectory() as folder, Spdk(args, folder) as spdk:
        return versus.compare("SPDK, NVMe over Fabrics", spdk.rows(), args, "per_s",
                              "requests a second")


if __name__ == "__main__":
    versus.main(main)
