"""The context: the object that users hold, with all of its methods. The layers below do the work, such as calls/engine.py."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, Unpack

from roamlet._migration import Home, MigrationDecision
from roamlet.core import tasklet
from roamlet.remote.base.deadlines import deadline_of
from roamlet.remote.base.facts import Facts
from roamlet.remote.calls.chains import Chain
from roamlet.remote.calls.engine import Calls, ContextBase
from roamlet.remote.calls.keeping import keep
from roamlet.remote.calls.spawn import RemoteCall, Stream, acall, iterate
from roamlet.remote.calls.version_hints import say_versions
from roamlet.remote.files import copying
from roamlet.remote.files.options import TransferOptions, Transferred, options_of
from roamlet.remote.opening.detach import detach
from roamlet.remote.values.kept import Kept

R = TypeVar("R")
V = TypeVar("V")


@dataclass(frozen=True)
class Stats:
    """What a context has cost so far. `round_trips` counts those that an import on the target waited for; bytes include headers."""

    calls: int
    modules: int
    round_trips: int
    bytes_down: int
    bytes_up: int


class Context(ContextBase):
    """A Python interpreter in another process or on another machine, ready for calls. `remote.local()`, `remote.ssh()` and the
    like make it; leaving its `with` block ends it.

    Every thread and tasklet of this process may use it at the same time. Calls block the calling tasklet only.
    A forked child of this process cannot use it: every method raises ForkedContext in the child, and the parent can go on using it.
    """

    stays_here = (  # see values/functions.py
        "contexts stay in the process that opened them: call it from here, or give both sides a channel, over which the other "
        "one asks for what is to be called"
    )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: {self.stays_here}")

    def __init__(self, calls: Calls, via: "Context | None" = None) -> None:
        self._calls = calls
        self.facts: Facts = calls.facts
        self.via = via

    @property
    def name(self) -> str:
        """The name given as `name=`, else the host's name or "local"."""
        return self._calls.name

    @property
    def closed(self) -> bool:
        """True once the context was closed, or its process or link has ended."""
        return self._calls.closed

    @property
    def largest_result(self) -> int:
        """The most bytes that one result may take. A larger one is not stored: its call raises CannotTravel. Can be set."""
        return self._calls.link.in_flight.largest_result

    @largest_result.setter
    def largest_result(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"largest_result must be a number of bytes, 1 or more, not {size!r:.80}")
        self._calls.link.in_flight.largest_result = size

    @property
    def stats(self) -> Stats:
        link, shipping = self._calls.link, self._calls.shipping
        return Stats(link.calls, shipping.modules, shipping.round_trips, link.sender.bytes_down, link.bytes_up)

    def call(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """Run `function(*args, **kwargs)` on the target and return what it returns.

        `function` is best one that another process can find by its name: at the top of a module, or of the main script. Its
        module is sent first, with everything that it imports and that the target lacks. A lambda, a closure, a bound method or a
        partial travels as a value, with what it refers to. Arguments and result are copied: see "What travels" in
        docs/reference/remote-calls.md. A bytearray or array of more than 1 MB is read while it is sent: do not change it until the
        call returns.

        Blocks this tasklet only; thread-safe; calls made at the same time run at the same time. When the calling tasklet is killed,
        the call on the target is cancelled if it has not begun, and killed if it is a tasklet. Finding out what a module needs
        keeps this thread busy the first time (0.1 s for Django, a millisecond from then on).

        Raises what the function raised: the same type when it is one of Python's own, else RemoteError; CallTimeout after
        `timeout` seconds, which include decoding a large result; ContextDied when the target or the link ends first, ContextClosed
        when the context is closed; FunctionNotFound, CannotTravel and RemoteModuleNotFound when the function, a value or a module
        cannot travel.
        """
        deadline = deadline_of(timeout)
        calls = self._calls
        request = calls.prepare(function, args, kwargs, lent=True)
        answer = calls.answer(request, timeout, deadline)
        try:
            return calls.decode(answer, request.text, timeout, deadline)  # type: ignore[no-any-return]
        except (ImportError, AttributeError) as error:
            say_versions(calls, error)
            raise

    def spawn(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> RemoteCall[R]:
        """Begin `function(*args, **kwargs)` on the target, and return a handle: join(timeout), kill(), done, result, name.

        Never blocks, not even until the modules are sent. Spawned calls are sent in order. Arguments are copied before this
        returns. Everything else is as for `call`. Raises what call raises before it sends: TypeError, CannotTravel,
        FunctionNotFound. An error of the function that no join() raises is logged.
        """
        return RemoteCall(self._calls, self._calls.prepare(function, args, kwargs), name)

    def chain(self) -> Chain:
        """Return a chain: its calls run one after the other, and are sent without waiting for the answers of earlier ones.

        with context.chain() as chain:
            chain.spawn(os.mkdir, ("/srv/new",))
            chain.spawn(os.chown, ("/srv/new", 33, 33))
            found = chain.call(os.listdir, ("/srv",))  # one round trip for all three

        When one fails, those after it do not run. This method itself sends nothing.
        """
        return Chain(self._calls)

    def keep(self, value: V) -> Kept[V]:
        """Send `value` to the target, which keeps it for calls in this context; return a handle to pass to them.

        table = context.keep(table_of_prices)
        context.call(look_up, (table, "bread"))  # look_up gets the dict itself, which does not travel again

        The handle may be anywhere in the arguments of calls in this context, or in a function that travels as a value. Each such
        call gets the same object: what one call changes in it, later ones see, and calls that run at the same time share it.
        Contexts behind an intermediary get equal values from there: a large one crosses the link to it once, as long as it has
        room for it (256 MiB). The target lets go of the value when nothing refers to the handle any more, at its release(), and
        when the context ends; calls made before that still get it. An intermediary keeps the pieces of a large one in its memory
        beyond that, until others need their room or its own context ends.

        Blocks this tasklet for a round trip, and until the value is sent. Raises CannotTravel for what cannot be sent, and what
        `call` raises when the context has ended. A handle cannot be pickled; a call of another context, and one after release(),
        raises CannotTravel.
        """
        return keep(self._calls, value)

    def move(self, moving: tasklet[...]) -> RemoteCall[Any]:
        """Let a tasklet that is not the running one continue on the target, in the middle of its function; return a handle:
        join(timeout), kill().

        The tasklet may be new, paused, in the run queue, or blocked on one channel; what it may hold is listed in
        docs/reference/remote-migration.md. Its channels stay in this process, and it uses them from the target; its other objects
        are copied. It goes on at once, even if it was paused. In this process it ends without running its finally blocks: they run
        on the target. join() returns or raises what its function does; so does join() of a tasklet that roamlet.spawn() made.

        Blocks this tasklet for two round trips. Call it in the thread of the tasklet that moves, which nothing wakes meanwhile. The
        tasklet moves at most once: when something fails before the order to go on is sent, it is put back, at the end of its
        queue. Raises CannotSave for what cannot be saved, CannotTravel, RemoteModuleNotFound, NotMoved when it was not moved,
        NoCore when the context's calls do not run in tasklets, what `call` raises when the context ends; MoveInDoubt when the link
        breaks after that order.
        """
        # Imported here because it loads roamlet.snapshot, which takes time at the start and few programs need.
        from roamlet.remote.migration.move import move

        return move(self._calls, moving)

    def allow_moves_to(self, *places: "Context | Home") -> None:
        """Let tasklets that run in this context move (roamlet.move_to) to these contexts, and to roamlet.home if it is given.

        Replaces what was allowed before. At first nothing is allowed, and nothing is after a call without arguments. **This is a
        grant of rights**: a tasklet brings code along. An attacker who controls this context's target can run code in those
        places, with the rights of those contexts, and in this process if roamlet.home is among them. Takes effect at once;
        thread-safe; never blocks.
        """
        for place in places:
            if not isinstance(place, (Context, Home)):
                raise TypeError(
                    f"allow_moves_to() takes contexts, and roamlet.home, as arguments of their own, not {place!r:.80}: "
                    "allow_moves_to(beta, roamlet.home)"
                )
        self._calls.allow_moves_to(place._calls if isinstance(place, Context) else place for place in places)

    def _begin_migration(self, current: tasklet[...]) -> MigrationDecision:
        """For roamlet.move_to(): the current tasklet, which suspends itself next, continues on the target."""
        from roamlet.remote.migration.move import begin_migration  # here for the reason given in move()

        return begin_migration(self._calls, current)

    def _begin_block(self, current: tasklet[...]) -> Any:
        """For roamlet.at(): the current tasklet, which suspends itself next, has its block run on the target."""
        from roamlet.remote.migration.move import BlockMigration  # here for the reason given in move()

        return BlockMigration(self._calls, current)

    def detach(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        timeout: float = 30,
    ) -> int:
        """Run `function(*args, **kwargs)` on the target in a process that outlives this context and this process; return its pid.

        The process has an interpreter and a session of its own, and runs as the same user in the same place. Once this returns,
        it is independent: this process can neither end it nor receive anything from it. What it prints, logs and raises is
        appended to the file `output` on the target, or dropped if None. Its modules are sent before it is let go, with those that
        its functions import later as far as they can be found out; an import of any other module raises ImportError. `roamlet` is
        the small module that contexts have, not the whole package.

        Blocks this tasklet for four round trips and the start of an interpreter. Raises what `call` raises, ConnectError, and
        OSError when `output` cannot be written; nothing runs then. CannotTravel for a channel in the arguments.
        """
        return detach(self._calls, function, args, kwargs, output, timeout)

    def iterate(
        self, function: Callable[..., Iterable[Any]], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Stream[Any]:
        """Call a generator function on the target, and return an iterator of its values, which arrive while it runs.

        The generator runs at most 1,024 values or 8 MB ahead of the iterator. A value may take 4 MB. An error of the generator is
        raised after the values before it. When the local loop is left, the generator is closed at its next value.
        """
        return iterate(self._calls, function, args, kwargs)

    async def acall(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """`call` for asyncio: does not block the event loop, in any thread, and uses no thread of its own.

        When its task is cancelled, or after `timeout` seconds, the call ends as by RemoteCall.kill(). Otherwise as `call`.
        """
        return await acall(self._calls, function, args, kwargs, timeout)

    def heartbeat(self, seconds: float | None) -> None:
        """Take the target for dead when nothing arrives from it for `seconds`. None switches that off, as it is at first.

        Calls raise ContextDied then, also this one if the target is stuck already. The target is asked four times within `seconds`,
        and ends its process when it receives nothing for that long. Choose more than the longest call into C code that keeps the
        target's interpreter lock, and more than the line needs to deliver what it buffers. Blocks this tasklet for a round trip;
        raises what `call` does.
        """
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0
        ):
            raise ValueError(f"heartbeat() takes a number of seconds above 0, or None, not {seconds!r}")
        self._calls.expect_heartbeat(seconds)

    def put(self, local: str | os.PathLike[str], remote: str, **options: Unpack[TransferOptions]) -> Transferred:
        """Copy the file or folder `local` to the path `remote` on the target; a relative one is in its working directory.

        A file is written under a temporary name in the same folder, readable by its owner alone. It is renamed to `remote` when all
        of it is on the disk and its checksum is right, so `remote` never names half a file. If `remote` ends in a slash, it is
        the folder to put the file into; an existing folder without the slash is refused. If `local` is a folder, its contents go
        into the folder `remote`, whose other files stay. ~ is the home directory on the target.

        Options, all by name:

        - `mode` (None): permissions such as 0o640 instead of the file's own. `owner` (False): user and group as well, by name
          where the name is known on the target. `times` (True): the time of the last change.
        - `overwrite` (True): False refuses a file that exists. `parents` (False): True makes missing folders of the path.
        - `resume` (False): True keeps the part that an interrupted transfer has written (".NAME.roamlet-unfinished"), and continues
          such a part. If that part belongs to another file, everything is sent again.
        - `symlinks` ("keep"): within a folder a symbolic link is copied as such; "follow" copies what it points to, "skip" leaves
          it out. `local` itself is followed.
        - `sync` (True): wait until everything is on the disk of the target, so that a loss of power cannot undo it.
        - `checksum` ("sha256"): or "blake2b", which Python 2.7 does not have.
        - `progress` (None): a function that is called with a Progress, in this tasklet, a few times a second on a fast line. An
          error that it raises ends the transfer.

        Blocks this tasklet only; thread-safe; transfers at the same time share the limit of 32 MB under way to one context. Holes
        of a file stay holes. Raises the OSError of the side that refuses, if possible before anything is changed; FileChanged when
        `local` changes meanwhile; DamagedFile; and what `call` raises.
        """
        return copying.put(self._calls, local, remote, options_of(**options))

    def get(self, remote: str, local: str | os.PathLike[str], **options: Unpack[TransferOptions]) -> Transferred:
        """Copy the file or folder `remote` from the target to the local path `local`. Everything else is as for `put`.

        The target decides what is sent, not where it is written: nothing is written outside of `local`, whatever names it sends. A
        symbolic link that leads out of the folder is refused with UnsafeName.
        """
        return copying.get(self._calls, remote, local, options_of(**options))

    def close(self) -> None:
        """End the context; when this returns, all that was printed and logged on the target has been passed on.

        Calls in flight raise ContextClosed. A process that does not end by itself within some seconds is terminated, then
        killed. Blocks this tasklet only; thread-safe; a second close() waits for the first. Raises nothing.
        """
        self._calls.close()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._calls)
