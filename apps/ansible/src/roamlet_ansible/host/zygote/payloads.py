"""The files of payloads, as text or code, and how they are imported: from memory, as if from a zip. Not which are there."""

import errno
import marshal
import os
import shutil
import sys
import zlib

from roamlet_ansible.host.zygote.language import CACHE_TAG, PY3, native

if PY3:
    import importlib.machinery
    import importlib.util
    from importlib._bootstrap import _call_with_frames_removed  # noqa: F401 - used by a loader's text


class Archive(object):
    """The payload of a run as if it were the zip at `root`: what stock's wrapper puts on sys.path.

    `root` names a file that exists only once `write()` was called. `files` is path -> sha256; `blobs`, of all payloads,
    is sha256 -> Blob.
    """

    def __init__(self, root, blobs):
        self.root = root
        self.common = root  # what modules that were loaded before the fork were loaded from
        self.blobs = blobs
        self.files = {}
        self.folders = frozenset()
        self.written = self.gone = False
        self.date_time = (1980, 1, 1, 0, 0, 0)
        self.loaded = {}  # name -> path, of modules that were imported from here

    def show(self, payload):
        self.files = payload.files
        self.folders = payload.folders

    def __call__(self, path):
        """As an entry of sys.path_hooks."""
        for root in (self.root, self.common):
            if path == root:
                return Importer(self, "")
            if path.startswith(root + "/"):
                return Importer(self, path[len(root) + 1 :] + "/")
        raise ImportError("not in the payload")

    def write(self):
        """Make the zip, for another interpreter that is to run the module (a respawn). Once."""
        if self.written:
            return
        self.written = True
        self.move_loaded()
        folder = os.path.dirname(self.root)
        os.mkdir(folder, 0o700)
        import zipfile  # only for a respawn: it takes a quarter of the zygote's start

        # Stock's wrapper gives all other interpreters that start with this zip on their path the same first entry.
        customize = 'import sys\nsys.path.insert(0, "%s")\n' % self.root
        archive = zipfile.ZipFile(self.root, "w", zipfile.ZIP_DEFLATED)
        try:
            contents = [(path, self.blobs[sha].source) for path, sha in sorted(self.files.items())]
            for path, source in contents + [("sitecustomize.py", customize.encode("utf-8"))]:
                entry = zipfile.ZipInfo(path, self.date_time)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o600 << 16
                archive.writestr(entry, source)
        finally:
            archive.close()

    def move_loaded(self):
        """Have modules that were loaded before the fork say that they come from this run's zip, now that it is there.

        Not earlier: it makes a copy of almost every page on which there is a module.
        """
        old, new = self.common, self.root

        def moved(paths):
            return [new + item[len(old) :] if item.startswith(old) else item for item in paths]

        for name, path in self.loaded.items():
            module = sys.modules.get(name)
            if module is None:
                continue
            module.__file__ = new + "/" + path
            if "__path__" in module.__dict__:
                module.__path__[:] = moved(module.__path__)
            spec = module.__dict__.get("__spec__")
            if spec is not None:
                spec.origin = module.__file__
                if spec.submodule_search_locations is not None:
                    spec.submodule_search_locations[:] = moved(spec.submodule_search_locations)
            for key, value in list(module.__dict__.items()):
                # What such a module has made of the place of its file: a text or a pathlib.Path.
                if (isinstance(value, str) or hasattr(value, "as_posix")) and str(value).startswith(old):
                    setattr(module, key, type(value)(new + str(value)[len(old) :]))

    def remove(self):
        self.gone = True
        if self.written:
            shutil.rmtree(os.path.dirname(self.root), ignore_errors=True)


