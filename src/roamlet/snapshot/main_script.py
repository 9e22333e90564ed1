"""Going on from a checkpoint in a process of its own, where the job finds its script's `__main__` again; for `roamlet resume`.

Functions of `__main__` travel in the checkpoint, with the globals that they use. Classes are named there: only where the job needs
one is its script imported, under another name, so that the code under its main guard does not run.
"""

import contextlib
import os
import sys
import types
from collections.abc import Iterator
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from roamlet.core import tasklet
from roamlet.snapshot._errors import BadSnapshot
from roamlet.snapshot.loading import load, resume

__all__ = ["resumed"]


class _Loader(load.Loader):
    """Lets saved globals win: what the script has set while it was imported is older."""

    @staticmethod
    def make_set_function(made: types.FunctionType, state: tuple[Any, ...]) -> None:
        load.set_function(made, state)
        made.__globals__.update(state[0])


@contextlib.contextmanager
def resumed(path: str, script: str | None = None) -> Iterator[tasklet[Any]]:
    """The job of a checkpoint, in the run queue, in a process that is like the one that saved it, within this block.

    `__main__` is a module of its own, sys.argv and the first entry of sys.path are as they were. `script` is imported in the place
    of the script that the checkpoint names. Raises OSError, and BadSnapshot when nothing of the job can run here.
    """
    source = resume.Source(path)
    about = source.header.about
    module = types.ModuleType("__main__")
    before = sys.modules["__main__"], sys.argv, sys.path[:]
    sys.modules["__main__"] = module
    sys.argv = list(about.get("arguments") or [path])
    folder = os.path.dirname(os.path.abspath(script)) if script else about.get("folder")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        _become(module, about, script, source.file)
        yield source.resumed(_Loader)
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before


def _become(module: types.ModuleType, about: dict[str, Any], script: str | None, file: str) -> None:
    """Let the module be the script's, as far as the job needs it."""
    script, name = (script, None) if script else (about.get("script"), about.get("module"))
    if script:
        module.__file__ = os.path.abspath(script)
    if name:
        module.__spec__ = ModuleSpec(name, None)
    if not about.get("classes"):
        return
    needs = f"{file}: the job needs {', '.join(about['classes'])} of its script"
    if script is None:
        raise BadSnapshot(f"{needs}, and there was none: classes that were typed in at a prompt cannot be found again")
    try:
        _import(module, script, name)
    except (Exception, SystemExit) as error:
        raise BadSnapshot(
            f"{needs} {script!r}, which cannot be imported here: {type(error).__name__}: {error}. Name the one to import with "
            "--script"
        ) from error


def _import(module: types.ModuleType, script: str, name: str | None) -> None:
    module.__name__ = resume.IMPORTED
    try:
        exec(_code_of(module, name) if name else compile(Path(script).read_bytes(), script, "exec"), module.__dict__)
    finally:
        module.__name__ = "__main__"
    _rename(vars(module))


def _code_of(module: types.ModuleType, name: str) -> types.CodeType:
    """The code of what was run by `python -m name`, whose relative imports then work in the module."""
    spec = find_spec(name)
    code = spec.loader.get_code(name) if spec is not None and isinstance(spec.loader, InspectLoader) else None
    if spec is None or code is None:
        raise ImportError(f"there is no module {name!r}")
    module.__spec__, module.__package__ = spec, spec.parent
    return code


def _rename(space: Any) -> None:
    """Let the classes be those of `__main__`, by which name they are saved again."""
    for each in list(space.values()):
        if isinstance(each, type) and each.__module__ == resume.IMPORTED:
            each.__module__ = "__main__"
            _rename(vars(each))
