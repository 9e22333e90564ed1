"""The function that is called on the target, in a module that imports the large package at its top."""

import sys

import django.db.models


def load() -> tuple[str, int]:
    """The package's version as the far side has it, and how many of its modules and its dependencies' are loaded there."""
    assert django.db.models
    return django.__version__, sum(name.partition(".")[0] in ("django", "asgiref", "sqlparse") for name in sys.modules)
