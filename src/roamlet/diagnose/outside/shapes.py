"""Stacks that look like one that was read before: recognised by a comparison, instead of being gone through frame by frame."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from roamlet.diagnose.outside.system.memory import Memory

Key = tuple[int, ...]  # a stack: code and instruction of each frame, the innermost first
Chain = Callable[[int, int, int, int], tuple[Key, list[int]]]  # Reader.chain

MOST_SHAPES = 1000  # stacks that others are compared with
LONGEST_SHAPE = 60  # frames of one of them
FIRST_CHUNK = 1 << 20  # bytes that the first chunk of a tasklet has at most


class Part(NamedTuple):
    """Some frames of a shape, near to each other: what is the same in each stack of the shape, and what moves with its chunk."""

    offset: int  # of the first frame: from the chunk, or for those on the C stack from 0
    inside: bool  # on the C stack, at the same addresses in each tasklet
    last: int  # the last place in a block where all of them are within it
    unpack: Callable[..., tuple[int, ...]]
    values: tuple[int, ...]
    unpack_links: Callable[..., tuple[int, ...]]  # the callers that are in the chunk
    links: tuple[int, ...]  # from the chunk


class Shapes:
    """Recognises stacks that look like one seen before: thousands of tasklets of one function differ in addresses alone.

    A stack is taken for equal only when all that is read of a frame is: its code, its instruction, its owner and its caller.
    `known` has keys and parts by where the innermost frame is: from the tasklet's first chunk, or on the C stack its address.
    """

    def __init__(self, memory: Memory, chain: Chain, frame: struct.Struct, members: list[int]) -> None:
        self._memory, self._chain, self._frame = memory, chain, frame
        self._members = members  # where code, caller, instruction and owner are in a frame
        self.known: dict[int, tuple[Key, tuple[Part, ...]]] = {}
        self._learnt = 0

    def key_of(self, begin: int, low: int, high: int, there: int, chunk: int) -> Key:
        """The key of a stack that looks like none known; it may be the first of many."""
        key, _ = self._chain(begin, low, high, there)
        place = begin if low <= begin < high else begin - chunk
        if self._learnt < MOST_SHAPES and place not in self.known:
            self._learnt += 1
            parts = self._parts(begin, low, high, chunk, there)
            if parts is not None:
                self.known[place] = key, parts
        return key

    def _parts(self, begin: int, low: int, high: int, chunk: int, there: int) -> tuple[Part, ...] | None:
        """None for frames of generators, in more than one chunk, or too many."""
        size, unpack = self._memory.size, self._frame.unpack
        code, previous, instr, owner = self._members
        found: dict[int, tuple[int, ...]] = {}
        at = begin
        while at and len(found) < LONGEST_SHAPE:
            found[at] = unpack(self._memory.read(at + there if low <= at < high else at, self._frame.size))
            at = found[at][1]
        parts = []
        for inside in (False, True):
            frames = sorted(each for each in found if (low <= each < high) == inside)
            if not frames:
                continue
            if at or frames[-1] - frames[0] > size // 4 or not (inside or 0 <= frames[0] - chunk < FIRST_CHUNK):
                return None
            fields, links = list[tuple[int, str, int]](), list[tuple[int, str, int]]()
            for each in frames:
                values, start = found[each], each - frames[0]
                fields += [
                    (start + code, "Q", values[0]),
                    (start + instr, "Q", values[2]),
                    (start + owner, "B", values[3]),
                ]
                moves = values[1] and not low <= values[1] < high
                (links if moves else fields).append((start + previous, "Q", values[1] - chunk if moves else values[1]))
            if any(not -FIRST_CHUNK < delta < FIRST_CHUNK for _, _, delta in links):
                return None
            first, second = _picked(fields), _picked(links)
            last = size - max(first.size, second.size)
            values, deltas = (tuple(value for _, _, value in sorted(each)) for each in (fields, links))
            offset = frames[0] if inside else frames[0] - chunk
            parts.append(Part(offset, inside, last, first.unpack_from, values, second.unpack_from, deltas))
        return tuple(parts)


def _picked(fields: list[tuple[int, str, int]]) -> struct.Struct:
    """The struct that reads members at these offsets."""
    text, end = "<", 0
    for offset, form, _ in sorted(fields):
        text += f"{offset - end}x{form}"
        end = offset + (8 if form == "Q" else 1)
    return struct.Struct(text)
