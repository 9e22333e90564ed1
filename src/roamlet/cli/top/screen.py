"""The live view of `roamlet top`: draws the board, obeys keys and signals, while tasklets look at the processes."""

import os
import signal
import sys
import time

import roamlet
from roamlet import io
from roamlet.cli.top.board import Board, Key
from roamlet.cli.top.looking import Looks
from roamlet.cli.top.terminal import ENDING, MOST_BYTES, Terminal, keys
from roamlet.cli.top.view import PROCESS, View

TURN = 0.2  # seconds after which it is looked whether something has happened: a signal, another size


def show(board: Board, looks: Looks, *, only: Key | None) -> None:
    """Draw until q is pressed. Blocks. Raises KeyboardInterrupt for Ctrl-C; ends this process where another signal asks for that.

    `only`: the one process that was asked for. The terminal is as it was before when this returns or raises.
    """
    view = View(only=only)
    if only is None and len(board.seen) == 1:
        view.level, view.process = PROCESS, next(iter(board.seen))
    with Terminal(sys.stdout) as terminal, roamlet.scope() as scope:
        pressed: roamlet.channel[bytes] = roamlet.channel()
        for look in looks:
            scope.spawn(look, (lambda _: _wait_while(view), None))
        if terminal.keyboard is not None:
            scope.spawn(_read_keys, (terminal.keyboard, pressed))
        ending = _draw(view, board, terminal, pressed)
        scope.cancel()
    if ending == signal.SIGINT:
        raise KeyboardInterrupt
    if ending:
        signal.signal(ending, signal.SIG_DFL)
        os.kill(os.getpid(), ending)


def _draw(view: View, board: Board, terminal: Terminal, pressed: "roamlet.channel[bytes]") -> int:
    """The signal that ends it; 0: the user does."""
    shown: object = None
    while not view.leave:
        while terminal.caught:
            number = terminal.caught.pop(0)
            if number in ENDING:
                return number
            if number == signal.SIGTSTP:
                terminal.suspend()
                shown = None
        width, height = terminal.size
        lines = view.lines(board, width, height, time.strftime("%H:%M:%S"))
        if (lines, width) != shown:
            terminal.draw(lines)
            shown = lines, width
        try:
            _, data = roamlet.select(pressed, timeout=TURN)
        except TimeoutError:
            continue
        if not data:
            return signal.SIGHUP  # the terminal has gone
        for key in keys(data.decode("utf-8", "replace")):
            view.press(key, board)
    return 0


def _read_keys(keyboard: int, pressed: "roamlet.channel[bytes]") -> None:
    while True:
        io.wait_readable(keyboard)
        try:
            data = os.read(keyboard, MOST_BYTES)
        except OSError:
            data = b""
        pressed.send(data)
        if not data:
            return


def _wait_while(view: View) -> None:
    """Keep a tasklet from its next look as long as the view is paused: what is looked at pays nothing then."""
    while view.paused:
        roamlet.sleep(TURN)
