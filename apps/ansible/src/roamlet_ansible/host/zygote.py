"""The zygote: one single-threaded interpreter of one account, which forks a child for each module. Not the runner.

One file of more than 800 lines, because it travels as it is. It is no module: the source is read from standard input by
`bootstrap()` of this package and executed in a dict of its own, which has NONCE. Python 2.7 and 3.6+, the standard
library only. No name of it is visible to modules, except by a walk over frames or the collector's objects.

Frames in both directions are two lengths (`>II`), a header in JSON and a body; `Zygote.request` has the requests. One
process reads, forks and answers in one thread, so a child has no locks held by others and needs no list of things to
reset. What a child writes goes through pipes that are read while it runs. Its answer is given when it has ended, even if
a process that it left behind holds the pipes; that one gets SIGPIPE when it writes later, as after the end of a session.
"""

import gc
import os
import sys

gc_was_on = gc.isenabled()  # in a child it is again
gc.disable()  # while core's files are imported it would look through all of them ten times

REGISTER = getattr(os, "register_at_fork", None)
UNNEEDED = []  # calls of os.register_at_fork() that were not made
HOOKED = []  # what others may see of a fork, or who says that there is something to be seen
LOCKS = ("threading", "logging", "random")  # modules whose functions replace locks, and seed
LEAVES_OUT = sys.version_info < (3, 13)  # since then threads have handles, which this file does not know


def register_at_fork(**hooks):
    """os.register_at_fork() while the zygote imports: without the hooks that cost each child 200 pages for nothing.

    Those of threading and logging replace locks that another thread may have held, and there was none; what random does is
    done by forget_caches(). A child registers them for its own forks. All other hooks are registered.
    """
    if LEAVES_OUT and all(getattr(hook, "__module__", None) in LOCKS for hook in hooks.values()):
        UNNEEDED.append(hooks)
        return
    REGISTER(**hooks)
    name = sys._getframe(1).f_globals.get("__name__")
    if name not in LOCKS + ("concurrent.futures.thread",):
        HOOKED.append(name)


if REGISTER is not None:
    os.register_at_fork = register_at_fork

import base64
import errno
import json
import marshal
import random
import runpy
import select
import shutil
import signal
import struct
import tempfile
import time
import zlib

from roamlet_ansible.host.accounts import Watched, account_files  # the text of that file, where this one runs

PY3 = sys.version_info[0] >= 3
FILE = "<roamlet zygote>"
CHUNK = 1 << 16
FIRST = 1 << 12  # bytes that are read at first: Python takes memory for all that might come
SETTLED = 1 << 20  # no pipe holds more for an account that is not root
MOST_SOURCES = 48 << 20  # bytes of sources; a zygote that has more forgets those that the current payload does not need
MOST_PAYLOADS = 256
SETTLES = 2  # requests that have changed nothing before the next one is expected to change nothing

if PY3:
    import importlib.machinery
    import importlib.util
    from importlib._bootstrap import _call_with_frames_removed  # noqa: F401 - used by a loader's text

    text_type = str
    # The place of bytecode, which a module can see, where nothing but its name says it.
    CACHE_TAG = None if sys.flags.optimize or getattr(sys, "pycache_prefix", None) else sys.implementation.cache_tag
else:
    import imp

    text_type = type(b"".decode())


def native(text):
    """`text` as this Python's str."""
    if PY3 or not isinstance(text, text_type):
        return text
    return text.encode("utf-8")


# --- Modules from memory ---------------------------------------------------------------------------------------------


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


# --- Freshness -------------------------------------------------------------------------------------------------------

OF_PYTHON = """/etc/ld.so.cache /etc/os-release /usr/lib/os-release /etc/ssl/openssl.cnf /usr/lib/ssl/openssl.cnf
/etc/pki/tls/openssl.cnf /usr/lib/locale/locale-archive /usr/lib/locale""".split()


def python_files():
    paths = list(OF_PYTHON)
    try:
        paths.extend(os.path.join(paths[-1], name) for name in sorted(os.listdir(paths[-1]))[:64])
    except OSError:
        pass  # another C library
    folders = [path for path in sys.path if path]
    site = sys.modules.get("site")
    if getattr(site, "ENABLE_USER_SITE", None):
        folders.append(site.getusersitepackages())
    for folder in folders:
        if folder in paths:
            continue
        paths.append(folder)
        try:
            paths.extend(os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".pth"))
        except OSError:
            continue
    binary = sys.executable
    if binary:
        paths.append(binary)
        above = os.path.dirname(os.path.dirname(binary))
        paths.append(os.path.join(above, "pyvenv.cfg"))
    return paths


# --- What modules start -----------------------------------------------------------------------------------------------

# What core's run_command() has done in each process that it starts, in its versions. Without a umask it is nothing.
PREPARATIONS = """
import os, signal, sys  # compilers call functions of modules in a way of their own

def of_2_19(umask):
    def preexec():
        if umask:
            os.umask(umask)
    return preexec

def of_2_16(self, umask):
    def preexec():
        self._restore_signal_handlers()
        if umask:
            os.umask(umask)
    return preexec

def restoring(self):
    if PY2 and sys.platform != 'win32':
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
"""
# In a dict of its own, as a module can reach it. `raise` adds no line to the traceback, which is that of stock.
START_PROCESS = """
def fork_exec(*args):
    try:
        return original(*shortened(args))
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
"""
FUNCTION = type(native)


