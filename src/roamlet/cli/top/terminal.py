"""The terminal that `roamlet top` draws on: its screen, its keys, its signals; left as it was found, however that comes about."""

import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CAUGHT = (*ENDING, signal.SIGTSTP, signal.SIGWINCH)
MOST_BYTES = 4096  # of keys at a time

NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "esc",
    **dict(zip("ABCDHF", ("up", "down", "right", "left", "home", "end"), strict=True)),
    "5~": "page up",
    "6~": "page down",
    "1~": "home",
    "7~": "home",
    "4~": "end",
    "8~": "end",
}
# Escape sequences first: after an escape alone what comes next is a key of its own.
KEY = re.compile(r"\x1b(?:\[|O)([0-9;]*[A-Za-z~])|(.)", re.DOTALL)


def keys(data: str) -> Iterator[str]:
    """The names of the keys that a terminal has sent: "up", "enter", "q". Those without a name are left out."""
    for sequence, char in KEY.findall(data):
        if sequence:
            if sequence in NAMES:
                yield NAMES[sequence]
        elif char in NAMES:
            yield NAMES[char]
        elif char.isprintable():
            yield char


def can_be_drawn_on(out: IO[str]) -> bool:
    """Whether it is a terminal that knows more than lines."""
    return out.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


class Terminal:
    """A context manager: while it is entered, `out` shows what is drawn, and keys come at once and are not shown.

    Signals that would end or stop this process are noted in `caught`; whoever draws looks at them often. For the main thread.
    """

    def __init__(self, out: IO[str]) -> None:
        self._console = Console(file=out, highlight=False)
        self._live: Live | None = None
        self._settings: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self.keyboard: int | Any | None = sys.stdin.fileno() if sys.stdin.isatty() else None
        self.caught: list[int] = []

    def __enter__(self) -> "Terminal":
        try:
            for number in CAUGHT:
                self._handlers[number] = signal.signal(number, self._note)
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._end()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            self._handlers = {}

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.size

    def draw(self, lines: Iterable[tuple[str, str]]) -> None:
        """Show these lines, each with its style, in place of what was there. A terminal that is gone shows nothing."""
        assert self._live is not None
        text = Text("\n", no_wrap=True, overflow="crop", end="").join(Text(line, style) for line, style in lines)
        self._live.update(text, refresh=True)

    def suspend(self) -> None:
        """Stop this process as Ctrl-Z does, with the terminal as it was; returns when it is continued."""
        self._end()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)
        self._begin()

    def _begin(self) -> None:
        if self.keyboard is not None:
            self._settings = termios.tcgetattr(self.keyboard)
            tty.setcbreak(self.keyboard)
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def _end(self) -> None:
        live, self._live = self._live, None
        settings, self._settings = self._settings, None
        try:
            if live is not None:
                live.stop()
        except OSError:
            pass  # the terminal has gone, as SIGHUP says
        finally:
            if settings is not None and self.keyboard is not None:
                try:
                    termios.tcsetattr(self.keyboard, termios.TCSADRAIN, settings)
                except termios.error:
                    pass  # the same

    def _note(self, number: int, _: FrameType | None) -> None:
        self.caught.append(number)
