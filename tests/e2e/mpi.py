"""MPI between ranks that have nothing but our device: Open MPI, MPICH, and both under Slurm's srun."""

import contextlib
import dataclasses
import os
import pathlib
import pwd
import re
import signal
import subprocess
import time

from cases import LO, Case, check_output, next_tcp_port
from clients import FABRIC, bytes_sent, need_ucx
from observing import open_folder
from programs import CaseFailed, CaseSkipped, need_programs, tail

# Of programs/mpi_collectives.c: what a rank sends to each other one by alltoall alone.
ROUNDS, BLOCK = 3, 80000


def mpi_program(host, implementation):
    """programs/mpi_collectives.c, made for "openmpi" or "mpich" when it is needed first."""
    compiler = f"mpicc.{implementation}"
    need_ucx()
    need_programs(compiler, f"mpirun.{implementation}")
    program = os.path.join(host.logs, f"mpi_collectives.{implementation}")
    if not os.path.exists(program):
        source = pathlib.Path(__file__).parent / "programs" / "mpi_collectives.c"
        subprocess.run([compiler, "-O2", "-o", program, str(source)], check=True)
        os.chmod(program, 0o755)
    return program


@dataclasses.dataclass(frozen=True)
class Collectives(Case):
    """Collectives over UCX, whose results the program checks; nothing but our device between the
    ranks: no shared memory, no TCP."""
    implementation: str = ""
    ranks: int = 2

    def run(self, host, network):
        program = mpi_program(host, self.implementation)
        with host.scratch() as folder:
            counting = host.with_options(f"--stats={folder}/stats.json")
            status, output = counting.run(network.server.namespace, self.command(program),
                                          timeout=self.timeout,
                                          env={**self.environment(network), "TMPDIR": folder})
            return self.check(status, output, folder, network)

    def environment(self, network):
        return {"UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": f"{network.server.device}:1"}

    def check(self, status, output, folder, network):
        check_output(status, output, 0, (rf"^{self.ranks} ranks agree",))
        sent = bytes_sent(folder, network.server.device)
        if len(sent) != self.ranks or sent[-1] < ROUNDS * BLOCK * (self.ranks - 1):
            raise CaseFailed(f"the ranks sent {sent} bytes by {network.server.device}: the rest went "
                             "by other means")
        return f"{sum(sent) >> 10} KiB"


@dataclasses.dataclass(frozen=True)
class OpenMpi(Collectives):
    implementation: str = "openmpi"

    # mpirun runs as the root of a user namespace where the tests are an ordinary user's.
    VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                 "OMPI_MCA_pml": "ucx", "OMPI_MCA_btl": "self", "OMPI_MCA_osc": "^ucx"}

    def command(self, program):
        return ("sh", "-c", 'exec mpirun.openmpi -x LD_PRELOAD "$@"', "mpirun", "-np",
                str(self.ranks), "--oversubscribe", "--mca", "plm", "isolated", "-x", "UCX_TLS",
                "-x", "UCX_NET_DEVICES", program)

    def environment(self, network):
        return {**super().environment(network), **self.VARIABLES}


@dataclasses.dataclass(frozen=True)
class Mpich(Collectives):
    implementation: str = "mpich"

    def command(self, program):
        return "mpirun.mpich", "-n", str(self.ranks), program

    def environment(self, network):
        # As if each rank had a node of its own: no shared memory beside UCX.
        return {**super().environment(network), "MPIR_CVAR_NOLOCAL": "1"}


# ---------------------------------------------------------------- Slurm

