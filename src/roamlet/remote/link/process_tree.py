"""The processes that a command has started: a killed sudo, su or doas does not end the one that it runs for another account.

Known on Linux alone, and ended only where this user may signal that account's processes, which root may.
"""

import contextlib
import os
import signal
from pathlib import Path


class ProcessTree:
    """All that a process has started, and what that has started, as it is now. Ends with `kill`."""

    def __init__(self, pid: int) -> None:
        """Never blocks, raises nothing. Processes that end meanwhile are left out; a pidfd names one process for ever."""
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
