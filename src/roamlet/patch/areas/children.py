"""The area `subprocess`: child processes of subprocess and os, waited for and talked to by one tasklet.

subprocess.Popen stays the class that it is, so that its subclasses, and modules that took it by name, follow. Starting a child
takes the thread until it has begun its program, as it does in roamlet.io. Those of multiprocessing: processes.py.
"""

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from roamlet.core import CancelScope, TaskletExit
from roamlet.io import _native
from roamlet.patch._asking import pauses
from roamlet.patch._handlers import sleep, wait_readable
from roamlet.patch._pipe_files import Io, Selector
from roamlet.patch.areas import processes
from roamlet.patch.changes import Changes

_waitpid = os.waitpid


def apply(changes: Changes) -> None:
    """Replace what blocks in subprocess, and the functions of os that wait for a child."""
    popen = subprocess.Popen
    changes.replace(popen, "_wait", _wait)
    changes.replace(popen, "__exit__", _leaving(vars(popen)["__exit__"]))
    changes.replace(subprocess, "io", Io())
    changes.replace(subprocess, "_PopenSelector", Selector)
    if getattr(subprocess, "_fork_exec", None) is not None:
        changes.replace(subprocess, "_fork_exec", _starting(subprocess._fork_exec))  # type: ignore[attr-defined]
    changes.replace(os, "waitpid", _waiting(os.waitpid, _of_waitpid))
    changes.replace(os, "wait", _waiting_for_any(os.waitpid))
    changes.replace(os, "wait3", _waiting(os.wait3, lambda options: (-1, options), ("options",)))
    changes.replace(os, "wait4", _waiting(os.wait4, _of_waitpid, ("pid", "options")))
    if hasattr(os, "waitid"):
        changes.replace(os, "waitid", _waitid(os.waitid))
    if hasattr(os, "posix_spawn"):
        changes.replace(os, "system", system)
    processes.apply(changes)


# ---- waiting ----


def _await_change(pid: int, options: int, ask: Callable[[], Any]) -> Any:
    """Block this tasklet until ask(), which does not block, returns something that is true, and return that.

    Of a single child the kernel tells the end by a descriptor; it has none for groups of children, nor for one that
    is stopped or goes on.
    """
    pause = pauses()
    while not (found := ask()):
        if not (pid > 0 and not options & (os.WUNTRACED | os.WCONTINUED) and _wait_for_end(pid, None)):
            sleep(next(pause))
    return found


