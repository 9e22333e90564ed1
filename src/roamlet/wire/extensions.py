"""Extension modules from memory: their files arrive in pieces and are loaded from there, never from a disk.

A part of the payload, sent ahead of the first bundle that announces an extension module. Runs on the target, on 3.6 and later; see
roamlet.wire.protocol for what that means.

Each file becomes a memfd, which the dynamic linker opens below /proc and which is closed once it is loaded. The libraries that a
module needs are loaded first: the linker takes what is loaded already by its soname, and never looks for a path then.
"""

import errno
import os
import sys
import threading
import zlib

from roamlet.wire import codec, protocol

_ExtensionFileLoader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader
_imp = sys.modules["_imp"]
_CLOEXEC = 1
_NOEXEC_SEAL = 8  # Linux 6.3+, which may be told to refuse memory without it; nothing here is ever run as a program
_SYSCALLS = {"x86_64": 319, "i386": 356, "i686": 356, "aarch64": 279, "riscv64": 279, "ppc64le": 360, "s390x": 350}
_NOW = 2  # RTLD_NOW; local


def install(child):
    """Take the kind PIECE, and let the importer load what bundles announce."""
    extensions = Extensions(child._link, child.importer)
    child.importer.extensions = extensions
    child.kinds[protocol.PIECE] = extensions.receive
    child.life.on_loss.append(extensions.lose)
    at_fork = getattr(os, "register_at_fork", None)  # 3.7 and later
    if at_fork is not None:
        at_fork(after_in_child=extensions.leave)


