"""Columns of numbers that are read of many objects, and stacks that are compared by them."""

import ctypes
import os
import random
import struct
from array import array

import pytest

from roamlet.diagnose.outside import CannotRead
from roamlet.diagnose.outside.errors import Torn
from roamlet.diagnose.outside.shapes import WHOLE, Part, Suspended, differing
from roamlet.diagnose.outside.system import columns
from roamlet.diagnose.outside.system.columns import Links, Members, Rows
from roamlet.diagnose.outside.system.memory import Memory, ProcessSource

OWNER = 77


@pytest.fixture
def mine():
    """This process's own memory."""
    return Memory(ProcessSource(os.getpid()), 12)


def listed(after):
    """A list in memory: each object is its owner and the address of the next one. What keeps it, and the addresses."""
    nodes = (ctypes.c_uint64 * (2 * len(after)))()
    places = [ctypes.addressof(nodes) + 16 * index for index in range(len(after))]
    for index, following in enumerate(after):
        nodes[2 * index : 2 * index + 2] = [OWNER, 0 if following is None else places[following]]
    return nodes, places


def followed(memory, places, owner=OWNER):
    found = []
    Links(struct.Struct("<QQ"), 0, 1).follow(memory, places[0], owner, found, "its objects")
    return found


def test_a_list_is_followed_to_its_end(mine):
    _nodes, places = listed([*range(1, 5000), None])
    assert followed(mine, places) == places


def test_a_list_with_a_loop_or_of_another_owner_is_torn(mine):
    _nodes, places = listed([*range(1, 5000), 2000])
    with pytest.raises(Torn, match="its objects have a loop"):
        followed(mine, places)
    with pytest.raises(Torn, match=f"the one at {places[0]:#x} is of another thread"):
        followed(mine, places, owner=OWNER + 1)


def test_a_list_that_was_made_to_have_no_end_is_refused(mine, monkeypatch):
    monkeypatch.setattr(columns, "MOST", 2000)
    _nodes, places = listed([*range(1, 5000), None])
    with pytest.raises(CannotRead, match="its objects are more than 2,000: the list is damaged"):
        followed(mine, places)


def test_members_of_every_width_are_columns(mine):
    form = struct.Struct("<8xqIb2xB")
    data = ctypes.create_string_buffer(b"".join(form.pack(-n, n, -(n % 100), n % 256) for n in range(3000)))
    places = [ctypes.addressof(data) + form.size * index for index in range(3000)]
    members = Members([("a", 8, "q"), ("b", 16, "I"), ("c", 20, "b"), ("d", 23, "B")])
    found = members.read(mine, places)
    assert [column.typecode for column in found] == ["q", "I", "b", "B"]
    assert list(zip(*found, strict=True)) == [(-n, n, -(n % 100), n % 256) for n in range(3000)]
    rows = Rows(places, found)
    assert rows.row(2999) == (-2999, 2999, -99, 2999 % 256)
    assert (rows.where(places[7]), rows.where(1), len(rows)) == (7, None, 3000)
    assert list(rows.items())[1] == (places[1], (-1, 1, -1, 1))


@pytest.mark.parametrize("rows", [1, 2048])
def test_columns_end_before_what_cannot_be_read(mine, monkeypatch, rows):
    monkeypatch.setattr(columns, "ROWS", rows)
    data = ctypes.create_string_buffer(64)
    at = ctypes.addressof(data)
    (column,) = Members([("a", 0, "Q")]).read(mine, [at, at, 16, at])
    assert len(column) == 2


@pytest.mark.parametrize(("offset", "form", "size"), [(3, "I", None), (70_000, "Q", None), (8, "Q", 8), (0, "Q", 12)])
def test_members_where_no_compiler_puts_them_are_refused(offset, form, size):
    with pytest.raises(CannotRead, match="describes itself with numbers that cannot be"):
        Members([("a", offset, form)], size)


def one_by_one(part, data, chunks):
    """What differing() finds, the plain way."""
    wrong, words = set(), part.size // 8
    for number, chunk in enumerate(chunks):
        stack = struct.unpack_from(f"<{words}Q", data, number * part.size)
        if any(stack[index] & bits != value for index, bits, value in part.values) or any(
            stack[index] - chunk != delta for index, delta in part.links
        ):
            wrong.add(number)
    return wrong


def test_stacks_that_differ_are_found_wherever_they_do():
    part = Part(0, False, 32, ((0, WHOLE, 0xABCD), (1, 0xFF00, 0x1200)), ((2, 96), (3, -48)))
    chance, chunks, stacks = random.Random(1), [(1 << 40) + 4096 * n for n in range(500)], []
    for chunk in chunks:
        stacks.append([0xABCD, 0x1200 | chance.getrandbits(60) & ~0xFF00, chunk + 96, chunk - 48])

    def data():
        return b"".join(struct.pack("<4Q", *stack) for stack in stacks)

    assert differing(part, data(), chunks) == one_by_one(part, data(), chunks) == set()
    for number in (5, 250, 499):
        stacks[number][number % 4] ^= 1 << (9 if number % 4 == 1 else number % 48)
        assert differing(part, data(), chunks) == one_by_one(part, data(), chunks) != set()
    assert len(differing(part, data(), chunks)) == 3


@pytest.mark.parametrize(
    ("chunks", "delta", "links"),
    [([WHOLE - 8, 1 << 40], 96, [87, (1 << 40) + 97]), ([40, 1 << 40], -48, [WHOLE - 7, (1 << 40) - 49])],
)
def test_a_carry_from_stack_to_stack_makes_no_two_equal(chunks, delta, links):
    part = Part(0, False, 8, (), ((0, delta),))
    data = struct.pack("<2Q", *links)
    assert differing(part, data, chunks) == one_by_one(part, data, chunks) == {0, 1}


def test_suspended_tasklets_come_together_by_their_innermost_frames():
    begins, chunks = [0x1010, 0x2010, 0x9008, 0x3020, 0x9008, 0], [0x1000, 0x2000, 0x3000, 0x3000, 0x4000, 0x5000]
    saved = [[0, 0, 8, 8, 8, 8], [0x9000] * 6, [0x9100] * 6, [0x5000] * 6]
    suspended = Suspended([7, 8, 9, 10, 11, 12], array("Q", begins), array("Q", chunks), saved)
    assert list(suspended.by_innermost()) == [[0, 1], [2, 4], [3]]
    assert suspended.found(0) == (0x1010, 0, 0, 0, 0x1000)
    assert suspended.found(2) == (0x9008, 0x9000, 0x9100, 0x5000 - 0x9000, 0x3000)
    assert list(Suspended([0, 1], begins[:2], chunks[:2], None).by_innermost()) == [[0, 1]]
    assert list(Suspended([0, 1], begins[-2:], chunks[-2:], None).by_innermost()) == [[0]]  # one without a frame
    assert list(Suspended([0, 1], [0, 0], chunks[:2], None).by_innermost()) == []


def test_suspended_tasklets_of_different_c_stacks_are_not_compared():
    """What they have on those is at other addresses: a place beyond it, below 0 even, would be read in the wrong one's buffer."""
    begins, chunks = [0x1010, 0x2010, 0x3010, 0x4010, 0x7008], [0x1000, 0x2000, 0x3000, 0x4000, 0x5000]
    saved = [[8, 8, 8, 8, 0], [0x9000, 0xFF9000] * 2 + [0x7000], [0x9100, 0xFF9100] * 2 + [0x7100], [0x5000] * 5]
    assert list(Suspended([0, 1, 2, 3, 4], begins, chunks, saved).by_innermost()) == [[0, 2], [1, 3], [4]]
