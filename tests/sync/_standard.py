"""CPython's own tests of locks with tasklets, from the `test` package of the interpreter that runs us (tests/standard_tests.py).

`with_tasklets` lets the tests of test.lock_tests start tasklets where they start threads,
and their clock is then a virtual one: what sleeps there costs no time.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import roamlet
from roamlet import core


class Bunch:
    """lock_tests.Bunch with tasklets of this thread. What one of them raises is raised at the end."""

    def __init__(self, func: Callable[[], object], n: int, wait_before_exit: bool = False) -> None:
        self.func, self.n = func, n
        self.started: list[int] = []
        self.finished: list[int] = []
        self.errors: list[BaseException] = []
        self.may_exit = not wait_before_exit

    def task(self) -> None:
        self.started.append(roamlet.getcurrentid())
        try:
            self.func()
        except BaseException as error:
            self.errors.append(error)
        finally:
            self.finished.append(roamlet.getcurrentid())
            while not self.may_exit:
                roamlet.sleep(0.001)

    def __enter__(self) -> "Bunch":
        for _ in range(self.n):
            roamlet.tasklet(self.task)()
        while len(self.started) < self.n:
            roamlet.sleep(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        while len(self.finished) < self.n:
            roamlet.sleep(0.001)
        roamlet.sleep(0.001)
        errors, self.errors = self.errors, []
        if errors:
            raise errors[0]

    def do_finish(self) -> None:
        self.may_exit = True


class OlderBunch(Bunch):
    """That of older versions, 3.11.2 for one, which starts at once and is no context manager."""

    def __init__(self, func: Callable[[], object], n: int, wait_before_exit: bool = False) -> None:
        super().__init__(func, n, wait_before_exit)
        for _ in range(n):
            roamlet.tasklet(self.task)()

    def wait_for_started(self) -> None:
        while len(self.started) < self.n:
            roamlet.sleep(0.001)

    def wait_for_finished(self) -> None:
        self.__exit__()


def _start(function: Callable[..., object], args: tuple[Any, ...]) -> int:
    roamlet.tasklet(function)(*args)
    return 0


def _retry(*_: object, **__: object) -> Iterator[None]:
    """support.sleeping_retry and its like: until the caller breaks out, for ten seconds of the virtual clock at most."""
    for _ in range(10_000):
        yield
        roamlet.sleep(0.001)
    raise AssertionError("nothing came of it within 10 s")


@contextlib.contextmanager
def _until_all_have_ended(*_: object, **__: object) -> Iterator[None]:
    before = len(core.started())
    yield
    for _ in _retry():
        if len(core.started()) <= before and roamlet.getruncount() == 1:
            return


class _Delegating:
    """A module with some names replaced, for those who look them up in it."""

    def __init__(self, original: Any, **names: object) -> None:
        self._original = original
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


@contextlib.contextmanager
def with_tasklets(lock_tests: Any) -> Iterator[None]:
    """Let the tests of this module start tasklets, on a virtual clock, until the block is left."""
    now = [1000.0]

    def advance(seconds: float) -> None:
        now[0] += seconds

    patch = pytest.MonkeyPatch()
    new = hasattr(lock_tests.Bunch, "__enter__")
    helper = _Delegating(lock_tests.threading_helper, wait_threads_exit=_until_all_have_ended)
    replaced = {
        "Bunch": Bunch if new else OlderBunch,
        "start_new_thread": _start,
        "threading_helper": helper,
        "time": _Delegating(time, monotonic=lambda: now[0], sleep=roamlet.sleep),
        "support": _Delegating(lock_tests.support, sleeping_retry=_retry),
    }
    if new:
        replaced["wait_threads_blocked"] = lambda n: roamlet.sleep(0.01 * n)
    try:
        for name, replacement in replaced.items():
            patch.setattr(lock_tests, name, replacement)
        core.set_clock(lambda: now[0], advance)
        yield
    finally:
        core.set_clock()
        patch.undo()
