"""The function that is called on the target, in a module that imports a package with data of its own at its top."""

import sys

import certifi
import requests


def load() -> tuple[str, int]:
    """The package's version as the far side has it, and how many of its modules and its dependencies' are loaded there."""
    assert certifi.contents().count("BEGIN CERTIFICATE") > 100
    ours = ("requests", "urllib3", "certifi", "idna", "charset_normalizer")
    return requests.__version__, sum(name.partition(".")[0] in ours for name in sys.modules)
