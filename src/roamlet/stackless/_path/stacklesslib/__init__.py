"""stacklesslib for old programs: what its public modules gave, on roamlet's locks, time-outs, timers and worker threads.

`python -m roamlet.stackless SCRIPT` finds it. Written anew after the library's documentation and tests. It has base, errors, util,
app, events, main, wait, locks, futures and threadpool; docs/howto/port-from-stackless.md says what is different.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# What the old library had and this one has not: what to use.
_ABSENT = {
    "magic": "python -m roamlet.threads SCRIPT lets tasklets wait in the standard library's own locks, sockets and sleep(); "
    "inside a program, use roamlet.threads and roamlet.io",
    "monkeypatch": "python -m roamlet.threads SCRIPT, or roamlet.threads and roamlet.io inside a program",
    "replacements": "roamlet.threads and roamlet.io, which have the standard library's names",
    "async": "roamlet.call_async, or stacklesslib.util.call_async",
    "fittings": "roamlet.io.pipe",
    "socketserver": "roamlet.io.serve",
    "weakmethod": "weakref.WeakMethod",
}


class _Absent:
    """Says at the import of a module that is not here what takes its place."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find nothing; ModuleNotFoundError for a module of the old library."""
        del path, target
        package, _, module = name.rpartition(".")
        if package == __name__ and module in _ABSENT:
            raise ModuleNotFoundError(
                f"roamlet's stacklesslib has no module {module!r}; instead: {_ABSENT[module]}", name=name
            )
        return None


if not any(getattr(finder, "__qualname__", None) == "_Absent" for finder in sys.meta_path):
    sys.meta_path.append(_Absent)
