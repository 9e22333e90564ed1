"""A child that sends what no context sends harms its own context and nothing else."""

import os
import signal
import sys
import traceback

import pytest
import roamlet_kinds
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.values import registry
from roamlet.testing.links import holds
from roamlet.wire import channels, codec, protocol
from tests.remote.fakes import hostile
from tests.remote.inside import calls_of, link_of
from tests.remote.raising import raises
from tests.remote.stopping import stop

# What it sends instead of an answer, and what the error says about it.
BAD_FRAMES = {
    "garbage": ("write(b'no frame at all, but plain text that a program printed')", "no valid frame"),
    "a length beyond the limit": (
        "write(protocol.HEADER.pack(0, me, 1, protocol.MAX_BODY + 1, protocol.RESULT))",
        "no valid frame: RESULT, 134217729 bytes",
    ),
    "an unknown kind": ("send(63, b'')", "unknown kind 63"),
    "a frame in another's name": (
        "send(protocol.RESULT, b'N', number, source=me + 1)",
        "a frame from .* to 0 on the link of",
    ),
    "a frame for another": ("send(protocol.RESULT, b'N', number, destination=5)", "to 5 on the link of"),
    "a kind that only goes down": ("send(protocol.CALL, b'N', number)", "a CALL message that does not belong"),
    "modules for the parent": ("send(protocol.MODULES, b'', number)", "a MODULES message that does not belong"),
    "a second HELLO": ("send(protocol.HELLO, b'N')", "a HELLO message that does not belong"),
    "bodies in others' names that go on for ever": (
        "for source in range(100): send(protocol.LOG | protocol.KIND_CUT, b'x', source=me + source)",
        "a frame from .* to 0 on the link of",
    ),
    "a body that goes on for ever": (
        "for _ in range(100): send(protocol.LOG | protocol.KIND_CUT, b'x' * (1 << 16))",
        "a LOG message of 4259840 bytes",
    ),
    "an unknown stream": ("send(protocol.STREAM, b'x', 3)", "STREAM"),
    "a log record of the wrong shape": ("send(protocol.LOG, codec.dumps(('a', 'b')))", "malformed LOG"),
    "a log record that is too long": (
        "send(protocol.LOG, codec.dumps(('a', 1, 'b', 1.0, 'c', 1, 'd', None, 'more')))",
        "malformed LOG",
    ),
    "a log record that is no value": ("send(protocol.LOG, b'????')", "."),
    "a log record as large as a result": ("send(protocol.LOG, b'x' * (1 << 23))", "a LOG message of 8388608 bytes"),
    "more output than a pipe holds": (
        "send(protocol.STREAM, b'\\n' * (1 << 18), 1)",
        "a STREAM message of 262144 bytes",
    ),
    "the name of a logger that is a book": (
        "send(protocol.LOG, codec.dumps(('a.' * 50000, 40, 'b', 1.0, 'c', 1, 'd', None)))",
        "malformed LOG",
    ),
    "a question that is a book": (
        "send(protocol.WANT, codec.dumps('a.' * 50000 + 'a'), 1)",
        "a WANT message of 100006 bytes",
    ),
    "a question for a shared object that it was not told of": (
        "send(protocol.PIECE, b'', 77)",
        "a PIECE message for the file 77, which no module of this link has",
    ),
    "a shared object for the parent": ("send(protocol.PIECE, b'+', 1)", "a PIECE message that does not belong"),
    "pieces that begin with none": (
        "send(protocol.RESULT | protocol.KIND_MORE, b'????', number)",
        "a message in pieces begins with none of it",
    ),
    "a piece larger than announced": (
        "more = protocol.RESULT | protocol.KIND_MORE\nsend(more, struct.pack('>QI', 5, 0), number)\nsend(more, b'x' * 6, number)",
        "a piece of 6 bytes where 5 are missing",
    ),
    "a result that ends in the middle": (
        "more = protocol.RESULT | protocol.KIND_MORE\nsend(more, struct.pack('>QI', 5, 0), number)\nsend(more, b'', number)",
        "a result that ends before it is complete",
    ),
    "pieces of an error": ("send(protocol.ERROR | protocol.KIND_MORE, b'x', number)", "a piece of ERROR message"),
    "pieces of a log record": ("send(protocol.LOG | protocol.KIND_MORE, b'x')", "a piece of LOG message"),
    "a question that is no name": ("send(protocol.WANT, codec.dumps(5), 1)", "malformed WANT"),
}
# What a context sends that was given channel 1, once, and nothing else.
CHANNEL = "send(protocol.CHANNEL, {}, 1)"
BAD_CHANNEL_FRAMES = {
    "a channel that it was not given": ("send(protocol.CHANNEL, b'C', 2)", "it uses channel 2, which it was not given"),
    "no channel at all": ("send(protocol.CHANNEL, b'C', 0)", "it uses channel 0, which it was not given"),
    "an old request for a channel it was not given": (
        "send(protocol.CHANNEL, struct.pack('>cIQQ', b'A', 1, 1, 0), 9)",
        "it uses channel 9",
    ),
    "nothing": (CHANNEL.format("b''"), "means nothing"),
    "an unknown verb": (CHANNEL.format("b'?12345678'"), "means nothing"),
    "a cut request": (CHANNEL.format("b'S12'"), "is cut"),
    "values taken that were never sent": (
        CHANNEL.format("struct.pack('>cIQQ', b'A', 1, 5, 3)"),
        "it took 3 values from channel 1, where 0 were sent",
    ),
    "references given back that it never had": (
        CHANNEL.format("struct.pack('>cI', b'R', 7)"),
        "more often than it got it",
    ),
    "a malformed value": (CHANNEL.format("b'S1234????'"), "unknown tag"),
    "a value that names a channel it was not given": (
        CHANNEL.format("b'S1234r' + struct.pack('>I', 99)"),
        "it names channel 99",
    ),
    "a malformed exception": (CHANNEL.format("b'X1234N'"), "malformed exception"),
    "the same request twice": (" ; ".join([CHANNEL.format("b'S1234N'")] * 2), "the same request of a channel twice"),
    "requests without end": (
        "for n in range(2000): send(protocol.CHANNEL, struct.pack('>cI', b'S', n) + b'N', 1)",
        "more requests of channels",
    ),
    "wishes without end": (
        "write(b''.join(protocol.frame(0, me, 1, protocol.CHANNEL, struct.pack('>cIQQ', b'A', n, 1, 0)) for n in range(1, 1700)))",
        "it begins to receive from channel 1 again and again without an end",
    ),
    "more bytes than a context may send at once": (
        "for n in range(9): send(protocol.CHANNEL, struct.pack('>cIcI', b'S', n, b'b', 4000000) + bytes(4000000), 1)",
        "more bytes at once",
    ),
    "a value that is too large": (CHANNEL.format("b'S' + bytes(5000000)"), "a CHANNEL message of 5000001 bytes"),
    "a result that names a channel it was not given": (
        "send(protocol.RESULT, b'r' + struct.pack('>I', 2), number)",
        "it names channel 2, which it was not given",
    ),
}
BAD_ANSWERS = {
    "a result that is no value": "send(protocol.RESULT, b'????', number)",
    "a cut result": "send(protocol.RESULT, codec.dumps(['abc', 'def'])[:-2], number)",
    "a result of a million lists in each other": "send(protocol.RESULT, b'l\\0\\0\\0\\1' * 1000000, number)",
    "a date that never was": "send(protocol.RESULT, b'Vl\\0\\0\\0\\0k\\5a\\0\\0\\0\\4\\0\\0\\1\\1', number)",
    "a class without a name": "send(protocol.RESULT, b'Vl\\0\\0\\0\\1NN', number)",
    "a pickle": "send(protocol.RESULT, pickle.dumps(os.system), number)",
    "a compressed bomb": "send(protocol.RESULT, zlib.compress(b'0' * 50000000), number)",
    "keys of one hash": "send(protocol.RESULT, b'd\\0\\0\\x13\\x88' + b''.join(codec.dumps(complex(-1000003 * n, n)) + b'N' "
    "for n in range(5000)), number)",
    "an error that is no dict": "send(protocol.ERROR, codec.dumps([1]), number)",
    "an error without its fields": "send(protocol.ERROR, codec.dumps({'reason': 'raised'}), number)",
}


