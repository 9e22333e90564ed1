"""Which processes have been started from here, and how they are ended: also those that have left their parents and sessions.

What calls `supervise` goes on in a child of the process that was started. That one is a child subreaper (prctl(2)): a process
whose parent has ended becomes its child, so whatever was started is found below it. It ends all of that when its child has
ended, however that was. The child itself is no subreaper: orphans would be its own children, which no test expects.

No policy here: tests/conftest.py decides what of the tests is ended when, and tools/ci.py is one such run as a whole.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

# What was killed and does not end is stuck in the kernel, or its user is not ours: no use in waiting on.
PATIENCE_SECONDS = 10.0

# What still tidies up when its parent has ended has so long: the processes that remove folders in memory do.
GRACE_SECONDS = 1.0

# The process that stands by: none, or one.
_supervisor: list[int] = []


class Process(NamedTuple):
    pid: int
    since: int
    """When it started, in ticks since boot: a later process of the same number is another one."""


def supervise() -> None:
    """Go on in a child of this process; this process waits for it, ends what it leaves, and exits as it did.

    To be called before there is a second thread. Does nothing when called again, or where there are no subreapers.
    """
    if _supervisor or not sys.platform.startswith("linux"):
        return
    prctl = ctypes.CDLL(None).prctl
    if prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return  # an emulator that does not know it
    sys.stdout.flush()
    sys.stderr.flush()
    _supervisor.append(os.getpid())
    child = os.fork()
    if child:
        _stand_by(child)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() not in _supervisor:
        os.kill(os.getpid(), signal.SIGKILL)


def _stand_by(child: int) -> NoReturn:
    """Wait for the child, reaping orphans; end whatever else there is; end as the child did."""
    for number in (signal.SIGINT, signal.SIGQUIT):  # a terminal sends them to the child too
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    pid = 0
    while pid != child:
        pid, status = os.waitpid(-1, 0)
    limit = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(ChildProcessError):  # none is left
        while time.monotonic() < limit:
            os.waitpid(-1, os.WNOHANG)
            time.sleep(0.01)
    end(lambda: below(os.getpid()), reap=True)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def running() -> frozenset[Process]:
    """Every process started since `supervise` that has not ended; without the supervisor and this process."""
    return frozenset(one for pid in _supervisor for one in below(pid) if one.pid != os.getpid())


def end(look: Callable[[], frozenset[Process]], reap: bool = False) -> frozenset[Process]:
    """Kill what `look` finds until it finds nothing, for what they start meanwhile is found too. Returns what was killed.

    Blocks until they have ended, PATIENCE_SECONDS at most for each. With `reap`, zombies of this process are waited for.
    """
    ended: frozenset[Process] = frozenset()
    while found := look() - ended:
        handles = list(_killed(found))
        poll = select.poll()
        for handle in handles:
            poll.register(handle, select.POLLIN)
            poll.poll(PATIENCE_SECONDS * 1000)
            poll.unregister(handle)
            os.close(handle)
        ended |= found
    with contextlib.suppress(ChildProcessError):
        while reap and os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return ended


def _killed(processes: frozenset[Process]) -> Iterator[int]:
    """Send SIGKILL to each; yield descriptors that become readable when they have ended."""
    for process in processes:
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            if _started(process.pid) == process.since:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # gone, or of a user whom this one may not touch
            os.close(handle)
        else:
            yield handle


def below(pid: int) -> frozenset[Process]:
    """The descendants of the process that have not ended."""
    found = set()
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            waiting.append(child)
            if (since := _started(child)) is not None:
                found.add(Process(child, since))
    return frozenset(found)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                children += map(int, (task / "children").read_text().split())
    return children


def _started(pid: int) -> int | None:
    """When the process started; None when it has ended, whether it was waited for or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
