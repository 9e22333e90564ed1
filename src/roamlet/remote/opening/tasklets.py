"""Bringing roamlet's own core to a context, so that its calls are tasklets."""

from roamlet.remote import modules
from roamlet.remote.base.deadlines import remaining
from roamlet.remote.base.facts import Facts
from roamlet.remote.errors import ConnectTimeout, ContextClosed, NoTasklets, RemoteError
from roamlet.remote.link.link import Link
from roamlet.remote.shipping.shipping import Shipping
from roamlet.remote.values import answers
from roamlet.wire import codec

PART = "tasklets"


def start(shipping: Shipping, link: Link, facts: Facts, deadline: float, *, has_core: bool) -> None:
    """Send the core, unless it is there, and wait until it runs calls. Blocks this tasklet only.

    Raises NoTasklets when it cannot run there, ConnectTimeout when `deadline` passes first, else what the link's end raises.
    """
    try:
        if has_core:
            shipping.need(PART, deadline)
        else:
            shipping.send_bundle(modules.core(facts.for_extensions), PART, deadline)
        text = "roamlet.wire.tasklets.ready"
        _, waiter = link.ask(text, b"", codec.dumps(("roamlet.wire.tasklets", "ready", (), None)), deadline)
        answers.value(waiter.wait(remaining(deadline)), link.name, facts, text)
        return
    except TimeoutError:
        problem = None
    except ContextClosed:
        raise
    except (RemoteError, ImportError) as error:
        problem = str(error)
    if problem is None:  # raised out here, so that the error holds no other one with its frames
        raise ConnectTimeout(
            f"roamlet's core was not ready in {link.name!r} in time.\n"
            "    Some 300 kB go there first: if the connection is slow, give a longer timeout="
        )
    raise NoTasklets(
        f"calls in {link.name!r} cannot be tasklets: {problem}\n"
        "    Without tasklets=True its calls run on threads, which any Python can do."
    )
