"""One line on a terminal that says how far many hosts are; nothing where nobody looks. It is wiped before anything else is said."""

from collections import Counter
from typing import IO

__all__ = ["Progress"]

STATES = ("waiting", "connecting", "running", "done")


class Progress:
    """Counts hosts by state. `out` is where the line goes, if that is a terminal."""

    def __init__(self, total: int, out: IO[str]) -> None:
        self._out = out if out.isatty() else None
        self._states = dict.fromkeys(STATES, 0)
        self._states["waiting"] = total
        self._of: dict[str, str] = {}

    def move(self, host: str, state: str) -> None:
        """A host is in this state now."""
        self._states[self._of.get(host, "waiting")] -= 1
        self._states[state] += 1
        self._of[host] = state
        self.show()

    def show(self) -> None:
        """Write the line."""
        counts = Counter(self._states)
        if self._out is not None and counts["done"] < sum(counts.values()):
            self._out.write("\r\x1b[K" + ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]))
            self._out.flush()

    def wipe(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._out is not None:
            self._out.write("\r\x1b[K")
            self._out.flush()
