"""The handle on a tasklet that has migrated: waits for its outcome, moves it on between contexts and back, wherever it is.

A context cannot send a tasklet anywhere. It answers the call that joins the tasklet with a request of the tasklet to migrate; here
that is checked, and done if the user has allowed it: see Context.allow_moves_to().
"""

import logging
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from roamlet._migration import Home, home
from roamlet.core import TaskletExit, os_threads, tasklet
from roamlet.remote.base.deadlines import EVER, deadline_of, limit
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.calls.engine import Calls, ContextBase, calls_of
from roamlet.remote.calls.spawn import RemoteCall
from roamlet.remote.errors import MoveInDoubt, NotMoved, ProtocolError, RemoteError
from roamlet.remote.link.inflight import Answer
from roamlet.remote.migration import requests
from roamlet.remote.values.answers import Failure
from roamlet.remote.values.registry import Incoming
from roamlet.snapshot.migration.arrivals import Arrival
from roamlet.snapshot.migration.pickling import MAIN, ContextReference, TaskletUnpickler
from roamlet.snapshot.migration.source import discard
from roamlet.sync._outcome import Outcome, TaskletKilled, raise_in_main
from roamlet.sync._spawn import Body, Spawned, away, without_first_frame
from roamlet.wire import codec, protocol

_CONTEXT_REFERENCE = ContextReference.__module__, ContextReference.__name__

_log = logging.getLogger("roamlet.remote")


class ArrivalHandle(RemoteCall[Any]):
    """On a tasklet in a context. It is killed by its number, whether the call that joins it has arrived or not."""

    _runs_already = True

    def __init__(self, calls: Calls, number: int, name: str) -> None:
        self._arrival = number
        super().__init__(calls, requests.request(calls, "join", (number,), name), name)

    def _why(self, error: BaseException) -> BaseException:
        """That the outcome could not be asked for any more does not mean that nothing has happened."""
        if isinstance(error, RemoteError) and error.sent is False:
            return self._calls.link.why_ended(self.name) or error
        return error

    def _ask_to_end(self) -> None:
        """Once in each process: what is raised there is raised in its `finally` blocks, too."""
        with self._lock:
            told, self._told = self._told, True
            calls, number = self._calls, self._arrival
        if not told:
            requests.notify(calls, "kill", number)


@dataclass(frozen=True)
class MigrationRequest:
    """What a context answers for a tasklet that is to migrate on. Nothing was read of `data`, which is the tasklet."""

    place: int | None
    data: bytes
    channels: list[Any]
    modules: tuple[str, ...]


class _InDoubt(Exception):
    """The link to the destination broke after the commit was sent."""


class ReturnedOutcome(Outcome[Any]):
    """What came of a tasklet that had come home: settles its handle."""

    __slots__ = ("handle",)

    def __init__(self, handle: "MigrationHandle") -> None:
        super().__init__()
        self.handle: MigrationHandle | None = handle

    def take_handle(self) -> "MigrationHandle":
        """The handle, for a tasklet that migrates again: it will not end here."""
        handle, self.handle = self.handle, None
        assert handle is not None
        return handle

    def succeed(self, result: Any) -> None:
        super().succeed(result)
        self._tell()

    def fail(self, error: BaseException, *, taken: bool = False) -> None:
        super().fail(error, taken=taken)
        self._tell(is_over=not isinstance(error, MoveInDoubt))

    def give_up(self, why: str) -> None:
        super().give_up(why)
        self._tell()

    def _tell(self, *, is_over: bool = True) -> None:
        handle = self.handle
        if is_over:
            self.handle = None
        if handle is not None:
            handle._settle()

    def reopen(self) -> None:
        super().reopen()
        if self.handle is not None:
            self.handle._reopen()


class ReturnedBody(Body[Any]):
    """The function of a tasklet that has come home."""

    __slots__ = ()

    def __init__(self, *args: Any, qualname: str = "") -> None:
        super().__init__(*args)
        self.__qualname__ = qualname

    def keeps(self, error: BaseException) -> bool:
        """See Body: the error is that of the handle."""
        if isinstance(error, Exception):
            self.outcome.fail(without_first_frame(error))
            return True
        return super().keeps(error)


