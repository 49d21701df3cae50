"""iSCSI over RDMA (iSER): tgt's target and libiscsi's initiators, both in user space."""

import dataclasses
import os
import pathlib
import time

from cases import Case, check_output
from clients import FABRIC, bytes_sent
from programs import CaseFailed, need_programs, tail

TARGET, INITIATOR = "iqn.2001-04.test:disk", "iqn.2001-04.test:client"
BLOCK = 512
DISK = 4 << 20
WRITTEN = 256 * BLOCK  # at each end of the disk, all bytes equal, by the test Write10.Simple

# READ by RDMA WRITE; VERIFY and WRITE by RDMA READ, whose data tgtd compares with its disk or keeps.
TESTS = ("Verify10.Simple", "Verify10.Mismatch", "Write10.Simple")


class Target:
    """tgtd with one disk: a file of random bytes."""

    def __init__(self, host, end, folder):
        self._host = host
        self._end = end
        self._folder = folder
        self.disk = pathlib.Path(folder, "disk")
        self.before = os.urandom(DISK)

    def __enter__(self):
        self.disk.write_bytes(self.before)
        if self._host.user:
            os.chown(self.disk, self._host.user.pw_uid, self._host.user.pw_gid)
        # A smaller pool than its gigabyte. It has no use for port=: it refuses every number.
        self._process = self._host.with_options(f"--stats={self._folder}/stats-target.json").start(
            self._end.namespace, ("tgtd", "-f", "--iser", "pool_sz_mb=128"), env=self._env())
        try:
            self._host.wait_listening(self._end.namespace, 3260, self._process)  # its TCP side
            self.admin("new", "target", "-T", TARGET)
            self.admin("new", "logicalunit", "--lun", "1", "-b", str(self.disk))
            for binding in self._bindings():
                self.admin("bind", "target", *binding)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exception):
        self._process.kill()

    def _env(self):
        return {"TGT_IPC_SOCKET": f"{self._folder}/control"}

    @staticmethod
    def _bindings():
        """tgt before 1.0.95 wants both over iSER, and says "Target not found"."""
        return ("-I", "ALL"), ("-Q", INITIATOR)

    def admin(self, operation, mode, *arguments):
        check_output(*self._tgtadm("--op", operation, "--mode", mode, "--tid", "1", *arguments), 0, ())

    def _tgtadm(self, *arguments):
        return self._host.run(self._end.namespace, ("tgtadm", "--lld", "iser", *arguments),
                              preload=False, env=self._env())

    def stop(self):
        """As its administrator does, so that it writes its counters."""
        for binding in self._bindings():
            self.admin("unbind", "target", *binding)
        # It keeps a connection until the end of its TIMEWAIT state.
        limit = self._host.deadline(20)
        while (answer := self._tgtadm("--op", "delete", "--mode", "target", "--tid", "1"))[0] != 0:
            if "still active" not in answer[1] or time.monotonic() > limit:
                check_output(*answer, 0, ())
            time.sleep(0.1)
        check_output(*self._tgtadm("--op", "delete", "--mode", "system"), 0, ())
        if self._process.wait(self._host.deadline(10)) != 0:
            raise CaseFailed(f"tgtd ended with {self._process.poll()}")

    def log(self):
        return tail(self._process)


@dataclasses.dataclass(frozen=True)
class Iser(Case):
    def run(self, host, network):
        need_programs("tgtd", "tgtadm", "iscsi-inq", "iscsi-readcapacity16", "iscsi-test-cu")
        with host.scratch() as folder, Target(host, network.server, folder) as target:
            try:
                self.ask(host, network, folder)
                target.stop()
            except CaseFailed as failure:
                raise CaseFailed(f"{failure}\n{target.log()}") from None
            self.check_disk(target)
            sent = [bytes_sent(folder, end.device) for end in (network.server, network.client)]
        # What it read; what tgtd verified and wrote.
        for counts, least in zip(sent, (DISK, DISK)):
            if sum(counts) < least:
                raise CaseFailed(f"{sum(counts)} bytes went by our device, not {least}")
        return f"{sum(sent[0]) >> 20} MiB from the target, {sum(sent[1]) >> 20} MiB to it"

    @staticmethod
    def ask(host, network, folder):
        url = f"iser://{network.server.addresses[4]}/{TARGET}/1"
        for program, expected in (("iscsi-inq", r"^Product:VIRTUAL-DISK"),
                                  ("iscsi-readcapacity16", rf"^Total size:{DISK}$")):
            status, output = host.run(network.client.namespace, (program, "-i", INITIATOR, url))
            check_output(status, output, 0, (expected,))
        for test in TESTS:
            counting = host.with_options(f"--stats={folder}/stats-{test}.json")
            status, output = counting.run(
                network.client.namespace, ("iscsi-test-cu", "-i", INITIATOR, "--dataloss",
                                           f"--test=ALL.{test}", url), timeout=60)
            check_output(status, output, 0, (r"^ +tests +1 +1 +1 +0 +0$",))
            if "SKIPPED" in output:
                raise CaseFailed(f"{test} was skipped:\n{output}")

    @staticmethod
    def check_disk(target):
        after = target.disk.read_bytes()
        for start in (0, DISK - WRITTEN):
            end = after[start:start + WRITTEN]
            if len(set(end)) != 1:
                raise CaseFailed(f"what was written at {start} isn't there")
        if after[WRITTEN:-WRITTEN] != target.before[WRITTEN:-WRITTEN]:
            raise CaseFailed("bytes changed that nobody wrote")


def all_cases():
    return [Iser(FABRIC, "iser/tgt-libiscsi")]
