"""Offices on one machine, with an internet between them: to try networks in, and to break them. An app on weft's public names."""

from weft_lab.errors import CommandFailed, LabError, NotPossible
from weft_lab.lab import BuiltOffice, Lab, running
from weft_lab.layout import Office
from weft_lab.machine import Machine, Pings
from weft_lab.spaces import why_not

__all__ = [
    "BuiltOffice",
    "CommandFailed",
    "Lab",
    "LabError",
    "Machine",
    "NotPossible",
    "Office",
    "Pings",
    "running",
    "why_not",
]

__version__ = "0.1.0"
