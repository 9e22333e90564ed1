"""Imports from memory: modules that the parent sent, names that it knows to be absent, and questions for the rest.

One object is finder and loader for 2.7 and 3.6+.

Who provides a module is decided once for each top-level name, so that no package is half from here and half from there: the
target, when it has it; else the parent. Below a package of the parent everything comes from the parent.

One file of more than 600 lines, because it is in the start payload, where each module and each import costs bytes.
"""

import os
import sys
import threading

from roamlet.wire import codec, protocol
from roamlet.wire.modules import bundle, standin

LONGEST_NAME = 500  # characters; the parent takes no question that is longer
# That an import may ask for.
PARTS = tuple("roamlet.wire.modules." + name for name in ("resources", "paths", "metadata", "children"))
EAGER = ("roamlet.wire.modules.paths",)  # parts that serve from before the next module is executed
PREFIX = "roamlet:"  # of file names, so that no file of the target is taken for a source of the parent's
# What standard modules try to import and most systems, or PyPy, do not have: no reason to ask the parent, which has it no
# more or for itself alone. A bundle that brings one of them counts.
OPTIONAL = (
    "Carbon SOCKS _asyncio _bisect _bsddb _datetime _dbm _decimal _distutils_system_mod _elementtree _functools _hashlib "
    "_heapq _json _overlapped _pickle _queue _scproxy _stat _statistics _symtable _tracemalloc _uuid _winapi _winreg _wmi "
    "_xmlplus _xmlrpclib _zoneinfo dbm gdbm java msvcrt nt org sitecustomize usercustomize winreg"
).split()
_ModuleSpec = type(sys.__spec__) if hasattr(sys, "__spec__") else None
get_ident = sys.modules["thread" if codec.PY2 else "_thread"].get_ident


