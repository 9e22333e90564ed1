"""Many damaged images of a snapshot: see tests/snapshot/_images.py."""

import os

import pytest

from tests.snapshot import _images
from tests.snapshot.conftest import KNOWN

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames"),
]
SEEDS = int(os.environ.get("ROAMLET_SOAK_IMAGES", "20000"))


def test_no_changed_frame_crashes(told):
    found = _images.outcomes(_images.image(by_value=False), range(1000, 1000 + SEEDS), of_frames=True)
    told(f"{SEEDS} images: {dict(found)}")
    assert set(found) <= {"refused", "went on", "stopped"}, found


@pytest.mark.parametrize("by_value", [False, True], ids=["by name", "by value"])
def test_no_damaged_image_crashes(by_value, told):
    found = _images.outcomes(_images.image(by_value=by_value), range(1000, 1000 + SEEDS))
    told(f"{SEEDS} images: {dict(found)}")
    assert set(found) <= {"refused", "went on", "stopped"}, found
