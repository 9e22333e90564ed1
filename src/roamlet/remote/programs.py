"""Scripts and shell commands in a context, for `roamlet run`: the parent's half of roamlet.wire.calls.programs."""

from collections.abc import Sequence
from typing import Any

from roamlet.remote.calls.engine import DELIVERY, calls_of
from roamlet.remote.context import Context
from roamlet.remote.errors import CallTimeout
from roamlet.wire.calls import programs as wire

__all__ = ["run_command", "run_script"]

PATIENCE = 5.0  # seconds for the news that a command was killed


def run_command(context: Context, text: str, args: Sequence[str] = (), timeout: float | None = None) -> int:
    """Run `text` by /bin/sh of the target, `args` being its $1, $2, ...; return its exit status, negative for a signal.

    It has nothing to read. What it printed has been handed on when this returns. It is killed, with all that it has started in its
    process group, after `timeout` seconds, and when the context ends, even if the target's interpreter is killed. Blocks this
    tasklet only. Raises CallTimeout, and what Context.call does.
    """
    calls_of(context).shipping.need("calls.programs")
    limit = None if timeout is None else timeout + PATIENCE
    status: Any = context.call(wire.command, (text, list(args), timeout), timeout=limit)
    if status == "late":
        raise _killed(context, timeout)
    return _status(context, status)


def run_script(
    context: Context, path: str, source: bytes, args: Sequence[str] = (), timeout: float | None = None
) -> int:
    """Run the source of a script as `__main__` in the target's interpreter; return its exit status.

    Its sys.argv is `path` and `args`. It runs in a thread, and has nothing to read. Modules that it imports travel, as those of
    functions do. What it printed has been handed on when this returns; a traceback is printed on the target like everything else.
    Blocks this tasklet only. Raises what Context.call does.
    """
    calls_of(context).shipping.need("calls.programs")
    return _status(context, context.call(wire.script, (path, source, list(args)), timeout=timeout))


def _killed(context: Context, timeout: float | None) -> CallTimeout:
    late = CallTimeout(
        f"the command in {context.name!r} had not ended within {timeout:g} seconds, and was killed.",
        context=context.name,
        function="the command",
    )
    late.sent = True
    return late


def _status(context: Context, status: Any) -> int:
    calls_of(context).link.output.wait_until_delivered(DELIVERY)
    return status if isinstance(status, int) else 1
