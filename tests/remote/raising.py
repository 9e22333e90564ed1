"""`pytest.raises` for tests that look at the error afterwards and must leave no reference cycle."""

import re
from types import TracebackType
from typing import Generic, TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


class raises(Generic[E]):
    """Expect `kind`; `match` is searched in its text, line breaks included. `value` is the error, without its traceback.

    An error that a test keeps in a variable holds its traceback, which holds the test's frame, which holds the variable.
    """

    def __init__(self, kind: type[E], match: str | None = None) -> None:
        self.kind = kind
        self.match = match
        self.value: E

    def __enter__(self) -> "raises[E]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None:
            pytest.fail(f"{self.kind.__name__} was not raised")
        if not isinstance(error, self.kind):
            return False
        if self.match is not None and not re.search(self.match, str(error), re.DOTALL):
            pytest.fail(f"{type(error).__name__} does not say {self.match!r}:\n{error}")
        self.value = error.with_traceback(None)
        return True
