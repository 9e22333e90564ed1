"""The block of a `with roamlet.at(context):`: its two frames on their way to another process, and how the function goes on here
when the block has ended there.

Only the frame that has the block travels, with what its variables hold. Back come data alone: where the block has ended, and the
variables that it has changed. The frame here goes on behind the block with them; no code comes from over there.
"""

import contextvars
import dis
import functools
import pickle
import sys
import types
from typing import Any

from roamlet._at import at
from roamlet.core import tasklet
from roamlet.snapshot import _native
from roamlet.snapshot._errors import BadSnapshot, CannotSave
from roamlet.snapshot.loading.helpers import base
from roamlet.snapshot.migration.prepare import ATOMIC_FLAG, SCHEDULED, Parcel, ParcelLoader, discard
from roamlet.snapshot.saving.save import ATOMIC, CONTEXT, FUNCTION, HANDLED, PLAIN_RECORD, RECORDS, STARTED, Reduced
from roamlet.snapshot.saving.why import variable_names
from roamlet.sync._outcome import Outcome
from roamlet.sync._spawn import Body

FUNCTION_OF, UNIT, OFFSET, NULLS, SLOTS = range(PLAIN_RECORD)  # of a record
_KEEPS_NEXT = sys.version_info >= (3, 13)  # a frame keeps the instruction that it executes
_WITH_IS_ONE = "BEFORE_WITH" in dis.opmap  # else the methods are looked up, and then called like any others
_HELD = (
    1 if _WITH_IS_ONE else 2
)  # operands that a block keeps: __exit__, and where it is no bound method its first argument
_NOTHING = object()
_ENTER = at.__dict__["__enter__"]

Said = dict[str, Any]
"""`end`: where the block has ended; `variables`: those that it has changed; `deleted`: the names of those that it has deleted;
`returned`: in a tuple, what it returns, if it does.
"""
_SAID = {"end": int, "variables": dict, "deleted": tuple, "returned": tuple}


def _is_empty(nulls: Any, number: int) -> bool:
    return bool(nulls >> number & 1) if isinstance(nulls, int) else number in nulls


def _numbers(nulls: Any) -> set[int]:
    """The marks of the slots that have numbers which are no objects."""
    return set() if isinstance(nulls, int) else {mark for mark in nulls if mark < 0}


def _nulls(marks: set[int]) -> Any:
    if max(marks, default=0) < 62 and min(marks, default=0) >= 0:
        return sum(1 << number for number in marks)
    return tuple(sorted(marks))


def _variables(record: tuple[Any, ...]) -> dict[str, Any]:
    """What the variables of a frame hold, but for those that hold nothing."""
    found = {}
    for number, name in enumerate(variable_names(record[FUNCTION_OF].__code__)):
        value = record[SLOTS][number]
        if isinstance(value, types.CellType):
            try:
                value = value.cell_contents
            except ValueError:
                continue
        if not _is_empty(record[NULLS], number):
            found[name] = value
    return found


def _records(item: tasklet[...]) -> list[tuple[Any, ...]]:
    records: list[tuple[Any, ...]] = _native.capture(item, {}, lambda function: function)[RECORDS]
    return records


# ---- going there


class BlockParcel(Parcel):
    """Writes the frame that stands at a `with roamlet.at(context):`, and that of __enter__ behind it; no caller's."""

    def tasklet_contents(self, item: tasklet[Any]) -> Reduced:
        """See Saver."""
        contents = super().tasklet_contents(item)
        assert contents[0] == STARTED
        records = contents[1]
        problem = self._problem(records)
        if problem is not None:
            raise CannotSave(f"cannot save {item!r}: {problem}")
        record = records[-2]
        function = self._function(record)
        count = len(variable_names(function.__code__))
        before = len(record[SLOTS]) - _HELD
        numbers = _numbers(record[NULLS])
        # What loops and the like have there stays here.
        below = (record[SLOTS][number] if ~number in numbers else None for number in range(count, before))
        slots = (*record[SLOTS][:count], *below, *record[SLOTS][before:])
        empty = {number for number in range(count) if _is_empty(record[NULLS], number)}
        records[:-1] = [(record[FUNCTION_OF], record[UNIT], record[OFFSET], _nulls(empty | numbers), slots)]
        return contents[0], records, None, *contents[3:]

    def _function(self, record: tuple[Any, ...]) -> types.FunctionType:
        named = record[FUNCTION_OF]
        if not isinstance(named, int):
            return named  # type: ignore[no-any-return]
        return self.functions_by_number()[named]

    def _problem(self, records: list[tuple[Any, ...]]) -> str | None:
        if len(records) < 2 or self._function(records[-1]) is not _ENTER:
            return "it is in no block of roamlet.at()"
        record = records[-2]
        if len(record) > PLAIN_RECORD:
            return "roamlet.at() is used in a generator or coroutine. Let it call a function that has the block"
        if ends_of(self._function(record).__code__, record[UNIT]) is None:
            return "roamlet.at() is used in another way than `with roamlet.at(context):`"
        return None


