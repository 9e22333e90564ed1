"""The part that makes a context an intermediary, on every version: what it starts, passes on, keeps, refuses and reports."""

import os
import select
import signal
import sys

import pytest

from roamlet.wire import build, codec, protocol
from roamlet.wire.link import router, streams
from tests.remote.fakes import hostile, script
from tests.remote.stopping import gone
from tests.wire.interpreters import found
from tests.wire.target import CONTEXT, Ended, packed, send_part

CHILD = 8
WORK = """
import os, sys, time
def add(a, b): return a + b
def size(data): return len(data)
def ones(count): return [1] * count
def pid(): return os.getpid()
def say(text):
    sys.stdout.write(text + "\\n")
def nap(): time.sleep(60)
"""


class Behind:
    """A context behind a Target, which is its intermediary: frames are sent to it and taken out of what the Target gets."""

    def __init__(self, target, number=CHILD, python=sys.executable, hop=CONTEXT, translated=False):
        self.target, self.number, self.hop = target, number, hop
        self.token = build.new_token()
        self.last = 0
        if not hasattr(target, "behind"):
            target.behind = {}
            target.other = take_others(target)
        target.behind[number] = self
        self.frames, self.said, self.credits = [], {1: b"", 2: b""}, []
        self.gone = None
        config = codec.dumps({"id": number, "name": "behind"})
        self.event_to_hop(
            protocol.SPAWN,
            {
                "argv": build.command(python, self.token),
                "token": self.token,
                "config": config,
                "translated": translated,
            },
        )

    def event_to_hop(self, kind, value):
        self.target.write(protocol.frame(self.hop, 0, self.number, kind, codec.dumps(value)))

    def hold(self, what):
        self.target.write(protocol.frame(self.hop, 0, self.number, protocol.HOLD, bytes([what])))

    def send(self, kind, number, body):
        self.target.write(protocol.frame(self.number, 0, number, kind, body))

    def begin(self, name, *args):
        module, _, function = name.partition(":")
        self.last += 1
        self.send(protocol.CALL, self.last, codec.dumps((module, function, args, None)))
        return self.last

    def call(self, name, *args):
        number = self.begin(name, *args)
        found = []

        def answered():
            found.extend(frame for frame in self.frames if frame[2] == number and frame[3] == protocol.RESULT)
            return found

        self.target.wait_until(answered)
        return codec.loads(found[0][4])

    def wait_for_hello(self):
        self.target.wait_until(lambda: any(frame[3] == protocol.HELLO for frame in self.frames))
        return self

    def wait_until_gone(self):
        self.target.wait_until(lambda: self.gone)
        return self.gone


def take_others(target):
    """Sort what comes by its source: replaces Target.take."""
    plain = target.take

    def take(data):
        for frame in target.reader.feed(data) if data else ():
            _, source, number, kind, body = frame
            if kind == protocol.SAID:
                target.behind[number].said[body[0]] += body[1:]
            elif kind == protocol.CREDIT:
                target.behind[number].credits.append(streams.AMOUNTS.unpack(body))
            elif kind == protocol.GONE:
                target.behind[number].gone = codec.loads(body)
            elif source == CONTEXT:
                target.frames.append(frame)
            else:
                target.behind[source].frames.append(frame)

    target.take = take
    return plain


def make_router(target):
    send_part(target, "link.router")
    return target


OLD_AND_NEW = [version for version in found() if version in ("2.7", "3.6")] + list(found())[-1:]


@pytest.fixture(params=OLD_AND_NEW)
def hop(request, start):
    """An intermediary of the oldest versions of 2 and 3, and of the newest."""
    return make_router(start(found()[request.param]))


@pytest.fixture
def own_hop(start):
    """An intermediary of this version, for what does not depend on it."""
    return make_router(start(sys.executable))


def test_it_starts_a_context_with_the_payload_that_it_has_and_passes_its_frames_on(hop):
    behind = Behind(hop).wait_for_hello()
    assert behind.said[1].startswith(behind.token.encode() + b"0")
    behind.send(protocol.MODULES, 0, packed({"work": WORK}))
    assert behind.call("work:add", 1, 2) == 3
    assert behind.call("work:size", b"x" * 3_000_000) == 3_000_000
    assert behind.call("work:ones", 100_000) == [1] * 100_000
    hop.modules({"work": WORK})
    assert hop.call("work:add", 3, 4) == 7
    behind.send(protocol.GOODBYE, 0, b"")
    assert behind.wait_until_gone() == {"code": 0, "errno": None, "wrong": None}


