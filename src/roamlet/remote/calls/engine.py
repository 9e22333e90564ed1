"""The call engine of a context: it encodes calls, sends them, waits for their answers, and ends the context.

Everything in roamlet.remote that calls something on a target does so by a `Calls`. What users hold is a Context, which wraps
one: see context.py. A `Calls` is made by opening/connect.py.
"""

import atexit
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from roamlet import _observing as observing
from roamlet._migration import Home
from roamlet.core import Waiter, published
from roamlet.remote import modules
from roamlet.remote.base.deadlines import deadline_of, remaining
from roamlet.remote.base.facts import Facts
from roamlet.remote.base.threads import TaskletThread, Threads, forget_after_fork, release
from roamlet.remote.calls.request import (
    Request,
    as_called,
    encoded,
    head_of,
    heads,
    is_own,
    keywords_of,
    name_of_value,
    no_bytes,
    positional,
)
from roamlet.remote.channels.served import ChannelReferences
from roamlet.remote.errors import (
    CallTimeout,
    CannotTravel,
    ContextClosed,
    ProtocolError,
    RemoteError,
    RemoteModuleNotFound,
)
from roamlet.remote.link.heartbeat import Heartbeat
from roamlet.remote.link.inflight import Answer, Member
from roamlet.remote.link.link import Link, alive
from roamlet.remote.shipping.shipping import Shipping
from roamlet.remote.values import answers
from roamlet.remote.values.registry import Outgoing
from roamlet.wire import codec
from roamlet.wire.life import heartbeat

R = TypeVar("R")

PATIENCE = 3.0  # seconds for an orderly end
DELIVERY = 5.0  # seconds for what was printed to be handed on


