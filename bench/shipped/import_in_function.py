"""The function that is called on the target, in a module whose import needs no Django: the function itself imports it."""

import sys


def load() -> tuple[str, int]:
    """The package's version as the far side has it, and how many of its modules and its dependencies' are loaded there."""
    import django.db.models  # here, so that the parent can name this function without having imported Django

    assert django.db.models
    return django.__version__, sum(name.partition(".")[0] in ("django", "asgiref", "sqlparse") for name in sys.modules)
