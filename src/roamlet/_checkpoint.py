"""checkpoint(): the part of it that has to be quick, which is to see that it is not time yet. Saving is in roamlet.snapshot."""

import os
import weakref
from time import monotonic
from typing import Any

from roamlet.core import getcurrent, tasklet


class Written:
    """What is known of the file that a job keeps its checkpoints in."""

    __slots__ = ("at", "file", "identity", "job")

    def __init__(self, job: "weakref.ref[tasklet[Any]]", file: str) -> None:
        self.job = job
        self.file = file
        self.identity: tuple[int, ...] | None = None
        """Of the file as the job left it there; None: it has written none."""
        self.at = float("-inf")
        """When it was written, by the monotonic clock."""


known: dict[tuple[int, str | bytes], Written] = {}
"""By the id of the job and its own name for the file; each goes with its job."""


def noted(job: tasklet[Any], path: str | bytes, file: str) -> Written:
    """What is known of the file of a job, which calls it `path`. Entered in `known` it goes with the job."""
    key = id(job), path
    return Written(weakref.ref(job, lambda gone: known.pop(key, None) and None), file)


def checkpoint(path: "str | bytes | os.PathLike[Any]", every: float | None = None) -> bool:
    """Save the calling tasklet, with what it reaches, to the file `path`; `roamlet resume` goes on from there.

    Returns False when it goes on here, whether or not it has saved; True where the tasklet goes on from the file. With `every`, in
    seconds (a number >= 0), it saves at most so often: the first time at once, so that what cannot be saved shows early, and after
    a resumption when so much time has passed again. None: each time.

    The file is replaced as a whole or not at all, and is readable for its owner alone. A resumed tasklet goes on writing the file
    that it was resumed from. Blocks the thread while it writes and syncs the file; gives atomic up, as any blocking call. No
    other tasklet of the thread runs meanwhile.

    Raises CannotSave, a TypeError, for what cannot be saved (the main tasklet among it), CannotWrite, an OSError, when the file
    cannot be written or somebody else has written it: then the last good one is still there. After either the next call tries
    again. NoCore on the greenlet backend and on versions of CPython whose frames are not known.
    """
    if type(path) is not str:
        path = os.fspath(path)
    written = known.get((id(getcurrent()), path))
    if written is not None and every is not None and monotonic() - written.at < every:
        return False
    from roamlet.snapshot.saving.checkpoint import save  # takes 15 ms, which who never saves need not spend

    return save(path, every)
