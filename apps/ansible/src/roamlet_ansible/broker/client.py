"""What a worker asks of the broker."""

import os
import socket
from collections.abc import Sequence
from typing import Any

from . import protocol, start

Target = dict[str, Any]


class BrokerError(Exception):
    """What the broker answers when it could not do what was asked.

    `kind` is one of: "unreachable", "authentication", "no-python", "lost" (sent, and no answer came), "failed". The last one is
    also that of a request that the broker, or the target, does not understand.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Client:
    """A worker's connection to the broker of its run, made when it is first needed. One request at a time; not thread-safe."""

    def __init__(self, folder: str, controller: int) -> None:
        self._folder = folder
        self._controller = controller
        self._connection: socket.socket | None = None
        self._owner = 0  # the process that has made the connection: a forked child must not use it

    def ask(self, header: protocol.Header, blobs: Sequence[bytes] = ()) -> tuple[protocol.Header, list[bytes]]:
        """Send a request and return the answer. Blocks this thread. Raises BrokerError.

        Whatever interrupts it, such as the exception of a task's time-out, closes the connection: the broker then ends on
        the target what the request has begun.
        """
        connection = self._connected()
        try:
            protocol.send(connection, header, blobs)
            answer, parts = protocol.receive(connection)
        except OSError as error:
            self.close()
            raise BrokerError("lost", f"the broker of this run has ended before it answered: {error}") from None
        except BaseException:
            self.close()
            raise
        if "error" in answer:
            raise BrokerError(answer["error"], answer["text"])
        return answer, parts

    def tell(self, header: protocol.Header) -> None:
        """Send what the broker answers with nothing. Raises BrokerError when there is no broker."""
        try:
            protocol.send(self._connected(), header)
        except OSError as error:
            self.close()
            raise BrokerError("lost", f"the broker of this run has ended: {error}") from None

    def _connected(self) -> socket.socket:
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        try:
            self._connection = start.connect(self._folder, self._controller)
        except OSError as error:
            raise BrokerError("failed", f"the broker of this run cannot be started: {error}") from None
        self._owner = os.getpid()
        return self._connection

    def ask_if_running(self, header: protocol.Header) -> None:
        """Send a request if there is a broker, and wait for its answer; start none."""
        if self._connection is None or self._owner != os.getpid():
            self._connection, self._owner = start.running(self._folder), os.getpid()
        if self._connection is not None:
            self.ask(header)

    def close(self) -> None:
        """Close the connection. The next request makes a new one."""
        if self._connection is not None and self._owner == os.getpid():
            self._connection.close()
        self._connection = None
