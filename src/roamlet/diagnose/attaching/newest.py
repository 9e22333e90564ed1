"""Preparing a process that was not, where both sides run CPython 3.14 or later: by sys.remote_exec().

The script that it runs there is the one below, and makes it listen as roamlet.diagnose.enable() does; nothing else.
"""

import os
import sys
import tempfile
import time
from typing import Any

from roamlet.diagnose.attaching import asking

SCRIPT = """\
import sys
if "roamlet" in sys.modules:
    from roamlet.diagnose.dumping import listen
    listen()
"""
PATIENCE = 5.0  # seconds for the process to run it: its main thread must be in Python code, or come back to it
POLL = 0.01

remote_exec: Any = getattr(sys, "remote_exec", None)


def prepare(pid: int) -> None:
    """Have the process listen, if that can be done: asking.ask() finds out. RuntimeError where more is known of why it cannot."""
    if remote_exec is None:
        return
    descriptor, path = tempfile.mkstemp(prefix="roamlet-", suffix=".py")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(SCRIPT)
        os.chmod(path, 0o644)  # its process may be another user's, where this one's is root
        try:
            remote_exec(pid, path)
        except (RuntimeError, ValueError):  # another version of Python, or none
            return
        except OSError as error:
            raise RuntimeError(
                f"process {pid} is not prepared (ROAMLET_DUMP=1, or roamlet.diagnose.enable()), and sys.remote_exec() was "
                f"refused: {error.strerror or error}"
            ) from None
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if asking.is_prepared(pid):
                return
            time.sleep(POLL)
        raise RuntimeError(
            f"process {pid} has not run what would prepare it within {PATIENCE:g} seconds: its main thread does not come back to "
            f"Python code, or it has not loaded roamlet. `roamlet stacks {pid}` shows what it does"
        )
    finally:
        os.unlink(path)
