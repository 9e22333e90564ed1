"""Texts, bytes, descriptors and the account of this process, on Python 2.7 and 3.6+: what the other files here share."""

import errno
import fcntl
import os
import pwd
import select
import sys
import time

PY3 = sys.version_info[0] >= 3
CHUNK = 1 << 16


now = getattr(time, "monotonic", time.time)


def text_of(value):
    return value if PY3 or not isinstance(value, str) else value.decode("utf-8", "replace")


def bytes_of(data):
    """Bytes, as a result: a bytearray on Python 2, whose str would arrive as text wherever it can be read as such."""
    return data if PY3 else bytearray(data)


def own_account():
    """(name, home, shell) of this account as sshd takes them, also where it has no entry."""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return str(os.getuid()), os.environ.get("HOME") or "/", "/bin/sh"
    return entry.pw_name, entry.pw_dir or "/", entry.pw_shell or "/bin/sh"


def close_on_exec(descriptor):
    fcntl.fcntl(descriptor, fcntl.F_SETFD, fcntl.fcntl(descriptor, fcntl.F_GETFD) | fcntl.FD_CLOEXEC)


def set_blocking(descriptor, blocking):
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_NONBLOCK if blocking else flags | os.O_NONBLOCK)


def pipe():
    ends = os.pipe()
    for descriptor in ends:
        close_on_exec(descriptor)
    return ends


def close(*descriptors):
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise


def retried(function, *args):
    """Call it until no signal interrupts it: Python 2 does not do that itself."""
    while True:
        try:
            return function(*args)
        except (OSError, IOError, select.error) as error:
            if error.args[0] != errno.EINTR:
                raise


def native(text):
    return text if PY3 or isinstance(text, str) else text.encode("utf-8")
