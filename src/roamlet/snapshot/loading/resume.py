"""Going on from a checkpoint: resume()."""

import os
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from roamlet._checkpoint_files import known, noted
from roamlet.core import tasklet
from roamlet.snapshot._errors import BadSnapshot
from roamlet.snapshot.image import format
from roamlet.snapshot.image.file import identity_of
from roamlet.snapshot.loading import load

T = TypeVar("T")

IMPORTED = "__roamlet_main__"  # the script's __name__ while it is imported, so that its main guard is false


def resume(path: "str | bytes | os.PathLike[Any]") -> tasklet[Any]:
    """Restore the tasklet of a checkpoint, at the end of the calling thread's run queue; return it.

    It goes on when this tasklet next blocks or schedules, for example in roamlet.run(); roamlet.checkpoint() returns True in
    it, once. It goes on writing this file. None of its code runs before; modules that it names are imported. Reads a file of
    dumps(tasklet), too; then the tasklet is in the state that it was saved in.

    Functions of `__main__` come out of the file, as they were then, into the present `__main__`; globals that are there already
    are left alone, and classes must be there. `roamlet resume` does that by itself.

    Switches. Raises OSError when the file cannot be read, BadSnapshot, a ValueError, as loads() does. Resume only what you would
    load as a pickle.
    """
    return Source(path).resumed(load.Loader)


class Source:
    """A file that a job can go on from: its header has been checked, and nothing of it used."""

    def __init__(self, path: "str | bytes | os.PathLike[Any]") -> None:
        self.file: str = os.path.realpath(os.fsdecode(path))
        with open(self.file, "rb") as stream:
            self._identity = identity_of(os.fstat(stream.fileno()))
            data = self._named(lambda: format.read_file(stream))
        self.header: format.Header
        self.header, self._pickles = self._named(lambda: format.read(data))

    def resumed(self, reader: type[load.Loader]) -> tasklet[Any]:
        """Restore the job into the run queue."""
        job: tasklet[Any] = self._named(
            lambda: load.restore(self.header, self._pickles, reader=reader, wanted=_must_be_a_job)
        )
        path = self.header.about.get("path")
        if path is not None:
            written = noted(job, path, self.file)
            written.at, written.identity = monotonic(), self._identity
            known[id(job), path] = written
        if job.paused:
            job.insert()
        return job

    def _named(self, step: Callable[[], T]) -> T:
        """Errors say which file it is. No context manager: an error that is raised in the place of another is a cycle there."""
        try:
            return step()
        except BadSnapshot as error:
            raise BadSnapshot(f"{self.file}: {error}") from error


def _must_be_a_job(root: object) -> None:
    if not isinstance(root, tasklet):
        raise BadSnapshot(f"it holds a {type(root).__name__} and no tasklet: roamlet.snapshot.loads() reads such a one")
