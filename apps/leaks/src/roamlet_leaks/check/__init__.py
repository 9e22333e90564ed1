"""`roamlet leaks --check`: finds the exceptions that keep memory alive in source text, without running it.

Each function is followed on its own, along all its paths: exceptions that it still holds when it ends, and whose traceback contains
its frame, are findings. What a function does for its callers, and what it gets from the functions that it calls, is not followed.
"""

from roamlet_leaks.check.files import Unreadable, check_paths
from roamlet_leaks.check.source import check_source

__all__ = ["Unreadable", "check_paths", "check_source"]
