"""Slurm on one machine: Debian's controller and node daemon in namespaces of their own, which end with whoever started them.

Nothing of the machine is changed: over /usr and /etc of that mount namespace lie the unpacked packages and the test's files, read
only; /run is its own, and so are the network, which has a loopback alone, and the processes. Takes root.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools import unpack_debian

REPOSITORY = Path(__file__).parents[2]
UNPACKED = REPOSITORY / ".venv" / "slurm"
NODE, SECOND = "roamlet-node", "roamlet-second"
COMMANDS = ("srun", "salloc", "sbatch", "scancel", "scontrol", "squeue")

# No munge: one machine, one user, and a network that ends here.
CONFIGURATION = f"""\
ClusterName=roamlet
SlurmctldHost={NODE}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd-%n.pid
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool-%n
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdLogFile=/run/slurm/slurmd-%n.log
InactiveLimit=0
KillWait=2
NodeName={NODE} NodeAddr=127.0.0.1 Port=17001 CPUs=4 State=UNKNOWN
NodeName={SECOND} NodeAddr=127.0.0.1 Port=17002 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
START = """\
set -e
mount -t overlay roamlet -o "lowerdir={folder}/etc:/etc" /etc
mount -t overlay roamlet -o "lowerdir={folder}/usr:{unpacked}/usr:/usr" /usr
mount -t tmpfs roamlet /run
mount -t proc proc /proc
mkdir -p /run/slurm/state
echo {node} > /proc/sys/kernel/hostname
{python} -c '{loopback}'
export SLURM_CONF={folder}/slurm.conf
/usr/sbin/slurmctld-wlm -D &
/usr/sbin/slurmd-wlm -D -N {node} &
/usr/sbin/slurmd-wlm -D -N {second} &
echo started
cat > /dev/null
"""
# SIOCSIFFLAGS: IFF_UP | IFF_RUNNING; SIOCSIFADDR: the resolver takes a network with nothing but 127.0.0.1 for none at all.
LOOPBACK = (
    "import fcntl, socket, struct; s = socket.socket(); "
    'fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41)); '
    'fcntl.ioctl(s, 0x8916, struct.pack("16sHH4s8x", b"lo:1", 2, 0, socket.inet_aton("192.0.2.7")))'
)
PATIENCE = 40.0  # seconds until the node is there


class CannotBeMade(Exception):
    """This machine, or whoever runs the tests, cannot do that; the message says why."""


@dataclass(frozen=True)
class Slurm:
    """A cluster of one node. `first` is the number of a process in its namespaces."""

    folder: Path
    first: int

    def command(self, *words: str) -> list[str]:
        """The words that run a program in the cluster's namespaces."""
        inside = ["nsenter", "--target", str(self.first), "--all", "--", "env", f"SLURM_CONF={self.folder}/slurm.conf"]
        return [*inside, *words]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=100
        )

    def install(self, into: Path) -> None:
        """Put the user's commands into the folder `into`."""
        for name in COMMANDS:
            path = into / name
            inside = f'[ -d /run/slurm/state ] && exec /usr/bin/{name} "$@"'  # what salloc starts is in there
            path.write_text(f'#!/bin/sh\n{inside}\nexec {" ".join(self.command("/usr/bin/" + name))} "$@"\n')
            path.chmod(0o755)

    def logs(self) -> str:
        return self.run("sh", "-c", "tail -n 30 /run/slurm/*.log").stdout


@contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """Start it and wait until the node is idle. Raises CannotBeMade."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise CannotBeMade("a cluster of one's own takes root and unshare")
    try:
        unpack_debian.unpack(UNPACKED, ["slurm-client", "slurmctld", "slurmd"])
    except unpack_debian.CannotUnpack as reason:
        raise CannotBeMade(str(reason)) from None
    (folder / "etc").mkdir()
    (folder / "etc" / "hosts").write_text(f"127.0.0.1 localhost {NODE} {SECOND}\n")
    (folder / "usr" / "sbin").mkdir(parents=True)
    (folder / "usr" / "sbin" / "slurmstepd").symlink_to("slurmstepd-wlm")  # as the packages' own installation does
    (folder / "slurm.conf").write_text(CONFIGURATION)
    script = START.format(
        folder=folder, unpacked=UNPACKED, node=NODE, second=SECOND, python="/usr/bin/python3", loopback=LOOPBACK
    )
    words = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--net",
        "--uts",
        "--ipc",
        "--pid",
        "--fork",
        "--kill-child",
    ]
    process = subprocess.Popen(
        [*words, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        if process.stdout.readline() != "started\n":
            raise CannotBeMade(f"no namespaces for Slurm: {process.stderr.read()}")
        first = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        slurm = Slurm(folder, first)
        _wait_for_the_node(slurm)
        yield slurm
    finally:
        process.kill()  # its child is killed with it, and as that is the first of its namespace, so are all in there
        process.wait(20)
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def _wait_for_the_node(slurm: Slurm) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        tried = slurm.run("/usr/bin/srun", "--immediate=2", "--nodes=2", "/bin/true")
        if tried.returncode == 0:
            return
        if time.monotonic() > end:
            raise CannotBeMade(f"Slurm did not start: {tried.stderr}\n{slurm.logs()}")
        time.sleep(0.5)
