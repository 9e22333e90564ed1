"""An interpreter in a running jail of FreeBSD, by way of jexec."""

from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import NoPython, NotAllowed, TargetNotFound
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name, checked_user


class Jail(Command):
    """Starts a Python in the jail `jail`, a name or a number, as `user`, an account of the jail."""

    program = "jexec"
    comes_with = "FreeBSD; with via=, a context on that machine, it runs there"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"jail \"?[^\"\n]+\"? not found",
            TargetNotFound,
            "there is no jail {target}, or it does not run",
            "See which run: jls. Start it: service jail start {target}",
        ),
        Meaning(
            r"Operation not permitted",
            NotAllowed,
            "this user may not enter jails",
            "That takes root: remote.jail({target!r}, via=remote.sudo(via=...)).",
        ),
        Meaning(
            r"jexec: (?P<user>\S+): no such user",
            TargetNotFound,
            "the jail has no user {user}",
            "Give one of its own /etc/passwd as user=.",
        ),
        Meaning(
            r"exec\w*(\(\))?: (?P<python>[^:\n]+): No such file or directory",
            NoPython,
            "the jail has no {python}",
            "Give the path of one in it as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
    )

    def __init__(
        self, jail: str, *, python: str | None = None, user: str | None = None, jexec_args: Sequence[str] = ()
    ) -> None:
        super().__init__(checked_name(jail, "a jail"), python)
        self.user: str | None = checked_user(user)
        self.jexec_args: tuple[str, ...] = checked_arguments(jexec_args, "jexec_args")

    def words(self) -> list[str]:
        user = [] if self.user is None else ["-U", self.user]
        return ["jexec", *self.jexec_args, *user, self.target]
