"""The start of the broker by whichever worker needs it first, and the way to it for all others.

Everything lies in the folder that ansible makes for each run and removes at its end, 0700: C.DEFAULT_LOCAL_TMP. A worker that
finds no broker starts one under a lock; the socket is bound before the broker is, so that no worker has to wait until it is ready.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from roamlet_ansible.cores import packed

LONGEST_PATH = 100  # bytes: the kernels' limits for the path of a socket are 104 to 108
LOG = "ROAMLET_ANSIBLE_LOG"  # names the file for the broker's errors, and for the log of a run
BACKLOG = 512  # workers that connect at the same time


def connect(folder: str, controller: int) -> socket.socket:
    """Return a connection to the broker of the run whose private folder is `folder`, starting one if it does not run.

    `controller` is the process that the broker ends with. Blocks for some milliseconds at most. Raises OSError when no broker can
    be started.
    """
    with suppress(OSError):
        return _connected(folder)
    with open(Path(folder, "roamlet.lock"), "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):  # another worker has started it meanwhile
            return _connected(folder)
        _start(folder, controller)
    return _connected(folder)


def running(folder: str) -> socket.socket | None:
    """A connection to the broker of this run if there is one; never starts it."""
    try:
        return _connected(folder)
    except OSError:
        return None


def _connected(folder: str) -> socket.socket:
    path = _link(folder).read_text("utf-8")
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _link(folder: str) -> Path:
    """The file that says where the socket is: that may have to be elsewhere, where paths are short."""
    return Path(folder, "roamlet.socket-path")


def _start(folder: str, controller: int) -> None:
    with suppress(OSError):  # of a broker that was killed
        shutil.rmtree(Path(_link(folder).read_text("utf-8")).parent)
    own = _private_folder(folder)
    path = str(own / "broker")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
        errors = os.environ.get(LOG) or os.devnull
        with open(errors, "ab", opener=_own) as log:
            number = listener.fileno()
            subprocess.Popen(
                [sys.executable, "-P", "-m", "roamlet_ansible.broker", str(number), str(own), str(controller), folder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[number],
                start_new_session=True,  # Ctrl-C is the controller's; the broker ends after it
            )
    except BaseException:
        shutil.rmtree(own, ignore_errors=True)
        raise
    finally:
        listener.close()
    packed.restore(folder)  # while the broker starts; no worker goes on before that
    _link(folder).write_text(path, "utf-8")


def _own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _private_folder(folder: str) -> Path:
    """A new folder for the socket, 0700: in ansible's own if the path is short enough, else where temporary files are."""
    if len(os.fsencode(folder)) <= LONGEST_PATH - len("/roamlet-XXXXXXXX/broker"):
        return Path(tempfile.mkdtemp(prefix="roamlet-", dir=folder))
    return Path(tempfile.mkdtemp(prefix="roamlet-"))