@pytest.fixture
def open_hostile(tmp_path):
    """`open_hostile(body)` opens a context whose other side runs `body`; closed afterwards."""
    opened = []

    def open_one(body):
        opened.append(remote.local(hostile(tmp_path, body), name="hostile", timeout=20))
        return opened[-1]

    yield open_one
    for context in opened:
        context.close()


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_malformed_frame_closes_its_context_with_an_error_that_says_what_came(open_hostile, name):
    send, says = BAD_FRAMES[name]
    with remote.local() as good:
        context = open_hostile(f"hello()\nnumber = receive_call()\n{send}")
        with raises(remote.ProtocolError, match=says) as caught:
            context.call(roamlet_sent.nothing, timeout=20)
        assert caught.value.context == "hostile"
        assert "it sent what no context sends" in str(caught.value)
        with raises(remote.ProtocolError, match="was not sent"):
            context.call(roamlet_sent.nothing)
        assert good.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_malformed_answer_is_an_error_of_its_call_and_closes_its_context(open_hostile, name):
    context = open_hostile(f"hello()\nnumber = receive_call()\n{BAD_ANSWERS[name]}")
    with raises(remote.ProtocolError, match=r"answered roamlet_sent\.nothing with bytes that are no value") as caught:
        context.call(roamlet_sent.nothing, timeout=20)
    assert caught.value.function == "roamlet_sent.nothing"
    with raises(remote.ProtocolError):
        context.call(roamlet_sent.nothing, timeout=20)


