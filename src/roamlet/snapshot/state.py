"""The names of what the C side reads of a tasklet, and of what is written of one in a snapshot.

The order of the members is that of the tuples which the C files make and take (capture.c: Captured; record.c: Record; discard.c
and restore.c: Wait), and of the tuples in snapshots (StartedContents, NewContents). The order and the numbers are part of the
format: they stay.

Where thousands of tasklets are saved, code takes plain tuples apart at once instead of making one of these first, which is 3 %
of the time. Flags are plain numbers for the same reason: `&` with an enum.IntFlag takes 0.7 us, a sixth of the time to restore a
tasklet, and pickle would write its class. _replace() is not used: CPython's pools of tuples grow by one tuple with each call.
"""

from typing import Any, NamedTuple

NEW, STARTED = 1, 2
"""The stage of a tasklet: bound and not begun, or begun. 0 is neither bound nor begun, or ended."""


class Flag:
    """Bits of `flags`. c/native.h has the same."""

    RAISES = 1  # the value is an exception, to be raised when the tasklet goes on
    SENDS_ERROR = 2  # the value is an exception, to be raised in the receiver
    ITERATES = 4  # it receives for a `for` loop
    ENDED = 8  # its loop over a channel is over: the channel was closed
    ATOMIC = 16  # it has set_atomic(True)
    SCHEDULED = 32  # it is in the run queue
    HAS_VALUE = 64


class Wait(NamedTuple):
    """Where a tasklet waits: what detach() returns, and settle() takes."""

    direction: int  # -1 receives, 1 sends, 0 does neither
    channel: Any
    value: Any
    flags: int
    atomic: int  # how deep in atomic code


class Captured(NamedTuple):
    """What capture() returns of a tasklet."""

    stage: int
    function: Any
    args: Any
    kwargs: Any
    context: Any
    direction: int
    channel: Any
    value: Any
    flags: int
    atomic: int
    records: list[tuple[Any, ...]]  # of its frames, the outermost first; None: it has not begun
    before: int  # the innermost frame goes on before this instruction, and takes no value; -1: it takes one
    end: int  # where its loop over a channel ends; -1: it is in none
    returns: Any  # what its call returns without a value: None, 1 for the tasklet, or a tuple of it
    handled: Any  # the exception that its outermost frames handle


class Record(NamedTuple):
    """What is saved of a frame."""

    function: Any  # or its number in the table of the snapshot
    unit: int  # of its code, where it is
    offset: int
    nulls: Any  # which slots are empty: a number with a bit for each, or a tuple of their numbers
    slots: tuple[Any, ...]  # variables, cells, operands


class GeneratorRecord(NamedTuple):
    """What is saved of a frame of a generator or coroutine."""

    function: Any
    unit: int
    offset: int
    nulls: Any
    slots: tuple[Any, ...]
    generator: Any
    handled: Any  # the exception that it handles


PLAIN_RECORD = len(Record._fields)  # a longer one is a GeneratorRecord
FUNCTION, SLOTS, GENERATOR = (GeneratorRecord._fields.index(name) for name in ("function", "slots", "generator"))
"""Positions, for loops over the records of deep stacks."""


class StartedContents(NamedTuple):
    """What is written of a tasklet that has begun, as a plain tuple."""

    stage: int
    records: Any
    handled: Any
    before: int
    end: int
    returns: Any
    direction: int
    channel: Any
    value: Any
    flags: int
    atomic: int
    position: int  # in the run queue
    context: Any  # its variables, see references/contexts.py
    attributes: Any


class NewContents(NamedTuple):
    """What is written of a tasklet that has not begun, as a plain tuple."""

    stage: int
    function: Any
    args: Any
    kwargs: Any
    flags: int
    atomic: int
    value: Any
    position: int
    context: Any
    attributes: Any
