"""One function on many hosts, one function over many items: results as they come, at most N at a time.

Nothing here knows a transport: what is no context yet is opened by a function that is given.
"""

import contextlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import roamlet
from roamlet.remote.context import Context
from roamlet.remote.errors import CallTimeout, ConnectError, ContextDied
from roamlet.remote.hubs import TRIES, Hubs, Tree
from roamlet.remote.open import ssh
from roamlet.sync import Condition, Lock
from roamlet.sync._outcome import alike

T = TypeVar("T")

Target = Context | str | Callable[[], Context]
"""Where to call: an open context; the name of a host; or a function that opens a context. What is opened is closed again."""

AT_ONCE = 32


@dataclass(frozen=True)
class Result(Generic[T]):
    """The outcome of one target, or of one item: `value` if `error` is None.

    `host` is the name of the context that answered last, `index` the position of the target or item, `item` that item (None for
    gather), `seconds` what it took with all tries, of which there were `tries`. Programs with a loop of their own over contexts
    can use it too: Result(host, value=...), Result(host, error=...).
    """

    host: str
    index: int = 0
    seconds: float = 0.0
    tries: int = 1
    item: Any = None
    value: T | None = None
    error: Exception | None = None

    def get(self) -> T:
        """The value; raises the error if there is one."""
        if self.error is not None:
            try:
                raise alike(self.error) or self.error
            finally:
                del self  # its traceback holds this frame, and the code that stores the result may be in it, too
        return self.value  # type: ignore[return-value]


class _Limits(NamedTuple):
    """How long each call may take, when all must be over, and when a call is made once more."""

    timeout: float | None
    deadline: float | None
    retries: int
    idempotent: bool

    def left(self) -> float | None:
        """Seconds for the next call. Raises CallTimeout when all must be over."""
        if self.deadline is None:
            return self.timeout
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise CallTimeout("not called: the time for all calls together was over before its turn came")
        return left if self.timeout is None else min(left, self.timeout)

    def allow(self, error: Exception, tries: int) -> bool:
        """Whether to try again: if what was asked for cannot have been done, or may be done twice."""
        if tries > self.retries or (self.deadline is not None and time.monotonic() >= self.deadline):
            return False
        if getattr(error, "sent", None) is False or isinstance(error, ConnectError):
            return True
        return self.idempotent and isinstance(error, (ContextDied, CallTimeout))


def gather(
    targets: Iterable[Target],
    function: Callable[..., T],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    at_once: int = AT_ONCE,
    timeout: float | None = None,
    total: float | None = None,
    retries: int = 0,
    idempotent: bool = False,
    open: Callable[..., Context] = ssh,
    hubs: Hubs | None = None,
) -> Iterator[Result[T]]:
    """Call `function(*args, **kwargs)` on every target, `at_once` at a time; yield a Result for each, in the order they end.

    A target is a context, a host name for `open` (ssh by default), or a function that opens one; what was opened here is closed
    again. `timeout` is for each call, `total` for all of it, in seconds: what has not been called by then is a CallTimeout.
    Opening a host is not cut short by them, and none is begun after `total`.

    `retries`: so many more tries, where nothing was sent or no context came about; and where a context died or took too long only
    if the call is `idempotent`, that is, may happen twice. A context that was handed in open and has died is not tried again.

    `hubs` has many host names reached through some of them, see Hubs; `open` is then called with `via=` and `name=`, too. What was
    not sent to a host because its hub is gone is sent in another way, which counts as no try.

    Blocks this tasklet between results. When the loop is left early, calls under way are cancelled and what was opened is closed.
    """
    limits = _limits(at_once, timeout, total, retries, idempotent)
    _check_function(function)
    _check_many("gather()", targets)
    ordered, tree = _tree(targets, open, hubs, limits.deadline)

    def one(index: int, target: Target) -> Result[T]:
        begun = time.monotonic()
        tries = 0
        while True:
            tries += 1
            host = _name(target)
            try:
                limits.left()
                with _for_block(index, target, open, tree) as context:
                    host = context.name
                    value = context.call(function, args, kwargs, limits.left())
                return Result(host, index, time.monotonic() - begun, tries, value=value)
            except Exception as error:
                if tree is not None and tree.spares(index, error):
                    tries -= 1
                    continue
                gone = isinstance(target, Context) and target.closed
                if gone or not limits.allow(error, tries):
                    return Result(host, index, time.monotonic() - begun, tries, error=error.with_traceback(None))

    return _run(ordered, one, at_once, tree)


