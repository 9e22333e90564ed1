"""Running tasklets to bytes and back: dumps() and loads().

A tasklet that is new, paused, scheduled or blocked on a channel is saved in the middle of its function, and goes on from there in
another process of the same minor version of CPython (3.11 to 3.15), on a switching backend that sees frames (not greenlet).
pickle.dumps() does the same with one tasklet, or a channel where tasklets wait.

A snapshot is to be trusted like any pickle: loading it can run whatever its author wants. What is checked before anything is read
keeps accidents away, not attackers.
"""

import io
from collections.abc import Collection
from typing import Any

from roamlet.core import NoCore
from roamlet.snapshot import _native
from roamlet.snapshot._errors import BadSnapshot, CannotSave, CannotWrite, Copied, LeftOut, SnapshotError
from roamlet.snapshot.image import format
from roamlet.snapshot.loading import load
from roamlet.snapshot.loading.resume import resume

__all__ = ["BadSnapshot", "CannotSave", "CannotWrite", "Copied", "LeftOut", "SnapshotError", "dumps", "loads", "resume"]


def dumps(root: object, *, by_value: Collection[str] = ()) -> bytes:
    """Save an object with all tasklets and channels that can be reached from it.

    Tasklets that wait in a channel are saved with it, in their order, and with what they send. Nothing runs in any of them, and
    all of them stay as they are. Functions are saved by name, with a fingerprint of their code; by value those of `__main__` and of
    the modules named in `by_value`, with the globals that they use. Context variables and atomic depth are saved too;
    of an exception's traceback the text is saved, as a note. A context variable that is no module's attribute is left out, with
    the warning LeftOut. What an imported module holds is saved by its name there; where it is a value that can change, as a
    copy, with the warning Copied.

    Does not block or switch. Raises CannotSave, a TypeError, for what cannot be saved: it names the variable and its frame, or
    the call between two frames; NoCore on the greenlet backend and on versions of CPython whose frames are not known.
    """
    if isinstance(by_value, str):
        raise TypeError(f"by_value is a collection of module names: by_value=[{by_value!r}]")
    if not _native.known:
        raise NoCore(load.UNKNOWN)
    from roamlet.snapshot.saving.failures import save  # takes 1.3 ms, which a process that only loads need not spend
    from roamlet.snapshot.saving.saver import Saver, warn_of

    file = io.BytesIO()
    saver = Saver(file, by_value)
    save(saver, root)
    warn_of(saver.left_out, saver.copied, 2)
    return format.write(saver.table, file.getvalue())


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Restore what dumps() saved, in the calling thread. Returns a copy of the object that was saved.

    Tasklets are in the state they were saved in: blocked at their channels, paused, or at the end of this thread's run queue in the
    order they had. None of their code runs. Modules that the snapshot names are imported.

    Switches: each tasklet builds its frames itself. Raises BadSnapshot, a ValueError, before anything is used when the bytes are
    damaged, of another version or platform, or of other code than is here; RecursionError for a tasklet that is deeper than
    sys.setrecursionlimit() allows. Load a snapshot only from where you would load a pickle.
    """
    return load.load(data)


def _reduce(item: object) -> tuple[Any, ...]:
    """How pickle.dumps() saves a tasklet that has begun, or a channel where some wait: a snapshot inside the pickle."""
    return load.load_paused, (dumps(item),)
