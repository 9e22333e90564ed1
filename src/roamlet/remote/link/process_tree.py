"""The processes below a command: sudo, su and doas, once killed, leave behind the one that they run for another account.

Known on Linux alone, and ended only where this user may signal that account's processes, which root may.
"""

import contextlib
import os
import signal
from pathlib import Path


class Family:
    """All that a process has started, and what that has started, as it is now. Ends with `kill`."""

    def __init__(self, pid: int) -> None:
        """Never blocks, raises nothing. What ends meanwhile is no member; no number of a process is used twice here."""
        self._members: list[int] = []
        found = [pid]
        for one in found:
            found += _children(one)
        for one in found[1:]:
            with contextlib.suppress(OSError, AttributeError):
                self._members.append(os.pidfd_open(one))

    def kill(self) -> None:
        """Kill those that are left, as far as that is allowed."""
        for member in self._members:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(member, signal.SIGKILL)
            os.close(member)
        self._members.clear()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []
