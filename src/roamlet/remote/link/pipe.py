"""What a link needs of the way to its context: a process of our own with its pipes, or a tunnel through another context."""

from collections import deque
from typing import Protocol

from roamlet.remote.terminal.relayed import FarTerminal
from roamlet.remote.terminal.terminal import Terminal
from roamlet.sync import Event


class Pipe(Protocol):
    """Bytes down, bytes up, and the end of the process at the far side of them. See `_process.Process`, `_routes.Tunnel`.

    `said` are the last lines that the command wrote to its stderr. `exited` is set when it has ended, `drained` is for whoever
    reads to set when nothing more comes. `terminal` is where its command asks for passwords. `lost` says what broke the way itself,
    where that is why it has ended.
    """

    said: deque[str]
    exited: Event
    drained: Event
    lost: str | None

    @property
    def terminal(self) -> Terminal | FarTerminal | None:
        """The one on which its command asks, if it may ask."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and where it is not known; negative for the signal that ended it."""

    def write(self, data: memoryview) -> int:
        """Take as much as goes at once, and say how much: all of it when nobody reads any more. Never blocks."""

    def wait_writable(self) -> None:
        """Block this tasklet until `write` takes something. Raises OSError when the way is closed."""

    def try_read(self, size: int) -> bytes | None:
        """What has come; None when that is nothing yet, empty at the end. Raises ValueError for what no context sends."""

    def wait_readable(self) -> None:
        """Block this tasklet until `try_read` has something."""

    def end(self, patience: float = ...) -> None:
        """Block this tasklet until it has ended: by itself within `patience` seconds, else it is terminated, else killed."""

    def hear_out(self) -> None:
        """Block this tasklet until all that the ended process wrote to stderr is in `said`, for a moment at most."""

    def close_down(self) -> None:
        """Let its stdin come to an end: nothing more is sent."""

    def close(self) -> None:
        """Give back what it holds here. Only once it has ended."""

    def kill(self) -> None:
        """Kill it if it runs. Never blocks."""

    def leave_to_parent(self) -> None:
        """In a forked child: let go of what belongs to the parent."""
