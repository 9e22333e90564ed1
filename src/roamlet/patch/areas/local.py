"""The area `local`: threading.local belongs to the tasklet. What was made before belongs to the thread, as ever."""

import threading

import roamlet.sync
from roamlet.patch.changes import Changes


def apply(changes: Changes) -> None:
    """Replace threading.local by the class for tasklets. `_thread._local` stays the one of threads."""
    changes.replace(threading, "local", roamlet.sync.local)
