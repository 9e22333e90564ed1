"""What travels. The modules of this folder are imported as top-level ones, as a user's would be: see `shipped`."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType


def shipped(name: str) -> ModuleType:
    """The module of this folder called `name`, as a top-level module: a package around it would cost Mitogen a request more."""
    folder = str(Path(__file__).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return import_module(name)
