"""Where snapshots can be tried: on a backend and a version whose frames are known."""

import functools
from pathlib import Path

import pytest

import roamlet
from roamlet import core
from roamlet.snapshot import _native

KNOWN = _native.known and core.backend != "greenlet"

# Elsewhere one file says what is refused there.
NEED_FRAMES = (
    *("block", "constructs", "refusals", "states", "graphs", "fuzz", "interrupted", "leaks", "format", "code"),
    *("checkpoint", "checkpoint_files", "damaged", "resume", "showing", "tracing", "cut_short", "stackless_pickles"),
    *("depths", "exceptions_die"),
)
collect_ignore = ["test_unknown.py"] if KNOWN else [f"test_{name}.py" for name in NEED_FRAMES]


@pytest.fixture
def python(python):
    """The fixture of all folders, with the roamlet that is tried here: it may be built, and not installed."""
    return functools.partial(python, PYTHONPATH=str(Path(roamlet.__file__).resolve().parent.parent))
