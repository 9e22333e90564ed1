"""What a look at a process on another machine sends there: a function, and the reader's sources under a name that may travel."""

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
NAME = "roamlet_seen"  # what the sources are called on the target, in place of roamlet.diagnose
FUNCTION = "roamlet_seen_on_target"
READERS = (
    "errors",
    "system.proc",
    "system.memory",
    "system.elf",
    "table",
    "system.columns",
    "python",
    "shapes",
    "referring",
    "contexts",
    "tasks",
    "system.descriptors",
    "reader",
    "cycles",
    "describing",
    "system.corefile",
    "system.stopping",
    "reading",
    "system.finding",
    "following",
)


def function() -> Callable[[list[tuple[str, str | None]], dict[str, Any]], list[dict[str, Any]]]:
    """on_target.look, in a module that is not under roamlet's name."""
    look: Callable[[list[tuple[str, str | None]], dict[str, Any]], list[dict[str, Any]]]
    look = alone(FUNCTION, HERE / "on_target.py").look
    return look


def alone(name: str, path: str | Path) -> ModuleType:
    """The module in `path`, which needs nothing of roamlet, under a name by which it may be sent to targets."""
    name = name.replace(".", "_")
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def sources() -> list[tuple[str, str | None]]:
    """Names and texts of the modules, each after those that it imports; None for a package."""
    files = [
        (NAME, None),
        (f"{NAME}.model", HERE.parent / "model.py"),
        (f"{NAME}.render", HERE.parent / "render.py"),
        (f"{NAME}.graphs", HERE.parent / "graphs.py"),
        (f"{NAME}.outside", None),
        (f"{NAME}.outside.system", None),
    ]
    files += [(f"{NAME}.outside.{name}", HERE / f"{name.replace('.', '/')}.py") for name in READERS]
    return [
        (name, None if path is None else path.read_text("utf-8").replace("roamlet.diagnose", NAME))
        for name, path in files
    ]
