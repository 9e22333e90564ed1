"""Finds the exceptions that keep memory alive in the running program: `find()` now, `watch()` around a part of it.

There are two kinds: cycles through tracebacks, which only the cyclic collector frees, and exceptions that a living object holds
together with the frames of functions that have ended. `roamlet_leaks.check` finds them in source text.
"""

from roamlet_leaks.running.watch import Watch, find, report, watch

__all__ = ["Watch", "find", "report", "watch"]
