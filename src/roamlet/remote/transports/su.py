"""An interpreter under another account of the same machine, by way of su."""

import shlex
from typing import ClassVar

from roamlet.remote.errors import AuthenticationFailed, ConnectError, NotAllowed, TargetNotFound
from roamlet.remote.terminal.terminal import TAKE_PIPES_BACK
from roamlet.remote.transports.command import Account, Meaning
from roamlet.wire import build


class Su(Account):
    """Starts a Python as `user`. Root is asked for no password."""

    program = "su"
    password_variable = "ROAMLET_SU_PASSWORD"
    comes_with = "the package util-linux"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"su: Authentication failure|su: incorrect password|su: Authentication token",
            AuthenticationFailed,
            "su does not take the password",
            "It wants that of {target}. It was typed once.",
        ),
        Meaning(
            r"user \S+ does not exist|No passwd entry for user|Unknown id|unknown user",
            TargetNotFound,
            "there is no user {target}",
            "Is it spelt right? Users that a name service knows are asked for by: getent passwd",
        ),
        Meaning(
            r"su: Permission denied|su: cannot set (groups|user id|group id)|may only be used by root",
            NotAllowed,
            "this user may not become another one",
            "Is su set-uid root, and does PAM let this user call it (often only members of the group wheel)?",
        ),
        Meaning(
            r"account is currently not available|using restricted shell|Account .*(expired|locked)|expired",
            ConnectError,
            "the account is closed, or may only use a shell of its own that runs no commands",
            "Open it, or go another way: remote.sudo() starts no login shell.",
        ),
    )

    asks_on_stdin = True
    always_answers = True  # su knows no option that makes it not ask, and would take the payload for the password

    def words(self) -> list[str]:
        # /bin/sh, where su allows it: the shell of a system account may run no commands.
        return ["su", "-s", "/bin/sh"]

    def argv(self, token: str) -> list[str]:
        if self._asked_for is not None:
            command = shlex.join(build.command(self._asked_for, token))
        else:
            command = build.shell_command(self.pythons, token)
        return [*self.words(), "-c", f"{TAKE_PIPES_BACK}exec {command}", "--", self.target]
