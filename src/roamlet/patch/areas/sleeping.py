"""The area `sleep`: time.sleep lets the other tasklets run."""

import math
import time
from typing import SupportsIndex

from roamlet.io import _originals
from roamlet.patch import _handlers
from roamlet.patch.changes import Changes
from roamlet.patch.functions import stands_for

_LONGEST = 2**63 / 1e9  # seconds; time.sleep refuses more


@stands_for(_originals.sleep)
def sleep(seconds: float | SupportsIndex, /) -> None:
    if not isinstance(seconds, (float, int)):
        if not hasattr(type(seconds), "__index__"):
            _originals.sleep(seconds)  # raises, before it sleeps
        seconds = seconds.__index__()
    if not 0 <= seconds < _LONGEST or math.isnan(seconds):
        _originals.sleep(seconds)  # raises
    _handlers.sleep(seconds)


def apply(changes: Changes) -> None:
    """Replace time.sleep."""
    changes.replace(time, "sleep", sleep)
