"""The process at the near end of a link: ssh, or the interpreter itself. It is started, watched and ended here.

No process and no descriptor is left behind, however it ends.
"""

import os
import subprocess
import threading
from collections import deque

from weft import io
from weft.remote._threads import Threads
from weft.remote._waiting import Latch

LINES_KEPT = 40
LONGEST_LINE = 1 << 12
REST = 0.3  # seconds for what a process that has ended left in its pipe; somebody else may hold the other end for ever
STEP = 2.0  # seconds that a process gets for each step of its end


class Process:
    """A started command with pipes on its descriptors 0 to 2.

    `down` and `up` are the non-blocking descriptors of its stdin and stdout. What it writes to stderr is kept, the last lines of it,
    in `said`. It is in a session of its own: Ctrl-C is for this process, which then ends its contexts itself.
    """

    def __init__(self, argv: list[str], threads: Threads) -> None:
        """Start it. Blocks the calling thread until the command runs: some milliseconds. Raises OSError when it cannot."""
        self._popen = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr
        self.pid = self._popen.pid
        self.down = self._popen.stdin.fileno()
        self.up = self._popen.stdout.fileno()
        self._errors = self._popen.stderr.fileno()
        for fd in (self.down, self.up, self._errors):
            os.set_blocking(fd, False)
        self.said: deque[str] = deque(maxlen=LINES_KEPT)
        self.exited = Latch()
        self._heard = Latch()
        self._threads = threads
        self._closing = threading.Lock()
        threads.links.post(self._watch)
        threads.links.post(self._listen)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._popen.returncode

    def end(self, patience: float = STEP) -> None:
        """Block this tasklet until it has ended: by itself within `patience` seconds, else it is terminated, else killed."""
        if self.exited.wait(patience):
            return
        self._popen.terminate()
        if not self.exited.wait(STEP):
            self._popen.kill()
            self.exited.wait(STEP)

    def hear_out(self) -> None:
        """Block this tasklet until all that the ended process wrote to stderr is in `said`, for a moment at most."""
        self._heard.wait(REST)

    def close(self) -> None:
        """Give the descriptors back. It must have ended, and nobody may be waiting for them."""
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        """Kill it if it runs. Never blocks."""
        self._popen.kill()

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the pipes, so that their other end sees when the parent is gone."""
        self.close()
        self._popen.returncode = 0  # it is nobody's child here: Popen must neither wait for it nor warn

    def _watch(self) -> None:
        io.wait_process(self._popen)
        self.exited.set()

    def _listen(self) -> None:
        unfinished = b""
        while True:
            try:
                data = io.read(self._errors, LONGEST_LINE)
            except OSError:
                break
            if not data:
                break
            *lines, unfinished = (unfinished + data).split(b"\n")
            unfinished = unfinished[-LONGEST_LINE:]
            self.said.extend(line.decode("utf-8", "replace").rstrip("\r") for line in lines)
        if unfinished:
            self.said.append(unfinished.decode("utf-8", "replace"))
        self._heard.set()