class Importer(object):
    """The first entry of sys.meta_path: the finders and loaders of importlib.abc and importlib.metadata in one. Thread-safe."""

    def __init__(self, link, packages, timeout=60.0, prefer="target"):
        """`packages`: the top-level names that the target has; `timeout`: seconds that the parent may take for an answer.

        `prefer`: "target", "parent", or a list of the packages of which the parent may bring its own copy.
        """
        self._link = link
        self._theirs = packages
        self._parent_first = None if prefer == "parent" else () if prefer == "target" else frozenset(prefer)
        self._timeout = timeout
        self._modules = {}  # full name -> (kind, source, file name)
        self._data = {}  # name of what is no module -> bytes
        self.paths = {}  # file name, or directory of a package -> full name
        self.listings = {}  # for resources
        self.descriptors = {}
        self._eager = []
        self.received = 0  # bundles
        self._process = os.getpid()
        self._ours = set()  # top-level names that the parent provides
        self._absent = set(OPTIONAL)
        self._reasons = {}
        self._complete = {}
        self._lock = threading.Lock()
        self._making = threading.RLock()  # of parts; a thread that waits for the parent does not hold it
        self._waits = {}  # full name -> _Wait
        self._requests = {}  # id -> full name
        self._last_request = 0
        self._coming = set()  # bundles that were announced and have not come
        self._lost = None
        self.extensions = None  # the part that loads extension modules, before any bundle that has one
        self._watched = {}  # name of one of the target's modules -> what to do once it is imported
        if not codec.PY2:
            self.watch("linecache", self._remember_lines)
            self.watch("multiprocessing.spawn", self._serve_children)
            self.watch("subprocess", self._serve_programs)
        if sys.version_info[:2] == (3, 9):
            self.watch("importlib._common", self._serve_files)

    # ---- what the link brings

    def receive(self, body, request=0):
        """Take a bundle in; wake the threads that wait for what it contains. Runs in the thread that reads: imports nothing."""
        modules, absent, reasons, complete = bundle.unpack(body)
        with self._lock:
            self.received += 1
            for sent, kind, source, origin in modules:
                name = native(sent)
                top = name.partition("/")[0].partition(".")[0]
                if kind == bundle.DATA:
                    if name in (bundle.ANNOUNCED, bundle.DONE):
                        (self._coming.add if name == bundle.ANNOUNCED else self._coming.discard)(source)
                    elif name[:1] == "@" or top == "roamlet" or self._takes(top):
                        self._data[name] = source
                    continue
                if top == "roamlet":
                    self._modules[name] = (kind, source, PREFIX + name)  # a part of roamlet.wire
                    if name in EAGER:
                        self._eager.append(name)
                    continue
                if not self._takes(top):
                    continue
                self._ours.add(top)
                self._absent.discard(name)
                filename = PREFIX + (native(origin) or name.replace(".", "/"))
                self._modules[name] = (kind, source, filename)
                self.paths[filename] = name
                if self.is_package(name):
                    self.paths[_directory(kind, filename)] = name
            asked = self._requests.pop(request, None)
            if asked is not None and asked[:1] == "!" and asked[1:] in absent:
                self._modules.pop(asked[1:], None)  # it was there, and is not any more
            self._absent.update(name for name in map(native, absent) if name not in self._modules)
            self._reasons.update(reasons)
            for name, parts in complete.items():
                self._complete[native(name)] = frozenset(parts)
            if asked is not None and asked[:1] != "!" and not self._is_known(asked):
                self._absent.add(asked)
            for name in [name for name in self._waits if name == asked or self._is_known(name)]:
                self._waits.pop(name).set()
            if not self._coming and bundle.ANNOUNCED in self._waits:
                self._waits.pop(bundle.ANNOUNCED).set()

    def _is_known(self, name):
        return name in self._modules or name in self._data or name in self._absent

    def _takes(self, top):
        """Whether the parent may provide this top-level name: always, never, or until it is imported."""
        if top in self._ours:
            return True
        if top in sys.modules:
            return False
        if top in self._theirs and not (self._parent_first is None or top in self._parent_first):
            return False
        self._theirs.discard(top)
        return True

    def lose(self, reason):
        """Fail all waits for modules with `reason`, now and from now on."""
        with self._lock:
            self._lost = reason
            waits = list(self._waits.values())
            self._waits.clear()
        for wait in waits:
            wait.set()

    def watch(self, name, then):
        """Call `then()` once the target's own module `name` has been imported, in the thread that imports it."""
        self._watched[name] = then

    # ---- finding

    def _find(self, name):
        """Return (kind, source, file name) of a module of the parent's, or None when it is for others to find or fail."""
        top, dot, rest = name.partition(".")
        if top == "roamlet":
            if name in PARTS and not self._is_known(name):
                self._pull(name)
            return self._modules.get(name)
        if top in self._theirs:
            return None
        if name not in self._modules and name not in self._absent:
            if dot:
                if top not in self._ours or self._is_known_absent(name):
                    return None
            elif _has_own(name, self):
                self._theirs.add(name)
                return None
            whole = _wanted(name)
            if whole != name and not self._is_known(whole):
                self._pull(whole)  # brings what it lies in
            if not self._is_known(name):
                self._pull(name)
        found = self._modules.get(name)
        if found is None and name in self._reasons and _an_import_asks():
            if not dot and not codec.PY2 and _has_own(name, self):  # by a path that code has added
                return None
            raise _not_found(name, "No module named %s: %s" % (name, self._reasons[name]))
        return found

    def _is_known_absent(self, name):
        """Whether the parent has said enough to know that this submodule is nowhere, or only its package's own doing."""
        package, dot, last = name.rpartition(".")
        while dot:
            if package in self._complete:
                return last not in self._complete[package]
            if package in self._modules and not self.is_package(package):
                return True
            package, dot, last = package.rpartition(".")
        return False

    def _pull(self, name):
        """Ask the parent for one module; one question whatever number of threads want it. Blocks this thread only.

        Returns when the answer is there. Raises ImportError, naming the module, when the link is lost or silent.
        """
        problem = self._ask(name)
        if problem:
            name = name.lstrip("!")
            raise _not_found(name, "No module named %s%s" % (name[:80], problem))

    def here(self, name):
        """Return the data of this name if it is here already, else None."""
        return self._data.get(name)

    def fetch(self, name):
        """Return the data of this name, or None when the parent has none: asked for once, then known.

        Blocks this thread only. Raises IOError when the link is lost or silent.
        """
        if not self._is_known(name):
            problem = self._ask(name)
            if problem:
                raise IOError(5, "%s%s" % (name, problem))
        return self._data.get(name)

    def _ask(self, name):
        """Return when the answer is there: "", or the end of a sentence that says why no answer came."""
        if len(name) > LONGEST_NAME:
            return "...: no module has a name of %d characters" % len(name)
        if os.getpid() != self._process and self._lost is None:
            # The link belongs to the parent process, and whoever held the lock is not here.
            self._lock = threading.Lock()
            self._waits = {}
            self._lost = (
                "this process was forked off the context, and only what had come by then is here: import it before"
            )
        with self._lock:
            coming = self._coming and self._lost is None and name[:1] != "!"
            if coming:
                coming = self._waits.setdefault(bundle.ANNOUNCED, threading.Event())
        if coming:  # the answer would come after that bundle, which may hold it
            if not unlocked(coming.wait, self._timeout):
                self._coming.clear()  # from now on whoever misses something asks
            if "/" not in name and name[:1] != "@" and self._is_known_absent(name):
                return ""
        with self._lock:
            wait = self._waits.get(name)
            first = wait is None and self._lost is None and not self._is_known(name)  # it may have come meanwhile
            if first:
                wait = self._waits[name] = threading.Event()
                self._last_request += 1
                request = self._last_request
                self._requests[request] = name
        if first:
            try:
                self._link.send(protocol.WANT, request, codec.dumps(name))
            except EnvironmentError as error:
                self.lose(str(error))
        if wait is not None and not unlocked(wait.wait, self._timeout):
            with self._lock:
                self._waits.pop(name, None)
            return (
                " came: the parent did not answer within %g seconds; import it in the parent as well, so that it travels ahead "
                "of the call" % self._timeout
            )
        if self._lost is not None and not self._is_known(name):
            return " can come: %s" % self._lost
        return ""

    def part(self, name, *below):
        """Return the module roamlet.wire.`name`, asking the parent for it if need be. Never in the thread that reads.

        Those `below` it, which it imports, come with it.
        """
        full = "roamlet.wire." + name
        if full not in self._modules and full not in sys.modules:
            self._pull(full)
        for one in below:
            self.make(one)
        return self.make(name)

    def make(self, name):
        """Return the module roamlet.wire.`name`, which has come. Waits for no import: for the thread that reads, above all.

        An import may take a lock that others hold while they wait for an answer, which that thread alone can bring them. So
        parts are executed here, by themselves, and what they import at once has been imported when a context says hello.
        Raises ImportError when the part has not come.
        """
        name = "roamlet.wire." + name
        with self._making:
            module = sys.modules.get(name)
            if module is None:
                module = type(sys)(str(name))
                module.__file__ = self.get_filename(name)
                module.__loader__ = self
                module.__package__ = ""  # as for those that came with the start
                code = self.get_code(name)
                sys.modules[name] = module
                try:
                    _execute(code, module.__dict__)
                except BaseException:
                    del sys.modules[name]
                    raise
                above, _, last = name.rpartition(".")
                setattr(sys.modules[above], last, module)
        return module

    def find_spec(self, name, path=None, target=None):
        if name in self._watched:
            return self._watched_spec(name, path)
        if _is_standin(name) and name not in self._modules:
            return _ModuleSpec(name, standin.Loader(), is_package=True)
        if target is not None and self._modules.get(name, (bundle.EXTENSION,))[0] != bundle.EXTENSION:
            self._pull("!" + name)  # importlib.reload
        found = self._find(name)
        if found is None:
            return None
        kind, source, filename = found
        if kind == bundle.EXTENSION:
            return self.extensions.spec(name, source, filename)
        is_namespace = kind == bundle.NAMESPACE
        kind &= 7
        spec = _ModuleSpec(name, self, origin=None if is_namespace else filename, is_package=kind != bundle.MODULE)
        spec.has_location = not is_namespace
        if kind != bundle.MODULE:
            spec.submodule_search_locations = [_directory(kind, filename)]
        if is_namespace:
            spec.submodule_search_locations += _portions(name.rpartition(".")[2], sys.path if path is None else path)
        return spec

    def catch_up(self):
        """Do what waits for modules that were imported before this importer was there."""
        for name in [name for name in self._watched if name in sys.modules]:
            self._watched.pop(name)()

    def _watched_spec(self, name, path):
        then = self._watched.pop(name)
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path)
            if spec is not None:
                spec.loader = _WatchedLoader(spec.loader, then)
                return spec
        return None

    def find_module(self, name, path=None):
        """See PEP 302; for 2.7 only."""
        if name in self._watched:
            return self
        if _is_standin(name) and name not in self._modules:
            return standin.Loader()
        try:
            if name in sys.modules and name in self._modules:
                self._pull("!" + name)  # reload()
            return self if self._find(name) is not None else None
        except ImportError as error:
            return _Refusal(error)

    # ---- loading

    def create_module(self, spec):
        """See importlib.abc.Loader."""

    def exec_module(self, module):
        name = module.__name__
        while self._eager and not name.startswith("roamlet.wire."):
            part = self._eager.pop()
            __import__(part)
            sys.modules[part].install(self)
        code = self.get_code(name)
        if code is not None:
            _remember_lines(self._modules[name][2], module)
            exec(code, module.__dict__)

    def load_module(self, name):
        """See PEP 302; for 2.7 only."""
        if name in self._watched:
            then = self._watched.pop(name)
            __import__(name)
            then()
            return sys.modules[name]
        kind, _, filename = self._modules[name]
        known = name in sys.modules
        module = sys.modules.setdefault(name, type(sys)(name))
        module.__file__ = filename
        module.__loader__ = self
        kind &= 7
        if kind == bundle.MODULE:
            module.__package__ = name.rpartition(".")[0]
        else:
            module.__package__ = name
            module.__path__ = [_directory(kind, filename)]
        try:
            self.exec_module(module)
        except BaseException:
            if not known:
                sys.modules.pop(name, None)
            raise
        return sys.modules[name]

    def _remember_lines(self):
        for name, (_, _, filename) in list(self._modules.items()):
            if name in sys.modules:
                _remember_lines(filename, sys.modules[name])

    def _serve_children(self):
        try:
            __import__("roamlet.wire.modules.children")
        except ImportError:  # the link is lost: what is started now finds its own modules only
            return
        sys.modules["roamlet.wire.modules.children"].install(self)

    def _serve_programs(self):
        """Let a Python that is started here, by subprocess or by its function in C, find the modules too."""
        posix = sys.modules.get("_posixsubprocess")
        if posix is None:  # another system
            return
        posix.fork_exec = fork_exec = self.executing(posix.fork_exec)
        subprocess = sys.modules["subprocess"]
        subprocess._USE_POSIX_SPAWN = False
        if hasattr(subprocess, "_fork_exec"):
            subprocess._fork_exec = fork_exec

    def executing(self, original):
        """Return what stands for `original`, the function of _posixsubprocess, and hands this importer's modules down."""

        def fork_exec(args, executables, *more):
            if self._ours and os.fsdecode(executables[0]) == sys.executable:
                try:
                    __import__("roamlet.wire.modules.children")
                except ImportError:
                    return original(args, executables, *more)
                return sys.modules["roamlet.wire.modules.children"].start(self, original, args, executables, *more)
            return original(args, executables, *more)

        return fork_exec

    def _serve_files(self):
        """Let importlib.resources.files ask for a reader, as it does on every other version: on 3.9 it makes a path."""
        common = sys.modules["importlib._common"]
        before = common.fallback_resources
        common.fallback_resources = lambda spec: (
            self.get_resource_reader(spec.name).files() if spec.loader is self else before(spec)
        )

    # ---- what inspect, linecache, pkgutil and runpy ask

    def _get(self, name):
        found = self._modules.get(name)
        if found is None:
            raise ImportError("the module %s did not come from the parent" % name)
        return found

    def is_package(self, name):
        kind, source, _ = self._get(name)
        return codec.loads(source)[0] if kind == bundle.EXTENSION else kind & 7 != bundle.MODULE

    def is_provided(self, name):
        """Return whether this module came from the parent."""
        return name in self._modules

    def directory(self, name):
        """Return the place of a package, as `__path__` has it."""
        kind, _, filename = self._get(name)
        return _directory(kind & 7, filename)

    def get_filename(self, name):
        return self._get(name)[2]

    def get_code(self, name):
        """Compiles anew each time; None for a namespace package."""
        kind, source, filename = self._get(name)
        if kind == bundle.NAMESPACE:
            return None
        if kind & bundle.CODE:
            # Imported here because sources need neither.
            import _imp
            import marshal

            code = marshal.loads(source)
            _imp._fix_co_filename(code, filename)
            return code
        return compile(source, filename, "exec", 0, 1)

    def source_of(self, name):
        """Return the source as bytes; where bytecode came in its place, the parent is asked for it now."""
        kind = self._get(name)[0]
        if kind == bundle.EXTENSION:
            raise ImportError("%s is an extension module, which has no source" % name)
        if kind & bundle.CODE:
            self._pull("!" + name)
        return self._get(name)[1]

    def get_source(self, name):
        if self._get(name)[0] == bundle.NAMESPACE:
            return None
        source = self.source_of(name)
        if codec.PY2:
            return source
        # Imported here because only tracebacks and inspect ask, and it costs some milliseconds.
        from importlib.util import decode_source

        return decode_source(source)

    def get_data(self, path):
        """See importlib.abc.ResourceLoader: a source, or a file of a package, which the parent is asked for if need be."""
        name = self.paths.get(path)
        if name is not None and self._modules[name][2] == path:
            return self.source_of(name)
        return self._resources().read(self, path)

    def get_resource_reader(self, name):
        package = name if self.is_package(name) else name.rpartition(".")[0]
        return self._resources().Reader(self, package)

    def _resources(self):
        # A part that few contexts need; where the parent foresaw that, it is here already.
        __import__("roamlet.wire.modules.resources")
        return sys.modules["roamlet.wire.modules.resources"]

    def iter_modules(self, prefix=""):
        """For pkgutil: the top-level modules that came."""
        names = [name for name in list(self._modules) if "." not in name]
        return [(prefix + name, self.is_package(name)) for name in sorted(names)]

    def find_distributions(self, context):
        try:
            __import__("roamlet.wire.modules.metadata")
        except ImportError:  # the link is lost
            return iter(())
        # 3.8 takes nothing but an iterator.
        return iter(sys.modules["roamlet.wire.modules.metadata"].find(self, context))

    def path_hook(self, path):
        """See sys.path_hooks: the directory of a package of the parent's, for pkgutil."""
        if not path.startswith(PREFIX):
            raise ImportError("%s is no place of the parent's" % path)
        return _Place(self, path)


