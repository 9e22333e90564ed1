"""What is read of many objects of one kind: the numbers of each member as a column, not a tuple for each object.

A hundred thousand tuples of boxed numbers take longer to make, and many times the memory, than all else that is done with them.
Which objects there are is found by the reader.
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from roamlet.diagnose.outside.errors import CannotRead, Torn
from roamlet.diagnose.outside.system.memory import Memory

ROWS = 2048  # that are read at a time: they stay in the processor's cache while their columns are taken out
LARGEST = 65_000  # bytes of an object
MOST = 10_000_000  # objects of one list: more than fit into memory, but for lists that somebody has forged

Column: TypeAlias = "array[Any]"
Fields = tuple[int, ...]  # of one object


class Members:
    """Which members are read of each object: names, where each is, and its form as in array.array.

    `size`: that of an object in an array. Raises CannotRead for places at which no compiler puts members.
    """

    def __init__(self, members: Sequence[tuple[str, int, str]], size: int | None = None) -> None:
        self._forms = [form for _, _, form in members]
        widths = [array(form).itemsize for form in self._forms]
        offsets = [offset for _, offset, _ in members]
        end = max(offset + width for offset, width in zip(offsets, widths, strict=True))
        self._low = min(offsets) & ~7 if size is None else 0
        self.size: int = (end - self._low + 7) & ~7 if size is None else size
        if any(offset % width for offset, width in zip(offsets, widths, strict=True)) or not (
            min(offsets) >= 0 and end - self._low <= self.size and max(end, self.size) < LARGEST and self.size % 8 == 0
        ):
            raise CannotRead("its roamlet describes itself with numbers that cannot be")
        # Where each is in the items of its own size that an object consists of, and how many those are.
        self._places = [(o - self._low) // w for o, w in zip(offsets, widths, strict=True)]
        self._several = [self.size // width for width in widths]

    def read(self, memory: Memory, places: list[int]) -> list[Column]:
        """A column for each member of the objects at these places, which ends before the first that cannot be read."""
        low, size, columns = self._low, self.size, [array(form) for form in self._forms]
        for first in range(0, len(places), ROWS):
            data, missing = memory.pieces_at([at + low for at in places[first : first + ROWS]], size)
            for column, more in zip(columns, self.columns(data[: size * missing[0]] if missing else data), strict=True):
                column.extend(more)
            if missing:
                break
        return columns

    def columns(self, data: bytes | bytearray) -> list[Column]:
        """The columns of objects that are one after the other."""
        rows, found = memoryview(data), list[Column]()
        casts = {form: rows.cast(form) for form in dict.fromkeys(self._forms)}  # type: ignore[call-overload]
        for form, place, several in zip(self._forms, self._places, self._several, strict=True):
            found.append(array(form, casts[form][place::several].tobytes()))
        return found


class Rows:
    """The objects that were read, in the order of `ids`, their addresses. `columns`: by the number of a member."""

    def __init__(self, ids: list[int], columns: list[Column]) -> None:
        self.ids: list[int] = ids
        self.columns: list[Column] = columns
        self._places: dict[int, int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, id: int) -> int | None:
        """The number of the row of this object; None when it is not there."""
        if self._places is None:
            self._places = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return self._places.get(id)

    def row(self, number: int) -> Fields:
        return tuple([column[number] for column in self.columns])

    def items(self) -> Iterator[tuple[int, Fields]]:
        """Each address with its members."""
        return zip(self.ids, zip(*self.columns, strict=True), strict=True)


class Links:
    """Follows lists of objects that have one owner. `form` unpacks the owner and the next object: where these are in its result."""

    def __init__(self, form: struct.Struct, owner: int, after: int) -> None:
        self._form, self._owner, self._after = form, owner, after

    def follow(self, memory: Memory, at: int, owner: int, found: list[int], what: str) -> None:
        """Add the addresses from `at` on until 0. Raises Torn for a loop or another owner, CannotRead for a list without an end;
        what was found until then is in `found`, in a loop several times.

        Loops are looked for after four times as many objects as the time before, which costs little for each of them.
        """
        blocks, shift, mask, read = memory.blocks, memory.shift, memory.mask, memory.read
        unpack, size = self._form.unpack_from, self._form.size
        last, of, after = memory.size - size, self._owner, self._after
        append, limit = found.append, 1024
        while at:
            for _ in range(limit):
                place, block = at & mask, blocks.get(at >> shift)
                words = unpack(read(at, size)) if block is None or place > last else unpack(block, place)
                if words[of] != owner:
                    raise Torn(f"{what}: the one at {at:#x} is of another thread")
                append(at)
                at = words[after]
                if not at:
                    break
            if at and len(set(found)) < len(found):
                raise Torn(f"{what} have a loop")
            if len(found) > MOST:
                raise CannotRead(
                    f"{what} are more than {MOST:,}: the list is damaged, or was made to keep readers busy"
                )
            limit = 3 * len(found)
