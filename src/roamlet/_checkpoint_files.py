"""What is known of the files that the jobs of this process keep their checkpoints in: it is asked at each call of checkpoint()."""

import weakref
from typing import Any

from roamlet.core import tasklet


class Written:
    """What is known of the file that a job keeps its checkpoints in."""

    __slots__ = ("at", "file", "identity", "job")

    def __init__(self, job: "weakref.ref[tasklet[Any]]", file: str) -> None:
        self.job: weakref.ref[tasklet[Any]] = job
        self.file: str = file
        self.identity: tuple[int, ...] | None = None
        """Of the file as the job left it there; None: it has written none."""
        self.at: float = float("-inf")
        """When it was written, by the monotonic clock."""


known: dict[tuple[int, str | bytes], Written] = {}
"""By the id of the job and its own name for the file; each goes with its job."""


def noted(job: tasklet[Any], path: str | bytes, file: str) -> Written:
    """What is known of the file of a job, which calls it `path`. Entered in `known` it goes with the job."""
    key = id(job), path
    return Written(weakref.ref(job, lambda gone: known.pop(key, None) and None), file)