class _Place(object):
    """What pkgutil asks for the modules in a package. Finding them is the work of the importer itself.

    But for those that go by another name: a package that code has renamed (setuptools._distutils, which is called distutils then),
    or has put into sys.path (setuptools._vendor).
    """

    def __init__(self, importer, path):
        self._importer = importer
        self._path = path

    def find_spec(self, name, target=None):
        folder, below = os.path.normpath(self._path), []
        while folder and folder not in self._importer.paths:
            folder, _, last = folder.rpartition("/")
            below.insert(0, last)
        package = self._importer.paths.get(folder, "@")
        last = name.rpartition(".")[2]
        real = ".".join([package] + below + [last])
        if package[:1] == "@" or real == name or not self._importer.is_package(package):
            return None
        if below:  # one question for whatever is looked for in it
            resources = self._importer._resources()
            entries = resources.folder_of(self._importer, package, "/".join(below)) or ()
            if not any(entry.rpartition("/")[2].partition(".")[0] == last for entry in entries):
                return None
        spec = self._importer.find_spec(real)
        if spec is None:
            return None
        if spec.loader is self._importer:
            spec.loader = _Renamed(spec.loader, real)
        spec.name = name
        return spec

    def find_module(self, name, path=None):
        return None

    def iter_modules(self, prefix=""):
        modules = self._importer._resources().modules_in(self._importer, self._path)
        return [(prefix + name, is_package) for name, is_package in modules]


