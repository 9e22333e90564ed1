"""The tasklets of another process, or of one that has died, read from its memory: nothing runs in it. Standard library alone."""

from roamlet.diagnose.outside.errors import CannotRead
from roamlet.diagnose.outside.reading import read_core, read_process

__all__ = ["CannotRead", "read_core", "read_process"]
