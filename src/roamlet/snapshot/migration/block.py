"""The block of a `with roamlet.at(context):`: how its two frames migrate to the destination, and how the function goes on in the
source when the block has ended.

Only the frame that has the block travels, with what its variables hold. What comes back is data alone: where the block has ended,
and the variables that it has changed. With them the frame in the source goes on after the block; no code comes back.
"""

import contextvars
import dis
import functools
import pickle
import sys
import types
from typing import Any

from roamlet._migration import at
from roamlet.core import tasklet
from roamlet.snapshot import _native
from roamlet.snapshot._errors import BadSnapshot, CannotSave
from roamlet.snapshot.loading.helpers import base
from roamlet.snapshot.migration.pickling import TaskletPickler, TaskletUnpickler
from roamlet.snapshot.migration.source import discard
from roamlet.snapshot.saving.frames import variable_names
from roamlet.snapshot.saving.saver import Reduced
from roamlet.snapshot.state import FUNCTION, PLAIN_RECORD, SLOTS, STARTED, Captured, Flag, Record
from roamlet.sync._outcome import Outcome
from roamlet.sync._spawn import Body

_KEEPS_NEXT = sys.version_info >= (3, 13)  # a frame keeps the instruction that it executes
_WITH_IS_ONE = "BEFORE_WITH" in dis.opmap  # else the methods are looked up, and then called like any others
# Operands that a block keeps: __exit__, and its first argument if it is no bound method.
_HELD = 1 if _WITH_IS_ONE else 2
_CONSTANTS = ("LOAD_CONST", "LOAD_COMMON_CONSTANT")
_ENTER = at.__dict__["__enter__"]
_RECORDS = Captured._fields.index("records")

BlockResult = dict[str, Any]
"""`end`: where the block has ended; `variables`: those that it has changed; `deleted`: the names of those that it has deleted;
`returned`: in a tuple, what it returns, if it does.
"""
_TYPES = {"end": int, "variables": dict, "deleted": tuple, "returned": tuple}


def _is_empty(nulls: Any, number: int) -> bool:
    return bool(nulls >> number & 1) if isinstance(nulls, int) else number in nulls


def _numbers(nulls: Any) -> set[int]:
    """The marks of the slots that have numbers which are no objects."""
    return set() if isinstance(nulls, int) else {mark for mark in nulls if mark < 0}


def _nulls(marks: set[int]) -> Any:
    if max(marks, default=0) < 62 and min(marks, default=0) >= 0:
        return sum(1 << number for number in marks)
    return tuple(sorted(marks))


def _variables(function: types.FunctionType, record: Record) -> dict[str, Any]:
    """What the variables of a frame of the function hold, but for those that hold nothing."""
    found = {}
    for number, name in enumerate(variable_names(function.__code__)):
        value = record.slots[number]
        if isinstance(value, types.CellType):
            try:
                value = value.cell_contents
            except ValueError:
                continue
        if not _is_empty(record.nulls, number):
            found[name] = value
    return found


def _captured(item: tasklet[...]) -> tuple[Captured, Record]:
    """What is captured of a tasklet in a block, and the record of the frame that has the block."""
    captured = Captured._make(_native.capture(item, {}, lambda function: function))
    return captured, _plain(captured.records[-2])


def _plain(record: tuple[Any, ...]) -> Record:
    return Record(*record[:PLAIN_RECORD])


# ---- in the source, before the block


class BlockPickler(TaskletPickler):
    """Writes the frame that is at a `with roamlet.at(context):`, and that of __enter__ which it has called; no caller's."""

    def tasklet_contents(self, item: tasklet[Any]) -> Reduced:
        stage, records, _, *rest = super().tasklet_contents(item)  # see StartedContents
        assert stage == STARTED
        problem = self._problem(records)
        if problem is not None:
            raise CannotSave(f"cannot save {item!r}: {problem}")
        record = _plain(records[-2])
        count = len(variable_names(self.function_of(record.function).__code__))
        before = len(record.slots) - _HELD
        numbers = _numbers(record.nulls)
        # What loops and the like have there stays here.
        below = (record.slots[number] if ~number in numbers else None for number in range(count, before))
        slots = (*record.slots[:count], *below, *record.slots[before:])
        empty = {number for number in range(count) if _is_empty(record.nulls, number)}
        records[:-1] = [(record.function, record.unit, record.offset, _nulls(empty | numbers), slots)]
        return (stage, records, None, *rest)

    def _problem(self, records: list[tuple[Any, ...]]) -> str | None:
        if len(records) < 2 or self.function_of(records[-1][FUNCTION]) is not _ENTER:
            return "it is in no block of roamlet.at()"
        if len(records[-2]) > PLAIN_RECORD:
            return "roamlet.at() is used in a generator or coroutine. Let it call a function that has the block"
        named, unit, *_ = records[-2]  # see Record
        if ends_of(self.function_of(named).__code__, unit) is None:
            return "roamlet.at() is used in another way than `with roamlet.at(context):`"
        return None


