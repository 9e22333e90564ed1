"""Waiting for child processes to end."""

import os
import sys
import time
from typing import TYPE_CHECKING, TypeAlias

from roamlet.core import sleep
from roamlet.io import _originals
from roamlet.io._native import close, wait_readable
from roamlet.io._timeouts import check_timeout

if TYPE_CHECKING:  # code that has a Popen has imported it; `import roamlet` need not
    import subprocess

Popen: TypeAlias = "subprocess.Popen[bytes] | subprocess.Popen[str]"

# Where the kernel has no descriptors for processes: look again after these many seconds, doubling.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


def wait_process(process: "int | Popen", timeout: float | None = None) -> int:
    """Block this tasklet until a child process has ended; reap it and return its exit code, -N when signal N ended it.

    `process` is a subprocess.Popen, whose returncode is set, or the number of a child. Raises TimeoutError after
    `timeout` seconds (the child goes on), ChildProcessError when there is no such child.
    """
    check_timeout(timeout, "wait_process(timeout)")
    popen = None if isinstance(process, int) else _popen(process)
    if popen is not None and popen.poll() is not None:
        return popen.returncode
    pid = process if isinstance(process, int) else process.pid
    if popen is None:
        _require_child(pid)
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return _poll_process(pid, popen, timeout)
    try:
        wait_readable(fd, timeout)
    finally:
        close(fd)
    return _reap(popen) if popen is not None else os.waitstatus_to_exitcode(_originals.waitpid(pid, 0)[1])


def _reap(popen: Popen) -> int:
    """The child has ended: set its Popen's returncode, which poll() does without blocking, and return it."""
    while (code := popen.poll()) is None:  # another thread reaps it at this moment
        sleep(0)
    return code


def _popen(process: Popen) -> Popen:
    """Refuse anything but a Popen: no object is one before subprocess has been imported."""
    if "subprocess" not in sys.modules or not isinstance(process, sys.modules["subprocess"].Popen):
        raise TypeError(f"wait_process() takes a subprocess.Popen or the number of a child process, not {process!r}")
    popen: Popen = process
    return popen


def _require_child(pid: int) -> None:
    """Refuse what is no child of ours; waitpid would take 0 and the negative for groups of them, and reap any."""
    if pid <= 0:
        raise ValueError(f"{pid} is no number of a process: pass a subprocess.Popen or what os.fork() returned")
    if hasattr(os, "waitid"):  # macOS has it from 3.13 on; elsewhere waitpid will refuse later
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            raise ChildProcessError(f"no child process has the number {pid}: was it waited for already?") from None


def _poll_process(pid: int, popen: "Popen | None", timeout: float | None) -> int:
    """Without pidfd (Linux before 5.3, macOS): ask at growing intervals."""
    pause, end = _FIRST_PAUSE, None if timeout is None else time.monotonic() + timeout
    while True:
        if popen is not None:
            code = popen.poll()
            if code is not None:
                return code
        else:
            found, status = _originals.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"the child process {pid} was still running after {timeout} seconds")
        sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
