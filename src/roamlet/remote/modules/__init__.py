"""What a function needs over there: its name, its modules in one bundle, and the names that are known to be absent.

The parent's side only, and nothing in it sends or executes anything: `name_of` and `code_of` say what to call, `plan`
what to push before the call, `pull` what to answer to a target that asks. roamlet.wire holds the other side.
"""

from .bundle import Bundle, plan, pull, trim
from .core import core, snapshot
from .distributions import owner_of
from .extensions import why_not
from .functions import FunctionName, code_of, name_of
from .main_script import has_guard, name_over_there, script
from .platforms import Platform
from .policy import Modules, packers_of
from .shared import SMALL, Extension, SharedFile
from .sources import Missing
from .versions import asked_about, decided, versions_here

__all__ = [
    "SMALL",
    "Bundle",
    "Extension",
    "FunctionName",
    "Missing",
    "Modules",
    "Platform",
    "SharedFile",
    "asked_about",
    "code_of",
    "core",
    "decided",
    "has_guard",
    "name_of",
    "name_over_there",
    "owner_of",
    "packers_of",
    "plan",
    "pull",
    "script",
    "snapshot",
    "trim",
    "versions_here",
    "why_not",
]
