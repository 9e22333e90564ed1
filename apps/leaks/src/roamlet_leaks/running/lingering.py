"""Exceptions that something alive holds, with the frames of functions that have ended: on objects, in modules, in loops.

No finding are those that are being handled, in any thread, those in futures, and what the interpreter keeps for a debugger in
sys.last_exc and its like. Neither are those that keep no local of an ended function.
"""

import gc
import sys
from collections.abc import Iterable
from dataclasses import replace
from types import FrameType
from typing import Any

from roamlet_leaks.finding import Finding
from roamlet_leaks.running.cycles import passed_in
from roamlet_leaks.running.frames import ended, frames_behind, handles, holds_values, local_values, running, values_of
from roamlet_leaks.running.holders import is_exception
from roamlet_leaks.running.lines import finding_at, place_of
from roamlet_leaks.running.marks import Mark, mark, traceback_of, with_tracebacks
from roamlet_leaks.running.measure import held_by, keeps
from roamlet_leaks.running.search import Holder, Search

MOST_OF_A_PLACE = 1000  # whose holders are looked for; more of them are held by the same few lines

context_in = BaseException.__dict__["__context__"].__get__
cause_in = BaseException.__dict__["__cause__"].__get__
inside_of = BaseExceptionGroup.__dict__["exceptions"].__get__


def lingering(known: frozenset[Mark] = frozenset()) -> list[Finding]:
    """The exceptions that linger now and are not `known`, grouped by the line that stored them."""
    handled = _handled()
    errors = {
        id(error): error
        for error in with_tracebacks(gc.get_objects())
        if id(error) not in handled and mark(error) not in known and _may_keep_locals(error)
    }
    if not errors:
        return []
    alone = held_by(_with_parts(errors.values()), errors)
    errors = {number: error for number, error in errors.items() if _keeps_locals(error, alone)}
    alone.clear()
    if not errors:
        return []
    things = gc.get_objects()
    live = _live_locals(things)
    holders = Search(_some(errors), live, handled, {id(thing) for thing in things}).holders()
    del things
    live.clear()
    groups: dict[tuple[object, ...], tuple[Finding, list[Any]]] = {}
    for number, holder in holders.items():
        finding = _described(errors[number], holder)
        key = (finding.path, finding.line, finding.code, finding.name)
        groups.setdefault(key, (finding, []))[1].append(errors[number])
    holders.clear()
    return [
        replace(finding, times=len(roots), keeps=keeps(_with_parts(roots), errors))
        for finding, roots in groups.values()
    ]


def _some(errors: dict[int, Any]) -> dict[int, Any]:
    """Those whose holders are looked for, some of each place: each of them is compared with all references that there are."""
    places: dict[tuple[int, int], int] = {}
    chosen = {}
    for number, error in errors.items():
        traceback = traceback_of(error)
        place = id(traceback.tb_frame.f_code), traceback.tb_lasti
        places[place] = places.get(place, 0) + 1
        if places[place] <= MOST_OF_A_PLACE:
            chosen[number] = error
    return chosen


def _with_parts(errors: Iterable[Any]) -> list[Any]:
    """The exceptions and their tracebacks: code that keeps the result of sys.exc_info() has both."""
    parts = []
    for error in errors:
        parts.append(error)
        part = traceback_of(error)
        while part is not None:
            parts.append(part)
            part = part.tb_next
    return parts


def _may_keep_locals(error: Any) -> bool:
    return any(ended(frame) and holds_values(frame) for frame in frames_behind(traceback_of(error)))


def _keeps_locals(error: Any, alone: dict[int, Any]) -> bool:
    """Whether a local of an ended function is among what only exceptions hold: else letting it go would free nothing."""
    frames = frames_behind(traceback_of(error))
    return any(ended(frame) and any(id(value) in alone for value in values_of(frame)) for frame in frames)


def _handled() -> set[int]:
    """The ids of the exceptions that an except or finally clause deals with now, in any thread, and of what led to them."""
    current: Any = sys._current_exceptions().values()
    # Three of 3.11's stand for each exception.
    todo = [each[1] if type(each) is tuple else each for each in current] + [sys.exception()]
    seen: set[int] = set()
    while todo:
        error = todo.pop()
        if error is None or id(error) in seen:
            continue
        # The attributes themselves: a class may have functions under their names.
        seen |= {id(error), id(traceback_of(error))}
        todo += [context_in(error), cause_in(error)]
        if issubclass(type(error), BaseExceptionGroup):
            todo += inside_of(error)
    return seen


def _live_locals(things: list[Any]) -> dict[int, tuple[FrameType, str]]:
    """What the locals of running functions hold, by id. Exceptions that an except clause handles now are left out."""
    found: dict[int, tuple[FrameType, str]] = {}
    for frame in running(things):
        if frame.f_code.co_name == "<module>":  # its globals tell
            continue
        handling = handles(frame)
        for name, value in local_values(frame).items():
            if not (handling and is_exception(value)):
                found.setdefault(id(value), (frame, name))
    return found


def _described(error: Any, holder: Holder) -> Finding:
    """The finding for an exception that lingers: at the line of the function that caught it, or of the one that holds it."""
    traceback = traceback_of(error)
    part = passed_in(error, holder.frame) if holder.frame is not None else traceback
    frame = holder.frame or traceback.tb_frame
    otherwise = part.tb_lineno if part else frame.f_lineno
    place = place_of(frame, holder.names, part.tb_lasti if part else None, otherwise, error)
    return finding_at("lingering", holder.code, frame, place, holder.name)
