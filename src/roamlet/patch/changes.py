"""What has been replaced, by whom it was owned, and how it is put back."""

from collections.abc import Callable
from typing import Any, NamedTuple

_MISSING: Any = object()


class Replacement(NamedTuple):
    """One name of a module or class: what stood there, what stands there now."""

    owner: Any
    name: str
    original: Any
    """_MISSING where the owner itself had no such name, a class that inherited it for instance."""
    replacement: Any

    def inherited(self) -> bool:
        """Whether the owner had no such name of its own."""
        return self.original is _MISSING


class Changes:
    """The replacements of one install(), newest last. Not thread-safe: install() and uninstall() hold a lock."""

    def __init__(self) -> None:
        self.replacements: list[Replacement] = []
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Put `value` where the module or class `owner` has `name`. What stood there is kept, a descriptor as it is."""
        original = vars(owner).get(name, _MISSING)
        replacement = Replacement(owner, name, original, value)
        setattr(owner, name, value)
        self.replacements.append(replacement)
        self._undo.append(lambda: _put_back(replacement))

    def on_undo(self, function: Callable[[], object]) -> None:
        """Call this when the changes are undone, after what was done later has been undone."""
        self._undo.append(function)

    def undo(self) -> None:
        """Put everything back, the newest first. What others have replaced since then is left as they made it."""
        self.replacements.clear()
        while self._undo:
            self._undo.pop()()


def _put_back(replacement: Replacement) -> None:
    owner, name, original, value = replacement
    if vars(owner).get(name, _MISSING) is not value:
        return
    if replacement.inherited():
        delattr(owner, name)
    else:
        setattr(owner, name, original)
