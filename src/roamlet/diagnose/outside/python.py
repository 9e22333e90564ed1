"""Python's own objects, read from memory: strings, types, code with its lines, and short texts of values."""

import struct
from collections.abc import Sequence

from roamlet.diagnose.outside.errors import DAMAGED, Torn
from roamlet.diagnose.outside.system.columns import Column, Members
from roamlet.diagnose.outside.system.memory import Memory
from roamlet.diagnose.outside.table import Table

_DOUBLE = struct.Struct("<d")
PAIR = struct.Struct("<QQ")
LONGEST_NAME = 20_000  # characters; a file's path has at most 4096
LONGEST_DELTA = 36  # bits of the distance between two lines
MOST_UNITS = 1 << 22  # instructions of a code object, with their caches
LONGEST_VALUE = 60  # characters of a local variable that are shown
LONGEST_NUMBER = 400  # digits of an int in memory
MOST_LOCALS = 400
MOST_ITEMS = 4
MOST_BASES = 50
MANY = 100  # objects, from which on it is worth while to read them together
MOST_ENTRIES = 100_000  # of a dictionary
ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}

Place = tuple[str, str, int | None]  # function, file, line


class Objects:
    """Reads objects by the numbers of a table. What was read once is kept: names and code do not change while they live."""

    def __init__(self, memory: Memory, table: Table) -> None:
        self.memory: Memory = memory
        self.numbers: dict[str, int] = table.numbers
        self.python: int = table.python
        self.types: dict[int, str] = {at: name[5:] for name, at in table.addresses.items() if name.startswith("type.")}
        self.constants: dict[int | None, str] = {
            table.addresses.get(name): text for name, text in (("none", "None"), ("true", "True"), ("false", "False"))
        }
        self._none = table.addresses.get("none", 0)
        self._strings: dict[int, str] = {}
        self._kinds: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._slots: dict[int, dict[str, int]] = {}
        self._codes: dict[int, tuple[str, str, int, dict[int, int | None]]] = {}

    def forget(self) -> None:
        """Memory has changed."""
        for kept in (self._strings, self._kinds, self._names, self._slots, self._codes):
            kept.clear()

    def type_of(self, at: int) -> int:
        """The address of an object's type."""
        return self.memory.word(at + self.numbers["object.type"])

    def kind(self, type_: int) -> str:
        """The name that the table gives a type, or the first of its bases that it names; "" for none."""
        if type_ not in self._kinds:
            base = type_
            for _ in range(MOST_BASES):
                if base == 0 or base in self.types:
                    break
                base = self.memory.word(base + self.numbers["type.base"])
            self._kinds[type_] = self.types.get(base, "")
        return self._kinds[type_]

    def is_a(self, type_: int, class_: int) -> bool:
        """Whether a type is this one, or is derived from it first of all."""
        for _ in range(MOST_BASES):
            if type_ in (0, class_):
                break
            type_ = self.memory.word(type_ + self.numbers["type.base"])
        return type_ != 0

    def type_name(self, type_: int) -> str:
        """The name of a type as its repr has it; "object" where it is not to be read, or is gone by now."""
        try:
            name = self.memory.text(self.memory.word(type_ + self.numbers["type.name"]))
        except Torn:  # a core file has no pages of the program's file
            return "object"
        return name if name.replace(".", "").isidentifier() else "object"

    def string(self, at: int) -> str:
        """The str at an address."""
        known = self._strings.get(at)
        if known is not None:
            return known
        if self.type_of(at) != self._type("str"):
            raise Torn(f"no str at {at:#x}")
        length, state = (
            self.memory.word(at + self.numbers["str.length"]),
            self.memory.word(at + self.numbers["str.state"]) & 0xFFFFFFFF,
        )
        width = state >> self.numbers["str.width_bit"] & 7
        compact, ascii_ = (state >> self.numbers[f"str.{which}_bit"] & 1 for which in ("compact", "ascii"))
        if width not in ENCODINGS or not compact or length > LONGEST_NAME:
            raise Torn(f"no str at {at:#x}")
        data = self.memory.read(at + self.numbers["str.ascii_data" if ascii_ else "str.data"], length * width)
        text = self._strings[at] = data.decode(ENCODINGS[width], "replace")
        return text

    def _type(self, name: str) -> int:
        for at, known in self.types.items():
            if known == name:
                return at
        raise Torn(f"the table has no type {name}")

    # ---- code ----

    def place(self, code: int, instruction: int) -> Place | None:
        """Where an instruction of a code object is. None: before its first line, so that the frame is not a call yet."""
        name, file, first, lines = self._code(code)
        unit = (instruction - code - self.numbers["code.bytecode"]) // 2
        return None if unit < first else (name, file, lines.get(unit))

    def beginning(self, code: int) -> Place:
        """Where the function of a code object begins."""
        name, file, _, _ = self._code(code)
        return name, file, self.memory.signed(code + self.numbers["code.first_line"], 4)

    def _code(self, at: int) -> tuple[str, str, int, dict[int, int | None]]:
        known = self._codes.get(at)
        if known is not None:
            return known
        memory, numbers = self.memory, self.numbers
        if self.type_of(at) != self._type("code"):
            raise Torn(f"no code at {at:#x}")
        name, file = (self.string(memory.word(at + numbers[f"code.{which}"])) for which in ("qualname", "filename"))
        table = memory.word(at + numbers["code.lines"])
        if self.type_of(table) != self._type("bytes"):
            raise Torn(f"no lines of the code at {at:#x}")
        data = bytes(memory.read(table + numbers["bytes.data"], memory.word(table + numbers["object.size"])))
        first_line = memory.signed(at + numbers["code.first_line"], 4)
        first = memory.signed(at + numbers["code.first_traceable"], 4) if "code.first_traceable" in numbers else 0
        self._codes[at] = name, file, first, lines_of(data, first_line)
        return self._codes[at]

    # ---- names of functions ----

    def function_name(self, at: int) -> str:
        """The qualified name of what a tasklet calls; the name of its type where it has none."""
        if at == 0:
            return "without function"
        known = self._names.get(at)
        if known is None:
            known = self._names[at] = self._function_name(at)
        return known

    def telling_names(self, functions: Column) -> Sequence[object]:
        """For each of many functions an object: those with an equal one have equal names. Those of Python's own functions that have
        equal names have mostly an equal one, and methods and functions of C code too.

        Each tasklet may have a method or a closure of its own, and names of a hundred thousand take long to read.
        """
        kinds = self.types
        if len(set(functions)) < MANY:
            return functions
        some = next(at for at in functions if at)
        try:
            places = [at or some for at in functions]
            rows = zip(functions, *self._words(places, "object.type", "method.function"), strict=True)
            called = [function if at and kinds.get(type_) == "method" else at for at, type_, function in rows]
            several = [at for at in dict.fromkeys(called) if at]
            if len(several) < MANY:
                return called
            rows = zip(several, *self._words(several, "object.type", "function.qualname"), strict=True)
            names: dict[int, object] = {0: 0}
            builtins = []
            for at, type_, name in rows:
                names[at] = name if kinds.get(type_) == "function" else at
                if kinds.get(type_) == "builtin":
                    builtins.append(at)
            methods, owners = self._words(builtins, "builtin.method", "builtin.self")
            types = self.memory.words([at + self.numbers["object.type"] if at else some for at in owners])
            for at, method, owner, type_ in zip(builtins, methods, owners, types, strict=True):
                names[at] = method, type_ if owner else 0
        except DAMAGED:  # one that cannot be read is met again by its tasklet
            return functions
        return [names[at] for at in called]

    def _words(self, places: list[int], *members: str) -> list[Column]:
        form = Members([(name, self.numbers[name], "Q") for name in members])
        return form.read(self.memory, places)

    def _function_name(self, at: int) -> str:
        type_ = self.type_of(at)
        kind = self.types.get(type_, "")
        if kind == "method":
            at = self.memory.word(at + self.numbers["method.function"])
            type_ = self.type_of(at)
            kind = self.types.get(type_, "")
        if kind == "function":
            return self.string(self.memory.word(at + self.numbers["function.qualname"]))
        if kind == "builtin":
            of = self.memory.word(at + self.numbers["builtin.self"])
            called = self.memory.text(self.memory.word(self.memory.word(at + self.numbers["builtin.method"])))
            owner = self.type_name(self.type_of(of)).rpartition(".")[2] if of else "module"
            return called if owner == "module" else f"{owner}.{called}"
        name = self.slot(at, type_, "__qualname__")
        if name and self.type_of(name) == self._type("str"):
            return self.string(name)
        return f"<{self.type_name(type_)} at {at:#x}>"

    def slot(self, at: int, type_: int, wanted: str) -> int:
        """What the object has in a slot that a class statement has made by __slots__: 0 for nothing."""
        offset = self.slots(type_).get(wanted)
        return 0 if offset is None else self.memory.word(at + offset)

    def slots(self, type_: int) -> dict[str, int]:
        """Where the objects of a class have what its __slots__ name, and those of its bases: {} for a type made by C code."""
        known = self._slots.get(type_)
        if known is None:
            known = self._slots[type_] = self._find_slots(type_)
        return known

    def _find_slots(self, type_: int) -> dict[str, int]:
        memory, numbers, found = self.memory, self.numbers, dict[str, int]()
        for _ in range(MOST_BASES):
            if type_ == 0 or not memory.word(type_ + numbers["type.flags"]) & numbers["type.heap_flag"]:
                break
            count = memory.signed(type_ + numbers["object.size"], 8)
            members = type_ + memory.word(self.type_of(type_) + numbers["type.basicsize"])
            for index in range(min(max(count, 0), MOST_LOCALS)):  # of PyMemberDef: name, type, offset, flags, doc
                member = members + 40 * index
                found.setdefault(memory.text(memory.word(member)), memory.word(member + 16))
            type_ = memory.word(type_ + numbers["type.base"])
        return found

    def dict_items(self, at: int) -> list[tuple[int, int]]:
        """The keys and values of a dictionary, in its order; [] for one whose values are an object's own."""
        memory, numbers = self.memory, self.numbers
        if self.types.get(self.type_of(at)) != "dict" or memory.word(at + numbers["dict.values"]):
            return []
        keys = memory.word(at + numbers["dict.keys"])
        bits, kind = memory.read(keys + numbers["keys.log2_index_bytes"], 2)
        count = memory.signed(keys + numbers["keys.entries"], 8)
        if bits > 40 or not 0 <= count <= MOST_ENTRIES:
            raise Torn(f"no dict at {at:#x}")
        several = 2 if kind else 3  # the hash is first, unless all keys are strings
        size = count * several
        words = struct.unpack(f"<{size}Q", memory.read(keys + numbers["keys.indices"] + (1 << bits), 8 * size))
        pairs = zip(words[several - 2 :: several], words[several - 1 :: several], strict=True)
        return [(key, value) for key, value in pairs if value]

    def set_words(self, at: int) -> list[int]:
        """The addresses of the members of a set, and of what marks the places of those that were removed."""
        memory, numbers = self.memory, self.numbers
        mask = memory.signed(at + numbers["set.mask"], 8)
        if self.types.get(self.type_of(at)) != "set" or not 0 <= mask < 8 * MOST_ENTRIES:
            raise Torn(f"no set at {at:#x}")
        table = memory.read(memory.word(at + numbers["set.table"]), 16 * (mask + 1))
        return [key for key, _ in PAIR.iter_unpack(table) if key]

    def referred_to(self, at: int) -> list[int]:
        """What the weak references in a set refer to that is alive."""
        found = []
        for reference in self.set_words(at):
            if self.types.get(self.type_of(reference)) == "weakref":
                of = self.memory.word(reference + self.numbers["weakref.object"])
                if of not in (0, self._none):
                    found.append(of)
        return found

    def member(self, at: int, name: str) -> int:
        """What an object has in a slot. Raises Torn where it has no such slot, or nothing in it."""
        value = self.slot(at, self.type_of(at), name) if at else 0
        if value == 0:
            raise Torn(f"no {name} in the object at {at:#x}")
        return value

    def is_none(self, at: int) -> bool:
        return at == self._none

    def number(self, at: int) -> int | None:
        """The int at an address; None for another object."""
        return int(self._int(at)) if self.types.get(self.type_of(at)) == "int" else None

    def tuple_words(self, at: int) -> tuple[int, ...]:
        """The addresses of the items of a tuple."""
        count = self.memory.word(at + self.numbers["object.size"])
        if self.types.get(self.type_of(at)) != "tuple" or count > MOST_ENTRIES:
            raise Torn(f"no tuple at {at:#x}")
        return struct.unpack(f"<{count}Q", self.memory.read(at + self.numbers["tuple.items"], 8 * count))

    # ---- values ----

    def locals(self, frame: int, code: int) -> dict[str, str]:
        """The local variables of a frame, as short texts. Follows what it finds no further than a list's first items."""
        memory, numbers = self.memory, self.numbers
        names = memory.word(code + numbers["code.local_names"])
        if self.type_of(names) != self._type("tuple"):
            raise Torn(f"no names of local variables at {names:#x}")
        count = min(
            memory.signed(code + numbers["code.locals"], 4), memory.word(names + numbers["object.size"]), MOST_LOCALS
        )
        found = {}
        for index in range(count):
            value = memory.word(frame + numbers["frame.locals"] + 8 * index)
            if numbers.get("frame.code_tags"):
                value = value & ~numbers["frame.code_tags"] if value & 3 != 3 else 0
            if value:
                found[self.string(memory.word(names + numbers["tuple.items"] + 8 * index))] = self.value(value)
        return found

    def value(self, at: int, deep: bool = True) -> str:
        """A short text of an object: what repr() gives of simple ones, else the type and the address."""
        try:
            return self._value(at, deep)
        except Torn:
            return f"<not readable at {at:#x}>"

    def _value(self, at: int, deep: bool) -> str:
        if at in self.constants:
            return self.constants[at]
        type_ = self.type_of(at)
        kind = self.types.get(type_, "")
        if kind in ("str", "bytes", "int", "float"):
            return self._scalar(at, kind)
        if kind in ("tuple", "list"):
            return self._items(at, kind, deep)
        if kind == "dict":
            return f"<dict of {self.memory.word(at + self.numbers['dict.used'])}>"
        if kind == "cell":
            inner = self.memory.word(at + self.numbers["object.size"])  # it has no size: its one member is there
            return self._value(inner, deep) if inner and deep else "<cell>"
        if kind == "function":
            return f"<function {self.function_name(at)}>"
        return f"<{self.type_name(type_)} at {at:#x}>"

    def _scalar(self, at: int, kind: str) -> str:
        memory, numbers = self.memory, self.numbers
        if kind == "str":
            length = memory.word(at + numbers["str.length"])
            return repr(_short(self.string(at))) if length <= LONGEST_NAME else f"<str of {length} characters>"
        if kind == "bytes":
            size = memory.word(at + numbers["object.size"])
            return repr(_short(bytes(memory.read(at + numbers["bytes.data"], min(size, LONGEST_VALUE + 1)))))
        if kind == "int":
            return self._int(at)
        return repr(_DOUBLE.unpack(memory.read(at + numbers["float.value"], 8))[0])

    def _int(self, at: int) -> str:
        memory, where = self.memory, at + self.numbers["object.size"]
        head = memory.signed(where, 8)
        if self.python >= 0x030C0000:  # the count of digits, and two bits of the sign
            count, negative = head >> 3, head & 3 == 2
            if head & 3 == 1:
                return "0"
        else:
            count, negative = abs(head), head < 0
        if not 0 <= count <= LONGEST_NUMBER:
            return f"<int of {count} digits>"
        digits = memory.read(where + 8, 4 * count)
        number = sum(int.from_bytes(digits[4 * i : 4 * i + 4], "little") << 30 * i for i in range(count))
        text = f"{'-' * negative}{number}" if count < 100 else f"{'-' * negative}{number:#x}"
        return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."

    def _items(self, at: int, kind: str, deep: bool) -> str:
        memory, numbers = self.memory, self.numbers
        count = memory.signed(at + numbers["object.size"], 8)
        begin, end = ("(", ")") if kind == "tuple" else ("[", "]")
        if not deep and count > 0:
            return f"{begin}...{end}"
        items = at + numbers["tuple.items"] if kind == "tuple" else memory.word(at + numbers["list.items"])
        shown = [
            self.value(memory.word(items + 8 * index), deep=False) for index in range(min(max(count, 0), MOST_ITEMS))
        ]
        more = f", ... of {count}" if count > MOST_ITEMS else "," if kind == "tuple" and count == 1 else ""
        return f"{begin}{', '.join(shown)}{more}{end}"