class _Renamed(object):
    """Loads a module of the parent's under another name."""

    def __init__(self, importer, real):
        self._importer = importer
        self._real = real

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        code = self._importer.get_code(self._real)
        if code is not None:
            exec(code, module.__dict__)

    def __getattr__(self, name):
        method = getattr(self._importer, name)
        if name in ("is_package", "get_filename", "get_code", "get_source", "get_resource_reader"):
            return lambda fullname=None: method(self._real)
        return method


class _Refusal(object):
    """A loader that raises, for 2.7, which forgets the message of an ImportError raised by a finder."""

    def __init__(self, error):
        self._error = error

    def load_module(self, name):
        raise self._error


class _WatchedLoader(object):
    """Stands for a loader until it has loaded one module."""

    def __init__(self, loader, then):
        self._loader = loader
        self._then = then

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then()


def native(name):
    """Return a name or path as str; on 2.7, which calls bytes so, it may lie outside of ASCII."""
    return name if isinstance(name, str) else name.encode("utf-8")


def _is_standin(name):
    return name == "roamlet" or (name.startswith("roamlet.") and not name.startswith("roamlet.wire."))


def _directory(kind, filename):
    return filename if kind == bundle.NAMESPACE else filename.rpartition("/")[0] or filename


def _portions(name, path):
    """The target's own directories that belong to a namespace package of the parent's (3.x)."""
    places = [os.path.join(entry, name) for entry in path if entry[: len(PREFIX)] != PREFIX]
    return [place for place in places if os.path.isdir(place) and not os.path.exists(place + "/__init__.py")]


