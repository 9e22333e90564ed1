"""An interpreter in a container of systemd-nspawn: a new one made of a directory, or a machine that runs already."""

import os
from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import ConnectError, NoPython, NotAllowed, TargetNotFound, TargetNotRunning
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name, checked_user
from roamlet.remote.transports.setns import Setns


class Nspawn(Command):
    """Starts a Python as the only process of a container whose root is `directory`; the container ends with it."""

    program = "systemd-nspawn"
    comes_with = "the package systemd-container"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"[Nn]eed to be root|Operation not permitted|Permission denied",
            NotAllowed,
            "this user may not make containers",
            "That takes root.",
        ),
        Meaning(
            r"doesn't look like (an OS root directory|it has an OS tree)|os-release file is missing",
            TargetNotFound,
            "{target} holds no operating system: it has no usr/, or no os-release",
            "Give the root directory of one, such as debootstrap makes.",
        ),
        Meaning(
            r"is currently busy|already exists|in use",
            TargetNotRunning,
            "the directory, or the machine's name, is in use by another container",
            "Enter that one with machine=, or make one beside it that is thrown away: nspawn_args=['--ephemeral'].",
        ),
        Meaning(
            r"Failed to (resolve user|look up user)|No such user|getent",
            TargetNotFound,
            "the container has no such user",
            "Give one of its own /etc/passwd as user=.",
        ),
        Meaning(
            r"exec(v|ve)?\((?P<python>[^)]*)\) failed|Failed to execute|failed to execute",
            NoPython,
            "the container has no interpreter of that name, or no shell that could look for one",
            "Give the path of one in the container as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
        Meaning(
            r"Failed to register machine|Failed to (connect to|open system) bus|Failed to allocate scope",
            ConnectError,
            "systemd does not run here, and takes no note of the container",
            "Without it: nspawn_args=['--register=no', '--keep-unit'].",
        ),
        Meaning(
            r"No such file or directory",
            TargetNotFound,
            "there is no directory {target}, or something in it is missing",
            "Give the root directory of an operating system.",
        ),
    )

    def __init__(
        self, directory: str, *, python: str | None = None, user: str | None = None, nspawn_args: Sequence[str] = ()
    ) -> None:
        if not isinstance(directory, str) or not directory.startswith("/") or "\0" in directory:
            raise ValueError(f"directory must be the full path of a container's root, not {directory!r}")
        super().__init__(directory, python)
        self.user: str | None = checked_user(user)
        self.nspawn_args: tuple[str, ...] = checked_arguments(nspawn_args, "nspawn_args")

    @property
    def name(self) -> str:
        return os.path.basename(self.target.rstrip("/")) or "nspawn"

    def words(self) -> list[str]:
        user = [] if self.user is None else [f"--user={self.user}"]
        return ["systemd-nspawn", "--quiet", "--pipe", f"--directory={self.target}", *user, *self.nspawn_args, "--"]


class Machine(Setns):
    """Starts a Python in `machine`, a container that machinectl lists.

    Not by `machinectl shell`, which puts a terminal in between, and that changes bytes; nor by `systemd-run --machine`, which
    needs a bus inside.
    """

    def __init__(self, machine: str, *, python: str | None = None) -> None:
        super().__init__(container=checked_name(machine, "a machine"), runtime="machinectl", python=python)

    @property
    def to(self) -> str:
        return f"machine {self.target!r}"
