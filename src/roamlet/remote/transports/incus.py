"""An interpreter in a running instance of Incus, or of LXD, which has the same command line under the name lxc."""

import re
from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import ConnectError, NoPython, NotAllowed, TargetNotFound, TargetNotRunning
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name

INSTANCE = re.compile(r"([\w.-]*\w:)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")


class Incus(Command):
    """Starts a Python in `instance`, a name or remote:name. `client` is "incus", or "lxc" for LXD."""

    program: str = "incus"
    comes_with: str = "the package incus-client"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"(Instance|Container) not found|not found$|doesn't exist",
            TargetNotFound,
            "there is no instance {target}",
            "See which there are: incus list --all-projects. One of another project takes ['--project', NAME] as incus_args=.",
        ),
        Meaning(
            r"(Instance|Container) is not running|is (stopped|frozen)",
            TargetNotRunning,
            "the instance does not run",
            "Start it: incus start {target}",
        ),
        Meaning(
            r"permission denied|needed permissions to talk|not authorized",
            NotAllowed,
            "this user may not talk to the daemon",
            "Root may, and so may members of the group incus or incus-admin; they log in anew to become such.",
        ),
        Meaning(
            r"daemon doesn't appear to be started|connection refused|unix\.socket: connect: no such file",
            ConnectError,
            "the daemon does not answer",
            "Does it run? systemctl status incus",
        ),
        Meaning(
            r"Command not found|Command not executable",
            NoPython,
            "the instance has no interpreter of that name, or no shell that could look for one",
            "Give the path of one in the instance as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
    )

    def __init__(
        self, instance: str, *, python: str | None = None, client: str = "incus", incus_args: Sequence[str] = ()
    ) -> None:
        super().__init__(checked_name(instance, "an instance", INSTANCE), python)
        if client not in ("incus", "lxc"):
            raise ValueError(f'client must be "incus", or "lxc" for LXD, not {client!r}')
        if client == "lxc":
            self.program, self.comes_with = "lxc", "LXD's client, the snap lxd or the package lxd-client"
        self.incus_args: tuple[str, ...] = checked_arguments(incus_args, "incus_args")

    def words(self) -> list[str]:
        return [self.program, *self.incus_args, "exec", "--mode=non-interactive", self.target, "--"]
