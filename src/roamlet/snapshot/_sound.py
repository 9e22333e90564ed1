"""Whether what a snapshot says of a frame can be what its code has left there: the interpreter looks at little of it.

The depth of the stack is compared in C (restore.c). What lies on it, and in the variables, is followed here through the code
from the
place where the frame goes on, to the first instructions that take it for granted: an iterator under a loop, a list that a display
fills, an exception that a handler raises again, a cell, something and not nothing. Code that comes by value is followed from its
beginning. What is wrong raises ValueError, and nothing was built.
"""

import dis
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from roamlet.snapshot import _native

_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_ENDS = {
    "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "RAISE_VARARGS", "RERAISE", "RETURN_VALUE", "RETURN_CONST",
}  # fmt: skip
_KNOWN = sys.version_info < (3, 12)  # whose instructions are described below; elsewhere the depth alone is compared
_NULL_IS_LOWEST = sys.version_info < (3, 13)  # of the operands of a call; else it is above what is called
_UNIT = 2  # bytes

_CHECKS: dict[str, Callable[[Any], bool]] = {
    "an iterator": lambda value: hasattr(type(value), "__next__"),
    "a list": lambda value: isinstance(value, list),
    "a set": lambda value: isinstance(value, set),
    "a dict": lambda value: isinstance(value, dict),
    "a tuple": lambda value: isinstance(value, tuple),
    "code": lambda value: isinstance(value, types.CodeType),
    "an exception": lambda value: isinstance(value, BaseException),
    "an exception or None": lambda value: value is None or isinstance(value, BaseException),
    "a cell": lambda value: isinstance(value, types.CellType),
}
SOMETHING = "something"  # and not an empty slot

