"""An interpreter under another account of the same machine, by way of sudo and its rules."""

from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import AuthenticationFailed, NoPython, NotAllowed, TargetNotFound
from roamlet.remote.terminal.prompts import NOTHING, Held
from roamlet.remote.transports.command import Account, Meaning, checked_arguments


class Sudo(Account):
    """Starts a Python as `user`, with that user's home. Without a password sudo is told to ask for none."""

    program = "sudo"
    password_variable = "ROAMLET_SUDO_PASSWORD"
    comes_with = "the package sudo"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"incorrect password attempt|Sorry, try again",
            AuthenticationFailed,
            "sudo does not take the password",
            "It wants the password of the calling user, unless its rules say targetpw or rootpw. It was typed once.",
        ),
        Meaning(
            r"a password is required|no password was provided|a terminal is required to read the password",
            AuthenticationFailed,
            "sudo wants a password, and none was given",
            "Give one as password=, a str or a function, or in ROAMLET_SUDO_PASSWORD; or let its rules say NOPASSWD.",
        ),
        Meaning(
            r"(?P<who>\S+) is not in the sudoers file|Sorry, user \S+ (is not allowed to execute|may not run sudo)|"
            r"is not allowed to (run sudo|execute)|may not run sudo",
            NotAllowed,
            "its rules do not let this user do that",
            "See what they allow: sudo -l. Where it is one interpreter alone, give its path as python=.",
        ),
        Meaning(
            r"unknown user:? (?P<user>\S+)",
            TargetNotFound,
            "there is no user {user}",
            "Is it spelt right? Users that a name service knows are asked for by: getent passwd",
        ),
        Meaning(
            r"you must have a tty to run sudo",
            NotAllowed,
            "its rules say requiretty, and a context has no terminal",
            "Give a password=, for which sudo gets a terminal, or let its rules say !requiretty for this user.",
        ),
        Meaning(
            r"effective uid is not 0|\"no new privileges\" flag is set|must be owned by uid 0",
            NotAllowed,
            "sudo has no rights here that it could hand on",
            "Is it set-uid root, on a file system without nosuid, and does no container forbid new privileges?",
        ),
        Meaning(
            r"sudo: (?P<python>\S+): command not found",
            NoPython,
            "there is no interpreter {python} on the PATH that its rules set",
            "Give the full path of one as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
    )

    def __init__(
        self,
        user: str | None = None,
        *,
        python: str | None = None,
        password: Held = NOTHING,
        sudo_args: Sequence[str] = (),
    ) -> None:
        super().__init__(user, python=python, password=password)
        self.sudo_args: tuple[str, ...] = checked_arguments(sudo_args, "sudo_args")

    def words(self) -> list[str]:
        ask = ["-n"] if self.answers is None else ["-p", "[sudo] password for %p: "]
        return ["sudo", *ask, "-H", "-u", self.target, *self.sudo_args, "--"]
