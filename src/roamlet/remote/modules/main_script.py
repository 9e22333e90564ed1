"""The parent's main script: whether it can travel, and under which name."""

import ast
import importlib.machinery
import os
import sys
from types import ModuleType

TRAVELS_AS = "__roamlet_main__"
"""The name of the main script on the target: not `__main__`, so that its main guard is false."""


def name_on_target() -> str:
    """The name by which the other side imports the main script.

    A script is `__roamlet_main__`. What was started by `python -m package.module` keeps its real name: its relative
    imports work, and its guard is false as well.
    """
    return real_name() or TRAVELS_AS


def name_here(module: str) -> str:
    """The name by which the user knows a module of the target: `__main__` for the main script, not `__roamlet_main__`."""
    return "__main__" if module == TRAVELS_AS else module


def real_name() -> str | None:
    """The importable name of the main module when it was started by `python -m`, else None."""
    module = sys.modules.get("__main__")
    spec = getattr(module, "__spec__", None)
    if isinstance(spec, importlib.machinery.ModuleSpec) and spec.name != "__main__":
        return spec.name
    return None


def script() -> tuple[ModuleType | None, str]:
    """The main module if it came from a file, or None and a sentence that says why it did not."""
    module = sys.modules.get("__main__")
    if module is None:
        return None, "this process has no main script"
    file = getattr(module, "__file__", None)
    if isinstance(file, str) and not file.startswith("<"):
        return module, ""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        how = "it was typed into an interactive session"
    elif sys.argv[:1] == ["-c"]:
        how = "it came by `python -c`"
    elif sys.argv[:1] in (["-"], [""]) or not os.path.basename(sys.argv[0] if sys.argv else ""):
        how = "it came through standard input"
    else:
        how = "its source is in no file"
    return (
        None,
        f"the main script has no source to send: {how}. Put the function into a module, or start the script from a file",
    )


def has_guard() -> bool:
    """Whether the main script has an `if __name__ == "__main__":` at its own level. True where its source cannot be read."""
    module, _ = script()
    try:
        with open(str(getattr(module, "__file__", "")), "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    tests = [ast.walk(one.test) for one in tree.body if isinstance(one, ast.If)]
    return any(isinstance(node, ast.Name) and node.id == "__name__" for nodes in tests for node in nodes)
