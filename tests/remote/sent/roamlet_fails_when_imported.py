"""A module that cannot be imported on the target, though it can be here."""

import os

if os.environ.get("ROAMLET_TEST_IMPORTS_HERE") is None:
    raise RuntimeError("cannot be imported")


def work():
    pass