class Importer(object):
    """Finder and loader for one folder of an archive, with the methods of zipimport.zipimporter."""

    def __init__(self, archive, prefix):
        self._archive = archive
        self.prefix = prefix

    @property
    def archive(self):
        return self._archive.root

    def __repr__(self):
        return '<zipimporter object "%s/%s">' % (self.archive, self.prefix)

    def _find(self, name):
        stem = self.prefix + name.rpartition(".")[2]
        files = self._archive.files
        path = stem + "/__init__.py"
        if path in files:
            return path, True
        path = stem + ".py"
        if path in files:
            return path, False
        return None, stem in self._archive.folders

    def _known(self, name):
        path, package = self._find(name)
        if path is None:
            raise ImportError("can't find module %r" % (name,))
        return path, package

    def find_spec(self, name, target=None):
        path, package = self._find(name)
        root = self._archive.root
        if path is None:
            if not package:
                return None
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations.append(root + "/" + self.prefix + name.rpartition(".")[2])
            return spec
        spec = importlib.machinery.ModuleSpec(name, self, origin=root + "/" + path, is_package=package)
        spec.has_location = True
        if CACHE_TAG:  # what importlib finds by a dozen calls
            folder, _, name = spec.origin.rpartition("/")
            spec.cached = "%s/__pycache__/%s.%s.pyc" % (folder, name[:-3], CACHE_TAG)
        if package:
            spec.submodule_search_locations.append(root + "/" + path[:-12])
        return spec

    def find_module(self, name, path=None):
        return self if self._find(name)[0] is not None else None

    def create_module(self, spec):
        return None

    def begin(self, module):
        """The code of the module, which is about to be executed."""
        name = module.__name__
        path = self._known(name)[0]
        code = self._archive.blobs[self._archive.files[path]].code_for(path, self._archive.root)
        self._archive.loaded[name] = path
        return code

    def done(self, module):
        if module.__name__ == "ansible.module_utils.common.respawn":
            before(module, ("respawn_module", "probe_interpreters_for_module"), self._archive.write)

    # Tracebacks leave out the import system's frames as long as none of another file is among them.
    if PY3:
        exec(
            compile(
                "def exec_module(self, module):\n"
                "    _call_with_frames_removed(exec, self.begin(module), module.__dict__)\n"
                "    self.done(module)",
                "<frozen importlib._bootstrap_external>",
                "exec",
            )
        )

    def load_module(self, name):
        path, package = self._known(name)
        fresh = name not in sys.modules
        module = sys.modules.setdefault(name, type(sys)(name))
        module.__file__ = self._archive.root + "/" + path
        module.__loader__ = self
        if package:
            module.__path__ = [module.__file__[:-12]]
            module.__package__ = name
        else:
            module.__package__ = name.rpartition(".")[0]
        try:
            exec(self.begin(module), module.__dict__)
            self.done(module)
        except BaseException:
            if fresh:
                sys.modules.pop(name, None)
            raise
        return sys.modules[name]

    def is_package(self, name):
        return self._known(name)[1]

    def get_code(self, name):
        path = self._known(name)[0]
        blob = self._archive.blobs[self._archive.files[path]]
        code = blob.code_for(path, self._archive.root)
        if blob.respawns:
            self._archive.write()
        return code

    def get_source(self, name):
        if self._archive.gone:
            raise IOError(
                errno.ENOENT, "the payload is gone", self._archive.root
            )  # tracebacks after the end lack lines
        source = self._archive.blobs[self._archive.files[self._known(name)[0]]].source
        return importlib.util.decode_source(source) if PY3 else source

    def get_filename(self, name):
        return self._archive.root + "/" + self._known(name)[0]

    _get_filename = get_filename

    def get_data(self, path):
        inside = path
        for start in (self._archive.root + "/", self._archive.common + "/"):
            if path.startswith(start):
                inside = path[len(start) :]
        sha = self._archive.files.get(inside)
        if sha is None:
            raise IOError(errno.ENOENT, "not in the payload", path)
        return self._archive.blobs[sha].source

    def invalidate_caches(self):
        pass

    def iter_modules(self, prefix=""):
        """For pkgutil."""
        seen = set()
        for path in sorted(self._archive.files):
            if not path.startswith(self.prefix):
                continue
            parts = path[len(self.prefix) :].split("/")
            if len(parts) == 1 and parts[0].endswith(".py") and parts[0] != "__init__.py":
                name, package = parts[0][:-3], False
            elif len(parts) == 2 and parts[1] == "__init__.py":
                name, package = parts[0], True
            else:
                continue
            if name not in seen:
                seen.add(name)
                yield prefix + name, package

    def get_resource_reader(self, name):
        return Resources(self._archive, self._known(name)[0][:-12]) if self.is_package(name) else None


