"""A pool for Celery's worker that runs each task in a tasklet of the worker's main thread.

    CELERY_CUSTOM_WORKER_POOL=roamlet.celery:TaskPool celery -A app worker -P custom

Importing this module makes the standard library cooperative: with these options the command `celery` imports it before
anything else of Celery's that waits.
"""
# ruff: noqa: E402 - what needs the patched standard library is imported after it was patched

import sys
import warnings

from roamlet import patch

# What Celery has imported before this module: what can be mended, and what holds its locks across no wait.
_PACKAGES = {"amqp", "billiard", "celery", "kombu", "vine"}
_HARMLESS = {"billiard", "cffi", "dateutil"}


def _install() -> None:
    """Make the standard library cooperative, also where Celery's packages have taken names of it already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", patch.EarlyImportWarning)
        patch.install(local=True)
    for each in patch.status().early:
        if each.kind == "name" and "." not in each.name and each.module.partition(".")[0] in _PACKAGES:
            owner, _, name = each.original.rpartition(".")
            setattr(sys.modules[each.module], each.name, getattr(sys.modules[owner], name))
    early = [each for each in patch.status().early if each.module.partition(".")[0] not in _HARMLESS]
    if early:
        warnings.warn(patch.EarlyImportWarning(early), stacklevel=2)


_install()

import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from billiard.einfo import ExceptionInfo
from billiard.exceptions import SoftTimeLimitExceeded, Terminated
from celery.concurrency import get_implementation
from celery.concurrency.base import BasePool, apply_target
from celery.utils import threads as celery_threads
from celery.worker.worker import WorkController
from kombu.asynchronous.timer import Timer as KombuTimer

from roamlet.core import CancelScope, TaskletExit, getcurrentid, os_threads, set_error_handler, sleep, tasklet
from roamlet.sync import Condition, Event, Semaphore

__all__ = ["TaskPool"]

_logger = logging.getLogger("celery.pool")


class _HardLimit(Exception):
    """The time of a task is over."""


class _Job:
    """A task that was handed to the pool. Celery knows it by `pid`."""

    __slots__ = ("__weakref__", "accepted", "tasklet")

    def __init__(self) -> None:
        self.tasklet: tasklet[...]
        self.accepted: bool = False

    @property
    def pid(self) -> int:
        return id(self)

    def terminate(self, signal: object = None) -> None:
        """End it. One that waits for its turn ends when that comes: only what was accepted is acknowledged."""
        if self.accepted:
            self.tasklet.kill(pending=not self.tasklet.is_current)


class _Timer(KombuTimer):  # type: ignore[misc] # Celery has no types
    """What Celery starts later (tasks with an ETA, heartbeats), in a tasklet of the thread that has the pool."""

    def __init__(self, *args: Any, on_tick: Callable[[float], object] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_tick = on_tick
        self._changed = Event()
        self._running: tasklet[...] | None = None

    def _enter(self, eta: float, priority: int, entry: Any, **kwargs: Any) -> Any:
        entered = super()._enter(eta, priority, entry, **kwargs)
        self._changed.set()
        if self._running is None:
            self._running = tasklet(self._run)()
        return entered

    def _run(self) -> None:
        for delay, entry in self:
            if entry is not None:
                self.apply_entry(entry)
                continue
            if delay is not None and self._on_tick is not None:
                self._on_tick(delay)
            self._changed.wait(delay)
            self._changed.clear()

    def ensure_started(self) -> None:
        """Part of what Celery calls; it starts by itself."""

    def stop(self) -> None:
        super().stop()
        running, self._running = self._running, None
        if running is not None:
            running.kill()


class TaskPool(BasePool):  # type: ignore[misc]
    """Celery's pool "custom": at most `--concurrency` tasks run at a time, each in a tasklet; the others wait for their turn.

    A task's waits end at its soft time limit with SoftTimeLimitExceeded, once, and at its hard time limit for good. Revoking
    with terminate=True kills its tasklet. A task that computes is interrupted by neither. A warm shutdown waits for
    the tasks that run; those that wait for their turn go back to the broker. A cold one kills all.
    """

    Timer = _Timer
    signal_safe = False
    is_green = True
    task_join_will_block = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limit: int
        self._jobs: dict[int, _Job] = {}
        self._running = 0
        self._turns = Semaphore(self.limit or 0)
        self._too_many = 0  # turns that shrink() takes back as tasks end
        self._changing = os_threads.allocate_lock()  # Celery's autoscaler is a thread of its own
        self._idle = Condition()  # the last task has ended

    # ---- what Celery calls ----

    def on_start(self) -> None:
        set_error_handler(_log_error)
        _own_stacks(self.app)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        callback: Callable[[Any], object] | None = None,
        accept_callback: Callable[..., object] | None = None,
        timeout: float | None = None,
        soft_timeout: float | None = None,
        timeout_callback: Callable[[bool, float], object] | None = None,
        error_callback: Callable[[Any], object] | None = None,
        **_: Any,
    ) -> _Job:
        """Start a task, or let it wait for its turn. Does not switch."""
        timeout = self.options.get("timeout") if timeout is None else timeout
        soft_timeout = self.options.get("soft_timeout") if soft_timeout is None else soft_timeout
        job = _Job()

        def limited(*args: Any, **kwargs: Any) -> Any:
            soft = None
            with CancelScope(timeout or None, name="the hard time limit of a task"):
                try:
                    if soft_timeout:
                        soft = tasklet(_throw_later)(job, soft_timeout, timeout_callback)
                    return target(*args, **kwargs)
                finally:
                    if soft is not None:
                        soft.kill(pending=True)
            raise _HardLimit

        def accepted(*args: Any) -> None:
            job.accepted = True
            if accept_callback is not None:
                accept_callback(*args)

        def run() -> None:
            try:
                apply_target(*(limited, args, kwargs, callback, accepted, job.pid), propagate=(TaskletExit, _HardLimit))
            except _HardLimit:
                if timeout_callback is not None:
                    timeout_callback(False, timeout or 0)
            except TaskletExit:
                if error_callback is not None:
                    error_callback(_terminated())

        self._jobs[job.pid] = job
        job.tasklet = tasklet(self._in_turn)(job, run)
        return job

    def on_stop(self) -> None:
        """Warm: wait for the tasks that run."""
        self._forget_waiting()
        with self._idle:
            self._idle.wait_for(lambda: not self._jobs)

    def on_close(self) -> None:
        self._forget_waiting()

    def on_terminate(self) -> None:
        """Cold: end all."""
        self._forget_waiting()
        for job in list(self._jobs.values()):
            job.terminate()

    def terminate_job(self, pid: int, signal: object = None) -> None:
        """Kill the tasklet of a task; whatever the signal."""
        job = self._jobs.get(pid)
        if job is not None:
            job.terminate()

    def grow(self, n: int = 1) -> None:
        """Let n more run at a time. Thread-safe."""
        with self._changing:
            self.limit += n
            kept = min(n, self._too_many)
            self._too_many -= kept
            more = n - kept
        if more > 0:
            self._turns.release(more)

    def shrink(self, n: int = 1) -> None:
        """Let n fewer run at a time, as soon as so many have ended. Thread-safe."""
        with self._changing:
            fewer = min(n, self.limit)
            self.limit -= fewer
            for _ in range(fewer):
                if not self._turns.acquire(blocking=False):
                    self._too_many += 1

    def restart(self) -> None:
        """Nothing is worn out."""

    def spawn_n(self, function: Callable[..., object], *args: Any) -> None:
        """Celery's remote control runs in a tasklet, too."""
        tasklet(function)(*args)

    def _get_info(self) -> dict[str, Any]:
        return {
            **super()._get_info(),
            "running-tasklets": self._running,
            "waiting-tasklets": max(len(self._jobs) - self._running, 0),
        }

    # ---- inside ----

    def _in_turn(self, job: _Job, run: Callable[[], None]) -> None:
        try:
            self._turns.acquire()
            self._running += 1
            try:
                run()
            finally:
                self._running -= 1
                self._end_turn()
        except Exception:  # of a callback of Celery's; the others run on
            _logger.exception("A task of the pool has failed outside of its function")
        finally:
            self._forget(job)

    def _end_turn(self) -> None:
        """Give the turn to a task that waits for one, unless it is to be taken back."""
        with self._changing:
            taken_back = self._too_many > 0
            self._too_many -= taken_back
        if not taken_back:
            self._turns.release()

    def _forget(self, job: _Job) -> None:
        self._jobs.pop(job.pid, None)
        if not self._jobs:
            with self._idle:
                self._idle.notify_all()

    def _forget_waiting(self) -> None:
        for job in list(self._jobs.values()):
            if not job.accepted:
                job.tasklet.kill(pending=True)
                self._forget(job)  # one that has not begun never will


