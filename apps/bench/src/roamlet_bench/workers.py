"""A helper process that measures one thing at a time when asked, so that peers can take turns within one run.

`Worker` is the asking side: it starts a command and exchanges one line of JSON per question. programs/answers.py is the other
side, which needs nothing of roamlet.
"""

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class WorkerFailed(RuntimeError):
    """A measuring process died, raised or did not answer in time; the message carries the end of what it wrote to stderr."""


class Worker:
    """One measuring process, called `name` in messages. Use it in a `with`: leaving ends it, gently first. Not thread-safe."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=folder,
            env={**os.environ, **(environment or {})},
        )
        self._unread = b""

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, question: str, *, timeout: float = 120.0, **arguments: Any) -> Any:
        """Ask for `question(**arguments)` and wait for its answer, at most `timeout` seconds. Raises WorkerFailed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([question, arguments]).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._failed(f"is gone before it was asked for {question}") from error
        kind, value = json.loads(self._line(question, timeout))
        if kind == "error":
            raise self._failed(f"could not measure {question}: {value}")
        return value

    def close(self) -> None:
        """End the process: close its input, and kill it if it has not left after 10 seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):  # it may have died with a question unread
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _line(self, question: str, timeout: float) -> bytes:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        until = time.monotonic() + timeout
        while b"\n" not in self._unread:
            if not select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
                self._process.kill()
                raise self._failed(f"gave no answer to {question} within {timeout:.0f} s")
            data = os.read(fd, 65536)
            if not data:
                raise self._failed(f"died while it measured {question}")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _failed(self, what: str) -> WorkerFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):  # its last words come with its death, if it is dying
            self._process.wait(0.5)
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip()[-2000:]
        return WorkerFailed(f"the measuring process '{self.name}' {what}" + (f"\n{last}" if last else ""))