# ---- over there


class BlockLoader(ParcelLoader):
    """Reads a tasklet that comes for a block alone."""

    held = _HELD  # what loops and the like around the block have on the stack stays where the tasklet came from


class Stay:
    """A block that runs here for another process."""

    def __init__(
        self, records: list[tuple[Any, ...]], functions: list[types.FunctionType], outcome: Outcome[None]
    ) -> None:
        named = records[0][FUNCTION_OF]
        function = functions[named] if isinstance(named, int) else named
        self._before = {
            name: (value, _pickled(value)) for name, value in _variables((function, *records[0][1:])).items()
        }
        self._stack = len(records[0][SLOTS]) - len(variable_names(function.__code__)) - _HELD
        self._outcome = outcome
        records[-1][SLOTS][0]._stay = self

    def end(self, error: BaseException | None) -> None:
        """The block has ended."""
        if error is None:
            self._outcome.succeed(None)
        else:
            self._outcome.fail(error)

    def said(self, item: tasklet[...]) -> Said:
        """What there is to say of it; it waits in __exit__."""
        record = _records(item)[-2]
        now = _variables(record)
        changed = {
            name: value
            for name, value in now.items()
            if name not in self._before or _differs(value, *self._before[name])
        }
        gone = tuple(name for name in self._before if name not in now)
        stack = record[SLOTS][len(variable_names(record[FUNCTION_OF].__code__)) :]
        return {"end": record[UNIT], "variables": changed, "deleted": gone, "returned": tuple(stack[self._stack :])}


def _pickled(value: object) -> bytes | None:
    try:
        return pickle.dumps(value, 5)
    except Exception:  # whatever it is, it is compared by identity
        return None


def _differs(value: object, before: object, pickled: bytes | None) -> bool:
    return value is not before or (pickled is not None and _pickled(value) != pickled)


# ---- and back


def _enters_with(instructions: list[dis.Instruction], number: int) -> bool:
    """Whether this instruction calls the __enter__ of a `with`."""
    if _WITH_IS_ONE:
        return instructions[number].opname == "BEFORE_WITH"
    names = [each.opname for each in instructions[number - 1 : number + 1]]
    return names == ["LOAD_SPECIAL", "CALL"] and instructions[number - 1].argrepr == "__enter__"


@functools.lru_cache(maxsize=256)
def ends_of(code: types.CodeType, unit: int) -> dict[int, int] | None:
    """Where the block whose `with` is at this unit calls __exit__ in order: unit and offset of records that wait for its result.

    None when there is no `with`; a block that is left by exceptions alone has no end. The instructions of the block are those whose
    exceptions its own handler gets, if need be by way of others; a call of __exit__ with three None stands right behind them.
    """
    instructions = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    table = [(entry.start, entry.end, entry.target) for entry in dis._parse_exception_table(code)]  # type: ignore[attr-defined]
    begin = next((number for number, each in enumerate(instructions) if each.offset == unit * 2), -1)
    if not _enters_with(instructions, begin):
        return None
    target = _handler(table, instructions[begin + 1].offset)
    if target is None:
        return None
    inside = {each.offset for each in instructions if _leads_to(table, each.offset, target)}
    jumped_to = {each.argval for each in instructions if each.offset in inside and each.opcode in _JUMPS}
    ends = {}
    for number in range(begin + 2, len(instructions) - 4):
        three = instructions[number : number + 3]
        if any(each.opname != "LOAD_CONST" or each.argval is not None or each.offset in inside for each in three):
            continue
        before = number - 1
        while instructions[before].offset not in inside and instructions[before].opname in ("SWAP", "NOP"):
            before -= 1
        call = number + 3 + (instructions[number + 3].opname == "PRECALL")
        reached = instructions[before].offset in inside or any(
            each.offset in jumped_to for each in instructions[before + 1 : number + 1]
        )
        if reached and instructions[call].opname == "CALL" and instructions[call].arg == 1 + _HELD:
            following = instructions[call + 1].offset // 2
            at_unit = instructions[call].offset // 2 if _KEEPS_NEXT else following - 1
            ends[at_unit] = following - at_unit if _KEEPS_NEXT else 0
    return ends


