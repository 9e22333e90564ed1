"""Whose copy of a package counts where its version decides: the target is asked once, while the context is opened."""

from roamlet.remote import modules
from roamlet.remote.base.deadlines import remaining
from roamlet.remote.calls.engine import Calls
from roamlet.remote.errors import ConnectError, ConnectTimeout, VersionConflict
from roamlet.wire.modules import versions


def agree(calls: Calls, policy: modules.Modules, deadline: float) -> None:
    """Decide about "newer" and "same", which holds for what is sent from then on.

    Costs a round trip if there is something to decide. Blocks this tasklet only. Raises VersionConflict,
    ConnectTimeout when `deadline` passes first, else what the link's end raises.
    """
    packages = calls.facts.packages
    names = modules.asked_about(policy, packages)
    if not names:
        return
    try:
        calls.need("modules.versions", deadline)
        theirs: object = calls.call(versions.versions, (names,), timeout=remaining(deadline))
    except TimeoutError:
        theirs = None
    if theirs is None:  # raised out here, so that the error holds no other one with its frames
        raise ConnectTimeout(
            f"{calls.name!r} did not tell its versions of {', '.join(names)} in time: give a longer timeout="
        )
    if not isinstance(theirs, dict) or not all(type(part) is str for pair in theirs.items() for part in pair):
        raise ConnectError(f"{calls.name!r} answered the question for its versions with something else")
    decided, conflicts = modules.decided(policy, names, theirs)
    if conflicts:
        raise VersionConflict(
            f"the context {calls.name!r} was not opened, because the versions differ: {'; '.join(conflicts)}.\n"
            '    It was to be opened with Modules(prefer=...) as "same". Install the same version on the target, or say whose '
            'counts: "target", "parent" or "newer".'
        )
    calls.shipping.follow(decided, packages)
