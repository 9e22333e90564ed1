"""Whole folders on one side of a transfer: what is in them, and many small files in one message.

Both sides use this file, as they use roamlet.wire.files.files, on which it stands. Names within a folder are bytes,
relative to its top; each is followed part by part from the open top folder, through no symbolic link, so that nothing
outside is ever touched.
"""

import errno
import os
import stat
import threading

from roamlet.wire.codec import int_types
from roamlet.wire.files import files
from roamlet.wire.files.files import facts_of, raw
from roamlet.wire.files.folders import Folder, absolute, beside, opened_parent, shown

SMALL = files.PIECE  # bytes of a file that travels in one message with others
PAGE = 500  # names in one message
_PRIVATE_FOLDER = 0o700
_walks = {}


# ---- names


def parts_of(name):
    """Return the parts of a relative name. Raises ValueError for one that could lead out of its folder."""
    parts = name.split(b"/")
    if b"\0" in name or not all(part not in (b"", b".", b"..") for part in parts):
        raise ValueError("%r is no name of something inside of the folder" % shown(name))
    return parts


def stays_inside(name, target):
    """Whether a symbolic link `name` that points to `target` leads to a place inside of the folder, whatever else is in it."""
    if not target or target[:1] == b"/" or b"\0" in target:
        return False
    up = 0
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    while up < len(parts) and parts[up] == b"..":
        up += 1
    # Behind a name that may be another link, .. means something else than it looks like.
    return up < len(parts_of(name)) and b".." not in parts[up:]


class Top(object):
    """The open top folder of a tree, and the folder in it that was used last."""

    def __init__(self, path, sync=False):
        """`sync`: what is said to be dirty is written to the disk before it is closed."""
        self._sync = sync
        self._names = []
        self._folders = [Folder(path)]

    def folder(self, parts, make):
        """Return the open Folder of these parts; it stays open until another one is asked for. `make`: private, if missing."""
        same = 0
        while same < len(parts) and self._names[same : same + 1] == parts[same : same + 1]:
            same += 1
        self._cut(same)
        for part in parts[same:]:
            inside = self._folders[-1]
            if make and inside.lstat(part) is None:
                inside.mkdir(part, _PRIVATE_FOLDER)
                inside.dirty = True
            self._folders.append(Folder(part, inside))
            self._names.append(part)
        return self._folders[-1]

    def _cut(self, depth):
        del self._names[max(depth, 0) :]
        while len(self._folders) > depth + 1:
            with self._folders.pop() as folder:
                if self._sync and folder.dirty:
                    folder.sync()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._cut(-1)


# ---- what is there


def walk(path, follow=False):
    """Yield (name, kind, facts, target) of all that is in the folder, a folder before what is in it.

    The kind is "d", "f", "l" for a symbolic link, whose target comes along, and "x" for what no transfer copies. `follow`:
    symbolic links are what they point to.
    """
    with Folder(path) as top:
        seen = [_identity(os.fstat(top.fd))]
        for entry in _walk(top, b"", follow, seen):
            yield entry


def _walk(folder, prefix, follow, seen):
    for name in folder.names():
        status = folder.lstat(name)
        if status is None:
            continue  # it went away meanwhile
        if stat.S_ISLNK(status.st_mode) and follow:
            status = os.stat(os.path.join(folder.path, name))
        whole = prefix + name
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            if _identity(status) in seen:
                raise OSError(errno.ELOOP, "leads back into itself", shown(os.path.join(folder.path, name)))
            yield whole, "d", facts_of(status), None
            with Folder(os.path.join(folder.path, name)) if follow else Folder(name, folder) as inner:
                for entry in _walk(inner, whole + b"/", follow, seen + [_identity(status)]):
                    yield entry
        elif stat.S_ISREG(mode):
            yield whole, "f", facts_of(status), None
        elif stat.S_ISLNK(mode):
            yield whole, "l", facts_of(status), folder.readlink(name)
        else:
            yield whole, "x", facts_of(status), None


def _identity(status):
    return status.st_dev, status.st_ino


def start_walk(token, path, follow):
    """Begin to list a folder; return its own facts. `more` gives what is in it. For a file return None."""
    path = absolute(path)
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return None
    _walks[token] = (walk(path, follow), threading.Lock())
    return facts_of(status)


