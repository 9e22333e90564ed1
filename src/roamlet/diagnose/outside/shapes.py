"""Stacks that look like one that was read before: recognised by a comparison, instead of being gone through frame by frame."""

import struct
from collections.abc import Callable
from operator import sub
from typing import NamedTuple

from roamlet.diagnose.outside.system.memory import Memory

Key = tuple[int, ...]  # a stack: code and instruction of each frame, the innermost first
Chain = Callable[[int, int, int, int], tuple[Key, list[int]]]  # Reader.chain

MOST_SHAPES = 1000  # stacks that others are compared with
LONGEST_SHAPE = 60  # frames of one of them
FIRST_CHUNK = 1 << 20  # bytes that the first chunk of a tasklet has at most


class Part(NamedTuple):
    """Some frames of a shape, near to each other: what is the same in each stack of the shape, and what moves with its chunk.

    All of it is in `size` bytes from the first frame on, as words: the number of each, its bits that count, and the value of those.
    """

    offset: int  # of the first frame: from the chunk, or for those on the C stack from 0
    inside: bool  # on the C stack, at the same addresses in each tasklet
    size: int
    values: tuple[tuple[int, int, int], ...]
    links: tuple[tuple[int, int], ...]  # the callers that are in the chunk: where, and how far from its beginning


WHOLE = (1 << 64) - 1


class Shapes:
    """Recognises stacks that look like one seen before: thousands of tasklets of one function differ in addresses alone.

    A stack is taken for equal only when all that is read of a frame is: its code, its instruction, its owner and its caller.
    """

    def __init__(self, memory: Memory, chain: Chain, frame: struct.Struct, members: list[int]) -> None:
        self._memory, self._chain, self._frame = memory, chain, frame
        self._members = members  # where code, caller, instruction and owner are in a frame
        self._learnt = 0

    def learn(self, begin: int, low: int, high: int, there: int, chunk: int) -> tuple[Key, tuple[Part, ...] | None]:
        """The key of a stack that looks like none known; and what others with the same one look like, if that can be told."""
        key, _ = self._chain(begin, low, high, there)
        if self._learnt >= MOST_SHAPES:
            return key, None
        self._learnt += 1
        return key, self._parts(begin, low, high, chunk, there)

    def _parts(self, begin: int, low: int, high: int, chunk: int, there: int) -> tuple[Part, ...] | None:
        """None for frames of generators, in more than one chunk, or too many."""
        size, unpack = self._memory.size, self._frame.unpack
        code, previous, instr, owner = self._members
        found: dict[int, tuple[int, ...]] = {}
        at = begin
        while at and at not in found and len(found) < LONGEST_SHAPE:
            found[at] = unpack(self._memory.read(at + there if low <= at < high else at, self._frame.size))
            at = found[at][1]
        parts = []
        for inside in (False, True):
            frames = sorted(each for each in found if (low <= each < high) == inside)
            if not frames:
                continue
            if at or frames[-1] - frames[0] > size // 4 or not (inside or 0 <= frames[0] - chunk < FIRST_CHUNK):
                return None
            fields, links = list[tuple[int, int, int]](), list[tuple[int, int]]()
            for each in frames:
                values, start = found[each], each - frames[0]
                fields += [
                    ((start + code) // 8, WHOLE, values[0]),
                    ((start + instr) // 8, WHOLE, values[2]),
                    ((start + owner) // 8, 0xFF << owner % 8 * 8, values[3] << owner % 8 * 8),
                ]
                if values[1] and not low <= values[1] < high:
                    links.append(((start + previous) // 8, values[1] - chunk))
                else:
                    fields.append(((start + previous) // 8, WHOLE, values[1]))
            if any(not -FIRST_CHUNK < delta < FIRST_CHUNK for _, delta in links) or any(each & 7 for each in frames):
                return None
            words = 1 + max(index for index, *_ in (*fields, *links))
            offset = frames[0] if inside else frames[0] - chunk
            parts.append(Part(offset, inside, 8 * words, tuple(fields), tuple(links)))
        return tuple(parts)


def differing(part: Part, data: bytes | bytearray, chunks: list[int]) -> set[int]:
    """Which of many stacks are not of the shape of this part. `data`: the bytes of all, one after the other; a chunk for each.

    A column of words is compared at once: that takes a tenth of the time that one stack after the other would.
    """
    words, several, wrong = memoryview(data).cast("Q"), part.size // 8, set[int]()
    for index, bits, value in part.values:
        column = words[index::several].tolist()
        if bits != WHOLE:
            column = [each & bits for each in column]
        if column.count(value) != len(column):
            wrong.update(number for number, each in enumerate(column) if each != value)
    for index, delta in part.links:
        column = list(map(sub, words[index::several].tolist(), chunks))
        if column.count(delta) != len(column):
            wrong.update(number for number, each in enumerate(column) if each != delta)
    return wrong
