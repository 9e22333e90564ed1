"""What can go wrong in roamlet clock itself; what can go wrong on the way to a host is roamlet.remote's."""

from roamlet import RoamletError


class ClockError(RoamletError, ValueError):
    """Something that a host has, or that was asked for, is not as it must be. The message says what, and what to do."""
