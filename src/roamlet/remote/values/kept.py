"""The handle on a value that a context keeps: what context.keep() returns, and when it may be an argument.

Nothing is sent here; calls/keeping.py does. The target's end is roamlet.wire.values.kept.
"""

import os
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

from roamlet.wire.values import kinds

T = TypeVar("T")


class Hold:
    """What makes a context keep a value: the handle has it, and each request with the value until it is answered.

    The last one that lets go of it sends the order to drop the value, which so overtakes no call. It has no lock: references are
    counted by Python.
    """

    def __init__(self, number: int, drop: Callable[[int], None]) -> None:
        self.number = number
        self.pid = os.getpid()
        self._drop = drop

    def __del__(self) -> None:
        if self.pid == os.getpid():  # else it is the copy of a process that was forked
            self._drop(self.number)


class Kept(Generic[T]):
    """A value that a context keeps, for calls in that context. The context lets go of it when nothing refers to this any more.

    As an argument of a call, or inside of one, it is replaced by the value on the target. Thread-safe.
    """

    stays_here = "it names a value for calls in the context that keeps it: pass it in the arguments of such a call"

    def __init__(self, owner: object, name: str, number: int, drop: Callable[[int], None]) -> None:
        self._owner = owner
        self._name = name
        self._number = number
        self._hold: Hold | None = Hold(number, drop)
        self._pid = self._hold.pid

    @property
    def released(self) -> bool:
        """Whether release() was called."""
        return self._hold is None

    def release(self) -> None:
        """Let the context go of the value now, or when the last call is answered that was made with it.

        Those calls get it although they may not have been sent yet. Never blocks; again does nothing.
        """
        self._hold = None

    def hold_for(self, owner: object) -> Hold:
        """What a request to `owner` must have until it is answered. Raises kinds.Refusal where another context keeps the value."""
        hold = self._hold  # once: another thread may release it
        if self._pid != os.getpid():
            why = (
                f"it is kept in {self._name!r} for the process that this one was forked from; "
                "keep() the value in a context of this process"
            )
        elif owner is None:
            why = f"it is kept in {self._name!r}, and is an argument of calls there: it goes through no channel"
        elif owner is not self._owner:
            why = f"it is kept in {self._name!r}, and this call goes elsewhere: call keep() in that context as well"
        elif hold is None:
            why = f"it was kept in {self._name!r}, and release() was called: keep() the value again"
        else:
            return hold
        raise kinds.Refusal(why, self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: {self.stays_here}")

    def __repr__(self) -> str:
        return f"<roamlet.remote.Kept number {self._number} in {self._name!r}{', released' if self.released else ''}>"
