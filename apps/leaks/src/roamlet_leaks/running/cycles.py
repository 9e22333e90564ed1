"""Exceptions that only the cyclic collector frees: the cycles through tracebacks among what it has found unreachable.

An exception holds its traceback, that its frames, each of them the frame that called it, and a frame the locals that it had
when its function ended. A local that leads back to the exception closes the circle: it, and the line that filled it, are reported.
"""

import gc
import inspect
import threading
from collections import deque
from dataclasses import dataclass, field, replace
from types import FrameType, FunctionType, TracebackType
from typing import Any

from roamlet_leaks.finding import Finding
from roamlet_leaks.running.frames import GENERATORS, local_values
from roamlet_leaks.running.holders import CONTAINERS, inside, is_exception, key_of, may_hold, named
from roamlet_leaks.running.lines import Place, finding_at, is_parameter, place_of, uses
from roamlet_leaks.running.marks import Mark, mark, traceback_of, with_tracebacks
from roamlet_leaks.running.measure import keeps

# The flags are the collector's, and two threads that put them back in turns would leave it saving all that it finds. A finalizer
# may ask in the middle of it: that one has to get through.
ONE_AT_A_TIME = threading.RLock()

MOST_EXCEPTIONS = 1000  # looked at in one collection; more of them come from the same few lines
# From object to object, for all of them together: about two seconds. The one that was begun is ended.
MOST_STEPS = 1_000_000


def cycles(known: frozenset[Mark] = frozenset()) -> list[Finding]:
    """Collect now, and report the cycles through tracebacks that were freed by it, but for exceptions that were `known`."""
    garbage = _collected()
    try:
        return found_in(garbage, known)
    finally:
        if garbage:
            garbage.clear()
            gc.collect()


def _collected() -> dict[int, Any]:
    """What only the collector frees, by id; its finalizers have run. What gc.garbage had already stays there."""
    with ONE_AT_A_TIME:
        flags = gc.get_debug()
        count = len(gc.garbage)
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            gc.collect()
        finally:
            gc.set_debug(flags)
        garbage = {id(thing): thing for thing in gc.garbage[count:]}
        if not flags & gc.DEBUG_SAVEALL:
            del gc.garbage[count:]
        return garbage


def found_in(garbage: dict[int, Any], known: frozenset[Mark] = frozenset()) -> list[Finding]:
    """The cycles through tracebacks among these unreachable objects, grouped by the line that closed them."""
    anchors = {id(error): error for error in with_tracebacks(garbage.values()) if mark(error) not in known}
    groups: dict[tuple[object, ...], tuple[Finding, list[Any]]] = {}
    ways = _Ways(garbage, anchors)
    for anchor in list(anchors.values())[:MOST_EXCEPTIONS]:
        # No variable here may hold anything of the cycle but its anchor: references are counted below.
        finding = _described(anchor, ways.back(anchor)) if ways.left > 0 else None
        if finding is None:
            continue
        key = (finding.path, finding.line, finding.code, finding.name)
        groups.setdefault(key, (finding, []))[1].append(anchor)
    anchors.clear()
    return [replace(finding, times=len(roots), keeps=keeps(roots, garbage)) for finding, roots in groups.values()]


@dataclass
class _Ways:
    """Looks for the ways that lead back to the `anchors`, and remembers what leads to none: many share what they hold."""

    garbage: dict[int, Any]
    anchors: dict[int, Any]
    nowhere: set[int] = field(default_factory=set)
    left: int = field(default_factory=lambda: MOST_STEPS)

    def back(self, anchor: Any) -> list[Any] | None:
        """The shortest way from the last frame on the way back to `anchor`, both included; None when none leads back.

        A way through another of the `anchors` is that one's: one cycle is reported once.
        """
        start = traceback_of(anchor)
        if id(start) not in self.garbage:
            return None
        before: dict[int, int] = {id(start): 0}
        meets = False
        todo = deque([start])
        while todo:
            thing = todo.popleft()
            for value in gc.get_referents(thing):
                number = id(value)
                if value is anchor:
                    self.left -= len(before)
                    return self._way(before, [anchor, thing])
                if number in self.anchors:
                    meets = True
                    continue
                known = number in before or number in self.nowhere or number not in self.garbage
                if known or may_hold(value, futures=False):
                    continue
                before[number] = id(thing)
                todo.append(value)
        self.left -= len(before)
        if not meets:
            self.nowhere.update(before)
        return None

    def _way(self, before: dict[int, int], way: list[Any]) -> list[Any] | None:
        """`way`, from its end on back to the last frame, turned round."""
        while type(way[-1]) is not FrameType and (number := before[id(way[-1])]):
            way.append(self.garbage[number])
        return way[::-1] if type(way[-1]) is FrameType else None


def passed_in(error: Any, frame: FrameType) -> TracebackType | None:
    """The part of the traceback for the place where the exception passed through `frame`."""
    traceback = traceback_of(error)
    while traceback is not None and traceback.tb_frame is not frame:
        traceback = traceback.tb_next
    return traceback if type(traceback) is TracebackType else None


def _described(anchor: Any, way: list[Any] | None) -> Finding | None:
    """The finding for a cycle; `way` is a frame, what its local holds, and so on to the exception."""
    if way is None:
        return None
    frame, first = way[0], way[1]
    code = frame.f_code
    values = local_values(frame)
    rest = way[1:]
    if not code.co_flags & inspect.CO_OPTIMIZED and first is frame.f_locals:  # of a class or module body
        first, rest = way[2], way[2:]
    name = key_of(values, first)
    if name is None:
        return None
    part = passed_in(anchor, frame)
    passed = part.tb_lasti if part else None
    otherwise = part.tb_lineno if part else frame.f_lineno
    held = inside(first)
    if _is_direct(held, anchor):
        every = [each for each in values if _is_direct(values[each], anchor)]
        given = [each for each in every if is_parameter(code, each, passed)]
        direct = [each for each in every if each not in given]
        if not direct:
            return finding_at("cycle", "RL002", frame, Place(otherwise), ", ".join(given))
        place = place_of(frame, tuple(direct), passed, otherwise, anchor)
        with_traceback = any(not is_exception(values[each]) for each in direct) or uses(code, place.line, "exc_info")
        return finding_at("cycle", "RL003" if with_traceback else "RL001", frame, place, ", ".join(direct))
    text, attributes = named(name, rest)
    place = place_of(frame, (*reversed(attributes), name), passed, otherwise, anchor)
    return finding_at("cycle", _case_of(held), frame, place, text)


def _case_of(held: Any) -> str:
    """The case of a local that leads to the exception by way of something else."""
    if issubclass(type(held), CONTAINERS):
        return "RL007"
    if type(held) in GENERATORS or type(held) is FunctionType:
        return "RL008"
    return "RL004"


def _is_direct(held: Any, anchor: Any) -> bool:
    """Whether it is the exception, its traceback, or the tuple of sys.exc_info()."""
    traceback = traceback_of(anchor)
    if type(held) is tuple and len(held) == 3 and issubclass(type(held[0]), type):
        return any(_is_direct(each, anchor) for each in held[1:])
    if type(held) is TracebackType:
        while traceback is not None and traceback is not held:
            traceback = traceback.tb_next
        return traceback is held
    return held is anchor
