"""Short commands that ask a scheduler or a cluster something, in this place or in a context's, which may be a hostile one."""

import os
import re

import pytest

import roamlet
from roamlet import remote
from roamlet.remote.calls.engine import calls_of
from roamlet.remote.opening.commands import LONGEST_LINE, Said, ask
from roamlet.remote.transports.pod import CreateMeanings
from roamlet.wire.calls import commands as wire
from tests.remote.raising import raises


@pytest.fixture(params=["here", "there"])
def place(request):
    if request.param == "here":
        yield None
        return
    with remote.local(name="admin") as via:
        yield calls_of(via)


def test_a_command_reads_data_and_says_how_it_ended(place):
    said = ask(place, ["sh", "-c", "cat; echo no >&2; exit 3"], 60, data=b"data")
    assert (said.exit_code, said.text, said.errors, said.lines) == (3, "data", "no\n", ["no", "data"])


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(place, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reads = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writes = os.open(fifo, os.O_WRONLY)
    script = f"exec 9>{fifo}; echo $$ >&9; sleep 1000 & sleep 1000"
    with raises(remote.ConnectTimeout, match="had not ended.*within 3 seconds"):
        ask(place, ["sh", "-c", script], 3)
    os.close(writes)
    assert roamlet.io.read(reads, 99)  # it had begun
    with roamlet.timeout(60):
        assert roamlet.io.read(reads, 99) == b""  # no process holds the other end
    os.close(reads)


class Hostile:
    """A context that answers with anything."""

    name = "bad"

    def __init__(self, answer):
        self.shipping = self
        self.answer = answer
        self.limits = []

    def need(self, part, deadline=None):
        self.limits.append(deadline)

    def call(self, function, args, timeout):
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        [],
        [1 << 80],
        [1 << 80, b"", b""],
        [0, "", b""],
        [0, b"a" * (wire.MOST + 1), b""],
        [0, b"", b"a" * (wire.MOST + 1)],
    ],
)
def test_what_is_no_answer_is_refused_and_not_shown(answer):
    with raises(remote.ConnectError, match="in 'bad': it answered something else, or too much$") as caught:
        ask(Hostile(answer), ["kubectl"], 1)
    assert len(str(caught.value)) < 200


def test_sending_the_command_has_a_time_limit():
    hostile = Hostile([0, b"", b""])
    ask(hostile, ["kubectl"], 1)
    assert hostile.limits != [None]


@pytest.mark.parametrize("line", ["admission webhook ", "The connection to the server ", "a\n", "container "])
def test_of_what_a_command_says_the_last_lines_are_kept_for_messages(line):
    said = ask(Hostile([1, b"", line.encode() * (wire.MOST // len(line))]), ["kubectl"], 1)
    assert len(said.lines) <= 60
    assert max(map(len, said.lines)) <= LONGEST_LINE
    assert CreateMeanings("p").explain(1, said.lines) is not None
    assert len(Said([], 1, "b\n" * 99, "a\n" * 99).lines) == 120


@pytest.mark.parametrize(
    "words", [one.words for one in CreateMeanings.meanings if "webhook" in one.words or "The connection" in one.words]
)
def test_patterns_of_messages_go_over_no_blank(words):
    assert not re.search(words, "admission webhook a b denied The connection to the server a b was refused")