def more(token):
    """Return up to PAGE entries; none when there are no more."""
    if token not in _walks:
        return []
    entries, lock = _walks[token]
    page = []
    with lock:
        for name, kind, facts, target in entries:
            page.append([raw(name), kind, facts, None if target is None else raw(target)])
            if len(page) == PAGE:
                break
    if len(page) < PAGE:
        stop_walk(token)
    return page


def stop_walk(token):
    """List no more."""
    _walks.pop(token, None)


def fetch(top, names, follow, algorithm):
    """Return [facts, bytes or number of zeros, checksum, same] of small files in the folder `top`."""
    top = absolute(top)
    with Top(top) as inside:
        return [files.begin_reading(None, _open_in(inside, top, name, follow), algorithm, 0) for name in names]


def _open_in(inside, top, name, follow):
    if follow:
        return files.open_to_read(os.path.join(top, name))
    parts = parts_of(name)
    return files.open_to_read(parts[-1], inside.folder(parts[:-1], False))


def opened(top, name, follow):
    """Return a descriptor of the file `name` in the folder `top`."""
    with Top(top) as inside:
        return _open_in(inside, top, name, follow)


def start_reading(token, top, name, follow, algorithm, skipped):
    """As files.start_reading, for a file in the folder `top`."""
    return files.begin_reading(token, opened(absolute(top), name, follow), algorithm, skipped)


# ---- putting there


def make_top(path, parents):
    """Make the folder `path`, or take the one that is there; what is in it stays."""
    path = absolute(path).rstrip(b"/") or b"/"
    if os.path.isdir(path):
        return
    if os.path.lexists(path):
        raise OSError(errno.ENOTDIR, "is no folder, and a folder was to be put there", shown(path))
    with opened_parent(path, parents) as parent:
        parent.mkdir(os.path.basename(path), _PRIVATE_FOLDER)
        parent.sync()


def start_writing(token, top, name, size, how):
    """As files.start_writing, for a file in the folder `top`."""
    return files.start_with(token, lambda: writer(top, name, size, how))


def writer(top, name, size, how):
    """Return a files.Writer for `name` in the folder `top`."""
    parts = parts_of(name)
    with Top(absolute(top)) as inside:
        return files.Writer(inside.folder(parts[:-1], True).again(), parts[-1], size, how)


def store(top, entries, how, keep):
    """Put small files, folders and symbolic links into the folder `top`, each whole or not at all.

    Entries: [name, "d"], [name, "l", target], [name, "f", facts, bytes or number of zeros, checksum]. Returns the names of the
    files whose bytes are not what their checksum says, which are not put there.
    """
    damaged = []
    each = dict(how, in_batch=True)  # a folder is written to the disk once, behind all that came into it
    with Top(absolute(top), how["sync"]) as inside:
        for entry in entries:
            parts = parts_of(entry[0])
            if entry[1] == "d":
                inside.folder(parts, True)
                continue
            folder = inside.folder(parts[:-1], True)
            if entry[1] == "l":
                _link(folder, parts[-1], entry[2], how)
            else:
                facts, data, digest = entry[2:]
                size = data if isinstance(data, int_types) else len(data)
                one = files.Writer(folder.again(), parts[-1], size, each)
                if not files.put_whole(one, size, data, digest, facts, keep):
                    damaged.append(raw(entry[0]))
            folder.dirty = True
    return damaged


def _link(folder, name, target, how):
    status = folder.lstat(name)
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, "is a folder, and a symbolic link was to be put there", _in(folder, name))
    if status is not None and not how["overwrite"]:
        raise OSError(errno.EEXIST, "is there already, and overwrite=False was said", _in(folder, name))
    temporary = beside(name, how["key"])
    folder.symlink(target, temporary)
    try:
        folder.rename(temporary, name, how["overwrite"])
    finally:
        folder.unlink(temporary)


def _in(folder, name):
    return shown(os.path.join(folder.path, name))


def seal(top, entries, keep):
    """Give folders their mode, owner and time, deepest first: entries are [name, facts], the top's own name is empty."""
    with Top(absolute(top)) as inside:
        for name, facts in reversed(sorted(entries)):
            folder = inside.folder(parts_of(name) if name else [], False)
            files.set_facts(folder.fd, facts, keep)
            folder.sync()
