"""The handle on a value that a context keeps: what context.keep() returns, and when it may be an argument.

Nothing is sent here; calls/keeping.py does. The target's end is roamlet.wire.values.kept.
"""

import os
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

from roamlet.wire.values import kinds

T = TypeVar("T")


class Kept(Generic[T]):
    """A value that a context keeps, for calls in that context. The context lets go of it when nothing refers to this any more.

    As an argument of a call, or inside of one, it is replaced by the value on the target. Thread-safe.
    """

    stays_here = "it names a value for calls in the context that keeps it: pass it in the arguments of such a call"

    def __init__(self, owner: object, name: str, number: int, drop: Callable[[int], None]) -> None:
        self._owner = owner
        self._name = name
        self._number = number
        self._pid = os.getpid()
        self._drop: Callable[[int], None] | None = drop

    @property
    def released(self) -> bool:
        """Whether release() was called."""
        return self._drop is None

    def release(self) -> None:
        """Let the context go of the value now; calls that have it go on with it. Never blocks; again does nothing."""
        drop, self._drop = self._drop, None
        if drop is not None and self._pid == os.getpid():
            drop(self._number)

    def number_for(self, owner: object) -> int:
        """Its number in a message to `owner`. Raises kinds.Refusal where that is not the context that keeps it."""
        if self._pid != os.getpid():
            why = (
                f"it is kept in {self._name!r} for the process that this one was forked from; "
                "keep() the value in a context of this process"
            )
        elif owner is None:
            why = f"it is kept in {self._name!r}, and is an argument of calls there: it goes through no channel"
        elif owner is not self._owner:
            why = f"it is kept in {self._name!r}, and this call goes elsewhere: call keep() in that context as well"
        elif self.released:
            why = f"it was kept in {self._name!r}, and release() was called: keep() the value again"
        else:
            return self._number
        raise kinds.Refusal(why, self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: {self.stays_here}")

    def __repr__(self) -> str:
        return f"<roamlet.remote.Kept number {self._number} in {self._name!r}{', released' if self.released else ''}>"

    def __del__(self) -> None:
        if "_pid" in self.__dict__:  # else __init__ has not come so far
            self.release()
