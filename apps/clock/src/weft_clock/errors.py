"""What can go wrong in weft clock itself; what can go wrong on the way to a host is weft.remote's."""

from weft import WeftError

__all__ = ["ClockError"]


class ClockError(WeftError, ValueError):
    """Something that a host has, or that was asked for, is not as it must be. The message says what, and what to do."""
