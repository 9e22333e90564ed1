"""Extension modules from memory: their files arrive in pieces and are loaded from there, never from a disk.

Sent ahead of the first bundle that announces an extension module; for 3.6 and later.

Each file becomes a memfd, which the dynamic linker opens below /proc. Once it is loaded, the descriptor goes where it takes none of
the program's numbers: processes that are started here load the module from it (roamlet.wire.modules.children). The libraries that
a module needs are loaded before it, because the linker takes what is loaded already by its soname and looks for no path then. As
libraries may need each other, all of them are loaded in one step: by a small shared object, made here, that needs each by its path.
"""

import errno
import fcntl
import os
import struct
import sys
import threading

from roamlet.wire import codec, protocol
from roamlet.wire.modules import bundle

_ExtensionFileLoader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader
_imp = sys.modules["_imp"]
_CLOEXEC = 1
_SEALING = 2
_ADD_SEALS = 1033  # fcntl's, which 3.8 names
_SEALS = 15  # nothing can be changed, nor this
_DUPFD_CLOEXEC = 1030
_ROOM = 4096  # descriptors of files that are loaded
_HIGH = 1 << 13  # a number that few programs reach; the table of a process is as long as the highest one
_NOEXEC_SEAL = 8  # Linux 6.3+, which may be told to refuse memory without it; nothing here is ever run as a program
_SYSCALLS = {"x86_64": 319, "i386": 356, "i686": 356, "aarch64": 279, "riscv64": 279, "ppc64le": 360, "s390x": 350}
_NOW = 2  # RTLD_NOW; local
_HEAD = 64  # bytes of the header of an ELF file
_PAGE = 1 << 16  # the largest one of all Linux


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
        self.asked = self.whole = False
        self.head = b""  # its first bytes, which say for which machine it is
        self.path = self.problem = self.fd = None
        self.size = 0
        self._unpacker = None
        self._kept = None  # its descriptor, once it is loaded
        self._moved = False  # to a number that the program hardly needs
        self._identity = None  # its device and inode
        self._elsewhere = None  # process, descriptor, device and inode, where another process has it

    def add(self, piece, label):
        if self._unpacker is None:
            self._unpacker = bundle.decompressor(piece)
        self.write(self._unpacker.decompress(piece), label)
        self.whole = self._unpacker.eof
        if self.whole:
            try:
                fcntl.fcntl(self.fd, _ADD_SEALS, _SEALS)
            except EnvironmentError:
                pass  # an old kernel: it can be changed by this account alone, as this process can

    def write(self, data, label):
        if self.fd is None:
            self.fd = _memory(label)
            self._identity = _identity(self.fd)
        if len(self.head) < _HEAD:
            self.head += data[: _HEAD - len(self.head)]
        self.size += len(data)
        data = memoryview(data)
        while data:
            data = data[os.write(self.fd, data) :]

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def keep(self):
        """It is loaded: keep it for processes that are started here, if there is room."""
        self.settle()
        if self._moved:
            self._kept, self.fd = self.fd, None
        else:
            self.close()

    def settle(self):
        """Give it the number that it keeps, if there is room. Only under a lock."""
        if self.fd is not None and not self._moved:
            moved = _moved_away(self.fd)
            if moved is not None:
                self.close()
                self.fd = moved
                self._moved = True

    def place(self):
        """Return where other processes find it: process, descriptor, device, inode and size. None if it is nowhere."""
        fd = self._kept if self.fd is None else self.fd
        if not self.whole or fd is None:
            return self._elsewhere and self._elsewhere + (self.size,)
        try:
            if _identity(fd) != self._identity:
                return None
        except EnvironmentError:  # the program has closed it
            return None
        return (os.getpid(), fd) + self._identity + (self.size,)

    def is_at(self, place):
        """It is in the memory of another process, at this place."""
        self.asked = self.whole = True
        self.size = place[4]
        self._elsewhere = place[:4]

    def fetch(self):
        """Open what another process has. Raises EnvironmentError."""
        if self._elsewhere is None or self.fd is not None or self._kept is not None:
            return
        fd = os.open("/proc/%d/fd/%d" % self._elsewhere[:2], os.O_RDONLY)
        if _identity(fd) != self._elsewhere[2:]:
            os.close(fd)
            raise EnvironmentError(errno.ESTALE, "it was closed there")
        self.fd = fd
        self._identity = self._elsewhere[2:]
        self.head = os.pread(fd, _HEAD, 0)


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
        self._names = set()  # (number, name) of the libraries that are loaded
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
                        file.asked = True  # it is on its way and need not be asked for
                    elif body[:1] == b"+":
                        file.add(body[1:], "roamlet-%d" % number)
                    else:
                        file.problem = body[1:].decode("utf-8")
                except Exception as error:  # whatever the packer raises, or there are no files in memory here
                    file.problem = "%s: %s" % (type(error).__name__, error)
                if file.problem is not None:
                    file.close()
            self._changed.notify_all()

    def lose(self, reason):
        """Fail all waits for files, now and from now on."""
        with self._changed:
            self._lost = reason
            self._changed.notify_all()

    def leave(self):
        """In a process that was forked off: what has come can be loaded, and nothing more comes."""
        self._changed = threading.Condition()
        self._loading = threading.RLock()
        self._lost = "this process was forked from the one that it would come to"

    # ---- other processes

    def places(self):
        """Return number -> place of all files that are here. Blocks this thread while another one loads a module."""
        with self._changed:
            files = list(self._files.items())
        found = {}
        with self._loading:
            for number, file in files:
                if file.whole:
                    file.settle()
                found[number] = file.place()
        return dict((number, place) for number, place in found.items() if place is not None)

    def adopt(self, places, reason):
        """Use what other processes have, as `places()` said there, and nothing else. `reason`: why nothing more comes."""
        for number, place in places.items():
            self._files.setdefault(number, _File()).is_at(place)
        self._lost = reason

    # ---- finding and loading

    def spec(self, name, announced, filename):
        """Return the spec of a module that a bundle has announced. Asks for nothing: that is for the import."""
        is_package, files, has_twin = codec.loads(announced)
        loader = Loader(name, filename, self, files, is_package, has_twin)
        spec = type(sys.__spec__)(name, loader, origin=filename, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [filename.rpartition("/")[0]]
        return spec

    def load(self, spec, files):
        """Return a new module out of the last of `files`, the others loaded before it. Blocks this thread until all are there.

        Raises ImportError, naming the module and what is missing; what has come is kept then, for another attempt.
        """
        for number, _, _, _ in files:
            self._ask(number)
        for number, label, size, _ in files:
            self._wait(spec.name, number, label, size)
        with self._loading:
            try:
                self._load_libraries([file for file in files[:-1] if (file[0], file[1]) not in self._names])
                return self._load_module(self._files[files[-1][0]], spec)
            except (ImportError, EnvironmentError) as error:
                problem = str(error)
            for number, label, _, _ in files:
                problem = problem.replace(self._path_of(self._files[number]), label)
            text = "%s came from the parent, but cannot be loaded here: %s. Install %s over there, or the library that is missing"
            raise _problem(spec.name, text % (spec.name, problem, spec.name.partition(".")[0]))

    def take_twin(self, spec):
        """Let the Python file beside an extension module take its place, as it cannot be loaded. False without such a file."""
        try:
            self._importer._pull("!" + spec.name)
        except ImportError:
            return False
        kind, _, filename = self._importer._modules[spec.name]
        if kind == bundle.EXTENSION:
            return False
        spec.loader, spec.origin = self._importer, filename
        return True

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
            try:
                file.fetch()
            except EnvironmentError as error:
                text = "%s of %s is in the memory of the process that started this one, where it cannot be read any more: %s"
                raise _problem(name, text % (label, name, error))

    def _load_libraries(self, files):
        """Load them in one step, whichever of them need each other, in the order in which the linker is to search them."""
        if not files:
            return
        # Imported here because few modules bring libraries, and some Pythons are built without it.
        import _ctypes

        joints = []
        needed = []
        try:
            for number, label, _, soname in files:
                path = self._path_of(self._files[number])
                if not self._files[number].head.startswith(b"\x7fELF") or len(self._files[number].head) < _HEAD:
                    raise ImportError("%s is no shared object" % label)
                if label != soname:  # others need it by this name, which is not the one that it gives itself
                    path = self._joint(joints, files, [path], label)
                needed.append(path)
            _ctypes.dlopen(self._joint(joints, files, needed), _NOW)
        finally:
            for joint in joints:
                joint.close()
        for number, label, _, _ in files:
            self._names.add((number, label))
            self._files[number].keep()

    def _joint(self, joints, files, needed, soname=""):
        """Return the path of a new shared object that needs these paths; add it to `joints`, which are closed once it is loaded."""
        joint = _File()
        joints.append(joint)
        joint.write(joined(self._files[files[0][0]].head, needed, soname), "roamlet-joint")
        return self._path_of(joint)

    def _load_module(self, file, spec):
        inner = type(spec)(spec.name, spec.loader, origin=self._path_of(file), is_package=False)
        inner.submodule_search_locations = spec.submodule_search_locations
        module = _imp.create_dynamic(inner)
        file.keep()
        module.__file__ = spec.origin
        return module

    def _path_of(self, file):
        """Return a path that no other file has had in this process: the linker and the interpreter know what is loaded by its path.

        Numbers of descriptors are used again, so the name contains a number of our own, in binary: "/." is 1, "/" is 0.
        """
        if file.path is None:
            self._paths += 1
            mark = "".join("/." if digit == "1" else "/" for digit in bin(self._paths)[2:])
            file.path = "/proc/self%s/fd/%d" % (mark, file.fd)
        return file.path


class Loader(_ExtensionFileLoader):
    """Loads one extension module; for inspect and its like it is the interpreter's own kind."""

    def __init__(self, name, path, extensions, files, is_package, has_twin):
        _ExtensionFileLoader.__init__(self, name, path)
        self._extensions = extensions
        self._files = files
        self._is_package = is_package
        self._has_twin = has_twin

    def create_module(self, spec):
        try:
            return self._extensions.load(spec, self._files)
        except ImportError:
            if not self._has_twin or not self._extensions.take_twin(spec):
                raise
        return None

    def exec_module(self, module):
        _imp.exec_dynamic(module)

    def is_package(self, fullname):
        return self._is_package

    def get_data(self, path):
        return self._extensions._importer.get_data(path)

    def get_resource_reader(self, name):
        return self._extensions._importer.get_resource_reader(name)


def joined(head, needed, soname=""):
    """Return the bytes of a shared object without any code that needs these others and is for the machine that `head` says.

    `head` is the header of an ELF file for that machine, `needed` are names or paths, `soname` is its own name.
    """
    wide = head[4:5] == b"\2"
    order = "<" if head[5:6] == b"\1" else ">"
    header, segment, word, symbol = (64, 56, "Q", 24) if wide else (52, 32, "I", 16)
    strings = b"\0"
    entries = []
    for tag, names in ((1, needed), (14, [soname] if soname else [])):  # DT_NEEDED, DT_SONAME
        for name in names:
            entries.append((tag, len(strings)))
            strings += name.encode("utf-8") + b"\0"
    strings += b"\0" * (-len(strings) % 8)
    start = header + 3 * segment
    length = 2 * struct.calcsize(order + word) * (len(entries) + 6)
    symbols = start + length
    table = symbols + symbol
    names = table + 16
    size = names + len(strings)
    # DT_HASH, STRTAB, SYMTAB, STRSZ, SYMENT, and the end
    entries += [(4, table), (5, names), (6, symbols), (10, len(strings)), (11, symbol), (0, 0)]
    flags = head[48:52] if wide else head[36:40]
    parts = [head[:16], struct.pack(order + "HHI" + 3 * word, 3, _machine(head, order), 1, 0, header, 0), flags]
    parts.append(struct.pack(order + "6H", header, segment, 3, 0, 0, 0))
    # What is loaded: all of it, for the linker to write into; the dynamic section; and that no stack need be executable.
    for kind, at, count, align in ((1, 0, size, _PAGE), (2, start, length, 8), (0x6474E551, 0, 0, 16)):
        if wide:
            parts.append(struct.pack(order + "IIQQQQQQ", kind, 6, at, at, at, count, count, align))
        else:
            parts.append(struct.pack(order + "8I", kind, at, at, at, count, count, 6, align))
    parts += [struct.pack(order + 2 * word, *entry) for entry in entries]
    parts += [b"\0" * symbol, struct.pack(order + "4I", 1, 1, 0, 0), strings]
    return b"".join(parts)


def _machine(head, order):
    return struct.unpack(order + "H", head[18:20])[0]


def _problem(name, text, kind=ImportError):
    error = kind(text)
    error.name = name
    return error


def _identity(fd):
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _memory(label):
    """Return the descriptor of a new piece of memory that no child process inherits. Raises OSError where the system has none."""
    create = getattr(os, "memfd_create", None) or _memfd_create
    try:
        return create(label, _CLOEXEC | _SEALING | _NOEXEC_SEAL)
    except EnvironmentError as error:
        if error.errno != errno.EINVAL:
            raise
    return create(label, _CLOEXEC | _SEALING)


def _moved_away(fd):
    """Return a copy of a descriptor whose number the program hardly needs; None if there is no room.

    Above the limit of this process, where that may be raised for a moment; else among the highest quarter. Only under a lock.
    """
    # Imported here because only contexts with extension modules need it.
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    try:
        if soft == unlimited or soft > 2 * _HIGH:
            return fcntl.fcntl(fd, _DUPFD_CLOEXEC, _HIGH)
        if hard != unlimited and hard < soft + _ROOM:
            return fcntl.fcntl(fd, _DUPFD_CLOEXEC, min(_HIGH, soft - soft // 4))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft + _ROOM, hard))
        try:
            return fcntl.fcntl(fd, _DUPFD_CLOEXEC, soft)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    except (EnvironmentError, ValueError):
        return None


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
