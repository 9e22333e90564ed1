"""Finds links that stall without breaking, by sending PING again and again, for contexts that were told to.

A broken link is noticed without this, by the end of a pipe; and ssh sends keep-alives every 15 seconds, see
transports/ssh.py. What remains is a process that is stopped, or hangs in C code that keeps the interpreter's lock.
"""

import itertools

from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.link import Link
from roamlet.sync import Event
from roamlet.wire import protocol

PINGS = 4  # within the time


class Heartbeat:
    """Sends PING on one link until it has ended, or `stop` was called. Runs as a tasklet on the thread for links."""

    def __init__(self, link: Link, seconds: float) -> None:
        self._link = link
        self._seconds = seconds
        self._stop = Event()

    def stop(self) -> None:
        """Send no more. Thread-safe, never blocks."""
        self._stop.set()

    def run(self) -> None:
        link, sender, silent = self._link, self._link.sender, 0
        seen: tuple[int, int] | None = None
        for number in itertools.count(1):
            now = (link.bytes_up, sender.bytes_down - sender.queued)  # what came, and what the pipe took
            silent = silent + 1 if now == seen and not link.is_held else 0
            if silent >= PINGS:
                link.give_up(f"nothing came from it for {self._seconds:g} seconds, though it was asked")
                return
            if sender.has_room:
                link.send_at_once(protocol.frame(link.identifier, ROOT, number & 0xFFFFFFFF, protocol.PING, b""))
            seen = (link.bytes_up, sender.bytes_down - sender.queued)
            if self._stop.wait(self._seconds / PINGS) or link.closed:
                return
