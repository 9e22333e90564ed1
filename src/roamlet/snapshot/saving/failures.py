"""Finds the variable and frame that could not be saved; frames.py has the words for it.

The reasons come from saver.py, closed.py, module_state.py and C. save() looks for the variable after a failure. The part in C is
snapshot._native.
"""

import io
import types
from typing import Any

from roamlet.core import NoCore, channel, tasklet
from roamlet.snapshot._errors import CannotSave
from roamlet.snapshot.loading import load
from roamlet.snapshot.saving.frames import variable, variable_names
from roamlet.snapshot.saving.saver import Saver

_FAILURES = (Exception,)  # a __reduce__ may raise anything


def save(saver: Saver, root: object) -> None:
    """Let the saver write the root and what it reaches. CannotSave names the variable that keeps it from that."""
    try:
        _save(saver, root)
    except BaseException:
        # The traceback has the saver, and its memo what is to be saved, which may have the error. The collector of CPython 3.11.2,
        # Debian 12's, does not look into a pickler's memo: that cycle would stay for good.
        saver.clear_memo()
        raise


def _save(saver: Saver, root: object) -> None:
    try:
        saver.save(root)
    except (CannotSave, NoCore, MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise _explained(saver, root, error) from error


def _explained(saver: Saver, root: object, error: BaseException) -> CannotSave:
    """The error to raise in the place of `error`: it names the frame and the variable, if those are to be found."""
    for item, records in saver.captured:
        for named, unit, _, _, slots, *_ in reversed(records):
            for number, value in enumerate(slots):
                if value is saver.refused:
                    failure: str | None = str(error)
                else:
                    failure = None if saver.sees_to(value) else saver.refusal(value) or _failure(value, saver)
                if failure is not None:
                    function = saver.function_of(named)
                    names = variable_names(function.__code__)
                    cure = f". Where it is not needed any more: del {names[number]}" if number < len(names) else ""
                    return CannotSave(
                        f"cannot save {item!r}: {variable(function, unit, number)} holds {_shown(value)}: {failure}{cure}"
                    )
    return CannotSave(f"cannot save {_shown(root)}: {error}")


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


def _shown(value: object) -> str:
    try:
        text = repr(value.cell_contents if isinstance(value, types.CellType) else value)
    except Exception as error:  # any __repr__
        return f"a {type(value).__name__} (its repr() failed: {error!r})"
    return text if len(text) <= 200 else text[:200] + "..."
