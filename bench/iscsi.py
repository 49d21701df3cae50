#!/usr/bin/env python3
"""An iSCSI disk over RDMA (iSER) on Verbena beside the same over TCP: tgt's target, libiscsi's
initiator. Both sleep until something comes; neither polls.

  iscsi.py BUILD   BUILD holds bin/verbena; Debian's packages tgt and libiscsi-bin

One tgtd with two targets. Their disks keep nothing and read as zeros, so that transports are measured
and no disk. Random reads, medians of interleaved rounds; the goal is TCP's rate.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import versus  # noqa: E402
from programs import Failed, Missing, listening, spoken, stop  # noqa: E402

INITIATOR = "iqn.2001-04.io.verbena:client"
NAMES = {"iser": "iqn.2001-04.io.verbena:rdma", "iscsi": "iqn.2001-04.io.verbena:tcp"}
PORT = 3260  # tgtd refuses any other for iSER
BLOCK = 512

# bytes, depth
LOADS = ((4096, 1), (4096, 32), (65_536, 32), (262_144, 8))


class Tgt:
    """A target daemon that runs, and its initiators."""

    def __init__(self, args, folder):
        self._args = args
        self._log_path = pathlib.Path(folder, "log")
        self._environment = {**os.environ, "TGT_IPC_SOCKET": f"{folder}/control",
                             "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
        for program, package in (("tgtd", "tgt"), ("tgtadm", "tgt"), ("iscsi-perf", "libiscsi-bin")):
            if not shutil.which(program, path=self._environment["PATH"]):
                raise Missing(f"there is no {program} here (Debian's package {package} has it)")
        if listening(PORT):
            raise Missing(f"port {PORT} is in use, and tgtd can't take another one for iSER")

    def _verbena(self, *command):
        return [self._args.build / "bin" / "verbena", "run", "--wire", self._args.wire, "--", *command]

    def __enter__(self):
        self._log = self._log_path.open("w")
        self._daemon = subprocess.Popen(self._verbena("tgtd", "-f", "--iser", "pool_sz_mb=128"),
                                        stdout=self._log, stderr=self._log, env=self._environment,
                                        start_new_session=True)
        try:
            self._wait()
            for number, (driver, name) in enumerate(NAMES.items(), 1):
                self._admin(driver, "new", "target", number, "-T", name)
                self._admin(driver, "new", "logicalunit", number, "--lun", "1", "--bstype", "null",
                            "-b", "null")
                self._admin(driver, "bind", "target", number, "-I", "ALL")
                # tgt before 1.0.95 wants both over iSER.
                self._admin(driver, "bind", "target", number, "-Q", INITIATOR)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        stop(self._daemon)
        self._log.close()

    def _wait(self):
        end = time.monotonic() + 20
        while not listening(PORT):
            if self._daemon.poll() is not None or time.monotonic() > end:
                raise Failed(f"tgtd doesn't listen: {self._log_path.read_text()}")
            time.sleep(0.05)

    def _admin(self, driver, operation, mode, target, *options):
        command = ["tgtadm", "--lld", driver, "--op", operation, "--mode", mode, "--tid",
                   str(target), *options]
        done = subprocess.run(command, capture_output=True, text=True, env=self._environment,
                              timeout=20)
        if done.returncode != 0:
            raise Failed(f"{spoken(command)}: {done.stderr}{self._log_path.read_text()}")

    def perf(self, driver, size, depth):
        command = ["iscsi-perf", "-i", INITIATOR, "-m", str(depth), "-b", str(size // BLOCK), "-t",
                   str(self._args.seconds), "-r", f"{driver}://127.0.0.1/{NAMES[driver]}/1"]
        if driver == "iser":
            command = self._verbena(*command)
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  env=self._environment, timeout=self._args.seconds + 30)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{spoken(command)}: not done after {error.timeout} s") from error
        rates = re.findall(r"iops average (\d+) ", done.stdout)
        if done.returncode != 0 or not rates or int(rates[-1]) == 0:
            raise Failed(f"{spoken(command)}: status {done.returncode}: {done.stderr}{done.stdout}")
        return {"per_s": float(rates[-1]), "gb_per_s": float(rates[-1]) * size / 1e9}

    def rows(self):
        for size, depth in LOADS:
            def take(driver, load=(size, depth)):
                return self.perf(driver, *load)

            yield versus.Row(f"randread {size >> 10} KiB, depth {depth}",
                             lambda take=take: take("iser"), lambda take=take: take("iscsi"))


def main():
    args = versus.arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder, Tgt(args, folder) as tgt:
        return versus.compare("iSCSI, tgt and libiscsi", tgt.rows(), args, "per_s",
                              "requests a second")


if __name__ == "__main__":
    versus.main(main)