def text_of(code):
    """What a function does, as far as its variables do not tell."""
    takes = code.co_argcount, getattr(code, "co_kwonlyargcount", 0), code.co_flags & 0x3FF  # not what futures set
    return code.co_code, code.co_consts, code.co_names, code.co_freevars, takes


class Nothing(object):
    """Knows the functions that do nothing in a process which is being started: proven by their code, not by a name."""

    def __init__(self):
        made = {}
        exec(compile(PREPARATIONS, FILE, "exec", 0, True), made)
        self.newer = text_of(made["of_2_19"](None).__code__)
        self.older = text_of(made["of_2_16"](None, None).__code__)
        self.restoring = text_of(made["restoring"].__code__)

    def is_done_by(self, function):
        if type(function) is not FUNCTION:
            return False
        text = text_of(function.__code__)
        if text not in (self.newer, self.older):
            return False
        try:
            values = [cell.cell_contents for cell in function.__closure__]  # of the variables `self` and `umask`
        except ValueError:  # one that was not set: stock says so
            return False
        return values[-1] is None and (text == self.newer or self.restores_nothing(values[0]))

    def restores_nothing(self, owner):
        kind = type(owner)
        method = getattr(kind, "_restore_signal_handlers", None)
        if type(method) is not FUNCTION or kind.__getattribute__ is not object.__getattribute__:
            return False
        if "_restore_signal_handlers" in getattr(owner, "__dict__", ()):
            return False
        return text_of(method.__code__) == self.restoring and method.__globals__.get("PY2") is False


def shorten_starts():
    """Have processes started by vfork() where stock's Python forks for a function that does nothing.

    A fork copies the page tables, and afterwards each page that the module uses. Python calls vfork() where nothing is to
    be done in between.
    """
    import subprocess  # loaded by what core's own files import
    import threading  # by that

    at_once = hasattr(subprocess, "_fork_exec")
    place, name = (subprocess, "_fork_exec") if at_once else (subprocess._posixsubprocess, "fork_exec")
    nothing = Nothing()

    def alone():
        # A module may have put another one in its place.
        return len(getattr(sys.modules.get("threading", threading), "_active", ())) == 1

    def shortened(args):
        for index in (len(args) - 1, len(args) - 2):
            if nothing.is_done_by(args[index]) and not HOOKED and alone():
                return args[:index] + (None,) + args[index + 1 :]
        return args

    scope = {"original": getattr(place, name), "shortened": shortened, "__name__": subprocess.__name__}
    exec(compile(START_PROCESS, FILE, "exec", 0, True), scope)
    setattr(place, name, scope["fork_exec"])


# --- What runs in a child --------------------------------------------------------------------------------------------

# How stock ends a module that returns: the wrapper's text of 2.16 to 2.18; from 2.19 on core's own loader says it.
UNENDED = '{"msg": "New-style module did not handle its own exit", "failed": true}'

# The end of the wrapper, in frames that a traceback of stock's has too.
WRAPPER = """
def _ansiballz_main():
    def invoke_module():
%s
    invoke_module()
_ansiballz_main()
"""
PLAINLY = """
        from ansible.module_utils import basic
        basic._ANSIBLE_ARGS = params
        names = dict(_module_fqn=fqn, _modlib_path=root)
        runpy.run_module(mod_name=fqn, init_globals=names, run_name="__main__", alter_sys=True)
        print(unended)
        sys.exit(1)
"""
BY_LOADER = """
        from ansible.module_utils._internal._ansiballz import _loader
        _loader.run_module(json_params=params, profile=profile, module_fqn=fqn, modlib_path=root, extensions={})
"""
SHAPES = dict(
    (shape, compile(WRAPPER % body, "<stdin>", "exec", 0, True))
    for shape, body in (("2.16", PLAINLY), ("2.19", BY_LOADER))
)


def limit_files(soft):
    import resource  # only where the user has set a limit

    current, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, soft) if hard != resource.RLIM_INFINITY else soft
    if wanted != current:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except ValueError:
            return


def working_folder():
    """As the wrapper does where the working directory cannot be read."""
    try:
        os.getcwd()
    except OSError:
        try:
            os.chdir(os.path.expanduser("~"))
        except OSError:
            os.chdir("/")


def forget_caches():
    """What standard modules have stored of a state that may have changed since."""
    tempfile.tempdir = None
    platform = sys.modules.get("platform")
    if platform is not None:
        if hasattr(platform, "_uname_cache"):
            platform._uname_cache = None
        if isinstance(getattr(platform, "_platform_cache", None), dict):
            platform._platform_cache.clear()
        if hasattr(platform, "_os_release_cache"):
            platform._os_release_cache = None
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        linecache.clearcache()
    # Python 3.7 seeds it again in every fork, by a hook.
    if REGISTER is None:
        random.seed()
    elif UNNEEDED:
        super(random.Random, random._inst).seed()


def settle_threads():
    """What Python does after a fork where threads may have been, if it was not left out, and what it forgets to do."""
    threading = sys.modules.get("threading")
    if UNNEEDED and threading is not None and len(threading._active) != 1:  # a module that was loaded has started one
        for hooks in UNNEEDED:
            if "after_in_child" in hooks:
                hooks["after_in_child"]()
    if REGISTER is not None:
        os.register_at_fork = REGISTER
        for hooks in UNNEEDED:
            REGISTER(**hooks)
    main = getattr(threading, "_main_thread", None)
    if hasattr(main, "_native_id"):
        main._native_id = os.getpid()


