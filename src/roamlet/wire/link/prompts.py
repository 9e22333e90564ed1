"""Reads prompts, on an intermediary: terminals for the commands that it starts and that ask for passwords; the parent answers.

The parent's functions (remote/terminal/relayed.py) call these, each in a thread of its own.
"""

import errno
import itertools
import os
import select
import subprocess
import termios
import threading
import time

from roamlet.wire.link import link

READ_SIZE = 4096
LONGEST_LINE = 1 << 12
MOST_LINES = 60
SETTLED = 0.02  # seconds without another byte after which a prompt is complete
SETTLED_WITH_ECHO = 0.4  # the same where it may be the beginning of a line of text, too
LAST_WORDS = 0.06  # seconds of silence after which a command that has ended has said everything
SLICE = 0.1  # seconds after which a waiting thread looks whether it is still wanted
END_OF_FILE = b"\x04"

_terminals = {}
_numbers = itertools.count(1)


def open_terminal():
    """Make a terminal; return its number and the path by which a command opens it."""
    number = next(_numbers)
    _terminals[number] = terminal = _Terminal()
    return number, terminal.path


def next_prompt(number, seconds):
    """Wait until somebody asks; return (prompt or None, whether what is typed is hidden, the lines said before)."""
    terminal = _terminals.get(number)
    return (None, False, []) if terminal is None else terminal.next_prompt(seconds)


def type_answer(number, answer):
    """Type these bytes. Here and below: nothing when it was closed meanwhile, because its command has ended."""
    terminal = _terminals.get(number)
    if terminal is not None:
        terminal.type(answer)


def finish(number):
    """Answer nothing more: prompts from now on get an end of file. Return the lines said before."""
    terminal = _terminals.get(number)
    if terminal is None:
        return []
    lines = terminal.finish()
    link.start_thread("roamlet-terminal", terminal.refuse)
    return lines


def close(number):
    """Hang up, and give the descriptors back."""
    terminal = _terminals.pop(number, None)
    if terminal is not None:
        terminal.close()


def output_of(argv):
    """Run a command that asks nothing; return what it prints, as text."""
    with open(os.devnull, "r+b") as nothing:
        process = subprocess.Popen(argv, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing)
        return process.communicate()[0].decode("utf-8", "replace")


class _Terminal(object):
    def __init__(self):
        self._master, self._slave = os.openpty()
        for fd in (self._master, self._slave):
            link._close_on_exec(fd)
        link.set_nonblocking(self._master)
        self.path = os.ttyname(self._slave)
        # Held whenever a descriptor is used: its number may be somebody else's after `close`.
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # held by the thread that reads
        self._open = True
        self._done = False
        self._unfinished = ""
        self._lines = []
        self._reported = False

    def next_prompt(self, seconds):
        end = time.time() + seconds
        prompt = None
        with self._turn:
            while prompt is None and self._open and not self._done and time.time() < end:
                prompt = self._look(min(SLICE, seconds))
            lines, self._lines = self._lines, []
        return prompt, not self._echoes(), lines

    def finish(self):
        self._done = True
        with self._turn:
            while self._wait(LAST_WORDS):
                self._read()
            return self._lines + [self._unfinished]

    def refuse(self):
        while self._open:
            if self._look(10 * SLICE) is not None:
                self.type(END_OF_FILE)
            del self._lines[:]

    def type(self, answer):
        with self._lock:
            if self._open:
                try:
                    os.write(self._master, answer)
                except EnvironmentError as error:
                    if error.errno not in (errno.EAGAIN, errno.EIO):
                        raise

    def close(self):
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._master)
                os.close(self._slave)

    def _look(self, seconds):
        """Wait for so long at most; return the prompt that has become complete, or None."""
        if not self._wait(seconds):
            return None
        self._read()
        while self._unfinished.strip() and not self._reported:
            if not self._wait(SETTLED_WITH_ECHO if self._echoes() else SETTLED):
                self._reported = True
                return self._unfinished.strip()
            self._read()
        return None

    def _wait(self, seconds):
        poll = select.poll()
        with self._lock:
            if not self._open:
                return False
            poll.register(self._master, select.POLLIN)
        return bool(link.retry(poll.poll, int(seconds * 1000)))

    def _read(self):
        with self._lock:
            if not self._open:
                return
            try:
                data = os.read(self._master, READ_SIZE)
            except EnvironmentError:
                return
        lines = (self._unfinished + data.decode("utf-8", "replace")).split("\n")
        rest = lines.pop()
        self._unfinished = rest[-LONGEST_LINE:]
        if len(rest) > LONGEST_LINE:
            lines.append(rest[:-LONGEST_LINE])  # the beginning of a prompt names the program that asks
        self._lines.extend(line.strip("\r") for line in lines)
        del self._lines[:-MOST_LINES]
        self._reported = False

    def _echoes(self):
        with self._lock:
            return not self._open or bool(termios.tcgetattr(self._master)[3] & termios.ECHO)
