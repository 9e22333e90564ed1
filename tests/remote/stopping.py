"""Processes of a test's own: stop one and know that it has stopped, and wait for the end of one."""

import os
import select
import signal
from pathlib import Path

import roamlet


def stop(pid: int) -> None:
    """Send SIGSTOP and wait until every thread of the process stands still: the signal alone takes a moment."""
    os.kill(pid, signal.SIGSTOP)
    for _ in range(1000):
        if all(_state(thread) == "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
            return
        roamlet.sleep(0.005)
    raise AssertionError(f"process {pid} was told to stop five seconds ago and still runs")


def gone(pid: int, *, seconds: float = 3) -> bool:
    """Whether the process is gone, or becomes so within `seconds`; it need not be a child of ours."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def _state(thread: Path) -> str:
    # "pid (name) state ...", and the name may hold anything.
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]