def _short(value: "str | bytes") -> "str | bytes":
    if len(value) <= LONGEST_VALUE:
        return value
    return value[:LONGEST_VALUE] + ("..." if isinstance(value, str) else b"...")  # type: ignore[operator]  # both are of one type


def lines_of(table: bytes, line: int) -> dict[int, int | None]:
    """The line of each code unit, None for those that have none, by a table as CPython's Objects/locations.md describes it.

    Raises Torn for one that no compiler makes.
    """
    lines: dict[int, int | None] = {}
    at, unit, end = 0, 0, len(table)
    while at < end:
        head = table[at]
        at += 1
        kind, count = head >> 3 & 15, (head & 7) + 1
        if kind in (13, 14):
            delta = shift = 0
            while at < end:
                byte = table[at]
                at += 1
                if shift > LONGEST_DELTA:
                    raise Torn("a line that is too far away")
                delta |= (byte & 63) << shift
                shift += 6
                if not byte & 64:
                    break
            line += -(delta >> 1) if delta & 1 else delta >> 1
        elif 10 <= kind <= 12:
            line += kind - 10
        while at < end and not table[at] & 128:
            at += 1
        for _ in range(count):
            lines[unit] = None if kind == 15 else line
            unit += 1
        if unit > MOST_UNITS:
            raise Torn("code that is too long")
    return lines
