"""The handle on a tasklet that has moved, wherever it is: in a context, on its way from there to another one, or at home again.

A context cannot send anything to anybody. It answers the call that waits for the tasklet with what the tasklet wants; here that is
checked, and done if the user has allowed it: see Context.allow_moves_to().
"""

import logging
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from roamlet._migration import Home, home
from roamlet.core import TaskletExit, tasklet
from roamlet.remote.base.deadlines import EVER, deadline_of, limit
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.calls.engine import Calls, ContextBase, calls_of
from roamlet.remote.calls.spawn import RemoteCall
from roamlet.remote.errors import MoveInDoubt, NotMoved, ProtocolError, RemoteError
from roamlet.remote.link.inflight import Answer
from roamlet.remote.migration.arrival import AtHome, HomeLoader, HomeOutcome
from roamlet.remote.migration.requests import THERE, bring, check_place, commit, main, nonsense, request, restored, tell
from roamlet.remote.values.answers import Failure
from roamlet.remote.values.registry import Incoming
from roamlet.snapshot.migration.arrivals import Arrival
from roamlet.snapshot.migration.pickling import MAIN
from roamlet.snapshot.migration.source import discard
from roamlet.sync._outcome import Outcome, TaskletKilled, raise_in_main
from roamlet.sync._spawn import Spawned, away
from roamlet.wire import codec, protocol

_log = logging.getLogger("roamlet.remote")


class Handle(RemoteCall[Any]):
    """On a tasklet in a context. It is killed by its number, whether the call that waits for it has come there or not."""

    _runs_already = True

    def __init__(self, calls: Calls, number: int, name: str) -> None:
        self._moved = number
        super().__init__(calls, request(calls, "join", (number,), name), name)

    def _why(self, error: BaseException) -> BaseException:
        """That nobody could be asked for the outcome any more does not say that nothing has happened."""
        if isinstance(error, RemoteError) and error.sent is False:
            return self._calls.link.why_ended(self.name) or error
        return error

    def _ask_to_end(self) -> None:
        """Once in each place: what is raised there is raised in its `finally` blocks, too."""
        with self._lock:
            told, self._told = self._told, True
            calls, number = self._calls, self._moved
        if not told:
            tell(calls, "kill", number)


@dataclass(frozen=True)
class Departure:
    """What a context says of a tasklet that wants to go on elsewhere; `data` is its parcel, of which nothing was read."""

    place: int | None
    data: bytes
    channels: list[Any]
    modules: tuple[str, ...]


class _InDoubt(Exception):
    """The link to this place broke behind the order to go on there."""


