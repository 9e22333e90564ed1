"""One request of another process for a trace of this one, from its first byte to the last one of the answer.

What travels: lines of JSON, and after the last line the bytes of encoding.py. The asker sends one line, {"form", "seconds",
"events", "hold"}; it is answered by {"heard"} at once, {"began"} when the trace has, and {"parts": [sizes], "forks"} with the
parts; or by {"refused"} or {"failed"} with a text. A further byte of the asker's ends the trace early. Where the connection ends
the trace does, and is dropped. Nothing that the asker sends is run or looked up.
"""

import importlib
import json
import os
import select
import time
from typing import TYPE_CHECKING, Any

from roamlet.core import os_threads

if TYPE_CHECKING:
    from _socket import socket

FORM = "roamlet.trace.1"
LONGEST = 3600.0  # seconds, of a trace
MOST = 1 << 28  # bytes of events in an answer
LONGEST_REQUEST = 4096  # bytes
PATIENCE = 10.0  # seconds for the request to arrive
SLOWEST = 30.0  # seconds in which the asker takes nothing of the answer
MSG_NOSIGNAL = 0x4000  # the program may have SIGPIPE end the process
PIECE = 1 << 18


class Session:
    """A connection, non-blocking, and how far it is. `asker`: the process at the other end; `forks`: how often this one forked."""

    def __init__(self, connection: "socket", asker: int) -> None:
        self.asker = asker
        self.forks = 0
        self._connection = connection
        self._request = b""
        self._trace: Any = None
        self._seconds = 0.0
        self._until = time.monotonic() + PATIENCE
        self._answer: list[memoryview] = []
        self._own_threads: set[int] = set()

    @property
    def descriptor(self) -> int:
        return self._connection.fileno()

    def events(self) -> int:
        return select.POLLIN | (select.POLLOUT if self._answer else 0)

    def seconds(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def attend(self, ready: bool) -> bool:
        """Go on: something can be read or written, or the time is over. False where the session is over: close() it."""
        try:
            if self._answer:
                return self._send()
            late = time.monotonic() >= self._until
            if self._trace is not None:
                self._own_threads.add(os_threads.get_ident())  # another one since a fork
                if late or (ready and self._connection.recv(1)):
                    return self._end()
                return not ready  # it was closed
            if ready:
                return self._read()
            return not late
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:  # the asker has ended
            return False

    def refuse(self, text: str) -> None:
        """Say why not. It is not sent where the asker has gone, or takes nothing."""
        self._tell(refused=text)

    def close(self) -> None:
        """Forget it; a trace that is being taken ends, and is dropped."""
        trace, self._trace = self._trace, None
        try:
            if trace is not None:
                trace.stop()
        finally:
            self._answer = []
            self._connection.close()

    def leave_to_parent(self) -> None:
        """In a forked child: close the connection; the trace has ended in it by itself."""
        self._trace = None
        self._connection.close()

    def _tell(self, **line: Any) -> bool:
        try:
            self._connection.send(json.dumps(line).encode() + b"\n", MSG_NOSIGNAL)  # the first ones: there is room
        except OSError:
            return False
        return True

    def _read(self) -> bool:
        data = self._connection.recv(LONGEST_REQUEST)
        self._request += data
        if not data or len(self._request) > LONGEST_REQUEST:
            return False
        if not self._request.endswith(b"\n"):
            return True
        return self._begin()

    def _begin(self) -> bool:
        try:
            asked = json.loads(self._request)
            form, seconds, events, hold = (asked[name] for name in ("form", "seconds", "events", "hold"))
            if form != FORM:
                self.refuse(
                    f"process {os.getpid()} runs another version of roamlet, which knows {FORM} and not {form:.80}"
                )
                return False
            seconds, events, hold = float(seconds), int(events), float(hold)
            if not 0 < seconds <= LONGEST:
                raise ValueError(f"{seconds} seconds: a trace takes above 0 and at most {LONGEST:g}")
            if not self._tell(heard=os.getpid()):
                return False
            # Here: a process is prepared more often than it is traced.
            trace = _module("roamlet.diagnose.tracing").Trace(events=events, hold=hold)
            trace.start()
        except (ValueError, TypeError, KeyError, OverflowError, RuntimeError) as error:
            self.refuse(f"process {os.getpid()}: {error}")
            return False
        except Exception as error:  # of an import, where the program was taken away or changed
            self._tell(failed=f"process {os.getpid()} cannot take a trace: {type(error).__name__}: {error}")
            return False
        self._trace = trace
        self._own_threads.add(os_threads.get_ident())
        self._until = time.monotonic() + seconds
        return self._tell(began=True)

    def _end(self) -> bool:
        trace, self._trace = self._trace, None
        assert trace is not None
        trace.stop()
        try:
            own = trace.recordings[0]
            for ident in self._own_threads:
                own.leave_out(ident)
            parts = _module("roamlet.diagnose.attaching.encoding").encoded(trace.recordings, MOST)
        except Exception as error:
            self._tell(failed=f"process {os.getpid()} has taken a trace, and cannot send it: {error}")
            return False
        line = json.dumps({"parts": [len(part) for part in parts], "forks": self.forks}).encode() + b"\n"
        self._answer = [memoryview(part) for part in (line, *parts) if part]
        self._until = time.monotonic() + SLOWEST
        return self._send()

    def _send(self) -> bool:
        sent = 0
        try:
            while self._answer:
                sent = self._connection.send(self._answer[0][:PIECE], MSG_NOSIGNAL)
                self._until = time.monotonic() + SLOWEST
                self._answer[0] = self._answer[0][sent:]
                if not self._answer[0]:
                    del self._answer[0]
        except BlockingIOError:
            return time.monotonic() < self._until
        return False


def _module(name: str) -> Any:
    """By its name, because it imports roamlet.remote, and roamlet itself imports this one where ROAMLET_DUMP is set."""
    return importlib.import_module(name)
