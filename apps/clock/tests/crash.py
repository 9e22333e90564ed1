"""What a disk may hold after a kill -9 or a power cut at each step of a program: recorded with strace, and played again.

A kill loses nothing that was written. A power cut loses what was not synced: the data of a file may be missing, torn or zeros,
though its length or its name is there; and of the names that were made, changed or removed since their folder was synced, any may
have reached the disk and any not, the later ones without the earlier. A rename happens whole or not at all, as in any journaling
file system. That a file was synced says nothing of its name.
"""

import itertools
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Contents", "Disk", "Operation", "after_kill", "after_power_cut", "on_disk", "parsed", "record"]

Contents = dict[str, bytes | None]
"""What is at each path; None is a folder."""

TRACED = (
    "%file,write,pwrite64,writev,fsync,fdatasync,sync,syncfs,ftruncate,fallocate,copy_file_range,sendfile,splice,fchmod"
)
CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+|\?)(.*)")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
# They look, or do what is no change of a file.
HARMLESS = {
    *("execve", "access", "faccessat", "faccessat2", "stat", "lstat", "newfstatat", "statx", "readlink", "readlinkat"),
    *("statfs", "getcwd", "chdir", "fstat", "uname", "getxattr", "lgetxattr", "exit_group"),
}


class CannotTell(Exception):
    """Something was done to the files that the model does not know. Teach it, before its answers are believed."""


@dataclass(frozen=True)
class Operation:
    """`what` is create, truncate, write, rename, unlink, mkdir, sync (of a file or a folder) or sync everything."""

    what: str
    path: str = ""
    to: str = ""
    data: bytes = b""


def record(strace: list[str], words: list[str], around: dict[str, str], below: Path) -> list[Operation]:
    """Run a command, which must end with 0, and return what it did to the files below a folder, in order."""
    log = below / "strace.log"
    subprocess.run(
        [*strace, "-f", "-y", "-s", "4096", "-e", f"trace={TRACED}", "-e", "signal=none", "-o", str(log), *words],
        env=around,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        check=True,
    )
    return list(parsed(log.read_text(), below))


def parsed(text: str, below: Path) -> Iterator[Operation]:
    """The operations in strace's words. Raises CannotTell for one below the folder that it does not know."""
    unfinished: dict[str, str] = {}
    folders: dict[str, str] = {}  # where each process is; all of them begin in /
    for row in text.splitlines():
        pid, _, call = row.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            unfinished[pid] = call.removesuffix("<unfinished ...>")
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>(.*)", call):
            call = unfinished.pop(pid) + resumed[1]
        if (found := CALL.match(call)) and found[3] != "?" and not found[3].startswith("-"):
            if found[1] == "chdir":
                folders[pid] = _paths(found[2], folders.get(pid, "/"))[0]
            yield from _operations(found[1], found[2], folders.get(pid, "/"), below)


def _quoted(words: str) -> list[str]:
    return [one.encode().decode("unicode_escape") for one in QUOTED.findall(words)]


def _paths(words: str, folder: str) -> list[str]:
    return [os.path.normpath(os.path.join(folder, path)) for path in _quoted(words)]


def _operations(name: str, words: str, folder: str, below: Path) -> Iterator[Operation]:
    paths = _paths(words, folder)
    opened = re.match(r"\d+<(.*?)>", words)
    if name in ("sync", "syncfs"):
        yield Operation("sync everything")
    elif name in ("write", "fsync", "fdatasync"):
        if opened and _is_below(opened[1], below):
            data = _quoted(words)[0].encode("latin-1") if name == "write" else b""
            yield Operation("write" if name == "write" else "sync", opened[1], data=data)
    elif not any(_is_below(path, below) for path in (*paths, opened[1] if opened else "")) or name in HARMLESS:
        return
    elif name in ("open", "openat", "creat"):
        if "O_CREAT" in words or name == "creat":
            yield Operation("create", paths[0])
        if "O_TRUNC" in words or name == "creat":
            yield Operation("truncate", paths[0])
        elif "O_APPEND" in words:
            raise CannotTell(f"{name}({words})")
    elif name.startswith("rename"):
        yield Operation("rename", paths[0], to=paths[1])
    elif name.startswith("unlink"):
        yield Operation("unlink", paths[0])
    elif name.startswith("mkdir"):
        yield Operation("mkdir", paths[0])
    else:
        raise CannotTell(f"{name}({words})")


def _is_below(path: str, below: Path) -> bool:
    return path == str(below) or path.startswith(f"{below}/")


