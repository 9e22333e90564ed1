"""Which imports a code object holds; nothing here knows modules, packages or files.

Bytecode and not the syntax tree: where a .pyc file is there (and it is for all that was imported before), reading it and
looking for one opcode takes a tenth of what parsing takes. What differs between CPython versions is in `_statements`
and `_reads`; on a version that is not known here both go through `dis`, which is slower and right everywhere.
"""

import dis
import itertools
import re
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

_KNOWN = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 15)
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_IMPORT_FLAGS = (
    2 if sys.version_info >= (3, 15) else 0
)  # bits of its argument below the index of the name: whether it is lazy
_LOAD_CONST = dis.opmap["LOAD_CONST"]
_LOAD_SMALL_INT = dis.opmap.get("LOAD_SMALL_INT", -1)  # from 3.14 on
_LOAD_COMMON = dis.opmap.get("LOAD_COMMON_CONSTANT", -1)  # from 3.14 on; None is among them from 3.15 on
_COMMON: list[Any] = getattr(dis, "_common_constants", [])
_UNKNOWN = object()
_EXTENDED_ARG = dis.EXTENDED_ARG
# Opcodes that read a name -> how far their argument is shifted above the index of the name.
_READS = {
    dis.opmap["LOAD_NAME"]: 0,
    dis.opmap["LOAD_GLOBAL"]: 1,
    dis.opmap["LOAD_ATTR"]: int(sys.version_info >= (3, 12)),
}
if "LOAD_METHOD" in dis.opmap:  # 3.11; from 3.12 on it is a LOAD_ATTR
    _READS[dis.opmap["LOAD_METHOD"]] = 0
