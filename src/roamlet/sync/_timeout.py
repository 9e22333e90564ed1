"""Limits of time: timeout(), and shield(), which keeps what would end a tasklet away from a piece of it."""

from types import TracebackType
from typing import Self

from roamlet.core import CancelScope


class _Limit:
    """What timeout and shield share: a CancelScope with a limit, which it is an error to exceed."""

    __slots__ = ("__weakref__", "_scope", "_seconds")

    _scope: CancelScope
    _seconds: float | None

    def reschedule(self, seconds: float | None) -> None:
        """Let the limit be `seconds` (float, >= 0) from now, or none. Too late once it has expired: RuntimeError.

        Thread-safe.
        """
        if self._scope.expired:
            raise RuntimeError(f"{self!r} has expired, and what is in it was told so: a later limit cannot undo that")
        self._scope.reschedule(seconds)
        self._seconds = seconds

    @property
    def expired(self) -> bool:
        """Whether the time was over before it was left."""
        return self._scope.expired

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._scope.__exit__(kind, error, traceback):
            return
        try:
            raise TimeoutError(f"{self!r}: not done within {self._seconds} seconds") from error
        finally:
            del self, kind, error, traceback

    def __repr__(self) -> str:
        return repr(self._scope)


class timeout(_Limit):
    """A context manager: TimeoutError when its body is not done within `seconds` (float, >= 0; None: no limit).

    When the time is over, whatever blocks inside raises roamlet.Cancelled, each time anew until the body is left; leaving it
    raises TimeoutError. A body that never blocks again is not interrupted, and a body that gets done all the same has no
    error. Time-outs nest: of those that have expired the outermost decides.
    """

    __slots__ = ()

    def __init__(self, seconds: float | None) -> None:
        self._scope = CancelScope(seconds, name="roamlet.timeout")
        self._seconds = seconds


class shield(_Limit):
    """A context manager: what cancels the tasklet, a scope or time-out around it, waits until the body is left.

    For finally blocks that must block. With `timeout`, in seconds (float, >= 0), the body itself is limited: TimeoutError.
    Does not keep off kill().
    """

    __slots__ = ()

    def __init__(self, timeout: float | None = None) -> None:
        self._scope = CancelScope(timeout, shield=True, name="roamlet.shield")
        self._seconds = timeout
