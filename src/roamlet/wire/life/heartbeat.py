"""A target that ends by itself when its parent has said nothing for too long, though the link is not broken.

Costs one wake-up for each time that the parent asks whether this side is there, and none where no heartbeat was asked for.
"""

import os
import threading
import time

from roamlet.wire.link import link

# 2.7 has only the other one, which cannot be set either: seconds since the system was started.
_clock = getattr(time, "monotonic", lambda: os.times()[4])
_watch = None


class Watch(object):
    """Notes when something came, and ends the process when nothing has for `seconds`; None: however long."""

    def __init__(self, child):
        self.seconds = None
        self._child = child
        self._changed = threading.Event()
        self._last = _clock()
        self._read = child._link.read
        child._link.read = self._came
        link.start_thread("roamlet-heartbeat", self._run)

    def _came(self):
        frames = self._read()
        self._last = _clock()
        return frames

    def expect(self, seconds):
        self.seconds = seconds
        self._last = _clock()
        self._changed.set()

    def _run(self):
        while True:
            self._changed.wait()
            self._changed.clear()
            while self.seconds is not None:
                left = self._last + self.seconds - _clock()
                if left < 0:
                    self._child.life.end(False, "the parent has said nothing for %g seconds" % self.seconds)
                    return
                time.sleep(max(left, self.seconds / 4.0))


def expect(seconds):
    """From now on, end this process when nothing has come for so many seconds; None: no longer."""
    _watch.expect(seconds)


def install(child):
    global _watch  # noqa: PLW0603 - the process is the context
    _watch = Watch(child)
