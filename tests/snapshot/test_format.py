"""The header keeps accidents away: whatever is not what was saved, for here, is refused before anything of it is read."""

import dis
import hashlib
import marshal
import struct
import sys
import types

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot import _native
from roamlet.snapshot.image import format
from roamlet.snapshot.loading import load
from roamlet.snapshot.saving.saver import Saver

START = format._START.size


def waits(ch, out):
    value = ch.receive()
    out.append(value)


@pytest.fixture
def data():
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(waits)(ch, out)
    roamlet.schedule()
    yield snapshot.dumps((ch, out))
    tasklet.kill()


def sealed(table, pickles):
    """A snapshot with a right digest over these."""
    marshalled = marshal.dumps(table)
    rest = struct.pack("<I", len(marshalled)) + marshalled + pickles
    digest = hashlib.blake2b(rest, digest_size=16).digest()
    return format._START.pack(format.MAGIC, format.FORMAT, *sys.version_info[:2], format.MAGIC_NUMBER, digest) + rest


def parts(data):
    (length,) = struct.unpack_from("<I", data, START)
    return marshal.loads(data[START + 4 : START + 4 + length]), bytes(data[START + 4 + length :])


WHERE_IT_IS_REFUSED = [
    (range(8), "do not begin like one"),
    (range(8, 9), "has format"),
    (range(9, 11), r"is of CPython \d+\.\d+ .*Restore it with python"),
    (range(11, 15), "bytecode"),
    (range(15, 10_000), "its bytes are not those that were saved. Was it truncated, or changed on the way"),
]


@pytest.fixture
def nothing_is_read(monkeypatch):
    """Code that goes on after the checks of the header fails."""

    def read(*args):
        raise AssertionError("it was read")

    monkeypatch.setattr(marshal, "loads", read)
    monkeypatch.setattr(load, "restore", read)


def test_a_byte_changed_at_any_position_is_refused_before_anything_is_read(data, nothing_is_read):
    for positions, message in WHERE_IT_IS_REFUSED:
        for position in range(len(data))[positions.start : positions.stop]:
            for change in (0x01, 0x80, 0xFF):
                changed = bytearray(data)
                changed[position] ^= change
                with pytest.raises(snapshot.BadSnapshot, match=message):
                    snapshot.loads(changed)
    assert roamlet.getruncount() == 1


def test_a_snapshot_that_ends_early_or_late_is_refused_before_anything_is_read(data, nothing_is_read):
    for length in range(len(data)):
        with pytest.raises(snapshot.BadSnapshot, match=r"truncated|do not begin like one|damaged"):
            snapshot.loads(data[:length])
    for more in (b"\0", data, bytes(1_000_000)):
        with pytest.raises(snapshot.BadSnapshot, match="its bytes are not those that were saved"):
            snapshot.loads(data + more)


def test_foreign_bytes_are_no_snapshot():
    for foreign in (b"", b"\x80\x05N.", b"\x89PNG\r\n\x1a\n", bytes(1000)):
        with pytest.raises(snapshot.BadSnapshot, match="these bytes are no snapshot of roamlet's"):
            snapshot.loads(foreign)


def test_another_python_is_named(data):
    other = data[:10] + bytes((99,)) + data[11:]
    with pytest.raises(snapshot.BadSnapshot, match=r"is of CPython 3\.99 .*Restore it with python3\.99"):
        snapshot.loads(other)
    bytecode = data[:11] + b"abcd" + data[15:]
    with pytest.raises(snapshot.BadSnapshot, match=r"bytecode 61626364"):
        snapshot.loads(bytecode)


def test_another_format_is_named(data):
    with pytest.raises(snapshot.BadSnapshot, match=r"has format 9, and this roamlet reads format 1"):
        snapshot.loads(data[:8] + b"\x09" + data[9:])


def test_another_platform_is_named(data):
    (_, version, entries), pickles = parts(data)
    with pytest.raises(snapshot.BadSnapshot, match=r"was made on 'plan9' \(by roamlet .*\), and this is 'linux'"):
        snapshot.loads(sealed(("plan9", version, entries), pickles))


def test_what_is_sealed_again_but_no_snapshot_is_refused(data):
    table, pickles = parts(data)
    ch, _ = snapshot.loads(sealed(table, pickles))
    ch.queue.kill()
    for bad in (b"", pickles[:-20], b"\x80\x05.", b"garbage"):
        with pytest.raises(snapshot.BadSnapshot, match="the snapshot cannot be read here"):
            snapshot.loads(sealed(table, bad))
    for bad in (5, (), ("linux",), ("linux", "1")):
        with pytest.raises(snapshot.BadSnapshot, match="was not written by roamlet"):
            snapshot.loads(sealed(bad, pickles))
    for bad in (5, (5,), ((),), (("a", b"b"),), ((("a", "b"), b"c"),)):
        with pytest.raises(snapshot.BadSnapshot, match="the snapshot cannot be read here"):
            snapshot.loads(sealed(("linux", "1", bad), pickles))


