"""checkpoint(): the part of it that has to be quick, which is to see that it is not time yet. Saving is in roamlet.snapshot."""

import os
from time import monotonic
from typing import Any

from roamlet._checkpoint_files import known
from roamlet.core import getcurrent


def checkpoint(path: "str | bytes | os.PathLike[Any]", every: float | None = None) -> bool:
    """Save the calling tasklet, with what it reaches, to the file `path`; `roamlet resume` goes on from there.

    Returns False when it goes on here, whether or not it has saved; True where the tasklet goes on from the file. With `every`, in
    seconds (a number >= 0), it saves at most that often: the first time at once, so that what cannot be saved shows early, and
    after a resumption when that much time has passed again. None: each time.

    The file is replaced as a whole or not at all, and is readable for its owner alone. A resumed tasklet goes on writing the file
    that it was resumed from. Blocks the thread while it writes and syncs the file; gives atomic up, as any blocking call. No
    other tasklet of the thread runs meanwhile.

    Raises CannotSave, a TypeError, for what cannot be saved (the main tasklet among it), CannotWrite, an OSError, when the file
    cannot be written or another process has written it: then the last good one is still there. After either the next call tries
    again. NoCore on the greenlet backend and on versions of CPython whose frames are not known.
    """
    if type(path) is not str:
        path = os.fspath(path)
    written = known.get((id(getcurrent()), path))
    if written is not None and every is not None and monotonic() - written.at < every:
        return False
    from roamlet.snapshot.saving.checkpoint import save  # takes 15 ms, which a process that never saves need not spend

    return save(path, every)
