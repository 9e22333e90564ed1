"""Tools that say what is wrong with a program. `weft.diagnose.leaks` finds the exceptions that keep memory alive while it runs.

What the tools share stands here: `Finding`, one place and what to do about it, `Keeps`, what it keeps alive, and `CASES`, the ways
in which exceptions keep memory, each with its mend.
"""

from weft.diagnose._cases import CASES, Case
from weft.diagnose._finding import Finding, Keeps

__all__ = ["CASES", "Case", "Finding", "Keeps"]
