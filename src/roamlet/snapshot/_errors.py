"""The errors of saving and restoring. Those of other layers are in their own modules."""

from roamlet.core import RoamletError


class SnapshotError(RoamletError):
    """The base of what roamlet.snapshot raises itself."""

    __module__ = "roamlet.snapshot"  # where users find it


class CannotSave(SnapshotError, TypeError):
    """Something cannot be saved; the message names the frame and the variable, or the call between two frames."""

    __module__ = "roamlet.snapshot"  # where users find it


class BadSnapshot(SnapshotError, ValueError):
    """These bytes cannot be restored here: damaged, of another Python, or of other code. Nothing of them was used."""

    __module__ = "roamlet.snapshot"  # where users find it


class CannotWrite(SnapshotError, OSError):
    """A checkpoint was not written; the last good one is as it was. `errno` is that of the system, where there is one."""

    __module__ = "roamlet.snapshot"  # where users find it


class LeftOut(UserWarning):
    """Context variables that cannot be found again by name were left out of a snapshot; the message names them."""

    __module__ = "roamlet.snapshot"  # where users find it


class Copied(UserWarning):
    """A snapshot has a copy of what a module holds, which the module will not have where it is restored; the message names it."""

    __module__ = "roamlet.snapshot"  # where users find it
