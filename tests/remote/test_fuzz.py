"""Random frames from a hostile child, fed to a link without a process: each is taken, or is one of the errors that close it."""

import collections
import random
import threading
from types import SimpleNamespace

import pytest

from roamlet.remote.link.inflight import InFlight
from roamlet.remote.link.link import Link
from roamlet.remote.link.output import Output
from roamlet.wire import codec, protocol
from roamlet.wire.values import large_messages
from tests.wire.damage import damaged
from tests.wire.test_fuzz import seeds

pytestmark = pytest.mark.filterwarnings("ignore:The 'u' type code:DeprecationWarning")

INPUTS = 25_000
NAMES = [codec.dumps(name) for name in ("json.x", "os", "", "../../etc/passwd", "a" * 600)]
RECORD = codec.dumps(("a", 10, "text", 1.5, "file", 3, "thread", None))


class Waiter:
    """It takes any outcome of a call."""

    def succeed(self, answer):
        self.answer = answer

    fail = succeed


def link_of(number):
    link = object.__new__(Link)
    link.identifier = number
    link.name = "hostile"
    link.hello = None
    link.greeted = SimpleNamespace(set=lambda: None)
    link.on_want = lambda number, name: None
    link.on_piece = lambda number: None
    link.channels = SimpleNamespace(take=lambda number, body: codec.loads(body))
    link.output = object.__new__(Output)
    link.output.text = link.output.record = link.output.say = lambda *args, **fields: None
    link.in_flight = InFlight(threading.Lock())
    link.in_flight.largest_result = 5_000
    link.sender = SimpleNamespace(has_room=True)
    link._inline = None
    link.send_at_once = lambda frame: None
    return link


def fuzz_frames(inputs, seed):
    chance = random.Random(seed)
    sound = [*seeds(), *NAMES, RECORD, large_messages._LAYOUT.pack(8, 0), large_messages._LAYOUT.pack(1 << 60, 4000)]
    outcomes = collections.Counter()
    link = link_of(7)
    for _ in range(inputs):
        link.in_flight.calls.setdefault(3, (Waiter(), "work.f"))
        kind = chance.choice(
            (chance.randrange(256), chance.randrange(1, protocol.LAST_KIND + 1), 6 | protocol.KIND_MORE)
        )
        source, destination = chance.choice(((7, 0), (7, 0), (7, 0), (8, 0), (7, 7), (0, 0)))
        body = chance.choice(sound) if chance.random() < 0.5 else damaged(chance, sound)
        try:
            link._take(destination, source, chance.choice((0, 1, 3, 2**32 - 1)), kind, body)
            assert (source, destination) == (7, 0)
            outcomes["taken"] += 1
        except (protocol.WireError, ValueError):
            outcomes["refused"] += 1
            link.in_flight._arriving.clear()  # a link that has refused something is closed
        assert sum(arrival.size for arrival in link.in_flight._arriving.values()) <= 5_000
    return outcomes


@pytest.mark.parametrize("seed", [1, 2])
def test_frames_of_a_hostile_child(seed):
    outcomes = fuzz_frames(INPUTS, seed)
    assert min(outcomes["taken"], outcomes["refused"]) > 1000, outcomes