class _File(object):
    """One shared object on its way. `path` is set once it is loaded or about to be, `problem` when it cannot come."""

    def __init__(self):
        self.asked = self.whole = self.loaded = False
        self.path = self.problem = self.fd = None
        self.size = 0
        self._unpacker = zlib.decompressobj()

    def add(self, piece, label):
        if self.fd is None:
            self.fd = _memory(label)
        data = self._unpacker.decompress(piece)
        self.size += len(data)
        data = memoryview(data)
        while data:
            data = data[os.write(self.fd, data) :]
        self.whole = self._unpacker.eof

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class Extensions(object):
    """The files that have come, and those that imports wait for. Thread-safe."""

    def __init__(self, link, importer):
        self._link = link
        self._importer = importer
        self._files = {}  # number -> _File
        self._changed = threading.Condition()
        self._pieces = 0  # that have come so far
        self._loading = threading.RLock()
        self._paths = 0
        self._lost = None

    # ---- what the link brings

    def receive(self, destination, source, number, kind, body):
        """Take a piece of a file. Runs in the thread that reads: waits for nothing."""
        with self._changed:
            self._pieces += 1
            file = self._files.setdefault(number, _File())
            if not file.whole and file.problem is None:
                try:
                    if body == b"+":
                        file.asked = True  # it is on its way, nobody need ask
                    elif body[:1] == b"+":
                        file.add(body[1:], "roamlet-%d" % number)
                    else:
                        file.problem = body[1:].decode("utf-8")
                except (EnvironmentError, zlib.error, ImportError, AttributeError) as error:
                    file.problem = "%s: %s" % (type(error).__name__, error)
                if file.problem is not None:
                    file.close()
            self._changed.notify_all()

    def lose(self, reason):
        """Let everybody who waits for a file fail, now and from now on."""
        with self._changed:
            self._lost = reason
            self._changed.notify_all()

    def leave(self):
        """In a process that was forked off: what has come can be loaded, and nothing more comes."""
        self._changed = threading.Condition()
        self._loading = threading.RLock()
        self._lost = "this process was forked from the one that it would come to"

    # ---- finding and loading

    def spec(self, name, announced, filename):
        """Return the spec of a module that a bundle has announced. Asks for nothing: that is for the import."""
        is_package, files = codec.loads(announced)
        loader = Loader(name, filename, self, files, is_package)
        spec = type(sys.__spec__)(name, loader, origin=filename, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [filename.rpartition("/")[0]]
        return spec

    def load(self, spec, files):
        """Return a new module out of the last of `files`, the others loaded before it. Blocks this thread until all are there.

        Raises ImportError, naming the module and what is missing; what has come is kept then, for another attempt.
        """
        for number, _, _ in files:
            self._ask(number)
        for number, label, size in files:
            self._wait(spec.name, number, label, size)
        with self._loading:
            try:
                for number, _, _ in files[:-1]:
                    self._load_library(self._files[number])
                return self._load_module(self._files[files[-1][0]], spec)
            except (ImportError, EnvironmentError) as error:
                problem = str(error)
            text = "%s came from the parent, but cannot be loaded here: %s. Install %s over there, or the library that is missing"
            raise _problem(spec.name, text % (spec.name, problem, spec.name.partition(".")[0]))

    def _ask(self, number):
        with self._changed:
            file = self._files.setdefault(number, _File())
            first = not (file.asked or file.whole or file.problem)
            file.asked = True
        if first and self._lost is None:
            try:
                self._link.send(protocol.PIECE, number, b"")
            except EnvironmentError as error:
                self.lose(str(error))

    def _wait(self, name, number, label, size):
        """Wait until a file is whole. There is a limit for the time in which no piece of any file comes, not for the whole."""
        with self._changed:
            file = self._files[number]
            while not file.whole and file.problem is None:
                if self._lost is not None:
                    raise _problem(name, "%s of %s cannot come: %s" % (label, name, self._lost))
                before = self._pieces
                self._changed.wait(self._importer._timeout)
                if self._pieces == before and not file.whole and self._lost is None:
                    text = "%s of %s did not come: the parent sent nothing for %g seconds"
                    raise _problem(name, text % (label, name, self._importer._timeout))
            if file.problem is None and file.size != size:
                file.problem = "it has %d bytes instead of %d" % (file.size, size)
                file.close()
            if file.problem is not None:
                raise _problem(name, "%s of %s cannot be used here: %s" % (label, name, file.problem))

    def _load_library(self, file):
        if not file.loaded:
            # Imported here because few modules bring libraries, and some Pythons are built without it.
            import _ctypes

            _ctypes.dlopen(self._path_of(file), _NOW)
            file.loaded = True
            file.close()

    def _load_module(self, file, spec):
        inner = type(spec)(spec.name, spec.loader, origin=self._path_of(file), is_package=False)
        inner.submodule_search_locations = spec.submodule_search_locations
        module = _imp.create_dynamic(inner)
        file.loaded = True
        file.close()
        module.__file__ = spec.origin
        return module

    def _path_of(self, file):
        """Return a path that no other file has had in this process: the linker and the interpreter know what is loaded by its path.

        Numbers of descriptors are used again, so a number of our own stands in it, in binary: "/." is 1, "/" is 0.
        """
        if file.path is None:
            self._paths += 1
            mark = "".join("/." if digit == "1" else "/" for digit in bin(self._paths)[2:])
            file.path = "/proc/self%s/fd/%d" % (mark, file.fd)
        return file.path


class Loader(_ExtensionFileLoader):
    """Loads one extension module; for inspect and its like it is the interpreter's own kind."""

    def __init__(self, name, path, extensions, files, is_package):
        _ExtensionFileLoader.__init__(self, name, path)
        self._extensions = extensions
        self._files = files
        self._is_package = is_package

    def create_module(self, spec):
        return self._extensions.load(spec, self._files)

    def exec_module(self, module):
        _imp.exec_dynamic(module)

    def is_package(self, fullname):
        return self._is_package

    def get_data(self, path):
        return self._extensions._importer.get_data(path)

    def get_resource_reader(self, name):
        return self._extensions._importer.get_resource_reader(name)


def _problem(name, text, kind=ImportError):
    error = kind(text)
    error.name = name
    return error


def _memory(label):
    """Return the descriptor of a new piece of memory that no child process inherits. Raises OSError where there is none."""
    create = getattr(os, "memfd_create", None) or _memfd_create
    try:
        return create(label, _CLOEXEC | _NOEXEC_SEAL)
    except EnvironmentError as error:
        if error.errno != errno.EINVAL:
            raise
    return create(label, _CLOEXEC)


def _memfd_create(label, flags):
    # Imported here because only Python 3.6 and 3.7 lack the function.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    number = _SYSCALLS.get(os.uname()[4])
    if number is None:
        raise EnvironmentError(errno.ENOSYS, "Python 3.8 is needed for files in memory on this machine")
    fd = libc.syscall(number, label.encode("ascii"), flags)
    if fd < 0:
        raise EnvironmentError(ctypes.get_errno(), "memfd_create: " + os.strerror(ctypes.get_errno()))
    return fd