@dataclass
class _File:
    written: bytes
    synced: bytes
    """What a power cut cannot take away."""

    is_folder: bool = False

    def may_hold(self) -> list[bytes]:
        if self.written == self.synced:
            return [self.written]
        half = self.written[: len(self.written) // 2]
        zeros = b"\0" * len(self.written)
        return [self.written, self.synced, b"", half, zeros, half + zeros[len(half) :]]


@dataclass(frozen=True)
class _Change:
    """Of names: `add` are then there, `remove` are gone if they still are those files."""

    folder: str
    add: tuple[tuple[str, int], ...] = ()
    remove: tuple[tuple[str, int], ...] = ()

    def done(self, names: dict[str, int]) -> None:
        for name, number in self.remove:
            if names.get(name) == number:
                del names[name]
        names.update(self.add)


@dataclass
class Disk:
    """Files by number, and what may not have reached the disk yet."""

    files: dict[int, _File] = field(default_factory=dict)
    durable: dict[str, int] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)

    @classmethod
    def holding(cls, contents: Contents) -> "Disk":
        """All of it has been on the disk for long."""
        made = cls()
        for number, (path, data) in enumerate(contents.items()):
            made.files[number] = _File(data or b"", data or b"", data is None)
            made.durable[path] = number
        return made

    @property
    def names(self) -> dict[str, int]:
        """As a process sees them."""
        names = dict(self.durable)
        for change in self.changes:
            change.done(names)
        return names

    def do(self, operation: Operation) -> None:
        names, path = self.names, operation.path
        folder = path.rpartition("/")[0]
        match operation.what:
            case "create" | "mkdir":
                if path not in names:
                    number = len(self.files)
                    self.files[number] = _File(b"", b"", operation.what == "mkdir")
                    self.changes.append(_Change(folder, add=((path, number),)))
            case "truncate":
                self.files[names[path]].written = b""
            case "write":
                self.files[names[path]].written += operation.data
            case "rename":
                assert operation.to.rpartition("/")[0] == folder
                number = names[path]
                self.changes.append(_Change(folder, add=((operation.to, number),), remove=((path, number),)))
            case "unlink":
                self.changes.append(_Change(folder, remove=((path, names[path]),)))
            case "sync":
                file = self.files[names[path]] if path in names else None
                if file is not None and not file.is_folder:
                    file.synced = file.written
                else:
                    self._sync_folder(path)
            case "sync everything":
                for file in self.files.values():
                    file.synced = file.written
                for change in list(self.changes):
                    self._sync_folder(change.folder)

    def _sync_folder(self, folder: str) -> None:
        for change in self.changes:
            if change.folder == folder:
                change.done(self.durable)
        self.changes = [change for change in self.changes if change.folder != folder]

    def seen(self) -> Contents:
        """What a process sees."""
        return {
            name: None if self.files[number].is_folder else self.files[number].written
            for name, number in self.names.items()
        }

    def may_hold(self) -> Iterator[Contents]:
        """Everything that may be found after a power cut now. What lies in a folder whose name is lost is lost with it."""
        for kept in itertools.product((False, True), repeat=len(self.changes)):
            names = dict(self.durable)
            for change, is_kept in zip(self.changes, kept, strict=True):
                if is_kept:
                    change.done(names)
            names = {name: number for name, number in names.items() if self._is_reached(name, names)}
            data = [
                [None] if self.files[number].is_folder else self.files[number].may_hold() for number in names.values()
            ]
            for chosen in itertools.product(*data):
                yield dict(zip(names, chosen, strict=True))

    def _is_reached(self, name: str, names: dict[str, int]) -> bool:
        folder = name.rpartition("/")[0]
        return folder in names or folder not in self.names


def after_kill(before: Contents, operations: list[Operation]) -> Iterator[tuple[int, Contents]]:
    """For each number of operations done, what is then there."""
    disk = Disk.holding(before)
    yield 0, disk.seen()
    for count, operation in enumerate(operations, 1):
        disk.do(operation)
        yield count, disk.seen()


def after_power_cut(before: Contents, operations: list[Operation]) -> Iterator[tuple[int, Contents]]:
    """For each number of operations done, all that may then be there."""
    disk = Disk.holding(before)
    for count in range(len(operations) + 1):
        if count:
            disk.do(operations[count - 1])
        for contents in disk.may_hold():
            yield count, contents


def on_disk(folder: Path) -> Contents:
    """What is in a folder, with the folder itself; empty without one."""
    if not folder.exists():
        return {}
    found: Contents = {str(folder): None}
    for path in sorted(folder.rglob("*")):
        found[str(path)] = None if path.is_dir() else path.read_bytes()
    return found