def temporary_folder():
    tempfile.tempdir = None
    try:
        return os.path.realpath(tempfile.gettempdir())
    except (IOError, OSError):
        return "/tmp"  # none can be written: only a respawn needs one, and says so
    finally:
        tempfile.tempdir = None


def empty_main():
    """Leave in `__main__` what the wrapper has there when it starts the module."""
    main = sys.modules["__main__"].__dict__
    main.clear()
    main.update(
        __name__="__main__",
        __doc__=None,
        __package__=None,
        __builtins__=sys.modules["builtins" if PY3 else "__builtin__"],
        __file__="<stdin>",
        _ANSIBALLZ_WRAPPER=True,
    )


KEPT = []  # modules that were taken away: Python 2 would clear the globals of functions that others may refer to


def choose(zygote, payload, archive, root):
    """Leave of the modules that were loaded before the fork those that this payload has."""
    archive.root = root
    KEPT.append((archive.files, archive.folders))  # to free them would copy the pages of all that they have
    drop, conflict = zygote.plan_for(payload)
    if conflict:
        drop = [name for name in list(sys.modules) if name.partition(".")[0] in ("ansible", "ansible_collections")]
    for name in drop:
        module = sys.modules.pop(name, None)
        KEPT.append(module)
        above, _, leaf = name.rpartition(".")
        above = sys.modules.get(above)
        # Python 2 has None for names that it has looked for in a package in vain.
        if module is not None and above is not None and above.__dict__.get(leaf) is module:
            delattr(above, leaf)
    archive.show(payload)
    if conflict:
        archive.loaded.clear()
        PRELOADED.clear()
        return


def run_module(request, archive):
    """Run the module as stock's wrapper of that shape does. Returns its exit code."""
    scope = {
        "__name__": "__main__",
        "runpy": runpy,
        "sys": sys,
        "unended": UNENDED,
        "fqn": native(request["fqn"]),
        "params": request["params"],
        "profile": request.get("profile"),
        "root": archive.root,
    }
    try:
        try:
            exec(SHAPES[request["shape"]], scope)
        finally:
            archive.remove()  # before the end is reported, as stock's does
    except SystemExit as end:
        status = status_of(end)
        wait_for_threads()  # while what was raised still refers to the module, whose names Python 2 would clear
    except BaseException as error:
        status = show(error)
        wait_for_threads()
    else:
        status = 0
        wait_for_threads()
    sys.last_type = sys.last_value = sys.last_traceback = None
    return status


def wait_for_threads():
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()
        except BaseException:
            sys.excepthook(*sys.exc_info())


def status_of(end):
    """The exit status that Python gives a process which ends by this SystemExit."""
    code = end.code
    if code is None:
        return 0
    if isinstance(code, int) or (not PY3 and isinstance(code, long)):  # noqa: F821 - Python 2
        return int(code) & 255
    try:
        sys.stderr.write("%s\n" % (code,))
    except Exception:
        return 1
    return 1


def show(error):
    """Print the traceback without the zygote's frames, as an interpreter does. Returns the exit status."""
    kind, value, trace = sys.exc_info()
    while trace is not None and trace.tb_frame.f_code.co_filename == FILE:
        trace = trace.tb_next
    if hasattr(value, "with_traceback"):
        value = value.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = kind, value, trace
    try:
        sys.excepthook(kind, value, trace)
    except SystemExit as end:
        return status_of(end)
    except BaseException:
        sys.__excepthook__(kind, value, trace)
    if isinstance(error, KeyboardInterrupt) and sys.version_info >= (3, 8):
        return -signal.SIGINT
    return 1


def finish(status, archive):
    """What an interpreter does at its end, as far as others can see it. Returns the exit status."""
    atexit = sys.modules.get("atexit")
    if atexit is not None:
        try:
            atexit._run_exitfuncs()
        except SystemExit as end:
            if not PY3:
                status = status_of(end)
        except BaseException:
            if not PY3:  # Python 3 has said it
                kind, value, trace = sys.exc_info()
                sys.stderr.write("Error in sys.exitfunc:\n")
                sys.excepthook(kind, value, trace.tb_next)
                sys.exc_clear()
    if not flushed():
        status = 120 if PY3 else status
    # Objects whose end writes or removes something: open files, temporary folders. Modules die with their dicts.
    sys.modules.pop("__main__", None)
    for name in list(archive.loaded):
        if name not in PRELOADED:
            sys.modules.pop(name, None)
    # Only what is younger than the zygote. The oldest generation is empty as long as no other one has been looked through.
    gc.collect() if gc.get_count()[2] or sys.version_info >= (3, 14) else gc.collect(1)
    flushed()
    return status


def flushed():
    fine = True
    for stream in (sys.stdout, sys.stderr):
        if stream is None or getattr(stream, "closed", False):
            continue
        try:
            stream.flush()
        except Exception as error:
            fine = False
            if PY3 and stream is sys.stdout:
                try:
                    sys.stderr.write("Exception ignored in: %r\n%s: %s\n" % (stream, type(error).__name__, error))
                except Exception:
                    return False
    return fine


