"""A pseudo-terminal with a program in it, and a person in front of it."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

LIMIT = 30


class Terminal:
    """A person at a terminal with a program in it. `size`: columns and lines."""

    def __init__(self, words, folder, environment, size=(80, 24)):
        self._fd, other = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(other)
        self.process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=other, stdout=other, stderr=other,
            start_new_session=True, preexec_fn=lambda: _make_controlling(0),
        )  # fmt: skip
        os.close(other)
        self._seen = ""

    def resize(self, columns, lines):
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def settings(self):
        """Those of the terminal, as termios has them."""
        return termios.tcgetattr(self._fd)

    def type(self, text):
        os.write(self._fd, text.encode())

    def interrupt(self, text):
        """Press Ctrl-C until this text comes. One that comes right before Python waits for keys counts with the next key."""
        for _ in range(LIMIT - 1):
            self.type("\x03")
            with contextlib.suppress(AssertionError):
                return self.see(text, 1)
        self.type("\x03")
        return self.see(text)

    def see(self, text, limit=LIMIT):
        """Wait for this text, behind what was waited for before; returns what came in front of it."""
        deadline = time.monotonic() + limit
        while text not in self._seen:
            ready = select.select([self._fd], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, f"no {text!r} in {self._seen!r}"
            with contextlib.suppress(OSError):
                data = os.read(self._fd, 65536)
                if data:
                    self._seen += data.decode().replace("\r\n", "\n")
                    continue
            raise AssertionError(f"it ended; no {text!r} in {self._seen!r}")
        before, _, self._seen = self._seen.partition(text)
        return before

    def give_back(self, text):
        """Have it come again, in front of all that comes."""
        self._seen = text + self._seen

    def ended(self):
        """The exit code, once it is there."""
        with contextlib.suppress(OSError):
            while select.select([self._fd], [], [], LIMIT)[0] and os.read(self._fd, 65536):
                pass
        return self.process.wait(LIMIT)

    def close(self):
        os.close(self._fd)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _make_controlling(fd):
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
