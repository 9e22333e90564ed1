"""Why nothing may be sent to a context any more, and the errors that tell callers so."""

from roamlet.remote.errors import ContextClosed, ContextDied, ForkedContext, OutputHeld, ProtocolError
from roamlet.remote.transports import quoted


def held(talker: str, name: str, function: str, *, sent: bool) -> OutputHeld:
    """The error of a call by the output function of `talker` that would wait for that function itself."""
    what = "was sent, but its answer cannot be read" if sent else "was not sent, for its answer could not be read"
    error = OutputHeld(
        f"{function} in {name!r} {what}: it was called by the output function of {talker!r}, and 1 MB of output waits for that "
        f"function, so nothing more is read of {talker!r}.\n"
        "    Let it put the lines where another tasklet or thread takes them and makes the calls, a queue.SimpleQueue for example.",
        context=name,
        function=function,
    )
    error.sent = sent
    return error


class Closed:
    """The end that was asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def text(self) -> str:
        """The reason that is given for contexts behind this one."""
        return f"{self.name!r} was closed"

    def error(self, function: str | None, *, sent: bool) -> ContextClosed:
        """A new error for each caller: an exception object belongs to one traceback. `sent`: the call was on its way."""
        if function and sent:
            what = f"{function} in {self.name!r} has no answer: the context was closed meanwhile"
        elif function:
            what = f"{function} was not sent: {self.name!r} is closed"
        else:
            what = f"{self.name!r} is closed"
        hint = "    Keep calls inside the `with` block of their context, and wait for them before it ends."
        error = ContextClosed(f"{what}.\n{hint}", context=self.name, function=function)
        error.sent = sent
        return error


class Forked:
    """The end of a link for a process that was forked off: it belongs to the parent."""

    def __init__(self, name: str) -> None:
        self.name = name

    def text(self) -> str:
        return f"{self.name!r} belongs to another process"

    def error(self, function: str | None, *, sent: bool) -> ForkedContext:
        return ForkedContext(
            f"{self.name!r} belongs to the process that this one was forked from, and cannot be used here.\n"
            "    Open a context of your own in the child, or call before the fork.",
            context=self.name,
            function=function,
        )


class Died:
    """An end that was not asked for: what is known of it once the process is gone."""

    def __init__(self, name: str, wrong: str | None, how: str, exit_code: int | None, said: list[str]) -> None:
        """`wrong` says how the context broke the protocol, if it did; `said` are the last lines of its stderr."""
        self.name = name
        self.wrong = wrong
        self.how = how
        self.exit_code = exit_code
        self.said = said

    def text(self) -> str:
        return f"{self.name!r} died: {self.wrong or self.how}"

    def error(self, function: str | None, *, sent: bool) -> ContextDied:
        """A new error for each caller: an exception object belongs to one traceback. `sent`: the call was on its way."""
        if function and sent:
            what = f"{self.name!r} died while it ran {function}"
        elif function:
            what = f"{function} was not sent: {self.name!r} has died before"
        else:
            what = f"{self.name!r} has died"
        if self.wrong is not None:
            error: ContextDied = ProtocolError(
                f"{what}: it sent what no context sends, so it was closed, and nothing of that was used: {self.wrong}.\n"
                "    Something on the target writes to descriptors that are not its own, or the target is hostile.",
                context=self.name,
                function=function,
            )
        else:
            error = ContextDied(
                f"{what}: {self.how}. The last lines of its stderr:\n{quoted(self.said)}",
                context=self.name,
                function=function,
            )
        error.sent = sent
        error.exit_code = self.exit_code
        error.signal = -self.exit_code if self.exit_code is not None and self.exit_code < 0 else None
        return error
