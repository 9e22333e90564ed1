"""Saving the tasklet that runs: what roamlet.checkpoint() does when it is time."""

import errno
import io
import math
import os
import sys
from time import monotonic
from typing import Any

from roamlet._checkpoint_files import Written, known, noted
from roamlet.core import NoCore, getcurrent, tasklet
from roamlet.snapshot import _native
from roamlet.snapshot._errors import CannotSave
from roamlet.snapshot.image import format
from roamlet.snapshot.image.file import cannot_write, replace
from roamlet.snapshot.loading import load
from roamlet.snapshot.loading.resume import IMPORTED
from roamlet.snapshot.saving.about import about
from roamlet.snapshot.saving.failures import save as save_graph
from roamlet.snapshot.saving.saver import Saver, warn_of
from roamlet.snapshot.state import Captured, Flag, Wait

RESUMED = (True,)  # what checkpoint() returns in a copy
_OURS = {"roamlet._checkpoint", __name__}
_TO_THE_JOB = 4  # frames, from where warnings are given to the caller of checkpoint()


def save(path: str | bytes, every: float | None) -> bool:
    """Save the calling tasklet to its file. Returns False; in a copy checkpoint() returns True."""
    _check(every)
    if not _native.known:
        raise NoCore(load.UNKNOWN)
    if getattr(sys.modules.get("__main__"), "__name__", None) == IMPORTED:
        raise CannotSave(
            "cannot save a job that begins while its script is imported, so that another can go on: let it begin under "
            'if __name__ == "__main__":'
        )
    job = getcurrent()
    written = known.get((id(job), path)) or _first(job, path)
    replace(written, _taken(job, path))
    written.at = monotonic()
    known[id(job), path] = written
    return False


def _check(every: float | None) -> None:
    if every is None:
        return
    if isinstance(every, bool) or not isinstance(every, (int, float)):
        raise TypeError(f"checkpoint() takes `every` as a number of seconds, or None for each time, not {every!r}")
    if not (every >= 0 and math.isfinite(every)):
        raise ValueError(f"checkpoint(every={every!r}): give a number of seconds >= 0, for example every=60")


def _first(job: tasklet[Any], path: str | bytes) -> Written:
    file = os.path.realpath(os.fsdecode(path))
    for each in list(known.values()):
        other = each.job()
        if each.file == file and other is not None and other is not job and other.alive:
            raise cannot_write(file, f"{other!r} keeps its own there. Give each job a file of its own", errno.EBUSY)
    return noted(job, path, file)


# ---- only frames of tasklets that do not run can be read: another tasklet reads those of the job ----


class _CheckpointSaver(Saver):
    """Writes the job as if checkpoint() had just returned True in it: of our own frames nothing is saved."""

    def __init__(self, file: io.BytesIO, job: tasklet[Any]) -> None:
        super().__init__(file)
        self.job = job
        self.classes: set[str] = set()  # of __main__

    def resolve(self, function: Any) -> Any:
        return None if function.__module__ in _OURS else super().resolve(function)

    def capture(self, item: tasklet[Any]) -> tuple[Any, ...]:
        captured = Captured._make(super().capture(item))
        records = captured.records or []
        ours = next((number for number, (function, *_) in enumerate(records) if function is None), None)
        if item is not self.job:
            if ours is not None:
                raise CannotSave(f"cannot save {item!r}: it is about to write a checkpoint of its own")
            return captured
        del records[ours:]
        if not records:
            raise CannotSave(
                f"cannot save {item!r}: it runs nothing but checkpoint(), so there is nothing to go on with"
            )
        stage, function, args, kwargs, context, _, _, _, flags, depth, _, _, _, _, handled = captured
        waits = Wait(0, None, None, flags & Flag.ATOMIC, depth)
        return Captured(stage, function, args, kwargs, context, *waits, records, -1, -1, RESUMED, handled)

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, type) and item.__module__ == "__main__":
            self.classes.add(item.__qualname__)
        return super().reducer_override(item)


def _taken(job: tasklet[Any], path: str | bytes) -> bytes:
    """The bytes of the calling tasklet's checkpoint. Switches, to a tasklet that comes back at once."""
    box: list[Any] = [job, path]
    taker = tasklet(_take, (box,))
    taker.set_atomic(True)  # no other tasklet may change what is being saved
    taker.run()
    if taker.alive:
        taker.kill()
        raise CannotSave(f"cannot save {job!r}: something that it reaches switches tasklets while it is pickled")
    (result,) = box
    try:
        if isinstance(result, BaseException):
            raise result
        data: bytes = result[0]
        warn_of(result[1], result[2], _TO_THE_JOB)
        return data
    finally:
        del result, box[:]


def _take(box: list[Any]) -> None:
    try:
        job, path = box
        file = io.BytesIO()
        saver = _CheckpointSaver(file, job)
        save_graph(saver, job)
        data = format.write(saver.table, file.getvalue(), about(saver, path, saver.classes))
        box[:] = [(data, saver.left_out, saver.copied)]
    except BaseException as error:
        box[:] = [error]
    finally:
        del box
