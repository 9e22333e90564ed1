"""Tasklets that have come to this process: made again, let go on, ended; and those that move on from here.

Runs where tasklets come to: in contexts, and at home, where they come back to. What is to be done with them in a context its parent
says by calls of the functions below.
"""

import sys
from collections.abc import Callable
from typing import Any

from roamlet._move import STARTED_THERE, Leaving, NotMoved
from roamlet.core import TaskletExit, tasklet
from roamlet.core import channel as core_channel
from roamlet.snapshot import _native
from roamlet.snapshot._errors import BadSnapshot, CannotSave
from roamlet.snapshot.loading import load
from roamlet.snapshot.loading.helpers import base
from roamlet.snapshot.migration.block import BlockLoader, Stay
from roamlet.snapshot.migration.prepare import (
    ATOMIC_FLAG,
    ENDED,
    HAS_VALUE,
    ITERATES,
    MAIN,
    RAISES,
    SCHEDULED,
    SENDS_ERROR,
    Parcel,
    ParcelLoader,
    State,
    discard,
)
from roamlet.snapshot.migration.suspended import Suspended
from roamlet.sync._outcome import Outcome
from roamlet.sync._spawn import Body, without_first_frame

LARGEST = 1 << 25  # bytes of a tasklet that moves on: its parent holds them meanwhile


class Guest(Body[Any]):
    """The function of a tasklet that has come. Whoever waits for it gets all its errors."""

    __slots__ = ()

    def keeps(self, error: BaseException) -> bool:
        """See Body."""
        self.outcome.fail(without_first_frame(error))
        return True


class Moved:
    """A tasklet that has come: restored and suspended, until begin()."""

    def __init__(
        self,
        loader: ParcelLoader,
        body: Callable[..., Body[Any]] = Guest,
        outcome: Outcome[Any] | None = None,
        *,
        block: bool = False,
    ) -> None:
        """`block`: it is here for a block of roamlet.at() alone. Raises BadSnapshot, and nothing of it is left."""
        self.stay: Stay | None = None
        self.outcome: Outcome[Any] = outcome or Outcome()
        self.waiter: tasklet[...] | None = None  # waits for it in a channel of the parent's
        self.departure: Departure | None = None
        self.state: State | None = None
        restoring = load._Restoring(loader, paused=True)
        try:
            self.tasklet, contents = loader.read()
            if not loader.objects or self.tasklet is not loader.objects[0]:
                raise BadSnapshot("the tasklet cannot be read here: these bytes are something else")
            for made, content in zip(loader.objects, contents, strict=True):
                restoring.fill(made, content)
        except BadSnapshot:
            raise
        except Exception as error:
            raise BadSnapshot(f"the tasklet cannot be read here: {error}") from error
        self.generators = loader.generators
        if restoring.started:
            ((_, box, self.state),) = restoring.started
            self.tasklet.bind(body(self.outcome, base, (box,), None, "move"), ())
            if block:
                self.stay = Stay(contents[0][1], loader.functions, self.outcome)
            restoring.go([])  # it stays suspended until begin()
        else:
            function, args, kwargs = contents[0][1:4]
            self.tasklet.bind(body(self.outcome, function, args, kwargs, "move"), ())

    def begin(self) -> None:
        """Let it go on. Does not switch."""
        if self.state is None:
            self.tasklet.insert()
        elif self.state[0] == 0:
            _native.settle(self.tasklet, *self.state[:3], self.state[3] | SCHEDULED, self.state[4])
        else:
            self.waiter = tasklet(_wait_for)(self.tasklet, self.state)

    def kill(self) -> None:
        """End it, with its finally blocks; it has ended when its outcome is there."""
        if self.departure is not None:
            return  # where it is now is for the parent to say, which kills it there
        if self.waiter is not None and self.waiter.alive:
            self.waiter.kill(pending=True)
        elif self.tasklet.alive:
            self.tasklet.kill(pending=True)


def _wait_for(waiting: tasklet[...], state: State) -> None:
    """Do in its place what it waited for, with a channel of the parent's; then let it go on with what came."""
    direction, waits_in, value, flags, depth = state
    lent: Any = waits_in
    given: object = None
    result = SCHEDULED
    try:
        if direction < 0 and flags & ITERATES:
            try:
                given = next(lent)
                result |= HAS_VALUE
            except StopIteration:
                result |= ENDED
        elif direction < 0:
            given = lent.receive()
            result |= HAS_VALUE
        elif flags & SENDS_ERROR:
            lent.send_exception(value)
        else:
            lent.send(value)
    except BaseException as error:
        given = error.with_traceback(None)
        result |= HAS_VALUE | RAISES
    _native.settle(waiting, 0, None, given, result | flags & ATOMIC_FLAG, depth)


# ---- what its parent has a context do


_here: dict[int, Moved] = {}


def prepare(number: int, data: bytes, channels: list[Any], main: str | None, block: bool) -> None:
    """Make the tasklet again, and do not let it run. `block`: for a block of roamlet.at() alone."""
    kind = BlockLoader if block else ParcelLoader
    _here[number] = Moved(kind(data, channels, {} if main is None else {MAIN: main}), block=block)


