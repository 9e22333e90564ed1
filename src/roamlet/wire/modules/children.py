"""Pythons that are started on a target, by multiprocessing or as a program: they find the modules that came from memory.

For 3.6 and later. multiprocessing sends each process that it spawns, or forks from its server, a dict before anything else.
One more value in it is unpickled by executing what makes an importer there, with all that has come so far. It has no link: the
rest is an ImportError at once. Extension modules are loaded from the memory of the process that starts it, while that is there.

From 3.8 on, a Python that is executed with `-c`, `-m` or a script unpickles the same from a memfd that it inherits, at the first
import that finds nothing without it.
"""

import os
import sys
import threading

from roamlet.wire import codec
from roamlet.wire.modules import bundle, importer

# In the order of execution; "roamlet.wire/name" in the bundle.
NAMES = ("protocol", "codec", "modules.bundle", "modules.standin", "modules.importer")
EXTENSIONS = "roamlet.wire.modules.extensions"
REASON = "this process was started by a context, and only what had come there by then is here: import it there before"
NATIVE = (
    "this process was started by a context, where its files had not come or were closed by then: import it there before"
)

_LINES = [
    "for name, source in sources:",
    "    module = type(sys)(name)",
    "    if not source:",
    "        module.__path__ = []",
    '    module.__file__ = "roamlet:" + name',
    "    sys.modules[name] = module",
    '    exec(compile(source, module.__file__, "exec", 0, 1), module.__dict__)',
    '    if "." in name:',
    '        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], module)',
    'made = sys.modules["roamlet.wire.modules.importer"].Importer(None, theirs, 0)',
    "for name, value in state.items():",
    "    setattr(made, name, value)",
    "made.lose(reason)",
    "if places:",
    '    made.extensions = sys.modules["roamlet.wire.modules.extensions"].Extensions(None, made)',
    "    made.extensions.adopt(places, reason)",
    'roamlet = sys.modules["roamlet.wire.modules.standin"].Module("roamlet")',
    'roamlet.wire = sys.modules["roamlet.wire"]',
    'sys.modules["roamlet"] = roamlet',
    "sys.meta_path.insert(0, made)",
    "sys.path_hooks.append(made.path_hook)",
    "made.catch_up()",
]
# Once in a process: multiprocessing sends this to those, too, that were executed with it.
_START = "\n    ".join(["import sys\nif 'roamlet.wire' not in sys.modules:"] + _LINES)
# What an executed Python does first; then what it was told. It gets an importer when an import finds nothing without it, or it
# executes a Python itself: most programs need none, and it may have many megabytes. Threads that import meanwhile wait for it;
# they may be going through the list of finders, so that it is replaced and not changed.
_PROGRAM = "\n".join(
    [
        "def _(fd, place, optional, now):",
        "    import _posixsubprocess, _thread, os, sys",
        "    lock = _thread.RLock()",
        "    original = _posixsubprocess.fork_exec",
        "    def is_there():",
        "        try:",
        "            status = os.fstat(fd)",
        "        except OSError:",
        "            return False",
        "        return (status.st_dev, status.st_ino) == place",
        "    class Later(object):",
        "        begun = False",
        "        importer = None",
        "        @staticmethod",
        "        def made():",
        "            with lock:",
        "                if not Later.begun:",
        "                    Later.begun = True",
        "                    try:",
        "                        _posixsubprocess.fork_exec = original",
        "                        if is_there():",
        "                            import pickle",
        "                            pickle.loads(os.pread(fd, os.fstat(fd).st_size, 0))",
        "                            os.close(fd)",
        "                            Later.importer = sys.meta_path[0]",
        "                    finally:",
        "                        sys.meta_path = [one for one in sys.meta_path if one is not Later and one is not First]",
        "            return Later.importer",
        "        @staticmethod",
        "        def find_spec(name, path=None, target=None):",
        '            made = None if name.partition(".")[0] in optional else Later.made()',
        "            return made and made.find_spec(name, path, target)",
        "        @staticmethod",
        "        def find_distributions(*context):",
        "            made = Later.made()",
        "            return made.find_distributions(*context) if made else ()",
        "    def fork_exec(args, executables, *more):",
        "        made = Later.made() if os.fsdecode(executables[0]) == sys.executable else None",
        "        return (made.executing(original) if made else original)(args, executables, *more)",
        "    class First(object):",
        "        asked = False",
        "        @staticmethod",
        "        def find_spec(name, path=None, target=None):",
        '            if name != "subprocess" or First.asked:',
        "                return None",
        "            First.asked = True",
        '            spec = sys.modules["_frozen_importlib"]._find_spec(name, path)',
        "            execute = spec.loader.exec_module",
        "            def exec_module(module):",
        "                execute(module)",
        "                module._USE_POSIX_SPAWN = False",
        "            spec.loader.exec_module = exec_module",
        "            return spec",
        "    if is_there():",
        "        os.set_inheritable(fd, False)",
        "        sys.meta_path = [First] + sys.meta_path + [Later]",
        "        _posixsubprocess.fork_exec = fork_exec",
        "        if now:",
        "            Later.made()",
        "_(%d, %r, %r.split(), %r)",
        "del _",
        "",
    ]
)
_CODE = "exec(compile(%r, '<string>', 'exec', 0, True))"
_MODULE = "\n".join(
    [
        "import sys",
        "if sys.path[:1] == ['']:",
        "    sys.path[0] = __import__('os').getcwd()",
        "sys.argv[0] = '-m'",
        "del sys",
        "__import__('runpy')._run_module_as_main(%r)",
    ]
)
# As the interpreter does it: in this module, which stays what it is when the script has ended and threads of it go on, and by
# a path that is made absolute and not normalised.
_SCRIPT = "\n".join(
    [
        "def _(path):",
        "    import os, sys",
        "    external = sys.modules['_frozen_importlib_external']",
        "    names = sys.modules['__main__'].__dict__",
        "    del names['_'], sys.argv[0]",
        "    has_own = sys.path[:1] == ['']",
        "    for hook in sys.path_hooks:",
        "        try:",
        "            hook(path)",
        "        except ImportError:",
        "            continue",
        "        sys.path[: int(has_own)] = [path]",
        "        return __import__('runpy')._run_module_as_main('__main__', False)",
        "    if has_own:",
        "        sys.path[0] = os.path.dirname(os.path.realpath(path))",
        "    if sys.version_info >= (3, 9):",
        "        path = os.path.join(os.getcwd(), path)",
        "    try:",
        "        with open(path, 'rb') as file:",
        "            source = file.read()",
        "    except OSError as error:",
        "        said = (sys.executable, path, error.errno, error.strerror)",
        '        sys.stderr.write("%%s: can\'t open file %%r: [Errno %%d] %%s%%s" %% (*said, os.linesep))',
        "        sys.exit(2)",
        "    if source[:4] == external.MAGIC_NUMBER:",
        "        loader = external.SourcelessFileLoader('__main__', path)",
        "        code = __import__('marshal').loads(source[16:])",
        "    else:",
        "        loader = external.SourceFileLoader('__main__', path)",
        "        code = compile(source, path, 'exec', 0, True)",
        "    names.update(__file__=path, __cached__=None, __loader__=loader)",
        "    exec(code, names)",
        "_(%r)",
    ]
)
# How the code of those begins that get no modules from here; the second as roamlet.wire.build.command has it.
_OTHERS = ("from multiprocessing.", "import sys;sys.path[:]=[p for p in sys.path if p];exec(")
_LONGEST = (1 << 17) - 1  # bytes of a word: Linux takes none that is longer
_WITH_VALUE = "WX"  # options of the interpreter that another word may follow
_ADD_SEALS, _SEALS = 1033, 15  # as in extensions.py
_FIRST = 100  # the lowest number for a descriptor that stays
_OLD = 2

