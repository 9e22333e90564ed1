"""How long to wait, where there may be no deadline."""

import time

from roamlet.sync import TIMEOUT_MAX

# Seconds, for a wait without limit that one of roamlet's own threads ends: a wait with a limit, however long, is no deadlock.
EVER = TIMEOUT_MAX


def deadline_of(timeout: float | None) -> float | None:
    """When (time.monotonic) the time-out of a call is over. Raises TypeError, ValueError for what is no time-out."""
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    if not timeout >= 0:
        raise ValueError(f"timeout must be a number of seconds, 0 or more, or None, not {timeout!r}")
    return time.monotonic() + timeout


def limit(deadline: float | None) -> float:
    """The time-out, in seconds, of such a wait until `deadline` (time.monotonic); EVER without a deadline."""
    return EVER if deadline is None else max(0.0, deadline - time.monotonic())


def remaining(deadline: float | None) -> float | None:
    """Seconds until `deadline` (time.monotonic), 0 when it has passed; None without a deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
