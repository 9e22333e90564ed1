"""Namespaces that hold the machines of a lab: makes them, runs commands in them, and finds out whether a lab is alive.

A lab is process 1 of namespaces of its own, with a janitor outside (c/hold.c says how they end). What stands of it on this machine
is one folder, BASE/NAME; whoever holds the lock on that folder is alive.
"""

import fcntl
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from roamlet_lab.errors import CommandFailed, LabError, NotPossible

BASE = Path("/run/roamlet-lab")
CGROUPS = Path("/sys/fs/cgroup")

# What process 1 of a lab sees: the Debian of all machines, with a layer of its own in memory. Runs in namespaces of their own.
BEGIN = """\
mount --make-rprivate /
mount -t tmpfs -o mode=755 lab {folder}/inside
cd {folder}/inside
mkdir upper work root machines
mount -t overlay lab -o lowerdir={system},upperdir=$PWD/upper,workdir=$PWD/work root
cd root
mkdir -p lab/system lab/programs lab/state lab/machines
mount --bind {system} lab/system
mount --bind {programs} lab/programs
mount --bind {folder} lab/state
mount --bind ../machines lab/machines
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=755 run run
mount -t sysfs sys sys
mount --rbind {cgroups} sys/fs/cgroup
mkdir -p before
pivot_root . before
cd /
umount -l /before
rmdir /before
hostname lab
ip link set lo up
"""


def why_not() -> str | None:
    """Why this user cannot have labs on this machine; None when nothing is known to be in the way. Changes nothing."""
    if os.geteuid() != 0:
        return "a lab takes root, for its network namespaces; type the same line behind sudo"
    if not os.path.exists("/dev/net/tun"):
        return "a lab takes TUN devices, and there is no /dev/net/tun here; try: modprobe tun"
    if not _can_make_networks():
        return (
            "a lab takes network namespaces, and this machine does not let root make any; in a container, start it with "
            "--privileged, or use a virtual machine"
        )
    return None


def _can_make_networks() -> bool:
    """Try it out, in a process of its own."""
    try:
        done = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--fork", "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        return True  # no util-linux, which is a pity, and told when it is needed
    return done.returncode == 0


def is_alive(folder: Path) -> bool:
    """Whether somebody holds the lab in `folder`."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def sweep() -> None:
    """Clear away what is left of labs whose janitor was killed too: a folder and perhaps empty cgroups, never more."""
    if BASE.exists():
        with _base():
            _sweep()
            _rmdir(BASE)


def _sweep() -> None:
    for folder in list(BASE.glob("*")):
        if not is_alive(folder):
            for cgroup in cgroups_of(folder.name):
                for inner in sorted(cgroup.rglob("*/"), reverse=True):
                    _rmdir(inner)
                _rmdir(cgroup)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _base() -> Iterator[None]:
    """The folder of all labs, locked so that no other process makes or sweeps one meanwhile."""
    while True:
        BASE.mkdir(mode=0o700, exist_ok=True)
        try:
            lock = os.open(BASE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # it went with the last lab in it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                same = os.stat(BASE).st_ino == os.fstat(lock).st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield
                return
        finally:
            os.close(lock)


def cgroups_of(name: str) -> list[Path]:
    """Where the systemds of a lab have their groups: one of each hierarchy that a systemd needs here."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / f"roamlet-lab-{name}"]
    return [CGROUPS / kind / f"roamlet-lab-{name}" for kind in ("systemd", "unified") if (CGROUPS / kind).is_dir()]