_lock = threading.Lock()


def _renew():
    """In a process that was forked off: the thread that held a lock may not be here."""
    global _lock
    _lock = threading.Lock()
    for one in sys.meta_path:
        if isinstance(one, importer.Importer):
            one._lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # 3.7 and later
    os.register_at_fork(after_in_child=_renew)

_made = [(None, None, None)]  # for which state of the importer, descriptor, its file
_old = []  # descriptors of states before


class Snapshot(object):
    """Unpickled, it is an importer in another process."""

    def __init__(self, source):
        self._importer = source

    def __reduce__(self):
        source = self._importer
        with source._lock:
            state = dict((name, getattr(source, name)) for name in ("_data", "paths", "_ours", "_complete"))
            state = dict((name, type(value)(value)) for name, value in state.items())
            modules = dict(source._modules)
            absent, reasons = set(source._absent), dict(source._reasons)
            theirs = set(source._theirs)
        places = source.extensions.places() if source.extensions is not None else {}
        for name in [name for name, found in modules.items() if found[0] == bundle.EXTENSION]:
            if not all(file[0] in places for file in codec.loads(modules[name][1])[1]):
                del modules[name]
                absent.add(name)
                reasons[name] = NATIVE
        state.update(_modules=modules, _absent=absent, _reasons=reasons, _parent_first=source._parent_first)
        state["_eager"] = [name for name in importer.EAGER if name in modules]
        sources = [("roamlet", ""), ("roamlet.wire", ""), ("roamlet.wire.modules", "")]
        sources.extend(("roamlet.wire." + name, source.fetch("roamlet.wire/" + name)) for name in NAMES)
        if places:
            sources.append((EXTENSIONS, modules[EXTENSIONS][1]))
        names = {"sources": sources, "theirs": theirs, "state": state, "reason": REASON}
        names["places"] = places
        return vars(sys.modules["builtins"])["exec"], (_START, names)  # a keyword on 2.7