class Journey(Handle):
    """On a tasklet that may move on; for good."""

    def __init__(
        self, calls: Calls, number: int, name: str, item: "tasklet[...]", contexts: Sequence[ContextBase]
    ) -> None:
        """`contexts`: those that it holds, in the order of their numbers. In the thread of the tasklet."""
        self._item = weakref.ref(item)
        self._thread = threading.get_ident()
        self._contexts = list(contexts)
        self._home: HomeOutcome | None = None  # while it is at home, and when it has ended there
        self._between = False  # it is neither here nor there: who brings it on looks whether it is to be killed
        self._doubt: str | None = None
        self._outcome: Outcome[Any] | None = None  # of roamlet.spawn
        self._reports = False  # nobody has the handle
        self._wakers: TaskletThread | None = None  # the thread through which it can wake others, while it is away
        self._goes_away(calls)
        super().__init__(calls, number, name)
        self._can_be_killed_by(item)

    # ---- for whoever holds it

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
            if self._ended.is_set():  # and nobody has taken it back meanwhile
                break
        if self._home is None:
            return super().join(0)
        self._asked_for = True
        return self._home.get()

    def take_back(self, *, kill: bool = False) -> None:
        """Let it go on in the context where it is suspended, because it did not go on in the next one."""
        with self._lock:
            problem, self._doubt = self._doubt, None
            if problem is None:
                raise RuntimeError(f"{self.name} is not in doubt any more")
            self._told = self._told or kill
            self._reopen()
        self._request = request(self._calls, "stay", (self._moved, None if kill else problem), self.name)
        self._goes_away(self._calls)
        if not self._calls.background(self._run):
            self._run()

    def kill(self) -> None:
        """Let it end, with its finally blocks, where it is; if it is on its way, where that ends."""
        with self._lock:
            self._killed = True
            doubt = self._doubt is not None
            at_home = self._home is not None
            if not doubt and (self._between or self._ended.is_set()):
                return
        if doubt:
            self.take_back(kill=True)
        elif at_home:
            self._kill_at_home()
        else:
            self._ask_to_end()

    def passes_on(self, outcome: Outcome[Any]) -> None:
        """Let who joins a tasklet of roamlet.spawn() get what comes of it."""
        with self._lock:
            self._outcome = outcome
            if not self._ended.is_set():
                return
        self._pass_on()

    def _pass_on(self) -> None:
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
        """It goes on after all."""
        self._ended.clear()
        if self._outcome is not None:
            self._outcome.reopen()

    def reports(self) -> None:
        """From now on, raise its error, if it has one, as that of a plain tasklet of the thread that it has left."""
        with self._lock:
            self._reports = True
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

    def _goes_away(self, calls: Calls) -> None:
        """Whoever waits for it with nobody else to run here waits for good reason."""
        threads = calls.threads
        if threads is not None:
            self._wakers = threads.modules
            self._wakers.may_wake(1)

    def _can_be_killed_by(self, item: "tasklet[...] | None") -> None:
        """Let kill() of the tasklet that has left reach it, where that is one of roamlet.spawn()."""
        if isinstance(item, Spawned) and not self._ended.is_set():
            away[item] = self.kill

    def _is_back(self) -> None:
        wakers, self._wakers = self._wakers, None
        if wakers is not None:
            wakers.may_wake(-1)

    def _run(self) -> None:
        """Wait for it while it is away, and bring it on from one context to the next."""
        away = True
        try:
            while away:
                waiter = self._calls.send(self._request, None)[1]
                self._is_there()
                answer = waiter.wait(limit(None))
                departure = self._departure(answer)
                if departure is None:
                    self._answer = answer
                    break
                away = self._brings_on(departure)
                del departure
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
        self._pass_on()
        if self._reports:
            self._report()
        self._is_back()

    def _is_there(self) -> None:
        with self._lock:
            kill = self._between and self._killed
            self._between = False
        if kill:
            self._ask_to_end()

    def _departure(self, answer: Answer) -> Departure | None:
        """What it wants, if the answer is that; None when it has ended. ProtocolError for what no context says."""
        kind, body = answer
        if kind != protocol.ERROR:
            return None
        calls = self._calls
        try:
            said = Failure(Incoming().loads(body))
        except (ValueError, codec.CannotTravel):
            return None  # which whoever asks for the result is told
        try:
            if (said.reason, said.module, said.type_name) != (protocol.ERROR_RAISED, THERE, "MigrationRequested"):
                return None
            place, data, channels, modules = said.args
            if place is not None and (type(place) is not int or not 0 <= place < len(self._contexts)):
                raise ValueError(f"the context {place!r:.80} was not given to it")
            for each, kinds in ((data, bytes), (channels, tuple), (modules, tuple)):
                if type(each) is not kinds:
                    raise ValueError(f"{each!r:.80} is not what belongs there")
            if not all(type(each) is int for each in channels) or not all(type(each) is str for each in modules):
                raise ValueError("something else where the numbers of channels, or the names of modules, should be")
            return Departure(place, data, [calls.link.channels.resolve(number) for number in channels], modules)
        except (ValueError, TypeError) as error:
            problem = str(error)
        calls.link.break_off("a tasklet that moves on as none does")
        raise ProtocolError(
            f"{calls.name!r} said where {self.name} goes on, and it makes no sense, so it was closed: {problem}",
            context=calls.name,
        )

    def _brings_on(self, departure: Departure) -> bool:
        """Let it go on where it wants, or where it is with the reason why not. Whether it is in a context then."""
        here, number = self._calls, self._moved
        with self._lock:
            self._between = True
        try:
            self._refuse_if_killed()
            place: Calls | Home = home if departure.place is None else calls_of(self._contexts[departure.place])
            if place is here:
                problem = ""
            else:
                self._check_grant(place)
                if isinstance(place, Calls):
                    self._relayed(place, departure)
                else:
                    self._comes_home(departure)
                tell(here, "drop", number)
                return isinstance(place, Calls)
        except (TaskletExit, _InDoubt):
            raise
        except Exception as error:
            problem = str(error) or repr(error)  # "" would say that it has arrived
        with self._lock:
            killed = self._killed
            self._between = not killed
            self._told = self._told or killed
        self._request = request(here, "stay", (number, None if killed else problem), self.name)
        return True

    def _refuse_if_killed(self) -> None:
        if self._killed:
            raise NotMoved(f"{self.name} was killed")

    def _check_grant(self, place: Calls | Home) -> None:
        """Before anything of what came is read as more than bytes, here or elsewhere."""
        here = self._calls
        if here.may_move_to(place):
            return
        shown = repr(place.name) if isinstance(place, Calls) else "roamlet.home"
        raise NotMoved(
            f"{self.name} may not move from {here.name!r} to {shown}: that would let {here.name!r} run code there, and nobody has "
            f"allowed it. If you trust {here.name!r}, call allow_moves_to() of its context at home before, with "
            f"{'the context ' * isinstance(place, Calls)}{shown} and whatever else it shall move on to"
        )

    def _relayed(self, place: Calls, departure: Departure) -> None:
        """Prepare and commit at another context."""
        check_place(place, self.name)
        bring(place, departure.modules, needed=False)
        number = restored(
            place,
            (departure.data, departure.channels, None, False),
            self.name,
            lambda: "it was killed meanwhile" if self._killed else None,
        )
        waiter = commit(place, number)
        lost = None
        try:
            answer = waiter.wait(EVER)
            lost = nonsense(place, answer, self.name)
        except RemoteError as error:
            lost = str(error)
        if lost is not None:  # raised out here, so that the error holds no other one with its frames
            raise _InDoubt(
                f"{self.name} was on its way from {self._calls.name!r} to {place.name!r} when the link to that broke; nobody "
                f"knows whether it goes on there: {lost}\n"
                f"    It is suspended in {self._calls.name!r}. If it did not go on, error.take_back() lets it go on there; else "
                "kill() ends it."
            )
        place.value(answer, self.name)
        with self._lock:
            self._calls, self._moved, self._told = place, number, False
        self._request = request(place, "join", (number,), self.name)

    # ---- at home

    def _comes_home(self, departure: Departure) -> None:
        """Restore it in the thread that it has left."""
        arrival: Outcome[None] = Outcome()
        restoring = tasklet(
            AtHome(arrival, self._restored, (departure,), None, "move_to", qualname=f"the way home of {self.name}"), ()
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
        arrival.ended.wait(EVER)
        arrival.get()

    def _restored(self, departure: Departure) -> None:
        """In that thread: make it again, and let it go on."""
        name = main()
        outcome = HomeOutcome(self)
        item = self._item()
        loader = None
        try:
            loader = HomeLoader(departure, {} if name is None else {name: MAIN}, self._contexts, item)
            moved = Arrival(loader, partial(AtHome, qualname=self.name), outcome)
        except BaseException:
            outcome.journey = None
            if loader is not None:
                loader.gives_up()
            raise
        generators = list(moved.generators)
        with self._lock:
            killed = self._killed
            if not killed:
                moved.generators.clear()
                self._item = weakref.ref(moved.tasklet)
                self._home = outcome
                self._between = self._told = False
                moved.begin()  # which runs nothing yet; nobody is to kill it before
        if killed:
            outcome.journey = None
            discard(moved.tasklet, generators)
            self._refuse_if_killed()
        away.pop(moved.tasklet, None)
        self._is_back()

    def _kill_at_home(self) -> None:
        item = self._item()
        with self._lock:
            told, self._told = self._told, True
        if not told and item is not None and item.alive:
            item.kill(pending=True)

    def leaves_home(self, calls: Calls, number: int, contexts: Sequence[ContextBase]) -> "Journey":
        """It has gone to this context again. Returns itself."""
        with self._lock:
            self._home = None
            self._calls, self._moved, self._contexts, self._told = calls, number, list(contexts), False
            killed = self._killed
        self._request = request(calls, "join", (number,), self.name)
        self._goes_away(calls)
        self._can_be_killed_by(self._item())
        if killed:
            self._ask_to_end()
        if not calls.background(self._run):
            self._run()
        return self

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if self._home is None else text.replace(f"in {self._calls.name!r}", "at home", 1)

    def __del__(self) -> None:
        if self._doubt is not None and not self._asked_for:
            _log.warning("nobody was told: %s", self._doubt)
        super().__del__()


def report(error: BaseException, thread: int) -> None:
    """Raise it in the main tasklet of this thread; log it when that has ended."""
    errors = [error]
    if not raise_in_main(errors, thread):
        _log.warning("a tasklet that has moved has failed, and its thread has ended: %r", errors[0])
