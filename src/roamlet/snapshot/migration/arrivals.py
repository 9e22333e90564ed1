"""Tasklets that have arrived in this process: restored, let go on, ended; and those that migrate on from here.

Runs in destinations: in contexts, and at home, where tasklets come back to. In a context the parent calls the functions below.
"""

import contextvars
import sys
from collections.abc import Callable
from typing import Any

from roamlet import _migration
from roamlet._migration import STARTED_THERE, MigrationDecision, NotMoved
from roamlet.core import TaskletExit, tasklet
from roamlet.core import channel as core_channel
from roamlet.snapshot import _native
from roamlet.snapshot._errors import BadSnapshot, CannotSave
from roamlet.snapshot.loading import load
from roamlet.snapshot.loading.helpers import base
from roamlet.snapshot.migration.block import BlockUnpickler, RunningBlock
from roamlet.snapshot.migration.pickling import MAIN, TaskletPickler, TaskletUnpickler
from roamlet.snapshot.migration.source import Suspended, discard
from roamlet.snapshot.state import Flag, NewContents, Wait
from roamlet.sync._outcome import Outcome
from roamlet.sync._spawn import Body, without_first_frame

LARGEST = 1 << 25  # bytes of a tasklet that moves on: its parent holds them meanwhile


class ArrivedBody(Body[Any]):
    """The function of a tasklet that has arrived. The call that waits for it gets all its errors."""

    __slots__ = ()

    def keeps(self, error: BaseException) -> bool:
        self.outcome.fail(without_first_frame(error))
        return True


class Arrival:
    """A tasklet that has arrived: restored and suspended, until begin()."""

    def __init__(
        self,
        unpickler: TaskletUnpickler,
        body: Callable[..., Body[Any]] = ArrivedBody,
        outcome: Outcome[Any] | None = None,
        *,
        block: bool = False,
    ) -> None:
        """`block`: it is here for a block of roamlet.at() alone. Raises BadSnapshot, and nothing of it is left."""
        self.block: RunningBlock | None = None
        self.outcome: Outcome[Any] = outcome or Outcome()
        self.waiter: tasklet[...] | None = None  # waits for it in a channel of the parent's
        self.pending: PendingMigration | None = None
        self.wait: Wait | None = None
        restoring = load.Restoring(unpickler, paused=True)
        try:
            self.tasklet: Any
            self.tasklet, contents = unpickler.read()
            if not unpickler.objects or self.tasklet is not unpickler.objects[0]:
                raise BadSnapshot("the tasklet cannot be read here: these bytes are something else")
            for made, content in zip(unpickler.objects, contents, strict=True):
                restoring.fill(made, content)
        except BadSnapshot:
            raise
        except Exception as error:
            raise BadSnapshot(f"the tasklet cannot be read here: {error}") from error
        self.generators: list[Any] = unpickler.generators
        if restoring.started:
            ((_, box, wait),) = restoring.started
            self.wait = Wait(*wait)
            _bind(self.tasklet, body(self.outcome, base, (box,), None, "move"))
            if block:
                _, records, *_ = contents[0]  # see StartedContents
                self.block = RunningBlock(records, unpickler.functions, self.outcome)
            restoring.go([])  # it stays suspended until begin()
        else:
            new = NewContents(*contents[0])
            _bind(self.tasklet, body(self.outcome, new.function, new.args, new.kwargs, "move"))

    def begin(self) -> None:
        """Let it go on. Does not switch."""
        if self.wait is None:
            self.tasklet.insert()
        elif self.wait.direction == 0:
            _native.settle(self.tasklet, 0, None, self.wait.value, self.wait.flags | Flag.SCHEDULED, self.wait.atomic)
        else:
            self.waiter = tasklet(_wait_for)(self.tasklet, self.wait)

    def kill(self) -> None:
        """End it, with its finally blocks; it has ended when its outcome is there."""
        if self.pending is not None:
            return  # the parent knows where it is, and kills it there
        if self.waiter is not None and self.waiter.alive:
            self.waiter.kill(pending=True)
        elif self.tasklet.alive:
            self.tasklet.kill(pending=True)


def _bind(item: "tasklet[...]", body: Body[Any]) -> None:
    """Give it this function, and keep the context variables that it came with: bind() copies those of its caller."""
    context = item.context_run(contextvars.copy_context)
    item.bind(body, ())
    item.set_context(context)


def _wait_for(waiting: tasklet[...], wait: Wait) -> None:
    """Do in its place what it waited for, with a channel of the parent's; then let it go on with what came."""
    channel, flags = wait.channel, wait.flags
    given: object = None
    result = Flag.SCHEDULED
    try:
        if wait.direction < 0 and flags & Flag.ITERATES:
            try:
                given = next(channel)
                result |= Flag.HAS_VALUE
            except StopIteration:
                result |= Flag.ENDED
        elif wait.direction < 0:
            given = channel.receive()
            result |= Flag.HAS_VALUE
        elif flags & Flag.SENDS_ERROR:
            channel.send_exception(wait.value)
        else:
            channel.send(wait.value)
    except BaseException as error:
        given = error.with_traceback(None)
        result |= Flag.HAS_VALUE | Flag.RAISES
    _native.settle(waiting, 0, None, given, result | flags & Flag.ATOMIC, wait.atomic)


# ---- what its parent has a context do


_here: dict[int, Arrival] = {}


def prepare(number: int, data: bytes, channels: list[Any], main: str | None, block: bool) -> None:
    """Restore the tasklet, and do not let it run. `block`: for a block of roamlet.at() alone."""
    kind = BlockUnpickler if block else TaskletUnpickler
    _here[number] = Arrival(kind(data, channels, {} if main is None else {MAIN: main}), block=block)


