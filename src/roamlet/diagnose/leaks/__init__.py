"""Finds the exceptions that keep memory alive in the program that runs: `find()` now, `watch()` around a piece of it.

Two kinds: cycles through tracebacks, which only the cyclic collector frees, and exceptions that something alive holds together with
the frames of functions that have ended. The static form, which reads sources, is `roamlet.diagnose.check`.
"""

from roamlet.diagnose.leaks._watch import Watch, find, report, watch

__all__ = ["Watch", "find", "report", "watch"]
