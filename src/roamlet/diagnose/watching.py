"""The watch for tasklets that keep their thread: a log record with the stack of each one that lets no other run for too long.

A thread of its own looks at all threads at intervals. Tasklets pay nothing: the core counts where they let others run in any case.
"""

import logging
import sys
import time
import traceback
from types import FrameType
from typing import Any

from roamlet import core
from roamlet.diagnose.asking import name_of
from roamlet.diagnose.background import Background

SHORTEST, LONGEST = 0.002, 3600.0  # seconds, of a limit
LOOKS = 2  # in each limit
DEEPEST = 50  # frames that a record shows

_log = logging.getLogger("roamlet.diagnose")


class Watch:
    """A running watch. stop() ends it, as leaving it as a context manager does."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.seen: int = 0  # how often a tasklet was found to keep its thread for longer than `limit`
        self._held: dict[int, _Held] = {}  # by the thread's id
        self._background = Background(self._look, limit / LOOKS)
        self._background.start()

    def stop(self) -> None:
        """Look no more. Idempotent; thread-safe."""
        self._background.stop()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *args: Any) -> None:
        self.stop()

    def _look(self) -> float:
        now = time.monotonic()
        before, self._held = self._held, {}
        for entry in core.survey(False):
            thread, _, current, _, runnable, timers, waits, _, _, count, service, others, *_ = entry
            held = before.pop(thread, None)
            if held is not None and (held.tasklet != id(current) or held.count != count):
                held.ends(now, self.limit)
                held = None
            if current is None or service or not others:
                continue
            if held is None:
                held = _Held(thread, current, count, now)
            self._held[thread] = held
            if not held.told and now - held.since >= self.limit:
                self.seen += 1
                held.tell(now, self.limit, runnable - 1, timers + waits)
        for held in before.values():
            held.ends(now, self.limit)
        del entry, current
        return self.limit / LOOKS


class _Held:
    """A tasklet that runs, since the look that found it first. It does not refer to it: that would keep it alive."""

    def __init__(self, thread: int, tasklet: "core.tasklet[...]", count: int, since: float) -> None:
        self.thread = thread
        self.tasklet = id(tasklet)
        self.count = count
        self.since = since
        self.name = "main" if tasklet.is_main else name_of(tasklet)
        self.told = False

    def tell(self, now: float, limit: float, runnable: int, waits: int) -> None:
        self.told = True
        frame = sys._current_frames().get(self.thread)
        _log.warning(
            "%s (%#x) has kept thread %#x for %.3f s, the limit is %g s; %d other tasklets could run, %d timers and waits are not "
            "looked at:\n%s",
            *(self.name, self.tasklet, self.thread, now - self.since, limit, max(runnable, 0), waits, _stack(frame)),
        )

    def ends(self, now: float, limit: float) -> None:
        if self.told:
            _log.warning(
                "%s (%#x) has let go of thread %#x after about %.3f s",
                self.name,
                self.tasklet,
                self.thread,
                now - self.since,
            )


def _stack(frame: FrameType | None) -> str:
    if frame is None:
        return "  (its thread has ended)"
    return "".join(traceback.format_list(traceback.extract_stack(frame, DEEPEST))).rstrip()


def watch(limit: float = 0.1) -> Watch:
    """Log a warning, with the stack, when a tasklet keeps its thread for longer than `limit` seconds (float, 0.002 to 3600).

    To the logger "roamlet.diagnose", once each time, and once more when it lets go. Threads without other tasklets are left
    out: nothing waits for them. A tasklet that keeps the GIL in C is seen when it gives it back. Returns a Watch: stop() ends
    it, and so does leaving it as a context manager.
    """
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not SHORTEST <= limit <= LONGEST:
        raise ValueError(f"watch() takes a number of seconds from {SHORTEST} to {LONGEST:g}, not {limit!r}")
    return Watch(float(limit))