def error(**fields):
    said = {"reason": "raised", "type": "ValueError", "module": "builtins", "args": (), "text": "", "traceback": ""}
    return f"hello()\nsend(protocol.ERROR, codec.dumps({ {**said, **fields}!r}), receive_call())"


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("SystemExit", "builtins.x"),
        ("KeyboardInterrupt", "builtins"),
        ("GeneratorExit", "builtins"),
        ("BaseException", "builtins"),
        ("ExceptionGroup", "builtins"),
        ("eval", "builtins"),
        ("__import__", "builtins"),
        ("Popen", "subprocess"),
        ("HostUnknown", "roamlet.remote.errors"),
        ("TaskletExit", "roamlet.core"),
        ("error", "struct"),
        ("ValueError", "their.own"),
    ],
)
def test_only_the_interpreters_own_exceptions_are_made_here(open_hostile, kind, module):
    context = open_hostile(error(type=kind, module=module, args=("touch /tmp/roamlet-was-here",), text="made up"))
    with raises(remote.RemoteError, match="made up") as caught:
        context.call(roamlet_sent.nothing)
    assert type(caught.value) is remote.RemoteError
    assert caught.value.type_name.endswith(kind)


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("UnicodeDecodeError", ("only one",)),
        ("UnicodeDecodeError", None),
        ("OSError", ([], {}, 3, 4, 5, 6)),
        ("KeyError", 7),
        ("UnicodeEncodeError", ("utf-8", "", 0, 1, "why")),
        ("UnicodeEncodeError", ("utf-8", "text", 1 << 62, (1 << 62) + 1, "why")),
        ("UnicodeDecodeError", ("utf-8", b"", -(1 << 62), 1 - (1 << 62), "why")),
        ("UnicodeTranslateError", ("text", -1, 0, "why")),
        ("UnicodeEncodeError", ("utf-8", 5, 0, 1, "why")),
        ("SyntaxError", ("why", ("file", "line", ["column"], b"text"))),
        ("SyntaxError", ("why", ("file", 1, 2, 3))),
        ("IndentationError", ("why", ("file", 1, 1 << 40, "text", 1, 1 << 41))),
    ],
)
def test_arguments_that_do_not_fit_an_exception_leave_it_a_remote_error(open_hostile, kind, args):
    context = open_hostile(error(type=kind, args=args, text="its text"))
    with raises((remote.RemoteError, OSError)) as caught:
        context.call(roamlet_sent.nothing)
    assert "its text" in "".join(traceback.format_exception(caught.value)) or kind == "OSError"
    if isinstance(caught.value, remote.RemoteError):
        assert str(caught.value) == f"{kind}: its text"
        assert caught.value.type_name == kind


