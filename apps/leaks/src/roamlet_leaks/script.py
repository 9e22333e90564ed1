"""Runs a script or module in this process as `python SCRIPT` and `python -m MODULE` do, and returns its exit code.

Two differences cannot be avoided: modules that roamlet-leaks has imported are in sys.modules, and the program's atexit functions
run after the report.
"""

import importlib.util
import io
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

from roamlet_leaks.errors import UsageError

INTERRUPTED = 130

Program = tuple[CodeType, dict[str, Any], str, str]
"""Its code, what its `__main__` has from the beginning, and the first entries of sys.path and of sys.argv."""


def code_of_script(path: str) -> Program:
    """The program in a file. Raises UsageError when there is no such file, or when it cannot be compiled."""
    full = os.path.abspath(path)  # as python has it: the program may change the folder
    try:
        with io.open_code(full) as file:
            code = compile(file.read(), full, "exec")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give the path of a Python script, or -m MODULE") from error
    except (SyntaxError, ValueError) as error:
        raise UsageError("".join(traceback.format_exception_only(error)).rstrip()) from error
    names = {"__file__": full, "__package__": None, "__spec__": None, "__loader__": None}
    return code, names, os.path.dirname(os.path.realpath(path)), path


def code_of_module(name: str) -> Program:
    """The program in a module, or in the `__main__` of a package, which is imported first. Raises UsageError likewise."""
    sys.path[0:1] = [os.getcwd()]
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise UsageError(f"-m {name}: {error}") from error
    loader: Any = spec.loader if spec else None
    code = loader.get_code(spec.name) if spec and hasattr(loader, "get_code") else None
    if spec is None or code is None:
        raise UsageError(f"-m {name}: there is no such module with code in Python, and no {name}.__main__")
    names = {
        "__file__": spec.origin,
        "__package__": spec.parent,
        "__spec__": spec,
        "__loader__": spec.loader,
        "__cached__": spec.cached,
    }
    return code, names, os.getcwd(), str(spec.origin)


def run_as_main(program: Program, args: Sequence[str]) -> int:
    """Run it as `__main__` with these arguments, wait for its threads, and return its exit code.

    What it raises is printed as Python prints it, without our own frames. `__main__` and sys.argv stay those of the program.
    """
    code, names, folder, first = program
    main = ModuleType("__main__")
    main.__dict__.update(names, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    sys.argv[:] = [first, *args]
    if not sys.flags.safe_path:
        sys.path[0:1] = [folder]
    status = _executed(code, main.__dict__)
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    return status


def _executed(code: CodeType, names: dict[str, Any]) -> int:
    try:
        exec(code, names)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.stdout.flush()
        shown = error.__traceback__.tb_next if error.__traceback__ is not None else None  # from the program on
        sys.excepthook(type(error), error.with_traceback(shown), shown)
        del shown
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0
