"""Where snapshots can be tried: on a backend and a version whose frames are known."""

import functools
from pathlib import Path

import pytest

import roamlet
from roamlet import core
from roamlet.snapshot import _native
from tests.core.conftest import several_stacks  # noqa: F401 - a fixture

KNOWN = _native.known and core.backend != "greenlet"

# Elsewhere one file says what is refused there, and the others are left out.
REFUSED = "test_unknown.py"
NEED_FRAMES = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != REFUSED]
collect_ignore = [REFUSED] if KNOWN else NEED_FRAMES


@pytest.fixture
def python(python):
    """The fixture of all folders, with the roamlet that is tried here: it may be built, and not installed."""
    return functools.partial(python, PYTHONPATH=str(Path(roamlet.__file__).resolve().parent.parent))