_JUMPS = {*dis.hasjrel, *dis.hasjabs}


def _handler(table: list[tuple[int, int, int]], offset: int) -> int | None:
    return next((target for start, end, target in table if start <= offset < end), None)


def _leads_to(table: list[tuple[int, int, int]], offset: int, wanted: int) -> bool:
    """Whether an exception at this offset comes to this handler, if need be by way of others."""
    seen: set[int] = set()
    at_handler = _handler(table, offset)
    while at_handler is not None and at_handler not in seen:
        if at_handler == wanted:
            return True
        seen.add(at_handler)
        at_handler = _handler(table, at_handler)
    return False


def go_on(item: tasklet[...], said: Any, flags: int) -> None:
    """Let the function go on behind the block that has ended elsewhere. `item` is blocked or paused, in this thread.

    Switches. Raises BadSnapshot for what no block of it could have said, and nothing has changed.
    """
    captured = _native.capture(item, {}, lambda function: function)
    record = captured[RECORDS][-2]
    code = record[FUNCTION_OF].__code__
    _check(said, code)
    unit, changed, gone, more = (said[name] for name in _SAID)
    offset = (ends_of(code, record[UNIT]) or {}).get(unit)
    if offset is None:
        raise BadSnapshot("a block of roamlet.at() has ended where it has no end")
    names = variable_names(code)
    slots = [*record[SLOTS][:-_HELD], *more]
    marks = {number for number in range(len(slots) - len(more)) if _is_empty(record[NULLS], number)}
    marks |= _numbers(record[NULLS])
    cells: list[tuple[types.CellType, tuple[Any, ...]]] = []
    for name in (*changed, *gone):
        number = names.index(name)
        cell = slots[number]
        if isinstance(cell, types.CellType):
            cells.append((cell, (changed[name],) if name in changed else ()))
        elif name in changed:
            slots[number] = changed[name]
            marks.discard(number)
        else:
            slots[number] = None
            marks.add(number)
    records = [*captured[RECORDS][:-2], (record[FUNCTION_OF], unit, offset, _nulls(marks), tuple(slots))]
    if any(len(each) > PLAIN_RECORD for each in records):
        raise BadSnapshot("a generator waits for it")
    problem = None
    try:
        ticket = _native.check([], records, captured[HANDLED], -1, -1, None, None)
    except ValueError as error:
        problem = str(error)
    if problem is not None:  # raised out here, so that the error holds no other one with its frames
        raise BadSnapshot(f"a block of roamlet.at() has ended as it cannot: {problem}")
    for cell, contents in cells:
        if contents:
            (cell.cell_contents,) = contents
        else:
            del cell.cell_contents
    _replace(item, ticket, captured, flags)


def _check(said: Any, code: types.CodeType) -> None:
    right = type(said) is dict and {name: type(value) for name, value in said.items()} == _SAID
    if (
        not right
        or not {*said["variables"], *said["deleted"]} <= set(variable_names(code))
        or len(said["returned"]) > 1
    ):
        raise BadSnapshot("a block of roamlet.at() has said what none says")


def _replace(item: tasklet[...], ticket: object, captured: tuple[Any, ...], flags: int) -> None:
    """Give the tasklet the frames of the ticket in the place of its own."""
    function, context, depth = captured[FUNCTION], captured[CONTEXT], captured[ATOMIC]
    box = [ticket]
    body = None
    if isinstance(function, Body):
        body = type(function)(function.outcome, base, (box,), None, "at")
        body.__qualname__ = function.__qualname__
        del function.outcome
    discard(item, [])
    if body is None:
        item.bind(base, (box,))
    else:
        item.bind(body, ())
    item.set_context(context if context is not None else contextvars.Context())
    item.run()
    if box:
        raise box[0] if isinstance(box[0], BaseException) else RuntimeError(f"{item!r} has ended")  # memory is out
    _native.settle(item, 0, None, None, SCHEDULED | flags & ATOMIC_FLAG, depth)
