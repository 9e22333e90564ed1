"""The log of a run: which way each step of a task went, and what it cost. A line of JSON for each, for recap and doctor.

No command, parameter or output is written, since those may hold secrets. The file is the user's own, 0600.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from roamlet_ansible.broker import protocol
from roamlet_ansible.broker.client import BrokerError, Client


def write(path: str, **line: Any) -> None:
    """Append one line. Workers do it at the same time: a write of one line is not divided. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n")
    finally:
        os.close(descriptor)


class RecordingClient(Client):
    """A client that has the broker count what each request costs, and writes it down."""

    def __init__(self, folder: str, controller: int, path: str, task: str, host: Callable[[], str]) -> None:
        super().__init__(folder, controller)
        self._path = path
        self._task = task
        self._host = host

    def ask(self, header: protocol.Header, blobs: Sequence[bytes] = ()) -> tuple[protocol.Header, list[bytes]]:
        """As Client.ask()."""
        started = time.monotonic()
        answer: protocol.Header = {}
        error = ""
        try:
            answer, parts = super().ask({**header, "count": True}, blobs)
        except BrokerError as failure:
            error = failure.kind
            raise
        finally:
            turnarounds, down, up = answer.get("cost", (0, 0, 0))
            write(
                self._path,
                task=self._task,
                host=self._host(),
                request=header["do"],
                seconds=round(time.monotonic() - started, 6),
                turnarounds=turnarounds,
                down=down,
                up=up,
                error=error,
            )
        return answer, parts
