"""A Python prompt in a context: its near end, without a terminal. roamlet.cli.commands.shell has that."""

import secrets
from typing import Any

from roamlet.remote.calls.engine import DELIVERY, calls_of
from roamlet.remote.context import Context
from roamlet.wire.calls import shell as wire

__all__ = ["Exit", "Shell", "Statement"]

INTERRUPT = 5.0


class Shell:
    """Statements that run in one namespace on the target, one after the other. Modules that they import travel.

    `version` is the interpreter's line about itself, `prompts` are its two prompts.
    """

    def __init__(self, context: Context) -> None:
        calls_of(context).shipping.need("calls.shell")
        self._context = context
        self._token = secrets.token_hex(8)
        self._number = 0
        version, first, second = map(str, context.call(wire.start, (self._token,)))
        self.version = version
        self.prompts: tuple[str, str] = first, second

    def statement(self, source: str, *, last: bool = False) -> "Statement":
        """`source`, to be run by Statement.run(). With `last` no more lines can come: that some are missing is a SyntaxError then.

        One is made when the one before has ended: they run one after the other.
        """
        self._number += 1
        return Statement(self._context, self._token, source, last, self._number)

    def complete(self, text: str) -> list[str]:
        """What the word `text` may become. This runs code on the target: that of the objects whose attributes are asked for."""
        found: Any = self._context.call(wire.complete, (self._token, text), timeout=INTERRUPT)
        return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


class Statement:
    """One statement of a Shell: run() in one thread, and interrupt() in any other, also before it has begun."""

    def __init__(self, context: Context, token: str, source: str, last: bool, number: int) -> None:
        self._context = context
        self._token = token
        self._source = source
        self._last = last
        self._number = number

    def run(self) -> "str | Exit":
        """Run it if it is whole, once: "done", "failed" when it raised, "more" when lines are missing, or an Exit.

        What it printed has been handed on when this returns; a traceback is printed on the target like everything else. Blocks this
        tasklet until the statement has ended. Raises what Context.call does when the context ends meanwhile.
        """
        answer: Any = self._context.call(wire.enter, (self._token, self._source, self._last, self._number))
        calls_of(self._context).link.output.wait_until_delivered(DELIVERY)
        if isinstance(answer, list) and len(answer) == 2:
            return Exit(answer[1])
        return answer if answer in ("more", "failed") else "done"

    def interrupt(self) -> bool:
        """Raise KeyboardInterrupt in it at its next step, or as soon as it begins, and do nothing when it has ended.

        False when that cannot be done there. Blocks this tasklet for 5 s at most, then TimeoutError. Thread-safe.
        """
        return self._context.call(wire.interrupt, (self._token, self._number), timeout=INTERRUPT) is True


class Exit:
    """The statement called sys.exit(). `status` is what it gave: None, a number or a text."""

    def __init__(self, status: Any) -> None:
        self.status: int | str | None = status if status is None or isinstance(status, int) else str(status)