def commit(number: int) -> None:
    """Let it go on. From now on it lives here."""
    arrival = _here[number]
    if arrival.block is None:
        arrival.generators.clear()
    arrival.begin()


def drop(number: int) -> None:
    """It was not to go on here after all, or goes on in another process."""
    arrival = _here.pop(number, None)
    if arrival is None:
        return
    if arrival.pending is not None:
        arrival.pending.end()
    else:
        discard(arrival.tasklet, arrival.generators)


def kill(number: int) -> None:
    """End it, with its finally blocks."""
    arrival = _here.get(number)
    if arrival is not None:
        arrival.kill()


def join(number: int) -> Any:
    """What came of it. Raises MigrationRequested when it is to move on: it is suspended until stay() or drop()."""
    arrival = _here[number]
    ended = False
    try:
        arrival.outcome.ended.wait()
        ended = arrival.pending is None
    finally:
        if ended:
            del _here[number]
    if arrival.pending is not None:
        raise arrival.pending.request()
    try:
        value = arrival.outcome.get()
        return value if arrival.block is None else arrival.block.result(arrival.tasklet)
    finally:
        if arrival.block is not None:
            discard(arrival.tasklet, arrival.generators)
        del arrival


def stay(number: int, problem: str | None) -> Any:
    """It was not moved on. Let it go on here with this problem; with "" it is there already; None: kill it. Then join it."""
    arrival = _here[number]
    pending, arrival.pending = arrival.pending, None
    if pending is not None:
        arrival.outcome.ended.clear()
        pending.stay(NotMoved(problem) if problem else None)
        if problem is None:
            arrival.kill()
        del pending
    del arrival
    return join(number)


# ---- migrating on


class MigrationRequested(Exception):
    """To the parent, in the place of a result: the tasklet is to go on in the context of this number, or at home (None).

    The other arguments: its bytes, the numbers of its channels, the names of the modules that it needs.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return "it goes on in another process"


class PendingMigration:
    """An arrived tasklet that is to migrate on: pickled, and suspended until the parent has decided where it goes on."""

    def __init__(self, item: "tasklet[...]", place: int | None, decision: MigrationDecision) -> None:
        self._place = place
        self._suspended = Suspended(item, decision)
        self._decision = decision
        try:
            self._pickler = _ArrivedPickler(item, self._suspended.wait)
            self._data = self._pickler.pickled()
            if len(self._data) > LARGEST:
                raise CannotSave(f"{item!r} takes {len(self._data)} bytes, and {LARGEST} can move on from a context")
        except BaseException:
            self._suspended.put_back()
            raise

    def request(self) -> MigrationRequested:
        channels = tuple(channel._number for channel in self._pickler.channels)
        return MigrationRequested(self._place, self._data, channels, tuple(sorted(self._pickler.modules)))

    def stay(self, error: BaseException | None) -> None:
        self._suspended.put_back()
        self._decision.decide(self._suspended.tasklet, error)

    def end(self) -> None:
        pickler = self._pickler
        del self._pickler  # it holds what it has saved
        generators, body = pickler.generators, pickler.body
        del pickler
        self._suspended.end(generators, body)


class _ArrivedPickler(TaskletPickler):
    """Writes an arrived tasklet. Its channels are the parent's; loops over them take up in the destination what was sent ahead."""

    def __init__(self, item: "tasklet[...]", wait: Wait) -> None:
        channels = sys.modules.get("roamlet.wire.channels")  # its parent sends it with the first channel
        super().__init__(item, wait, () if channels is None else (channels.Channel,), (), None)
        self._loops: tuple[Any, ...] = () if channels is None else (channels.Values,)

    def refusal(self, value: object) -> str | None:
        if isinstance(value, core_channel):
            return "that is a channel that was made here, and channels do not move. Let those that are to go along be made at home"
        return super().refusal(value)

    def sees_to(self, value: object) -> bool:
        return super().sees_to(value) or isinstance(value, self._loops)

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, self._loops):
            item.pause()
            return self.by_number(item._channel)
        return super().reducer_override(item)


def _arrival_of(item: "tasklet[...]") -> Arrival | None:
    return next((arrival for arrival in _here.values() if arrival.tasklet is item), None)


def has_arrived(item: "tasklet[...]") -> bool:
    """Whether this tasklet has migrated to this context."""
    return _arrival_of(item) is not None


def begin_migration(item: "tasklet[...]", place: int | None) -> MigrationDecision:
    """For move_to(): the current tasklet, which suspends itself next, is to go on in the context of this number, or at home."""
    arrival = _arrival_of(item)
    if arrival is None:
        raise NotMoved(STARTED_THERE)
    if arrival.block is not None:
        raise NotMoved(
            "the block of roamlet.at() ends where it has begun: nothing moves on out of it. Call move_to() after the block"
        )
    decision = MigrationDecision()
    tasklet(_migrate)(arrival, place, decision)
    return decision


def _migrate(arrival: Arrival, place: int | None, decision: MigrationDecision) -> None:
    try:
        pending = PendingMigration(arrival.tasklet, place, decision)
        if decision.killed is not None:
            pending.stay(None)  # it ends here
        else:
            arrival.pending = pending
            arrival.outcome.ended.set()  # which wakes the call that joins it
    except TaskletExit:
        raise
    except BaseException as error:
        decision.decide(arrival.tasklet, error.with_traceback(None))


_migration.arrivals = sys.modules[__name__]
