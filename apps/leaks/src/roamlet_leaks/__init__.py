"""Finds the exceptions that keep memory alive: `roamlet_leaks.running` in a running program, `roamlet_leaks.check` in sources.

Both report `Finding`s. `CASES` lists the ways in which exceptions keep memory, each with how it is mended. Needs nothing but the
standard library.
"""

from roamlet_leaks.cases import CASES, Case
from roamlet_leaks.finding import Finding, Keeps

__version__ = "0.1.0"

__all__ = ["CASES", "Case", "Finding", "Keeps"]
