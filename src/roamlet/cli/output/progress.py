"""One line on a terminal with the progress of many hosts; nothing without a terminal. It is wiped before anything else
is printed.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import IO, TypeVar

T = TypeVar("T")

STATES = ("waiting", "connecting", "running", "done")
INTERVAL = 0.1  # seconds between two numbers of bytes: they change with each piece, too fast to read


class Progress:
    """Counts hosts by state, and the bytes of transfers. `out` is where the line goes, if that is a terminal.

    `size`: the bytes that each host gets or gives, where that is known.
    """

    def __init__(
        self, total: int, out: IO[str], *, size: int | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._out = out if out.isatty() else None
        self._clock = clock
        self._size = None if size is None else size * total
        self._bytes: dict[str, int] = {}
        self._shown = -INTERVAL
        self._states = dict.fromkeys(STATES, 0)
        self._states["waiting"] = total
        self._of: dict[str, str] = {}

    def move(self, host: str, state: str) -> None:
        """A host is in this state now."""
        self._states[self._of.get(host, "waiting")] -= 1
        self._states[state] += 1
        self._of[host] = state
        self.show()

    @contextmanager
    def through(self, host: str, connection: AbstractContextManager[T]) -> Iterator[T]:
        """Enter `connection` and leave it with the block: the host connects, runs, and is done, however that ends."""
        self.move(host, "connecting")
        try:
            with connection as context:
                self.move(host, "running")
                yield context
        finally:
            self.move(host, "done")

    def count(self, host: str, transferred: int) -> None:
        """Set the number of bytes that have come from this host, or gone to it. Shown some times a second."""
        self._bytes[host] = transferred
        now = self._clock()
        if now - self._shown >= INTERVAL:
            self._shown = now
            self.show()

    def show(self) -> None:
        """Write the line."""
        counts = Counter(self._states)
        if self._out is not None and counts["done"] < sum(counts.values()):
            states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
            self._out.write(f"\r\x1b[K{states}{self._amount() if self._bytes else ''}")
            self._out.flush()

    def _amount(self) -> str:
        of = "" if self._size is None else f" of {_size(self._size)}"
        return f"; {_size(sum(self._bytes.values()))}{of}"

    def wipe(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._out is not None:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _size(number: int) -> str:
    """A number of bytes as people read it, such as 1.5 MB."""
    if number < 1000:
        return "1 byte" if number == 1 else f"{number:,} bytes"
    amount = float(number)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 1000 or unit == "TB":
            break
    return f"{amount:,.1f} {unit}"