def test_a_table_that_is_said_to_be_longer_than_all_of_it_is_refused(data, nothing_is_read):
    rest = bytearray(data[START:])
    for length in (len(rest) - 3, 2**31, 2**32 - 1):
        struct.pack_into("<I", rest, 0, length)
        digest = hashlib.blake2b(rest, digest_size=16).digest()
        with pytest.raises(snapshot.BadSnapshot, match="ends after its last byte"):
            snapshot.loads(data[:15] + digest + rest)


def test_globals_that_functions_by_value_have_brought_are_taken_back_when_the_rest_cannot_be_restored(monkeypatch):
    made = types.ModuleType("by_value")
    monkeypatch.setitem(sys.modules, "by_value", made)
    exec("number, there = 7, 8\ndef plus(a): return a + number + there\nclass Gone: pass", vars(made))
    root = made.plus, made.Gone()
    data = snapshot.dumps(root, by_value=["by_value"])
    good = snapshot.dumps(made.plus, by_value=["by_value"])
    del made.number, made.Gone, made.plus
    before = dict(vars(made))
    with pytest.raises(snapshot.BadSnapshot, match=r"(Can't get|no) attribute 'Gone'"):
        snapshot.loads(data)
    assert vars(made) == before
    assert snapshot.loads(good)(1) == 16
    assert made.number == 7
    monkeypatch.delitem(sys.modules, "by_value")
    with pytest.raises(snapshot.BadSnapshot, match=r"(Can't get|no) attribute 'Gone'"):
        snapshot.loads(data)
    assert "by_value" not in sys.modules
    assert snapshot.loads(good)(1) == 16  # here with a module of its own


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


def test_an_operand_that_is_no_object_is_restored_only_where_there_can_be_one():
    def swallows(manager):
        with manager:
            manager.fails()

    names = [(each.offset // 2, each.opname) for each in dis.get_instructions(swallows) if each.opname != "CACHE"]
    calls_exit = next(unit for unit, name in names if name == "WITH_EXCEPT_START")

    def check(nulls, *slots, unit=calls_exit, offset=1, before=-1):
        return _native.check([], [(swallows, unit, offset, nulls, slots)], None, before, -1, None, None)

    error = KeyError()
    right = [((~3,), (1, len, None, 7, None, error)), ((2, ~3), (1, len, None, 7, None, error))]
    there_are_such = sys.version_info >= (3, 14)
    if there_are_such:
        for nulls, slots in right:
            assert check(nulls, *slots)
        dropped, name = names[[name for _, name in names].index("POP_EXCEPT") + 1]
        assert name == "POP_TOP"  # with a number on top
        assert check((~3,), 1, len, None, 7, unit=dropped, offset=0, before=dropped)
        with pytest.raises(ValueError, match="where the number of an instruction is needed"):
            check((~3,), 1, len, None, 1 << 20, None, error)
    for nulls, slots in (
        *(() if there_are_such else right),
        ((~3,), (1, len, None, "seven")),
        ((~3,), (1, len, None, -7)),
        ((~3,), (1, len, None, 1 << 31)),
        ((~0,), (1, len, None, 7)),  # a variable
        ((~9,), (1, len, None, 7)),
        ((-(1 << 80),), (1, len, None, 7)),
    ):
        with pytest.raises(ValueError, match="something in it has another type"):
            check(nulls, *slots)


@pytest.mark.parametrize("contents", [(1 << 40, False, False, [], None), (0, False, False, [], None, 1 << 70, ())])
def test_a_channel_with_numbers_that_it_cannot_have_is_refused(monkeypatch, contents):
    monkeypatch.setattr(Saver, "channel_contents", lambda self, item: contents)
    data = snapshot.dumps(roamlet.channel(1))
    with pytest.raises(snapshot.BadSnapshot, match="the snapshot cannot be read here"):
        snapshot.loads(data)


@pytest.mark.pythons((3, 15), (3, 99), reason="loops keep an iterator before CPython 3.15")
def test_a_loop_is_restored_only_with_an_index_of_what_has_items_by_their_numbers_or_an_iterator():
    def loops(items):
        for item in items:
            item()

    def delegates(items):
        yield from items

    call = next(each for each in dis.get_instructions(loops) if each.opname == "CALL")
    after = next(each for each in dis.get_instructions(loops) if each.offset > call.offset)
    unit, offset = call.offset // 2, (after.offset - call.offset) // 2

    def check(nulls, below, index):
        return _native.check([], [(loops, unit, offset, nulls, (None, print, below, index))], None, -1, -1, None, None)

    for right in (((~3,), [1, 2], 1), ((~3,), (1, 2), 7), (1 << 3, iter([]), None), (1 << 3, delegates([]), None)):
        assert check(*right)
    for wrong in (
        ((~3,), iter([]), 1),
        ((~3,), 5, 1),
        (1 << 3, [1, 2], None),
        (0, [1, 2], 1),
        (0, iter([]), None),
    ):
        with pytest.raises(ValueError, match="where the number of an item, or nothing, is needed"):
            check(*wrong)
    with pytest.raises(ValueError, match="slot 2 has nothing where an iterator is needed"):
        check((2, ~3), None, 1)


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
