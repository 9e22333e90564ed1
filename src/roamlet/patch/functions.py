"""Functions in the places of builtin ones: no methods where a class has them as attributes, and pickled by their names."""

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Function(Generic[P, T]):
    """`function` under the name of the builtin function `original`."""

    def __init__(self, original: Callable[..., Any], function: Callable[P, T]) -> None:
        functools.update_wrapper(self, original)
        self.__module__ = original.__module__.removeprefix("_")  # where it is replaced: socket, not _socket
        self._function = function

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> str:
        name: str = getattr(self, "__qualname__")  # noqa: B009 - not declared
        return name

    def __repr__(self) -> str:
        return f"<function {getattr(self, '__module__')}.{self.__reduce__()} of roamlet.patch>"  # noqa: B009


def stands_for(original: Callable[..., Any]) -> Callable[[Callable[P, T]], Function[P, T]]:
    """Decorate a function that will be in the place of the builtin function `original`."""
    return lambda function: Function(original, function)
