"""What a user holds: a context, and everything that it offers. The work is done below: see calls/engine.py for calls."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, TypeVar, Unpack

from roamlet._migration import Home, MigrationDecision
from roamlet.core import tasklet
from roamlet.remote.base.deadlines import deadline_of
from roamlet.remote.calls.chains import Chain
from roamlet.remote.calls.engine import Calls, ContextBase
from roamlet.remote.calls.spawn import RemoteCall, Stream, acall, iterate
from roamlet.remote.calls.version_hints import say_versions
from roamlet.remote.files import copying
from roamlet.remote.files.options import TransferOptions, Transferred, options_of
from roamlet.remote.opening.detach import detach

R = TypeVar("R")


@dataclass(frozen=True)
class Stats:
    """What a context has cost so far. `round_trips` are those that an import on the target waited for; bytes include headers."""

    calls: int
    modules: int
    round_trips: int
    bytes_down: int
    bytes_up: int


class Context(ContextBase):
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

    def __init__(self, calls: Calls, via: "Context | None" = None) -> None:
        self._calls = calls
        self.facts = calls.facts
        self.via = via

    @property
    def name(self) -> str:
        """The host's name, "local", or what `name=` said."""
        return self._calls.name

    @property
    def closed(self) -> bool:
        """True once it was closed, or has died."""
        return self._calls.closed

    @property
    def largest_result(self) -> int:
        """The most bytes that one result may take; a larger one raises CannotTravel here, and is not stored. Can be set."""
        return self._calls.link.largest_result

    @largest_result.setter
    def largest_result(self, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"largest_result must be a number of bytes, 1 or more, not {size!r:.80}")
        self._calls.link.largest_result = size

    @property
    def stats(self) -> Stats:
        link, shipping = self._calls.link, self._calls.shipping
        return Stats(link.calls, shipping.modules, shipping.round_trips, link.bytes_down, link.bytes_up)

    def call(
        self,
        function: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """Run `function(*args, **kwargs)` on the target and return what it returns.

        `function` is best one that another process can find by its name: at the top of a module, of the main script too. Its
        module is sent ahead with all that it imports, as far as the other side lacks it. A lambda, a closure, a bound method or a
        partial travels as a value, with what it refers to. Arguments and result are copied: see "What travels" in
        docs/reference/remote-calls.md. A bytearray or array beyond 1 MB is read while it is sent: leave it alone until the call
        returns.

        Blocks this tasklet only; thread-safe; calls made at the same time run at the same time. When it is killed here, the
        call on the target is cancelled if it has not begun, and killed if it is a tasklet. Working out for the first time what a
        module needs keeps this thread busy (0.1 s for Django, a millisecond from then on).

        Raises what the function raised: the same type when it is one of Python's own, else RemoteError; CallTimeout after
        `timeout` seconds, decoding a large result included; ContextDied when the other side dies first, ContextClosed when the
        context is closed; FunctionNotFound, CannotTravel and RemoteModuleNotFound where the function, a value or a module
        cannot go.
        """
        deadline = deadline_of(timeout)
        request = self._calls.prepare(function, args, kwargs, lent=True)
        try:
            return self._calls.run(request, timeout, deadline)  # type: ignore[no-any-return]
        except (ImportError, AttributeError) as error:
            say_versions(self._calls, error)
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

        Does not wait for anything, not even for its modules to be sent; calls that were spawned are sent in order. Arguments are
        copied now. Everything else is as for `call`. Raises what call raises before it sends: TypeError, CannotTravel,
        FunctionNotFound. An error that no join() has raised is logged.
        """
        return RemoteCall(self._calls, self._calls.prepare(function, args, kwargs), name)

    def chain(self) -> Chain:
        """Return a chain: calls by it run one after the other, and are sent without waiting for each other's answers.

        with context.chain() as chain:
            chain.spawn(os.mkdir, ("/srv/new",))
            chain.spawn(os.chown, ("/srv/new", 33, 33))
            found = chain.call(os.listdir, ("/srv",))  # one round trip for all three

        When one fails, those after it do not run. Sends nothing yet.
        """
        return Chain(self._calls)

    def move(self, moving: tasklet[...]) -> RemoteCall[Any]:
        """Let a tasklet that does not run continue on the target, in the middle of its function; return a handle:
        join(timeout), kill().

        It may be new, paused, in the run queue, or blocked on one channel (docs/reference/remote-migration.md). The
        channels that it holds stay here, and it uses them from there; the other objects are copied. It goes on at once, a paused
        one too. Here it is gone: none of its finally blocks run, they run on the target. join() returns what its function returns
        or raises; so does that of a tasklet of roamlet.spawn().

        Blocks this tasklet for two round trips; only in the thread of the tasklet that moves, and meanwhile nothing wakes that. It
        happens at most once: until the order to go on is sent, whatever fails puts it back, after others in its queue. Raises
        CannotSave for what cannot be saved, CannotTravel, RemoteModuleNotFound, NotMoved where it was not moved, NoCore where calls
        are no tasklets, what `call` raises when the context ends; MoveInDoubt when the link breaks after that order.
        """
        # Imported here because it loads roamlet.snapshot, which takes time at the start and few programs need.
        from roamlet.remote.migration.move import move

        return move(self._calls, moving)

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
        self._calls.allow_moves_to(place._calls if isinstance(place, Context) else place for place in places)

    def _begin_migration(self, current: tasklet[...]) -> MigrationDecision:
        """For roamlet.move_to(): the current tasklet, which suspends itself next, continues on the target."""
        from roamlet.remote.migration.move import begin_migration  # here, as in move()

        return begin_migration(self._calls, current)

    def _begin_block(self, current: tasklet[...]) -> Any:
        """For roamlet.at(): the current tasklet, which suspends itself next, has its block run on the target."""
        from roamlet.remote.migration.move import BlockMigration  # here, as in move()

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
        """Let `function(*args, **kwargs)` run on the target, and go on when this context and this process are gone.

        It runs in an interpreter of its own, in a session of its own, as the same user in the same place; the result is the number
        of that process there. It has begun to go its own way then: this process can neither end it nor hear of it. What
        it prints, logs and raises is appended to the file `output` on the target, or dropped if None. Its modules are
        there, those that it imports later too, as far as they can be known; what would have to be asked for then is an
        ImportError. roamlet is the stand-in there.

        Blocks this tasklet for four round trips and the start of an interpreter. Raises what `call` raises, ConnectError, and
        OSError where `output` cannot be written: then nothing runs. CannotTravel for a channel in the arguments.
        """
        return detach(self._calls, function, args, kwargs, output, timeout)

    def iterate(
        self, function: Callable[..., Iterable[Any]], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Stream[Any]:
        """Call a generator function on the target, and return an iterator of its values, which come while it runs.

        It runs ahead of the loop here by 1,024 values or 8 MB, then it waits. A value may take 4 MB. An error of its is raised
        after the values before it. When the loop here is left, the generator on the target is closed at its next value.
        """
        return iterate(self._calls, function, args, kwargs)

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
        return await acall(self._calls, function, args, kwargs, timeout)

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
        self._calls.expect_heartbeat(seconds)

    def put(self, local: str | os.PathLike[str], remote: str, **options: Unpack[TransferOptions]) -> Transferred:
        """Copy the file or folder `local` to the path `remote` on the target; a relative one is in its working directory.

        A file comes into being beside its name, readable by its owner alone, and gets the name when all of it is on the disk
        and its checksum is right: the name never stands for half a file. `remote` may end in a slash, and then it is
        the folder to put it into; an existing folder without the slash is refused. Of a folder, what is in it goes into
        the folder `remote`, whose other files stay; ~ is the home directory on the target.

        Options, all by name:

        - `mode` (None): permissions such as 0o640 instead of the file's own. `owner` (False): user and group as well, by name
          where the name is known on the target. `times` (True): the time of its last change.
        - `overwrite` (True): False refuses what is there already. `parents` (False): True makes missing folders on the way.
        - `resume` (False): True leaves what an interruption cut off beside the name (".NAME.roamlet-unfinished") and goes on
          with what is there. Should that be of another file, all is sent again.
        - `symlinks` ("keep"): within a folder a symbolic link is copied as such; "follow" copies what it points to, "skip" leaves
          it out. `local` itself is followed.
        - `sync` (True): wait until all is on the disk of the target, so that a loss of power cannot undo it.
        - `checksum` ("sha256"): or "blake2b", which 2.7 does not know.
        - `progress` (None): a function that gets a Progress, in this tasklet, some times a second on a fast line; what it
          raises ends the transfer.

        Blocks this tasklet only; thread-safe; several at once share the limit of 32 MB under way to one context. Empty pieces
        of a file stay holes. Raises the OSError of either side that says why not, as far as possible before anything is
        touched; FileChanged when `local` is changed meanwhile, DamagedFile; and what `call` raises.
        """
        return copying.put(self._calls, local, remote, options_of(**options))

    def get(self, remote: str, local: str | os.PathLike[str], **options: Unpack[TransferOptions]) -> Transferred:
        """Copy the file or folder `remote` from the target to the path `local` here. Everything else is as for `put`.

        The other side decides what comes, not where it goes: nothing is written outside of `local`, whatever names come up. A
        symbolic link that leads out of the folder is refused with UnsafeName.
        """
        return copying.get(self._calls, remote, local, options_of(**options))

    def close(self) -> None:
        """End it in order; what was printed and logged on the target has been handed on when this returns.

        Calls in flight raise ContextClosed. A process that does not end by itself within some seconds is terminated, then
        killed. Blocks this tasklet only; thread-safe; closing again only waits. Raises nothing.
        """
        self._calls.close()

    def __enter__(self) -> "Context":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._calls)