PRELOADED = set()


def fresh_streams():
    """Standard streams for pipes, where the zygote's own were opened on a terminal."""
    if PY3:
        import io  # loaded anyway

        def stream(number, mode, model):
            return io.TextIOWrapper(
                io.open(number, mode, closefd=False), model.encoding, model.errors, newline="\n" if number else None,
                line_buffering=number == 2,
            )  # fmt: skip

        sys.stdin = sys.__stdin__ = stream(0, "rb", sys.__stdin__)
        sys.stdout = sys.__stdout__ = stream(1, "wb", sys.__stdout__)
        sys.stderr = sys.__stderr__ = stream(2, "wb", sys.__stderr__)
    else:
        sys.stdin = sys.__stdin__ = os.fdopen(0, "r")
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w")
        sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 0)


def leave_zygote(zygote, out, err, kept=()):
    """The first steps of a forked process, which are the same for all modules. Of its other descriptors `kept` become 3 and 4."""
    settle_threads()
    os.setsid()
    signal.set_wakeup_fd(-1)
    set_handler(signal.SIGCHLD, DEFAULT_ACTION)
    reading, writing = os.pipe()
    os.close(writing)  # standard input is a pipe at its end, as stock's is after the script
    os.dup2(reading, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    highest = max(reading, writing, zygote.highest)
    if kept:
        os.dup2(kept[0], 3)  # what is there now is the zygote's
        os.dup2(kept[1], 4)
    os.closerange(3 + len(kept), highest + 1)
    os.umask(zygote.umask)
    if zygote.terminal:
        fresh_streams()


def child(zygote, request, payload, root):
    """The forked process after leave_zygote(), to its exit status."""
    if zygote.cwd is not None:
        os.chdir(zygote.cwd)
    environment = request.get("environment")
    if environment:
        for name, value in environment.items():
            os.environ[native(name)] = native(value)
        if "TZ" in environment:
            time.tzset()
    working_folder()
    if request.get("rlimit_nofile"):
        limit_files(request["rlimit_nofile"])
    forget_caches()
    archive = zygote.archive
    if environment and "TMPDIR" in environment:
        root = os.path.join(temporary_folder(), root[len(zygote.base) :])
    if request.get("hooks"):
        HOOKED.append(request["fqn"])
    archive.date_time = tuple(request.get("date_time") or archive.date_time)[:6]
    choose(zygote, payload, archive, root)
    excluded = ("", ".", os.getcwd())
    sys.path[:] = [root] + [path for path in zygote.path if path not in excluded]
    sys.argv[:] = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[1:] = []
    if gc_was_on:
        gc.enable()
    status = run_module(request, archive)
    if not PY3:
        sys.exc_clear()
    return finish(status, archive)


try:
    # Without the enumerations that are made of what it returns.
    from _signal import SIG_DFL as DEFAULT_ACTION
    from _signal import signal as set_handler
except ImportError:
    DEFAULT_ACTION, set_handler = signal.SIG_DFL, signal.signal


def spare(zygote, out, err, link, back):
    """A process that was forked before there is a request for it, which comes by the pipe `link`. Its exit status.

    It gives the request back, by a byte in the pipe `back`, if that needs more than is here or if something has changed.
    """
    leave_zygote(zygote, out, err, (link, back))
    sizes = exactly(3, 8)
    if len(sizes) < 8:
        return 0  # it was not needed, or the zygote has gone
    sizes = struct.unpack(">II", sizes)
    text, params = [exactly(3, size) for size in sizes]
    if (len(text), len(params)) != sizes:
        return 0
    try:
        request = zygote.plain(text, len(params))
    except Exception:
        request = None  # the zygote says what is wrong with it
    if request is None:
        os.write(4, b"z")
        return 0
    os.close(3)
    os.close(4)
    request["params"] = params
    return child(zygote, request, zygote.payloads[native(request["payload"])], zygote.place(request["name"]))


def exactly(descriptor, size):
    """So many bytes, or less at the end."""
    data = b""
    while len(data) < size:
        piece = os.read(descriptor, size - len(data))
        if not piece:
            break
        data += piece
    return data


# --- The zygote ------------------------------------------------------------------------------------------------------


class Spare(object):
    """A process that waits for a request: it has what the zygote had at that time, and is of no use after a change."""

    def __init__(self, pid, link, back, out, err):
        self.pid = pid
        self.link = link
        self.back = back
        self.out = out
        self.err = err


class Run(object):
    """A child that has not been answered for."""

    def __init__(self, number, pid, text, body, back):
        self.number = number
        self.pid = pid
        self.text = text  # the request, which may be given back
        self.body = body
        self.back = back  # a descriptor, or None
        self.pipes = {}  # descriptor -> list of what was read
        self.out = []
        self.err = []
        self.letters = ""
        self.cancelled = False


class Zygote(object):
    def __init__(self):
        self.umask = os.umask(0o22)
        os.umask(self.umask)
        self.terminal = os.isatty(0) or os.isatty(1)
        self.path = list(sys.path)
        self.home = os.path.expanduser("~")
        self.account = Watched(account_files(self.home))
        self.python = Watched(python_files())
        magic = importlib.util.MAGIC_NUMBER if PY3 else imp.get_magic()
        self.magic = base64.b16encode(magic).decode("ascii").lower()
        self.blobs = {}
        self.stored = 0  # bytes of their sources, as they came
        self.payloads = {}
        self.turn = 0
        self.letters = ""  # of the place of the next child's payload
        self.outdated = None
        self.shortened = False  # whether the start of processes is
        self.asked = set()  # names that were to be imported before the fork
        self.runs = {}  # pid -> Run
        self.pipes = {}  # descriptor -> Run
        self.spare = None
        self.ended_spares = 0  # that were told to end, and have not been waited for
        self.settled = 0  # requests in a row that have changed nothing here
        self._own_descriptors()
        self._leave_folder()
        self.base = os.path.join(temporary_folder(), "")
        self.archive = Archive(self.base + "ansible_roamlet_payload/ansible_roamlet_payload.zip", self.blobs)
        sys.path_hooks.insert(0, self.archive)
        empty_main()
        sys.path[:] = [self.archive.root] + [path for path in sys.path if path not in ("", ".")]

    def _own_descriptors(self):
        """Move the link to descriptors that no child gets, and keep what imports print away from it."""
        os.closerange(3, 256)
        null = os.open(os.devnull, os.O_RDWR)
        self.input = os.dup(0)
        self.output = os.dup(1)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        self.woken, waking = os.pipe()
        import fcntl  # for Python 2, which has no os.set_blocking

        for descriptor in (self.woken, waking):
            unblock(fcntl, descriptor)
        self.unblock = lambda descriptor: unblock(fcntl, descriptor)
        self.highest = waking + 1
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.poll = select.poll()
        self.poll.register(self.input, select.POLLIN)
        self.poll.register(self.woken, select.POLLIN)

    def _leave_folder(self):
        """Do not keep the working directory busy between runs, where it can be entered again."""
        self.cwd = self.cwd_id = None
        try:
            cwd = os.getcwd()
            here = os.stat(".")[1:3]
            os.chdir(
                cwd
            )  # refused where an account may not enter the folder of the one that started it: it stays there
            if os.stat(".")[1:3] != here:
                return
            os.chdir("/")
        except OSError:
            return
        self.cwd, self.cwd_id = cwd, here

    def facts(self):
        return {
            "pid": os.getpid(),
            "uid": os.getuid(),
            "gid": os.getgid(),
            "home": self.home,
            "cwd": self.cwd,  # None: one that the account cannot enter again
            "umask": self.umask,
            "version": list(sys.version_info[:3]),
            "magic": self.magic,
            "executable": sys.executable,
        }

    # -- the link

    def send(self, header, *pieces):
        self.send_text(json.dumps(header), *pieces)

    def send_text(self, text, *pieces):
        text = text.encode("ascii")
        body = b"".join(pieces)
        head = struct.pack(">II", len(text), len(body)) + text
        for data in (head + body,) if len(body) < CHUNK else (head, body):  # the reader wakes up once for a short one
            self.write(data)

    def write(self, data):
        data = memoryview(data)
        while data:
            try:
                data = data[os.write(self.output, data[:CHUNK]) :]
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                if error.errno != errno.EAGAIN:
                    self.end()
                waiting = select.poll()
                waiting.register(self.output, select.POLLOUT)
                waiting.poll()

    def end(self):
        """The link is closed: no answer can be given, so nothing runs on."""
        for run in self.runs.values():
            kill(run.pid)
        if self.spare is not None:
            kill(self.spare.pid)
            try:
                os.waitpid(self.spare.pid, 0)  # an account that has a process cannot be removed
            except OSError:
                pass  # it had ended
        os._exit(0)

    def serve(self):
        buffered = bytearray()
        while True:
            try:
                ready = self.poll.poll()
            except (select.error, OSError) as error:
                if error.args[0] == errno.EINTR:
                    continue
                raise
            asked = False
            for descriptor, _event in ready:
                if descriptor == self.input:
                    asked = True
                elif descriptor == self.woken:
                    drain(self.woken)
                elif descriptor in self.pipes:
                    self.read_pipe(descriptor)
            self.reap()
            if asked:
                try:
                    data = os.read(self.input, CHUNK if buffered else FIRST)
                except OSError as error:
                    if error.errno in (errno.EINTR, errno.EAGAIN):
                        continue
                    data = b""
                if not data:
                    self.end()
                buffered += data
                while len(buffered) >= 8:
                    first, second = struct.unpack(">II", bytes(buffered[:8]))
                    if len(buffered) < 8 + first + second:
                        break
                    body = bytes(buffered[8 + first : 8 + first + second])
                    text = bytes(buffered[8 : 8 + first])
                    del buffered[: 8 + first + second]
                    if not self.hand_over(text, body):
                        self.request(json.loads(text.decode("utf-8")), body)
            if self.settled >= SETTLES and self.spare is None and not self.runs and not buffered:
                self.fork_spare()

    # -- children

    def read_pipe(self, descriptor):
        """One piece of what a child has written. Its size: 0 at the end, and when the pipe is empty."""
        run = self.pipes[descriptor]
        try:
            data = os.read(descriptor, CHUNK if run.pipes[descriptor] else FIRST)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return 0
            data = b""
        if data:
            run.pipes[descriptor].append(data)
        else:
            self.close_pipe(descriptor)
        return len(data)

    def close_pipe(self, descriptor):
        run = self.pipes.pop(descriptor)
        del run.pipes[descriptor]
        self.poll.unregister(descriptor)
        os.close(descriptor)

    def reap(self):
        while self.runs or self.spare is not None or self.ended_spares:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                return
            if not pid:
                return
            run = self.runs.pop(pid, None)
            if run is None:
                if self.spare is not None and pid == self.spare.pid:
                    self.drop_spare()  # somebody has ended it
                self.ended_spares -= 1
                continue
            back = self.gave_back(run)
            if back and not run.cancelled:
                for descriptor in list(run.pipes):
                    self.close_pipe(descriptor)
                self.request(json.loads(run.text.decode("utf-8")), run.body)
                continue
            for descriptor in list(run.pipes):
                left = SETTLED  # a process that was left behind may write for ever
                while left > 0 and descriptor in run.pipes:
                    count = self.read_pipe(descriptor)
                    if not count:
                        break
                    left -= count
                if descriptor in run.pipes:
                    self.close_pipe(descriptor)
            if os.WIFSIGNALED(status):
                code = 128 + os.WTERMSIG(status)  # as the shell says it that runs stock's interpreter
                name = json.loads(run.text.decode("utf-8"))["name"]
                shutil.rmtree(os.path.dirname(self.place(name, run.letters)), ignore_errors=True)
            else:
                code = 128 + signal.SIGKILL if back else os.WEXITSTATUS(status)
            out, err = b"".join(run.out), b"".join(run.err)
            text = '{"n": %d, "rc": %d, "out": %d, "err": %d}' % (run.number, code, len(out), len(err))
            self.send_text(text, out, err)

    # -- requests

    def request(self, header, body):
        kind = header.get("do")
        number = header.get("n")
        if kind == "run":
            try:
                answer = self.run(number, header, body)
            except Exception as error:
                answer = {"n": number, "refused": "%s: %s" % (type(error).__name__, error)}
            if answer is not None:
                self.send(answer)
        elif kind == "cancel":
            for run in self.runs.values():
                if run.number == number:
                    run.cancelled = True
                    kill(run.pid)
        elif kind == "end":
            self.end()
        elif kind == "ping":
            self.send({"n": number, "pong": 1})
        else:
            self.send({"n": number, "refused": "there is no request %r" % (kind,)})

    def stale(self):
        """Why a fresh process would be another one than a fork of this: "account", "python" or None. Once and for all."""
        if self.outdated is None:
            if self.account.changed() or self.folder_changed():
                self.outdated = "account"
            elif self.python.changed():
                self.outdated = "python"
        return self.outdated

    def folder_changed(self):
        if self.cwd_id is None:
            return False
        try:
            # A new process would have been started in it all the same, and finds that it may not enter it again.
            return os.stat(self.cwd)[1:3] != self.cwd_id or not os.access(self.cwd, os.X_OK)
        except OSError:
            return True

    def run(self, number, header, body):
        """Fork a child for the request; an answer if nothing was started."""
        why = self.stale()
        if why:
            return {"n": number, "stale": why}
        size = header["params"]
        params = body[:size]
        same = fix_filename is not None and header.get("magic") == self.magic and not sys.flags.optimize
        for sha, length, kind in header.get("files") or ():
            if same or not kind.startswith("code"):
                self.add(native(sha), body[size : size + length], kind)
            size += length
        name = native(header["payload"])
        self.settled += 1
        if header.get("files") or header.get("definition") is not None:
            self.settled = 0
        if header.get("definition") is not None:
            self.payloads[name] = Payload(header["definition"])
        payload = self.payloads.get(name)
        if payload is None:
            return {"n": number, "missing": ["definition"]}
        if not payload.complete:
            missing = self.missing(payload)
            if missing:
                return {"n": number, "missing": missing}
            payload.complete = True
        late = too_late(header.get("environment") or {})
        if late:
            return {"n": number, "refused": "environment: " + " ".join(sorted(late))}
        self.turn += 1
        payload.used = self.turn
        self.forget()
        if payload.plan is None:
            self.settled = 0
        self.prepare(payload, header.get("preload") or ())
        header["params"] = params
        self.drop_spare()
        self.fork(number, header, payload)
        return None

    def plain(self, text, size):
        """The request whose header this is, if all that it needs is here and nothing has changed: for a spare. Else None."""
        request = json.loads(text.decode("utf-8"))
        if request.get("do") != "run" or request.get("files") or request.get("definition") is not None:
            return None
        if request["params"] != size:
            return None
        payload = self.payloads.get(native(request["payload"]))
        if (
            payload is None
            or not payload.complete
            or payload.plan is None
            or too_late(request.get("environment") or {})
        ):
            return None
        return request if self.account.same() and self.python.same() and not self.folder_changed() else None

    def missing(self, payload):
        blobs = self.blobs
        return sorted(sha for sha in set(payload.files.values()) if sha not in blobs or blobs[sha].packed is None)

    def add(self, sha, data, kind):
        blob = self.blobs.get(sha)
        if blob is None:
            blob = self.blobs[sha] = Blob()
        kind, _, packed = kind.partition("/")
        if kind == "code":
            if blob.code is None:
                blob.marshalled = data
        elif blob.packed is None:
            blob.packed = data, {"": 0, "deflate": -15, "zlib": 15}[packed]
            self.stored += len(data)

    def forget(self):
        """Bound what is stored: the payloads that were used least recently go, and the files of none."""
        if len(self.payloads) > MOST_PAYLOADS:
            for name, _ in sorted(self.payloads.items(), key=lambda item: item[1].used)[: MOST_PAYLOADS // 2]:
                del self.payloads[name]
        elif self.stored > MOST_SOURCES:  # counted as they come: a look at each would copy the pages that it is on
            for name, payload in list(self.payloads.items()):
                if payload.used != self.turn:
                    del self.payloads[name]
        else:
            return
        self.settled = 0
        used = set(self.archive.files.values())
        for payload in self.payloads.values():
            used.update(payload.files.values())
        for sha in list(self.blobs):
            if sha not in used:
                self.stored -= len((self.blobs.pop(sha).packed or (b"",))[0])

    def prepare(self, payload, names):
        """Import what may be imported before the fork, and compile the rest once."""
        archive = self.archive
        wanted = [native(name) for name in names if native(name) not in self.asked]
        if wanted:
            self.asked.update(wanted)
            # What is loaded stays what it is: a payload with another file of that name has children that load their own.
            files = dict(payload.files)
            files.update((path, archive.files[path]) for path in archive.loaded.values())
            merged = Payload(files.items())
            archive.show(merged)
            for name in wanted:
                self.preload(name)
            archive.files = dict((path, files[path]) for path in archive.loaded.values())
            PRELOADED.update(archive.loaded)
            for other in self.payloads.values():
                other.plan = None
        if payload.plan is None:
            known = set(archive.files.values())
            for path, sha in payload.files.items():
                if sha in known:
                    continue
                try:
                    self.blobs[sha].code_for(path, archive.root)
                except (SyntaxError, ValueError, TypeError):
                    continue  # the child that imports it says so
            self.plan_for(payload)
            if wanted:
                warm_up()
                if PY3 and not self.shortened and "subprocess" in sys.modules:
                    self.shortened = True
                    shorten_starts()
            if sys.version_info >= (3, 11):
                sys._clear_type_cache()  # of attributes: each that a child looks up writes on the name that it replaces
            if hasattr(gc, "freeze"):
                gc.freeze()  # garbage too: to look for it takes longer than it is worth
            elif wanted:
                gc.collect()

    def preload(self, name):
        """Import `name`; what fails here fails again in the child, where it is seen.

        What core's own files do when they are imported was looked at for 2.16 and 2.21. Their results must be those that
        an import after the fork gives: distro takes UNIXCONFDIR and UNIXUSRLIBDIR from the environment (refused in
        requests) and looks for os-release (watched); facts.system.service_mgr calls platform.system(), which stores
        the host's name (forgotten in children); compat.selinux opens libselinux (ld.so.cache is watched), basic, urls
        and common.yaml import systemd, cryptography, yaml (the folders of sys.path are watched); respawn makes a path
        of its place (moved when the zip is written). common._collections_compat, from 2.20 on, warns when it is imported,
        and the module's result has to show that: an import that leaves such words is taken back here.
        """
        streams = sys.stdout, sys.stderr
        earlier = set(sys.modules)
        fine = False
        with open(os.devnull, "w") as nowhere:
            sys.stdout = sys.stderr = nowhere
            try:
                __import__(name)
                fine = True
            except (Exception, SystemExit):
                fine = False
            finally:
                sys.stdout, sys.stderr = streams
        if not PY3:
            sys.exc_clear()
        if warned() or not fine:
            for added in set(sys.modules) - earlier:
                if added.partition(".")[0] in ("ansible", "ansible_collections"):
                    module = sys.modules.pop(added)
                    self.archive.loaded.pop(added, None)
                    above, _, leaf = added.rpartition(".")
                    above = sys.modules.get(above)
                    if above is not None and module is not None and above.__dict__.get(leaf) is module:
                        delattr(above, leaf)

    def plan_for(self, payload):
        """(modules that this payload does not have, whether it has another file of a loaded name)."""
        if payload.plan is None:
            drop, conflict = [], False
            for name, path in self.archive.loaded.items():
                sha = payload.files.get(path)
                if sha is None:
                    drop.append(name)
                elif sha != self.archive.files.get(path):
                    conflict = True
            # The deepest first, so that each is still reachable from its package when it is taken off.
            payload.plan = sorted(drop, key=lambda name: -name.count(".")), conflict
        return payload.plan

    def fork(self, number, request, payload):
        self.choose_letters()

        def work(out, err):
            leave_zygote(self, out, err)
            return child(self, request, payload, self.place(request["name"]))

        pid, out, err = self.forked(work)
        text = json.dumps({"name": request["name"]}).encode("ascii")
        self.follow(Run(number, pid, text, b"", None), out, err)

    def follow(self, run, out, err):
        """Read what a child writes."""
        run.letters = self.letters
        self.runs[run.pid] = run
        for descriptor, pieces in ((out, run.out), (err, run.err)):
            self.unblock(descriptor)
            run.pipes[descriptor] = pieces
            self.pipes[descriptor] = run
            self.poll.register(descriptor, select.POLLIN)

    def choose_letters(self):
        self.letters = "%08x" % random.getrandbits(32)

    def place(self, name, letters=None):
        """Where the next child, or that with these letters, has its payload."""
        name = native(name)
        return "%sansible_%s_payload_%s/ansible_%s_payload.zip" % (self.base, name, letters or self.letters, name)

    def forked(self, work):
        """Fork a process that ends with the status `work(out, err)`, which are pipes: its number, and their other ends."""
        out, out_write = os.pipe()
        err, err_write = os.pipe()
        self.highest = max(self.highest, out, out_write, err, err_write)
        try:
            pid = os.fork()
        except OSError:
            for descriptor in (out, out_write, err, err_write):
                os.close(descriptor)
            raise
        if not pid:
            status = 1
            try:
                status = work(out_write, err_write)
            except BaseException:
                try:
                    sys.excepthook(*sys.exc_info())
                    sys.stderr.flush()
                except BaseException:
                    status = 1
            finally:
                if status < 0:
                    signal.signal(-status, signal.SIG_DFL)
                    os.kill(os.getpid(), -status)
                os._exit(status & 255)
        os.close(out_write)
        os.close(err_write)
        return pid, out, err

    # -- the spare: what a fork takes is done while the controller is at work

    def fork_spare(self):
        """Fork a process for the next request, if it needs nothing but what is here now."""
        opened = []
        self.choose_letters()
        try:
            opened.extend(os.pipe())
            opened.extend(os.pipe())
            reading, writing, back, giving = opened
            self.highest = max(self.highest, *opened)
            pid, out, err = self.forked(lambda out, err: spare(self, out, err, reading, giving))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            return
        self.spare = Spare(pid, writing, back, out, err)
        os.close(reading)
        os.close(giving)

    def drop_spare(self):
        """Let the spare end, if there is one: it reads the end of its pipe."""
        if self.spare is not None:
            found, self.spare = self.spare, None
            self.ended_spares += 1
            for descriptor in (found.link, found.back, found.out, found.err):
                os.close(descriptor)

    def hand_over(self, text, body):
        """Give a request to the spare as it came, which reads what it says; False without a spare, or where it is not for one.

        This process does as little as it can: each page on which it writes is copied, as the spare has it too.
        """
        found = self.spare
        if found is None or not body or not text.startswith(BEGINNING) or b'"definition": ' in text:
            return False
        if b'"files": ' in text and b'"files": []' not in text:
            return False
        number = text[len(BEGINNING) : text.index(b",")]
        if not number.isdigit():
            return False
        data = memoryview(struct.pack(">II", len(text), len(body)) + text + body)
        try:
            while data:
                data = data[os.write(found.link, data[:CHUNK]) :]
        except OSError:  # it has ended before it had all: nothing has run
            self.drop_spare()
            return False
        self.spare = None
        os.close(found.link)
        self.follow(Run(int(number), found.pid, text, body, found.back), found.out, found.err)
        return True

    def gave_back(self, run):
        """Whether a child that has ended was a spare that had not taken its request: nothing has run."""
        if run.back is None:
            return False
        answer = os.read(run.back, 1)
        os.close(run.back)
        return bool(answer)


BEGINNING = b'{"n": '  # of a request


def too_late(environment):
    """The names of variables that take effect only at the start of an interpreter, and are others here."""
    return [key for key in environment if at_start(key) and os.environ.get(native(key)) != native(environment[key])]


def warm_up():
    """Have done before the fork what nearly all modules do, and what cannot be seen from outside but by the time that it takes."""
    if not PY3:
        return
    import collections.abc  # loaded by what core's own files import
    import locale

    # glibc stores what it has read of locales, and its files are watched. This process's own locale is as it was.
    now = locale.setlocale(locale.LC_ALL, None)
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        pass  # nothing was changed, and a module finds that out for itself
    else:
        locale.setlocale(locale.LC_ALL, now)
    # Abstract classes store the answers that they have found by a walk over all classes below them.
    abstract = [getattr(collections.abc, name) for name in ("Mapping", "MutableMapping", "Sequence", "Set", "Iterable")]
    for value in ({}, [], (), "", b"", 0, 0.0, False, None, set()):
        for kind in abstract:
            isinstance(value, kind)


def warned():
    """Whether warnings or deprecations wait to be shown in a module's result. They are forgotten."""
    module = sys.modules.get("ansible.module_utils.common.warnings")
    found = False
    for name in ("_global_warnings", "_global_deprecations"):
        stored = getattr(module, name, None)
        if stored:
            found = True
            stored.clear() if hasattr(stored, "clear") else stored.__delslice__(0, len(stored))
    return found


def at_start(name):
    """As needs_start() of the package: the two are compared by a test."""
    return name.startswith(("PYTHON", "LD_", "LC_", "DYLD_", "MALLOC_", "OPENSSL_")) or name in (
        "LANG", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "UNIXCONFDIR", "UNIXUSRLIBDIR",
    )  # fmt: skip


def unblock(fcntl, descriptor):
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_NONBLOCK)


def drain(descriptor):
    try:
        os.read(descriptor, 512)  # of what is left poll() tells again
    except OSError:
        return


def kill(pid):
    """The child and what it has started, or the child alone while it has no group of its own yet."""
    for function in (os.killpg, os.kill):
        try:
            function(pid, signal.SIGKILL)
        except OSError:
            continue
        return


def main():
    zygote = Zygote()
    text = "ROAMLET-ZYGOTE %s %s\n" % (NONCE, json.dumps(zygote.facts()))  # noqa: F821 - given by the bootstrap
    zygote.write(text.encode("ascii"))
    zygote.serve()


main()
