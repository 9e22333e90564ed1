"""Operations on files and folders by path, on worker threads: each blocks its tasklet only.

They are those of os, os.path, shutil and pathlib under their own names, with the same arguments, results and errors.
"""

import glob as _glob
import os
import shutil
from collections.abc import Callable
from functools import partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from roamlet.io._files import File, open
from roamlet.io._workers.call_async import call_async

__all__ = [
    "File",
    "access",
    "chmod",
    "chown",
    "copyfile",
    "copytree",
    "disk_usage",
    "exists",
    "getsize",
    "glob",
    "isdir",
    "isfile",
    "islink",
    "link",
    "listdir",
    "lstat",
    "makedirs",
    "mkdir",
    "move",
    "open",
    "read_bytes",
    "read_text",
    "readlink",
    "realpath",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "rmtree",
    "scandir",
    "stat",
    "symlink",
    "truncate",
    "unlink",
    "utime",
    "walk",
    "write_bytes",
    "write_text",
]

P = ParamSpec("P")
T = TypeVar("T")
AnyPath = str | os.PathLike[str]


def _on_worker(function: Callable[P, T]) -> Callable[P, T]:
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return call_async(partial(function, *args, **kwargs))

    update_wrapper(call, function)
    call.__module__ = __name__
    call.__doc__ = f"Like {function.__module__}.{function.__name__}, on a worker thread: blocks this tasklet only."
    return call


if TYPE_CHECKING:
    # They have the signatures of what they call, overloads and all.
    from glob import glob
    from os import (
        access,
        chmod,
        chown,
        link,
        listdir,
        lstat,
        makedirs,
        mkdir,
        readlink,
        remove,
        rename,
        replace,
        rmdir,
        stat,
        symlink,
        truncate,
        unlink,
        utime,
    )
    from os.path import exists, getsize, isdir, isfile, islink, realpath
    from shutil import copyfile, copytree, disk_usage, move, rmtree
else:
    access = _on_worker(os.access)
    chmod = _on_worker(os.chmod)
    chown = _on_worker(os.chown)
    copyfile = _on_worker(shutil.copyfile)
    copytree = _on_worker(shutil.copytree)
    disk_usage = _on_worker(shutil.disk_usage)
    exists = _on_worker(os.path.exists)
    getsize = _on_worker(os.path.getsize)
    glob = _on_worker(_glob.glob)
    isdir = _on_worker(os.path.isdir)
    isfile = _on_worker(os.path.isfile)
    islink = _on_worker(os.path.islink)
    link = _on_worker(os.link)
    listdir = _on_worker(os.listdir)
    lstat = _on_worker(os.lstat)
    makedirs = _on_worker(os.makedirs)
    mkdir = _on_worker(os.mkdir)
    move = _on_worker(shutil.move)
    readlink = _on_worker(os.readlink)
    realpath = _on_worker(os.path.realpath)
    remove = _on_worker(os.remove)
    rename = _on_worker(os.rename)
    replace = _on_worker(os.replace)
    rmdir = _on_worker(os.rmdir)
    rmtree = _on_worker(shutil.rmtree)
    stat = _on_worker(os.stat)
    symlink = _on_worker(os.symlink)
    truncate = _on_worker(os.truncate)
    unlink = _on_worker(os.unlink)
    utime = _on_worker(os.utime)


def read_bytes(path: AnyPath) -> bytes:
    """Return all bytes of a file."""
    return call_async(lambda: Path(path).read_bytes())


def read_text(path: AnyPath, encoding: str | None = None, errors: str | None = None) -> str:
    """Return the text of a file, decoded as open() does."""
    return call_async(lambda: Path(path).read_text(encoding, errors))


def write_bytes(path: AnyPath, data: bytes | bytearray | memoryview) -> int:
    """Write a file anew; return the number of bytes."""
    return call_async(lambda: Path(path).write_bytes(data))


def write_text(
    path: AnyPath, data: str, encoding: str | None = None, errors: str | None = None, newline: str | None = None
) -> int:
    """Write a file anew with this text, encoded as open() does; return the number of characters."""
    return call_async(lambda: Path(path).write_text(data, encoding, errors, newline))


def scandir(path: AnyPath = ".") -> list[os.DirEntry[str]]:
    """Return the entries of a folder, as os.scandir() gives them, as a list. Their stat() may block the thread."""

    def scan() -> list[os.DirEntry[str]]:
        with os.scandir(path) as entries:
            return list(entries)

    return call_async(scan)


def walk(top: AnyPath, followlinks: bool = False) -> list[tuple[str, list[str], list[str]]]:
    """Return what os.walk() yields from the top down: (folder, names of folders, names of others) for each folder below."""
    return call_async(lambda: list(os.walk(top, followlinks=followlinks)))