@pytest.mark.parametrize(
    "entry",
    [
        ("os", "system", "object"),
        ("builtins", "eval", "object"),
        ("subprocess", "Popen", "object", "args"),
        ("roamlet.remote.errors", "HostUnknown", "exception", "args", "fields"),
        ("builtins", "SystemExit", "exception", "args", "fields"),
        ("builtins", "BaseException", "exception", "args", "fields"),
    ],
    ids=lambda entry: entry[1],
)
def test_no_class_is_made_that_was_not_registered_and_nothing_is_imported(open_hostile, entry):
    fields = b"".join(b"t\0\0\0\0d\0\0\0\0"[5 * (n % 2) : 5 * (n % 2) + 5] for n in range(len(entry) - 3))
    body = b"V" + codec.dumps([entry]) + b"o\0\0\0\0" + fields
    context = open_hostile(f"hello()\nnumber = receive_call()\nsend(protocol.RESULT, {body!r}, number)")
    before = set(sys.modules)
    with raises(remote.CannotTravel, match=rf"it is a .*{entry[1]}, and classes that come up must be known here"):
        context.call(roamlet_sent.nothing, timeout=20)
    assert set(sys.modules) == before
    assert not context.closed


def test_a_registered_class_is_not_given_fields_that_hide_its_methods(open_hostile, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    remote.register(roamlet_kinds.Thing)
    for field in ("described", "__class__", "__dict__"):
        body = b"V" + codec.dumps([("roamlet_kinds", "Thing", "object", field)]) + b"o\0\0\0\0N"
        context = open_hostile(f"hello()\nnumber = receive_call()\nsend(protocol.RESULT, {body!r}, number)")
        with raises(remote.CannotTravel, match=f"with a field {field}, which is something else here"):
            context.call(roamlet_sent.nothing, timeout=20)


def test_a_huge_result_is_refused_before_anything_of_it_is_stored(open_hostile):
    context = open_hostile(
        """
        hello()
        number = receive_call()
        send(protocol.RESULT | protocol.KIND_MORE, struct.pack(">QI", 1 << 60, 0), number)
        send(protocol.RESULT | protocol.KIND_MORE, b"x" * 1000, number)
        cancelled = receive()
        while cancelled[1] == protocol.MODULES:  # says that nothing more comes after the call
            cancelled = receive()
        send(protocol.RESULT, codec.dumps(cancelled[1] == protocol.CANCEL), receive_call())
        """
    )
    with raises(remote.CannotTravel, match="takes 1152921504606846976 bytes, and 1073741824 may come up"):
        context.call(roamlet_sent.nothing, timeout=20)
    assert context.call(roamlet_sent.nothing, timeout=20) is True


def test_an_answer_to_a_question_that_was_not_asked_is_dropped(open_hostile):
    context = open_hostile(
        """
        hello()
        number = receive_call()
        send(protocol.RESULT, codec.dumps("unasked"), number + 1000)
        send(protocol.PONG, b"", 5)
        send(protocol.RESULT, codec.dumps("mine"), number)
        """
    )
    assert context.call(roamlet_sent.nothing, timeout=20) == "mine"


def test_a_call_that_is_given_up_is_cancelled_on_the_target(open_hostile):
    context = open_hostile(
        """
        hello()
        first = receive_call()
        while True:
            number, kind, body = receive()
            if kind == protocol.CANCEL:
                cancelled = number
            elif kind == protocol.CALL:
                break
        send(protocol.RESULT, codec.dumps(cancelled == first), number)
        """
    )
    with raises(remote.CallTimeout, match="did not answer within"):
        context.call(roamlet_sent.nothing, timeout=0.3)
    assert context.call(roamlet_sent.nothing, timeout=20) is True


def test_a_ping_is_answered(open_hostile):
    context = open_hostile(
        """
        hello()
        number = receive_call()
        send(protocol.PING, b"are you there", 5)
        answered = receive()
        while answered[1] == protocol.MODULES:  # says that nothing more comes after the call
            answered = receive()
        send(protocol.RESULT, codec.dumps(answered), number)
        """
    )
    assert context.call(roamlet_sent.nothing, timeout=20)[2] == b"are you there"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("protocol=99", "protocol 99"),
        ("python='3.11'", "python='3.11'"),
        ("python=(3, 11)", r"python=\(3, 11\)"),
        ("pid='1'", "pid='1'"),
        ("packages=None", "packages=None"),
        ("libc=5", "libc=5"),
        ("suffixes=['.so']", r"suffixes=\['.so'\]"),
    ],
)
def test_a_hello_that_says_what_no_hello_says_is_an_error_of_connecting(open_hostile, said, problem):
    with raises(remote.ConnectError, match=f"answered, but not as a context does.*{problem}"):
        open_hostile(f"hello({said})")