def _an_import_asks():
    """Whether an import has called the finder, which is to be told why the module is absent, and not find_spec or its like."""
    frame = sys._getframe(2)
    for _ in range(4):
        if frame is None:
            break
        name = frame.f_code.co_name
        if codec.PY2 and name in ("find_loader", "get_loader"):
            return False
        if name == "_find_and_load_unlocked":
            return True
        frame = frame.f_back
    return codec.PY2


def _wanted(name):
    """Return what the import is after that asks for `name`: "a.b.c" where "a" has to be imported for it; else `name`."""
    frame = None if codec.PY2 else sys._getframe(1)
    for _ in range(100):
        frame = frame and frame.f_back
        if frame is None:
            break
        if frame.f_code.co_name == "_find_and_load_unlocked":
            wanted = frame.f_locals.get("name")
            if not isinstance(wanted, str) or not (wanted + ".").startswith(name + "."):
                break
            name = wanted
        elif "importlib" not in frame.f_code.co_filename and frame.f_globals.get("__name__") != __name__:
            break
    return name


def _remember_lines(filename, module):
    """Let tracebacks and warnings show the lines of a module, if what reads them is here already (3.5+)."""
    linecache = sys.modules.get("linecache")
    if hasattr(linecache, "lazycache"):
        linecache.lazycache(filename, module.__dict__)


