"""Doing something to a module as soon as it has been imported: now, if it was."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from roamlet.patch.changes import Changes

Hook = Callable[[ModuleType], None]


class _Finder:
    """The first of sys.meta_path while a hook is there: it lets the others find, and hooks onto what they have found."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Hook]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders find; None for a module that no hook waits for."""
        if name not in self.hooks:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                self._hook_onto(spec)
                return spec
        return None

    def _hook_onto(self, spec: ModuleSpec) -> None:
        """The loader stays what it is, of its own class: resources and pickles look at it."""
        loader: Any = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None or isinstance(
            loader, type
        ):  # one of the interpreter's own, which belongs to all its modules
            return

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            for hook in self.hooks.get(spec.name, ()):
                hook(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader without attributes of its own
            return


_finder = _Finder()


def after_import(changes: Changes, name: str, hook: Hook) -> None:
    """Call hook(module) when the module `name` has been imported, at once if it was, until the changes are undone.

    What the hook replaces, it replaces in `changes`. An error that it raises is the import's.
    """
    if (module := sys.modules.get(name)) is not None:
        hook(module)
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    hooks = _finder.hooks.setdefault(name, [])
    hooks.append(hook)
    changes.on_undo(lambda: _forget(name, hook))


def _forget(name: str, hook: Hook) -> None:
    hooks = _finder.hooks[name]
    hooks.remove(hook)
    if not hooks:
        del _finder.hooks[name]
    if not _finder.hooks and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
