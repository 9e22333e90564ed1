"""The terminal of a command that another context runs (via=): prompts come from there, and are answered in this process.

The other end is roamlet.wire.link.prompts. What a terminal is for is in terminal/terminal.py.
"""

import functools
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from roamlet.remote.base.deadlines import EVER
from roamlet.remote.base.threads import Threads
from roamlet.remote.errors import ProtocolError, RemoteError
from roamlet.remote.terminal.prompts import Answers, wipe
from roamlet.remote.terminal.terminal import LINES_KEPT, LONGEST_LINE, NO, attached
from roamlet.sync import Event
from roamlet.wire.link import prompts

STEP = 10.0  # seconds that one call for the next prompt waits on the target
LOOK = 0.05  # the same where calls are tasklets, which all wait as long,
PAUSE = 0.2  # and the time that they get in between


class Via(NamedTuple):
    """The context that runs the command, as far as its terminal needs it. It has the part `prompts` of the payload."""

    name: str
    call: Callable[..., Any]  # as Context.call
    break_off: Callable[[str], None]  # as Link.break_off
    in_turns: bool  # its calls are tasklets


class RelayedTerminal:
    """A terminal in the context `via`, which opens it when this is made. Whole lines go to `line`.

    What `via` answers is not trusted: an answer that no context gives closes it, with ProtocolError.
    """

    unfinished: str = ""

    def __init__(
        self, via: Via, answers: Answers, as_stdin: bool, line: Callable[[str], None], deadline: float
    ) -> None:
        """Blocks this tasklet. Raises RemoteError and OSError, TimeoutError when `deadline` passes first."""
        self._via = via
        self._answers = answers
        self._as_stdin = as_stdin
        self._line = line
        self._over = Event()
        self._finished = False
        self._wrong: RemoteError | None = None
        answers.run = functools.partial(_output_of, via)  # no reference to this object, which refers to them
        said = _ask(self._via, prompts.open_terminal, timeout=max(0.0, deadline - time.monotonic()))
        if not isinstance(said, tuple) or [type(one) for one in said] != [int, str] or len(said[1]) > LONGEST_LINE:
            raise _malformed(self._via, "a terminal", said)
        self._number: int = said[0]
        self._path: str = said[1]

    def wrap(self, argv: list[str]) -> list[str]:
        """The words that start `argv` on this terminal, in a session of its own."""
        return attached(self._path, argv, self._as_stdin)

    def answer_prompts(self, greeted: Event, deadline: float, threads: Threads) -> bool:
        """As Terminal.answer_prompts."""
        wake_up, heard = Event(), Event()
        asked: deque[tuple[str, bool, list[str]]] = deque()

        def wake() -> None:
            greeted.wait(EVER)
            wake_up.set()

        def listen() -> None:
            before: list[str] = []
            try:
                while not greeted.is_set() and not self._finished:
                    step = LOOK if self._via.in_turns else STEP
                    prompt, hidden, lines = self._next_prompt(step)
                    before = [*before, *lines][-LINES_KEPT:]
                    for line in lines:
                        self._line(line)
                    if prompt is not None:
                        asked.append((prompt, hidden, before))
                        before = []
                        wake_up.set()
                    if self._via.in_turns:
                        greeted.wait(PAUSE)
            except ProtocolError as error:
                self._wrong = error.with_traceback(None)
                wake_up.set()
            except (RemoteError, OSError):  # the way to it is lost, of which the wait for HELLO is told
                pass
            finally:
                heard.set()

        threads.links.post(wake)
        threads.links.post(listen)
        try:
            while not greeted.is_set():
                if not wake_up.wait(max(0.0, deadline - time.monotonic())):
                    return False
                wake_up.clear()
                self._raise_if_wrong()
                while asked:
                    began = time.monotonic()
                    self._answer(*asked.popleft())
                    deadline += time.monotonic() - began
            return True
        finally:
            self._answers.wipe()
            self._finished = True
            rest = self._quietly(prompts.finish)
            heard.wait(STEP)
            for line in rest:
                self._line(line)
            self._over.set()

    def close_after(self, ended: Event, threads: Threads) -> None:
        """Give it back when the context has ended."""

        def close() -> None:
            ended.wait(EVER)
            self._over.wait(STEP)
            self._quietly(prompts.close)

        threads.links.post(close)

    def hang_up(self) -> None:
        """Do nothing: closing the tunnel ends it."""

    def _answer(self, prompt: str, hidden: bool, before: list[str]) -> None:
        self.unfinished = prompt
        no = NO.search(prompt)
        answer = bytearray(b"no\n") if no else self._answers.answer(prompt, hidden=hidden, before=before)
        try:
            _ask(self._via, prompts.type_answer, (self._number, bytes(answer)))
        finally:
            wipe(answer)

    def _next_prompt(self, step: float) -> tuple[str | None, bool, list[str]]:
        said = _ask(self._via, prompts.next_prompt, (self._number, step))
        if isinstance(said, tuple) and len(said) == 3:
            prompt, hidden, lines = said
            if type(hidden) is bool and (prompt is None or _is_line(prompt)) and _are_lines(lines):
                return prompt, hidden, lines
        raise _malformed(self._via, "a prompt", said)

    def _quietly(self, function: Callable[[int], list[str] | None]) -> list[str]:
        try:
            lines = _ask(self._via, function, (self._number,))
            if lines is not None and not _are_lines(lines):
                raise _malformed(self._via, "lines", lines)
            return lines or []
        except (RemoteError, OSError):  # it ended with its context, or was closed for a false answer
            return []

    def _raise_if_wrong(self) -> None:
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            try:
                raise wrong
            finally:
                del wrong  # its traceback holds this frame


def _ask(via: Via, function: Callable[..., Any], args: tuple[Any, ...] = (), timeout: float | None = None) -> Any:
    """Raises RemoteError and OSError alone: roamlet's own functions raise nothing else, so anything else is a false answer."""
    try:
        return via.call(function, args, timeout=timeout)
    except (RemoteError, OSError):
        raise
    except Exception as error:
        problem = error.with_traceback(None)
    raise _malformed(via, "an answer", problem)


def _output_of(via: Via, words: list[str]) -> str:
    said = _ask(via, prompts.output_of, (words,))
    if not isinstance(said, str):
        raise _malformed(via, "what a command printed", said)
    return said


def _malformed(via: Via, what: str, said: object) -> ProtocolError:
    """The error to raise for an answer that no context gives; the context is closed by then."""
    # Without the answer itself: it could be the password.
    problem = f"it answered with a {type(said).__name__} when it was asked for {what} of the terminal that it had made"
    via.break_off(problem)
    return ProtocolError(
        f"{via.name!r} said what no context says, so it was closed, and nothing of that was used: {problem}.\n"
        "    Another version of roamlet may run on the target, or the target is hostile.",
        context=via.name,
    )


def _is_line(said: object) -> bool:
    return type(said) is str and len(said) <= LONGEST_LINE


def _are_lines(said: object) -> bool:
    """Lines may be longer than what is kept of one without an end."""
    if type(said) is not list or len(said) > LINES_KEPT + 1:
        return False
    return all(type(line) is str and len(line) <= 3 * LONGEST_LINE for line in said)
