"""An interpreter under another account of the same machine, by way of doas and its rules."""

from typing import ClassVar

from roamlet.remote.errors import AuthenticationFailed, ConnectError, NoPython, NotAllowed, TargetNotFound
from roamlet.remote.transports.command import Account, Meaning


class Doas(Account):
    """Starts a Python as `user`. Without a password doas is told to ask for none."""

    program = "doas"
    password_variable = "ROAMLET_DOAS_PASSWORD"
    comes_with = "the package opendoas or doas"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"doas: (Authorization|Authentication) failed",
            AuthenticationFailed,
            "doas does not take the password",
            "It wants the password of the calling user. It was typed once.",
        ),
        Meaning(
            r"doas: (Authorization|Authentication) required|doas: a tty is required",
            AuthenticationFailed,
            "doas wants a password, and none was given",
            "Give one as password=, a str or a function, or in ROAMLET_DOAS_PASSWORD; or let its rules say nopass.",
        ),
        Meaning(
            r"doas: Operation not permitted",
            NotAllowed,
            "its rules do not let this user do that",
            "See /etc/doas.conf. Where a rule names one interpreter alone, give its path as python=.",
        ),
        Meaning(
            r"doas: unknown user|getpwnam|no passwd entry for target",
            TargetNotFound,
            "there is no user {target}",
            "Is it spelt right? Users that a name service knows are asked for by: getent passwd",
        ),
        Meaning(
            r"doas is not enabled|could not open config file|doas\.conf: No such file",
            ConnectError,
            "doas has no rules here",
            "They belong into /etc/doas.conf: permit nopass USER as {target}",
        ),
        Meaning(
            r"not installed setuid|doas: set(res)?[ug]id|initgroups",
            NotAllowed,
            "doas has no rights here that it could hand on",
            "Is it set-uid root, on a file system without nosuid?",
        ),
        Meaning(
            r"doas: (?P<python>\S+): command not found",
            NoPython,
            "there is no interpreter {python} on its PATH",
            "Give the full path of one as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
    )

    def words(self) -> list[str]:
        ask = ["-n"] if self.answers is None else []
        return ["doas", *ask, "-u", self.target, "--"]
