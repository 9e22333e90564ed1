"""An interpreter in the namespaces of a running process, or of the first process of a container, by way of nsenter."""

import shlex
from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import ConnectError, NoPython, NotAllowed, TargetNotFound, TargetNotRunning
from roamlet.remote.transports import quoted
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name

NAMESPACES = ("cgroup", "ipc", "mount", "net", "pid", "time", "user", "uts")

# How the number of a container's first process is asked for; the name follows.
LEADER = {
    "docker": "docker inspect --type=container --format={{.State.Pid}} --",
    "podman": "podman inspect --type=container --format={{.State.Pid}} --",
    "lxc": "lxc-info --no-humanize --pid --name",
    "machinectl": "machinectl show --property=Leader --value --",
}
ENTER = (
    'pid=$({leader} "$1") || exit 120; case "$pid" in ""|0|*[!0-9]*) exit 121;; esac; shift; '
    'exec nsenter --target "$pid" "$@"'
)
NOT_KNOWN = 120
NOT_RUNNING = 121


class Setns(Command):
    """Starts a Python in the namespaces of process `pid`, or of the first process of `container`, which `runtime` knows.

    None as `namespaces` means all in which that process differs.
    """

    program = "nsenter"
    comes_with = "the package util-linux"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"cannot open /proc/\d+/ns/\w+: Permission denied|Operation not permitted|Permission denied",
            NotAllowed,
            "this user may not enter these namespaces",
            'That takes root, or the same user in a user namespace of their own: then "user" is one of namespaces=.',
        ),
        Meaning(
            r"cannot open /proc/(?P<pid>\d+)/ns/\w+: No such file or directory|stat of /proc/\d+/ns/\S+ failed",
            TargetNotFound,
            "there is no such process, or it has ended",
            "See the namespaces of this machine and their processes: lsns",
        ),
        Meaning(
            r"nsenter: failed to execute (?P<python>.+?): ",
            NoPython,
            "there is no {python} in its file system",
            "Give the path of an interpreter there as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
    )

    def __init__(
        self,
        pid: int | None = None,
        *,
        container: str | None = None,
        runtime: str | None = None,
        namespaces: Sequence[str] | None = None,
        python: str | None = None,
        nsenter_args: Sequence[str] = (),
    ) -> None:
        if (pid is None) == (container is None):
            raise TypeError("give one of pid= and container=: setns(1234), or setns(container='web', runtime='docker')")
        if pid is not None and (isinstance(pid, bool) or not isinstance(pid, int) or pid <= 0):
            raise ValueError(f"pid must be the number of a running process, not {pid!r}")
        if (container is None) != (runtime is None):
            raise TypeError("container= and runtime= belong together: setns(container='web', runtime='docker')")
        if runtime is not None and runtime not in LEADER:
            raise ValueError(f"runtime must be one of {', '.join(LEADER)}, not {runtime!r}")
        super().__init__(str(pid) if container is None else checked_name(container, "a container"), python)
        self.pid = pid
        self.runtime = runtime
        self.namespaces: tuple[str, ...] | None = _checked_namespaces(namespaces)
        self.nsenter_args: tuple[str, ...] = checked_arguments(nsenter_args, "nsenter_args")

    def words(self) -> list[str]:
        which = ["--all"] if self.namespaces is None else [f"--{name}" for name in self.namespaces]
        behind = [*which, *self.nsenter_args, "--"]
        if self.runtime is None:
            return ["nsenter", "--target", self.target, *behind]
        return ["sh", "-c", ENTER.replace("{leader}", LEADER[self.runtime]), "sh", self.target, *behind]

    def explain(self, exit_code: int | None, said: list[str]) -> ConnectError:
        if self.runtime is not None and exit_code == NOT_KNOWN:
            asked = shlex.join([*LEADER[self.runtime].split(), self.target])
            kind = NotAllowed if "ermission denied" in "\n".join(said) else TargetNotFound
            return kind(
                f"{self.to} failed: {self.runtime} tells no process of such a container.\n{quoted(said)}\n"
                f"    It was asked by: {asked}"
            )
        if self.runtime is not None and exit_code == NOT_RUNNING:
            return TargetNotRunning(
                f"{self.to} failed: the container does not run, so it has no namespaces to enter.\n    Start it first."
            )
        return super().explain(exit_code, said)


def _checked_namespaces(namespaces: Sequence[str] | None) -> tuple[str, ...] | None:
    if namespaces is None:
        return None
    if isinstance(namespaces, str) or not namespaces or not set(namespaces) <= set(NAMESPACES):
        raise ValueError(f"namespaces takes a list of some of {', '.join(NAMESPACES)}, not {namespaces!r}")
    return tuple(namespaces)