def test_a_child_that_dies_with_half_a_frame_sent_is_a_context_that_died(open_hostile):
    context = open_hostile(
        "hello()\nnumber = receive_call()\nwrite(protocol.frame(0, me, number, protocol.RESULT, b'N' * 100)[:50])\nos._exit(4)"
    )
    with raises(remote.ContextDied, match="exit code 4"):
        context.call(roamlet_sent.nothing, timeout=20)


def test_more_questions_than_threads_could_ask_close_the_context(open_hostile):
    context = open_hostile(
        """
        hello()
        receive_call()
        for question in range(5000):
            send(protocol.WANT, codec.dumps("json.absent_%d" % question), question)
        """
    )
    with raises(remote.ProtocolError, match="more than 1024 questions for modules"):
        context.call(roamlet_sent.nothing, timeout=30)


def test_a_child_that_leaves_a_relative_behind_with_its_pipes_is_dead_all_the_same(open_hostile, tmp_path):
    way = tmp_path / "way"
    os.mkfifo(way)
    context = open_hostile(
        f"""
        hello()
        receive_call()
        if os.fork():
            os._exit(6)
        os.open({str(way)!r}, os.O_RDONLY)
        os._exit(0)
        """
    )
    try:
        with raises(remote.ContextDied, match="exit code 6"):
            context.call(roamlet_sent.nothing, timeout=30)
    finally:
        os.close(os.open(way, os.O_WRONLY))  # lets the relative end


def test_questions_are_answered_without_harm(open_hostile):
    context = open_hostile(
        """
        hello()
        number = receive_call()
        for question in range(200):
            send(protocol.WANT, codec.dumps("no.such.module.%d" % question), question)
        answers = [receive()[0] for _ in range(200)]
        send(protocol.RESULT, codec.dumps(sorted(answers) == list(range(200))), number)
        """
    )
    assert context.call(os.getpid, timeout=30) is True
    assert context.stats.round_trips == 200


def test_values_without_end_into_a_window_are_refused(open_hostile):
    send = BAD_CHANNEL_FRAMES["requests without end"][0]
    context = open_hostile(f"import struct\nhello()\nnumber = receive_call()\n{send}")
    with raises(remote.ProtocolError, match="more requests of channels"):
        context.call(roamlet_sent.echo, (roamlet.channel(1),))
    context.close()


@pytest.mark.parametrize("name", BAD_CHANNEL_FRAMES)
def test_a_context_can_use_no_channel_but_those_it_was_given_and_these_only_as_they_are_meant(open_hostile, name):
    send, says = BAD_CHANNEL_FRAMES[name]
    channel = roamlet.channel()
    context = open_hostile(f"import struct\nhello()\nnumber = receive_call()\n{send}")
    with raises(remote.ProtocolError, match=says):
        context.call(roamlet_sent.echo, (channel,))
    context.close()
    assert not holds(context).channels
    assert roamlet.select(channel, default="none ready")[1] == "none ready"


def test_a_context_that_reads_no_answers_is_not_even_told_that_a_channel_is_closed():
    channel = roamlet.channel()
    channel.close()
    with remote.local() as context:
        link = link_of(context)
        calls_of(context).shipping.need("channels")
        number = link.channels.number_of(channel)
        filler = protocol.frame(link.identifier, 0, 77, protocol.CANCEL, bytes(1 << 16))
        stop(context.facts.pid)
        while not link.is_full:
            link.send_at_once(filler)
        before = link.sender.queued
        for wanted in range(1, 10):
            seen = roamlet.sync.Event()
            link.post(lambda wanted=wanted: link.channels.take(number, channels.ASK.pack(b"A", 1, wanted, 0)))
            link.post(roamlet.schedule)  # a tasklet that this has begun gets its turn
            link.post(seen.set)
            seen.wait()
        assert link.sender.queued == before
        os.kill(context.facts.pid, signal.SIGCONT)
        assert context.call(roamlet_sent.add, (1, 2)) == 3
