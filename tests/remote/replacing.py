"""A function in the place of a method of one object, whose class has slots: the class hands it the calls of that one."""

from collections.abc import Callable
from typing import Any

import pytest


def replace_method(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, function: Callable[..., Any]) -> None:
    """Until `monkeypatch` undoes it, `owner.name(...)` is `function(...)`. Other objects of the class keep their method."""
    original = getattr(type(owner), name)

    def chosen(self: object, *args: Any, **named: Any) -> Any:
        return function(*args, **named) if self is owner else original(self, *args, **named)

    monkeypatch.setattr(type(owner), name, chosen)
