"""Whose copy of a package counts where its version decides: the target is asked once, while the context is opened."""

from roamlet.remote import modules
from roamlet.remote.base.deadlines import remaining
from roamlet.remote.base.facts import Facts
from roamlet.remote.errors import ConnectError, ConnectTimeout, VersionConflict
from roamlet.remote.link.link import Link
from roamlet.remote.shipping.shipping import Shipping
from roamlet.remote.values import answers
from roamlet.wire import codec

PART = "versions"


def agree(shipping: Shipping, link: Link, facts: Facts, policy: modules.Modules, deadline: float) -> None:
    """Decide about "newer" and "same" and let `shipping` keep to it. Costs a round trip if there is something to decide.

    Blocks this tasklet only. Raises VersionConflict, ConnectTimeout when `deadline` passes first, else what the link's end raises.
    """
    names = modules.asked_about(policy, facts.packages)
    if not names:
        return
    text = "roamlet.wire.versions.versions"
    try:
        shipping.need(PART, deadline)
        _, waiter = link.ask(text, b"", codec.dumps(("roamlet.wire.versions", "versions", (names,), None)), deadline)
        theirs = answers.value(waiter.wait(remaining(deadline)), link.name, facts, text)
    except TimeoutError:
        theirs = None
    if theirs is None:  # raised out here, so that the error holds no other one with its frames
        raise ConnectTimeout(
            f"{link.name!r} did not tell its versions of {', '.join(names)} in time: give a longer timeout="
        )
    if not isinstance(theirs, dict) or not all(type(part) is str for pair in theirs.items() for part in pair):
        raise ConnectError(f"{link.name!r} answered the question for its versions with something else")
    decided, conflicts = modules.decided(policy, names, theirs)
    if conflicts:
        raise VersionConflict(
            f"the context {link.name!r} was not opened, because the versions differ: {'; '.join(conflicts)}.\n"
            '    It was to be opened with Modules(prefer=...) as "same". Install the same version over there, or say whose '
            'counts: "target", "parent" or "newer".'
        )
    shipping.follow(decided, facts.packages)