class Calls:
    """Calls into one context. Every thread and tasklet of the process that has opened it may use it, at the same time.

    `link` carries the frames, `shipping` sends modules ahead of calls, `facts` is what the target has said of itself. `via` is
    the engine of the context whose process has started this one. `threads` is None before begin() and once it was closed.
    """

    # What `roamlet ps` reads from outside has slots, here and in the objects that this refers to: a type says itself where those
    # are, in the same way in all versions of CPython.
    __slots__ = (
        "__weakref__",
        "_behind",
        "_heartbeat",
        "_moves_to",
        "_pid",
        "facts",
        "link",
        "shipping",
        "threads",
        "via",
    )

    def __init__(self, link: Link, shipping: Shipping, facts: Facts, via: "Calls | None" = None) -> None:
        self.link: Link = link
        self.shipping: Shipping = shipping
        self.facts: Facts = facts
        self.via: Calls | None = via
        self.threads: Threads | None = None
        # Each takes 1 kB, and few contexts have what would be in them.
        self._moves_to: weakref.WeakSet[Calls | Home] | None = None
        self._behind: weakref.WeakSet[Calls] | None = None  # those that go through this one
        self._pid = os.getpid()
        self._heartbeat: Heartbeat | None = None

    def begin(self, threads: Threads) -> None:
        """The context is open: close() ends it and releases `threads`; so does the end of `via`, or of this process."""
        self.threads = threads
        if self.via is not None:
            self.via._add_behind(self)
        _open.add(self)
        if observing.observer is not None:
            observing.observer.opened(self)

    def _add_behind(self, calls: "Calls") -> None:
        with self.link.sender.lock:  # several may be opened at once
            if self._behind is None:
                self._behind = weakref.WeakSet()
        self._behind.add(calls)

    @property
    def name(self) -> str:
        """The name of the context."""
        return self.link.name

    @property
    def closed(self) -> bool:
        """True once it was closed, or has died."""
        return self.link.closed

    def __repr__(self) -> str:
        """As users know it."""
        state = " closed" if self.closed else ""
        return f"<roamlet.remote.Context {self.name!r}{state}: {self.facts}>"

    # ---- calls

    def call(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """See Context.call."""
        deadline = deadline_of(timeout)
        return self.run(self.prepare(function, args, kwargs, lent=True), timeout, deadline)  # type: ignore[no-any-return]

    def run(self, request: Request, timeout: float | None, deadline: float | None) -> Any:
        """Send the call, wait for its answer, and return its value. Blocks this tasklet.

        `deadline` is when `timeout`, which a CallTimeout names, is over. Raises what Context.call does when it sends and waits.
        """
        return self.decode(self.answer(request, timeout, deadline), request.text, timeout, deadline)

    def answer(self, request: Request, timeout: float | None, deadline: float | None) -> Answer:
        """The first half of `run`: send the call and wait for its answer. What it raises was not raised on the target."""
        number = answer = None
        try:
            number, waiter = self.send(request, deadline, reads=True)
            answer = self.link.read_answer(number)
            if answer is None:
                answer = waiter.wait(remaining(deadline))
            if observing.observer is not None:
                observing.observer.answered(self, number)
        except TimeoutError as error:
            if number is not None:
                self.link.cancel(number)
            if deadline is None:
                if request.observed is not None:
                    request.observed.failed(error)
                raise  # not of this limit: thrown into this tasklet, or by a signal's handler
        except BaseException as error:
            if number is not None:
                self.link.cancel(number)
            if request.observed is not None:
                request.observed.failed(error)
            raise
        if request.observed is not None:
            if answer is not None:
                request.observed.answered(answer)
            else:
                request.observed.failed(self.too_late(timeout, request.text, sent=number is not None))
        if answer is None:  # raised out here, so that the error holds no other one with its frames
            raise self.too_late(timeout, request.text, sent=number is not None)
        return answer

    def decode(self, answer: Answer, text: str, timeout: float | None, deadline: float | None) -> Any:
        """The second half of `run`: return the value of the answer, or raise its error."""
        try:
            return self.value(answer, text, deadline)
        except codec.OutOfTime:
            pass  # raised out here, so that the error holds no other one with its frames
        raise self.too_late(timeout, text, sent=True, came=len(answer[1]))

    def prepare(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        *,
        through: tuple[str, str, tuple[Any, ...]] | None = None,
        references: ChannelReferences | None = None,
        lent: bool = False,
    ) -> Request:
        """Return the call, encoded. Never blocks; nothing is sent.

        `through`: the module and name of a function to be called in its place, and its first arguments; module, name, args and
        kwargs of the call follow. `lent`: the caller waits for the answer, so that large bytearrays and arrays need not be copied.
        """
        by_value = False
        try:
            name = modules.name_of(function)
        except CannotTravel:  # no other process finds it by a name: then as a value, if it can be one
            by_value = True
            name = modules.FunctionName("roamlet.wire.values.functions", "apply")
        except RemoteError as error:
            error.happened_in(self.name)
            raise
        text, head = (name_of_value(function), b"") if by_value else heads.get(name) or head_of(name)
        arguments: tuple[Any, ...] = positional(args, text)
        keywords = keywords_of(kwargs, text)
        observed = None
        if observing.observer is not None and references is None and (by_value or not is_own(name)):
            observed = observing.observer.prepared(self, text)
        if (
            not by_value and through is None and observed is None and not codec.carries(arguments)
        ):  # else it would be encoded twice
            plain = codec.dumps((arguments, keywords), otherwise=no_bytes, head=head)
            if plain:
                return Request(function, name, text, plain)
        called: tuple[Any, ...] = (
            name.module,
            name.qualname,
            (function, arguments) if by_value else arguments,
            keywords,
        )
        if through is not None:
            called = (*through[:2], (*through[2], *called), None)
        if observed is not None:
            called = (*called, observed.carrier)
        request, problem = self._encoded(None if by_value else function, name, text, called, references, lent=lent)
        if observed is not None:
            request.observed = observed
            assert request.outgoing is not None
            request.outgoing.parts = (*request.outgoing.parts, "calls.traced")
        if problem is not None:
            if observed is not None:
                observed.failed(self._cannot_travel(*problem, text))
            self.link.refuse_if_ended(text)  # no channel travels to a context that has ended: that is the cause then
            if by_value:
                problem = (as_called(problem[0]), as_called(problem[1]))
            raise self._cannot_travel(*problem, text)
        return request

    def prepare_own(
        self, module: str, function: str, args: tuple[Any, ...], *, text: str = "", purpose: str = ""
    ) -> Request:
        """As `prepare`, for a function of roamlet's own, by its name, that is on the target by the time of the call.

        `args` may hold channels, and nothing that cannot travel. `text` is the call's name in messages; `purpose` is what the
        user has asked for, in the error that is raised when the context has ended.
        """
        name = modules.FunctionName(module, function)
        request, problem = self._encoded(None, name, text or str(name), (module, function, args, None), lent=True)
        if problem is not None:
            self.link.refuse_if_ended(purpose or request.text)
            raise AssertionError(problem)
        return request

    def prepare_kept(self, module: str, function: str, value: Any) -> Request:
        """As `prepare_own`, for one argument that is the user's, and travels through each intermediary once."""
        name = modules.FunctionName(module, function)
        request, problem = self._encoded(None, name, "keep()", (module, function, (value,), None), lent=True)
        if problem is not None:
            self.link.refuse_if_ended(request.text)
            why, path = (part.replace("args[0]", "value", 1) for part in problem)
            raise self._cannot_travel(why, path, request.text)
        request.share()
        return request

    def _encoded(
        self,
        function: Callable[..., Any] | None,
        name: modules.FunctionName,
        text: str,
        called: tuple[Any, ...],
        references: ChannelReferences | None = None,
        *,
        lent: bool,
    ) -> tuple[Request, tuple[str, str] | None]:
        """The call, and what in it cannot travel."""
        references = references or ChannelReferences(self.link.channels)
        outgoing = Outgoing(self.facts.python, references.discard, lent, owner=self)
        body, problem = encoded(called, outgoing, references)
        if problem is not None:
            references.discard()
        return Request(function, name, text, body, references, outgoing), problem

    def send(
        self, request: Request, deadline: float | None, member: Member | None = None, *, reads: bool = False
    ) -> tuple[int, Waiter[Answer]]:
        """Send the call; return its number, and the waiter that gets its answer.

        Blocks this tasklet while there is no room for it. Raises TimeoutError when it was not sent by `deadline`, and what
        Context.call raises for what cannot be sent. `member`, `reads`: see Link.ask.
        """
        began = 0 if observing.observer is None else time.monotonic_ns()
        try:
            if request.outgoing is not None and request.references is not None:
                self._send_ahead(request.outgoing, request.references, deadline)
            if request.function is None:
                asked = self.link.ask(request.text, b"", request.body, deadline, member, reads=reads)
            else:
                asked = self.shipping.call(
                    request.function, request.name, request.text, request.body, deadline, member, reads=reads
                )
        except BaseException as error:
            request.let_go()
            if isinstance(error, RemoteError):
                error.happened_in(self.name, request.text)
            raise
        if observing.observer is not None:
            observing.observer.sent(self, asked[0], request.text, began)
        return asked

    def _send_ahead(self, outgoing: Outgoing, references: ChannelReferences, deadline: float | None) -> None:
        """Send what must be on the target before the message that these have encoded."""
        for part in outgoing.parts:
            self.shipping.need(part, deadline)
        for module, needed in outgoing.modules.items():
            try:
                self.shipping.send_module(module, deadline)
            except (RemoteModuleNotFound, CannotTravel):
                if needed:
                    raise
        if references.numbers:
            self.shipping.need("channels", deadline)
            references.announce()

    def value(self, answer: Answer, text: str, deadline: float | None = None) -> Any:
        """Return the value of an answer, or raise its error. Raises codec.OutOfTime: see answers.value."""
        try:
            return answers.value(answer, self.name, self.facts, text, self.link.channels.resolve, deadline)
        except ProtocolError:
            self.link.break_off("an answer that is no value")
            raise

    # ---- what goes with calls

    def allow_moves_to(self, places: "Iterable[Calls | Home]") -> None:
        """See Context.allow_moves_to."""
        self._moves_to = weakref.WeakSet(places)

    def may_move_to(self, place: "Calls | Home") -> bool:
        """Whether tasklets may move on from here to this place."""
        return self._moves_to is not None and place in self._moves_to

    def wakers(self) -> TaskletThread:
        """The thread in which spawned calls end. Raises ContextClosed, and what a call would raise that comes too late."""
        if self.threads is None:
            self.link.refuse_if_ended("a stream")
            raise ContextClosed(f"{self.name!r} is closed", context=self.name)
        return self.threads.modules

    def background(self, job: Callable[[], None]) -> bool:
        """Run this in a tasklet of a thread of roamlet's, where it may block. False, and dropped, when the context is closed."""
        threads = self.threads
        return threads is not None and threads.modules.post(job)

    def expect_heartbeat(self, seconds: float | None) -> None:
        """See Context.heartbeat."""
        # The asking begins before the target is told, and the old one stops after it: a context may be stuck already, and one that
        # is told to expect questions must get some even when this tasklet is killed meanwhile.
        old, threads = self._heartbeat, self.threads
        if seconds is not None and threads is not None:
            if old is not None:
                old.stop()
            self._heartbeat = Heartbeat(self.link, seconds)
            threads.links.post(self._heartbeat.run)
        self.shipping.need("life.heartbeat")
        self.call(heartbeat.expect, (seconds,))
        if seconds is None and old is not None:
            old.stop()
            if self._heartbeat is old:
                self._heartbeat = None

    # ---- errors

    def _cannot_travel(self, problem: str, path: str, function: str) -> CannotTravel:
        refused = CannotTravel(
            f"{function} was not called in {self.name!r}: {problem}.\n"
            "    Data travels, instances of classes that can be imported, functions and channels; see What travels in the "
            "documentation. Send what is needed to make the object on the target.",
            context=self.name,
            function=function,
        )
        refused.path = path
        return refused

    def too_late(self, timeout: float | None, function: str, *, sent: bool, came: int = 0) -> CallTimeout:
        """The error for a call that took more than `timeout` seconds. `came`: bytes of an answer that was not decoded in time."""
        timeout = timeout and round(timeout, 3)  # of what is left of a limit for several calls, no more can be read
        if came:
            what = f"{function} in {self.name!r} answered with {came} bytes, which were not decoded within {timeout} seconds"
            hint = "Give it a longer timeout=, or let it return less, or its values in lists of one type."
        elif sent:
            what = f"{function} in {self.name!r} did not answer within {timeout} seconds"
            hint = "If it has not begun it will not begin; if it runs, it goes on, and what it returns is dropped."
        else:
            what = f"{function} was not sent within {timeout} seconds: {self.name!r} takes no more at present"
            hint = "It reads nothing, or the connection is slow and there is much to be sent."
        late = CallTimeout(f"{what}.\n    {hint}", context=self.name, function=function)
        late.sent = sent
        return late

    # ---- the end

    def close(self) -> None:
        """See Context.close."""
        link = self.link
        if self._pid != os.getpid():
            return
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if observing.observer is not None and not self.closed:
            observing.observer.closing(self)
        try:
            self._close_behind()
            link.close(PATIENCE)
            link.output.wait_until_delivered(DELIVERY)
        except BaseException:  # killed while it waits: the rest happens without it
            threads, self.threads = self.threads, None
            if threads is not None:
                link.abandon()
            raise
        _open.discard(self)
        threads, self.threads = self.threads, None
        if threads is not None:
            release(threads)

    def _close_behind(self) -> None:
        """Close the contexts behind this one, the furthest ones first, those at the same distance at once."""
        levels = [[self]]
        while levels[-1]:
            levels.append([behind for calls in levels[-1] for behind in calls._behind or ()])
        for level in reversed(levels[1:]):
            for calls in level:
                calls.link.begin_close()
            for calls in level:
                calls.close()

    def __del__(self) -> None:
        if self.threads is not None and not self.closed and self._pid == os.getpid():
            text = f"{self!r} was never closed: use `with`, or close()"
            self.link.abandon()  # first: a warning may be an error
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)


class ContextBase:
    """The base of Context: what modules below it know of the object that users hold."""

    _calls: Calls


def calls_of(context: ContextBase) -> Calls:
    """The call engine of a context."""
    return context._calls


_open: "weakref.WeakSet[Calls]" = weakref.WeakSet()
published["contexts"] = _open.data  # type: ignore[attr-defined]  # the set in it, of weak references


def opened() -> list[Calls]:
    """The engines of all contexts that are open in this process."""
    return [calls for calls in _open if not calls.closed]


def _forget_after_fork() -> None:
    """In a forked child: let go of the parent's pipes, so that targets still see when the parent is gone."""
    forget_after_fork()
    for link in list(alive):
        link.leave_to_parent()
    alive.clear()
    _open.clear()


def _close_all() -> None:
    """At the end of the process: in order, instead of leaving each to notice that its parent is gone."""
    try:
        for calls in list(_open):
            calls.close()
        deadline = time.monotonic() + DELIVERY
        for link in list(alive):  # of contexts that did not come about in time, and are being ended
            link.ended.wait(max(0.0, deadline - time.monotonic()))
    except KeyboardInterrupt:
        pass  # Ctrl-C again, from an impatient user: what is left on targets notices by itself


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_close_all)