def map(
    function: Callable[..., T],
    items: Iterable[Any],
    over: Sequence[Context],
    *,
    each: int = 1,
    timeout: float | None = None,
    total: float | None = None,
    retries: int = 0,
    idempotent: bool = False,
) -> Iterator[Result[T]]:
    """Call `function(item)` for every item, on whichever context is free, `each` at a time on each; yield a Result for each item.

    Results come in the order they end; `index` and `item` say whose they are. An item is taken when a context is free for it, so
    the iterable may be endless. An item whose context died is tried on another one as `retries` and `idempotent` allow, see
    gather; when all contexts are gone, what is left are errors. Otherwise as `gather`.
    """
    limits = _limits(each, timeout, total, retries, idempotent)
    _check_function(function)
    if isinstance(over, Context) or not over or not all(isinstance(context, Context) for context in over):
        raise TypeError(
            "map() needs a list of open contexts, at least one: remote.map(function, items, over=[alpha, beta])"
        )
    idle: list[Context] = list(over) * each
    back = Condition()

    def take() -> Context:
        """A context that is free and alive, waiting for one; a dead one when all are."""
        with back:
            while True:
                for index, context in enumerate(idle):
                    if not context.closed or all(other.closed for other in over):
                        return idle.pop(index)
                back.wait()

    def give(context: Context) -> None:
        with back:
            idle.append(context)
            back.notify_all()

    def one(index: int, item: Any) -> Result[T]:
        begun = time.monotonic()
        tries = 0
        while True:
            tries += 1
            context = take()
            try:
                value = context.call(function, (item,), None, limits.left())
                return Result(context.name, index, time.monotonic() - begun, tries, item, value)
            except Exception as error:
                if all(other.closed for other in over) or not limits.allow(error, tries):
                    return Result(
                        context.name, index, time.monotonic() - begun, tries, item, error=error.with_traceback(None)
                    )
            finally:
                give(context)

    return _run(enumerate(items), one, len(idle))


class Opened:
    """What open_all() has opened: `contexts`, and `failed`, a Result with its error for each other host. `with` closes all."""

    def __init__(self, contexts: list[Context], failed: list[Result[Context]]) -> None:
        self.contexts = contexts
        self.failed = failed

    def close(self) -> None:
        """Close all contexts, many at once. Blocks this tasklet only."""
        for closed in [roamlet.spawn(context.close) for context in self.contexts]:
            closed.join()

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_all(
    hosts: Iterable[str | Callable[[], Context]],
    *,
    at_once: int = AT_ONCE,
    retries: int = 0,
    open: Callable[..., Context] = ssh,
    hubs: Hubs | None = None,
) -> Opened:
    """Open a context on every host, `at_once` at a time; return when each is open or has failed. Hosts stay in their order.

    A host is a name for `open`, or a function that opens a context. Options go into a function of one's own:
    `open=lambda host: remote.ssh(host, user="deploy")`. Blocks this tasklet only; when it is killed, what was opened is closed.

    `hubs` has many hosts reached through some of them, see Hubs; `open` is then called with `via=` and `name=`, too. A hub that
    dies before this returns is replaced; one that dies later takes along what it leads to.
    """
    limits = _limits(at_once, None, None, retries, False)
    _check_many("open_all()", hosts)
    ordered, tree = _tree(hosts, open, hubs, None)

    def one(index: int, host: str | Callable[[], Context]) -> Result[Context]:
        begun = time.monotonic()
        tries = 0
        while True:
            tries += 1
            try:
                context = _opened(host, open) if tree is None or not isinstance(host, str) else tree.open(index)
                result = Result(context.name, index, time.monotonic() - begun, tries, value=context)
            except Exception as error:
                if limits.allow(error, tries):
                    continue
                result = Result(_name(host), index, time.monotonic() - begun, tries, error=error.with_traceback(None))
            results[index] = result  # here: its tasklet may be killed before anybody takes what it returns
            return result

    results: dict[int, Result[Context]] = {}

    def run(pairs: Iterable[tuple[int, str | Callable[[], Context]]]) -> None:
        for _ in _run(pairs, one, at_once):
            pass

    try:
        run(ordered)
        for _ in range(TRIES):
            if tree is None:
                break
            lost = {index for index, result in results.items() if result.value is not None and tree.lost_hub(index)}
            run([pair for pair in ordered if pair[0] in lost])
    except BaseException:
        with roamlet.shield():
            Opened([result.value for result in results.values() if result.value is not None], []).close()
        raise
    in_order = [results[index] for index in sorted(results)]
    return Opened([r.value for r in in_order if r.value is not None], [r for r in in_order if r.error is not None])