def _wait_for_end(pid: int, timeout: float | None) -> bool:
    """Block this tasklet until the child has ended, or `timeout` seconds have passed; False where the kernel cannot tell."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # Linux before 5.3, macOS; or the child was reaped, which ask() will say
        return False
    try:
        with suppress(TimeoutError):
            wait_readable(fd, timeout)
    finally:
        _native.close(fd)
    return True


def _of_waitpid(pid: int, options: int) -> tuple[int, int]:
    return pid, options


def _waiting(
    original: Callable[..., Any], about: Callable[..., tuple[int, int]], names: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """os.waitpid, wait3 or wait4: `about` returns from its arguments the child that is meant, and the options.

    `names` are the arguments that may be given by name.
    """

    @functools.wraps(original)
    def waits(*args: Any, **keywords: Any) -> Any:
        given = args + tuple(keywords[name] for name in names[len(args) :] if name in keywords)
        if len(given) != len(args) + len(keywords):
            return original(*args, **keywords)  # which says what is wrong
        args = given
        try:
            pid, options = about(*args)
            asks = not options & os.WNOHANG
        except TypeError:
            return original(*args)
        if not asks:
            return original(*args)

        def ask() -> Any:
            found = original(*args[:-1], options | os.WNOHANG)
            return found if found[0] else None

        return _await_change(pid, options, ask)

    return waits


def _waiting_for_any(waitpid: Callable[[int, int], tuple[int, int]]) -> Callable[[], tuple[int, int]]:
    """os.wait."""

    @functools.wraps(os.wait)
    def wait() -> tuple[int, int]:
        def ask() -> tuple[int, int] | None:
            found = waitpid(-1, os.WNOHANG)
            return found if found[0] else None

        found: tuple[int, int] = _await_change(-1, 0, ask)
        return found

    return wait


def _waitid(original: Callable[[int, int, int], Any]) -> Callable[[int, int, int], Any]:
    @functools.wraps(original)
    def waitid(idtype: int, id: int, options: int, /) -> Any:
        if not isinstance(options, int) or options & os.WNOHANG:
            return original(idtype, id, options)
        exits_only = options & os.WEXITED and not options & (os.WSTOPPED | os.WCONTINUED)
        one = id if idtype == os.P_PID and exits_only else -1

        def ask() -> Any:
            return original(idtype, id, options | os.WNOHANG)

        if idtype == getattr(os, "P_PIDFD", object()) and exits_only:
            wait_readable(id)
        return _await_change(one, 0, ask)

    return waitid


# ---- subprocess ----


def _wait(self: Any, timeout: float | None) -> int:
    """Popen._wait: block this tasklet until the child has ended. TimeoutExpired after `timeout` seconds."""
    deadline = None if timeout is None else monotonic() + timeout
    pause = pauses()
    while not _has_ended(self):
        left = None if deadline is None else deadline - monotonic()
        if left is not None and left <= 0:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        if not _wait_for_end(self.pid, left):
            sleep(next(pause) if left is None else min(next(pause), left))
    code: int = self.returncode
    return code


def _has_ended(popen: Any) -> bool:
    """Reap the child if it has ended and no other thread does so at this moment."""
    if popen.returncode is None and popen._waitpid_lock.acquire(False):
        try:
            if popen.returncode is None:
                pid, status = popen._try_wait(os.WNOHANG)
                if pid == popen.pid:
                    popen._handle_exitstatus(status)
        finally:
            popen._waitpid_lock.release()
    return popen.returncode is not None


def _leaving(original: Callable[..., None]) -> Callable[..., None]:
    """Popen.__exit__, which waits for the child: in a tasklet that is being killed or cancelled it must not wait for long."""

    @functools.wraps(original)
    def __exit__(self: Any, kind: type[BaseException] | None, error: Any, traceback: Any) -> None:
        if kind is None or not issubclass(kind, TaskletExit):
            original(self, kind, error, traceback)
            return
        self.kill()
        with CancelScope(shield=True):
            original(self, kind, error, traceback)

    return __exit__


def _starting(original: Callable[..., int]) -> Callable[..., int]:
    """subprocess._fork_exec: a child that runs a preexec_fn is waited for until it begins its program, or says why it cannot."""

    @functools.wraps(original)
    def _fork_exec(*args: Any) -> int:
        pid = original(*args)
        errpipe_read, errpipe_write, preexec_fn = args[12], args[13], args[21]
        if preexec_fn is None:
            return pid
        try:
            # Our own copy of the write end would keep the pipe open: the number becomes another file's until Popen closes it.
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.dup2(null, errpipe_write, inheritable=False)
            finally:
                os.close(null)
            wait_readable(errpipe_read)
        except BaseException:
            os.kill(pid, signal.SIGKILL)  # Popen does not know of it yet
            _waitpid(pid, 0)
            raise
        return pid

    return _fork_exec


def system(command: Any) -> int:
    """os.system: run `command` in a shell and return its wait status. Blocks this tasklet only.

    Unlike C's system(), it leaves the parent's signal handlers alone: other tasklets go on, and so Ctrl-C reaches the parent
    as well. Killed while it waits, it kills the shell; what a signal handler raises it raises when the shell has ended.
    """
    line = os.fsencode(command)
    sys.audit("os.system", line)
    started: list[int] = []
    raised: BaseException | None = None
    try:
        while True:
            try:
                if not started:  # in C alone: no signal handler can raise between the start and the list
                    started.extend(map(os.posix_spawn, ["/bin/sh"], [["sh", "-c", os.fsdecode(line)]], [os.environ]))
                status = _system_status(started[0])
                break
            except TaskletExit:
                if started:
                    os.kill(started[0], signal.SIGKILL)
                    _waitpid(started[0], 0)
                raise
            except BaseException as error:  # of a signal handler, or raised in this tasklet by another one
                if not started:
                    raise
                raised = error
        if raised is not None:
            raise raised
        return status
    finally:
        del raised


def _system_status(pid: int) -> int:
    def ask() -> tuple[int, int] | None:
        found = _waitpid(pid, os.WNOHANG)
        return found if found[0] else None

    try:
        status: int = _await_change(pid, 0, ask)[1]
    except ChildProcessError:  # SIGCHLD is ignored, or a waitpid(-1) of somebody else's was faster
        return -1
    return status
