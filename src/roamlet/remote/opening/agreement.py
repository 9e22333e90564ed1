"""What is agreed with a target before the first call: whose copies of packages count, and whether its calls are tasklets."""

from roamlet.remote import modules
from roamlet.remote.base.deadlines import remaining
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.request import Request
from roamlet.remote.errors import ConnectError, ConnectTimeout, ContextClosed, NoTasklets, RemoteError, VersionConflict
from roamlet.wire.modules import versions

PART = "calls.tasklets"


def agree_on_versions(calls: Calls, policy: modules.Modules, deadline: float) -> None:
    """Decide about packages that are to be "newer" or "same", for what is sent from then on.

    Costs a round trip if there is something to decide. Blocks this tasklet only. Raises VersionConflict,
    ConnectTimeout when `deadline` passes first, else what the link's end raises.
    """
    packages = calls.facts.packages
    names = modules.asked_about(policy, packages)
    if not names:
        return
    try:
        calls.shipping.need("modules.versions", deadline)
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


def start_tasklets(calls: Calls, timeout: float, deadline: float, *, has_core: bool) -> None:
    """Send roamlet's own core, unless it is there, and wait until it runs calls. Blocks this tasklet only.

    Raises NoTasklets when it cannot run there, ConnectTimeout when `deadline` passes first, else what the link's end raises.
    """
    try:
        if has_core:
            calls.shipping.need(PART, deadline)
        else:
            calls.shipping.send_bundle(modules.core(calls.facts.for_extensions), PART, deadline)
        calls.run(Request.to_payload("roamlet.wire.calls.tasklets", "ready"), timeout, deadline)
        return
    except TimeoutError:
        problem = None
    except ContextClosed:
        raise
    except (RemoteError, ImportError) as error:
        problem = str(error)
    if problem is None:  # raised out here, so that the error holds no other one with its frames
        raise ConnectTimeout(
            f"roamlet's core was not ready in {calls.name!r} in time.\n"
            "    Some 300 kB go there first: if the connection is slow, give a longer timeout="
        )
    raise NoTasklets(
        f"calls in {calls.name!r} cannot be tasklets: {problem}\n"
        "    Without tasklets=True its calls run on threads, which any Python can do."
    )
