"""Stacks that look like one that was read before: recognised by a comparison, instead of being gone through frame by frame."""

import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
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
    inside: bool  # on the C stack, at the same addresses in each tasklet that is compared
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
        self._keys: dict[Key, Key] = {}

    def learn(self, begin: int, low: int, high: int, there: int, chunk: int) -> tuple[Key, tuple[Part, ...] | None]:
        """The key of a stack that looks like none known; and what others with the same one look like, if that can be told."""
        key, _ = self._chain(begin, low, high, there)
        key = self._keys.setdefault(key, key)  # equal ones are one object, by which they are told apart
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


class Suspended:
    """Suspended tasklets in columns. `rows`: their numbers; `begins`: their innermost frames; `chunks`: those they began in.

    `saved`: of those whose C stack was copied the length, where it was from and to, and where it is now; None where none was.
    """

    def __init__(
        self,
        rows: Sequence[int],
        begins: Sequence[int],
        chunks: Sequence[int],
        saved: list[Sequence[int]] | None,
    ) -> None:
        self.rows: Sequence[int] = rows
        self.begins: Sequence[int] = begins
        self.chunks: Sequence[int] = chunks
        self._saved = saved

    def found(self, number: int) -> tuple[int, int, int, int, int]:
        """What Shapes.learn() takes."""
        low = high = there = 0
        if self._saved is not None:
            length, sp, base, buffer = (column[number] for column in self._saved)
            if length:
                low, high, there = sp, base, buffer - sp
        return self.begins[number], low, high, there, self.chunks[number]

    def there(self, number: int) -> int:
        """How much further that is which was in its part of the C stack."""
        return self.found(number)[3]

    def by_innermost(self) -> Iterable[list[int]]:
        """Those together whose innermost frame is at the same place, from the tasklet's chunk or on the C stack.

        Those that were copied from a C stack belong to the same one: what else they have there is at the same addresses then.
        Those without a frame are left out.
        """
        begins, chunks = self.begins, self.chunks
        places: list[int | tuple[int, int]]
        if self._saved is None:
            places = [begin and begin - chunk for begin, chunk in zip(begins, chunks, strict=True)]
        else:
            places = [
                ((begin, base) if sp <= begin < base else (begin - chunk, base))
                if length and begin
                else begin and begin - chunk
                for begin, chunk, length, sp, base, _ in zip(begins, chunks, *self._saved, strict=True)
            ]
        if places and places.count(places[0]) == len(places):
            return [list(range(len(places)))] if places[0] else []
        alike: dict[int | tuple[int, int], list[int]] = {}
        for number, place in enumerate(places):
            several = alike.get(place)
            if several is None:
                alike[place] = [number]
            else:
                several.append(number)
        alike.pop(0, None)
        return alike.values()


def differing(part: Part, data: bytes | bytearray, chunks: list[int]) -> set[int]:
    """Which of many stacks are not of the shape of this part. `data`: the bytes of all, one after the other; a chunk for each.

    A column of words is compared at once, as one number of so many words: that takes a hundredth of the time that one stack after
    the other would. Which ones differ is looked up where some do.
    """
    words, several, count, wrong = memoryview(data).cast("Q"), part.size // 8, len(chunks), set[int]()

    def all_of(value: int) -> int:
        return int.from_bytes(value.to_bytes(8, "little") * count, "little")

    for index, bits, value in part.values:
        column = words[index::several].tobytes()
        if bits == WHOLE:
            equal = column == value.to_bytes(8, "little") * count
        else:
            equal = int.from_bytes(column, "little") & all_of(bits) == all_of(value)
        if not equal:
            each_word = enumerate(array("Q", column))
            wrong.update(number for number, each in each_word if each & bits != value)
    # No carry from word to word, which would make unequal columns equal.
    whole = min(chunks) >= FIRST_CHUNK and max(chunks) < WHOLE - FIRST_CHUNK
    begins, ones = int.from_bytes(array("Q", chunks), "little"), all_of(1)
    for index, delta in part.links:
        column = words[index::several].tobytes()
        if not whole or int.from_bytes(column, "little") != begins + delta * ones:
            wrong.update(number for number, each in enumerate(map(sub, array("Q", column), chunks)) if each != delta)
    return wrong
