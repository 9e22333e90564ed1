"""Links that stall without breaking: found out by asking over and over, for contexts that are told to.

A broken link is noticed without any of this, by the end of a pipe; and ssh asks for itself every 15 seconds, see
transports/ssh.py. What remains is a process that is stopped, or hangs in C code that keeps the interpreter's lock.
"""

import itertools
from typing import TYPE_CHECKING

from roamlet.sync import Event
from roamlet.wire import protocol

if TYPE_CHECKING:  # _link is what is watched
    from roamlet.remote.link.link import Link

ASKS = 4  # questions within the time


class Heartbeat:
    """Asks one link until it has ended, or `stop` was called. Runs as a tasklet on the thread for links."""

    def __init__(self, link: "Link", seconds: float) -> None:
        self._link = link
        self._seconds = seconds
        self._stop = Event()

    def stop(self) -> None:
        """Ask no more. Thread-safe, never blocks."""
        self._stop.set()

    def run(self) -> None:
        link, silent = self._link, 0
        seen: tuple[int, int] | None = None
        for number in itertools.count(1):
            now = (link.bytes_up, link.bytes_down - link.waiting)  # what came, and what the pipe took
            silent = silent + 1 if now == seen and not link.is_held else 0
            if silent >= ASKS:
                link.give_up(f"nothing came from it for {self._seconds:g} seconds, though it was asked")
                return
            if link.has_room:
                link.send_at_once(protocol.frame(link.identifier, 0, number & 0xFFFFFFFF, protocol.PING, b""))
            seen = (link.bytes_up, link.bytes_down - link.waiting)
            if self._stop.wait(self._seconds / ASKS) or link.closed:
                return
