"""The files of packages that came from the parent: listed and read from memory, asked for when they are not there yet.

Nothing is written to disk. A file is named "package/path in it"; "package/path/" is what lies in that folder, at any depth, as
the parent tells it: a tuple of a list of paths (folders end in "/"), a list of sizes, and a list of the folders that were too
large to be told about, which are asked for in their turn. Each question is asked once.
"""

import io
import os
import posixpath
import sys

from roamlet.wire import codec
from roamlet.wire.modules.importer import native

MEMORY = "/dev/shm"  # a file system in memory, where a file without a name can be made
_O_TMPFILE = 0o20200000
# On 2.7 open() raises IOError and os.stat() OSError, and code that expects one does not catch the other.
Problem = type("Problem", (IOError, OSError), {}) if codec.PY2 else OSError


def place(importer, path):
    """Return (package, path in it) of a path that leads into a package of the parent's, or (None, None).

    The path may have been made absolute, and need not be normal.
    """
    path = posixpath.normpath(path[path.find("roamlet:") :])
    folder = path
    while folder:
        name = importer.paths.get(folder)
        if name is not None and (folder != path or name[:1] == "@" or importer.is_package(name)):
            return name, path[len(folder) + 1 :]
        folder = folder.rpartition("/")[0]
    return None, None


def folder_of(importer, package, path=""):
    """Return {path in the package: size, None for a folder} for what lies in one of its folders; None when it is no folder.

    What is returned belongs to the index and is not to be changed. Takes the same time however much the package holds.
    """
    key = package + "/"
    if key not in importer.listings:
        importer.listings[key] = _of_outer(importer, package) or _listing(importer, key, "")
    folders, unlisted = importer.listings[key]
    at = 0
    while unlisted and at >= 0:
        at = path.find("/", at + 1)
        folder = (path if at < 0 else path[:at]) + "/"
        if folder in unlisted:
            more, even_more = _listing(importer, key, folder)
            folders.update(more)
            unlisted.update(even_more)
            unlisted.discard(folder)
    return folders.get(path)


def _of_outer(importer, package):
    """Return the index of a package in the directory of another one whose listing has come, or None.

    Of the second package that is asked about, the outermost one around it is: that question is the last one.
    """
    top = package.partition(".")[0]
    if not top or top == package or not importer.is_provided(top):
        return None
    place, inner = importer.directory(top), importer.directory(package)
    if inner[: len(place) + 1] != place + "/":
        return None
    key = top + "/"
    if key not in importer.listings:
        asked = [one for one in importer.listings if one.partition(".")[0] == top]
        if importer.here(key) is None and not asked:
            return None
        importer.listings[key] = _listing(importer, key, "")
    rest = inner[len(place) + 1 :]
    folders, unlisted = importer.listings[key]
    if rest not in folders or any(
        (rest + "/")[: len(one)] == one or one[: len(rest) + 1] == rest + "/" for one in unlisted
    ):
        return None
    found = {}
    for folder, entries in folders.items():
        if folder == rest or folder[: len(rest) + 1] == rest + "/":
            found[folder[len(rest) + 1 :]] = dict((name[len(rest) + 1 :], size) for name, size in entries.items())
    return found, set()


def _listing(importer, key, head):
    """Return what the parent says about the folder `head` of a package, by folder, and the set of folders left out.

    The first is {path of a folder: {path of what lies in it: size, None for a folder}}; all paths are those in the package.
    """
    folders = {head.rstrip("/"): {}}
    body = importer.fetch(key + head)
    if body is None:
        return folders, set()
    names, sizes, unlisted = codec.loads(body)
    for index, name in enumerate(map(native, names)):
        path = head + name.rstrip("/")
        is_folder = name[-1:] == "/"
        if is_folder:
            folders.setdefault(path, {})
        folders.setdefault(path.rpartition("/")[0], {})[path] = None if is_folder else sizes[index]
    return folders, set(head + native(name) for name in unlisted)


def size_of(importer, package, path):
    """Return the size of a file in bytes, -1 for a folder, None when there is neither."""
    if not path:
        return -1
    data = importer.here(package + "/" + path)
    if data is not None:
        return len(data)
    outer, _, _ = path.rpartition("/")
    entries = folder_of(importer, package, outer)
    if entries is None or path not in entries:
        return None
    return -1 if entries[path] is None else entries[path]


def read(importer, path):
    """Return the bytes of a file by its path. Raises IOError (FileNotFoundError) when it is absent."""
    package, rest = place(importer, path)
    if package is None:
        raise missing(path)
    return contents(importer, package, rest)


def contents(importer, package, path):
    """Return the bytes of a file in a package; those of one that is not here yet are asked for, and kept."""
    name = package + "/" + path
    data = importer.here(name)
    if data is None and package + "/" in importer.listings and size_of(importer, package, path) in (None, -1):
        raise missing(name, package)
    if data is None:
        data = importer.fetch(name) if path else None
    if data is None:
        raise missing(name, package)
    return data


