"""Values that pickle does not know and that can be made again: what a pattern has matched, locks that are free."""

import _thread
import re
from collections.abc import Iterator
from typing import Any

_WAYS = ("match", "fullmatch", "search", "finditer")


def how_found(item: "re.Match[Any]") -> str:
    """The method of the pattern that finds it again. TypeError where no method does."""
    if not isinstance(item.string, (str, bytes)):
        raise TypeError(f"a match in a {type(item.string).__name__}, which may have changed since")
    for how in _WAYS:
        if found_again(item.re, item.string, (item.pos, item.endpos), how, item.regs) is not None:
            return how
    raise TypeError("a match that none of the methods of its pattern finds again")


def found_again(
    pattern: "re.Pattern[Any]", text: Any, place: tuple[int, int], how: str, regs: Any
) -> "re.Match[Any] | None":
    """The match of these groups, or None."""
    if how == "finditer":
        each: Iterator[re.Match[Any]] = pattern.finditer(text, *place)
        return next((found for found in each if found.regs == regs), None)
    found: re.Match[Any] | None = getattr(pattern, how)(text, *place)
    return found if found is not None and found.regs == regs else None


def is_held(item: object) -> bool:
    """Whether it is a lock that a thread or a tasklet holds."""
    if type(item) is _thread.LockType:
        return item.locked()
    if type(item) is not _thread.RLock:
        return False
    owner: Any = item
    if owner._is_owned() or not item.acquire(blocking=False):
        return True
    item.release()
    return False
