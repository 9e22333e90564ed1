"""Asking a process of this machine for a trace of itself: the end of the asker. Standard library alone, and it stands alone.

roamlet's own modules are not sent to targets, so this file travels under another name (outside/travelling.py). The syntax is that
of Python 2.7 too.
"""

import errno
import io
import json
import os
import re
import socket
import struct
import sys
import time

FORM = "roamlet.trace.1"  # of session.py
LISTENS = re.compile(
    r"^[0-9a-f]+: [0-9A-F]+ [0-9A-F]+ 00010000 0001 01 +(\d+) (/.*/roamlet-[^/]+/\d+-[0-9a-f]+\.trace)$"
)
ANSWERS = 5.0  # seconds in which a process answers that has a thread to spare
BEGINS = 60.0  # and in which it begins: it asks its contexts to take part
ENDS = 120.0  # and in which it gives more of the trace, once that is over
MOST = 1 << 29  # bytes of an answer
MOST_PARTS = 4096
LONGEST_LINE = 1 << 16
PATH_ONLY = getattr(os, "O_PATH", 0o10000000)
PEERCRED = getattr(socket, "SO_PEERCRED", 17)
CREDENTIALS = struct.Struct("=iII")


class _Ended(Exception):
    pass


def ask(pid, seconds, events, hold, began=None):
    """Have process `pid` take a trace of `seconds`; return its parts (see encoding.py), bytearrays, and how often it has forked.

    Blocks for that long. `began()` is called when the trace has begun. KeyboardInterrupt ends it early, once, and is not raised.
    Raises RuntimeError with a text for the user where there is no trace; OSError does not happen.
    """
    connection = _connected(pid)
    try:
        request = {"form": FORM, "seconds": seconds, "events": events, "hold": hold}
        buffered = _Buffered(connection)
        try:
            try:
                connection.sendall(json.dumps(request).encode() + b"\n")
            except OSError:
                pass  # it has closed the connection, having said why
            _line(buffered, pid, "heard", ANSWERS)
            _line(buffered, pid, "began", BEGINS)
            try:
                if began is not None:
                    began()
                header = _line(buffered, pid, "parts", seconds + ENDS)
            except KeyboardInterrupt:
                connection.sendall(b"e")
                header = _line(buffered, pid, "parts", ENDS)
            sizes = [int(size) for size in header["parts"]]
            if len(sizes) > MOST_PARTS or not all(0 <= size <= MOST for size in sizes) or sum(sizes) > MOST:
                raise ValueError
            return [buffered.take(size) for size in sizes], int(header["forks"])
        except TimeoutError:
            text = "process %d has stopped to answer in the middle: `roamlet stacks %d` shows what it does" % (pid, pid)
        except (OSError, _Ended):
            text = "process %d has ended meanwhile, or has become another program: there is no trace" % pid
        except (ValueError, TypeError, KeyError, OverflowError):
            text = "process %d has given an answer that makes no sense" % pid
        raise RuntimeError(text)
    finally:
        connection.close()


def is_prepared(pid):
    """Whether the process listens. Raises RuntimeError where that cannot be found out."""
    return _path(pid) is not None


class _Buffered:
    def __init__(self, connection):
        self._connection = connection
        self._data = b""

    def line(self, until):
        while b"\n" not in self._data:
            if len(self._data) > LONGEST_LINE:
                raise ValueError
            self._more(max(0.01, until - _now()))
        line, _, self._data = self._data.partition(b"\n")
        try:
            return json.loads(line.decode("utf-8"))
        except RuntimeError:  # lists in lists: no answer
            return []

    def take(self, size):
        pieces, missing = [self._data[:size]], size - len(self._data)
        self._data = self._data[size:]
        self._connection.settimeout(ENDS)
        while missing > 0:
            piece = self._connection.recv(min(missing, 1 << 20))
            if not piece:
                raise _Ended
            pieces.append(piece)
            missing -= len(piece)
        return bytearray().join(pieces)  # on 2.7 other bytes would travel as a text, where they look like one

    def _more(self, seconds):
        self._connection.settimeout(seconds)
        data = self._connection.recv(1 << 16)
        if not data:
            raise _Ended
        self._data += data


def _now():
    return getattr(time, "monotonic", time.time)()


def _line(buffered, pid, name, seconds):
    """The next line that the process says, which has this name in it."""
    until = _now() + seconds
    try:
        line = buffered.line(until)
    except TimeoutError:
        if name != "heard":
            raise
        line = None
    if line is None:  # raised out here, so that the error holds no other one
        raise RuntimeError(_silent(pid))
    if not isinstance(line, dict):
        raise ValueError
    for word in ("refused", "failed"):
        if word in line:
            raise RuntimeError("%s" % line[word])
    line[name]
    return line


def _silent(pid):
    text = "process %d has not answered within %g seconds: " % (pid, ANSWERS)
    if _state(pid) in ("T", "t"):
        return text + "it is stopped, and goes on after `kill -CONT %d`" % pid
    return text + "a thread of it keeps the GIL, so that no other can run. `roamlet stacks %d` shows what it does" % pid


def _opened(path):
    """A file of /proc as text. The names in it are anybody's, and may be no text."""
    return io.open(
        path, encoding="utf-8", errors="replace" if sys.version_info < (3,) else "surrogateescape", newline="\n"
    )


def _state(pid):
    try:
        with _opened("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _connected(pid):
    path = _path(pid)
    if path is None:
        raise RuntimeError(
            "process %d is not prepared for it: start it with ROAMLET_DUMP=1 in its environment, or let it call "
            "roamlet.diagnose.enable(). `roamlet ps %d` and `roamlet stacks %d` need no preparation" % (pid, pid, pid)
        )
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = None
    try:
        connection.settimeout(ANSWERS)
        # By the root of the process, which may be in a container, and by the folder: the path of a socket must be short.
        folder = os.open("/proc/%d/root%s" % (pid, os.path.dirname(path)), PATH_ONLY)
        connection.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(path)))
        listens = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, PEERCRED, CREDENTIALS.size))[0]
        problem = None if listens == pid else "process %d has it from process %d" % (pid, listens)
    except TimeoutError:
        problem = _silent(pid)
    except OSError as error:
        problem = (
            "the socket of process %d, %s, cannot be reached: %s. If the process is in a container, run this inside of it"
            % (pid, path, os.strerror(error.errno) if error.errno else error)
        )
    finally:
        if folder is not None:
            os.close(folder)
    if problem is not None:
        connection.close()
        raise RuntimeError(problem)
    return connection


def _path(pid):
    """The path of the socket by which the process is asked, as the process knows it; None: it has none."""
    try:
        with _opened("/proc/%d/net/unix" % pid) as file:
            found = {}
            for line in file:
                match = LISTENS.match(line.rstrip("\n"))
                if match:
                    found["socket:[%s]" % match.group(1)] = match.group(2)
        if not found:
            os.listdir("/proc/%d/fd" % pid)  # for what it raises
        for name in os.listdir("/proc/%d/fd" % pid) if found else ():
            try:
                link = os.readlink("/proc/%d/fd/%s" % (pid, name))
            except OSError:
                continue  # it was closed
            if link in found:
                return found[link]
        return None
    except OSError as error:
        code = error.errno
    if code in (errno.EACCES, errno.EPERM):
        raise RuntimeError(
            "process %d may not be looked at: it belongs to another user, or has more rights than this one. Run this as its "
            "user, or with sudo" % pid
        )
    if not os.path.isdir("/proc/self"):
        raise RuntimeError("a process is asked by way of /proc, which this system does not have")
    raise RuntimeError("there is no process %d" % pid)
