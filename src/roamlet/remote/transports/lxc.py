"""An interpreter in a running container of LXC, by way of lxc-attach."""

from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import NoPython, NotAllowed, TargetNotFound, TargetNotRunning
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name


class Lxc(Command):
    """Starts a Python in `container`, in an environment of the container's own."""

    program = "lxc-attach"
    comes_with = "the package lxc"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"Insuff?ici?e?nt privileges|Failed to (create|open) .*[Pp]ermission denied|Permission denied - ",
            NotAllowed,
            "this user may not control the container",
            "Root's containers are root's; others belong to the user who made them.",
        ),
        Meaning(
            r"is not defined|Container does not exist|No such container",
            TargetNotFound,
            "there is no container {target}",
            "See which there are: lxc-ls --fancy. Each user has containers of their own.",
        ),
        Meaning(
            r"Failed to get init pid|is not running|Failed to get attach context",
            TargetNotRunning,
            "the container does not run, or this user has none of that name",
            "Start it: lxc-start --name {target}. See which there are: lxc-ls --fancy",
        ),
        Meaning(
            r"Failed to exec|failed to exec",
            NoPython,
            "the container has no interpreter of that name, or no shell that could look for one",
            "Give the path of one in the container as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
    )

    def __init__(self, container: str, *, python: str | None = None, lxc_args: Sequence[str] = ()) -> None:
        super().__init__(checked_name(container, "a container"), python)
        self.lxc_args: tuple[str, ...] = checked_arguments(lxc_args, "lxc_args")

    def words(self) -> list[str]:
        return ["lxc-attach", "--clear-env", *self.lxc_args, "--name", self.target, "--"]
