"""Steps on temporary folders that core gives as shell commands: done here, or by that command where it would say something."""

import errno
import os
import pwd
import re
import stat
import sys

from .files import make_folders, put, remove_tree
from .sessions import run, session_environment
from .values import PY3, bytes_of, native


def do_step(kind, command, values):
    """One step of carry_out(); (rc, out, err)."""
    functions = {"home": home, "mkdir": mkdir, "chmod": chmod, "remove": remove, "put": _put_step}
    rc, out, err = functions[kind](command, *values)
    return rc, bytes_of(out), bytes_of(err)


def _put_step(command, path, data, mode):
    try:
        put(path, data, mode)
    except (OSError, IOError) as error:
        return 1, b"", str(error).encode("utf-8", *(("surrogateescape",) if PY3 else ()))
    return 0, b"", b""


def _output(text):
    return text.encode(sys.getfilesystemencoding(), "surrogateescape") if PY3 else text


def home(command, name):
    """What `echo ~name` prints; without a name, `echo ~`."""
    try:
        folder = pwd.getpwnam(native(name)).pw_dir if name else session_environment().get("HOME", "")
    except KeyError:
        folder = ""
    # A shell's echo may read a backslash in its own way.
    if not folder.startswith("/") or re.search(r"[\\\0-\x1f\x7f]", folder):
        return run(command)
    return 0, _output(folder + "\n"), b""


def home_for_now(command, name):
    """home(), with accounts() from before it if only the system's own file says it, or nothing does that may change."""
    before = accounts()
    try:
        with open("/etc/passwd", "rb") as file:
            own = not name or (b"\n" + file.read()).count(b"\n" + name.encode("utf-8") + b":") == 1
    except (OSError, IOError):
        own = False
    rc, out, err = home(command, name)
    return rc, bytes_of(out), bytes_of(err), before if own else None


def accounts():
    """A text that changes whenever the files change that say which accounts there are."""
    found = []
    for path in ("/etc/passwd", "/etc/nsswitch.conf"):
        try:
            status = os.stat(path)
            found.append((getattr(status, "st_mtime_ns", status.st_mtime), status.st_size, status.st_ino))
        except OSError:
            found.append(None)
    return repr(found)


def mkdir(command, folder, name):
    """`mkdir -p` for `folder`, and `mkdir` for `name` in it, with umask 77."""
    folder, name = native(folder), native(name)
    path = folder + "/" + name
    try:
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            make_folders(folder)
            os.mkdir(path, 0o700)
    except OSError:
        return run(command)
    return 0, _output(name + "=" + path + "\n"), b""


def chmod(command, bits, paths):
    """Add `bits` to the modes of `paths`."""
    try:
        for path in paths:
            path = native(path)
            mode = stat.S_IMODE(os.stat(path).st_mode)
            if mode | bits != mode:
                os.chmod(path, mode | bits)
    except OSError:
        return run(command)
    return 0, b"", b""


def remove(command, path):
    """`rm -f -r` for one path, without its words."""
    path = native(path)
    try:
        if stat.S_ISLNK(os.lstat(path.rstrip("/")).st_mode):
            return run(command)
        remove_tree(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            return run(command)
    return 0, b"", b""
