"""The socket at which a prepared process is asked for a trace: its file, who may connect, and what is done at a fork.

It is a file in a folder that only this user may enter, so that it is also reached from outside of a container's file system and
network, by way of /proc/PID/root. The name of an abstract socket would leave no file behind, and any user could connect to it.
"""

import _socket
import atexit
import os
import select
import stat
import struct
import tempfile
from typing import Any

from roamlet.diagnose.attaching.session import Session

BACKLOG = 8
LONGEST_PATH = 100  # bytes; the kernel's limit is 108
SWEPT = 1000  # names in the folder that are looked at
CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid: the kernel's struct ucred
ENDING = ".trace"


class Door:
    """A listening socket of this process, and the session of the process that has asked last. Used in one thread at a time.

    Raises OSError where no socket can be made.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._path, self._listening = _listening()
        self._session: Session | None = None
        atexit.register(self._at_exit)

    def events(self) -> dict[int, int]:
        """What to wait for, by descriptor."""
        wanted = {self._listening.fileno(): select.POLLIN}
        if self._session is not None:
            wanted[self._session.descriptor] = self._session.events()
        return wanted

    def seconds(self) -> float | None:
        """How long to wait at most; None: for ever."""
        return None if self._session is None else self._session.seconds()

    def attend(self, ready: set[int]) -> None:
        """Do what can be done now: these descriptors are ready, or the time has passed. Blocks for a trace's begin and end."""
        session = self._session
        if session is not None and not session.attend(session.descriptor in ready):
            self._session = None
            session.close()
        if self._listening.fileno() in ready:
            self._accept()

    def _accept(self) -> None:
        try:
            descriptor, _ = self._listening._accept()  # what socket.accept() calls
        except OSError:  # it has gone away again
            return
        connection = _socket.socket(fileno=descriptor)
        connection.setblocking(False)
        os.set_inheritable(descriptor, False)
        pid, user = credentials(connection)
        session = Session(connection, pid)
        if user not in (os.geteuid(), 0):
            session.refuse(f"process {os.getpid()} answers its own user and root alone")
        elif self._session is not None:
            session.refuse(
                f"process {os.getpid()} is being traced already, for process {self._session.asker}: one trace at a time"
            )
        else:
            self._session = session
            return
        session.close()

    def forked(self) -> None:
        """In the parent, after a fork."""
        if self._session is not None:
            self._session.forks += 1

    def forget(self) -> None:
        """In a forked child: make a socket of its own; its parent's, and what it was asked, are the parent's. Raises OSError."""
        self._listening.close()
        if self._session is not None:
            self._session.leave_to_parent()
            self._session = None
        self._pid = os.getpid()
        self._path = ""
        self._path, self._listening = _listening()

    def close(self) -> None:
        """Answer no more; a trace that is being taken ends. Idempotent."""
        atexit.unregister(self._at_exit)
        session, self._session = self._session, None
        if session is not None:
            session.close()
        self._listening.close()
        self._at_exit()

    def _at_exit(self) -> None:
        if self._path and self._pid == os.getpid():
            _remove(self._path)
            self._path = ""


def credentials(connection: _socket.socket) -> tuple[int, int]:
    """The number of the process at the other end, and its user's."""
    answer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, CREDENTIALS.size)
    pid, user, _ = CREDENTIALS.unpack(answer)
    return pid, user


def _listening() -> tuple[str, Any]:
    folder = _folder()
    _sweep(folder)
    path = os.path.join(folder, f"{os.getpid()}-{os.urandom(4).hex()}{ENDING}")
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.bind(os.fsencode(path))
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        _remove(path)
        raise
    return path, listening


def _folder() -> str:
    """The folder of this user's sockets, which no other user may enter; it stays."""
    above = tempfile.gettempdir()
    name = f"roamlet-{os.geteuid()}"
    if len(os.fsencode(above)) + len(name) + 32 > LONGEST_PATH:
        above = "/tmp"
    folder = os.path.join(above, name)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise PermissionError(f"{folder} is not a folder that this user alone may enter") from None
    return folder


def _sweep(folder: str) -> None:
    """Remove the files of processes that have ended without an end of their own: killed, or by os._exit()."""
    for name in os.listdir(folder)[:SWEPT]:
        pid = name.partition("-")[0]
        if not name.endswith(ENDING) or os.path.exists(f"/proc/{pid}"):
            continue
        with _Trying() as trying:  # a process of another PID namespace may listen there
            try:
                trying.connect(os.fsencode(os.path.join(folder, name)))
            except ConnectionRefusedError:
                _remove(os.path.join(folder, name))
            except OSError:  # another process was quicker, or its queue is full
                pass


class _Trying:
    def __enter__(self) -> Any:
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._socket.setblocking(False)
        return self._socket

    def __exit__(self, *error: object) -> None:
        self._socket.close()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # it is gone, or the folder is
        pass