def test_a_context_behind_a_context_behind_a_context(hop):
    middle = Behind(hop).wait_for_hello()
    send_part(middle, "link.router")
    last = Behind(hop, 9, next(iter(found().values())), hop=CHILD).wait_for_hello()
    last.send(protocol.MODULES, 0, packed({"work": WORK}))
    assert last.call("work:size", b"x" * 200_000) == 200_000
    pid = last.call("work:pid")
    middle.send(protocol.MODULES, 0, packed({"work": WORK}))
    os.kill(middle.call("work:pid"), signal.SIGKILL)
    assert middle.wait_until_gone()["code"] == -signal.SIGKILL
    assert last.gone is None  # only the parent knows that it was behind the first
    for _ in range(300):
        if not os.path.exists(f"/proc/{pid}"):
            break
        select_nothing(0.01)
    assert not os.path.exists(f"/proc/{pid}")


def select_nothing(seconds):
    select.select([], [], [], seconds)


def test_a_large_body_may_come_and_go_in_pieces_with_other_frames_in_between(hop):
    behind = Behind(hop).wait_for_hello()
    behind.send(protocol.MODULES, 0, packed({"work": WORK}))
    body = codec.dumps(("work", "size", (b"x" * 100_000,), None))
    cuts = [body[start : start + 30_000] for start in range(0, len(body), 30_000)]
    for cut in cuts[:-1]:
        behind.send(protocol.CALL | protocol.KIND_CUT, 77, cut)
        assert behind.call("work:add", 1, 1) == 2
    behind.send(protocol.CALL, 77, cuts[-1])
    hop.wait_until(lambda: any(frame[2] == 77 for frame in behind.frames))
    assert [codec.loads(frame[4]) for frame in behind.frames if frame[2] == 77] == [100_000]


def test_a_command_that_cannot_be_started_is_reported_with_its_errno(hop):
    assert Behind(hop, python="/no/such/python").wait_until_gone()["errno"] == 2


def test_what_is_read_for_its_words_is_told_to_speak_english(own_hop, tmp_path):
    python = script(tmp_path, "#!/bin/sh\necho $LC_MESSAGES.$LC_ALL\n")
    behind = Behind(own_hop, python=python, translated=True)
    behind.wait_until_gone()
    assert behind.said[1] == b"C.\n"


def test_what_a_command_says_before_and_beside_its_frames_is_reported(own_hop, tmp_path):
    python = script(tmp_path, "#!/bin/sh\necho motd; echo bad news >&2; exit 5\n")
    behind = Behind(own_hop, python=python)
    assert behind.wait_until_gone() == {"code": 5, "errno": None, "wrong": None}
    assert behind.said == {1: b"motd\n", 2: b"bad news\n"}


