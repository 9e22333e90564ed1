"""When the calls of a target ran, and what its tasklets did meanwhile: sent to a context while its parent takes a trace.

Notes each call where the pool of threads, or of tasklets, runs it: no call is changed, and the protocol is the same.
"""

import os
import sys
import time

MOST = 100000  # calls that are kept; those after them are counted

_clock = getattr(time, "monotonic_ns", None) or (
    lambda: int(getattr(time, "monotonic", time.time)() * 1000000000)  # 2.7 and 3.6
)
_times = None


class Times(object):
    """Begin and end of calls, by their numbers."""

    def __init__(self, pool):
        self.done = []
        self.lost = 0
        self._begun = {}
        self._answer = pool._answer
        self._pool = pool
        self.on = False

    def begin(self):
        if not self.on:
            self.on = True
            self._pool._run, self._pool._answer = self.run, self.answer

    def end(self):
        self.on = False
        del self._pool._run, self._pool._answer

    def run(self, frame):
        self._begun[frame[1], frame[2]] = _clock()
        type(self._pool)._run(self._pool, frame)  # looked up now: see roamlet.wire.calls.traced

    def answer(self, frame, kind, body):
        begun = self._begun.pop((frame[1], frame[2]), None)
        if begun is not None:
            if len(self.done) < MOST:
                self.done.append((frame[2], begun, _clock()))
            else:
                self.lost += 1
        self._answer(frame, kind, body)


def _core():
    """roamlet's core, None where it was not sent."""
    core = sys.modules.get("roamlet.core._core")
    return core if hasattr(core, "trace_start") else None


def start(events):
    """Begin to note; return this process's clock in ns and its number."""
    _times.begin()
    core = _core()
    if core is not None:
        folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        folder = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) or folder
        try:
            core.trace_start("" + folder + os.sep, events)
        except RuntimeError:
            pass  # its own code takes a trace
    return _clock(), os.getpid()


def stop():
    """End it; return the clock, (number, begin, end) of each call, how many are lost, and what the core has recorded or None."""
    if _times.on:
        _times.end()
    done, _times.done = _times.done, []
    core, raw = _core(), None
    if core is not None:
        try:
            raw = core.trace_stop()
        except RuntimeError:
            pass
    return _clock(), done, _times.lost, raw


def install(child):
    global _times  # noqa: PLW0603 - the process is the context
    _times = Times(child.pool)
