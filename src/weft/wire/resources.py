"""The data files of packages that came from the parent, for importlib.resources: read from memory, never written to disk.

Runs on the target; see weft.wire.protocol for what that means. Only files that came in a bundle are here.
"""

import io
import os


class Reader(object):
    """The files of one package: importlib.abc.ResourceReader for 3.7 and later, with `files` for 3.9 and later."""

    def __init__(self, package, files):
        """`files`: name -> bytes; may grow later."""
        self._root = _Folder(package, files)

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


class _Folder(object):
    """A package as importlib.resources.abc.Traversable: a directory with files and no other directories."""

    def __init__(self, name, files):
        self.name = name
        self._files = files
        self._entries = {}

    def iterdir(self):
        return [self.joinpath(name) for name in sorted(self._files)]

    def is_dir(self):
        return True

    def is_file(self):
        return False

    def joinpath(self, *parts):
        name = "/".join(str(part).strip("/") for part in parts)
        if not name or name == ".":
            return self
        return self._entries.setdefault(name, _File(self.name, name, self._files))

    __truediv__ = joinpath

    def open(self, mode="r", *args, **kwargs):
        raise IOError("%s is a package, not one of its files" % self.name)


class _File(object):
    """One file as Traversable, whether or not it is here."""

    def __init__(self, package, name, files):
        self.name = name.rpartition("/")[2]
        self._package = package
        self._path = name
        self._files = files
        self._descriptor = None

    def is_dir(self):
        return False

    def is_file(self):
        return self._path in self._files

    def iterdir(self):
        return []

    def joinpath(self, *parts):
        return _File(
            self._package, "/".join((self._path,) + tuple(str(part).strip("/") for part in parts)), self._files
        )

    __truediv__ = joinpath

    def read_bytes(self):
        if self._path not in self._files:
            raise missing("%s of the package %s" % (self._path, self._package))
        return self._files[self._path]

    def read_text(self, encoding=None, errors=None):
        return self.open("r", encoding=encoding or "utf-8", errors=errors).read()

    def open(self, mode="r", *args, **kwargs):
        stream = io.BytesIO(self.read_bytes())
        return stream if "b" in mode else io.TextIOWrapper(stream, *args, **kwargs)

    def path(self):
        """Return a path by which this process and its children can open the file; it is a piece of memory, kept from now on."""
        data = self.read_bytes()
        if self._descriptor is None:
            if not hasattr(os, "memfd_create"):
                raise EnvironmentError(
                    "%s of the package %s has no path here, as nothing is written to disk; Python 3.8 on Linux can "
                    "give it one in memory. Read it instead: importlib.resources.read_binary"
                    % (self._path, self._package)
                )
            self._descriptor = os.memfd_create(self.name)
            with io.open(self._descriptor, "wb", closefd=False) as file:
                file.write(data)
        return "/proc/%d/fd/%d" % (os.getpid(), self._descriptor)


class _AsFile(object):
    """What importlib.resources.as_file gives for one of these files."""

    def __init__(self, file):
        self._file = file

    def __enter__(self):
        # Imported here because hardly any target needs it.
        import pathlib

        return pathlib.Path(self._file.path())

    def __exit__(self, *error):
        return None


def _serve_as_file():
    """Keep as_file from making temporary files of ours."""
    # Imported here: whoever asks for `files` has imported it already.
    from importlib import resources

    if resources.as_file.dispatch(_File) is not _AsFile:
        resources.as_file.register(_File, _AsFile)


def missing(what):
    """Return the error for a file that did not travel."""
    return IOError(
        2,  # ENOENT, which makes it FileNotFoundError in Python 3
        "%s is not here: of a package's files only those travel that its code names in full, beside the module" % what,
    )
