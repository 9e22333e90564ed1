"""Offices on one machine, with an internet between them: to try networks in and to break. An app on roamlet's public names."""

from roamlet_lab.errors import CommandFailed, LabError, NotPossible
from roamlet_lab.lab import BuiltOffice, Lab, running
from roamlet_lab.layout import Office
from roamlet_lab.machine import Machine, Pings
from roamlet_lab.spaces import why_not

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
