"""Reading the frames of suspended tasklets, and building them again."""

from collections.abc import Callable
from types import AsyncGeneratorType, CodeType, CoroutineType, FunctionType, GeneratorType
from typing import Any

from roamlet.core import channel, tasklet

_Suspendable = GeneratorType[Any, Any, Any] | CoroutineType[Any, Any, Any] | AsyncGeneratorType[Any, Any]

known: bool
"""Whether the frames of this version of CPython are known: without it nothing else is here."""

def setup(
    error: type[Exception], base: CodeType, bridge: CodeType, initialised: FunctionType, partial: type, /
) -> None:
    """Take what loading/helpers.py defines: the error of what cannot be saved, the code of its helpers, functools.partial."""

def capture(
    tasklet: tasklet[Any], known: dict[FunctionType, Any], resolve: Callable[[FunctionType], object], /
) -> tuple[Any, ...]:
    """All there is to save of a tasklet that does not run. Changes nothing in it; records name a function by known[function],
    or by what resolve(function) returns, which is noted there.
    """

def selects(channel: channel[Any], /) -> bool:
    """Whether tasklets wait in select() at this channel."""

def buffered(channel: channel[Any], /) -> tuple[Any, ...]:
    """What waits in the channel's buffer: each value, and after it whether it is an exception for the receiver to raise."""

def check(
    functions: list[FunctionType],
    records: list[tuple[Any, ...]],
    handled: object,
    before: int,
    end: int,
    returns: object,
    keeps: object,
    held: int = -1,
    /,
) -> object:
    """A ticket for a tasklet that was saved so. ValueError when its records do not fit the code of their functions; nothing is
    built. What the first record has as operands is not compared, but for `held` from the top, unless that is -1.
    """

def build(ticket: object, /) -> None:
    """Build the frames of a ticket on this thread's data stack, for go_on(). On MemoryError and RecursionError nothing is
    built.
    """

def go_on(ticket: object, /) -> object:
    """Put the frames in place and suspend the tasklet; return what the innermost of them is to get."""

def settle(tasklet: tasklet[Any], direction: int, channel: object, value: object, flags: int, atomic: int, /) -> None:
    """Put a tasklet that go_on() has suspended into the state that was saved."""

def settle_all(places: list[tuple[Any, ...]], /) -> None:
    """Do what settle() does for each tuple of its arguments in a list; a tuple of a new tasklet alone puts that into the run queue.

    All or none: nothing can come in between. ValueError when one cannot be put into its state.
    """

def detach(tasklet: tasklet[Any], /) -> tuple[int, object, object, int, int]:
    """Take a tasklet out of its channel or the run queue. Returns the arguments after the first with which settle() undoes it.

    CannotSave, and nothing is done, for one that is in no state to be saved.
    """

def defuse(tasklet: tasklet[Any], /) -> object:
    """Let no handler and no finally block of a suspended tasklet run any more: what is thrown into it ends it. Returns what must
    be kept until it has ended.
    """

def hold(tasklet: tasklet[Any], held: bool, /) -> bool:
    """If held, only note kills of this tasklet from now on, and refuse what else would let it run; else no longer. Whether it was
    killed meanwhile. The end of its thread ends it in any case.
    """

def function_begun(code: CodeType, globals: dict[str, object], /) -> FunctionType:
    """A function as the interpreter makes it before it gives it its closure."""

def never_called(function: FunctionType, /) -> None:
    """Let C code that calls a comprehension's function get ValueError from now on: it crashes with anything but an iterator."""

def annotations_of(function: FunctionType, /) -> dict[str, Any] | None:
    """Its annotations; None without any. Reading the attribute would give it a dict, which the interpreter does not expect in a
    function that it has not finished.
    """

def generator_drop(generator: _Suspendable, /) -> None:
    """Let a suspended generator or coroutine be over, without its finally blocks."""

def generator_get(generator: _Suspendable, /) -> tuple[Any, ...]:
    """(state, function, unit, offset, nulls, slots, handled) of a generator or coroutine that waits in a yield or has not begun;
    (state, function) of one that runs, (state, None) of one that is over. TypeError for an async one on its way to a value.
    """

def generator_set(
    generator: _Suspendable,
    state: int,
    unit: int,
    offset: int,
    nulls: object,
    slots: tuple[object, ...],
    handled: object,
    /,
) -> None:
    """Overwrite a fresh generator or coroutine. ValueError when it has begun or the state does not fit its code."""

def names(places: dict[int, Any], found: Callable[[Any, Any], object], /) -> Callable[[object], object]:
    """The function that a pickler asks for persistent ids: of an interned string whose id() is in `places` itself, of other objects
    there found(object, place); of a dictionary or set whose keys could be id()s found(object, None); None of all others.
    """

def is_sound(code: CodeType, /) -> bool:
    """Whether code that has not run is such as the compiler makes: it jumps to its own instructions alone, none is specialised, and
    each finds what the interpreter takes for granted.
    """

def large_numbers(records: list[tuple[Any, ...]], /) -> list[tuple[int, int]]:
    """Where in records there are integers that could be the id() of an object: tuples of the record's number and the slot's."""

def names_changed(versions: dict[str, int], sums: dict[str, int], /) -> list[str]:
    """The names of the modules that hold something else than when these two dicts, which are for this function alone, were last
    given. Modules that are not in sys.modules any more are not named.
    """