class Resources(object):
    """A folder or file of an archive for importlib.resources: its reader and its Traversable in one."""

    def __init__(self, archive, path):
        self._archive = archive
        self._path = path

    @property
    def name(self):
        return self._path.rpartition("/")[2]

    def files(self):
        return self

    def is_file(self):
        return self._path in self._archive.files

    def is_dir(self):
        return not self.is_file() and any(path.startswith(self._path + "/") for path in self._archive.files)

    def joinpath(self, *parts):
        return Resources(self._archive, "/".join((self._path,) + tuple(str(part).strip("/") for part in parts)))

    __truediv__ = joinpath

    def iterdir(self):
        return iter([self.joinpath(name) for name in self.contents()])

    def read_bytes(self):
        if not self.is_file():
            raise IOError(errno.ENOENT, "not in the payload", self._path)
        return self._archive.blobs[self._archive.files[self._path]].source

    def read_text(self, encoding="utf-8", errors="strict"):
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def open(self, mode="r", encoding=None, errors=None):
        import io  # only where a resource is opened

        return io.BytesIO(self.read_bytes()) if "b" in mode else io.StringIO(self.read_text(encoding, errors))

    def open_resource(self, name):
        return self.joinpath(name).open("rb")

    def resource_path(self, name):
        raise IOError(errno.ENOENT, "in memory", name)

    def is_resource(self, name):
        return self.joinpath(name).is_file()

    def contents(self):
        start = self._path + "/"
        return sorted(set(p[len(start) :].split("/")[0] for p in self._archive.files if p.startswith(start)))


def before(module, names, act):
    """Have `act()` called before the functions of `module` with these names."""

    def wrapped(function):
        def call(*args, **kwargs):
            act()
            return function(*args, **kwargs)

        call.__name__, call.__doc__, call.__module__ = function.__name__, function.__doc__, function.__module__
        call.__wrapped__ = function
        return call

    for name in names:
        if hasattr(module, name):
            setattr(module, name, wrapped(getattr(module, name)))


class Blob(object):
    """One file of payloads: its source, and its code once that was compiled or came along."""

    __slots__ = ("code", "marshalled", "packed", "respawns")

    def __init__(self):
        # packed: (the source as it came, the window of its compression); respawns: whether it has a respawn of its own
        self.packed = self.code = self.marshalled = self.respawns = None

    @property
    def source(self):
        data, window = self.packed
        return zlib.decompress(data, window) if window else data

    def code_for(self, path, root):
        """The code, whose file name is the file's place in the payload's zip."""
        filename = root + "/" + path
        code = self.code
        if code is None and self.marshalled is not None:
            try:
                code = marshal.loads(zlib.decompress(self.marshalled))
            except (EOFError, ValueError, TypeError, zlib.error):
                code = None  # damaged: the source is there
            self.marshalled = None
            if not isinstance(code, type(native.__code__)):
                code = None
        if code is None or self.respawns is None:  # before the fork, so that no child inflates it for that
            source = self.source
            self.respawns = b"_modlib_path" in source
            if code is None:
                code = compile(source, filename, "exec", 0, True)
        if code.co_filename != filename:
            if fix_filename is not None:
                fix_filename(code, filename)
            elif not PY3:
                code = from_file(code, filename)
        self.code = code
        return code


def from_file(code, filename):
    """Python 2: the same code, but from this file."""
    old, kind = code.co_filename, type(code)
    constants = tuple(
        from_file(one, filename) if isinstance(one, kind) and one.co_filename == old else one for one in code.co_consts
    )
    return kind(
        code.co_argcount, code.co_nlocals, code.co_stacksize, code.co_flags, code.co_code, constants, code.co_names,
        code.co_varnames, filename, code.co_name, code.co_firstlineno, code.co_lnotab, code.co_freevars, code.co_cellvars,
    )  # fmt: skip


def filename_fixer():
    """Python's own function that names the file of a code object and those in it, or None."""
    try:
        import _imp  # Python 3
    except ImportError:
        return None
    return getattr(_imp, "_fix_co_filename", None)


fix_filename = filename_fixer()


class Payload(object):
    def __init__(self, definition):
        self.files = dict((native(path), native(sha)) for path, sha in definition)
        folders = set()
        for path in self.files:
            parts = path.split("/")[:-1]
            folders.update("/".join(parts[: i + 1]) for i in range(len(parts)))
        self.folders = frozenset(folders)
        self.used = 0
        self.complete = False  # all of its files are here
        self.plan = None  # what a child does with the modules that were loaded before the fork
