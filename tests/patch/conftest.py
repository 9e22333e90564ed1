"""An area of roamlet.patch in place in pytest's own process, for one test."""

import pytest

from roamlet.patch.changes import Changes


@pytest.fixture
def in_place():
    """Call it with modules of areas; what they change is put back after the test."""
    changes = Changes()

    def put(*areas):
        for area in areas:
            area.apply(changes)
        return changes

    yield put
    changes.undo()
