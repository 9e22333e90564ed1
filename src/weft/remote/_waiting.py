"""How long to wait, for a deadline that may be none."""

import time

from weft.sync import TIMEOUT_MAX

# Seconds for a wait without limit that one of weft's own threads ends: with a limit, however long, it is taken for no deadlock.
EVER = TIMEOUT_MAX


def limit(deadline: float | None) -> float:
    """The time-out, in seconds, of such a wait until `deadline` (time.monotonic); EVER when there is none."""
    return EVER if deadline is None else max(0.0, deadline - time.monotonic())


def remaining(deadline: float | None) -> float | None:
    """Seconds until `deadline` (time.monotonic), 0 when it has passed; None when there is none."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
