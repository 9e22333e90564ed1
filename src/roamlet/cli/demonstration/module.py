"""Modules of this folder that `roamlet demo` sends to its contexts: not under roamlet's name, whose own modules never travel."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def load(name: str, file: str) -> ModuleType:
    """The module in this file beside this one, by this name; made when it is first asked for."""
    if name not in sys.modules:
        spec = spec_from_file_location(name, Path(__file__).with_name(file))
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]
