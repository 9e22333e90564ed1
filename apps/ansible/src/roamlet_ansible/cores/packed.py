"""Keeps across runs what ansible-core packs of its own modules (AnsiballZ), which takes it 0.1 to 0.2 s of CPU for each.

Core stores a packed module in the folder of a run, and takes it from there when another task needs it. A file that is put there
before the first task is found in the same way: nothing of core is replaced. Kept are core's own modules alone, of which each packed
file is, byte for byte, the installed core's. They count for that installation as it was then: a file that was changed, added or
removed since, in any folder of core that takes part, makes them useless, as do another Python and module_utils of the user's own.
Where anything is in doubt, core packs the module itself.
"""

import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import installed

PLACE = "ROAMLET_ANSIBLE_CACHE"  # names the folder; empty: nothing is kept
PARTS = ("module_utils", "modules", "executor", "_internal", "config", "plugins/loader.py", "release.py", "utils")
SETTLED = 2.0  # seconds: files that were changed later than that could change again within one tick of the file system's clock
MOST_INSTALLATIONS = 4
MOST_FILES = 200  # of one installation
LARGEST = 8 * 1024 * 1024  # bytes of one packed module
OF_RUN = "ansiballz_cache"  # core's own folder, in that of the run
NOTE = "roamlet.packed"  # beside it: what was put there and has not been used yet
AHEAD = "roamlet.ahead"  # beside it: who packs for later tasks, and the names of those modules, a line each
USED = "roamlet.used"  # those of AHEAD that a task has had, a line each
ENDED = "ended"
PATIENCE = 2.0  # seconds that a killed process may take to end


def place() -> Path | None:
    """The folder in which packed modules are kept; None where none are."""
    named = os.environ.get(PLACE)
    if named is not None:
        return Path(named) if os.path.isabs(named) else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "roamlet-ansible") if os.path.isabs(base) else None


def installation() -> str | None:
    """A text that changes with the installed core and with this Python; None where that is not known, or has just changed.

    Looks at about 600 files, which takes some milliseconds.
    """
    root = installed.root()
    if root is None:
        return None
    digest = hashlib.sha256(f"{sys.version}\0{root}".encode())
    newest = 0
    try:
        for path, status in _looked_at(root):
            newest = max(newest, status.st_ctime_ns)
            digest.update(
                f"\0{path}\0{status.st_mtime_ns} {status.st_ctime_ns} {status.st_size} {status.st_ino}".encode(
                    "utf-8", "surrogateescape"
                )
            )
    except OSError:
        return None
    return None if newest > (time.time() - SETTLED) * 1e9 else digest.hexdigest()[:32]


def _looked_at(root: str) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [os.path.join(root, part) for part in PARTS]
    while waiting:
        path = waiting.pop()
        try:
            status = os.stat(path)
        except FileNotFoundError:  # not all cores have all parts
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield path, status
            continue
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_symlink():
                    raise OSError(f"a link in an installation: {entry.path}")
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        waiting.append(entry.path)
                else:
                    yield entry.path, entry.stat()


# --- In a process of Ansible ------------------------------------------------------------------------------------------


def restore(run: str) -> None:
    """Put into `run`, the folder of this run, what is kept for this installation. Raises nothing. Called before any module."""
    with suppress(OSError, ValueError):
        folder = place()
        of_now = installation() if folder is not None else None
        if folder is None or of_now is None:
            return
        put: list[str] = []
        kept = folder / of_now
        if not others() and private(folder) and private(kept):
            into = Path(run, OF_RUN)
            into.mkdir(exist_ok=True)
            for name in sorted(os.listdir(kept))[:MOST_FILES]:
                data = whole(kept / name)
                if data is not None and _put(into / name, data):
                    put.append(name)
            os.utime(kept)  # the installations that were used last are kept
        _write_note(run, {"installation": of_now, "put": put})


def others() -> bool:
    """Whether there are folders of module_utils with anything in them beside core's own: core may have to take those first."""
    try:
        from ansible.plugins.loader import module_utils_loader  # the broker's process does without it
    except ImportError:
        return True
    own = os.path.join(installed.root() or "", "module_utils")
    for path in module_utils_loader._get_paths(subdirs=False):  # as core does it; a path may have a colon
        with suppress(OSError):
            if path and path != own and os.listdir(path) and not os.path.samefile(path, own):
                return True
    return False


def ahead(run: str, fqn: str) -> None:
    """Say that this process is about to pack the module `fqn`, which no task has asked for yet. Raises OSError."""
    process = os.getpid()
    with open(os.path.join(run, AHEAD), "a", encoding="utf-8") as file:
        file.write(f"{process} {_begun(process)} {fqn}\n")


def withdraw(run: str) -> None:
    """Take back what no task has used of what restore() has put there, or was packed ahead. Raises nothing."""
    with suppress(OSError, ValueError):
        _withdraw_ahead(run)
    with suppress(OSError, ValueError):
        note = _note(run)
        if note is None or not note["put"]:
            return
        for name in note["put"]:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(run, OF_RUN, name))
        _write_note(run, {**note, "put": []})


