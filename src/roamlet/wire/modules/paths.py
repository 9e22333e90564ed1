"""Paths of the parent's modules, for code that opens what lies beside its `__file__`: open, os.stat, os.listdir and their like.

A path with "roamlet:" in it leads into roamlet.wire.modules.resources, every other one goes where it always went, at the price of
one look at its text. Only Python's own functions are served; for a library in C, importlib.resources.as_file makes a path.
"""

import io
import os
import posixpath
import stat
import sys

from roamlet.wire import codec
from roamlet.wire.modules import resources

MARK = "roamlet:"


class Instead(object):
    """Stands where one of Python's functions stood. An object, because a class that keeps it must not take it for a method."""

    def __init__(self, original, ours, name):
        self._original = original
        self._ours = ours
        self._name = name  # of the first argument
        self.__doc__ = original.__doc__
        self.__name__ = original.__name__

    def __call__(self, *args, **kwargs):
        path = args[0] if args else kwargs.get(self._name)
        if type(path) is not str and hasattr(path, "__fspath__"):
            path = path.__fspath__()
        if isinstance(path, (str, codec.text_type)) and MARK in path:
            if not args:
                kwargs.pop(self._name)
            try:
                return self._ours(str(path), *args[1:], **kwargs)
            except ImportError as error:  # the source of a module could not be had
                problem = str(error)
            raise resources.Problem(5, problem, path)  # here, where it holds no other error with its frames
        return self._original(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __eq__(self, other):
        return other is self or other == self._original

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self._original)

    def __repr__(self):
        return repr(self._original)


class _File(io.BytesIO):
    """What open() gives: a file in memory that knows its name."""

    def __init__(self, data, name):
        io.BytesIO.__init__(self, data)
        self.name = name
        self.mode = "rb"


class _Found(object):
    """What os.scandir reports for one entry."""

    def __init__(self, folder, name, size):
        self.name = name
        self.path = posixpath.join(folder, name)
        self._size = size

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return "<DirEntry %r>" % self.name

    def inode(self):
        return 0

    def is_dir(self, follow_symlinks=True):
        return self._size < 0

    def is_file(self, follow_symlinks=True):
        return self._size >= 0

    def is_symlink(self):
        return False

    def is_junction(self):
        return False

    def stat(self, follow_symlinks=True):
        return _status(self._size)


class _Scan(object):
    """What os.scandir gives."""

    def __init__(self, entries):
        self._entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self._entries = iter(())


class Paths(object):
    """The functions that take the place of Python's own, for paths of the parent's modules."""

    def __init__(self, importer):
        self._importer = importer

    def _module(self, path):
        """The module whose source lies at this path, or None."""
        path = posixpath.normpath(path[path.find(MARK) :])
        name = self._importer.paths.get(path)
        return name if name is not None and self._importer.get_filename(name) == path else None

    def _size(self, path):
        """Bytes of a file, -1 for a folder. Raises an EnvironmentError where there is neither."""
        name = self._module(path)
        if name is not None:
            return len(self._importer.source_of(name))
        package, rest = resources.place(self._importer, path)
        if package is None:
            raise _refused(path)
        size = resources.size_of(self._importer, package, rest)
        if size is None:
            raise resources.Problem(2, os.strerror(2), path)
        return size

    def open(self, path, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        if "r" not in mode or "+" in mode:
            raise resources.Problem(30, "a file of the parent's, which lies in memory here, cannot be written", path)
        name = self._module(path)
        if name is not None:
            data = self._importer.source_of(name)
        else:
            if resources.place(self._importer, path)[0] is None:
                raise _refused(path)
            data = resources.read(self._importer, path)
        stream = _File(data, path)
        if "b" in mode or (codec.PY2 and encoding is None):
            return stream
        return io.TextIOWrapper(stream, encoding, errors, newline)

    def stat(self, path, dir_fd=None, follow_symlinks=True):
        return _status(self._size(path))

    def lstat(self, path, dir_fd=None):
        return _status(self._size(path))

    def access(self, path, mode, **options):
        try:
            self._size(path)
        except EnvironmentError:
            return False
        return not mode & os.W_OK

    def listdir(self, path):
        return [name.rpartition("/")[2] for name, _ in self._entries(path)]

    def scandir(self, path):
        return _Scan(
            [_Found(path, name.rpartition("/")[2], -1 if size is None else size) for name, size in self._entries(path)]
        )

    def _entries(self, path):
        if self._size(path) >= 0:
            raise resources.Problem(20, os.strerror(20), path)
        package, rest = resources.place(self._importer, path)
        return sorted((resources.folder_of(self._importer, package, rest) or {}).items())


def _status(size):
    kind = stat.S_IFDIR | 0o555 if size < 0 else stat.S_IFREG | 0o444
    return os.stat_result((kind, 0, 0, 1, 0, 0, max(size, 0), 0, 0, 0))


def _refused(path):
    return resources.Problem(
        2,
        "not here: of the parent's files only those inside of packages can be read, by importlib.resources or by a path beside "
        "__file__; put it into a package, or give its content as an argument",
        path,
    )


def install(importer):
    """Serve such paths from now on; again does nothing."""
    if isinstance(os.stat, Instead):
        return
    paths = Paths(importer)
    before = io.open
    builtins = sys.modules["__builtin__" if codec.PY2 else "builtins"]
    for holder, name in ((builtins, "open"), (io, "open")):
        setattr(holder, name, Instead(getattr(holder, name), paths.open, "file"))
    for name in ("stat", "lstat", "access", "listdir", "scandir"):
        original = getattr(os, name, None)
        if original is not None:
            setattr(os, name, Instead(original, getattr(paths, name), "path"))
    # Modules that keep these functions under names of their own, if they are here already.
    if hasattr(sys.modules.get("tokenize"), "_builtin_open"):
        sys.modules["tokenize"]._builtin_open = builtins.open
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)
    for name in ("stat", "lstat", "listdir", "scandir"):
        if hasattr(accessor, name):
            setattr(accessor, name, getattr(os, name))
    if getattr(accessor, "open", None) is before:  # 3.10; in others it is os.open, or nothing
        accessor.open = io.open
