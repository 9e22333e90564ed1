"""Objects whose death runs code. Module-level classes: a class made in a test is a cycle of its own."""

from collections.abc import Callable


class Dropping:
    """Calls `function` when it is dropped; calling it does nothing."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function

    def __call__(self, *_: object) -> None:
        pass

    def __del__(self) -> None:
        self.function()


class Value:
    """Something that weak references can follow, made with any arguments."""

    def __init__(self, *_: object, **__: object) -> None:
        pass
