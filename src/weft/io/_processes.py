"""Waiting for child processes to end."""

import os
import subprocess
import time

from weft.core import sleep
from weft.io._descriptors import wait_readable

# Where the kernel has no descriptors for processes: look again after these many seconds, doubling.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


def wait_process(process: "int | subprocess.Popen[bytes] | subprocess.Popen[str]", timeout: float | None = None) -> int:
    """Block this tasklet until a child process has ended; reap it and return its exit code, -N when signal N ended it.

    `process` is a subprocess.Popen, whose returncode is set, or the number of a child. Raises TimeoutError after
    `timeout` seconds (the child goes on), ChildProcessError when there is no such child.
    """
    popen = process if isinstance(process, subprocess.Popen) else None
    if popen is not None and popen.poll() is not None:
        return popen.returncode
    pid = process.pid if isinstance(process, subprocess.Popen) else _child(process)
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return _poll_process(pid, popen, timeout)
    try:
        wait_readable(fd, timeout)
    finally:
        os.close(fd)
    return popen.wait() if popen is not None else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _child(pid: int) -> int:
    """Refuse what is no child of ours; waitpid would take 0 and the negative for groups of them, and reap any."""
    if not isinstance(pid, int):
        raise TypeError(f"wait_process() takes a subprocess.Popen or the number of a child process, not {pid!r}")
    if pid <= 0:
        raise ValueError(f"{pid} is no number of a process: pass a subprocess.Popen or what os.fork() returned")
    if hasattr(os, "waitid"):  # macOS has it from 3.13 on; elsewhere waitpid will refuse later
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            raise ChildProcessError(f"no child process has the number {pid}: was it waited for already?") from None
    return pid


def _poll_process(
    pid: int, popen: "subprocess.Popen[bytes] | subprocess.Popen[str] | None", timeout: float | None
) -> int:
    """Without pidfd (Linux before 5.3, macOS): ask at growing intervals."""
    pause, end = _FIRST_PAUSE, None if timeout is None else time.monotonic() + timeout
    while True:
        if popen is not None:
            code = popen.poll()
            if code is not None:
                return code
        else:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"the child process {pid} was still running after {timeout} seconds")
        sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