_READ_NAMES = frozenset(("LOAD_NAME", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD"))
_SKIPPED = frozenset(dis.opmap[name] for name in ("CACHE", "EXTENDED_ARG", "TO_BOOL") if name in dis.opmap)
_COMPARE_OP = dis.opmap["COMPARE_OP"]
# The jump over the body of an `if`; how many words after it its distance counts from; the bit from
# which COMPARE_OP keeps the comparison.
_JUMP = dis.opmap.get("POP_JUMP_FORWARD_IF_FALSE", dis.opmap.get("POP_JUMP_IF_FALSE", -1))
_JUMP_FROM = 2 if sys.version_info >= (3, 13) else 1
_COMPARISON_AT = 5 if sys.version_info >= (3, 13) else 4 if sys.version_info >= (3, 12) else 0
_CO_OPTIMIZED = 0x01  # set for functions, lambdas and comprehensions, not for modules and class bodies
_TYPE_PARAMETERS = "<generic parameters of "
_RUN_AT_ONCE = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_BY_NAME = frozenset(("import_module", "__import__", "find_spec"))
_VERSION = frozenset(("version", "metadata", "distribution", "files", "requires"))
_ALL = frozenset(("distributions", "entry_points", "packages_distributions"))
_ADDING = frozenset(("append", "extend", "insert"))
_PLACES = frozenset(("__file__", "__path__", "getfile", "getsourcefile"))
_MODULE_NAME = re.compile(r"\.*(?!_+\Z)[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.][\w.:+/-]{1,98}\Z", re.ASCII)
_TOP_LEVEL = re.compile(r"[a-z_][a-z0-9_]{2,30}\Z", re.ASCII)
_MOST_OPTIONAL = 64
_FILE_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)+\Z", re.ASCII)


class Statement(NamedTuple):
    """One import as written: `from ..a.b import c, d` is (2, "a.b", ("c", "d")); `import a.b` is (0, "a.b", ())."""

    level: int
    module: str
    names: tuple[str, ...]


class Found:
    """What code imports when it is imported itself (`at_import`), and what its functions import when called (`inside`).

    `named_at_import` and `named_inside` are strings that look like modules in code that imports by name, as in
    `import_module("x")`. `exported` are the strings of a module that defines __all__, `files` those that look like files,
    `words` those that could name anything, `optional` those that could be top-level modules, where code calls what has "import"
    in its name. `by_name` is true when anything imports by name, `knows_file` when anything asks where its file lies,
    `asks_all` when anything uses the words for all distributions, `asks_version` when it asks importlib.metadata while it is
    imported, `asks_version_inside` when a function of it does, `changes_path` when anything uses sys.path together with the
    words for adding to a list, `stars` when a string of it is the end of a `from module import *`, which it executes.
    """

    def __init__(self) -> None:
        self.at_import: list[Statement] = []
        self.inside: list[Statement] = []
        self.named_at_import: set[str] = set()
        self.named_inside: set[str] = set()
        self.exported: set[str] = set()
        self.words: set[str] = set()
        self.optional: set[str] = set()
        self.files: set[str] = set()
        self.by_name = False
        self.knows_file = False
        self.asks_all = False
        self.asks_version = False
        self.asks_version_inside = False
        self.changes_path = False
        self.stars = False


def imports(code: CodeType) -> Found:
    """All imports of a module's code object, at every depth.

    A function that the module itself reads while it is imported (calls, decorates with, hands on) counts as run at
    import, and so do the functions that it reads. Imports under `if TYPE_CHECKING:` and `if __name__ == "__main__":`
    count nowhere.
    """
    found = Found()
    bodies: list[CodeType] = []
    functions: list[tuple[str, CodeType]] = []
    _sort_out(code, bodies, functions)
    importing = [name for name, function in functions if any(map(_may_import, with_nested(function)))]
    read: set[str] = set()
    for body in bodies:
        dead = _dead_ranges(body)
        found.at_import += _statements(body, dead)
        if importing or not _BY_NAME.isdisjoint(body.co_names):
            found.by_name = found.by_name or not _BY_NAME.isdisjoint(body.co_names)
            reads = _reads(body, dead)
            read |= reads
            if not _BY_NAME.isdisjoint(reads):
                found.named_at_import.update(_matching(_MODULE_NAME, body))
        found.files.update(_matching(_FILE_NAME, body))
        _add_words(body, found)
        if any("import" in name and name not in _BY_NAME for name in body.co_names):
            found.optional.update(itertools.islice(_matching(_TOP_LEVEL, body), _MOST_OPTIONAL))
    early = _reached(read, functions) if importing else frozenset[str]()
    for name, function in functions:
        statements, named = (
            (found.at_import, found.named_at_import) if name in early else (found.inside, found.named_inside)
        )
        for one in with_nested(function):
            _add_function(one, statements, named, found.files)
            _add_words(one, found)
            found.by_name = found.by_name or not _BY_NAME.isdisjoint(one.co_names)
    if any(map(_is_metadata, found.at_import)):
        reads = {name for body in bodies for name in _reads(body, _dead_ranges(body))}
        reached = _reached(reads, functions)
        reads.update(name for called, function in functions if called in reached for name in function.co_names)
        asking = _VERSION.union(*map(_other_names, bodies))
        found.asks_version = not asking.isdisjoint(reads)
        found.asks_version_inside = any(not asking.isdisjoint(function.co_names) for _, function in functions)
    if "__all__" in code.co_names:
        found.exported.update(_matching(_MODULE_NAME, code))
    if found.named_inside:  # a table of what is imported lazily stands beside the function, not in it
        found.named_inside.update(name for name in _matching(_MODULE_NAME, code) if "." in name)
    return found


def _other_names(body: CodeType) -> set[str]:
    """What a `from importlib.metadata import version as name` calls it."""
    found = set()
    last: Any = None
    for one in dis.get_instructions(body):
        if last is not None and last.opname == "IMPORT_FROM" and last.argval in _VERSION:
            found.add(str(one.argval))
        last = one
    return found


def _is_metadata(one: Statement) -> bool:
    return one.module in ("importlib.metadata", "importlib_metadata") or (
        one.module == "importlib" and "metadata" in one.names
    )


def words(code: CodeType) -> Iterator[str]:
    """The strings of this code and of what is defined in it that could name a module, a file or a folder."""
    for one in with_nested(code):
        yield from _matching(_WORD, one)


def _add_words(code: CodeType, found: Found) -> None:
    found.words.update(map(sys.intern, _matching(_WORD, code)))
    found.knows_file = found.knows_file or not _PLACES.isdisjoint(code.co_names)
    found.changes_path = found.changes_path or (
        {"sys", "path"} <= {*code.co_names} and not _ADDING.isdisjoint(code.co_names)
    )
    found.asks_all = found.asks_all or not _ALL.isdisjoint(code.co_names)
    if "exec" in code.co_names:
        found.stars = found.stars or any(isinstance(one, str) and one.endswith(" import *") for one in code.co_consts)


def _within(offset: int, ranges: list[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in ranges)


def add_function(code: CodeType, found: Found) -> None:
    """Add the imports of one function and of the functions in it, all as `at_import`: it is about to be called."""
    for one in with_nested(code):
        _add_function(one, found.at_import, found.named_at_import, found.files)
        _add_words(one, found)
    found.words.clear()  # of a function they are hints, and no two functions have the same


def _add_function(code: CodeType, statements: list[Statement], named: set[str], files: set[str]) -> None:
    if _may_import(code):
        statements += _statements(code, _dead_ranges(code))
        if not _BY_NAME.isdisjoint(code.co_names):
            named.update(_matching(_MODULE_NAME, code))
    files.update(_matching(_FILE_NAME, code))


def _sort_out(code: CodeType, bodies: list[CodeType], functions: list[tuple[str, CodeType]]) -> None:
    """Tell what runs when the module is imported (its own level, class bodies) from the functions defined there.

    By qualified name, which nothing reads for a method: a class body can call its own functions, but hardly any does.
    """
    bodies.append(code)
    for one in _nested(code):
        if one.co_name in _RUN_AT_ONCE or one.co_name.startswith(_TYPE_PARAMETERS) or not one.co_flags & _CO_OPTIMIZED:
            _sort_out(one, bodies, functions)
        else:
            functions.append((one.co_qualname, one))


def _reached(read: set[str], functions: list[tuple[str, CodeType]]) -> frozenset[str]:
    """The names of the functions that are read, or that one of these reads."""
    by_name: dict[str, list[CodeType]] = {}
    for name, function in functions:
        by_name.setdefault(name, []).append(function)
    reached: set[str] = set()
    pending = [name for name in read if name in by_name]
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached.add(name)
        for function in by_name[name]:
            for one in with_nested(function):
                pending += [other for other in one.co_names if other in by_name and other not in reached]
    return frozenset(reached)


def _may_import(code: CodeType) -> bool:
    return _IMPORT_NAME in code.co_code[::2] or not _BY_NAME.isdisjoint(code.co_names)


def _nested(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """This code and that of all that is defined in it, at every depth."""
    yield code
    for one in _nested(code):
        yield from with_nested(one)


def _matching(pattern: re.Pattern[str], code: CodeType) -> Iterator[str]:
    """The string constants of this code alone, also those inside of constant tuples and sets."""
    pending: list[Any] = list(code.co_consts)
    while pending:
        constant = pending.pop()
        if isinstance(constant, str):
            if len(constant) < 100 and pattern.match(constant):
                yield constant
        elif isinstance(constant, (tuple, frozenset)):
            pending += constant


def _statements(code: CodeType, dead: list[tuple[int, int]]) -> list[Statement]:
    """The import statements of this code alone, outside of the `dead` ranges of offsets."""
    ops = code.co_code[::2]
    if _IMPORT_NAME not in ops:
        return []
    if not _KNOWN:
        return _statements_by_dis(code, dead)
    args = code.co_code[1::2]
    found = []
    at = ops.find(_IMPORT_NAME)
    while at >= 0:
        if not _within(2 * at, dead):
            name, before = _argument(ops, args, at)
            names, earlier = _constant(code, ops, args, before)
            level, _ = _constant(code, ops, args, earlier)
            if names is _UNKNOWN or level is _UNKNOWN:
                return _statements_by_dis(code, dead)
            found.append(_statement(level, code.co_names[name >> _IMPORT_FLAGS], names))
        at = ops.find(_IMPORT_NAME, at + 1)
    return found


def _constant(code: CodeType, ops: bytes, args: bytes, at: int) -> tuple[Any, int]:
    """What the instruction at this place loads, _UNKNOWN for no constant, and the place of the instruction before it."""
    argument, before = _argument(ops, args, at)
    if ops[at] == _LOAD_CONST:
        return code.co_consts[argument], before
    if ops[at] == _LOAD_SMALL_INT:
        return argument, before
    if ops[at] == _LOAD_COMMON and argument < len(_COMMON) and _COMMON[argument] is None:
        return None, before
    return _UNKNOWN, before


def _argument(ops: bytes, args: bytes, at: int) -> tuple[int, int]:
    """The whole argument of the instruction at this place, and the place of the instruction before it."""
    value, shift, before = args[at], 8, at - 1
    while before >= 0 and ops[before] == _EXTENDED_ARG:
        value |= args[before] << shift
        shift += 8
        before -= 1
    return value, before


def _statements_by_dis(code: CodeType, dead: list[tuple[int, int]]) -> list[Statement]:
    found = []
    names: Any = None
    level: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opcode == _EXTENDED_ARG:
            continue
        if instruction.opcode == _IMPORT_NAME and not _within(instruction.offset, dead):
            found.append(_statement(level, instruction.argval, names))
        level, names = names, instruction.argval
    return found


def _statement(level: Any, module: Any, names: Any) -> Statement:
    return Statement(int(level or 0), str(module), tuple(names or ()))


def _reads(code: CodeType, dead: list[tuple[int, int]]) -> set[str]:
    """The names and attributes that this code reads, outside of the `dead` ranges of offsets."""
    if not _KNOWN:
        return {
            str(instruction.argval)
            for instruction in dis.get_instructions(code)
            if instruction.opname in _READ_NAMES and not _within(instruction.offset, dead)
        }
    found = set()
    high = 0
    for at, (op, arg) in enumerate(zip(code.co_code[::2], code.co_code[1::2], strict=True)):
        if op == _EXTENDED_ARG:
            high = (high | arg) << 8
            continue
        shift = _READS.get(op)
        if shift is not None and not _within(2 * at, dead):
            found.add(code.co_names[(high | arg) >> shift])
        high = 0
    return found


def _dead_ranges(code: CodeType) -> list[tuple[int, int]]:
    """The offsets of the blocks that never run on the target: those of TYPE_CHECKING, and of the main guard."""
    if "TYPE_CHECKING" not in code.co_names and not ("__name__" in code.co_names and "__main__" in code.co_consts):
        return []
    return _dead_by_words(code) if _KNOWN else _dead_by_dis(code)


def _dead_by_words(code: CodeType) -> list[tuple[int, int]]:
    ranges = []
    ops, args = code.co_code[::2], code.co_code[1::2]
    at = ops.find(_JUMP)
    while at >= 0:
        test = _before(ops, at)
        if ops[test] == _COMPARE_OP:
            right = _before(ops, test)
            left = _before(ops, right)
            values = {_value(code, ops, args, left), _value(code, ops, args, right)}
            is_dead = values == {"__name__", "__main__"} and dis.cmp_op[args[test] >> _COMPARISON_AT] == "=="
        else:
            is_dead = _value(code, ops, args, test) == "TYPE_CHECKING"
        if is_dead:
            distance, _ = _argument(ops, args, at)
            ranges.append((2 * at, 2 * (at + _JUMP_FROM + distance)))
        at = ops.find(_JUMP, at + 1)
    return ranges


def _before(ops: bytes, at: int) -> int:
    """The place of the instruction before this one, passing over what only belongs to another one."""
    at -= 1
    while at > 0 and ops[at] in _SKIPPED:
        at -= 1
    return max(at, 0)


def _value(code: CodeType, ops: bytes, args: bytes, at: int) -> Any:
    """The name that an instruction reads, or the constant that it loads."""
    argument, _ = _argument(ops, args, at)
    if ops[at] == _LOAD_CONST:
        return code.co_consts[argument] if isinstance(code.co_consts[argument], str) else None
    shift = _READS.get(ops[at])
    return None if shift is None else code.co_names[argument >> shift]


def _dead_by_dis(code: CodeType) -> list[tuple[int, int]]:
    ranges = []
    last: list[tuple[str, Any]] = [("", None)] * 3
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("TO_BOOL", "EXTENDED_ARG", "NOT_TAKEN"):
            continue
        if name.startswith("POP_JUMP") and name.endswith("IF_FALSE"):
            typing_only = last[-1][1] == "TYPE_CHECKING" and last[-1][0] in _READ_NAMES
            guarded = last[-1][0] == "COMPARE_OP" and {last[-2][1], last[-3][1]} == {"__name__", "__main__"}
            if (typing_only or guarded) and (not guarded or "==" in str(last[-1][1])):
                ranges.append((instruction.offset, int(instruction.argval)))
        last = [*last[1:], (name, instruction.argval)]
    return ranges