def _not_found(name, text):
    error = (ImportError if codec.PY2 else ModuleNotFoundError)(text)  # noqa: F821
    error.name = name
    return error


if codec.PY2:

    def unlocked(wait, *args):
        """Call `wait`. The lock of this version keeps others from seeing a module half made, so that they have to wait as well."""
        return wait(*args)

    def _execute(code, names):
        """Execute a part. The statement `import` would take the import lock, which others hold for as long as an import takes."""
        builtins = sys.modules["__builtin__"]
        original = builtins.__import__
        thread = get_ident()

        def lock_free(name, *args, **kwargs):
            module = sys.modules.get(name) if get_ident() == thread else None
            if module is None or len(args) < 3:
                return original(name, *args, **kwargs)
            return module if args[2] else sys.modules[name.partition(".")[0]]

        builtins.__import__ = lock_free
        try:
            exec(code, names)
        finally:
            if builtins.__import__ is lock_free:
                builtins.__import__ = original

    def _has_own(name, importer):
        # Imported here: 3.12 has no imp.
        import imp

        try:
            found = imp.find_module(name)
        except ImportError:
            return False
        if found[0] is not None:
            found[0].close()
        return True

else:

    def unlocked(wait, *args):
        """Call `wait` without the one lock that all imports share, which the caller of a finder may hold: others import meanwhile.

        What is half made stays hidden, because each module has a lock of its own.
        """
        imp = sys.modules["_imp"]
        held = 0
        try:
            while True:
                imp.release_lock()
                held += 1
        except RuntimeError:  # this thread does not hold it any more
            pass
        try:
            return wait(*args)
        finally:
            for _ in range(held):
                imp.acquire_lock()

    def _execute(code, names):
        exec(code, names)

    def _has_own(name, importer):
        """Whether the target has a top-level module that its directories did not show: sys.path has grown, say.

        Directories without an __init__ do not count: the parent's package wins over them.
        """
        for finder in sys.meta_path:
            if finder is not importer and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, None)
                if spec is not None and spec.loader is not None:
                    return True
        return False
