"""What exceptions keep alive: the objects that would be gone without them, found by counting references as the collector does.

The objects that can be reached from them are walked; whatever has a reference from elsewhere stays, and so does all that it leads
to. A reference of which an extension type does not tell the collector counts as one from elsewhere: the figure is a lower bound.
"""

import gc
import sys
from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

from roamlet_leaks.finding import Keeps
from roamlet_leaks.running.frames import ended

MOST_OBJECTS = 200_000  # walked for one finding, about half a second
LIVES_ON = (type, ModuleType, CodeType, BuiltinFunctionType)
MOST_FRAMES = 10  # named for one finding


def _ours() -> int:
    """How many references to an object are ours while `keeps` counts them: of `reached`, of its variable and of the call."""
    reached = {0: object()}
    thing = reached[0]
    return sys.getrefcount(thing)


OURS = _ours()  # 3; fewer where the interpreter borrows


def keeps(roots: list[Any], held_once_more: Collection[int] = ()) -> Keeps:
    """What the objects of `roots` keep alive, themselves included.

    `held_once_more` has the ids of objects to which one of the caller's containers refers; `roots` need not be in it.
    """
    alone = held_by(roots, held_once_more)
    return Keeps(
        len(alone),
        sum(map(_size, alone.values())),
        _longest_lived(thing for thing in alone.values() if type(thing) is FrameType),
    )


def held_by(roots: list[Any], held_once_more: Collection[int] = ()) -> dict[int, Any]:
    """What would be gone without the objects of `roots`, themselves included, by id. For `held_once_more` see `keeps`."""
    own = {id(root) for root in roots}
    reached = _reached(roots)
    inside = dict.fromkeys(reached, 0)
    for number in reached:
        for value in gc.get_referents(reached[number]):
            if id(value) in inside:
                inside[id(value)] += 1
    value = None
    stays = []
    for number in reached:
        thing = reached[number]
        expected = inside[number] + OURS + (number in held_once_more)
        if number not in own and sys.getrefcount(thing) > expected:
            stays.append(number)
    thing = None
    while stays:
        number = stays.pop()
        if number in inside:
            del inside[number]
            stays += [
                id(value) for value in gc.get_referents(reached[number]) if id(value) in inside and id(value) not in own
            ]
    return {number: reached[number] for number in inside}


def _reached(roots: list[Any]) -> dict[int, Any]:
    """All that `roots` lead to, by id, without what certainly lives on: modules, classes, code and functions that run."""
    walls = {id(module.__dict__) for module in list(sys.modules.values()) if isinstance(module, ModuleType)}
    reached = {id(root): root for root in roots}
    todo = deque(reached)  # what is near first: one that holds a great deal leaves the others theirs
    while todo:
        for value in gc.get_referents(reached[todo.popleft()]):
            if len(reached) >= MOST_OBJECTS:
                return reached
            kind = type(value)  # not isinstance, which asks a proxy for what it stands for
            if id(value) in reached or id(value) in walls or issubclass(kind, LIVES_ON):
                continue
            if kind is FrameType and not ended(value):
                continue
            reached[id(value)] = value
            todo.append(id(value))
    return reached


def _size(thing: Any) -> int:
    try:
        return sys.getsizeof(thing)
    except Exception:  # __sizeof__ may be anybody's
        return 0


def _longest_lived(frames: Iterable[FrameType]) -> tuple[str, ...]:
    """The frames, those first that began first: a frame is deeper than the one that called it. At one line, they are named once."""

    def depth(frame: FrameType) -> int:
        count = 0
        while frame.f_back is not None:
            count, frame = count + 1, frame.f_back
        return count

    ordered = sorted((frame for frame in frames if not _is_ours(frame)), key=depth)
    said = (f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}" for frame in ordered)
    return tuple(islice(dict.fromkeys(said), MOST_FRAMES))


def _is_ours(frame: FrameType) -> bool:
    """Whether it is a frame of the code that runs the program, or the test."""
    return str(frame.f_globals.get("__name__")).startswith(("roamlet_leaks.", "_pytest.", "pluggy."))
