"""Two versions of one package: often why a name is missing on the target that is here. Said in the error then."""

import re

from roamlet.remote import modules
from roamlet.remote.calls.engine import Calls
from roamlet.remote.errors import RemoteError
from roamlet.wire.modules import versions

# What Python reports of a missing module, of a missing name in a module, and of a module without an attribute.
NAMED = re.compile(r"(?:from|[Nn]o module named|module) '([A-Za-z_]\w*)")
PATIENCE = 5.0  # seconds for the question


def say_versions(calls: Calls, error: ImportError | AttributeError) -> None:
    """Add to the error which package that it names has another version on the target, and what to do.

    Blocks this tasklet for a round trip if it names one that both sides have; raises nothing.
    """
    names = sorted(set(NAMED.findall(str(error))) & calls.facts.packages)
    ours = modules.versions_here(names)
    if not ours:
        return
    try:
        calls.shipping.need("modules.versions")
        theirs = calls.call(versions.versions, (sorted(ours),), timeout=PATIENCE)
    except RemoteError:  # then it is not known
        return
    if not isinstance(theirs, dict):
        return
    for name, here in ours.items():
        there = theirs.get(name)
        if type(there) is str and there != here:
            _add(
                error,
                f"{name} is {there:.40} on the target and {here} here, and code there uses its own copy, unless modules="
                "Modules(prefer=...) says otherwise.\n    Install the same version on both sides, or write what both know.",
            )


def _add(error: ImportError | AttributeError, text: str) -> None:
    if isinstance(error, RemoteError):
        error.args = (f"{error}\n    {text}",)
        if isinstance(error, ImportError):
            error.msg = error.args[0]  # which is its text
    else:
        error.add_note(text)
