"""The loop of a server: serve(), which accepts connections and runs a tasklet for each of them."""

import errno
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, TypeAlias

from roamlet.core import sleep
from roamlet.io._sockets import Address, socket
from roamlet.sync._scope import scope
from roamlet.sync._spawn import COROUTINES

if TYPE_CHECKING:
    from logging import Logger

Handler: TypeAlias = Callable[[socket, Address], object]

# There is no room for one more connection at the moment, of which only time can make an end.
NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
PAUSE_SECONDS = 0.1

# The connection was gone before it was accepted: accept(2) of Linux says what happened to it on its way.
GONE = {
    *(errno.ECONNABORTED, errno.EPROTO, errno.EPERM),
    *(errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH),
}


def serve(listener: socket, handler: Handler) -> None:
    """Accept connections, and run handler(connection, address) for each in a tasklet of its own. Blocks this tasklet only.

    A connection is closed when its handler is done. What is wrong with one of them ends no other: an OSError of a handler
    (TimeoutError and ssl.SSLError are such, and an ExceptionGroup of nothing else counts as one) is logged to the logger
    roamlet.io.serve, where the other side is gone (ConnectionError, TimeoutError) as information, otherwise as a warning with
    its traceback. Any other error of a handler cancels the other handlers, and serve() raises an ExceptionGroup.

    While there are no descriptors or no memory left for one more connection (EMFILE and so on), it pauses, and says so once.
    When `listener` is closed, by whatever tasklet, it waits until the handlers are done and returns. When it is killed or
    cancelled, the handlers are cancelled, and waited for. The listener stays the caller's, to be closed.
    """
    if not isinstance(listener, socket):
        raise TypeError(
            f"serve() takes a listening socket of roamlet's, not {listener!r}, which would block the whole thread: "
            "make it with roamlet.io.create_server(address)"
        )
    code = getattr(handler, "__code__", None)
    if not callable(handler) or (isinstance(code, CodeType) and code.co_flags & COROUTINES):
        raise TypeError(
            f"serve() takes a plain function, handler(connection, address), which may block, not {handler!r}"
        )
    if listener.gettimeout() == 0:
        raise ValueError("this listener does not wait for connections: listener.setblocking(True) lets it")
    # Here, because it costs milliseconds at start-up; and now, because later there may be no descriptor to import with.
    import logging

    logger = logging.getLogger("roamlet.io.serve")
    with scope() as handlers:
        while (accepted := _accept(listener, logger)) is not None:
            handlers.spawn(_handle, (handler, *accepted, logger))
            del accepted  # the connection is its handler's


def _accept(listener: socket, logger: "Logger") -> tuple[socket, Address] | None:
    """The next connection; None when the listener was closed."""
    warned = False
    while True:
        try:
            return listener.accept()  # type: ignore[return-value] # what it makes is of ours
        except TimeoutError:  # the listener has one, or socket.setdefaulttimeout() gave it one
            continue
        except OSError as error:
            if listener.fileno() < 0:
                return None
            if error.errno in GONE:
                continue
            if error.errno not in NO_ROOM:
                raise
            if not warned:
                logger.warning("no more connections are accepted for the moment: %s", error)
                warned = True
        sleep(PAUSE_SECONDS)


def _handle(handler: Handler, connection: socket, address: Address, logger: "Logger") -> None:
    with connection:
        try:
            handler(connection, address)
        except (OSError, ExceptionGroup) as error:
            # In no variable: that would be a cycle with their tracebacks.
            if not all(isinstance(each, OSError) for each in _single(error)):
                raise
            if all(isinstance(each, (ConnectionError, TimeoutError)) for each in _single(error)):
                logger.info("the connection from %r was lost: %s", address, "; ".join(map(str, _single(error))))
            else:
                logger.warning("the connection from %r has failed", address, exc_info=error)


def _single(error: BaseException) -> Iterator[BaseException]:
    """It, or what is in the group that it is."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _single(each)
    else:
        yield error
