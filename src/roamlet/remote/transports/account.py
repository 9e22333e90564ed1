"""What sudo, su and doas have in common: an interpreter under another account of the same machine, and perhaps a password."""

from typing import ClassVar

from roamlet.remote.terminal.prompts import NOTHING, Answers, Held
from roamlet.remote.transports.command import Command, checked_user


class Account(Command):
    """A Command that takes a user's name, root's by default. It is asked for a password where one was given."""

    password_variable: ClassVar[str]  # of the environment, for a password that was not given
    always_answers: ClassVar[bool] = False  # whether it asks no matter what, so that what it asks is to be read

    def __init__(self, user: str | None = None, *, python: str | None = None, password: Held = NOTHING) -> None:
        super().__init__(checked_user(user) or "root", python)
        answers = Answers(password, self.password_variable, self.to)
        self.answers = answers if self.always_answers or answers.available else None
