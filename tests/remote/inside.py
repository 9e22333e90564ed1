"""What tests of the rooms below Context need of a context: the only file of the tests that knows where it keeps them."""

from roamlet import remote
from roamlet.remote.calls.engine import Calls
from roamlet.remote.link.link import Link


def calls_of(context: remote.Context) -> Calls:
    return context._calls


def link_of(context: remote.Context) -> Link:
    return calls_of(context).link


def receives(context: remote.Context) -> bool:
    """Whether a call in the context waits to receive from a channel of this process."""
    return any(channel.pumping for channel in link_of(context).channels._served.values())
