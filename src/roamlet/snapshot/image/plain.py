"""Reading the bytes of a snapshot without running anything of what they name: its table and its pickles as plain data.

Neither marshal nor pickle is used: what is not plain becomes a Made, which says what would be called with what. Sizes and
places come from the bytes, which are not trusted: what does not fit raises one of FAILURES.
"""

import io
import pickletools
import struct
from collections.abc import Callable, Iterator
from typing import Any

FAILURES = (ValueError, LookupError, TypeError, AttributeError, EOFError, struct.error, RecursionError, OverflowError)

MAKERS = "roamlet.snapshot.loading.load"
EMPTY_FIRST = {"cell", "plain_tasklet", "plain_channel", "tasklet", "channel"}  # what belongs into them follows


class Named:
    """A global: module and qualified name."""

    def __init__(self, module: str, name: str) -> None:
        self.module: str = module
        self.name: str = name

    def is_maker(self, *names: str) -> bool:
        """Whether it is one of ours of these names."""
        return self.module == MAKERS and self.name in names


class Made:
    """An object: what makes it, of which arguments, and what is put into it after that."""

    def __init__(self, maker: Any, args: Any) -> None:
        self.maker: Any = maker
        self.args: Any = args
        self.state: Any = None
        self.values: list[Any] = []
        self.pairs: list[tuple[Any, Any]] = []

    def by(self, *names: str) -> bool:
        """Whether one of our makers of these names makes it."""
        return isinstance(self.maker, Named) and self.maker.is_maker(*names)


class Row:
    """A list, tuple, set or frozenset. `sizes`, of a tuple alone: the bytes that each of its values takes in the file."""

    def __init__(self, kind: str, values: list[Any], sizes: list[int] | None = None) -> None:
        self.kind: str = kind
        self.values: list[Any] = values
        self.sizes: list[int] = sizes or []


