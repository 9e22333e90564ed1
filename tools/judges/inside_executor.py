"""CPython's own tests of executors, over roamlet.executor: a file for pytest, run by executors.py.

Those that are about any executor (submit, map, wait, as_completed); those about threads and processes of one's own are not.
"""

import importlib
import sys
from typing import Any

from roamlet.executor import Executor

_NAMES = {"executor": "ExecutorTest", "test_wait": "WaitTests", "test_as_completed": "AsCompletedTests"}


def _tests(module: str) -> Any:
    """The class of that module with the tests; 3.11 has all in one module."""
    one = "test.test_concurrent_futures"
    return getattr(importlib.import_module(one if sys.version_info < (3, 12) else f"{one}.{module}"), _NAMES[module])


def _base() -> Any:
    one = "test.test_concurrent_futures"
    return importlib.import_module(one if sys.version_info < (3, 12) else f"{one}.util")


class _OverRoamlet(_base().ExecutorMixin):  # type: ignore[misc]
    """The mixin that makes the executor of each test, and ends it."""

    worker_count = 5

    @staticmethod
    def executor_type(max_workers: int = worker_count, **options: Any) -> Executor:
        return Executor(["local"] * max_workers, **options)


class TestExecutor(_OverRoamlet, _tests("executor"), _base().BaseTestCase):  # type: ignore[misc]
    """submit, map, and what becomes of their errors."""


class TestExecutorWithPickles(TestExecutor):
    """The same where results of any class come back."""

    @staticmethod
    def executor_type(max_workers: int = 5, **options: Any) -> Executor:
        return Executor(["local"] * max_workers, pickle=True, **options)


class TestWait(_OverRoamlet, _tests("test_wait"), _base().BaseTestCase):  # type: ignore[misc]
    """concurrent.futures.wait()."""


class TestAsCompleted(_OverRoamlet, _tests("test_as_completed"), _base().BaseTestCase):  # type: ignore[misc]
    """concurrent.futures.as_completed()."""
