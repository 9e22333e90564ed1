"""CPU time of whole process trees: control groups of version 2, which a process that detaches itself does not leave.

A group counts without any controller being switched on, so this works beside a systemd and beside hierarchies of version 1.
Takes root.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from roamlet_lab.errors import NotPossible

PATIENCE = 10  # seconds that killed processes have to end


class Group:
    """Processes that were started by `argv` and all their children."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def argv(self, words: Sequence[str]) -> list[str]:
        """The command line that runs `words` in the group."""
        return ["sh", "-c", 'echo 0 >"$0/cgroup.procs"; exec "$@"', str(self._path), *words]

    def cpu(self) -> float:
        """Seconds that all processes of the group have used so far, those that have ended included."""
        lines = (self._path / "cpu.stat").read_text().splitlines()
        used = dict(line.split() for line in lines)
        return int(used["usage_usec"]) / 1e6

    def size(self) -> int:
        """How many processes are in it now."""
        return len((self._path / "cgroup.procs").read_text().split())

    def settle(self, size: int, timeout: float) -> bool:
        """Wait until no more than `size` processes are left; False when it has taken longer than `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.size() > size:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def kill(self) -> None:
        """Kill what is in the group, and wait until it has gone."""
        if self.size():
            (self._path / "cgroup.kill").write_text("1")
            self.settle(0, PATIENCE)

    def remove(self) -> None:
        self.kill()
        self._path.rmdir()


@contextmanager
def folder() -> Iterator[Path]:
    """A folder in which groups can be made; what is left of them goes at the end. Raises NotPossible without any."""
    with tempfile.TemporaryDirectory(prefix="roamlet-bench-") as scratch:
        mounted = _mounted()
        if mounted is None:
            mounted = Path(scratch)
            _mount(mounted)
        base = mounted / f"roamlet-bench-{os.getpid()}"
        try:
            base.mkdir()
            if not (base / "cpu.stat").exists():
                raise NotPossible(f"control groups in {mounted} have no cpu.stat, which takes Linux 4.15")
            yield base
        except PermissionError as error:
            raise NotPossible(f"control groups cannot be made in {mounted}, which takes root: {error}") from error
        finally:
            if base.exists():
                for path in (*base.iterdir(), base):
                    if path.is_dir():
                        Group(path).remove()
            if mounted == Path(scratch):
                subprocess.run(["umount", scratch], check=False)


def group(base: Path, name: str) -> Group:
    path = base / name
    path.mkdir()
    return Group(path)


def _mounted() -> Path | None:
    """Where version 2 is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(point)
    return None


def _mount(path: Path) -> None:
    if subprocess.run(["mount", "-t", "cgroup2", "none", str(path)], check=False).returncode:
        raise NotPossible("no control groups of version 2 are mounted, and this user cannot mount them")
