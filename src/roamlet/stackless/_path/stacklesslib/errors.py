"""The exceptions of stacklesslib. Its TimeoutError is a RuntimeError, and not the builtin of that name."""


class TimeoutError(RuntimeError):
    """The time given to a call or to a `with timeout()` is over."""


class CancelledError(RuntimeError):
    """What was waited for was cancelled or killed."""


class AsyncCallFailed(RuntimeError):
    """For programs that raise it when an asynchronous call fails; nothing here does."""
