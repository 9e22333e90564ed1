"""Short commands that ask a scheduler or a cluster something: run in this process's place, or in a context's.

Which commands those are is in allocations.py and pods.py.
"""

import errno
import os
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from roamlet.io import subprocess
from roamlet.remote.calls.engine import Calls
from roamlet.remote.errors import ConnectError, ConnectTimeout, RemoteError
from roamlet.remote.terminal.prompts import environment
from roamlet.remote.transports import quoted
from roamlet.wire.calls import commands as wire

LATE = 5.0  # seconds beyond a command's own limit for the news of its end


class Said(NamedTuple):
    """What a command said, and how it ended."""

    argv: list[str]
    exit_code: int
    text: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """All that it said, for messages: what went wrong is mostly in the second half."""
        return [*self.errors.splitlines(), *([] if self.exit_code == 0 else self.text.splitlines())]


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
            f"{quoted([*errors.splitlines(), *text.splitlines()])}\n    Does its server answer? Try the command by hand."
        )
    return Said(words, code, text, errors)


def _here(words: list[str], data: bytes, timeout: float) -> Any:
    try:
        done = subprocess.run(
            words,
            input=data,
            capture_output=True,
            timeout=timeout,
            env=environment(translated=True, asked=False),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        return [None, error.output or b"", error.stderr or b""]
    except OSError as error:
        return [error.errno or 0]
    return [done.returncode, done.stdout, done.stderr]


def _there(via: Calls, words: list[str], data: bytes, timeout: float) -> Any:
    try:
        via.shipping.need("calls.commands")
        answer = via.call(wire.run, (words, data, timeout), timeout=timeout + LATE)
    except (RemoteError, OSError) as error:
        problem = f"`{words[0]}` was not run in {via.name!r}, or its answer is lost: {error}"
    else:
        if _is_answer(answer):
            return answer
        problem = f"`{words[0]}` in {via.name!r}: it answered something else: {answer!r:.200}"
    raise ConnectError(problem)


def _is_answer(answer: Any) -> bool:
    if not isinstance(answer, list):
        return False
    if len(answer) == 1:
        return isinstance(answer[0], int)
    return len(answer) == 3 and isinstance(answer[0], int | None) and all(isinstance(one, bytes) for one in answer[1:])
