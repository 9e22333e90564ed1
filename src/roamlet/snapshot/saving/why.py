"""Why something could not be saved: which variable of which frame holds it. Looked for when saving has failed, never before."""

import io
import types
from typing import Any

from roamlet.core import channel, tasklet
from roamlet.snapshot._errors import CannotSave
from roamlet.snapshot.loading import load
from roamlet.snapshot.saving.save import Saver

_FAILURES = (Exception,)  # whatever a __reduce__ of somebody's raises


class _Probe(Saver):
    """Tries one value; what it leads to through tasklets, channels and cells is tried with its own frames."""

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, (tasklet, channel)):
            return load.nothing, ()
        return super().reducer_override(item)


def _failure(value: object, saver: Saver) -> str | None:
    """What saving the value fails with; not the error itself, whose traceback leads to the frame that would hold it."""
    if isinstance(value, types.CellType):
        try:
            value = value.cell_contents
        except ValueError:
            return None
    try:
        probe = _Probe(io.BytesIO(), saver.by_value)
        probe.saves_locks = saver.saves_locks
        probe.dump(value)
        probe.refuse_ids()
    except _FAILURES as error:
        return str(error)
    return None


def variable_names(code: types.CodeType) -> list[str]:
    """The names of a frame's first slots."""
    plain = [*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames)]
    return [*plain, *code.co_freevars]


def line_of(code: types.CodeType, unit: int) -> int | None:
    """The line of the instruction at this unit of the code."""
    at = max(unit, 0) * 2
    return next((line for start, end, line in code.co_lines() if start <= at < end), code.co_firstlineno)


def variable(saver: Saver, record: tuple[Any, ...], number: int) -> str:
    """What the slot of this number is, and of which frame."""
    function = saver.functions_by_number().get(record[0], record[0])
    names = variable_names(function.__code__)
    what = f"the variable {names[number]!r}" if number < len(names) else "a value that an expression is about to use"
    return f"{what} of {function.__qualname__} ({function.__code__.co_filename}, line {line_of(function.__code__, record[1])})"


def explained(saver: Saver, root: object, error: BaseException) -> CannotSave:
    """The error to raise in the place of `error`: it names the frame and the variable, if those are to be found."""
    for item, records in saver.captured:
        for record in reversed(records):
            for number, value in enumerate(record[4]):
                if value is saver.refused:
                    failure: str | None = str(error)
                else:
                    failure = None if saver.sees_to(value) else saver.refusal(value) or _failure(value, saver)
                if failure is not None:
                    what = variable(saver, record, number)
                    names = variable_names(saver.functions_by_number().get(record[0], record[0]).__code__)
                    cure = f". Where it is not needed any more: del {names[number]}" if number < len(names) else ""
                    return CannotSave(f"cannot save {item!r}: {what} holds {_shown(value)}: {failure}{cure}")
    return CannotSave(f"cannot save {_shown(root)}: {error}")


def _shown(value: object) -> str:
    try:
        text = repr(value.cell_contents if isinstance(value, types.CellType) else value)
    except Exception as error:  # a repr of somebody's
        return f"a {type(value).__name__} (its repr() failed: {error!r})"
    return text if len(text) <= 200 else text[:200] + "..."
