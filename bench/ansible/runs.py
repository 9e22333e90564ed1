"""One run of ansible-playbook: how long it took, what CPU time it used on both ends, and what each task had for a result."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .cgroups import Group
from .peers import OWN_CALLBACK, Side
from .targets import Targets

CALLBACKS = Path(__file__).parent / "callbacks"
LINGER = 5  # seconds that processes may take to end after the controller has


class RunFailed(Exception):
    """A playbook did not end well; the message has the end of what was printed."""


@dataclass(frozen=True)
class Taken:
    """Seconds: by the clock, of CPU in the controller's processes, and of CPU in all that the hosts' sshds started."""

    wall: float
    controller: float
    target: float
    packets: int
    results: str
    """What the callback plugin wrote."""


class Controller:
    """Where ansible-playbook runs. Each turn has a new home folder, so that it finds nothing of earlier ones."""

    def __init__(self, venv: Path, targets: Targets, group: Group, folder: Path) -> None:
        self._venv = venv
        self._targets = targets
        self._group = group
        self._folder = folder
        self._homes = 0

    def new_home(self) -> Path:
        self._homes += 1
        home = self._folder / f"h{self._homes}"
        home.mkdir()
        (home / "ansible.cfg").write_text("")
        return home

    def run(self, side: Side, playbook: Path, hosts: int, home: Path, timeout: float = 1800) -> Taken:
        """Run the playbook on the first `hosts` hosts with as many forks. Raises RunFailed.

        Afterwards nothing of it runs, on no end: what a side leaves behind, to be faster the next time, is killed.
        """
        inventory, results, log = (home / name for name in ("inventory", "results", "log"))
        inventory.write_text(self._targets.inventory(hosts))
        words = [str(self._venv / "bin" / "ansible-playbook"), "-i", str(inventory), "-f", str(hosts), str(playbook)]
        targets = self._targets.group
        idle = targets.size()
        before = (self._group.cpu(), targets.cpu(), self._packets())
        started = time.perf_counter()
        with log.open("w") as out:
            process = subprocess.Popen(
                self._targets.argv(self._group.argv(words)),
                env=self._environment(side, playbook, home, results),
                cwd=playbook.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = -1
            wall = time.perf_counter() - started
        # A broker ends by itself; ssh's masters would stay a minute. Only what has ended is counted to the last.
        self._group.settle(0, 0.5)
        controller = self._group.cpu() - before[0]
        packets = self._packets() - before[2]
        self._group.kill()
        targets.settle(idle, LINGER)
        target = targets.cpu() - before[1]
        if code:
            raise RunFailed(f"{playbook.name} on {hosts} hosts ended with {code}: {_what_failed(log)}")
        return Taken(wall, controller, target, packets, results.read_text())

    def _packets(self) -> int:
        return sum(self._targets.traffic().values())

    def _environment(self, side: Side, playbook: Path, home: Path, results: Path) -> dict[str, str]:
        """Nothing of ours: no ansible.cfg, no agent, no caches."""
        return {
            "PATH": f"{self._venv / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "ANSIBLE_CONFIG": str(home / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_RETRY_FILES_ENABLED": "0",
            "ANSIBLE_TIMEOUT": "60",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(home / "cp"),
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_CALLBACKS_ENABLED": OWN_CALLBACK,
            "BENCH_RESULTS": str(results),
            "BENCH_ANSWERS": str(answers_of(playbook)),
            **side.environment,
        }


def answers_of(playbook: Path) -> Path:
    """The folder with what the hosts have answered in a run of this playbook, for connections/bench_replay.py."""
    return playbook.with_suffix(".answers")


def _what_failed(log: Path) -> str:
    """The first line about a host that failed, else the end of what was printed, in one line."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("fatal:", "failed:", "[ERROR]", "ERROR"))]
    return " / ".join(failed[:1] or lines[-3:])[:1000]
