"""What a user holds: a context, and the calls into it. How it came about stands in opening/connect.py."""

import atexit
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from roamlet._migration import Home, MigrationDecision
from roamlet.core import Waiter, tasklet
from roamlet.remote import modules
from roamlet.remote.base.deadlines import deadline_of, remaining
from roamlet.remote.base.facts import Facts
from roamlet.remote.base.threads import TaskletThread, Threads, forget_after_fork, release
from roamlet.remote.calls.chains import Chain
from roamlet.remote.calls.spawn import RemoteCall, Stream, acall, iterate
from roamlet.remote.calls.version_hints import say_versions
from roamlet.remote.channels.served import ChannelReferences
from roamlet.remote.errors import (
    CallTimeout,
    CannotTravel,
    ContextClosed,
    ProtocolError,
    RemoteError,
    RemoteModuleNotFound,
)
from roamlet.remote.files import transfer
from roamlet.remote.link.heartbeat import Heartbeat
from roamlet.remote.link.inflight import Answer, Member
from roamlet.remote.link.link import Link, alive
from roamlet.remote.shipping.shipping import Shipping, part_name
from roamlet.remote.values import answers
from roamlet.remote.values.registry import Body, Outgoing
from roamlet.wire import codec, heartbeat

R = TypeVar("R")

PATIENCE = 3.0  # seconds for an orderly end
DELIVERY = 5.0  # seconds for what was printed to be handed on
HEADS = 4096  # functions of which the beginning of a call is kept
ARGUMENT_NAMES = ("module", "function", "args", "kwargs")


@dataclass(frozen=True)
class Stats:
    """What a context has cost so far. `round_trips` are those that an import over there waited for; bytes include headers."""

    calls: int
    modules: int
    round_trips: int
    bytes_down: int
    bytes_up: int


@dataclass(slots=True)
class Request:
    """A call that can be sent. `luggage` and `outgoing` of one that is more than plain values."""

    function: Callable[..., Any]
    name: modules.FunctionName
    text: str
    body: Body
    luggage: ChannelReferences | None = None
    outgoing: Outgoing | None = None

    def let_go(self) -> None:
        """It was not sent after all."""
        if self.luggage is not None:
            self.luggage.discard()


_heads: dict[modules.FunctionName, tuple[str, bytes]] = {}
"""Of functions that were called: their names in messages, and the encoded beginning of their calls."""


