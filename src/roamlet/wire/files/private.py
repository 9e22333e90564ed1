"""A folder that is this account's alone, in memory where the system has that, and is removed when this process ends in any way.

A shell beside this process removes it: it waits for the end of a pipe whose other end this process keeps open.
"""

import os
import shutil
import tempfile

SHELL = "/bin/sh"
MEMORY = "/dev/shm"

# Again and again, as processes that end may still write to it, or make it anew. What cannot be written to is made so, as tests
# leave such folders.
REMOVER = (
    'trap "" HUP INT TERM; read end; for pause in 1 3 9; do rm -rf -- "$1" && gone=yes || '
    '{ gone=; find "$1" -type d -exec chmod u+rwx {} ";"; rm -rf -- "$1" && gone=yes; }; sleep $pause; '
    '[ "$gone" ] && [ ! -e "$1" ] && exit; done; rm -rf -- "$1"'
)

_ends = []  # of the pipes, which stay open until this process ends


def private_folder(prefix):
    """Make the folder, whose name begins with `prefix`, and return its path.

    Where no file system in memory takes it, it is in the usual place for temporary files. Where no shell can be started, it is
    removed when the interpreter ends in order. Raises OSError when it cannot be made.
    """
    try:
        folder = tempfile.mkdtemp(prefix=prefix, dir=MEMORY)
    except EnvironmentError:  # it is absent or full, or this account may not write there
        folder = tempfile.mkdtemp(prefix=prefix)
    try:
        _guard(folder)
    except EnvironmentError:
        import atexit  # here, as in _guard, because folders are few

        atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder, owner):
    """At the end of a process, which may be a fork of the `owner`."""
    if os.getpid() == owner:
        shutil.rmtree(folder, True)


def _guard(folder):
    """Start what removes the folder. It is not waited for: it ends after this process."""
    import subprocess

    from roamlet.wire.link import link

    source, target = os.pipe()
    _ends.append(target)  # at once: another thread may fork
    try:
        link._close_on_exec(target)
        alone = {"close_fds": True, "start_new_session": True}  # 2.7 has not both, nor what uses this
        with open(os.devnull, "r+b") as nothing:
            subprocess.Popen(
                [SHELL, "-c", REMOVER, "sh", folder], stdin=source, stdout=nothing, stderr=nothing, **alone
            )
    except BaseException:
        _ends.remove(target)
        os.close(target)
        raise
    finally:
        os.close(source)


def _close_ends():
    """In a child that was forked, which may outlive this process: the folders are not its own."""
    for end in _ends:
        os.close(end)
    del _ends[:]


if hasattr(os, "register_at_fork"):  # 3.7 and later
    os.register_at_fork(after_in_child=_close_ends)
