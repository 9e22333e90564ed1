"""What the forms of tests/core/_forms.py are made of: the register of them, and a value that knows when it was damaged."""

from collections.abc import Callable
from typing import Any


class Token:
    """A value that says whether it is still whole: the collector would have cleared its dictionary."""

    __match_args__ = ("value",)

    def __init__(self, value: Any = 0) -> None:
        self.value = value
        self.whole = True

    def check(self) -> Any:
        assert self.whole
        return self.value


FORMS: dict[str, Callable[[Callable[[], Any]], Any]] = {}
SWALLOWING: set[str] = set()  # forms out of which an exception does not come as it was


def form(function: Callable[[Callable[[], Any]], Any]) -> Callable[[Callable[[], Any]], Any]:
    FORMS[function.__name__] = function
    return function


def swallows(function: Callable[[Callable[[], Any]], Any]) -> Callable[[Callable[[], Any]], Any]:
    SWALLOWING.add(function.__name__)
    return form(function)