# ---- in the destination


class BlockUnpickler(TaskletUnpickler):
    """Reads a tasklet that comes for a block alone."""

    held = _HELD  # what loops and the like around the block have on the stack stays in the source


class RunningBlock:
    """A block that runs here for another process."""

    def __init__(
        self, records: list[tuple[Any, ...]], functions: list[types.FunctionType], outcome: Outcome[None]
    ) -> None:
        record = _plain(records[0])
        function = functions[record.function] if isinstance(record.function, int) else record.function
        self._before = {name: (value, _pickled(value)) for name, value in _variables(function, record).items()}
        self._stack = len(record.slots) - len(variable_names(function.__code__)) - _HELD
        self._outcome = outcome
        records[-1][SLOTS][0]._running = self

    def end(self, error: BaseException | None) -> None:
        """The block has ended."""
        if error is None:
            self._outcome.succeed(None)
        else:
            self._outcome.fail(error)

    def result(self, item: tasklet[...]) -> BlockResult:
        """What goes back to the source when the block has ended; the tasklet waits in __exit__."""
        record = _plain(_native.capture(item, {}, lambda function: function)[_RECORDS][-2])
        now = _variables(record.function, record)
        changed = {
            name: value
            for name, value in now.items()
            if name not in self._before or _differs(value, *self._before[name])
        }
        gone = tuple(name for name in self._before if name not in now)
        stack = record.slots[len(variable_names(record.function.__code__)) :]
        return {"end": record.unit, "variables": changed, "deleted": gone, "returned": tuple(stack[self._stack :])}


def _pickled(value: object) -> bytes | None:
    try:
        return pickle.dumps(value, 5)
    except Exception:  # it is compared by identity
        return None


def _differs(value: object, before: object, pickled: bytes | None) -> bool:
    return value is not before or (pickled is not None and _pickled(value) != pickled)


# ---- in the source, after the block


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
    exceptions its own handler gets, if need be by way of others; a call of __exit__ with three None is right after them.
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
        if any(each.opname not in _CONSTANTS or each.argval is not None or each.offset in inside for each in three):
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


def go_on(item: tasklet[...], result: Any, flags: int) -> None:
    """Let the function go on after the block that has ended in another process. `item` is blocked or paused, in this thread.

    Switches. Raises BadSnapshot for what cannot be a BlockResult of it, and nothing has changed.
    """
    captured, record = _captured(item)
    code = record.function.__code__
    _check(result, code)
    unit, changed, gone, more = (result[name] for name in _TYPES)
    offset = (ends_of(code, record.unit) or {}).get(unit)
    if offset is None:
        raise BadSnapshot("a block of roamlet.at() has ended where it has no end")
    names = variable_names(code)
    slots = [*record.slots[:-_HELD], *more]
    marks = {number for number in range(len(slots) - len(more)) if _is_empty(record.nulls, number)}
    marks |= _numbers(record.nulls)
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
    records = [*captured.records[:-2], (record.function, unit, offset, _nulls(marks), tuple(slots))]
    if any(len(each) > PLAIN_RECORD for each in records):
        raise BadSnapshot("a generator waits for it")
    problem = None
    try:
        ticket = _native.check([], records, captured.handled, -1, -1, None, None)
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


def _check(result: Any, code: types.CodeType) -> None:
    right = type(result) is dict and {name: type(value) for name, value in result.items()} == _TYPES
    if (
        not right
        or not {*result["variables"], *result["deleted"]} <= set(variable_names(code))
        or len(result["returned"]) > 1
    ):
        raise BadSnapshot("a block of roamlet.at() has sent back something that is no result of a block")


def _replace(item: tasklet[...], ticket: object, captured: Captured, flags: int) -> None:
    """Give the tasklet the frames of the ticket in the place of its own."""
    function, context = captured.function, captured.context
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
    _native.settle(item, 0, None, None, Flag.SCHEDULED | flags & Flag.ATOMIC, captured.atomic)
