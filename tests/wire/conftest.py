"""Targets for the tests of the payload: each interpreter that was found, started over pipes by a parent that blocks."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.wire import interpreters
from tests.wire.target import Target


@pytest.fixture(params=interpreters.since(2, 7))
def python(request: pytest.FixtureRequest) -> str:
    """The path of an interpreter; a test that uses it runs once for each version that tells (`interpreters.since`)."""
    return interpreters.found()[request.param]


@pytest.fixture
def start() -> Iterator[Callable[..., Target]]:
    """Start targets that are closed after the test."""
    started: list[Target] = []

    def start_target(python: str, *args: Any, **options: Any) -> Target:
        target = Target(python, *args, **options)
        started.append(target)
        return target.start()

    yield start_target
    for target in started:
        target.close()


@pytest.fixture
def target(python: str, start: Callable[..., Target]) -> Target:
    """A started target of each version."""
    return start(python)
