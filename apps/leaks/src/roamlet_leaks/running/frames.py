"""What frames hold, looked at without a trace: their locals by name, whether they have ended, and whether they handle an exception.

`frame.f_locals` leaves a dictionary of all locals in the frame up to 3.12, which would itself keep what it names: it is emptied
again, unless something else refers to it too. From 3.13 on it is a view that leaves nothing.
"""

import dis
import gc
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, FunctionType, GeneratorType
from typing import Any

GENERATORS = (GeneratorType, CoroutineType, AsyncGeneratorType)

LEAVES_NOTHING = sys.version_info >= (3, 13)

# The references to the dictionary of f_locals when only the frame keeps it: the frame's, our variable's, and that of
# the counting call.
OWN_REFERENCES = 3


def local_values(frame: FrameType) -> dict[str, Any]:
    """The locals of `frame` by name, those in cells too; of a module or class body its namespace."""
    seen = frame.f_locals
    values = dict(seen)
    if not LEAVES_NOTHING and frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.getrefcount(seen) <= OWN_REFERENCES:
        for name in (*frame.f_code.co_varnames, *frame.f_code.co_cellvars, *frame.f_code.co_freevars):
            seen.pop(name, None)
    return values


def ended(frame: FrameType) -> bool:
    """Whether its function has ended, so that the frame alone keeps the locals: only then the collector tracks it."""
    return gc.is_tracked(frame)


def values_of(frame: FrameType) -> list[Any]:
    """What the locals of an ended frame hold, without their names; cells as such."""
    own = {id(frame.f_code), id(frame.f_globals), id(frame.f_builtins), id(frame.f_back), id(frame)}
    return [
        value
        for value in gc.get_referents(frame)
        if id(value) not in own and not (type(value) is FunctionType and value.__code__ is frame.f_code)
    ]


def holds_values(frame: FrameType) -> bool:
    """Whether an ended frame still keeps a local."""
    return bool(values_of(frame))


def frames_behind(traceback: Any) -> list[FrameType]:
    """The frames that `traceback` keeps, each once: those that it leads through, and those that called them."""
    found: dict[int, FrameType] = {}
    while traceback is not None:
        frame = traceback.tb_frame
        while frame is not None and id(frame) not in found:
            found[id(frame)] = frame
            frame = frame.f_back
        traceback = traceback.tb_next
    return list(found.values())


def frame_of(thing: Any) -> FrameType | None:
    """The frame of a generator, coroutine or asynchronous generator that has not ended."""
    for name in ("gi_frame", "cr_frame", "ag_frame"):
        if hasattr(thing, name):
            frame = getattr(thing, name)
            return frame if isinstance(frame, FrameType) else None
    return None


def running(things: list[Any]) -> Iterator[FrameType]:
    """The frames of functions that have not ended: of all threads, of this thread's tasklets, and of the generators in `things`."""
    # A frame in a variable of its own function is a cycle: map() keeps ours from becoming one.
    heads: list[FrameType | None] = list(map(_outside, sys._current_frames().values()))
    heads += [tasklet.frame for tasklet in _tasklets()]
    heads += [frame_of(thing) for thing in things if type(thing) in GENERATORS]
    seen: set[int] = set()
    for head in heads:
        frame = head
        while frame is not None and id(frame) not in seen:
            seen.add(id(frame))
            yield frame
            frame = frame.f_back


def _tasklets() -> list[Any]:
    """This thread's tasklets that have started. Does not import roamlet: while its core is not loaded, no tasklet exists."""
    core = sys.modules.get("roamlet.core")
    return list(core.started()) if core is not None else []


def is_tasklet(kind: type) -> bool:
    """Whether it is roamlet's class of tasklets, or derived from it."""
    core = sys.modules.get("roamlet.core")
    return core is not None and issubclass(kind, core.tasklet)


def _outside(frame: FrameType | None) -> FrameType | None:
    """The nearest frame that does not belong to this package."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(f"{__package__}."):
        frame = frame.f_back
    return frame


def handles(frame: FrameType) -> bool:
    """Whether the frame is inside an except or finally clause that an exception has led into."""
    return any(start <= frame.f_lasti < end for start, end in handlers(frame.f_code))


@lru_cache(maxsize=256)
def handlers(code: CodeType) -> list[tuple[int, int]]:
    """Where in the bytecode exceptions are handled.

    CPython covers each such place with an entry of the exception table of its own, which puts the exception that was handled
    before back: it leads to COPY 3, POP_EXCEPT. A try statement inside makes a gap in it, so that the outermost ends count.
    """
    bytecode = dis.Bytecode(code)
    instructions = list(bytecode)
    cleaning = {
        first.offset
        for first, second in pairwise(instructions)
        if first.opname == "COPY" and first.arg == 3 and second.opname == "POP_EXCEPT"
    }
    spans: dict[int, tuple[int, int]] = {}
    for entry in bytecode.exception_entries:  # type: ignore[attr-defined]  # typeshed lacks it; there since 3.11
        if entry.target in cleaning and entry.lasti:
            start, end = spans.get(entry.target, (entry.start, entry.end))
            spans[entry.target] = min(start, entry.start), max(end, entry.end)
    return list(spans.values())
