"""A bare interpreter that imports from one bundle alone and tells which names it would have had to ask for.

A second, plain reading of what roamlet.wire.protocol promises about MODULES, so that it shares no mistake with
roamlet.wire.modules.importer.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roamlet.wire.modules import bundle as wire_bundle
from tests.remote import interpreters

_LISTING = """
import sys, pkgutil, json
print(json.dumps(sorted(set(sys.builtin_module_names) | set(m[1] for m in pkgutil.iter_modules()))))
"""

# Common syntax of 2.7 and 3.
_TARGET = r"""
import sys, json
served = json.loads(sys.stdin.read())
modules, absent, complete = served["modules"], set(served["absent"]), served["complete"]
asked = []
has = set(json.loads(served["has"]))

class Finder(object):
    def knows(self, name):
        if name in modules:
            return True
        if name in absent:
            return False
        parent, _, short = name.rpartition(".")
        if name in has:
            return False  # 2.7 asks for everything
        if parent:
            if parent in modules and parent not in complete:
                asked.append(name)
            elif parent in modules and short in complete[parent]:
                asked.append(name)
            return False
        asked.append(name)
        return False

    def find_module(self, name, path=None):
        return self if self.knows(name) else None

    def load_module(self, name):
        kind, source, origin = modules[name]
        module = sys.modules.setdefault(name, type(sys)(str(name)))
        module.__file__, module.__loader__ = origin, self
        module.__package__ = str(name if kind else name.rpartition(".")[0])
        if kind:
            module.__path__ = []
        exec(compile(source.encode("utf-8"), origin or name, "exec", 0, True), module.__dict__)
        return sys.modules[name]

    def find_spec(self, name, path=None, target=None):
        if not self.knows(name):
            return None
        import importlib.machinery
        return importlib.machinery.ModuleSpec(name, self, origin=modules[name][2], is_package=bool(modules[name][0]))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        kind, source, origin = modules[module.__name__]
        exec(compile(source, origin or module.__name__, "exec", 0, True), module.__dict__)

    def get_resource_reader(self, name):
        return Reader(name)


class Reader(object):
    def __init__(self, name):
        self.name = name

    def files(self):
        import pathlib
        return pathlib.Path(served["files"].get(self.name, "/nonexistent"))


sys.meta_path.append(Finder())
problem = None
try:
    exec(served["statement"], {"__name__": "caller"})
except Exception as error:
    problem = "%s: %s" % (type(error).__name__, error)
print(json.dumps({"asked": asked, "problem": problem, "imported": sorted(n for n in modules if n in sys.modules)}))
"""


@dataclass(frozen=True)
class Outcome:
    """What a target did: the names that it would have asked for, its error, and which modules of the bundles it imported."""

    asked: list[str]
    problem: str | None
    imported: list[str]


def pythons(*versions: str) -> list[str]:
    """The interpreters of these versions ("2.7", "3.13") that are found here."""
    return [path for version, path in interpreters.found().items() if version in versions]


def has_of(python: str) -> frozenset[str]:
    """The top-level names that a bare interpreter has."""
    return frozenset(json.loads(_run(python, _LISTING, "")))


def imports_from(python: str, bodies: Iterable[bytes], statement: str, files: dict[str, str] | None = None) -> Outcome:
    """Run `statement` in a bare interpreter that has these bundles and no parent to ask.

    `files`: package -> folder from which it may read its data files.
    """
    modules: dict[str, Sequence[object]] = {}
    absent: set[str] = set()
    complete: dict[str, list[str]] = {}
    for body in bodies:
        sources, more_absent, _, more_complete = wire_bundle.unpack(body)
        modules |= {name: (kind, source.decode("utf-8"), origin) for name, kind, source, origin in sources}
        absent |= set(more_absent)
        complete |= more_complete
    served = {
        "modules": modules,
        "absent": sorted(absent - modules.keys()),
        "complete": complete,
        "statement": statement,
        "files": files or {},
        "has": _run(python, _LISTING, ""),
    }
    return Outcome(**json.loads(_run(python, _TARGET, json.dumps(served))))


def _run(python: str, program: str, text: str) -> str:
    done = subprocess.run(
        [python, "-E", "-s", "-S", "-B", "-c", program],
        input=text.encode("ascii"),
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
        cwd=os.path.abspath(os.sep),
    )
    return done.stdout.decode("utf-8")