def _withdraw_ahead(run: str) -> None:
    if not (lines := _lines(run, AHEAD)):
        return
    # Another process may have the number of one that has ended.
    processes = {(int(process), begun) for process, begun, _ in map(str.split, lines) if begun != ENDED}
    for process, begun in processes:
        if _begun(process) == begun:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while any(_begun(process) == begun for process, begun in processes) and time.monotonic() < until:
        time.sleep(0.001)
    used = set(_lines(run, USED))
    for fqn in {line.split()[2] for line in _lines(run, AHEAD)} - used:
        for name in os.listdir(os.path.join(run, OF_RUN)):
            if name.startswith(fqn + "-") and not name.endswith(".lock"):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(run, OF_RUN, name))
    os.unlink(os.path.join(run, AHEAD))


def _begun(process: int) -> str:
    """When a process has begun, in ticks since the system has; ENDED when it runs no more, or that cannot be known."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            found = file.read().rpartition(")")[2].split()
    except OSError:
        return ENDED
    return ENDED if found[0] in ("Z", "X") else found[19]


def _lines(run: str, name: str) -> list[str]:
    try:
        with open(os.path.join(run, name), encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


# --- In the broker ----------------------------------------------------------------------------------------------------


class Keeper:
    """What core has packed in the run whose folder is `run`, until it is written. Not thread-safe."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._files: dict[str, bytes] = {}
        self._installation: str | None = None  # of the note: the folder of the run is gone when write() is called

    def used(self, fqn: str, zip_data: bytes, files: Iterable[tuple[str, bytes]]) -> None:
        """Remember what core has packed for the module `fqn`, if it may be kept. Raises nothing; blocks for milliseconds.

        `zip_data` is what has come of it in a task, and `files` what is in that.
        """
        with suppress(OSError, ValueError):
            if any(line.split()[2] == fqn for line in _lines(self._run, AHEAD)):
                with open(os.path.join(self._run, USED), "a", encoding="utf-8") as file:
                    file.write(fqn + "\n")
            note = _note(self._run)
            if note is None or not fqn.startswith("ansible.modules."):
                return
            self._installation = self._installation or note["installation"]
            names = [name for name in os.listdir(os.path.join(self._run, OF_RUN)) if name.startswith(fqn + "-")]
            put = [name for name in note["put"] if name not in names]
            if len(put) < len(note["put"]):
                _write_note(self._run, {**note, "put": put})
            elif all(installed.core_file(path, source) for path, source in files):
                for name in names:
                    data = Path(self._run, OF_RUN, name).read_bytes()
                    if zip_data in data and len(data) <= LARGEST and len(self._files) < MOST_FILES:
                        self._files[name] = data  # what was used, and no lock or other file of that name

    def write(self) -> None:
        """Write what was remembered, if the installation is still that of the run's start. Raises nothing; blocks."""
        files, self._files = self._files, {}
        with suppress(OSError, ValueError):
            folder, of_run = place(), self._installation
            if not files or folder is None or of_run is None or installation() != of_run:
                return
            folder.mkdir(0o700, parents=True, exist_ok=True)
            kept = folder / of_run
            if not private(folder):
                return
            kept.mkdir(0o700, exist_ok=True)
            room = MOST_FILES - len(os.listdir(kept))
            if private(kept):
                for name, data in list(files.items())[: max(0, room)]:
                    replace(kept / name, hashlib.sha256(data).digest() + data)
            _forget(folder)


def _forget(folder: Path) -> None:
    """Remove the installations that were used least recently."""
    found = sorted((entry for entry in folder.iterdir() if entry.is_dir()), key=lambda entry: -entry.stat().st_mtime)
    for entry in found[MOST_INSTALLATIONS:]:
        shutil.rmtree(entry, ignore_errors=True)


# --- Files ------------------------------------------------------------------------------------------------------------


def private(folder: Path) -> bool:
    """Whether it is a folder of this account that no other one can write in, or look into."""
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def whole(path: Path, largest: int = LARGEST) -> bytes | None:
    """What was kept in a file of this account; None if it is damaged, or was written by another one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(largest + 32)
    finally:
        os.close(descriptor)
    return data[32:] if len(data) > 32 and hashlib.sha256(data[32:]).digest() == data[:32] else None


def _put(path: Path, data: bytes) -> bool:
    """Make a file that must not be seen in part; False if there is one."""
    part = path.with_name(f"roamlet.{os.getpid()}")
    part.write_bytes(data)
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True


def replace(path: Path, data: bytes) -> None:
    """Write a file of this account, 0600, that is never seen in part. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _note(run: str) -> dict[str, Any] | None:
    try:
        note = json.loads(Path(run, NOTE).read_bytes())
        return {"installation": note["installation"], "put": note["put"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not written, or by another release


def _write_note(run: str, note: dict[str, Any]) -> None:
    replace(Path(run, NOTE), json.dumps(note).encode())