def commit(number: int) -> None:
    """Let it go on. From now on it lives here."""
    moved = _here[number]
    if moved.stay is None:
        moved.generators.clear()
    moved.begin()


def drop(number: int) -> None:
    """It was not to go on here after all, or goes on elsewhere."""
    moved = _here.pop(number, None)
    if moved is None:
        return
    if moved.departure is not None:
        moved.departure.end()
    else:
        discard(moved.tasklet, moved.generators)


def kill(number: int) -> None:
    """End it, with its finally blocks."""
    moved = _here.get(number)
    if moved is not None:
        moved.kill()


def join(number: int) -> Any:
    """What came of it. Raises Departs when it wants to go on elsewhere: it is suspended until stays() or drop()."""
    moved = _here[number]
    ended = False
    try:
        moved.outcome.ended.wait()
        ended = moved.departure is None
    finally:
        if ended:
            del _here[number]
    if moved.departure is not None:
        raise moved.departure.said()
    try:
        value = moved.outcome.get()
        return value if moved.stay is None else moved.stay.said(moved.tasklet)
    finally:
        if moved.stay is not None:
            discard(moved.tasklet, moved.generators)
        del moved


def stays(number: int, problem: str | None) -> Any:
    """It was not moved on. Let it go on here with this problem; with "" it is there already; None: kill it. Then join it."""
    moved = _here[number]
    departure, moved.departure = moved.departure, None
    if departure is not None:
        moved.outcome.ended.clear()
        departure.stays(NotMoved(problem) if problem else None)
        if problem is None:
            moved.kill()
        del departure
    del moved
    return join(number)


# ---- moving on


class Departs(Exception):
    """To the parent, in the place of a result: the tasklet wants to go to the context of this number, or home (None).

    Behind it the bytes of its parcel, the numbers of its channels, the names of the modules that it needs.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return "it goes on elsewhere"


class Departure:
    """A guest between here and another place: packed, and suspended until the parent has said where it goes on."""

    def __init__(self, item: "tasklet[...]", place: int | None, leaving: Leaving) -> None:
        self._place = place
        self._suspended = Suspended(item, leaving)
        self._leaving = leaving
        try:
            self._parcel = _Onward(item, self._suspended.state)
            self._data = self._parcel.packed()
            if len(self._data) > LARGEST:
                raise CannotSave(f"{item!r} takes {len(self._data)} bytes, and {LARGEST} can move on from a context")
        except BaseException:
            self._suspended.put_back()
            raise

    def said(self) -> Departs:
        channels = tuple(channel._number for channel in self._parcel.lent)
        return Departs(self._place, self._data, channels, tuple(sorted(self._parcel.modules)))

    def stays(self, error: BaseException | None) -> None:
        self._suspended.put_back()
        self._leaving.decide(self._suspended.tasklet, error)

    def end(self) -> None:
        parcel = self._parcel
        del self._parcel  # it holds what it has saved
        generators, body = parcel.generators, parcel.body
        del parcel
        self._suspended.end(generators, body)


class _Onward(Parcel):
    """Writes a guest. Its channels are the parent's; loops over them take up again what has come ahead of them where they go on."""

    def __init__(self, item: "tasklet[...]", state: State) -> None:
        channels = sys.modules.get("roamlet.wire.channels")  # its parent sends it with the first channel
        super().__init__(item, state, () if channels is None else (channels.Channel,), (), None)
        self._loops: tuple[Any, ...] = () if channels is None else (channels.Values,)

    def refusal(self, value: object) -> str | None:
        """See Saver."""
        if isinstance(value, core_channel):
            return "that is a channel that was made here, and channels do not move. Let those that are to go along be made at home"
        return super().refusal(value)

    def sees_to(self, value: object) -> bool:
        """See Saver."""
        return super().sees_to(value) or isinstance(value, self._loops)

    def reducer_override(self, item: Any) -> Any:
        """See Saver."""
        if isinstance(item, self._loops):
            item.pause()
            return self.lend(item._channel)
        return super().reducer_override(item)


def _moved(item: "tasklet[...]") -> Moved | None:
    return next((moved for moved in _here.values() if moved.tasklet is item), None)


def is_guest(item: "tasklet[...]") -> bool:
    """Whether this tasklet has come here by a move."""
    return _moved(item) is not None


def leave(item: "tasklet[...]", place: int | None) -> Leaving:
    """For move_to(): the current tasklet, which suspends itself next, wants to go on in the context of this number, or at home."""
    moved = _moved(item)
    if moved is None:
        raise NotMoved(STARTED_THERE)
    if moved.stay is not None:
        raise NotMoved(
            "the block of roamlet.at() ends where it has begun: nothing moves on out of it. Let move_to() stand behind it"
        )
    leaving = Leaving()
    tasklet(_depart)(moved, place, leaving)
    return leaving


def _depart(moved: Moved, place: int | None, leaving: Leaving) -> None:
    try:
        departure = Departure(moved.tasklet, place, leaving)
        if leaving.killed is not None:
            departure.stays(None)  # it ends here
        else:
            moved.departure = departure
            moved.outcome.ended.set()  # which wakes the call that joins it
    except TaskletExit:
        raise
    except BaseException as error:
        leaving.decide(moved.tasklet, error.with_traceback(None))
