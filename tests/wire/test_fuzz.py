"""Damaged, random and forged bytes for the decoders of both sides: a value or one named error, quickly, whatever they are.

The loop runs in one process without a target; tests/soak runs the same for a million inputs.
"""

import collections
import datetime
import decimal
import fractions
import lzma
import random
import time
import uuid
import zlib
from pathlib import PurePosixPath

import pytest

from roamlet.remote.values.registry import Incoming
from roamlet.wire import codec, protocol
from roamlet.wire.codec import CannotTravel, CodecError
from roamlet.wire.modules import bundle
from roamlet.wire.values import kinds, large_messages, values
from tests.wire.damage import TAGS, damaged, random_bytes
from tests.wire.test_codec import PLAIN
from tests.wire.test_values import KINDS

pytestmark = pytest.mark.filterwarnings("ignore:The 'u' type code:DeprecationWarning")

INPUTS = 100_000  # for the decoders of values; the others get a part of it

try:
    import numpy as np

    ARRAYS = [np.arange(6).reshape(2, 3), np.float32(1.5), np.array(["a", "b"]), np.zeros((2, 0), "M8[s]")]
except ImportError:
    ARRAYS = []  # the states of arrays are forged all the same


def seeds():
    found = [codec.dumps(value) for value in PLAIN]
    found += [values.dumps(value) for value in [*KINDS, *ARRAYS, [ValueError(1), {"k": decimal.Decimal(1)}]]]
    for number in range(len(kinds.KINDS)):
        for state in ("x", (1, 2), ("<f8", (2, 3), False, True, bytearray(48)), {"a": 1}, bytearray(8), ("numpy", "x")):
            found.append(b"Vl\0\0\0\0k" + bytes([number]) + codec.dumps(state))
    return [data for data in found if len(data) < 1500]


def decode_both_ways(data, outcomes):
    """As the parent takes what comes up, and as a target takes what no class is made of."""
    for decode in (Incoming().loads, values.loads):
        began = time.monotonic()
        try:
            decode(data)
        except CodecError:
            outcomes["garbled"] += 1
        except CannotTravel:
            outcomes["refused"] += 1
        else:
            outcomes["a value"] += 1
        assert time.monotonic() - began < 60, data


def fuzz_values(inputs, seed):
    chance = random.Random(seed)
    sound = seeds()
    outcomes = collections.Counter()
    for _ in range(inputs):
        data = random_bytes(chance) if chance.random() < 0.2 else damaged(chance, sound)
        decode_both_ways(data, outcomes)
    return outcomes


def fuzz_frames(inputs, seed):
    """FrameReader: whole frames or ProtocolError, and no more kept than was fed."""
    chance = random.Random(seed)
    outcomes = collections.Counter()
    for _ in range(inputs):
        stream = b"".join(
            protocol.HEADER.pack(
                0,
                7,
                chance.randrange(3),
                chance.choice((0, 3, 40, 2**27 + 1, 2**32 - 1)),
                chance.choice((6, 7, 0x86, 0x87, 77)),
            )
            + chance.randbytes(chance.choice((0, 3, 40)))
            for _ in range(chance.randrange(1, 4))
        )
        reader = protocol.FrameReader()
        try:
            at = 0
            while at < len(stream):
                step = chance.randrange(1, 50)
                for frame in reader.feed(stream[at : at + step]):
                    assert len(frame[4]) <= len(stream)
                at += step
                assert sum(map(len, reader._parts)) <= len(stream)
            outcomes["frames"] += 1
        except protocol.ProtocolError:
            outcomes["refused"] += 1
    return outcomes


def fuzz_series(inputs, seed):
    chance = random.Random(seed)
    large = large_messages.LargeMessage(b"Vl\0\0\0\0l\0\0\0\1B\0\0\0\0", [b"x" * 100, bytearray(70)])
    sound = [frame[protocol.HEADER_SIZE :] for frame in large.frames(1, 0, 1, protocol.CALL)]
    outcomes = collections.Counter()
    for _ in range(inputs):
        pieces = [damaged(chance, [piece or b"\0"]) if chance.random() < 0.4 else piece for piece in sound]
        try:
            arrival = large_messages.Arrival(pieces[0], 100_000)
            for piece in pieces[1:]:
                message = arrival.add(piece)
                if message is not None:
                    codec.loads(message)
                    outcomes["a value"] += 1
                    break
        except (protocol.ProtocolError, CodecError, CannotTravel, large_messages.TooLarge) as error:
            outcomes[type(error).__name__] += 1
    return outcomes


def fuzz_bundles(inputs, seed):
    """What a target unpacks comes from its parent; damage on the way is one of three errors all the same."""
    chance = random.Random(seed)
    sound = bundle.pack([("a", 0, b"x = 1\n", "a.py"), ("b", 1, b"", "b.py")], ["c"], {"c": "why"}, {"b": ["d"]})
    inside = zlib.decompress(sound)
    outcomes = collections.Counter()
    for _ in range(inputs):
        data = damaged(chance, [inside])
        try:
            bundle.unpack(zlib.compress(data, 1) if chance.random() < 0.7 else damaged(chance, [sound]))
            outcomes["a bundle"] += 1
        except (CodecError, zlib.error, lzma.LZMAError, ImportError) as error:  # an unknown way of packing among them
            outcomes[type(error).__name__] += 1
    return outcomes


def test_values():
    outcomes = fuzz_values(INPUTS, 1)
    assert min(outcomes[one] for one in ("garbled", "refused", "a value")) > 100, outcomes


def test_frames():
    outcomes = fuzz_frames(INPUTS // 4, 2)
    assert min(outcomes[one] for one in ("frames", "refused")) > 100, outcomes


def test_messages_in_pieces():
    outcomes = fuzz_series(INPUTS // 4, 3)
    assert min(outcomes[one] for one in ("a value", "ProtocolError", "TooLarge")) > 100, outcomes


def test_bundles():
    outcomes = fuzz_bundles(INPUTS // 6, 4)
    assert min(outcomes[one] for one in ("a bundle", "CodecError", "error")) > 20, outcomes


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
        fractions.Fraction(1, 3),
        uuid.UUID(int=1),
        PurePosixPath("/a"),
        collections.OrderedDict(a=[1, 2]),
        collections.deque([1], 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_byte_of_a_message_may_be_any_other(value):
    sound = values.dumps([value])
    outcomes = collections.Counter()
    for at in range(len(sound)):
        for byte in (0, 1, 0x7F, 0x80, 0xFF, *TAGS):
            decode_both_ways(sound[:at] + bytes([byte]) + sound[at + 1 :], outcomes)
    assert outcomes["garbled"] > 100
