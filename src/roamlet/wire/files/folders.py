"""Open folders and paths on one side of a transfer of files: what stands below roamlet.wire.files.files.

Paths are bytes here: names that are no text travel too.
"""

import errno
import fcntl
import os

from roamlet.wire.codec import PY2

CLOEXEC = getattr(os, "O_CLOEXEC", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
PRIVATE = 0o600


def shown(path):
    """Return a path as text for messages."""
    return path if PY2 else path.decode("utf-8", "replace")


def wrong(number, text, path):
    """Return an OSError that says `text` of the path."""
    return OSError(number, text, shown(path))


class Folder(object):
    """An open folder. What is in it is named by its last name alone, so no symbolic link can be slipped in on the way."""

    def __init__(self, path, inside=None):
        """Open `path`; of the folder `inside`, when that is given, and then it must be no symbolic link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | CLOEXEC
        if inside is None:
            self.path = path
            self.fd = os.open(path, flags)
        else:
            self.path = inside.path if path == b"." else os.path.join(inside.path, path)
            try:
                self.fd = inside.open(path, flags | NOFOLLOW)
            except EnvironmentError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise wrong(
                        errno.ENOTDIR, "is no folder, but a file or a symbolic link; remove it first", self.path
                    )
                raise
        close_on_exec(self.fd)
        self.dirty = False  # whether something in it changed that is not known to be on the disk
        if PY2:
            at = "/proc/self/fd/%d/" % self.fd
            self._at = at if os.path.isdir(at) else self.path + "/"

    def again(self):
        """Return the same folder, open once more."""
        return Folder(b".", self)

    def _do(self, function, name, *args):
        try:
            if PY2:
                return function(self._at + name, *args)
            return function(name, *args, dir_fd=self.fd)
        except EnvironmentError as error:
            error.filename = shown(os.path.join(self.path, name))
            raise

    def open(self, name, flags, mode=PRIVATE):
        """Return a descriptor that no child process inherits."""
        fd = self._do(os.open, name, flags | CLOEXEC, mode)
        close_on_exec(fd)
        return fd

    def lstat(self, name):
        """Return what the name is, or None when there is nothing of this name."""
        try:
            return self._do(os.lstat, name)
        except EnvironmentError as error:
            if error.errno != errno.ENOENT:
                raise
            return None

    def mkdir(self, name, mode):
        """Make a folder; it may be there already."""
        try:
            self._do(os.mkdir, name, mode)
        except EnvironmentError as error:
            if error.errno != errno.EEXIST:
                raise

    def unlink(self, name):
        """Remove a file, if it is there."""
        try:
            self._do(os.unlink, name)
        except EnvironmentError as error:
            if error.errno != errno.ENOENT:
                raise

    def readlink(self, name):
        """Return where a symbolic link points."""
        return self._do(os.readlink, name)

    def symlink(self, text, name):
        """Make a symbolic link."""
        if PY2:
            os.symlink(text, self._at + name)
        else:
            os.symlink(text, name, dir_fd=self.fd)

    def rename(self, old, new, overwrite=True):
        """Put `old` in the place of `new`; without `overwrite`, only when nothing is there."""
        function = os.rename if overwrite else os.link
        try:
            if PY2:
                function(self._at + old, self._at + new)
            else:  # a symbolic link itself is linked, not what it points to
                more = {} if overwrite else {"follow_symlinks": False}
                function(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd, **more)
        except EnvironmentError as error:
            error.filename = shown(os.path.join(self.path, new))
            raise
        if not overwrite:
            self.unlink(old)

    def names(self):
        """Return all names in it, sorted."""
        return sorted(os.listdir(self._at) if PY2 else map(os.fsencode, os.listdir(self.fd)))

    def sync(self):
        """Wait until its entries are on the disk; file systems that know no such thing are left alone."""
        sync(self.fd)

    def close(self):
        """Give the descriptor back."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def close_on_exec(fd):
    """Let no child process inherit the descriptor, where opening it could not say so."""
    if not CLOEXEC:
        fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)


def sync(fd):
    """Wait until a file or folder is on the disk, where its file system can say so."""
    try:
        os.fsync(fd)
    except EnvironmentError as error:
        if error.errno not in (errno.EINVAL, errno.EROFS, getattr(errno, "ENOTSUP", errno.EINVAL)):
            raise


def beside(name, key):
    """Return the name of what is to become `name`, in the same folder."""
    if len(name) > 200:
        import hashlib  # here, because few names are so long

        name = name[:150] + hashlib.sha256(name).hexdigest()[:16].encode("ascii")
    return b"." + name + b".roamlet-" + key.encode("ascii")


def absolute(path):
    """Return `path` with ~ expanded and made absolute, its last slash kept. Raises for what can be no path."""
    if not path or b"\0" in path:
        raise wrong(errno.EINVAL, "is no path", path)
    if path[:1] == b"~":
        path = os.path.expanduser(path)
    whole = os.path.abspath(path)
    return whole + b"/" if path[-1:] == b"/" and whole != b"/" else whole


def opened_parent(path, make=False):
    """Return the open Folder that `path` (absolute) lies in. `make`: with all folders that are missing on the way."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        missing = _first_missing(parent)
        if os.path.lexists(missing) and not os.path.isdir(missing):  # another file on its way may have made it just now
            raise wrong(errno.ENOTDIR, "is no folder, and a file was to be put into it", missing)
        if not make:
            text = "there is no such folder to put a file into; make it first, or say parents=True"
            raise wrong(errno.ENOENT, text, missing)
        _make_folders(parent)
    return Folder(parent)


def _first_missing(path):
    """Return the first part of the way to a folder that is not there, or is there and no folder."""
    while not os.path.lexists(path):
        parent = os.path.dirname(path)
        if os.path.isdir(parent) or parent == path:
            return path
        path = parent
    return path


def _make_folders(path):
    parent = os.path.dirname(path)
    if parent != path and not os.path.isdir(parent):
        _make_folders(parent)
    with Folder(parent) as folder:
        folder.mkdir(os.path.basename(path), 0o777)
        folder.sync()