class Pairs:
    """A dict."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []


class Pickles:
    """All pickles of a snapshot: the root, and what belongs into each object of `objects`. Read once, then released."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)
        self._stack: list[tuple[Any, int]] = []  # with the position where each begins
        self._marks: list[int] = []
        self._memo: list[Any] = []
        self._at = 0
        self.objects: list[Made] = []
        self.root: Any = None
        self.contents: list[Any] = []

    def read(self) -> None:
        """Read all of it."""
        self.root = self._next()
        while len(self.contents) < len(self.objects):
            self.contents.append(self._next())

    def release(self) -> None:
        """Break the cycles, all of which go through something that is referred to by number."""
        for each in self._memo:
            if isinstance(each, (Made, Row, Pairs)):
                vars(each).clear()

    def _next(self) -> Any:
        self._stack, self._marks = [], []
        for opcode, argument, position in pickletools.genops(self._stream):
            self._at = position or 0
            name = opcode.name
            if name == "STOP":
                return self._stack.pop()[0]
            if name in _PLAIN:
                self.push(argument)
            elif name in _CONSTANTS:
                self.push(_CONSTANTS[name])
            else:
                _STEPS[name](self, argument)
        raise EOFError("a pickle has no end")

    def _pop(self) -> tuple[Any, int]:
        if self._marks and len(self._stack) <= self._marks[-1]:
            raise ValueError("a value is missing")
        return self._stack.pop()

    # ---- steps ----

    def push(self, value: Any) -> None:
        self._stack.append((value, self._at))

    def mark(self, argument: object) -> None:
        self._marks.append(len(self._stack))

    def memoize(self, argument: object) -> None:
        self._memo.append(self._stack[-1][0])

    def get(self, number: int) -> None:
        self.push(self._memo[number])

    def pop(self, argument: object) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def above_mark(self) -> list[tuple[Any, int]]:
        mark = self._marks.pop()
        found = self._stack[mark:]
        del self._stack[mark:]
        return found

    def row(self, kind: str, found: list[tuple[Any, int]]) -> None:
        starts = [start for _, start in found]
        ends = [*starts[1:], self._at]
        sizes = [end - start for start, end in zip(starts, ends, strict=True)] if found else []
        self._stack.append((Row(kind, [value for value, _ in found], sizes), starts[0] if starts else self._at))

    def tuple_of(self, count: int) -> None:
        found = [self._pop() for _ in range(count)]
        self.row("tuple", found[::-1])

    def append(self, argument: object) -> None:
        value, _ = self._pop()
        self._stack[-1][0].values.append(value)

    def extend(self, argument: object) -> None:
        found = self.above_mark()
        self._stack[-1][0].values.extend(value for value, _ in found)

    def set_item(self, argument: object) -> None:
        value, key = self._pop()[0], self._pop()[0]
        self._stack[-1][0].pairs.append((key, value))

    def set_items(self, argument: object) -> None:
        found = [value for value, _ in self.above_mark()]
        self._stack[-1][0].pairs.extend(zip(found[::2], found[1::2], strict=True))

    def named(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.push(Named(module, name))

    def stack_named(self, argument: object) -> None:
        name, (module, start) = self._pop()[0], self._pop()
        self._stack.append((Named(str(module), str(name)), start))

    def reduce(self, argument: object) -> None:
        args, (maker, start) = self._pop()[0], self._pop()
        if isinstance(maker, Named) and maker.module == MAKERS and maker.name.startswith("set_"):
            args.values[0].state = args.values[1]
            self._stack.append((args.values[0], start))
            return
        self._make(maker, args, start)

    def held(self, argument: object) -> None:
        named, start = self._pop()
        if isinstance(named, Row):
            where, name, *_ = named.values
            named = Named(str(where), str(name))
        self._stack.append((named, start))

    def new_object(self, argument: object) -> None:
        args, (kind, start) = self._pop()[0], self._pop()
        self._make(kind, args, start)

    def new_object_extended(self, argument: object) -> None:
        keywords, args, (kind, start) = self._pop()[0], self._pop()[0], self._pop()
        self._make(kind, args, start)
        self._stack[-1][0].pairs.extend(keywords.pairs)

    def _make(self, maker: Any, args: Any, start: int) -> None:
        if not isinstance(args, Row):
            raise TypeError("arguments are no tuple")
        made = Made(maker, args.values)
        if made.by(*EMPTY_FIRST):
            self.objects.append(made)
        self._stack.append((made, start))

    def build(self, argument: object) -> None:
        state, _ = self._pop()
        made = self._stack[-1][0]
        if not isinstance(made, Made):
            raise TypeError("a state for what has none")
        made.state = state


_PLAIN = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_STEPS: dict[str, Callable[[Pickles, Any], object]] = {
    "PROTO": lambda pickles, argument: None,
    "FRAME": lambda pickles, argument: None,
    "MARK": Pickles.mark,
    "MEMOIZE": Pickles.memoize,
    "BINGET": Pickles.get,
    "LONG_BINGET": Pickles.get,
    "POP": Pickles.pop,
    "POP_MARK": lambda pickles, argument: pickles.above_mark(),
    "EMPTY_LIST": lambda pickles, argument: pickles.push(Row("list", [])),
    "EMPTY_SET": lambda pickles, argument: pickles.push(Row("set", [])),
    "EMPTY_DICT": lambda pickles, argument: pickles.push(Pairs()),
    "EMPTY_TUPLE": lambda pickles, argument: pickles.tuple_of(0),
    "TUPLE1": lambda pickles, argument: pickles.tuple_of(1),
    "TUPLE2": lambda pickles, argument: pickles.tuple_of(2),
    "TUPLE3": lambda pickles, argument: pickles.tuple_of(3),
    "TUPLE": lambda pickles, argument: pickles.row("tuple", pickles.above_mark()),
    "FROZENSET": lambda pickles, argument: pickles.row("frozenset", pickles.above_mark()),
    "APPEND": Pickles.append,
    "APPENDS": Pickles.extend,
    "ADDITEMS": Pickles.extend,
    "SETITEM": Pickles.set_item,
    "SETITEMS": Pickles.set_items,
    "GLOBAL": Pickles.named,
    "STACK_GLOBAL": Pickles.stack_named,
    "BINPERSID": Pickles.held,
    "REDUCE": Pickles.reduce,
    "NEWOBJ": Pickles.new_object,
    "NEWOBJ_EX": Pickles.new_object_extended,
    "BUILD": Pickles.build,
}


# ---- the table, which is marshalled ----

_REFERRED = 0x80
_SINGLE = {"N": None, "T": True, "F": False}
DEEPEST = 20  # levels


class _Table:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._seen: list[Any] = []

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise EOFError("the table ends early")
        self._at += count
        return found

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(number)

    def read(self, depth: int = 0) -> Any:
        kind = self._take(1)[0]
        letter = chr(kind & ~_REFERRED)
        place = len(self._seen)
        if kind & _REFERRED:
            self._seen.append(None)
        value = self._value(letter, depth)
        if kind & _REFERRED:
            self._seen[place] = value
        return value

    def _value(self, letter: str, depth: int) -> Any:
        if letter in _SINGLE:
            return _SINGLE[letter]
        if letter == "i":
            return self._number("<i")
        if letter == "g":
            return struct.unpack("<d", self._take(8))[0]
        if letter == "r":
            return self._seen[self._number("<I")]
        if letter in "zZaAuts":
            text = self._take(self._number("<B" if letter in "zZ" else "<i"))
            return text if letter == "s" else text.decode("utf-8", "surrogatepass")
        if depth < DEEPEST and letter in ")([":
            count = self._number("<B" if letter == ")" else "<i")
            values = [self.read(depth + 1) for _ in range(count)]
            return values if letter == "[" else tuple(values)
        if depth < DEEPEST and letter == "{":
            return dict(self._items(depth))
        raise ValueError(f"the table has a value of the unknown kind {letter!r}")

    def _items(self, depth: int) -> Iterator[tuple[Any, Any]]:
        while self._data[self._at : self._at + 1] != b"0":
            yield self.read(depth + 1), self.read(depth + 1)
        self._take(1)


def table(data: bytes) -> Any:
    """The plain data that is marshalled in these bytes: None, bool, int, float, str, bytes, tuple, list, dict."""
    return _Table(data).read()