class Slurm:
    """A cluster of one node, and its configuration, in a folder: munged, slurmctld and slurmd, all as
    the user of the programs, none under Verbena."""

    def __init__(self, host, end, folder):
        self._host = host
        self._end = end
        self._folder = folder
        self.config = os.path.join(folder, "slurm.conf")
        self._started = []

    def __enter__(self):
        try:
            self._write_files()
            self._start("munged", "--foreground", f"--socket={self._folder}/munge",
                        f"--key-file={self._folder}/key", f"--log-file={self._folder}/munge.log",
                        f"--pid-file={self._folder}/munge.pid",
                        f"--seed-file={self._folder}/munge.seed")
            self._wait(lambda: os.path.exists(f"{self._folder}/munge"), "munged has no socket")
            self._start("slurmctld", "-D", "-c", "-i", "-f", self.config)
            self._start("slurmd", "-D", "-N", "node", "-f", self.config)
            self._wait(self._is_idle, "the node isn't idle")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exception):
        """The node's daemon first, so that the controller hears of its jobs' end."""
        for process in reversed(self._started):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
            with contextlib.suppress(CaseFailed):  # it kills what doesn't end
                process.wait(self._host.deadline(5))
        if any(exception):  # a step of a job that hangs may be left, in a session of its own
            for pid in self._end.namespace.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def logs(self):
        return "\n".join(tail(process) for process in self._started)

    @staticmethod
    def _version():
        words = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True).stdout
        year, month = re.search(r"(\d+)\.(\d+)\.\d+", words).groups()
        return int(year), int(month)

    def _write_files(self):
        user = pwd.getpwuid(self._host.uid()).pw_name
        address = self._end.addresses[4]
        key = pathlib.Path(self._folder, "key")
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        if self._version() >= (23, 11):  # from then on it wants cgroups unless told otherwise
            pathlib.Path(self._folder, "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        for name in ("state", "spool"):
            os.mkdir(f"{self._folder}/{name}", 0o755)
        pathlib.Path(self.config).write_text(f"""
ClusterName=test
SlurmctldHost=localhost({address})
SlurmctldPort={next_tcp_port()}
SlurmdPort={next_tcp_port()}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self._folder}/munge
CredType=cred/munge
StateSaveLocation={self._folder}/state
SlurmdSpoolDir={self._folder}/spool
SlurmctldPidFile={self._folder}/slurmctld.pid
SlurmdPidFile={self._folder}/slurmd.pid
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=node NodeAddr={address} CPUs={os.cpu_count()}
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
""")
        os.chmod(self._folder, 0o755)  # munged looks at modes and owners
        if self._host.user:
            for path in (self._folder, *pathlib.Path(self._folder).iterdir()):
                os.chown(path, self._host.user.pw_uid, self._host.user.pw_gid)

    def _start(self, *argv):
        self._started.append(self._host.start(self._end.namespace, argv, preload=False,
                                              env={"SLURM_CONF": self.config}))

    def _is_idle(self):
        return self._host.run(self._end.namespace, ("sinfo", "-h", "-o", "%T"), preload=False,
                              env={"SLURM_CONF": self.config}) == (0, "idle\n")

    def _wait(self, condition, words):
        limit = self._host.deadline(20)
        while not condition():
            if time.monotonic() > limit or any(p.poll() is not None for p in self._started):
                raise CaseFailed(f"{words}\n{self.logs()}")
            time.sleep(0.05)


@dataclasses.dataclass(frozen=True)
class Srun(Case):
    """`verbena run -- srun`: Slurm hands the environment on, so the ranks have our device though
    its daemons don't. Slurm finds no address where there is only loopback."""
    ranks: int = 2
    KINDS = {"pmi2": Mpich, "pmix": OpenMpi}

    def run(self, host, network):
        need_programs("munged", "slurmctld", "slurmd", "srun", "sinfo")
        if not host.user:
            raise CaseSkipped("Slurm's daemons drop their groups as root, which a user namespace's "
                              "root can't: run as root, they are nobody's then")
        programs = {kind: mpi_program(host, case.implementation)
                    for kind, case in self.KINDS.items()}
        words = []
        with open_folder(host) as folder, Slurm(host, network.server, folder) as slurm:
            for kind, program in programs.items():
                words.append(f"{kind}: {self.launch(host, network, slurm, kind, program)}")
        return ", ".join(words)

    def launch(self, host, network, slurm, kind, program):
        case = self.KINDS[kind](self.topology, self.label, ranks=self.ranks)
        with host.scratch() as folder:
            srun = host.with_options(f"--stats={folder}/stats.json").start(
                network.server.namespace, ("srun", "-n", str(self.ranks), "--overcommit",
                                           f"--mpi={kind}", program),
                env={"SLURM_CONF": slurm.config, **case.environment(network)})
            try:
                status = srun.wait(host.deadline(self.timeout))
                return case.check(status, srun.output(), folder, network)
            except CaseFailed as failure:
                raise CaseFailed(f"{failure}\n{tail(srun)}\n{slurm.logs()}") from None
            finally:
                srun.kill()


def all_cases():
    return [*(case(LO, f"{case.implementation}/{ranks}-ranks", ranks=ranks)
              for case in (OpenMpi, Mpich) for ranks in (2, 8)),
            Srun(FABRIC, "slurm/srun")]
