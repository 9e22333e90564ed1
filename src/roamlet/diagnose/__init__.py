"""Tools that say what is wrong with a program. `roamlet.diagnose.leaks` finds the exceptions that keep memory alive while it runs.

What the tools share stands here: `Finding`, one place and what to do about it, `Keeps`, what it keeps alive, and `CASES`, the ways
in which exceptions keep memory, each with its mend.
"""

from roamlet.diagnose._cases import CASES, Case
from roamlet.diagnose._finding import Finding, Keeps

__all__ = ["CASES", "Case", "Finding", "Keeps"]
