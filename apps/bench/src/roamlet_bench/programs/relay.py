"""A slow line between two pipe ends: `python relay.py RTT[:JITTER:LOSS:SEED] RATE COUNTERS COMMAND...`

Starts COMMAND and passes bytes between its own stdin and stdout and the command's, each piece RTT/2 seconds after it came, at no
more than RATE bytes per second each way (0: no limit). Counts in the file COUNTERS what passed, for `read_counters`.

With a rate, jitter or loss, bytes travel in packets. Each comes up to JITTER seconds later than it should, and the part LOSS of
them is lost and sent once more: such a packet comes a round trip later, and since this is a stream, all later ones wait for it.
SEED decides which ones. It models no more of TCP than that: no slow start (some 5 round trips for 450 kB on a fresh
connection), no window that shrinks after a loss. Figures taken through it flatter a sender of large pieces. Runs alone:
it imports nothing of this package, and little of the standard library, since its own start is part of each measured connection.
"""

import mmap
import os
import select
import struct
import sys
import time
from collections import deque

LAYOUT = struct.Struct("<5Q")
FIELDS = ("down", "up", "turnarounds", "started", "argv")
PACKET = 1448  # bytes of a stream in one Ethernet frame
BUFFERED = 64 << 20  # bytes on the line at most; a sender of more has to wait, as with any other line


class Counters:
    """Bytes each way and turnarounds, in a file that another process reads while we run. Several relays may add to one file."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a+b")  # noqa: SIM115 - lives as long as the process
        self._file.truncate(LAYOUT.size)
        self._map = mmap.mmap(self._file.fileno(), LAYOUT.size)
        self.values = dict(zip(FIELDS, LAYOUT.unpack(self._map[:]), strict=True))
        self._last_was_up = False

    def passed_down(self, count: int) -> None:
        """The parent sent something. If the child spoke before, this is a turnaround: it may have waited for it."""
        self.values["down"] += count
        self.values["turnarounds"] += self._last_was_up
        self._last_was_up = False
        self._store()

    def passed_up(self, count: int) -> None:
        """Something reached the parent."""
        self.values["up"] += count
        self._last_was_up = True
        self._store()

    def started(self, command: list[str]) -> None:
        self.values["started"] += 1
        self.values["argv"] += sum(len(os.fsencode(argument)) + 1 for argument in command)
        self._store()

    def _store(self) -> None:
        self._map[:] = LAYOUT.pack(*(self.values[field] for field in FIELDS))


def read_counters(path: str) -> dict[str, int]:
    """What the relays that were given this file have passed so far; all zero before the first one has started."""
    with open(path, "rb") as file:
        data = file.read(LAYOUT.size)
    return dict(zip(FIELDS, LAYOUT.unpack(data.ljust(LAYOUT.size, b"\0")), strict=True))


class Line:
    """One direction: bytes read from `source` are written to `sink` when their time has come."""

    def __init__(
        self, source: int, sink: int, delay: float, rate: float, jitter: float = 0, loss: float = 0, seed: int = 0
    ) -> None:
        self.source: int | None = source
        self.sink: int | None = sink
        self.buffered = 0
        self._delay = delay
        self._rate = rate
        self._jitter = jitter
        self._loss = loss
        self._random = seed
        self._last_due = 0.0
        self._queue: deque[tuple[float, bytes]] = deque()
        self._free_at = 0.0  # when the sender's end of the line has put everything so far on it

    @property
    def due(self) -> float | None:
        """When the next piece is to be delivered, or None."""
        return self._queue[0][0] if self._queue else None

    @property
    def ended(self) -> bool:
        return self.sink is None

    def take(self, now: float) -> int:
        """Read what is there; returns its length. At end of file the line closes once it is empty."""
        assert self.source is not None
        try:
            data = os.read(self.source, 65536)
        except BlockingIOError:
            return 0
        except OSError:  # the other end of a socket is gone: the same as end of file
            data = b""
        if not data:
            self.source = None
            self._close_if_empty()
            return 0
        size = PACKET if self._rate or self._jitter or self._loss else len(data)
        self._free_at = max(self._free_at, now)
        for start in range(0, len(data), size):
            packet = data[start : start + size]
            self._free_at += len(packet) / self._rate if self._rate else 0.0
            self._last_due = max(self._last_due, self._free_at + self._under_way())
            self._queue.append((self._last_due, packet))
        self.buffered += len(data)
        return len(data)

    def _under_way(self) -> float:
        """How long the next packet takes, sent again as often as it is lost."""
        seconds = self._delay
        if self._jitter:
            seconds += self._jitter * self._chance()
        while self._loss and self._chance() < self._loss:
            seconds += 2 * self._delay
        return seconds

    def _chance(self) -> float:
        """A number from 0 to 1, the same ones for the same seed. (The module random takes as long to import as we to start.)"""
        self._random = (self._random * 6364136223846793005 + 1442695040888963407) % 2**64
        return self._random / 2**64

    def deliver(self, now: float) -> int:
        """Write what is due, as far as the sink takes it; returns how many bytes went. A sink that is gone ends the line."""
        sent = 0
        while self._queue and self._queue[0][0] <= now and self.sink is not None:
            due, data = self._queue.popleft()
            try:
                count = os.write(self.sink, data)
            except BlockingIOError:
                count = 0
            except OSError:
                self.source = None
                self._queue.clear()
                self.buffered = 0
                break
            sent += count
            self.buffered -= count
            if count < len(data):
                self._queue.appendleft((due, data[count:]))
                break
        self._close_if_empty()
        return sent

    def _close_if_empty(self) -> None:
        if self.source is None and not self._queue and self.sink is not None:
            os.close(self.sink)
            self.sink = None


def relay(down: Line, up: Line, counters: Counters) -> None:
    """Pass bytes until nothing more can come up. The child's end of output ends us; ours only ends its input."""
    while not up.ended:
        now = time.monotonic()
        reading = [line.source for line in (down, up) if line.source is not None and line.buffered < BUFFERED]
        blocked = [
            line.sink for line in (down, up) if line.due is not None and line.due <= now and line.sink is not None
        ]
        waits = [line.due - now for line in (down, up) if line.due is not None and line.due > now]
        readable, _, _ = select.select(reading, blocked, [], min(waits, default=None))
        now = time.monotonic()
        if down.source in readable:
            taken = down.take(now)
            if taken:
                counters.passed_down(taken)
        if up.source in readable:
            up.take(now)
        down.deliver(now)
        delivered = up.deliver(now)
        if delivered:
            counters.passed_up(delivered)


def main(delays: str, rate: str, counters_path: str, *command: str) -> int:
    round_trip, jitter, loss, seed = [*delays.split(":"), "0", "0", "0"][:4]
    counters = Counters(counters_path)
    counters.started(list(command))
    child_in, to_child = os.pipe()
    from_child, child_out = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, child_in, 0), (os.POSIX_SPAWN_DUP2, child_out, 1)]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
    os.close(child_in)
    os.close(child_out)
    for fd in (0, 1, to_child, from_child):
        os.set_blocking(fd, False)
    slow = (float(round_trip) / 2, float(rate), float(jitter), float(loss))
    down = Line(0, to_child, *slow, seed=2 * int(seed))
    up = Line(from_child, 1, *slow, seed=2 * int(seed) + 1)
    relay(down, up, counters)
    if not down.ended and down.sink is not None:
        os.close(down.sink)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