class ReturnUnpickler(TaskletUnpickler):
    """Reads a tasklet that comes home, into the tasklet object that has left if that still exists."""

    def __init__(
        self,
        migration: MigrationRequest,
        names: dict[str, str],
        contexts: list[ContextBase],
        item: "tasklet[...] | None",
    ) -> None:
        super().__init__(migration.data, migration.channels, names)
        self._contexts = contexts
        free = item is not None and not item.alive and item.thread_id == os_threads.get_ident()
        self._item = item if free else None
        self._taken: tasklet[...] | None = None

    def make_plain_tasklet(self) -> Any:
        return self._original() or super().make_plain_tasklet()

    def make_tasklet(self, kind: type["tasklet[...]"]) -> Any:
        return self._original() or super().make_tasklet(kind)

    def _original(self) -> Any:
        item, self._item = self._item, None
        self._taken = self._taken or item
        return item and self._noted(item)

    def abandon(self) -> None:
        """It cannot be restored here: leave the tasklet object as it was, for other code that may use it again."""
        if self._taken is not None and self._taken.alive:
            self._taken.kill()

    def find_class(self, module_name: str, name: str) -> Any:
        """The contexts themselves, in the place of references to them."""
        if (module_name, name) == _CONTEXT_REFERENCE:
            return lambda shown, number: self._contexts[number]
        return super().find_class(module_name, name)


