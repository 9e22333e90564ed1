"""Refusing time-outs in the name of the call that was given them, where the call that takes them in the end has another."""


def check_timeout(timeout: float | None, what: str) -> None:
    """Raise TypeError for what is no number of seconds or None, ValueError for NaN and the negative."""
    try:
        valid = timeout is None or timeout >= 0
    except TypeError:
        raise TypeError(f"{what} takes a number of seconds, not {type(timeout).__name__}") from None
    if not valid:
        raise ValueError(f"{what} takes a number of seconds from 0 on, or None, not {timeout!r}")