def _run(
    things: Iterable[tuple[int, Any]], work: Callable[[int, Any], Result[T]], at_once: int, tree: Tree | None = None
) -> Iterator[Result[T]]:
    """Have `at_once` tasklets work on the numbered things, and yield what they return. A thing is taken when one is free for it.

    `tree` is told of each that is done, and is closed in the end.
    """
    source = iter(things)
    turn = Lock()  # the iterable may block, and is asked by one at a time
    done: roamlet.channel[Result[T] | BaseException | None] = roamlet.channel()
    done.preference = 0  # neither side runs ahead: a result waits in its tasklet until it is asked for

    def attend() -> None:
        try:
            while True:
                with turn:
                    index, thing = next(source, (-1, None))
                if index < 0:
                    break
                result = work(index, thing)
                if tree is not None:
                    tree.done(index)
                done.send(result)
        except Exception as error:  # of the iterable
            done.send(error)
        else:
            done.send(None)

    running = [roamlet.spawn(attend) for _ in range(at_once)]
    left = at_once
    try:
        while left:
            result = done.receive()
            if result is None:
                left -= 1
            elif isinstance(result, BaseException):
                try:
                    raise result
                finally:
                    del result  # its traceback holds this frame
            else:
                yield result
    finally:
        try:
            for tasklet in running:
                if tasklet.alive:
                    tasklet.kill()
            with roamlet.shield():
                for tasklet in running:  # some may still be closing what they had opened
                    tasklet.wait()
        finally:
            if tree is not None:
                tree.close()


def _tree(
    targets: Iterable[Any], open: Callable[..., Context], hubs: Hubs | None, deadline: float | None
) -> tuple[Iterable[tuple[int, Any]], Tree | None]:
    """The targets with their places, in the order in which they are worked on, and what opens those that are names."""
    if hubs is None:
        return enumerate(targets), None
    if not isinstance(hubs, Hubs):
        raise TypeError(f"hubs must be a remote.Hubs(...), not {hubs!r:.80}")
    listed = list(targets)
    groups = hubs.plan([target if isinstance(target, str) else None for target in listed], deadline)
    if groups:
        _check_open(open)

    def open_one(place: int, via: Context | None) -> Context:
        host = listed[place]
        return open(host) if via is None else open(host, via=via, name=host)

    tree = Tree(groups, open_one, deadline)
    return [(place, listed[place]) for place in tree.order(len(listed))], tree


def _check_open(open: Callable[..., Context]) -> None:
    try:
        inspect.signature(open).bind("host", via=None, name="host")
    except TypeError:
        raise TypeError(
            f"{open!r:.80} cannot open hosts through a hub, because it takes no via= and name=: "
            'open=lambda host, **more: remote.ssh(host, user="deploy", **more)'
        ) from None


@contextlib.contextmanager
def _for_block(index: int, target: Target, open: Callable[..., Context], tree: Tree | None) -> Iterator[Context]:
    """A context of the target, for a block: closed again when it was opened here."""
    if tree is not None and isinstance(target, str):
        with tree.opened(index) as context:
            yield context
        return
    context = _opened(target, open)
    try:
        yield context
    finally:
        if context is not target:
            context.close()


def _opened(target: Target, open: Callable[..., Context]) -> Context:
    if isinstance(target, Context):
        return target
    return open(target) if isinstance(target, str) else target()


def _name(target: Target) -> str:
    if isinstance(target, (Context, str)):
        return target.name if isinstance(target, Context) else target
    return getattr(target, "__name__", repr(target))


def _check_function(function: object) -> None:
    if not callable(function):  # here, because every single host would answer it after it was reached
        raise TypeError(f"{function!r} cannot be called: give the function itself, as in os.getpid, without ()")


def _check_many(who: str, given: object) -> None:
    if isinstance(given, (str, Context)):  # a text would be taken for hosts of one letter each
        one = repr(given) if isinstance(given, str) else given.name
        raise TypeError(f"{who} takes a list of hosts, even for a single one: [{one}], not {one}")


def _limits(at_once: int, timeout: float | None, total: float | None, retries: int, idempotent: bool) -> _Limits:
    if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
        raise ValueError(f"at_once must be a number, 1 or more, not {at_once!r}")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries must be a number, 0 or more, not {retries!r}")
    for name, seconds in (("timeout", timeout), ("total", total)):
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds >= 0):
            raise ValueError(f"{name} must be a number of seconds, 0 or more, or None, not {seconds!r}")
    return _Limits(timeout, None if total is None else time.monotonic() + total, retries, idempotent)
