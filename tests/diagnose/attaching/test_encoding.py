"""Recordings as bytes: whole, shortened, and damaged."""

import random

import pytest

import roamlet
from roamlet.diagnose.attaching import encoding
from roamlet.diagnose.tracing import Trace
from roamlet.diagnose.tracing.recording import SIZE_OF_EVENT, Place, Sample, Span
from roamlet.diagnose.tracing.timeline import timeline
from roamlet.wire import codec


def taken():
    channel = roamlet.channel()
    with Trace() as trace:
        for _ in range(20):
            roamlet.tasklet(channel.send)(1)
            channel.receive()
    roamlet.run()
    own = trace.recordings[0]
    stack = (Place("main", "a.py", 1), Place("f", None, 0))
    own.samples = [Sample(1, 2, 3, 4, stack), Sample(2, 2, 3, 4, stack[:1])]
    own.spans = [Span("remote call", "f", 1, 2, 3, "alpha", {"on the target (ms)": 0.5, "modules": 3, "tasklet": "x"})]
    return trace.recordings


def test_they_are_the_same_again():
    recordings = taken()
    assert encoding.decoded(encoding.encoded(recordings, 1 << 28)) == recordings


def test_of_too_many_events_the_newest_are_kept_and_the_others_counted():
    (recording,) = taken()
    count, newest = recording.count, list(recording.events())[-8:]
    (shorter,) = encoding.decoded(encoding.encoded([recording], 8 * SIZE_OF_EVENT))
    assert list(shorter.events()) == newest
    assert shorter.dropped == count - 8
    # Worker threads of the tests before may rest meanwhile: they are among the threads, without events.
    assert [thread.first for thread in shorter.threads if thread.ident == newest[0].thread] == [newest[0].at]
    (none,) = encoding.decoded(encoding.encoded([shorter], 0))
    assert (none.count, none.dropped) == (0, count)
    assert timeline(none).messages == 0


def test_damaged_ones_are_refused():
    parts = encoding.encoded(taken(), 1 << 28)
    chance = random.Random(22)
    refused = 0
    for _ in range(3000):
        damaged = [bytearray(part) for part in parts]
        for _ in range(chance.randrange(1, 4)):
            damaged[0][chance.randrange(len(damaged[0]))] = chance.randrange(256)
        if chance.random() < 0.1:
            damaged.append(bytearray(b""))
        try:
            (recording,) = encoding.decoded(damaged)
        except ValueError:
            refused += 1
            continue
        assert isinstance(recording.process, str)
        assert all(type(number) is int for number in recording.places)
    assert refused > 1000
    for value in (None, [], [{}], {}, [[]], "text"):
        with pytest.raises(ValueError, match="no trace of roamlet's"):
            encoding.decoded([codec.dumps(value)])
    with pytest.raises(ValueError, match="no trace of roamlet's"):
        encoding.decoded([])
