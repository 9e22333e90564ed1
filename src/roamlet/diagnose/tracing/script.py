"""Running a script or a module as `python` would, in this process, so that it can be traced."""

import io
import os
import runpy
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType


class NotRunnable(Exception):
    """There is no such script or module, or it cannot be compiled. Nothing has run."""


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run the file as `__main__`; sys.argv, sys.path[0] and sys.modules are as for `python path`, and stay so.

    Raises what the script raises, SystemExit too; NotRunnable when nothing has run.
    """
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        raise NotRunnable(f"{path}: {error.strerror or error}") from error
    code: CodeType
    try:
        code = compile(source, os.path.abspath(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NotRunnable(f"{path}: {error}") from error
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.argv[:] = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run the module as `python -m name` does. Raises as run_script does."""
    sys.argv[:] = [name, *arguments]
    sys.path[0] = os.getcwd()
    try:
        # The last of runpy's frames that a traceback shows.
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    except Exception as error:
        raise NotRunnable(f"-m {name}: {error}") from error
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=spec.origin, __builtins__=__builtins__, __cached__=None, __spec__=spec, __package__=spec.parent
    )
    sys.argv[0] = spec.origin or name
    sys.modules["__main__"] = main
    exec(code, main.__dict__)