def install(source):
    """Let what multiprocessing.spawn sends ahead carry the modules of this importer. Called once it is imported."""
    spawn = sys.modules["multiprocessing.spawn"]
    original = spawn.get_preparation_data

    def get_preparation_data(name):
        data = original(name)
        data["roamlet"] = Snapshot(source)
        return data

    spawn.get_preparation_data = get_preparation_data


def start(source, fork_exec, args, executables, close_fds, fds_to_keep, *more):
    """Start a Python as `fork_exec` does, the function of _posixsubprocess, with the modules of the importer `source` in it."""
    words = [os.fsdecode(word) for word in args]
    told = _told(words)
    if told is None or not hasattr(os, "memfd_create"):
        return fork_exec(args, executables, close_fds, fds_to_keep, *more)
    options, program, rest = told
    try:
        fd = _state(source)
        first = _PROGRAM % (fd, _identity(fd), " ".join(importer.OPTIONAL), source._parent_first != ())
    except EnvironmentError:  # the link is lost, or there are too many files
        return fork_exec(args, executables, close_fds, fds_to_keep, *more)
    code = os.fsencode(first + program)
    if len(code) > _LONGEST:
        return fork_exec(args, executables, close_fds, fds_to_keep, *more)
    words = [os.fsencode(word) for word in words[:1] + options] + [b"-c", code] + [os.fsencode(word) for word in rest]
    fds = tuple(sorted(set(fds_to_keep) | {fd}))
    return fork_exec(words, executables, close_fds, fds, *more)


def _state(source):
    """Return the descriptor of a file in memory with the importer of a process that starts now; the last one if it has it all."""
    # Imported here because not all contexts start programs.
    import fcntl
    import pickle

    places = {} if source.extensions is None else source.extensions.places()
    key = (os.getpid(), source.received, sorted(places.items()))
    with _lock:
        known, fd, identity = _made[0]
        if known == key and _identity(fd) == identity:
            return fd
        state = pickle.dumps(Snapshot(source), 2)
        new = os.memfd_create("roamlet-modules", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with os.fdopen(os.dup(new), "wb") as file:
                file.write(state)
            fcntl.fcntl(new, _ADD_SEALS, _SEALS)
            fd = fcntl.fcntl(new, fcntl.F_DUPFD_CLOEXEC, _FIRST)
        finally:
            os.close(new)
        _, old, identity = _made[0]
        _made[0] = key, fd, _identity(fd)
        if old is not None and _identity(old) == identity:
            _old.append(old)
            if len(_old) > _OLD:  # a thread may be about to hand the last ones down
                os.close(_old.pop(0))
        return fd


def _identity(fd):
    try:
        status = os.fstat(-1 if fd is None else fd)
    except EnvironmentError:
        return None
    return status.st_dev, status.st_ino


def _told(words):
    """Return the options of an interpreter, a program that does what it is told, and the words for that; None for no program.

    Also for what multiprocessing tells it, which needs nothing or sends it by itself, and for a context behind this one, which has
    a link of its own.
    """
    place = 1
    while place < len(words):
        word = words[place]
        if word == "--check-hash-based-pycs":
            place += 2
            continue
        if word[:1] != "-" or word == "-":
            break
        for index, letter in enumerate(word[1:], 1):
            if letter in "cm":
                value = [word[index + 1 :]] if word[index + 1 :] else words[place + 1 : place + 2]
                rest = words[place + (1 if word[index + 1 :] else 2) :]
                if not value or (letter == "c" and value[0].startswith(_OTHERS)):
                    return None
                options = words[1:place] + ([word[:index]] if index > 1 else [])
                return options, (_CODE if letter == "c" else _MODULE) % value[0], rest
            if letter in _WITH_VALUE:
                place += not word[index + 1 :]
                break
            if letter not in "bBdEiIOPqsSuv":
                return None
        place += 1
    if place >= len(words) or words[place] == "-":
        return None
    script = words[place]
    return words[1:place], _SCRIPT % (script,), words[place:]
