"""Short commands that ask a scheduler or a cluster something: run in this process's place, or in a context's.

Which commands those are is in allocations.py and pods.py.
"""

import errno
import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from roamlet.io import subprocess
from roamlet.remote.base.deadlines import deadline_of, remaining
from roamlet.remote.calls.engine import Calls
from roamlet.remote.errors import ConnectError, ConnectTimeout, RemoteError
from roamlet.remote.terminal.prompts import environment
from roamlet.remote.transports import quoted
from roamlet.wire.calls import commands as wire

LATE = 5.0  # seconds beyond a command's own limit for the news of its end
LINES_KEPT = 60
LONGEST_LINE = 1 << 12


class Said(NamedTuple):
    """What a command said, and how it ended."""

    argv: list[str]
    exit_code: int
    text: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """What it said last, for messages: what went wrong is mostly in the second half."""
        return _last(self.errors, "" if self.exit_code == 0 else self.text)


def ask(via: Calls | None, argv: Sequence[str], timeout: float, *, data: bytes = b"", comes_with: str = "") -> Said:
    """Run a command in the place of `via`, in this one if None. Blocks this tasklet only.

    `comes_with`: where the program comes from, the end of a sentence. Raises ConnectError where it cannot be started or `via` has
    ended, ConnectTimeout after `timeout` seconds; its own failure is for the caller to read.
    """
    words = list(argv)
    where = "" if via is None else f" in {via.name!r}"
    answer = _here(words, data, timeout) if via is None else _there(via, words, data, timeout)
    if len(answer) == 1:
        number = answer[0]
        if number == errno.ENOENT:
            raise ConnectError(
                f"there is no program `{words[0]}` on PATH{where}, so nothing was started. It comes with {comes_with}"
            )
        raise ConnectError(f"{words[0]} could not be started{where}: {os.strerror(number)}")
    code, text, errors = answer[0], str(answer[1], "utf-8", "replace"), str(answer[2], "utf-8", "replace")
    if code is None:
        raise ConnectTimeout(
            f"`{shlex.join(words)}` had not ended{where} within {timeout:g} seconds, and said so far:\n"
            f"{quoted(_last(errors, text))}\n    Does its server answer? Try the command by hand."
        )
    return Said(words, code, text, errors)


def _here(words: list[str], data: bytes, timeout: float) -> Any:
    pipe = subprocess.PIPE
    english = environment(translated=True, asked=False)
    try:
        with subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, env=english, start_new_session=True
        ) as process:
            try:
                said, errors = process.communicate(data, timeout)
            except BaseException:
                if process.returncode is None:  # else the number may be another's
                    with suppress(OSError):
                        os.killpg(process.pid, signal.SIGKILL)
                raise
    except subprocess.TimeoutExpired as error:
        return [None, error.output or b"", error.stderr or b""]
    except OSError as error:
        return [error.errno or 0]
    return [process.returncode, said, errors]


def _there(via: Calls, words: list[str], data: bytes, timeout: float) -> Any:
    deadline = deadline_of(timeout + LATE)
    try:
        via.shipping.need("calls.commands", deadline)
        answer = via.call(wire.run, (words, data, timeout), timeout=remaining(deadline))
    except (RemoteError, OSError) as error:
        problem = f"`{words[0]}` was not run in {via.name!r}, or its answer is lost: {error}"
    else:
        if _is_answer(answer):
            return answer
        # What it answered is not shown: that may be long.
        problem = f"`{words[0]}` in {via.name!r}: it answered something else, or too much"
    raise ConnectError(problem)


def _is_answer(answer: Any) -> bool:
    """Whether it is one of wire.run: the place may be anybody's."""
    if not isinstance(answer, list):
        return False
    if len(answer) == 1:
        return _is_number(answer[0])
    return (
        len(answer) == 3
        and (answer[0] is None or _is_number(answer[0]))
        and all(isinstance(one, bytes) and len(one) <= wire.MOST for one in answer[1:])
    )


def _is_number(number: Any) -> bool:
    return isinstance(number, int) and abs(number) < 1 << 31


def _last(errors: str, text: str) -> list[str]:
    """The last lines of both, of each so many that patterns are searched in them in no time."""
    most = LINES_KEPT * LONGEST_LINE
    return [line[:LONGEST_LINE] for said in (errors, text) for line in said[-most:].splitlines()[-LINES_KEPT:]]
