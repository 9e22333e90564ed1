"""A child process with a copy of this one's memory, and so with everything that is imported, that serves as a context.

Nothing is started and nothing is imported again: what both sides only read they share, page by page. No exec follows, so
everything here is about what a copy of a process with threads may safely do:

- It is forked by a thread that was made for it: no tasklet, no frame and no lock of the callers is on its stack, and the tasklets
  of other threads do not exist in the child.
- roamlet's own threads are stopped at a point where they hold nothing. Other threads may hold any lock, which would
  never be released in the child; so while there are others, the fork is refused, unless the caller says that it is safe.
- The child has none of the parent's descriptors: each of them is /dev/null in the child, so that no connection of the parent's is
  kept open or written to, and no number is used twice.
- Its copies of the parent's buffers, exit handlers, signal handlers and log handlers do nothing.
"""

import atexit
import fcntl
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from _thread import LockType
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from roamlet import io
from roamlet.core.os_threads import allocate_lock
from roamlet.io._workers.pool import pool
from roamlet.remote import modules
from roamlet.remote.base.threads import Threads
from roamlet.remote.errors import UnsafeFork
from roamlet.remote.terminal.prompts import VARIABLE
from roamlet.sync import Lock
from roamlet.wire.life import target

PATIENCE = 5.0  # seconds that roamlet's own threads get to come to a rest
FIRST_OF_OURS = 3
LEFT_AS_THEY_ARE = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP}

_kept: list[object] = []  # in the child: what must not be finalised there
_one_at_a_time = Lock()  # a tasklet that has it may wait for the end of a thread


class ForkedProcess(subprocess.Popen[bytes]):
    """A forked child with the part of Popen's interface that Process needs."""

    def __init__(self, pid: int) -> None:
        self.args: list[str] = ["fork"]
        self.pid = pid
        self.returncode = None
        self.stdin: None = None
        self.stdout: None = None
        self.stderr: None = None
        self._reaping = allocate_lock()

    def poll(self) -> int | None:
        with self._reaping:
            if self.returncode is None:
                found, status = os.waitpid(self.pid, os.WNOHANG)
                if found:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def __del__(self) -> None:
        """Do nothing: Process waits for it."""


def fork(descriptors: Sequence[int], token: str, threads: Threads, *, beside_threads: bool) -> ForkedProcess:
    """Fork a child that serves on `descriptors`: its stdin, stdout and stderr. Blocks the calling thread for some milliseconds.

    Raises UnsafeFork while there are other threads, unless `beside_threads`; OSError when no process can be made.
    """
    pool.dismiss_idle()
    if not beside_threads:
        _refuse_other_threads(threads)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()  # or both processes would write it
    result: list[int | OSError] = []
    with _one_at_a_time, _at_rest(threads):
        thread = io.start_thread(lambda: result.append(_fork_here(descriptors, token)), "roamlet-fork")
        thread.join()
    outcome = result.pop()
    if isinstance(outcome, OSError):
        try:
            raise outcome
        finally:
            del outcome  # its traceback holds this frame
    return ForkedProcess(outcome)


def _refuse_other_threads(threads: Threads) -> None:
    known = {thread.thread for thread in (threads.links, threads.callbacks, threads.modules)}
    others = [one.name for one in threading.enumerate() if one not in known and one is not threading.current_thread()]
    if others:
        raise UnsafeFork(
            f"this process was not forked, because it has other threads: {', '.join(sorted(others)[:8])}.\n"
            "    A lock that one of them holds at that moment would never be released in the child. Open the context before they "
            "start, use remote.local(), or, if they hold no lock that is needed there: remote.fork(beside_threads=True)"
        )


@contextmanager
def _at_rest(threads: Threads) -> Iterator[None]:
    """Keep roamlet's own threads where they hold nothing, between two jobs."""
    go_on: list[LockType] = []
    try:
        for one in (threads.callbacks, threads.modules, threads.links):
            if one.is_current():
                continue
            rests, held = allocate_lock(), allocate_lock()
            rests.acquire()
            held.acquire()
            go_on.append(held)

            def rest(rests: LockType = rests, held: LockType = held) -> None:
                rests.release()
                held.acquire()

            one.post(rest)
            if not rests.acquire(timeout=PATIENCE):
                raise UnsafeFork(
                    f"this process was not forked, because its thread {one.name} did not come to a rest within {PATIENCE:g} "
                    "seconds.\n    Does an output function, or a log handler, block its thread?"
                )
        yield
    finally:
        for held in go_on:
            held.release()


def _fork_here(descriptors: Sequence[int], token: str) -> int | OSError:
    # 3.12 warns of forks beside threads; roamlet's own are stopped, and the caller has said that the others are safe.
    warnings.filterwarnings(
        "ignore", ".*multi-threaded", DeprecationWarning, r"roamlet\.remote\.transports\.fork_child$"
    )
    inherited = [int(name) for name in os.listdir("/proc/self/fd")]
    try:
        pid = os.fork()
    except OSError as error:
        return error
    if pid:
        return pid
    try:
        _become_child(descriptors, inherited)
        target.main(token, _names())
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    os._exit(1)


def _become_child(descriptors: Sequence[int], inherited: Sequence[int]) -> None:
    gc.freeze()  # what is shared stays shared: no collection writes into it, or finalises it
    os.setsid()
    above = max(inherited) + 1  # the list's own descriptor is closed by now, and shall not become one of these
    own = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in descriptors]
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in inherited:
        if fd >= FIRST_OF_OURS and fd != nothing:
            os.dup2(nothing, fd, inheritable=False)
    for number, fd in enumerate(own):
        os.dup2(fd, number)
    for fd in own:
        os.close(fd)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - LEFT_AS_THEY_ARE:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    _kept.extend((sys.stdin, sys.stdout, sys.stderr))
    atexit._clear()
    for logger in [logging.root, *logging.root.manager.loggerDict.values()]:
        if isinstance(logger, logging.Logger):
            _kept.append(logger.handlers)
            logger.handlers = []  # the parent's handle what is sent there
            logger.propagate = True
    for name in [name for name in os.environ if VARIABLE.fullmatch(name)]:
        del os.environ[name]


def _names() -> set[str]:
    """The top-level names that are imported already, the main script under the name by which it is asked for."""
    name = modules.name_on_target()
    sys.modules.setdefault(name, sys.modules["__main__"])
    return {name.partition(".")[0] for name in sys.modules}