def _log_error(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """A tasklet that a task has started ended with an error. What ends the worker goes to the main tasklet."""
    if not isinstance(error, Exception):
        raise error
    _logger.error("A tasklet of a task has failed", exc_info=(kind, error, traceback))


def _throw_later(job: _Job, seconds: float, timeout_callback: Callable[[bool, float], object] | None) -> None:
    """Raise SoftTimeLimitExceeded in the task when its time is over. It is killed when the task ends before."""
    sleep(seconds)
    if timeout_callback is not None:
        timeout_callback(True, seconds)
    job.tasklet.throw(SoftTimeLimitExceeded, SoftTimeLimitExceeded(seconds), pending=True)


def _terminated() -> Any:
    """What Celery is told about a task that was killed."""
    try:
        raise Terminated("its tasklet was killed")
    except Terminated:
        return ExceptionInfo()


# ---- Celery told apart what runs at the same time by greenlet.getcurrent(), which knows no tasklets ----

celery_threads.get_ident = getcurrentid


def _own_stacks(app: Any) -> None:
    """Stacks of the current task that were made before: of Celery's own modules, and of tasks that were bound already."""
    from celery import _state  # here: celery.app must not begin to be imported by this module

    for stack in (_state._task_stack, *(each.request_stack for each in app.tasks.values())):
        if hasattr(stack, "__ident_func__"):
            stack.__ident_func__ = getcurrentid


def _should_use_eventloop(self: Any) -> bool:
    """kombu's event loop would take wake-ups by other tasklets of its thread for its own, and sleep on."""
    return not issubclass(get_implementation(self.pool_cls), TaskPool) and _original(self)


_original: Callable[[Any], bool] = WorkController.should_use_eventloop
WorkController.should_use_eventloop = _should_use_eventloop