class MigrationHandle(ArrivalHandle):
    """On a tasklet that may migrate on, through all its migrations."""

    def __init__(
        self, calls: Calls, number: int, name: str, item: "tasklet[...]", contexts: Sequence[ContextBase]
    ) -> None:
        """`contexts`: those that the tasklet holds, in the order of their numbers. Call it in the thread of the tasklet."""
        self._item = weakref.ref(item)
        self._thread = os_threads.get_ident()
        self._contexts = list(contexts)
        self._returned: ReturnedOutcome | None = None  # while it is at home, and when it has ended there
        self._in_transit = False  # from one process to the next: it is looked at afterwards whether it was killed
        self._doubt: str | None = None
        self._outcome: Outcome[Any] | None = None  # of roamlet.spawn
        self._reports_errors = False  # no code has the handle
        # The thread through which it can wake other tasklets, while it is away.
        self._wakers: TaskletThread | None = None
        self._begin_wakeups(calls)
        super().__init__(calls, number, name)
        self._register_kill(item)

    # ---- for code that holds it

    def join(self, timeout: float | None = None) -> Any:
        """See RemoteCall. Raises MoveInDoubt, too, and again until it is decided where the tasklet goes on."""
        deadline = deadline_of(timeout)
        while True:
            if not self._ended.wait(limit(deadline)):
                raise TimeoutError(f"{self!r} has not ended within {timeout} seconds")
            doubt = self._doubt
            if doubt is not None:
                self._asked_for = True
                raise MoveInDoubt(doubt, context=self._calls.name, take_back=self.take_back)
            if self._ended.is_set():  # and it was not taken back meanwhile
                break
        if self._returned is None:
            return super().join(0)
        self._asked_for = True
        return self._returned.get()

    def take_back(self, *, kill: bool = False) -> None:
        """Let it go on in the context where it is suspended, because it did not go on in the destination."""
        with self._lock:
            problem, self._doubt = self._doubt, None
            if problem is None:
                raise RuntimeError(f"{self.name} is not in doubt any more")
            self._told = self._told or kill
            self._reopen()
        self._request = requests.request(self._calls, "stay", (self._arrival, None if kill else problem), self.name)
        self._begin_wakeups(self._calls)
        if not self._calls.background(self._run):
            self._run()

    def kill(self) -> None:
        """Let it end, with its finally blocks, where it is; if it is in transit, where it arrives."""
        with self._lock:
            self._killed = True
            doubt = self._doubt is not None
            at_home = self._returned is not None
            if not doubt and (self._in_transit or self._ended.is_set()):
                return
        if doubt:
            self.take_back(kill=True)
        elif at_home:
            self._kill_at_home()
        else:
            self._ask_to_end()

    def forward_to(self, outcome: Outcome[Any]) -> None:
        """Settle this outcome, that of a tasklet of roamlet.spawn(), with what comes of it."""
        with self._lock:
            self._outcome = outcome
            if not self._ended.is_set():
                return
        self._forward()

    def _forward(self) -> None:
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            return
        try:
            result = self.join(0)
        except BaseException as error:
            if isinstance(error, MoveInDoubt):  # this is not the end
                self._outcome = outcome
            outcome.fail(error.with_traceback(None))
            outcome._thread = self._thread
        else:
            outcome.succeed(result)

    def _reopen(self) -> None:
        """It goes on although it was settled."""
        self._ended.clear()
        if self._outcome is not None:
            self._outcome.reopen()

    def report_errors(self) -> None:
        """From now on, raise its error, if it has one, as that of a plain tasklet of the thread that it has left."""
        with self._lock:
            self._reports_errors = True
            if not self._ended.is_set():
                return
        self._report()

    def _report(self) -> None:
        try:
            self.join(0)
        except TaskletKilled:
            pass
        except BaseException as error:
            report(error.with_traceback(None), self._thread)

    # ---- following it

    def _begin_wakeups(self, calls: Calls) -> None:
        """While it is away, tasklets that wait for it are no deadlock, even if no other tasklet can run here."""
        threads = calls.threads
        if threads is not None:
            self._wakers = threads.modules
            self._wakers.may_wake(1)

    def _register_kill(self, item: "tasklet[...] | None") -> None:
        """Let kill() of the tasklet object that has left reach it, if roamlet.spawn() has made that."""
        if isinstance(item, Spawned) and not self._ended.is_set():
            away[item] = self.kill

    def _end_wakeups(self) -> None:
        wakers, self._wakers = self._wakers, None
        if wakers is not None:
            wakers.may_wake(-1)

    def _run(self) -> None:
        """Wait for it while it is away, and migrate it from one context to the next."""
        away = True
        try:
            while away:
                waiter = self._calls.send(self._request, None)[1]
                self._has_arrived()
                answer = waiter.wait(limit(None))
                migration = self._requested_migration(answer)
                if migration is None:
                    self._answer = answer
                    break
                away = self._migrate(migration)
                del migration
        except _InDoubt as doubt:
            self._doubt = str(doubt)
        except TaskletExit:  # with the thread, which ends with the last context
            self._error = self._was_killed()
        except BaseException as error:
            self._error = self._why(error).with_traceback(None)
        finally:
            if away:
                self._settle()

    def _settle(self) -> None:
        item = self._item()
        if self._doubt is None:
            self._contexts = []
            if item is not None:
                away.pop(item, None)
        super()._settle()
        self._forward()
        if self._reports_errors:
            self._report()
        self._end_wakeups()

    def _has_arrived(self) -> None:
        with self._lock:
            kill = self._in_transit and self._killed
            self._in_transit = False
        if kill:
            self._ask_to_end()

    def _requested_migration(self, answer: Answer) -> MigrationRequest | None:
        """The migration that the answer requests; None when the tasklet has ended. ProtocolError for a forged request."""
        kind, body = answer
        if kind != protocol.ERROR:
            return None
        calls = self._calls
        try:
            said = Failure(Incoming().loads(body))
        except (ValueError, codec.CannotTravel):
            return None  # join() raises that
        try:
            asked = (protocol.ERROR_RAISED, requests.ARRIVALS, "MigrationRequested")
            if (said.reason, said.module, said.type_name) != asked:
                return None
            place, data, channels, modules = said.args
            if place is not None and (type(place) is not int or not 0 <= place < len(self._contexts)):
                raise ValueError(f"the context {place!r:.80} was not given to it")
            for each, kinds in ((data, bytes), (channels, tuple), (modules, tuple)):
                if type(each) is not kinds:
                    raise ValueError(f"{each!r:.80} is not what belongs there")
            if not all(type(each) is int for each in channels) or not all(type(each) is str for each in modules):
                raise ValueError("something else where the numbers of channels, or the names of modules, should be")
            return MigrationRequest(place, data, [calls.link.channels.resolve(number) for number in channels], modules)
        except (ValueError, TypeError) as error:
            problem = str(error)
        calls.link.break_off("a request to migrate that makes no sense")
        raise ProtocolError(
            f"{calls.name!r} said where {self.name} goes on, and it makes no sense, so it was closed: {problem}",
            context=calls.name,
        )

    def _migrate(self, migration: MigrationRequest) -> bool:
        """Let it go on in the destination, or where it is with the reason why not. Whether it is in a context then."""
        here, number = self._calls, self._arrival
        with self._lock:
            self._in_transit = True
        try:
            self._refuse_if_killed()
            place: Calls | Home = home if migration.place is None else calls_of(self._contexts[migration.place])
            if place is here:
                problem = ""
            else:
                self._check_grant(place)
                if isinstance(place, Calls):
                    self._migrate_to_context(place, migration)
                else:
                    self._migrate_home(migration)
                requests.notify(here, "drop", number)
                return isinstance(place, Calls)
        except (TaskletExit, _InDoubt):
            raise
        except Exception as error:
            problem = str(error) or repr(error)  # "" would mean that it has arrived
        with self._lock:
            killed = self._killed
            self._in_transit = not killed
            self._told = self._told or killed
        self._request = requests.request(here, "stay", (number, None if killed else problem), self.name)
        return True

    def _refuse_if_killed(self) -> None:
        if self._killed:
            raise NotMoved(f"{self.name} was killed")

    def _check_grant(self, place: Calls | Home) -> None:
        """Checked before anything of the tasklet is read as more than bytes, in any process."""
        here = self._calls
        if here.may_move_to(place):
            return
        shown = repr(place.name) if isinstance(place, Calls) else "roamlet.home"
        raise NotMoved(
            f"{self.name} may not move from {here.name!r} to {shown}: that would let {here.name!r} run code there, which was not "
            f"allowed. If you trust {here.name!r}, call allow_moves_to() of its context at home before, with "
            f"{'the context ' * isinstance(place, Calls)}{shown} and all other places that it shall move on to"
        )

    def _migrate_to_context(self, place: Calls, migration: MigrationRequest) -> None:
        """Prepare and commit in another context."""
        requests.check_destination(place, self.name)
        requests.send_modules(place, migration.modules, needed=False)
        number = requests.prepare(
            place,
            (migration.data, migration.channels, None, False),
            self.name,
            lambda: "it was killed meanwhile" if self._killed else None,
        )
        waiter = requests.commit(place, number)
        lost = None
        try:
            answer = waiter.wait(EVER)
            lost = requests.doubt_in(place, answer, self.name)
        except RemoteError as error:
            lost = str(error)
        if lost is not None:  # raised out here, so that the error holds no other one with its frames
            raise _InDoubt(
                f"{self.name} was on its way from {self._calls.name!r} to {place.name!r} when the link to that broke, and it "
                f"is not known whether it goes on there: {lost}\n"
                f"    It is suspended in {self._calls.name!r}. If it did not go on, error.take_back() lets it go on there; else "
                "kill() ends it."
            )
        place.value(answer, self.name)
        with self._lock:
            self._calls, self._arrival, self._told = place, number, False
        self._request = requests.request(place, "join", (number,), self.name)

    # ---- at home

    def _migrate_home(self, migration: MigrationRequest) -> None:
        """Restore it in the thread that it has left."""
        restored: Outcome[None] = Outcome()
        restoring = tasklet(
            ReturnedBody(
                restored, self._restore, (migration,), None, "move_to", qualname=f"the way home of {self.name}"
            ),
            (),
        )
        problem = None
        try:
            restoring.bind_thread(self._thread)
            restoring.insert()
        except (RuntimeError, ValueError):
            problem = f"{self.name} cannot come home: the thread that it has left has ended"
        del restoring
        if problem is not None:
            raise NotMoved(problem)
        restored.ended.wait(EVER)
        restored.get()

    def _restore(self, migration: MigrationRequest) -> None:
        """In that thread: restore it, and let it go on."""
        name = requests.main_script_name()
        outcome = ReturnedOutcome(self)
        item = self._item()
        unpickler = None
        try:
            unpickler = ReturnUnpickler(migration, {} if name is None else {name: MAIN}, self._contexts, item)
            arrival = Arrival(unpickler, partial(ReturnedBody, qualname=self.name), outcome)
        except BaseException:
            outcome.handle = None
            if unpickler is not None:
                unpickler.abandon()
            raise
        generators = list(arrival.generators)
        with self._lock:
            killed = self._killed
            if not killed:
                arrival.generators.clear()
                self._item = weakref.ref(arrival.tasklet)
                self._returned = outcome
                self._in_transit = self._told = False
                arrival.begin()  # which runs nothing yet; it must not be killed before
        if killed:
            outcome.handle = None
            discard(arrival.tasklet, generators)
            self._refuse_if_killed()
        away.pop(arrival.tasklet, None)
        self._end_wakeups()

    def _kill_at_home(self) -> None:
        item = self._item()
        with self._lock:
            told, self._told = self._told, True
        if not told and item is not None and item.alive:
            item.kill(pending=True)

    def leave_home(self, calls: Calls, number: int, contexts: Sequence[ContextBase]) -> "MigrationHandle":
        """It has migrated to this context again. Returns itself."""
        with self._lock:
            self._returned = None
            self._calls, self._arrival, self._contexts, self._told = calls, number, list(contexts), False
            killed = self._killed
        self._request = requests.request(calls, "join", (number,), self.name)
        self._begin_wakeups(calls)
        self._register_kill(self._item())
        if killed:
            self._ask_to_end()
        if not calls.background(self._run):
            self._run()
        return self

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if self._returned is None else text.replace(f"in {self._calls.name!r}", "at home", 1)

    def __del__(self) -> None:
        if self._doubt is not None and not self._asked_for:
            _log.warning("no join() has raised it: %s", self._doubt)
        super().__del__()


def report(error: BaseException, thread: int) -> None:
    """Raise it in the main tasklet of this thread; log it when that has ended."""
    errors = [error]
    if not raise_in_main(errors, thread):
        _log.warning("a tasklet that has moved has failed, and its thread has ended: %r", errors[0])
