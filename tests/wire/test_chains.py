"""What a target does with CHAIN frames that a parent of ours sends in no test of its own."""

import sys
import threading
from types import SimpleNamespace

import pytest

from roamlet.wire import codec, protocol
from roamlet.wire.calls import calls, chains, tasklets
from tests.wire.target import CONTEXT, Ended, send_part

WORK = """
import gc

noted = []

def wait_a_moment():
    import release  # which waits until that comes

def note(value):
    noted.append(value)
    return list(noted)

def remembered():
    known = [thing for thing in gc.get_objects() if type(thing).__name__ == "Chains"][0]
    return len(known._chains), len(known._members)
"""


@pytest.fixture
def work(start):
    target = start(sys.executable, max_threads=2)  # one reads, one runs calls
    send_part(target, "calls.chains")
    target.modules({"work": WORK})
    return target


def joining(chain, number, value):
    """The frames of a call in a chain."""
    join = protocol.frame(CONTEXT, 0, number, protocol.CHAIN, chains.VERB.pack(chains.JOIN, chain))
    call = codec.dumps(("work", "note", (value,), None))
    return join + protocol.frame(CONTEXT, 0, number, protocol.CALL, call)


def over(target, chain):
    target.send(protocol.CHAIN, 0, chains.VERB.pack(chains.OVER, chain))


def test_a_call_whose_turn_has_come_and_that_waits_for_a_thread_is_dropped_with_those_behind_it(work):
    held = work.begin("work:wait_a_moment")
    work.write(joining(7, 100, "first") + joining(7, 101, "second"))
    work.send(protocol.CANCEL, 100, b"")
    assert work.answer(100)["reason"] == protocol.ERROR_CANCELLED
    assert work.answer(101)["reason"] == protocol.ERROR_CHAIN
    work.write(joining(7, 102, "third"))
    assert work.answer(102)["reason"] == protocol.ERROR_CHAIN
    over(work, 7)
    work.modules({"release": ""})  # what the held call waits for
    assert work.answer(held) is None
    assert work.call("work:remembered") == (0, 0)
    assert work.call("work:note", "last") == ["last"]


def test_calls_in_one_write_keep_their_order_across_chains(work):
    work.write(b"".join(joining(number % 2, 100 + number, number) for number in range(10)))
    answers = [work.answer(100 + number) for number in range(10)]
    assert sorted(answers[-1] if len(answers[-1]) == 10 else answers[-2]) == list(range(10))
    noted = max(answers, key=len)
    assert [n for n in noted if n % 2] == [1, 3, 5, 7, 9]
    assert [n for n in noted if not n % 2] == [0, 2, 4, 6, 8]
    assert work.call("work:remembered") == (0, 0)


def test_the_end_of_a_chain_that_nobody_knows_means_nothing(work):
    over(work, 12)
    assert work.call("work:remembered") == (0, 0)


@pytest.mark.parametrize("body", [b"", b"J", b"X\0\0\0\1", b"J\0\0\0\1\0"])
def test_a_garbled_frame_ends_the_target_and_says_so(work, body):
    work.send(protocol.CHAIN, 5, body)
    with pytest.raises(Ended, match="a CHAIN frame cannot be used"):
        work.wait_for(protocol.PONG)


def test_a_call_whose_turn_comes_just_when_the_core_cannot_be_loaded_is_left_to_the_threads():
    pool = calls.Pool(None, SimpleNamespace(wake=lambda: None), handle=None, flush=None)
    child = SimpleNamespace(pool=pool, _link=None, kinds={})
    chains.install(child)

    class TooLate(tasklets.Runner):
        def _put(self, what: object) -> bool:
            self._give_up("no such file")
            return super()._put(what)

    pool.runner = TooLate(pool)
    child.kinds[protocol.CHAIN](CONTEXT, 0, 7, protocol.CHAIN, chains.VERB.pack(chains.JOIN, 1))
    frame = (CONTEXT, 0, 7, protocol.CALL, b"")
    takes = threading.Thread(target=pool.take, args=([frame],), daemon=True)
    takes.start()
    takes.join(10)
    assert not takes.is_alive()
    assert list(pool._pending) == [frame]
    vars(pool).clear()  # it and its chains hold each other, for as long as a process lives
