"""`roamlet leaks --check`: finds in source text, without running it, the exceptions that keep memory alive.

Every function is followed on its own, along all its ways: what it still holds when it ends, of exceptions whose traceback has its
frame, is a finding. What a function does for its callers, or gets from those it calls, is not looked at.
"""

from roamlet.diagnose.check._files import Unreadable, check_paths
from roamlet.diagnose.check._source import check_source

__all__ = ["Unreadable", "check_paths", "check_source"]
