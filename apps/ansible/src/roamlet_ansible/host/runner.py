"""What the broker calls in a context on the target, each function of the files beside this one, and several in one call.

Functions are called from several threads at once. Arguments and results are plain values; what comes back as bytes is a
bytearray on Python 2. Python 2.7 and 3.6+, the standard library only. Descriptors are closed on exec. Zygotes end when
this process does, because their link is closed.
"""

import os
import sys
import threading

from . import accounts as freshness
from .calls import Cancelled, cancel
from .files import get, make_tmp, put, remove_tree
from .folders import accounts, chmod, do_step, home, home_for_now, mkdir, remove
from .sessions import TimedOut, run, start, stay, talk
from .values import own_account, text_of
from .zygotes import (
    ZygoteLost,
    close_other_zygotes,
    close_zygote,
    open_zygote,
    resume_zygote,
    run_in_new_zygote,
    run_module,
)

__all__ = [
    "Cancelled",
    "TimedOut",
    "ZygoteLost",
    "accounts",
    "cancel",
    "carry_out",
    "chmod",
    "close_other_zygotes",
    "close_zygote",
    "do_step",
    "facts",
    "get",
    "home",
    "home_for_now",
    "make_tmp",
    "mkdir",
    "nothing",
    "open_zygote",
    "put",
    "remove",
    "remove_tree",
    "resume_zygote",
    "run",
    "run_in_new_zygote",
    "run_module",
    "start",
    "stay",
    "talk",
]


def facts():
    """What this process and its account are."""
    name, folder, shell = own_account()
    umask = os.umask(0o22)
    os.umask(umask)
    return {
        "pid": os.getpid(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "user": text_of(name),
        "home": text_of(folder),
        "shell": text_of(shell),
        "cwd": text_of(os.getcwd()),
        "umask": umask,
        "version": list(sys.version_info[:3]),
        "executable": text_of(sys.executable or ""),
    }


_BEGIN_SESSIONS = ("run", "start", "open_zygote")  # what sshd would begin a new session for


class Freshness(object):
    """Whether a session that begins now would be another one than this process: of other groups, limits or variables."""

    def __init__(self):
        self.lock = threading.Lock()
        self.watched = None
        self.changed = None  # once and for all

    def look(self):
        """The file that has changed since the first call; None as long as none has."""
        with self.lock:
            if self.watched is None:
                self.watched = freshness.Watched(freshness.account_files(own_account()[1]))
            elif self.changed is None:
                self.changed = self.watched.changed()
            return self.changed

    def begin(self):
        """See to it that there was a first call."""
        if self.watched is None:
            self.look()


_freshness = Freshness()


def carry_out(removals, steps, name, args, outdated=False):
    """Do the steps in their order, then call the function `name` of this file with `args`.

    A step is (kind, command, values): kind and values as of cores/plain.py, or "put" with path, data and mode. One that
    cannot be done here runs as its shell command, so that it fails with the words that it has there. `removals` are
    [(path, command)] that may have been done already. Returns {"result", "accounts", "kept"}, or {"failed", "rc", "out",
    "err"} with the number of the step after which nothing was done. `kept` has what could not be removed and why,
    `accounts` changes with the files of accounts. Nothing at all is done, and the result is {"stale": path}, for a function
    that begins a session where this process is not what a new one would be, unless it may be `outdated`.
    """
    _freshness.begin()
    if name in _BEGIN_SESSIONS and not outdated:
        changed = _freshness.look()
        if changed is not None:
            return {"stale": text_of(changed)}
    kept = []
    for path, command in removals:
        rc, _, err = remove(command, path)
        if rc:
            kept.append((path, rc, err))
    for number, (kind, command, values) in enumerate(steps):
        rc, out, err = do_step(kind, command, values)
        if rc:
            return {"failed": number, "rc": rc, "out": out, "err": err, "kept": kept}
    result = globals()[name](*args)
    return {"result": result, "accounts": accounts(), "kept": kept}


def nothing():
    """For carry_out(), where there are only steps."""
