"""What is called."""

import importlib


def use(names):
    """Import these packages."""
    for name in names:
        importlib.import_module(name)


def nothing():
    pass