FORGED = {
    "another context": "send(protocol.RESULT, b'N', source=7)",
    "a context that is not there": "send(protocol.RESULT, b'N', source=1000)",
    "the root": "send(protocol.RESULT, b'N', source=0)",
    "for another context": "send(protocol.RESULT, b'N', destination=7)",
    "something that is no frame": "write(b'no frame at all, but plain text')",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_origin_ends_its_stream_and_nothing_else(own_hop, tmp_path, name):
    good = Behind(own_hop, 9).wait_for_hello()
    # It looks at nothing any more, or it might end by itself where its input does, before it is killed.
    body = f"hello()\nreceive_call()\n{FORGED[name]}\ntime.sleep(60)"
    bad = Behind(own_hop, python=hostile(tmp_path, body)).wait_for_hello()
    bad.begin("work:add")
    gone = bad.wait_until_gone()
    assert "came up from contexts behind 8" in gone["wrong"] or "no valid frame" in gone["wrong"]
    assert gone["code"] == -signal.SIGKILL
    good.send(protocol.MODULES, 0, packed({"work": WORK}))
    assert good.call("work:add", 1, 2) == 3
    assert own_hop.frames == []


def test_a_forged_end_of_a_sibling_does_not_close_the_way_to_it(own_hop, tmp_path):
    good = Behind(own_hop, 9).wait_for_hello()
    bad = Behind(
        own_hop, python=hostile(tmp_path, "hello()\nreceive_call()\nsend(protocol.GONE, b'N', 9)\nreceive_call()")
    )
    bad.wait_for_hello().begin("work:add")
    good.send(protocol.MODULES, 0, packed({"work": WORK}))
    assert good.call("work:add", 1, 2) == 3


def test_endless_noise_instead_of_a_start_is_cut_off(own_hop, tmp_path):
    behind = Behind(own_hop, python=script(tmp_path, "#!/bin/sh\nexec yes\n"))
    assert "bytes came before a start line" in behind.wait_until_gone()["wrong"]


def test_a_process_can_be_terminated_and_killed_also_while_it_starts(own_hop, tmp_path):
    stubborn = script(tmp_path, "#!/bin/sh\ntrap '' TERM\necho here\nwhile :; do sleep 0.02; done\n")
    behind = Behind(own_hop, python=stubborn)
    own_hop.wait_until(lambda: behind.said[1])
    behind.hold(router.TERMINATE)
    behind.hold(router.KILL)
    assert behind.wait_until_gone()["code"] == -signal.SIGKILL
    early = Behind(own_hop, 9, python=stubborn)
    early.hold(router.KILL)
    assert early.wait_until_gone()["code"] == -signal.SIGKILL


def test_a_process_that_closes_its_output_gets_time_to_end_by_itself(own_hop, tmp_path):
    python = script(tmp_path, "#!/bin/sh\nexec >&- 2>&-\nread -r line\nexit 6\n")
    assert Behind(own_hop, python=python).wait_until_gone()["code"] == 6


def test_a_context_that_is_not_read_is_held_and_read_on(own_hop):
    behind = Behind(own_hop).wait_for_hello()
    behind.send(protocol.MODULES, 0, packed({"work": WORK}))
    behind.call("work:add", 1, 2)
    behind.hold(router.HOLD_ON)
    own_hop.modules({"work": WORK})
    own_hop.call("work:add", 1, 2)  # HOLD has been taken now, by the thread that reads, and soon by the other one
    number = behind.begin("work:ones", 100_000)
    own_hop.call("work:ones", 100_000)
    assert not [frame for frame in behind.frames if frame[2] == number and frame[3] == protocol.RESULT]
    behind.hold(router.READ_ON)
    own_hop.wait_until(lambda: [frame for frame in behind.frames if frame[2:4] == (number, protocol.RESULT)])


def test_a_child_that_does_not_read_holds_up_nobody_and_is_reported(own_hop, tmp_path):
    slow = Behind(own_hop, python=hostile(tmp_path, "hello()\nreceive_call()\nwhile True:\n    time.sleep(60)"))
    slow.wait_for_hello()
    fast = Behind(own_hop, 9).wait_for_hello()
    fast.send(protocol.MODULES, 0, packed({"work": WORK}))
    slow.begin("work:add")
    for _ in range(10):
        slow.send(protocol.CANCEL | protocol.KIND_CUT, 1, bytes(100_000))
        assert fast.call("work:size", b"x" * 100_000) == 100_000
    own_hop.wait_until(lambda: slow.credits and fast.credits)
    assert slow.credits[-1][0] < 300_000
    own_hop.wait_until(lambda: fast.credits[-1][0] >= 1_000_000 - streams.REPORT)
    slow.hold(router.KILL)  # it would not notice by itself that everybody is gone
    assert slow.wait_until_gone()["code"] == -signal.SIGKILL


def test_kept_bundles_are_inserted_whole_or_put_together(hop):
    first = packed({"one": "value = 1\n", "two": "import one\nvalue = one.value + 1\n"}, absent=["nowhere"])
    second = packed({"three": "import two\ndef get():\n    return two.value + 1\n"}, absent=["neither"])
    hop.send(protocol.KEEP, 5, first)
    hop.send(protocol.KEEP, 6, second)
    behind = Behind(hop).wait_for_hello()
    hop.send(protocol.INSERT, 0, codec.dumps((CHILD, 0, protocol.MODULES, 6, [(5, 0, 2), (6, 0, 1)])))
    assert behind.call("three:get") == 3
    hop.send(protocol.INSERT, 0, codec.dumps((CONTEXT, 0, protocol.MODULES, 5)))
    hop.send(protocol.INSERT, 0, codec.dumps((CONTEXT, 0, protocol.MODULES, 6)))
    assert hop.call("three:get") == 3
    hop.send(protocol.KEEP, 0, codec.dumps([6, 7]))
    hop.send(protocol.INSERT, 0, codec.dumps((CONTEXT, 0, protocol.MODULES, 5)))
    hop.send(protocol.KEEP, 0, codec.dumps([5]))
    hop.send(protocol.INSERT, 0, codec.dumps((CONTEXT, 0, protocol.MODULES, 5)))
    with pytest.raises(Ended, match="INSERT frame cannot be used: KeyError"):
        hop.wait_for(protocol.PONG)


ECHO = "hello()\nwhile True:\n    number, kind, body = receive()\n    send(protocol.RESULT, body, kind)"


def big(**more):
    """A bundle of some 100 kB with the module `big` in it."""
    return packed({"big": f"import work\ntext = {os.urandom(60_000).hex()!r}\n", **more})


def announce(hop, *inserts, key=5):
    """Say that a bundle is coming, and for whom."""
    hop.send(protocol.KEEP | protocol.KIND_CUT, key, b"")
    for said in inserts:
        hop.send(protocol.INSERT, 0, codec.dumps(said))


def echoed(behind, kind):
    """The bodies of this kind that a child which echoes has received."""
    return [frame[4] for frame in behind.frames if frame[2] == kind]


def test_a_bundle_leaves_for_the_child_before_its_last_byte_has_come_and_is_kept_for_others(hop, tmp_path):
    first = Behind(hop, python=hostile(tmp_path, ECHO)).wait_for_hello()
    second = Behind(hop, 9).wait_for_hello()
    data = big(work=WORK)
    announce(hop, (CHILD, 3, protocol.MODULES, 5))
    coming = protocol.frame(CONTEXT, 0, 5, protocol.KEEP, data)
    hop.write(coming[:-1])
    pieces = protocol.MODULES | protocol.KIND_CUT
    hop.wait_until(lambda: b"".join(echoed(first, pieces)) == data[:-1])
    assert not echoed(first, protocol.MODULES)
    hop.write(coming[-1:])
    first.send(protocol.PING, 1, b"behind it")
    hop.wait_until(lambda: echoed(first, protocol.PING))
    assert echoed(first, protocol.MODULES) == [data[-1:]]
    assert first.frames[-2][2] == protocol.MODULES
    hop.send(protocol.INSERT, 0, codec.dumps((9, 0, protocol.MODULES, 5)))
    assert second.call("work:add", 1, 2) == 3


def test_two_hops_pass_on_what_has_come_and_each_keeps_it(own_hop, tmp_path):
    middle = Behind(own_hop).wait_for_hello()
    send_part(middle, "link.router")
    last = Behind(own_hop, 9, python=hostile(tmp_path, ECHO), hop=CHILD).wait_for_hello()
    data = big(work=WORK)
    middle.send(protocol.KEEP | protocol.KIND_CUT, 4, b"")
    middle.send(protocol.INSERT, 0, codec.dumps((9, 3, protocol.MODULES, 4)))
    announce(own_hop, (CHILD, 4, protocol.KEEP, 5))
    coming = protocol.frame(CONTEXT, 0, 5, protocol.KEEP, data)
    own_hop.write(coming[:-1])
    own_hop.wait_until(lambda: b"".join(echoed(last, protocol.MODULES | protocol.KIND_CUT)) == data[:-1])
    own_hop.write(coming[-1:])
    own_hop.wait_until(lambda: echoed(last, protocol.MODULES) == [data[-1:]])
    middle.send(protocol.INSERT, 0, codec.dumps((CHILD, 0, protocol.MODULES, 4)))
    own_hop.send(protocol.INSERT, 0, codec.dumps((CONTEXT, 0, protocol.MODULES, 5)))
    assert middle.call("work:add", 1, 2) == own_hop.call("work:add", 1, 2) == 3


def test_others_get_their_turn_between_two_pieces_of_a_bundle(own_hop, tmp_path):
    echo = Behind(own_hop, python=hostile(tmp_path, ECHO)).wait_for_hello()
    data = big()
    announce(own_hop, (CHILD, 0, protocol.MODULES, 5))
    own_hop.send(protocol.KEEP | protocol.KIND_CUT, 5, data[:1000])
    echo.send(protocol.PING, 1, b"in between")
    own_hop.wait_until(lambda: echoed(echo, protocol.PING))
    assert echoed(echo, protocol.MODULES | protocol.KIND_CUT) == [data[:1000]]
    own_hop.send(protocol.KEEP, 5, data[1000:])
    own_hop.wait_until(lambda: b"".join(frame[4] for frame in echo.frames[3:]) == data[1000:])


def test_a_bundle_comes_in_pieces_between_the_pieces_of_a_call(hop):
    behind = Behind(hop).wait_for_hello()
    behind.send(protocol.MODULES, 0, packed({"work": WORK}))
    body, data = codec.dumps(("work", "size", (b"x" * 1000,), None)), big()
    announce(hop, (CHILD, 0, protocol.MODULES, 5))
    behind.send(protocol.CALL | protocol.KIND_CUT, 77, body[:500])
    hop.send(protocol.KEEP | protocol.KIND_CUT, 5, data[:500])
    assert behind.call("work:add", 1, 1) == 2
    behind.send(protocol.CALL, 77, body[500:])
    hop.wait_until(lambda: any(frame[2] == 77 for frame in behind.frames))
    hop.send(protocol.KEEP, 5, data[500:])
    assert behind.call("big:work.add", 1, 2) == 3


def test_what_is_put_together_waits_for_what_is_still_coming(hop):
    behind = Behind(hop).wait_for_hello()
    hop.send(protocol.KEEP, 4, packed({"work": WORK, "other": ""}))
    hop.send(protocol.KEEP | protocol.KIND_CUT, 6, b"")
    picks = [(4, 0, 1), (5, 0, 1), (6, 0, 1)]
    announce(hop, (CHILD, 0, protocol.MODULES, 6, picks), (CONTEXT, 0, protocol.MODULES, 5))
    hop.send(protocol.KEEP, 5, big())
    hop.send(protocol.KEEP, 6, packed({"top": "from big import work\nadd = work.add\n"}, absent=["nowhere"]))
    assert behind.call("top:add", 1, 2) == 3
    hop.modules({"work": WORK})
    assert hop.call("big:work.add", 1, 2) == 3


def test_a_bundle_for_a_child_that_does_not_read_holds_up_nobody_and_goes_on_to_others(own_hop, tmp_path):
    stuck = Behind(own_hop, python=hostile(tmp_path, "hello()\nwhile True:\n    time.sleep(60)")).wait_for_hello()
    good = Behind(own_hop, 9).wait_for_hello()
    announce(own_hop, (CHILD, 0, protocol.MODULES, 5), (9, 0, protocol.MODULES, 5))
    own_hop.send(protocol.KEEP, 5, packed({"work": WORK + f"text = {os.urandom(300_000).hex()!r}\n"}))
    assert good.call("work:add", 1, 2) == 3
    stuck.hold(router.KILL)
    assert stuck.wait_until_gone()["code"] == -signal.SIGKILL
    announce(own_hop, (9, 0, protocol.MODULES, 6), key=6)
    own_hop.send(protocol.KEEP | protocol.KIND_CUT, 6, big()[:5000])
    good.hold(router.KILL)  # in the middle of one
    assert good.wait_until_gone()["code"] == -signal.SIGKILL
    own_hop.send(protocol.KEEP, 6, b"and the rest")
    own_hop.modules({"work": WORK})
    assert own_hop.call("work:add", 1, 2) == 3


def test_frames_for_a_context_that_is_gone_are_dropped(own_hop):
    behind = Behind(own_hop).wait_for_hello()
    behind.send(protocol.GOODBYE, 0, b"")
    behind.wait_until_gone()
    behind.send(protocol.CALL, 1, bytes(500_000))
    own_hop.modules({"work": WORK})
    assert own_hop.call("work:add", 1, 2) == 3


@pytest.mark.parametrize("how", ["goodbye", "killed", "closed"])
def test_nothing_of_the_subtree_outlives_its_intermediary(own_hop, how):
    behind = Behind(own_hop).wait_for_hello()
    behind.send(protocol.MODULES, 0, packed({"work": WORK}))
    pid = behind.call("work:pid")
    behind.begin("work:nap")
    if how == "goodbye":
        own_hop.close()
    elif how == "killed":
        own_hop.process.kill()
    else:
        own_hop.process.stdin.close()

    assert gone(pid)