class Context:
    """A Python somewhere else, ready for calls. Made by `remote.local()`, `remote.ssh()` and their like, ended by `with`.

    Every thread and tasklet of this process may use it, all at once. Calls block the calling tasklet only.
    A forked child of this process cannot use it: every method raises ForkedContext there, and its parent's is not disturbed.
    """

    stays_here = (  # see _functions.Packer
        "contexts stay in the process that opened them: call it from here, or give both sides a channel, over which the other "
        "one asks for what is to be called"
    )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: {self.stays_here}")

    def __init__(
        self, link: Link, shipping: Shipping, facts: Facts, threads: Threads, via: "Context | None" = None
    ) -> None:
        self.facts = facts
        self.via = via
        self._behind: weakref.WeakSet[Context] = weakref.WeakSet()
        self._moves_to: weakref.WeakSet[Context | Home] = weakref.WeakSet()
        if via is not None:
            via._behind.add(self)
        self._link = link
        self._shipping = shipping
        self._threads: Threads | None = threads
        self._pid = os.getpid()
        self._heartbeat: Heartbeat | None = None
        _open.add(self)

    @property
    def name(self) -> str:
        """The host's name, "local", or what `name=` said."""
        return self._link.name

    @property
    def closed(self) -> bool:
        """True once it was closed, or has died."""
        return self._link.closed

    @property
    def largest_result(self) -> int:
        """The most bytes that one result may take; a larger one raises CannotTravel here, and is not stored. Can be set."""
        return self._link.largest_result

    @largest_result.setter
    def largest_result(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"largest_result must be a number of bytes, 1 or more, not {size!r:.80}")
        self._link.largest_result = size

    @property
    def stats(self) -> Stats:
        link, shipping = self._link, self._shipping
        return Stats(link.calls, shipping.modules, shipping.round_trips, link.bytes_down, link.bytes_up)

    def call(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """Run `function(*args, **kwargs)` over there and return what it returns.

        `function` is best one that another process can find by its name: at the top of a module, of the main script too. Its
        module is sent ahead with all that it imports, as far as the other side lacks it. A lambda, a closure, a bound method or a
        partial travels as a value, with what it refers to. Arguments and result are copied; docs/reference/remote.md lists what
        travels. A bytearray or array beyond 1 MB is read while it is sent: leave it alone until the call returns.

        Blocks this tasklet only; thread-safe; calls made at the same time run at the same time. When it is killed here, the
        call over there is cancelled if it has not begun, and killed if it is a tasklet. Working out for the first time what a
        module needs keeps this thread busy (0.1 s for Django, a millisecond from then on).

        Raises what the function raised: the same type when it is one of Python's own, else RemoteError; CallTimeout after
        `timeout` seconds, decoding a large result included; ContextDied when the other side dies first, ContextClosed when the
        context is closed; FunctionNotFound, CannotTravel and RemoteModuleNotFound where the function, a value or a module
        cannot go.
        """
        deadline = deadline_of(timeout)
        request = self._prepared(function, args, kwargs, lent=True)
        number, answer = self._asked(request, deadline)
        if answer is None:  # raised out here, so that the error holds no other one with its frames
            raise self._too_late(timeout, request.text, sent=number is not None)
        try:
            return self._value(answer, request.text, deadline)  # type: ignore[no-any-return]
        except codec.OutOfTime:
            pass  # raised out here, as above
        except (ImportError, AttributeError) as error:
            say_versions(self, error)
            raise
        raise self._too_late(timeout, request.text, sent=True, came=len(answer[1]))

    def spawn(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> RemoteCall[R]:
        """Begin `function(*args, **kwargs)` over there, and return a handle: join(timeout), kill(), done, result, name.

        Does not wait for anything, not even for its modules to be sent; calls that were spawned are sent in order. Arguments are
        copied now. Everything else is as for `call`. Raises what call raises before it sends: TypeError, CannotTravel,
        FunctionNotFound. An error that nobody asks for by join() is logged.
        """
        return RemoteCall(self, self._prepared(function, args, kwargs), name)

    def chain(self) -> Chain:
        """Return a chain: calls by it run one after the other, and are sent without waiting for each other's answers.

        with context.chain() as chain:
            chain.spawn(os.mkdir, ("/srv/new",))
            chain.spawn(os.chown, ("/srv/new", 33, 33))
            found = chain.call(os.listdir, ("/srv",))  # one round trip for all three

        When one fails, those behind it do not run. Sends nothing yet.
        """
        return Chain(self)

    def move(self, moving: tasklet[...]) -> RemoteCall[Any]:
        """Let a tasklet that does not run go on over there, in the middle of its function; return a handle: join(timeout), kill().

        It may be new, paused, in the run queue, or blocked on one channel; see docs/reference/remote.md for what it may hold. The
        channels that it holds stay here, and it uses them from there; the other objects are copied. It goes on at once, a paused
        one too. Here it is gone: none of its finally blocks run, they will over there. join() returns what its function returns
        or raises; so does that of a tasklet of roamlet.spawn().

        Blocks this tasklet for two round trips; only in the thread of the tasklet that moves, and meanwhile nobody wakes that. It
        happens at most once: until the order to go on is sent, whatever fails puts it back, behind others in its queue. Raises
        CannotSave for what cannot be saved, CannotTravel, RemoteModuleNotFound, NotMoved where it was not moved, NoCore where calls
        are no tasklets, what `call` raises when the context ends; MoveInDoubt when the link breaks behind that order.
        """
        from roamlet.remote.migration.move import move  # which loads roamlet.snapshot; few need it

        return move(self, moving)

    def allow_moves_to(self, *places: "Context | Home") -> None:
        """Let tasklets that live in this context move on by themselves (roamlet.move_to) to these contexts, and to roamlet.home.

        In place of what was allowed before; at first, and without places, nothing is. **It is a grant**: what a tasklet brings
        along is code. Whoever controls this context can make code of their own run in those places, with the rights that
        contexts have there, and in this process if roamlet.home is among them. Takes effect at once; thread-safe; never blocks.
        """
        for place in places:
            if not isinstance(place, (Context, Home)):
                raise TypeError(
                    f"allow_moves_to() takes contexts, and roamlet.home, as arguments of their own, not {place!r:.80}: "
                    "allow_moves_to(beta, roamlet.home)"
                )
        self._moves_to = weakref.WeakSet(places)

    def _begin_migration(self, current: tasklet[...]) -> MigrationDecision:
        """For roamlet.move_to(): the current tasklet, which suspends itself next, goes on over there."""
        from roamlet.remote.migration.move import leaves  # as in move()

        return leaves(self, current)

    def _begin_block(self, current: tasklet[...]) -> Any:
        """For roamlet.at(): the current tasklet, which suspends itself next, has its block run over there."""
        from roamlet.remote.migration.block import Visit  # as in move()

        return Visit(self, current)

    def detach(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        timeout: float = 30,
    ) -> int:
        """Let `function(*args, **kwargs)` run over there, and go on when this context and this process are gone.

        It runs in an interpreter of its own, in a session of its own, as the same user in the same place; the result is the number
        of that process there. It has begun to go its own way then: nobody here can end it, or hear of it. What it prints, logs and
        raises is appended to the file `output` over there, or dropped if None. Its modules are there, those that it imports later
        too, as far as they can be known; what would have to be asked for then is an ImportError. roamlet is the stand-in there.

        Blocks this tasklet for four round trips and the start of an interpreter. Raises what `call` raises, ConnectError, and
        OSError where `output` cannot be written: then nothing runs. CannotTravel for a channel in the arguments.
        """
        from roamlet.remote.opening.detach import detach  # which needs contexts

        return detach(self, function, args, kwargs, output, timeout)

    def iterate(
        self, function: Callable[..., Iterable[Any]], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Stream[Any]:
        """Call a generator function over there, and return an iterator of its values, which come while it runs.

        It runs ahead of the loop here by 1,024 values or 8 MB, then it waits. A value may take 4 MB. An error of its is raised
        behind the values before it. When the loop here is left, the generator over there is closed at its next value.
        """
        return iterate(self, function, args, kwargs)

    async def acall(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """`call` for asyncio: does not block the event loop, whatever thread it runs in, and takes no thread of its own.

        When its task is cancelled, or `timeout` seconds are over, the call ends as by RemoteCall.kill(). Otherwise as `call`.
        """
        return await acall(self, function, args, kwargs, timeout)

    def heartbeat(self, seconds: float | None) -> None:
        """From now on, take the other side for dead when nothing has come from it for so many seconds, though it was asked.

        Calls raise ContextDied then, this one too where it is stuck already. It is asked four times within `seconds`, and ends by
        itself when it hears nothing for that long. None: no longer, which is how a context begins. Choose more than the longest
        call into C code that keeps the target's interpreter lock, and more than the line takes for what it buffers. Blocks
        this tasklet for a round trip; raises what `call` does.
        """
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0
        ):
            raise ValueError(f"heartbeat() takes a number of seconds above 0, or None, not {seconds!r}")
        # The asking begins before the target is told, and the old one stops after it: a context may be stuck already, and one that
        # is told to expect questions must get some even when this tasklet is killed meanwhile.
        old, threads = self._heartbeat, self._threads
        if seconds is not None and threads is not None:
            if old is not None:
                old.stop()
            self._heartbeat = Heartbeat(self._link, seconds)
            threads.links.post(self._heartbeat.run)
        self._shipping.need("heartbeat")
        self.call(heartbeat.expect, (seconds,))
        if seconds is None and old is not None:
            old.stop()
            if self._heartbeat is old:
                self._heartbeat = None

    def _prepared(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        *,
        through: tuple[str, str, tuple[Any, ...]] | None = None,
        luggage: ChannelReferences | None = None,
        lent: bool = False,
    ) -> Request:
        """The call, encoded. Never blocks; nothing is sent.

        `through`: the module and name of a function to be called in its place, and its first arguments; module, name, args and
        kwargs of the call follow. `lent`: the caller waits for the answer, so that large bytearrays and arrays need not be copied.
        """
        by_value = False
        try:
            name = modules.name_of(function)
        except CannotTravel:  # by no name: then as a value, if it can be one
            by_value = True
            name = modules.FunctionName("roamlet.wire.functions", "apply")
        except RemoteError as error:
            error.happened_in(self.name)
            raise
        text, head = (_name_of_value(function), b"") if by_value else _heads.get(name) or _head(name)
        arguments: tuple[Any, ...] = _positional(args, text)
        keywords = _keywords(kwargs, text)
        if not by_value and through is None and not codec.carries(arguments):  # else it would be encoded twice
            plain = codec.dumps((arguments, keywords), otherwise=_no_bytes, head=head)
            if plain:
                return Request(function, name, text, plain)
        called: tuple[Any, ...] = (
            name.module,
            name.qualname,
            (function, arguments) if by_value else arguments,
            keywords,
        )
        luggage = luggage or ChannelReferences(self._link.channels)
        outgoing = Outgoing(self.facts.python, luggage.discard, lent)
        if through is not None:
            called = (*through[:2], (*through[2], *called), None)
        body, problem = _encoded(called, outgoing, luggage)
        if problem is not None:
            luggage.discard()
            self._link.refuse_if_ended(text)  # a channel cannot travel where nobody is
            if by_value:
                problem = (_as_called(problem[0]), _as_called(problem[1]))
            raise self._cannot_travel(*problem, text)
        return Request(len if by_value else function, name, text, body, luggage, outgoing)

    def _asked(self, request: Request, deadline: float | None) -> tuple[int | None, Answer | None]:
        """Send the call and wait for its answer. The number is None when it was not sent in time, the answer if not answered."""
        number = None
        try:
            number, waiter = self._sent(request, deadline, reads=True)
            answer = self._link.read_answer(number)
            return number, waiter.wait(remaining(deadline)) if answer is None else answer
        except TimeoutError:
            if number is not None:
                self._link.cancel(number)
            if deadline is None:
                raise  # it is somebody else's: thrown into this tasklet, or by a signal's handler
            return number, None
        except BaseException:
            if number is not None:
                self._link.cancel(number)
            raise

    def _sent(
        self, request: Request, deadline: float | None, member: Member | None = None, *, reads: bool = False
    ) -> tuple[int, Waiter[Answer]]:
        """Send the call; return its number and who is told its answer. Raises TimeoutError when it was not sent by `deadline`.

        `member`, `reads`: see Link.ask.
        """
        try:
            if request.outgoing is not None and request.luggage is not None:
                self._send_ahead(request.outgoing, request.luggage, deadline)
            return self._shipping.call(
                request.function, request.name, request.text, request.body, deadline, member, reads=reads
            )
        except BaseException as error:
            request.let_go()
            if isinstance(error, RemoteError):
                error.happened_in(self.name, request.text)
            raise

    def _send_ahead(self, outgoing: Outgoing, luggage: ChannelReferences, deadline: float | None) -> None:
        """Send what must be there before the message that these have encoded."""
        for part in outgoing.parts:
            self._shipping.need(part, deadline)
        for module, needed in outgoing.modules.items():
            try:
                self._shipping.send_module(module, deadline)
            except (RemoteModuleNotFound, CannotTravel):
                if needed:
                    raise
        if luggage.numbers:
            self._shipping.need("channels", deadline)
            luggage.announce()

    def _value(self, answer: Answer, text: str, deadline: float | None = None) -> Any:
        """What the answer says. Raises codec.OutOfTime: see _answers.value."""
        try:
            return answers.value(answer, self.name, self.facts, text, self._link.channels.resolve, deadline)
        except ProtocolError:
            self._link.break_off("an answer that is no value")
            raise

    def _wakers(self) -> TaskletThread:
        """The thread in which spawned calls end."""
        if self._threads is None:
            self._link.refuse_if_ended("a stream")
            raise ContextClosed(f"{self.name!r} is closed", context=self.name)
        return self._threads.modules

    def _background(self, job: Callable[[], None]) -> bool:
        """Run this in a tasklet of a thread of roamlet's, where it may block. False, and dropped, when the context is closed."""
        threads = self._threads
        return threads is not None and threads.modules.post(job)

    def put(self, local: str | os.PathLike[str], remote: str, **options: Any) -> transfer.Transferred:
        """Copy the file or folder `local` to the path `remote` over there; a relative one is in its working directory.

        A file comes into being beside its name, with nobody else's eyes on it, and gets the name when all of it is on the disk
        and its checksum is right: the name never stands for half a file. `remote` may end in a slash, and then it is
        the folder to put it into; an existing folder without the slash is refused. Of a folder, what is in it goes into
        the folder `remote`, whose other files stay; ~ is the home directory over there.

        Options, all by name:

        - `mode` (None): permissions such as 0o640 instead of the file's own. `owner` (False): user and group as well, by name
          where the name is known over there. `times` (True): the time of its last change.
        - `overwrite` (True): False refuses what is there already. `parents` (False): True makes missing folders on the way.
        - `resume` (False): True leaves what an interruption cut off beside the name (".NAME.roamlet-unfinished") and goes on
        with what
          is there. Should that be of another file, all is sent again.
        - `symlinks` ("keep"): within a folder a symbolic link is copied as such; "follow" copies what it points to, "skip" leaves
          it out. `local` itself is followed.
        - `sync` (True): wait until all is on the disk over there, so that a loss of power cannot undo it.
        - `checksum` ("sha256"): or "blake2b", which 2.7 does not know.
        - `progress` (None): a function that gets a Progress, in this tasklet, some times a second on a fast line; what it
          raises ends the transfer.

        Blocks this tasklet only; thread-safe; several at once share the limit of 32 MB under way to one context. Empty pieces
        of a file stay holes. Raises the OSError of either side that says why not, as far as possible before anything is
        touched; FileChanged when `local` is changed meanwhile, DamagedFile; and what `call` raises.
        """
        return transfer.put(self, local, remote, transfer.options_of(**options))

    def get(self, remote: str, local: str | os.PathLike[str], **options: Any) -> transfer.Transferred:
        """Copy the file or folder `remote` from over there to the path `local` here. Everything else is as for `put`.

        The other side decides what comes, not where it goes: nothing is written outside of `local`, whatever names come up. A
        symbolic link that leads out of the folder is refused with UnsafeName.
        """
        return transfer.get(self, remote, local, transfer.options_of(**options))

    def close(self) -> None:
        """End it in order; what was printed and logged over there has been handed on when this returns.

        Calls in flight raise ContextClosed. A process that does not end by itself within some seconds is terminated, then
        killed. Blocks this tasklet only; thread-safe; closing again only waits. Raises nothing.
        """
        link = self._link
        if self._pid != os.getpid():
            return
        if self._heartbeat is not None:
            self._heartbeat.stop()
        try:
            self._close_behind()
            link.close(PATIENCE)
            link.output.wait_until_delivered(DELIVERY)
        except BaseException:  # killed while it waits: the rest happens without it
            threads, self._threads = self._threads, None
            if threads is not None:
                link.abandon()
            raise
        _open.discard(self)
        threads, self._threads = self._threads, None
        if threads is not None:
            release(threads)

    def _close_behind(self) -> None:
        """Close the contexts behind this one, the furthest ones first, those at the same distance at once."""
        levels = [[self]]
        while levels[-1]:
            levels.append([behind for context in levels[-1] for behind in context._behind])
        for level in reversed(levels[1:]):
            for context in level:
                context._link.begin_close()
            for context in level:
                context.close()

    def __enter__(self) -> "Context":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<roamlet.remote.Context {self.name!r}{state}: {self.facts}>"

    def __del__(self) -> None:
        if self._threads is not None and not self.closed and self._pid == os.getpid():
            text = f"{self!r} was never closed: use `with`, or close()"
            self._link.abandon()  # first: a warning may be an error
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)

    def _cannot_travel(self, problem: str, path: str, function: str) -> CannotTravel:
        refused = CannotTravel(
            f"{function} was not called in {self.name!r}: {problem}.\n"
            "    Data travels, instances of classes that can be imported, functions and channels; see What travels in the "
            "documentation. Send what is needed to make the object over there.",
            context=self.name,
            function=function,
        )
        refused.path = path
        return refused

    def _too_late(self, timeout: float | None, function: str, *, sent: bool, came: int = 0) -> CallTimeout:
        """`came`: bytes of the answer, of one that was not decoded in time."""
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


def _head(name: modules.FunctionName) -> tuple[str, bytes]:
    """What _heads keeps of a function."""
    text = f"__main__.{name.qualname}" if name.module == modules.name_over_there() else str(name)
    if name.module.startswith("roamlet.wire."):
        text = part_name(name.module.rpartition(".")[2])
    called: bytes = codec.dumps((*name, None, None))
    if len(_heads) >= HEADS:
        _heads.clear()
    made = text, called[:-2]  # without the two None
    _heads[name] = made
    return made


def _no_bytes(*_: object) -> bytes:
    """In place of the bytes of what is not plain."""
    return b""


def _encoded(
    arguments: tuple[Any, ...], outgoing: Outgoing, luggage: ChannelReferences
) -> tuple[Body, tuple[str, str] | None]:
    """The body of CALL, or what in it cannot travel: (sentence, path)."""
    try:
        return outgoing.dumps(arguments, ARGUMENT_NAMES, luggage.refer), None
    except codec.CannotTravel as error:
        return b"", (str(error), error.path)


def _name_of_value(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"


def _as_called(text: str) -> str:
    """A path as the caller knows it, of a function that travels as the first argument of another."""
    if text.startswith("args[0]"):
        return "function" + text.removeprefix("args[0]")
    return "args" + text.removeprefix("args[1]") if text.startswith("args[1]") else text


def _positional(args: Sequence[Any], function: str) -> tuple[Any, ...]:
    if isinstance(args, (str, bytes)) or not isinstance(args, (tuple, list)):
        raise TypeError(f"args must be a tuple or a list, not {args!r:.80}: context.call({function}, (value,))")
    return tuple(args)


def _keywords(kwargs: Mapping[str, Any] | None, function: str) -> dict[str, Any] | None:
    if kwargs is None:
        return None
    if not isinstance(kwargs, Mapping) or not all(type(name) is str for name in kwargs):
        raise TypeError(f"kwargs must be a dict whose keys are str, not {kwargs!r:.80}, in the call of {function}")
    return dict(kwargs)


_open: "weakref.WeakSet[Context]" = weakref.WeakSet()


def _forget_after_fork() -> None:
    """In a forked child: let go of the parent's pipes, so that contexts over there still see when the parent is gone."""
    forget_after_fork()
    for link in list(alive):
        link.leave_to_parent()
    alive.clear()
    _open.clear()


def _close_all() -> None:
    """At the end of the process: in order, instead of leaving each to notice that its parent is gone."""
    try:
        for context in list(_open):
            context.close()
        deadline = time.monotonic() + DELIVERY
        for link in list(alive):  # of contexts that did not come about in time, and are being ended
            link.ended.wait(max(0.0, deadline - time.monotonic()))
    except KeyboardInterrupt:
        pass  # Ctrl-C again, by somebody who has no patience: what is left over there notices by itself


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_close_all)
