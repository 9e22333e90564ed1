"""What a function needs on the target: its name, its modules in one bundle, and the names that are known to be absent.

The parent's side only, and nothing in it sends or executes anything: `name_of` and `code_of` say what to call, `plan`
what to push before the call, `pull` what to answer to a target that asks. roamlet.wire holds the other side.
"""

from roamlet.remote.modules.bounded import trim
from roamlet.remote.modules.bundle import Bundle, plan, pull
from roamlet.remote.modules.core import core, snapshot
from roamlet.remote.modules.finding.distributions import owner_of
from roamlet.remote.modules.finding.sources import Missing
from roamlet.remote.modules.finding.versions import asked_about, decided, versions_here
from roamlet.remote.modules.functions import FunctionName, code_of, name_of
from roamlet.remote.modules.main_script import has_guard, name_on_target, script
from roamlet.remote.modules.native.extensions import why_not
from roamlet.remote.modules.native.platforms import Platform
from roamlet.remote.modules.native.shared import SMALL, Extension, Piece, SharedFile, form_for
from roamlet.remote.modules.policy import Modules, packers_of

__all__ = [
    "SMALL",
    "Bundle",
    "Extension",
    "FunctionName",
    "Missing",
    "Modules",
    "Piece",
    "Platform",
    "SharedFile",
    "asked_about",
    "code_of",
    "core",
    "decided",
    "form_for",
    "has_guard",
    "name_of",
    "name_on_target",
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