_ON_TOP = {
    "FOR_ITER": "an iterator",
    "LIST_TO_TUPLE": "a list",
    "POP_EXCEPT": "an exception or None",
    "RERAISE": "an exception",
    "PUSH_EXC_INFO": "an exception",
    "WITH_EXCEPT_START": "an exception",
    "END_ASYNC_FOR": "an exception",
    "CLEANUP_THROW": "an exception",
    "PREP_RERAISE_STAR": "a list",
    "MAKE_FUNCTION": "code",
    "MATCH_KEYS": "a tuple",
    "MATCH_CLASS": "a tuple",
    **dict.fromkeys(
        (
            "CHECK_EG_MATCH",
            "RETURN_VALUE",
            "POP_TOP",
            "GET_ITER",
            "LOAD_ATTR",
            "LOAD_METHOD",
            "YIELD_VALUE",
            "BEFORE_WITH",
            "UNPACK_SEQUENCE",
            "COPY",
            "STORE_ATTR",
            "STORE_SUBSCR",
            "COMPARE_OP",
            "BINARY_OP",
            "BINARY_SUBSCR",
            "STORE_GLOBAL",
            "FORMAT_VALUE",
            "UNARY_NOT",
            "STORE_DEREF",
            "CHECK_EXC_MATCH",
            "RAISE_VARARGS",
            "CONTAINS_OP",
            "IS_OP",
            "SEND",
            "GET_AWAITABLE",
            "FORMAT_SIMPLE",
            "TO_BOOL",
            "UNPACK_EX",
            "UNARY_NEGATIVE",
        ),
        SOMETHING,
    ),
}
_SECOND = {
    "STORE_ATTR", "STORE_SUBSCR", "COMPARE_OP", "BINARY_OP", "BINARY_SUBSCR", "CONTAINS_OP", "IS_OP", "SEND", "CHECK_EXC_MATCH",
}  # fmt: skip
_FILLED = {
    "LIST_APPEND": "a list", "LIST_EXTEND": "a list", "SET_ADD": "a set", "SET_UPDATE": "a set", "DICT_UPDATE": "a dict",
    "DICT_MERGE": "a dict", "MAP_ADD": "a dict",
}  # fmt: skip
_ROWS = {"BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"}
_DEREFS = {"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_LOADS = {"LOAD_FAST"} if sys.version_info >= (3, 12) else set()  # that do not look whether the variable has a value


Demands = tuple[tuple[int, str], ...]


class _Step(NamedTuple):
    name: str
    arg: int
    jump: int | None
    next: int
    falls_through: bool


class _Graph:
    """The instructions of a code object by unit, with the depth before each."""

    def __init__(self, code: types.CodeType) -> None:
        self.demands: dict[tuple[int, int], Demands] = {}
        self.wanted: dict[str, dict[int, int]] = {}
        self.depths = _native.depths(code)
        self.steps: dict[int, _Step] = {}
        found = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
        ends = [each.offset // _UNIT for each in found[1:]] + [len(code.co_code) // _UNIT]
        for each, end in zip(found, ends, strict=True):
            jump = each.argval // _UNIT if each.opcode in _JUMPS else None
            self.steps[each.offset // _UNIT] = _Step(each.opname, each.arg or 0, jump, end, each.opname not in _ENDS)
        self.handlers = [
            (each.start // _UNIT, each.end // _UNIT, each.target // _UNIT, each.depth)
            for each in dis._parse_exception_table(code)  # type: ignore[attr-defined]
        ]

    def follows(self, unit: int, at: int) -> Iterator[tuple[int, int]]:
        """Where the operand of this number is, in which instructions that come next, as far as it is still there."""
        step, depth = self.steps[unit], self.depths[unit]
        place = depth - at  # from the top, which is 1
        if step.name == "SWAP" and place in (1, step.arg):
            at = depth - (step.arg if place == 1 else 1)
        elif place <= _taken(step, depth, self.depths):
            at = depth + 1  # gone
        for following in (step.jump, step.next if step.falls_through else None):
            if following is not None and following in self.steps and at < min(depth, self.depths[following]):
                yield following, at
        for start, end, target, kept in self.handlers:
            if start <= unit < end and depth - place < kept:
                yield target, depth - place

    def after(self, unit: int) -> Iterator[int]:
        """The instructions that can come next."""
        step = self.steps[unit]
        for following in (step.jump, step.next if step.falls_through else None):
            if following is not None and following in self.steps:
                yield following
        for start, end, target, _ in self.handlers:
            if start <= unit < end:
                yield target


def _taken(step: _Step, depth: int, depths: list[int]) -> int:
    """How many operands the instruction takes off the stack, or more where that is not known."""
    if step.name in (
        "FOR_ITER",
        "RERAISE",
        "PUSH_EXC_INFO",
        "WITH_EXCEPT_START",
        "COPY",
        "NOP",
        "RESUME",
        "EXTENDED_ARG",
        "KW_NAMES",
    ):
        return 0
    if step.name in _FILLED:
        return 2 if step.name == "MAP_ADD" else 1
    following = step.next if step.falls_through else step.jump
    after = depths[following] if following is not None and following < len(depths) else 0
    if (
        step.name
        in ("POP_TOP", "STORE_FAST", "STORE_GLOBAL", "STORE_DEREF", "POP_EXCEPT", "STORE_SUBSCR", "STORE_ATTR")
        or "JUMP" in step.name
    ):
        return max(depth - after, 0)
    if step.name.startswith("LOAD_") and step.name not in (
        "LOAD_ATTR",
        "LOAD_METHOD",
        "LOAD_SUPER_ATTR",
        "LOAD_FROM_DICT_OR_DEREF",
        "LOAD_FROM_DICT_OR_GLOBALS",
    ):
        return 0
    return max(depth - after, 0) + 2  # the results, of which there may be two, are in the places of some


def _wanted(step: _Step, place: int) -> str | None:  # noqa: PLR0911 - a table, one line for each family of instructions
    """What the instruction takes the operand at this place from the top for."""
    name, arg = step.name, step.arg
    if name in _FILLED and place == arg + (2 if name == "MAP_ADD" else 1):
        return _FILLED[name]
    if name in ("CALL", "PRECALL") and place <= arg + 2:
        return None if place == arg + (2 if _NULL_IS_LOWEST else 1) else SOMETHING
    if name in _ROWS and place <= arg:
        return SOMETHING
    if name == "BUILD_MAP" and place <= 2 * arg:
        return SOMETHING
    if name == "CALL_INTRINSIC_1" and place == 1:
        return "a list" if arg == _LIST_TO_TUPLE else SOMETHING
    if name == "CALL_FUNCTION_EX" and place == 1:
        return "a dict" if arg & 1 else SOMETHING
    if name == "COPY":
        return SOMETHING if place == arg else None
    if place == 1:
        return _ON_TOP.get(name)
    return SOMETHING if place == 2 and name in _SECOND else None


_LIST_TO_TUPLE = 6


_graphs: dict[int, tuple["weakref.ref[types.CodeType]", _Graph]] = {}  # by id(); for as long as the code lives


def _graph(code: types.CodeType) -> _Graph:
    found = _graphs.get(id(code))
    if found is not None and found[0]() is code:
        return found[1]
    key, graph = id(code), _Graph(code)
    _graphs[key] = weakref.ref(code, lambda gone: _forget(key, gone)), graph
    return graph


def _forget(key: int, gone: "weakref.ref[types.CodeType]") -> None:
    found = _graphs.get(key)
    if found is not None and found[0] is gone:
        del _graphs[key]


def _of_operand(graph: _Graph, unit: int, at: int) -> set[str]:
    wanted: set[str] = set()
    todo, seen = [(unit, at)], {(unit, at)}
    while todo:
        unit, at = todo.pop()
        need = _wanted(graph.steps[unit], graph.depths[unit] - at)
        if need is not None:
            wanted.add(need)
        for each in graph.follows(unit, at):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return wanted


def _of_variables(graph: _Graph, code: types.CodeType, unit: int) -> Iterator[tuple[int, str]]:
    """(its number, what is taken for granted of a variable before it is given another value)."""
    if not graph.wanted:
        graph.wanted = {need: _wanted_before(graph, code, need) for need in (SOMETHING, "a cell")}
    for need, before in graph.wanted.items():
        left = before[unit]
        while left:
            number = left.bit_length() - 1
            left ^= 1 << number
            yield number, need


def _wanted_before(graph: _Graph, code: types.CodeType, need: str) -> dict[int, int]:
    """By unit: the variables, a bit each, of which this is taken for granted from there on. (Liveness, from the end backwards.)"""
    names = _names_of(code)
    cells = {names.index(name) for name in (*code.co_cellvars, *code.co_freevars)}
    takes, ends = dict.fromkeys(graph.steps, 0), dict.fromkeys(graph.steps, 0)
    for unit, step in graph.steps.items():
        for number in {step.arg, step.arg >> 4, step.arg & 15}:
            given, wanted = _uses(step, number, number in cells)
            ends[unit] |= given << number
            takes[unit] |= (wanted == need) << number
    after = {unit: list(graph.after(unit)) for unit in graph.steps}
    before = dict(takes)
    changed = any(takes.values())
    while changed:
        changed = False
        for unit in reversed(graph.steps):
            later = 0
            for each in after[unit]:
                later |= before[each]
            found = takes[unit] | later & ~ends[unit]
            if found != before[unit]:
                before[unit] = found
                changed = True
    return before


def _uses(step: _Step, number: int, is_cell: bool) -> tuple[bool, str | None]:
    """Whether the instruction gives this variable another value, and what it takes for granted of it before."""
    name, arg = step.name, step.arg
    if name in _DEREFS:
        return False, "a cell" if arg == number else None
    if name in ("MAKE_CELL", "STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR") and arg == number:
        return True, None
    if name in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
        first, second = arg >> 4, arg & 15
        if name == "STORE_FAST_STORE_FAST":
            return number in (first, second), None
        if name == "STORE_FAST_LOAD_FAST":
            return number == first, SOMETHING if number == second != first else None
        return False, SOMETHING if number in (first, second) else None
    if name == "LOAD_FAST" and arg == number:
        return False, "a cell" if is_cell and sys.version_info >= (3, 13) else SOMETHING if name in _LOADS else None
    return False, None


def demands(code: types.CodeType, unit: int, count: int) -> Demands:
    """(number of a slot, what it has to be) for a frame that goes on at this unit with so many slots in use."""
    graph = _graph(code)
    known = graph.demands.get((unit, count))
    if known is not None:
        return known
    variables = len(_names_of(code))
    if unit not in graph.steps:
        raise ValueError(f"a frame of {code.co_qualname} would go on in the middle of an instruction")
    found = list(_of_variables(graph, code, unit))
    for number in range(variables, count):
        found += [(number, need) for need in _of_operand(graph, unit, number - variables)]
    graph.demands[unit, count] = known = tuple(sorted(found))
    return known


def _names_of(code: types.CodeType) -> list[str]:
    # A list and no generator, here and below: a function that is made when memory is out crashes 3.12 and 3.13.
    return [*code.co_varnames, *[name for name in code.co_cellvars if name not in code.co_varnames], *code.co_freevars]


def check(code: types.CodeType, unit: int, nulls: Any, slots: tuple[Any, ...], left_out: range = range(0)) -> None:
    """Raise ValueError when these slots, less those of `left_out`, cannot be those of a frame that goes on at this unit."""
    if not _KNOWN:
        return
    for number, need in demands(code, unit, len(slots)):
        if number in left_out:
            continue
        empty = bool(nulls >> number & 1) if isinstance(nulls, int) else number in nulls
        if empty or (need != SOMETHING and not _CHECKS[need](slots[number])):
            what = "nothing" if empty else f"a {type(slots[number]).__name__}"
            raise ValueError(
                f"the saved state of a frame of {code.co_qualname} does not fit its code: slot {number} has {what} where "
                f"{need} is needed"
            )


def check_code(code: types.CodeType) -> None:
    """Raise ValueError for code that no compiler has made: it jumps out of itself, or uses what it does not have."""
    if -1 in _native.depths(code)[:1] or not _indices_fit(code):
        raise ValueError(f"the code of {code.co_qualname!r} is damaged")
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            check_code(each)


def _indices_fit(code: types.CodeType) -> bool:
    limits = (
        (set(dis.hasconst), len(code.co_consts)),
        ({*dis.haslocal, *dis.hasfree}, len(_names_of(code))),
    )
    try:
        for each in dis.get_instructions(code):
            arg = each.arg or 0
            if each.opname.count("FAST") == 2:  # the numbers of two variables (3.13)
                arg = max(arg >> 4, arg & 15)
            for kinds, limit in limits:
                if each.opcode in kinds and arg >= limit:
                    return False
    except (LookupError, ValueError, TypeError):
        return False
    return True
