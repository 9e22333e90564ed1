"""The header keeps accidents away: whatever is not what was saved, for here, is refused before anything of it is read."""

import hashlib
import marshal
import struct
import sys

import pytest

import weft
from weft import snapshot
from weft.snapshot import _format, _native

START = _format._START.size


def waits(ch, out):
    value = ch.receive()
    out.append(value)


@pytest.fixture
def data():
    ch, out = weft.channel(), []
    tasklet = weft.tasklet(waits)(ch, out)
    weft.schedule()
    yield snapshot.dumps((ch, out))
    tasklet.kill()


def sealed(table, pickles):
    """A snapshot with a right digest over these."""
    marshalled = marshal.dumps(table)
    rest = struct.pack("<I", len(marshalled)) + marshalled + pickles
    digest = hashlib.blake2b(rest, digest_size=16).digest()
    return (
        _format._START.pack(_format.MAGIC, _format.FORMAT, *sys.version_info[:2], _format.MAGIC_NUMBER, digest) + rest
    )


def parts(data):
    (length,) = struct.unpack_from("<I", data, START)
    return marshal.loads(data[START + 4 : START + 4 + length]), bytes(data[START + 4 + length :])


def test_a_byte_changed_at_any_position_is_refused(data):
    for position in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[position] ^= change
            with pytest.raises(snapshot.BadSnapshot):
                snapshot.loads(changed)
    assert weft.getruncount() == 1


def test_a_snapshot_that_ends_early_or_late_is_refused(data):
    for length in range(len(data)):
        with pytest.raises(snapshot.BadSnapshot, match=r"truncated|do not begin like one|damaged"):
            snapshot.loads(data[:length])
    with pytest.raises(snapshot.BadSnapshot, match="its bytes are not those that were saved"):
        snapshot.loads(data + b"\0")


def test_foreign_bytes_are_no_snapshot():
    for foreign in (b"", b"\x80\x05N.", b"\x89PNG\r\n\x1a\n", bytes(1000)):
        with pytest.raises(snapshot.BadSnapshot, match="these bytes are no snapshot of weft's"):
            snapshot.loads(foreign)


def test_another_python_is_named(data):
    other = data[:7] + bytes((99,)) + data[8:]
    with pytest.raises(snapshot.BadSnapshot, match=r"is of CPython 3\.99 .*Restore it with python3\.99"):
        snapshot.loads(other)
    bytecode = data[:8] + b"abcd" + data[12:]
    with pytest.raises(snapshot.BadSnapshot, match=r"bytecode 61626364"):
        snapshot.loads(bytecode)


def test_another_format_is_named(data):
    with pytest.raises(snapshot.BadSnapshot, match=r"has format 9, and this weft reads format 1"):
        snapshot.loads(data[:5] + b"\x09" + data[6:])


def test_another_platform_is_named(data):
    (_, version, entries), pickles = parts(data)
    with pytest.raises(snapshot.BadSnapshot, match=r"was made on 'plan9' \(by weft .*\), and this is 'linux'"):
        snapshot.loads(sealed(("plan9", version, entries), pickles))


def test_what_is_sealed_again_but_no_snapshot_is_refused(data):
    table, pickles = parts(data)
    ch, _ = snapshot.loads(sealed(table, pickles))
    ch.queue.kill()
    for bad in (b"", pickles[:-20], b"\x80\x05.", b"garbage"):
        with pytest.raises(snapshot.BadSnapshot, match="the snapshot cannot be read here"):
            snapshot.loads(sealed(table, bad))
    with pytest.raises(snapshot.BadSnapshot, match="was not written by weft"):
        snapshot.loads(sealed(5, pickles))


def test_a_record_that_does_not_fit_its_code_is_refused():
    def three(a, b, c):
        return a.receive(b, c)

    bad = [
        [(three, 0, 0, 0, ())],
        [(three, 10_000, 0, 0, (1, 2, 3))],
        [(three, -5, 0, 0, (1, 2, 3))],
        [(three, 1, 70_000, 0, (1, 2, 3))],
        [(three, 1, 0, 0, (1, 2, 3, 4, 5, 6, 7, 8, 9))],
        [(three, 1, 0, "no", (1, 2, 3))],
        [(three, 1, 0, (-1,), (1, 2, 3))],
        [(three, 1, 0, 0, [1, 2, 3])],
        [(3, 1, 0, 0, (1, 2, 3))],
        [(len, 1, 0, 0, (1, 2, 3))],
        [(three, 1, 0, 0, (1, 2, 3), (x for x in ()), None)],
        [5],
        [()],
    ]
    for records in bad:
        with pytest.raises((ValueError, TypeError), match="record|does not fit"):
            _native.check([], records, None, -1, -1, None, None)
    with pytest.raises(ValueError, match="what its call returns"):
        _native.check([], [], None, -1, -1, [], None)


def test_generators_are_overwritten_only_when_they_are_fresh_and_it_fits():
    def numbers():
        yield 1
        yield 2

    generator = numbers()
    state = _native.generator_get(generator)
    next(generator)
    with pytest.raises(ValueError, match="has been started"):
        _native.generator_set(generator, state[0], *state[2:])
    for bad in ((10**6, 0, 0, (), None), (0, 0, 0, (1,) * 99, None), (-1, 0, 0, (), None), (0, -1, 0, (), None)):
        with pytest.raises(ValueError, match="does not fit its code"):
            _native.generator_set(numbers(), -1, *bad)
    with pytest.raises(TypeError, match="expected a generator or coroutine"):
        _native.generator_get([])
