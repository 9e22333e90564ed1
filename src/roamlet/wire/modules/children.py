"""Processes that multiprocessing starts over here by spawn or forkserver: they find the modules that came from memory.

For 3.6 and later. multiprocessing sends each such process a dict before anything else. One more value in it is unpickled by
executing what makes an importer there, with all that has come so far. It has no link: the rest is an ImportError at once.
"""

import sys

from roamlet.wire.modules import bundle, importer

# In the order of execution; "roamlet.wire/name" in the bundle.
NAMES = ("protocol", "codec", "modules.bundle", "modules.standin", "modules.importer")
REASON = "this process was started by a context, and only what had come there by then is here: import it there before"
NATIVE = "extension modules from memory are not in the processes that a context starts"

_START = "\n".join(
    [
        "import sys",
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
        'roamlet = sys.modules["roamlet.wire.modules.standin"].Module("roamlet")',
        'roamlet.wire = sys.modules["roamlet.wire"]',
        'sys.modules["roamlet"] = roamlet',
        "sys.meta_path.insert(0, made)",
        "sys.path_hooks.append(made.path_hook)",
    ]
)


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
        for name in [name for name, found in modules.items() if found[0] == bundle.EXTENSION]:
            del modules[name]
            absent.add(name)
            reasons[name] = NATIVE
        state.update(_modules=modules, _absent=absent, _reasons=reasons)
        state["_eager"] = [name for name in importer.EAGER if name in modules]
        sources = [("roamlet", ""), ("roamlet.wire", ""), ("roamlet.wire.modules", "")]
        sources.extend(("roamlet.wire." + name, source.fetch("roamlet.wire/" + name)) for name in NAMES)
        names = {"sources": sources, "theirs": theirs, "state": state, "reason": REASON}
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