def _rmdir(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        pass  # it is not empty, or somebody was quicker


class Keeper:
    """A lab's namespaces, to make machines in. Nothing is known here of offices."""

    def __init__(self, folder: Path, programs: Path, janitor: int, pid: int) -> None:
        self.folder = folder
        self.janitor = janitor
        self.pid = pid
        self._hold = str(programs / "hold")
        self._owner: int | None = None

    @classmethod
    def started(cls, name: str, programs: Path, system: Path) -> Self:
        """Make a lab's namespaces. They end with this process, however it ends, until `release`.

        Raises LabError when there is a lab of this name, NotPossible when no namespaces can be made.
        """
        folder = BASE / name
        lock = _locked(folder, name)
        report, report_there = os.pipe()
        owner_there, owner = os.pipe()
        try:
            (folder / "inside").mkdir()
            script = BEGIN.format(folder=folder, system=system, programs=programs, cgroups=CGROUPS)
            words = [str(programs / "hold"), "lab", str(folder), *map(str, cgroups_of(name))]
            _start(words, script, {3: report_there, 4: owner_there, 5: lock})
            os.close(report_there)
            report_there = -1
            with open(report, closefd=False, errors="replace") as stream:
                said = stream.read()
        except BaseException:
            os.close(owner)
            raise
        finally:
            for descriptor in (report, report_there, owner_there, lock):
                if descriptor != -1:
                    os.close(descriptor)
        last = said.strip().splitlines()[-1:]
        if not last or not last[0].startswith("ok "):
            os.close(owner)
            raise NotPossible(
                f"the namespaces of lab {name!r} could not be made: {said.strip() or 'nothing was said'}. A lab takes a kernel "
                "with overlay mounts and namespaces, and root who may make them (a container has to be --privileged)"
            )
        janitor, pid = map(int, last[0].split()[1:])
        keeper = cls(folder, programs, janitor, pid)
        keeper._owner = owner
        return keeper

    def release(self) -> None:
        """Let the namespaces outlive this process; only `end`, from any process, ends them."""
        if self._owner is not None:
            os.write(self._owner, b"k")
            os.close(self._owner)
            self._owner = None

    def end(self) -> None:
        """End everything that runs in the lab, and wait until all of it has gone. It may have gone already."""
        try:
            janitor = os.pidfd_open(self.janitor)
        except ProcessLookupError:
            janitor = -1
        try:
            if janitor != -1 and self._is_ours() and is_alive(self.folder):
                signal.pidfd_send_signal(janitor, signal.SIGTERM)
                _wait_until_readable(janitor)
        finally:
            if janitor != -1:
                os.close(janitor)
            if self._owner is not None:
                os.close(self._owner)
                self._owner = None
        sweep()

    def _is_ours(self) -> bool:
        """Whether the janitor is still the process that had its number when the lab was made."""
        try:
            words = Path(f"/proc/{self.janitor}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[1:3] == [b"lab", os.fsencode(self.folder)]

    def enter(self, machine: int, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in the machine with this process 1, as its root; 1 is the lab itself."""
        return [self._hold, "enter", str(self.pid), str(machine), *argv]

    def run(
        self, script: str, *, machine: int = 1, name: str = "the lab", data: bytes = b"", timeout: float = 60
    ) -> str:
        """Run a shell script in a machine, with `data` as its input; returns what it said. Raises CommandFailed with that."""
        try:
            done = subprocess.run(
                self.enter(machine, ["sh", "-euc", script]),
                input=data,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            first = script.strip().splitlines()[0]
            raise LabError(
                f"{name} has not done `{first:.200}` within {timeout:g} s; is this machine very busy?"
            ) from error
        said = done.stdout.decode(errors="replace")
        if done.returncode:
            raise CommandFailed(name, ["sh", "-c", script.strip().splitlines()[0], "..."], done.returncode, said)
        return said

    def make_machines(self, scripts: dict[str, str]) -> dict[str, int]:
        """Make a machine for each name, all at once; returns the pids, inside the lab, of their processes 1.

        The script runs as the machine's first process does: in namespaces of its own, which still show the lab's files.
        """
        started: dict[str, subprocess.Popen[str]] = {}
        for name, script in scripts.items():
            started[name] = subprocess.Popen(
                self.enter(1, ["/lab/programs/hold", "node"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stdin = started[name].stdin
            assert stdin is not None
            stdin.write(script)  # less than a pipe holds
            stdin.close()
            started[name].stdin = None
        ended = {name: (*process.communicate(), process.returncode) for name, process in started.items()}
        for name, (_, said, returncode) in ended.items():
            if returncode:
                raise CommandFailed(name, ["the script that makes the machine"], returncode, said)
        return {name: int(out) for name, (out, _, _) in ended.items()}


def _locked(folder: Path, name: str) -> int:
    """Make the lab's folder and hold it."""
    while True:
        with _base():
            _sweep()
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                raise LabError(
                    f"there is a lab {name!r} already; take it down first: roamlet lab down --name {name}"
                ) from None
            except FileNotFoundError:
                continue  # a janitor has removed BASE, with what was the last lab in it
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            return lock


def _start(argv: list[str], data: str, descriptors: dict[int, int]) -> None:
    """Run a command that goes to the background, with `data` as its input and these descriptors under these numbers."""
    # Copies above all those numbers first: one of ours may be where another belongs.
    high = {wanted: fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 64) for wanted, ours in descriptors.items()}
    try:
        with tempfile.TemporaryFile() as stream:
            stream.write(data.encode())
            stream.seek(0)
            actions = [(os.POSIX_SPAWN_DUP2, stream.fileno(), 0)]
            actions += [(os.POSIX_SPAWN_DUP2, copy, wanted) for wanted, copy in high.items()]
            pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
        os.waitpid(pid, 0)
    finally:
        for copy in high.values():
            os.close(copy)


def _wait_until_readable(descriptor: int) -> None:
    select.select([descriptor], [], [], 30)
