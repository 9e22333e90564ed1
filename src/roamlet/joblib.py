"""joblib's calls on other machines, and so those of scikit-learn with `n_jobs`: a backend of joblib over roamlet.executor.

    import joblib
    import roamlet.joblib

    roamlet.joblib.register()
    with joblib.parallel_config("roamlet", hosts=["alpha", "beta"], each=8, pickle=True):
        search.fit(data, labels)

Neither joblib nor anything else need be installed there: it travels with the first call, as for all contexts.
"""

import contextlib
import io
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import cloudpickle
import joblib
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

from roamlet.core.os_threads import allocate_lock
from roamlet.executor import Executor, Future
from roamlet.remote import Context, Modules, RemoteCall, ssh
from roamlet.remote.calls.engine import calls_of
from roamlet.remote.errors import CannotTravel, RemoteError
from roamlet.wire.calls import executor as on_target

__all__ = ["Backend", "register"]

NAME = "roamlet"
LARGE = 1 << 20  # bytes from which on an array goes to each context once, whatever calls it is an argument of

SHARED = ("cloudpickle", "joblib")  # packages that must be the same on both sides

_KINDS = "biufcSUmM"  # of arrays that travel as data

_tokens = itertools.count(1)


def register(*, default: bool = False) -> None:
    """Let joblib know this backend by the name "roamlet". `default`: it is the one that joblib uses where none is named.

    May be called again. Without hosts, as the default has none, it runs what it gets in processes of this machine.
    """
    joblib.register_parallel_backend(NAME, Backend, make_default=default)


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc] # joblib has no types
    """The backend "roamlet" of joblib: batches of calls in contexts.

    `hosts` are what roamlet.executor.Executor takes as targets; each of them gets `each` contexts, as calls that compute want
    a process for each core. `executor`, in their place, is one of the caller's, which stays open. What was opened here is closed
    when joblib no longer refers to the backend: at the end of its `with parallel_config(...)`.

    Functions and arguments travel as pickles (cloudpickle's, so that functions of the main script and lambdas do). An array of 1 MB
    or more goes once to each context that runs calls with it, for one Parallel call, as it was when it was sent first. It stays
    there while a call that has it is under way, and cannot be written to there. Results are data, as those of all calls.
    **`pickle=True` is a grant of rights**: results of any class come back, fitted estimators for instance, and
    whoever controls a target can run code in this process.

    Opening blocks this tasklet. Raises TypeError or ValueError for arguments that make no sense, CannotTravel when a target has
    another version of Python, joblib or cloudpickle, which could not read such pickles, and what Executor does.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = False
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        *,
        hosts: Iterable[str | Context | Callable[[], Context]] = ("local",),
        each: int = 1,
        pickle: bool = False,
        executor: Executor | None = None,
        **options: Any,
    ) -> None:
        if options:
            raise TypeError(
                f"parallel_config('roamlet') takes hosts, each, pickle and executor, not {', '.join(sorted(options))}"
            )
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        if executor is None:
            executor = Executor(_places(hosts, each), pickle=pickle, open=_open)
            weakref.finalize(self, executor.shutdown, wait=False)
        self._executor = executor
        for context in executor.contexts:
            _check(context)
        self._lock = allocate_lock()
        self._large: dict[tuple[object, int], _Large] = {}  # by the Parallel call and the id of the array
        self._submitted: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        self.parallel: Any = None

    # ---- what joblib calls

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """See joblib: how many calls run at a time. -1 and None: in every place.

        1 is for n_jobs=1 alone, which joblib runs here, without a backend; with a single place a second call waits for it.
        """
        places = self._executor.places
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            n_jobs = -1
        return n_jobs if n_jobs == 1 else max(2, places + 1 + n_jobs if n_jobs < 0 else min(n_jobs, places))

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> Future[Any]:
        """See joblib. Pickles the batch here; never waits for it."""
        arrays: list[_Large] = []
        asks = getattr(callback, "parallel_call_id", None)  # joblib's for one Parallel call: others may be under way
        try:
            file = io.BytesIO()
            _Pickler(file, partial(self._token, asks, arrays)).dump(func)
            future = self._executor._submit(on_target.unpickled, (file.getvalue(),), {}, partial(self._send, arrays))
        except BaseException:
            self._release(arrays)
            raise
        self._submitted.add(future)
        if callback is not None:
            future.add_done_callback(callback)
        # After that callback, which submits the next call: what both have as an argument stays.
        future.add_done_callback(partial(self._release, arrays))
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """See joblib."""
        return out.result()

    def terminate(self) -> None:
        """See joblib: nothing more comes for now. The contexts stay for the next Parallel call."""
        self.parallel = None  # which refers to this

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """See joblib: cancel what has not begun."""
        for future in list(self._submitted):
            if not future.cancel():
                future.add_done_callback(lambda one: one.exception())  # no caller asks for it any more

    # ---- large arrays

    def _token(self, asks: object, arrays: "list[_Large]", value: Any) -> str | None:
        """The token of a large array, which is added to `arrays`; None for every other value."""
        numpy = sys.modules.get("numpy")
        if numpy is None or type(value) is not numpy.ndarray or value.nbytes < LARGE or value.dtype.kind not in _KINDS:
            return None
        with self._lock:
            large = self._large.get((asks, id(value)))
            if large is None:
                large = self._large[asks, id(value)] = _Large((asks, id(value)), value, str(next(_tokens)))
            if large not in arrays:
                large.calls += 1
                arrays.append(large)
        return large.token

    def _send(self, arrays: "list[_Large]", context: Context) -> None:
        """Send those that this context has not been sent. A call follows that has them as arguments."""
        for large in arrays:
            with self._lock:
                if context in large.sent:
                    continue
                large.sent.add(context)
            try:
                call = context.spawn(on_target.keep, (large.token, large.value))
            except BaseException:
                with self._lock:
                    large.sent.discard(context)
                raise
            call.then(partial(_tell_if_lost, context, large.token, call))

    def _release(self, arrays: "list[_Large]", _: object = None) -> None:
        """A call has ended that had these as arguments. What no other one has is let go, here and there."""
        unused: dict[Context, list[str]] = {}
        with self._lock:
            ended, arrays[:] = list(arrays), []  # the future that has them may be kept
            for large in ended:
                large.calls -= 1
                if not large.calls:
                    del self._large[large.key]
                    for context in large.sent:
                        unused.setdefault(context, []).append(large.token)
        for context, tokens in unused.items():
            _unasked(context, on_target.forget, tokens)


class _Large:
    """An array that goes to a context once for all calls of one Parallel call, while one of them has not ended."""

    def __init__(self, key: tuple[object, int], value: Any, token: str) -> None:
        self.key = key
        self.value = value  # so that no other one gets its id
        self.token = token
        self.calls = 0
        self.sent: set[Context] = set()


def _unasked(context: Context, function: Callable[..., object], *args: Any) -> None:
    """Call a function there whose end no caller waits for, if the context is open."""
    with contextlib.suppress(RemoteError):
        call = context.spawn(function, args)
        call.then(lambda: call.unanswered)


def _tell_if_lost(context: Context, token: str, call: RemoteCall[Any]) -> None:
    """Let calls that wait for an array know that it could not be read there."""
    if call.failed and call.unanswered is None:
        try:
            call.join(0)
        except Exception as error:
            _unasked(context, on_target.lose, token, f"{type(error).__name__}: {error}")


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, token: Callable[[Any], str | None]) -> None:
        super().__init__(file)
        self._token = token

    def persistent_id(self, value: Any) -> str | None:
        return self._token(value)


def _places(hosts: Iterable[Any], each: int) -> Sequence[Any]:
    if isinstance(hosts, (str, Context)):
        raise TypeError(f"hosts takes a list, even for a single one: [{hosts!r}]")
    if isinstance(each, bool) or not isinstance(each, int) or each < 1:
        raise ValueError(f"each must be a number of contexts, 1 or more, not {each!r}")
    return [host for host in hosts for _ in range(each)]


def _open(host: str) -> Context:
    return ssh(host, modules=Modules(prefer=dict.fromkeys(SHARED, "parent")))


def _check(context: Context) -> None:
    """Raise CannotTravel for a context that could not read what is pickled here."""
    here = "{}.{}".format(*sys.version_info)
    if context.facts.python[:2] != sys.version_info[:2]:
        raise CannotTravel(
            f"{context.name!r} runs Python {context.facts.version}, and this is {here}: functions that joblib pickles are read by "
            f"the same version alone.\n    Name one: hosts=[lambda: remote.ssh('alpha', python='python{here}')]",
            context=context.name,
        )
    for package in SHARED:
        calls_of(context).shipping.send_module(package)  # pickles name what no plan of ours sees
        if package in context.facts.packages:
            theirs, ours = context.call(on_target.version_of, (package,)), on_target.version_of(package)
            if theirs != ours:
                raise CannotTravel(
                    f"{context.name!r} has {package} {theirs}, and here it is {ours}: one cannot read what the other pickles.\n"
                    f"    Open it with ours: modules=remote.Modules(prefer={{{package!r}: 'parent'}})",
                    context=context.name,
                )
