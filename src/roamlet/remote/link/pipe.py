"""What a link needs of the way to its context: a process of our own with its pipes, or a tunnel through another context."""

from collections import deque
from typing import Protocol

from roamlet.remote.terminal.relayed import RelayedTerminal
from roamlet.remote.terminal.terminal import Terminal
from roamlet.sync import Event


class Pipe(Protocol):
    """Bytes down, bytes up, and the end of the process at the far side of them. See process.Process and routes.Tunnel.

    `said` are the last lines that the command wrote to its stderr. `exited` is set when the command has ended; the link's reader
    sets `drained` when nothing more comes. `terminal` is where the command asks for passwords. `lost` says what broke the way
    itself, where that is why it has ended.
    """

    said: deque[str]
    exited: Event
    drained: Event
    lost: str | None

    @property
    def terminal(self) -> Terminal | RelayedTerminal | None:
        """The one on which its command asks, if it may ask."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and where it is not known; negative for the signal that ended it."""

    def write(self, data: memoryview) -> int:
        """Take as much as goes at once, and say how much: all of it when the other end is closed. Never blocks."""

    def wait_writable(self) -> None:
        """Block this tasklet until `write` takes something. Raises OSError when the way is closed."""

    def try_read(self, size: int) -> bytes | None:
        """What has come; None when nothing has come yet, empty at the end. Raises ValueError for what no context sends."""

    def wait_readable(self) -> None:
        """Block this tasklet until `try_read` has something."""

    def end(self, patience: float = ...) -> None:
        """Block this tasklet until it has ended: by itself within `patience` seconds, else it is terminated, else killed."""

    def wait_for_last_lines(self) -> None:
        """Block this tasklet until all that the ended process wrote to stderr is in `said`, for a moment at most."""

    def close_down(self) -> None:
        """Let its stdin come to an end: nothing more is sent."""

    def close(self) -> None:
        """Give back what it holds here. Only once it has ended."""

    def kill(self) -> None:
        """Kill it if it runs. Never blocks."""

    def leave_to_parent(self) -> None:
        """In a forked child: let go of what belongs to the parent."""
