"""CPython's own lock tests once more, with tasklets of one thread where they start threads."""

from collections.abc import Iterator

import pytest

from tests.sync import _standard
from tests.sync.test_standard_locks import (  # noqa: F401 - collected here too
    TestBarrier,
    TestBoundedSemaphore,
    TestCondition,
    TestConditionAsRLock,
    TestEvent,
    TestFairLock,
    TestLock,
    TestRLock,
    TestSemaphore,
    lock_tests,
)


@pytest.fixture(autouse=True)
def tasklets() -> Iterator[None]:
    with _standard.with_tasklets(lock_tests):
        yield
