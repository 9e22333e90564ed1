"""The process at the near end of a link: ssh, or the interpreter itself. It is started, watched and ended here.

No process and no descriptor is left behind, however it ends.
"""

import contextlib
import errno
import fcntl
import os
import select
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from roamlet import io
from roamlet.core import schedule
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base import descriptors
from roamlet.remote.base.threads import Threads
from roamlet.remote.terminal.prompts import environment
from roamlet.remote.terminal.terminal import Terminal
from roamlet.sync import Event

FULL_READS = 8  # after as many a pipe is enlarged
LINES_KEPT = 60
LONGEST_LINE = 1 << 12
REST = 0.3  # seconds for what an ended process left in its pipes; another process may hold the other ends for ever
STEP = 2.0  # seconds that a process gets for each step of its end
WIDE = 1 << 19  # bytes that a pipe holds which carries much: its two ends wake each other less often


class Process:
    """A started command with pipes on its descriptors 0 to 2: a Pipe (see link/pipe.py).

    `down` and `up` are the non-blocking descriptors of its stdin and stdout; the reader of `up` sets `drained` at its end.
    It is in a session of its own: Ctrl-C is for this process, which then ends
    its contexts itself.
    """

    def __init__(
        self,
        argv: list[str],
        threads: Threads,
        terminal: Terminal | None = None,
        translated: bool = False,
        start: Callable[[Sequence[int]], "subprocess.Popen[bytes]"] | None = None,
        *,
        at_once: bool = False,
        is_account: bool = False,
    ) -> None:
        """Start it. Blocks the calling thread until the command runs: some milliseconds. Raises OSError when it cannot.

        `start`, where given, makes the process in place of `argv`, out of the descriptors for its stdin, stdout and stderr.
        It gets `terminal` as its own, and closes it in the end, also when it cannot be started. `at_once`: it is Python itself, for
        which stdout can be a socket; other commands may want to open theirs by its name. `is_account`: it runs another command
        for another account; until `is_ready` is set, that is not to outlive it.
        """
        theirs: list[int] = []
        ours: list[int] = []
        try:
            for number in range(3):
                reads, writes = descriptors.sockets(WIDE) if number == 1 and at_once else descriptors.pipe()
                theirs.append(writes if number else reads)
                ours.append(reads if number else writes)
            if terminal is not None:
                _require(argv[0])
                argv = terminal.wrap(argv)
            if start is not None:
                descriptors.lend(theirs)
                self._popen = start(theirs)
            else:
                self._popen = subprocess.Popen(
                    argv,
                    stdin=theirs[0],
                    stdout=theirs[1],
                    stderr=theirs[2],
                    start_new_session=True,
                    env=environment(translated=translated, asked=terminal is not None),
                )
        except BaseException:
            _close_all(ours)
            if terminal is not None:
                terminal.close()
            raise
        finally:
            _close_all(theirs)
        self.down: int
        self.up: int
        self.down, self.up, self._errors = ours
        self._full_reads = 0
        self._open = set(ours)
        self._closing = allocate_lock()
        for fd in ours:
            os.set_blocking(fd, False)
        self.said: deque[str] = deque(maxlen=LINES_KEPT)
        self.exited: Event = Event()
        self.drained: Event = Event()
        self._heard = Event()
        self.terminal = terminal
        self.lost: str | None = None  # there is no context in between
        self._is_account = is_account
        self.is_ready = False  # it has become a context
        if terminal is not None:
            terminal.listen(threads, self.said.append)
        threads.links.post(self._watch)
        threads.links.post(self._listen)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        return self._popen.returncode

    def write(self, data: memoryview) -> int:
        """Write as much as the pipe takes at once. A pipe without a reader takes all: the link's reader finds out why."""
        try:
            return os.write(self.down, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def wait_writable(self) -> None:
        io.wait_writable(self.down)

    def try_read(self, size: int) -> bytes | None:
        """What has come, `size` bytes at most, or more where much comes; None when nothing has come yet, empty at the end."""
        try:
            data = os.read(self.up, size if self._full_reads < FULL_READS else WIDE // 2)
        except BlockingIOError:
            return None
        if len(data) == size and self._full_reads < FULL_READS:
            self._full_reads += 1
            if self._full_reads == FULL_READS:
                _enlarge(self.up)
        return data

    def read_if_open(self, size: int, into: list[bytes]) -> bool:
        """Append to `into` what has come, `size` bytes at most, empty at the end and when it was closed; False when nothing has.

        On any thread, while no other thread reads. What was read is in the list, whatever a signal's handler raises.
        """
        with self._closing:  # else the number of the descriptor may be in use again
            if self.up not in self._open:
                into.append(b"")
                return True
            try:
                # One step for the interpreter: no handler runs between the system call and the list.
                into.extend(map(os.read, (self.up,), (size,)))
            except BlockingIOError:
                return False
            except OSError:
                into.append(b"")  # the reader finds out why
            return True

    def wait_readable(self) -> None:
        io.wait_readable(self.up)

    def end(self, patience: float = STEP) -> None:
        if self.exited.wait(patience):
            return
        tree = ProcessTree(self._popen.pid) if self._is_account and not self.is_ready else None
        try:
            self._end_soon()
        finally:
            if tree is not None:
                tree.kill()

    def _end_soon(self) -> None:
        if self.terminal is not None:
            self.terminal.hang_up()
        self._signal(self._popen.terminate)
        self._signal(lambda: self._popen.send_signal(signal.SIGCONT))  # or one that was stopped would not hear of it
        if not self.exited.wait(STEP):
            self._signal(self._popen.kill)
            self.exited.wait(STEP)

    def wait_for_last_lines(self) -> None:
        self._heard.wait(REST)
        if self.terminal is not None:
            self.terminal.wait_for_last_lines()

    def close(self) -> None:
        """Close the descriptors; tasklets that still wait for them are woken. Only on the thread for links, once it has ended."""
        for fd in (self.down, self.up, self._errors):
            self._close(fd)
        if self.terminal is not None:
            self.terminal.close()

    def close_down(self) -> None:
        """Let its stdin come to an end: nothing more is sent. Only on the thread for links."""
        self._close(self.down)

    def _close(self, fd: int) -> None:
        with self._closing:
            if fd in self._open:
                self._open.discard(fd)
                descriptors.close(fd)

    def kill(self) -> None:
        if self.terminal is not None:
            self.terminal.hang_up()
        self._signal(self._popen.kill)

    def _signal(self, send: Callable[[], None]) -> None:
        try:
            send()
        except PermissionError:
            # It runs under another account, as sudo does. What ends it is that its pipes end, and its terminal.
            pass

    def leave_to_parent(self) -> None:
        """In a forked child: the pipes are the parent's, and closed here by now."""
        self._open.clear()
        if self.terminal is not None:
            self.terminal.leave_to_parent()
        self._popen.returncode = 0  # not a child of this process: Popen must neither wait for it nor warn

    def _watch(self) -> None:
        io.wait_process(self._popen)
        self.exited.set()
        while not self.drained.wait(REST):
            # A process that it has forked holds the other end. What has been written is read; then it is over.
            left = select.poll()  # and not select(), which knows no descriptor above 1023
            left.register(self.up, select.POLLIN)
            if not left.poll(0):
                self._close(self.up)
                return

    def _listen(self) -> None:
        unfinished = b""
        while True:
            try:
                data = io.read(self._errors, LONGEST_LINE)
            except OSError:  # it was closed, because another process holds the other end for longer than this one lived
                break
            if not data:
                break
            schedule()  # a process that writes without end must not keep the thread
            *lines, unfinished = (unfinished + data).split(b"\n")
            unfinished = unfinished[-LONGEST_LINE:]
            self.said.extend(line.decode("utf-8", "replace").rstrip("\r") for line in lines)
        if unfinished:
            self.said.append(unfinished.decode("utf-8", "replace"))
        self._heard.set()


class ProcessTree:
    """All that a process has started, and what that has started, as it is now. Ends with `kill`.

    A killed sudo, su or doas does not end the command that it runs for another account. Known on Linux alone, and ended only where
    this user may signal that account's processes, which root may.
    """

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


def _require(program: str) -> None:
    """Raise what Popen would for a program that is not on PATH: between a terminal and its program there is a shell."""
    if shutil.which(program) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)


def _enlarge(pipe: int) -> None:
    """Let a pipe hold WIDE bytes, where the system has them to give: what a user's pipes may hold in all is limited."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, WIDE)


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        descriptors.close(fd)
