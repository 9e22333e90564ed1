"""A controlling terminal for a command that asks for passwords: prompts are read at its other end, and answered there.

ssh, sudo, su and doas ask on their terminal and not on stdin, so both stay apart: stdin and stdout are pipes and carry the
protocol, from the first byte on, while the terminal carries what a person would see and type. The answers come
from terminal/prompts.py.
"""

import os
import re
import termios
import time
from collections.abc import Callable

from roamlet import io
from roamlet.core import sleep
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base import descriptors
from roamlet.remote.base.deadlines import EVER
from roamlet.remote.base.threads import Threads
from roamlet.remote.terminal.prompts import Answers, wipe
from roamlet.sync import Event

# The command opens the terminal, being the leader of a session that has none, and so it becomes that session's. A pre-exec
# function of Popen would do the same, but runs Python in a fork of a process with threads.
ATTACH = ': <>"$0" && exec "$@"'
# su asks on stdin and stderr; what it runs finds the pipes again as 3 and 4.
ATTACH_AS_STDIN = 'exec 3<&0 4>&2 <>"$0" 2>&0 && exec "$@"'
TAKE_PIPES_BACK = "[ -t 0 ] && exec <&3 2>&4 3<&- 4>&-; "

READ_SIZE = 4096
LONGEST_LINE = 1 << 12
LINES_KEPT = 60
END_OF_FILE = b"\x04"
SETTLED = 0.02  # seconds without another byte after which a prompt is complete
SETTLED_WITH_ECHO = 0.4  # the same where it may be the beginning of a line of text, too
SILENCE = 0.06  # seconds without output after which an ended command has written everything
# Answered with "no": roamlet does not decide whether a host key is the right one.
NO = re.compile(r"\(yes/no[^)]*\)\? *$|'yes', 'no'[^:]*: *$")


def attached(path: str, argv: list[str], as_stdin: bool) -> list[str]:
    """The words that start `argv` as the leader of a session whose terminal is the one at `path`."""
    return ["/bin/sh", "-c", ATTACH_AS_STDIN if as_stdin else ATTACH, path, *argv]


class Terminal:
    """Made before the command starts; `wrap` its words, then `listen`. Ends with `close`.

    `unfinished` is the line that has no end yet, such as a prompt. Both ends stay open here for as long as the command runs:
    sudo does not survive it when this process is the last to close its end.
    """

    def __init__(self, answers: Answers, as_stdin: bool = False) -> None:
        self.master: int
        self.master, self._slave = descriptors.terminal()
        os.set_blocking(self.master, False)
        self._answers = answers
        self._as_stdin = as_stdin
        self._lock = allocate_lock()  # held while typing: after `close` the descriptor's number may be in use again
        self._open = {self.master, self._slave}
        self._wake_up = Event()
        self._prompt: tuple[str, list[str]] | None = None  # with the lines before it
        self._before: list[str] = []  # lines since the last prompt; the last ones of many
        self.unfinished: str = ""
        self._heard = 0  # how often something was
        self._ready = False  # then further prompts on the target get an end of file, as without a terminal
        self._line: Callable[[str], None] = lambda line: None

    def wrap(self, argv: list[str]) -> list[str]:
        """The words that start `argv` on this terminal, in a session of its own."""
        return attached(os.ttyname(self._slave), argv, self._as_stdin)

    def listen(self, threads: Threads, line: Callable[[str], None]) -> None:
        """Begin to read what is written; whole lines go to `line`."""
        self._line = line
        threads.links.post(self._listen)

    def answer_prompts(self, greeted: Event, deadline: float, threads: Threads) -> bool:
        """Answer in this tasklet until `greeted` is set, or the deadline has passed: False then. The answers are wiped after it.

        The time that the caller's function takes does not count. Raises what Answers.answer raises.
        """

        def wake() -> None:
            greeted.wait(EVER)
            self._wake_up.set()

        threads.links.post(wake)
        try:
            while not greeted.is_set():
                if not self._wake_up.wait(max(0.0, deadline - time.monotonic())):
                    return False
                self._wake_up.clear()
                with self._lock:
                    prompt, self._prompt = self._prompt, None
                if prompt is not None:
                    began = time.monotonic()
                    self._type(self._answers.answer(prompt[0], hidden=not self._echoes(), before=prompt[1]))
                    deadline += time.monotonic() - began
            return True
        finally:
            self._ready = True
            self._answers.wipe()

    def wait_for_last_lines(self) -> None:
        """Block this tasklet until what the ended command said, before it was ready, has gone to `line`; for a moment at most."""
        if self._ready:
            return
        end = time.monotonic() + SILENCE
        while time.monotonic() < end:
            heard = self._heard
            sleep(SETTLED)  # what was written reaches this end of a terminal a little later, so a look would not do
            if heard != self._heard:
                end = time.monotonic() + SILENCE
        if self.unfinished.strip():
            self._line(self.unfinished)

    def hang_up(self) -> None:
        """Make its session end, whatever account it runs under: no account can forbid the signal of a terminal that is gone."""
        self.close()

    def close(self) -> None:
        """Give the descriptors back. Thread-safe; never blocks."""
        with self._lock:
            for fd in self._open:
                descriptors.close(fd)
            self._open.clear()

    def leave_to_parent(self) -> None:
        """In a forked child: it is the parent's."""
        self._lock = allocate_lock()
        self._open.clear()
        self._answers.wipe()

    def _type(self, answer: bytearray) -> None:
        try:
            with self._lock:
                if self.master in self._open:
                    os.write(self.master, answer)
        except OSError:  # it has ended; what it said last tells why
            pass
        finally:
            wipe(answer)

    def _echoes(self) -> bool:
        with self._lock:
            if self.master not in self._open:
                return True
            modes: int = termios.tcgetattr(self.master)[3]
            return bool(modes & termios.ECHO)

    def _listen(self) -> None:
        try:
            while True:
                data = io.read(self.master, READ_SIZE)
                if not data:
                    break
                self._heard += 1
                *lines, rest = (self.unfinished + data.decode("utf-8", "replace")).split("\n")
                if len(rest) > LONGEST_LINE:
                    lines.append(rest[:-LONGEST_LINE])
                self.unfinished = rest.rstrip("\r")[-LONGEST_LINE:]
                self._before = [*self._before, *lines][-LINES_KEPT:]
                for line in lines:
                    self._line(line.strip("\r"))
                if self.unfinished.strip() and self._settled():
                    self._asked(self.unfinished.strip())
        except OSError:  # it was closed
            pass

    def _settled(self) -> bool:
        """Whether nothing follows what was read: then the command waits for an answer."""
        try:
            io.wait_readable(self.master, SETTLED_WITH_ECHO if self._echoes() else SETTLED)
        except TimeoutError:
            return True
        return False

    def _asked(self, prompt: str) -> None:
        if self._ready:
            self._type(bytearray(END_OF_FILE))
            return
        if NO.search(prompt):
            self._type(bytearray(b"no\n"))
            return
        before, self._before = self._before, []
        with self._lock:
            self._prompt = prompt, before
        self._wake_up.set()
