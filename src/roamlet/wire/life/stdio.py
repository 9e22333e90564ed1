"""Standard input, output and error of a target: nothing to read, and everything written becomes STREAM frames.

The descriptors 1 and 2 are pipes, so that what child processes and C libraries print comes along.
"""

import errno
import io
import os
import select
import sys
import threading

from roamlet.wire import protocol
from roamlet.wire.link.link import _close_on_exec, retry, set_nonblocking, start_thread

_CAPACITY = 1 << 16  # of a pipe: what one flush can have left in it


class Streams(object):
    """Takes over descriptors 0 to 2 and sys.stdin, stdout and stderr when made."""

    def __init__(self, link):
        self._link = link
        self._lock = threading.Lock()
        self._ends = {}
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        for number in (1, 2):
            end, other = os.pipe()
            os.dup2(other, number)
            os.close(other)
            _close_on_exec(end)
            set_nonblocking(end)
            self._ends[end] = number
        self._ready = self._poll()
        sys.stdout = sys.__stdout__ = _writer(1)
        sys.stderr = sys.__stderr__ = _writer(2)

    def _poll(self):
        poll = select.poll()
        for end in self._ends:
            poll.register(end, select.POLLIN)
        return poll

    def start(self):
        """Start the thread that forwards what is written while no call ends."""
        start_thread("roamlet-stdio", self._forward)

    def _forward(self):
        waiting = self._poll()
        while self._ends:
            for end, _ in retry(waiting.poll):
                if end not in self._ends:
                    waiting.unregister(end)
            try:
                self._send_what_is_there()
            except EnvironmentError:
                return  # the link is lost; the reader ends the process

    def flush(self):
        """Send what has been printed so far. Called before each result, so that output never comes after it.

        Blocks while the parent does not read. Raises LinkLost.
        """
        for name in ("stdout", "stderr"):
            try:
                getattr(sys, name).flush()
            except BaseException:
                # Somebody put an object of their own there, or closed or removed it: nothing of ours is in it.
                continue
        self._send_what_is_there()

    def _send_what_is_there(self):
        with self._lock:
            for end, _ in retry(self._ready.poll, 0):
                try:
                    data = os.read(end, _CAPACITY)
                except EnvironmentError as error:
                    if error.errno not in (errno.EAGAIN, errno.EINTR):
                        raise
                    continue
                if data:
                    self._link.send(protocol.STREAM, self._ends[end], data)
                else:  # the descriptor was closed, and no process can write to the pipe any more
                    self._ready.unregister(end)
                    del self._ends[end]


if sys.version_info >= (3,):

    def _writer(number):
        errors = "surrogateescape" if number == 1 else "backslashreplace"
        return io.open(number, "w", 1, "utf-8", errors, closefd=False)

else:

    class _Writer(object):
        """Standard output of 2.7 with what 3.x does: text is UTF-8 and lines go out at once."""

        encoding = "utf-8"
        errors = "strict"
        softspace = 0

        def __init__(self, number):
            self._number = number
            self._lock = threading.RLock()
            self._parts = []

        def write(self, text):
            if type(text) is not str:
                text = text.encode("utf-8") if isinstance(text, unicode) else str(text)  # noqa: F821
            with self._lock:
                self._parts.append(text)
                if "\n" in text or len(self._parts) > 100:
                    self.flush()

        def writelines(self, lines):
            for line in lines:
                self.write(line)

        def flush(self):
            with self._lock:
                data = "".join(self._parts)
                self._parts = []
                while data:
                    data = data[retry(os.write, self._number, data) :]

        def fileno(self):
            return self._number

        def isatty(self):
            return False

    def _writer(number):
        return _Writer(number)
