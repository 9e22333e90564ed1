"""Files of the account, by path: whole small ones, and pieces of large ones."""

import errno
import os
import shutil
import stat

from .values import PY3, bytes_of, close_on_exec, own_account, retried, text_of


def place(path):
    """A path as an sftp server takes it: relative ones are in the home folder."""
    if not PY3 and not isinstance(path, str):
        path = path.encode("utf-8")
    return path if os.path.isabs(path) else os.path.join(own_account()[1], path)


def put(path, data, mode=0o666, append=False):
    """Write a file in place, or at its end; a new one gets `mode` without the umask's bits. The file's size."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    descriptor = os.open(place(path), flags, mode)
    try:
        close_on_exec(descriptor)
        data = memoryview(data)
        while data:
            data = data[retried(os.write, descriptor, data[: 1 << 20]) :]
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def get(path, offset=0, size=1 << 20):
    """At most `size` bytes of a file from `offset`; less at its end."""
    descriptor = os.open(place(path), os.O_RDONLY)
    try:
        close_on_exec(descriptor)
        if offset:
            os.lseek(descriptor, offset, os.SEEK_SET)
        pieces = []
        while size > 0:
            data = retried(os.read, descriptor, min(size, 1 << 20))
            if not data:
                break
            pieces.append(data)
            size -= len(data)
        return bytes_of(b"".join(pieces))
    finally:
        os.close(descriptor)


def remove_tree(path):
    """As `rm -rf`: a folder with all in it, a file, a symbolic link itself. Raises OSError for what is left."""
    path = place(path)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def make_tmp(base, name):
    """Make the folder `name` in `base`, which is made too where it is missing, all with mode 0700; its path.

    `base` may begin with ~ or ~user and contain $VARIABLES. Raises OSError, also if the folder exists.
    """
    if not PY3 and not isinstance(base, str):
        base, name = base.encode("utf-8"), name.encode("utf-8")
    base = place(os.path.expandvars(os.path.expanduser(base)))
    make_folders(base)
    path = os.path.join(base, name)
    os.mkdir(path, 0o700)
    return text_of(path)


def make_folders(folder):
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        try:
            os.mkdir(one, 0o700)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