def modules_in(importer, path):
    """Return a list of (name, is package) of the modules in the directory of a package, as pkgutil orders them."""
    package, rest = place(importer, path)
    if package is None:
        return []
    found = {}
    head = rest + "/" if rest else ""
    for name, size in (folder_of(importer, package, rest) or {}).items():
        short = name[len(head) :]
        if size is None:
            inside = folder_of(importer, package, name) or {}
            if name + "/__init__.py" in inside and "." not in short:
                found[short] = True
        elif short[-3:] == ".py" and short != "__init__.py":
            found.setdefault(short[:-3], False)
        elif short[-3:] == ".so":
            found.setdefault(short.partition(".")[0], False)
    return sorted(found.items())


class Reader(object):
    """The files of one package: importlib.abc.ResourceReader for 3.7 and later, with `files` for 3.9 and later."""

    def __init__(self, importer, package):
        self._root = Entry(importer, package, "")

    def open_resource(self, resource):
        return self._root.joinpath(resource).open("rb")

    def resource_path(self, resource):
        return self._root.joinpath(resource).path()

    def is_resource(self, name):
        return self._root.joinpath(name).is_file()

    def contents(self):
        return [entry.name for entry in self._root.iterdir()]

    def files(self):
        _serve_as_file()
        return self._root


class Entry(object):
    """A file or folder of a package as importlib.resources.abc.Traversable, whether or not it is there."""

    def __init__(self, importer, package, path):
        self._importer = importer
        self._package = package
        self._path = path
        self.name = path.rpartition("/")[2] or package.rpartition(".")[2]

    def __repr__(self):
        return "<%s/%s of the parent's>" % (self._package, self._path)

    def __str__(self):
        place = self._importer.directory(self._package)
        return place + "/" + self._path if self._path else place

    def __eq__(self, other):
        return isinstance(other, Entry) and (self._package, self._path) == (other._package, other._path)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((self._package, self._path))

    def iterdir(self):
        entries = folder_of(self._importer, self._package, self._path)
        if entries is None:
            raise IOError(20, "%s/%s is no folder" % (self._package, self._path))  # ENOTDIR
        return iter([Entry(self._importer, self._package, name) for name in sorted(entries)])

    def is_dir(self):
        return size_of(self._importer, self._package, self._path) == -1

    def is_file(self):
        return size_of(self._importer, self._package, self._path) not in (None, -1)

    def joinpath(self, *parts):
        path = self._path
        for part in parts:
            path = posixpath.join(path, str(part).strip("/"))
        path = posixpath.normpath(path) if path else ""
        return Entry(self._importer, self._package, "" if path == "." else path)

    def __truediv__(self, part):
        return self.joinpath(part)

    def read_bytes(self):
        return contents(self._importer, self._package, self._path)

    def read_text(self, encoding=None, errors=None):
        return self.open("r", encoding=encoding or "utf-8", errors=errors).read()

    def open(self, mode="r", *args, **kwargs):
        if "r" not in mode or "+" in mode:
            raise IOError(30, "%s/%s lies in the parent's memory and cannot be written" % (self._package, self._path))
        stream = io.BytesIO(self.read_bytes())
        return stream if "b" in mode else io.TextIOWrapper(stream, *args, **kwargs)

    def path(self):
        """Return a path by which this process and its children can open the file; it is a piece of memory, kept from now on."""
        if self.is_dir():
            # What only this process's own Python code can read; a part, for those who need it.
            __import__("roamlet.wire.modules.paths")
            sys.modules["roamlet.wire.modules.paths"].install(self._importer)
            return str(self)
        descriptors = self._importer.descriptors
        name = self._package + "/" + self._path
        if name not in descriptors:
            descriptors[name] = _in_memory(self.name, self.read_bytes())
        return "/proc/%d/fd/%d" % (os.getpid(), descriptors[name])


def _in_memory(name, data):
    """Return the descriptor of a file that has no name anywhere and no place on any disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name)
    else:
        try:
            descriptor = os.open(MEMORY, _O_TMPFILE | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        except EnvironmentError as error:
            raise EnvironmentError(
                error.errno,
                "%s has no path here, as nothing is written to disk: Python 3.8 could give it one in memory, and so could %s if "
                "it were there. Read it instead: importlib.resources.read_binary" % (name, MEMORY),
            )
    with io.open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return descriptor


class _AsFile(object):
    """What importlib.resources.as_file gives for one of these."""

    def __init__(self, entry):
        self._entry = entry

    def __enter__(self):
        # Imported here because hardly any target needs it.
        import pathlib

        return pathlib.Path(self._entry.path())

    def __exit__(self, *error):
        return None


def _serve_as_file():
    """Keep as_file from making temporary files of ours."""
    # Imported here: code that asks for `files` has imported it already.
    from importlib import resources

    if resources.as_file.dispatch(Entry) is not _AsFile:
        resources.as_file.register(Entry, _AsFile)


def missing(what, package=None):
    """Return the error for a file that the parent does not have, or does not give."""
    if package is not None:
        text = "%s is not here: the parent's package %s has no such file, or does not give it" % (what, package)
    else:
        text = (
            "%s is not here: of the parent's files only those of packages can be read, best by importlib.resources"
            % what
        )
    return Problem(2, text)  # ENOENT, which makes it FileNotFoundError in Python 3
