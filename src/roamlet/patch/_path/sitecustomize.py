"""Imported by Python when it starts under `python -m roamlet.patch`: the standard library is made cooperative.

Then the sitecustomize is imported that would have been found without this one. A Python that has no roamlet, another version that
the program starts perhaps, keeps its own library; so this is written in a syntax that all of them have.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

import os
import sys


def _install():
    try:
        from roamlet.patch._start import install_from
    except ImportError as error:
        if error.name != "roamlet":
            return
        # roamlet lies where only the program that started this one looks, in its working directory perhaps.
        sys.path.append(__file__.rpartition("/roamlet/patch/")[0])
        try:
            from roamlet.patch._start import install_from
        except ImportError:
            return
    install_from(os.environ)


def _go_on():
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    ours = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != ours])
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


if sys.version_info >= (3, 11):  # noqa: UP036 - another Python may import this
    _install()
    _go_on()
