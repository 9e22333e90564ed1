"""The terminal of a command that runs in another context, which starts it: prompts come from there, and are answered here.

The other end is weft.wire.prompts. What a terminal is for stands in _terminal.py.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.remote._prompts import Answers, wipe
from weft.remote._terminal import LINES_KEPT, NO, attached
from weft.remote._threads import Threads
from weft.remote._waiting import EVER
from weft.remote.errors import RemoteError
from weft.sync import Event
from weft.wire import prompts

if TYPE_CHECKING:
    from weft.remote.context import Context

STEP = 10.0  # seconds that one question for the next prompt waits over there
LOOK = 0.05  # the same where calls are tasklets, which all wait as long,
PAUSE = 0.2  # and what they get in between


class FarTerminal:
    """One in the context `via`, which is asked for it when this is made. Whole lines go to `line`."""

    unfinished = ""

    def __init__(
        self, via: "Context", answers: Answers, as_stdin: bool, line: Callable[[str], None], deadline: float
    ) -> None:
        """Blocks this tasklet. Raises what Context.call does, TimeoutError when `deadline` passes first."""
        via._shipping.need("prompts", deadline)
        self._via = via
        self._in_turns = via._shipping.has_sent("tasklets")
        self._answers = answers
        self._as_stdin = as_stdin
        self._line = line
        self._over = Event()
        self._finished = False
        answers.run = lambda words: via.call(prompts.output_of, (words,))
        self._number, self._path = via.call(prompts.open_terminal, timeout=max(0.0, deadline - time.monotonic()))

    def wrap(self, argv: list[str]) -> list[str]:
        """The words that start `argv` on this terminal, in a session of its own."""
        return attached(self._path, argv, self._as_stdin)

    def converse(self, greeted: Event, deadline: float, threads: Threads) -> bool:
        """As Terminal.converse."""
        turn, heard = Event(), Event()
        asked: deque[tuple[str, bool, list[str]]] = deque()

        def wake() -> None:
            greeted.wait(EVER)
            turn.set()

        def listen() -> None:
            before: list[str] = []
            try:
                while not greeted.is_set() and not self._finished:
                    step = LOOK if self._in_turns else STEP
                    prompt, hidden, said = self._via.call(prompts.next_prompt, (self._number, step))
                    lines = [str(line) for line in said]
                    before = [*before, *lines][-LINES_KEPT:]
                    for line in lines:
                        self._line(line)
                    if prompt is not None:
                        asked.append((prompt, hidden, before))
                        before = []
                        turn.set()
                    if self._in_turns:
                        greeted.wait(PAUSE)
            except RemoteError:  # the way to it is lost, which whoever waits for HELLO is told
                pass
            finally:
                heard.set()

        threads.links.post(wake)
        threads.links.post(listen)
        try:
            while not greeted.is_set():
                if not turn.wait(max(0.0, deadline - time.monotonic())):
                    return False
                turn.clear()
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
            for line in rest or ():
                self._line(str(line))
            self._over.set()

    def close_after(self, ended: Event, threads: Threads) -> None:
        """Give it back when the context has ended."""

        def close() -> None:
            ended.wait(EVER)
            self._over.wait(STEP)
            self._quietly(prompts.close)

        threads.links.post(close)

    def hang_up(self) -> None:
        """Nothing: closing the tunnel ends it."""

    def _answer(self, prompt: str, hidden: bool, before: list[str]) -> None:
        self.unfinished = prompt
        no = NO.search(prompt)
        answer = bytearray(b"no\n") if no else self._answers.answer(prompt, hidden=hidden, before=before)
        try:
            self._via.call(prompts.type_answer, (self._number, bytes(answer)))
        finally:
            wipe(answer)

    def _quietly(self, function: Callable[[int], list[str] | None]) -> list[str] | None:
        try:
            return self._via.call(function, (self._number,))
        except RemoteError:  # it went with its context
            return None
