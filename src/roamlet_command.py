"""The `roamlet` command's entry point. Outside the package, so that Ctrl-C is handled while roamlet itself is imported, and so that
a command that needs no tasklets does not wait until they are loaded.
"""

import sys
from importlib.util import find_spec, module_from_spec

__all__ = ["main"]


def main() -> int:
    """Run the command line and return the exit code."""
    try:
        _put_off("roamlet")
        # Inside: this takes most of the time that a short command takes, and Ctrl-C may come meanwhile.
        import roamlet.cli

        return roamlet.cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("roamlet: interrupted\n")
        return 130


def _put_off(name: str) -> None:
    """Make this package known, and load what is in it when the first of its names is asked for. Its submodules are not put off."""
    spec = find_spec(name) if name not in sys.modules else None
    if spec is None or spec.loader is None:
        return
    package, load = module_from_spec(spec), spec.loader.exec_module

    def load_first(wanted: str) -> object:
        del vars(package)["__getattr__"]
        try:
            load(package)
        except BaseException:
            vars(package)["__getattr__"] = load_first
            raise
        return getattr(package, wanted)

    vars(package)["__getattr__"] = load_first
    sys.modules[name] = package
