"""Bringing roamlet's own core to a context, so that its calls are tasklets."""

from roamlet.remote import modules
from roamlet.remote.calls.engine import Calls
from roamlet.remote.calls.request import Request
from roamlet.remote.errors import ConnectTimeout, ContextClosed, NoTasklets, RemoteError

PART = "calls.tasklets"


def start(calls: Calls, timeout: float, deadline: float, *, has_core: bool) -> None:
    """Send the core, unless it is there, and wait until it runs calls. Blocks this tasklet only.

    Raises NoTasklets when it cannot run there, ConnectTimeout when `deadline` passes first, else what the link's end raises.
    """
    try:
        if has_core:
            calls.need(PART, deadline)
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
