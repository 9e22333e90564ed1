"""The contract of the C part of roamlet.io: the hub of a thread, calls on descriptors, and the socket."""

import socket
from collections.abc import Callable
from selectors import SelectorKey
from typing import Any, Literal, Self, TypeAlias, TypeVar, final

from _typeshed import ReadableBuffer, WriteableBuffer

_Address: TypeAlias = Any
_T = TypeVar("_T")

QUEUE_OF_WRITERS: int
"""For roamlet.diagnose: where in a descriptor the queue of those is that wait to write, as core.survey() has it."""

class Socket(socket.socket):
    """A socket whose calls block one tasklet only; otherwise the standard library's, which it is a subclass of.

    See roamlet.io.socket.
    """

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Return what has come, at most `bufsize` bytes (of a stream 64 kB at once); b"" at the end."""
    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into a buffer; return how many bytes."""
    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, _Address]:
        """Return what has come, and from which address."""
    def recvfrom_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> tuple[int, _Address]:
        """Receive into a buffer; return how many bytes, and from which address."""
    def recvmsg(
        self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /
    ) -> tuple[bytes, list[tuple[int, int, bytes]], int, _Address]:
        """Return data, ancillary data, flags and address."""
    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        """Send what there is room for (of a stream at most 256 kB); return how many bytes."""
    def sendall(self, data: ReadableBuffer, flags: int = 0, /) -> None:
        """Send all of it. The time-out limits the whole call; how much was sent is not known after an exception."""
    def accept(self) -> tuple[socket.socket, _Address]:
        """Wait for a connection; return its socket and the address of the other side."""
    def connect(self, address: _Address, /) -> None:
        """Connect. Names of hosts are looked up on a worker thread."""
    def connect_ex(self, address: _Address, /) -> int:
        """Connect; return 0 or the errno of what failed."""
    def shutdown(self, how: int, /) -> None:
        """End one direction or both; a tasklet that waits there goes on."""
    def detach(self) -> int:
        """Close the socket but not its descriptor, and return that; calls that wait for it raise OSError.

        The descriptor blocks if the socket had no time-out.
        """
    def settimeout(self, seconds: float | None, /) -> None:
        """Let calls raise TimeoutError after so many seconds; None: never; 0: BlockingIOError at once."""
    def gettimeout(self) -> float | None:
        """The time-out in seconds, or None."""
    def setblocking(self, flag: bool, /) -> None:
        """settimeout(None) if true, settimeout(0) if not. The descriptor itself never blocks."""
    def getblocking(self) -> bool:
        """Whether the time-out is not 0."""
    def _until_done(self, name: str, operation: Callable[..., _T], /, *args: Any) -> _T:
        """Return operation(*args), called again whenever it raised SSLWantReadError or SSLWantWriteError and the wait is over.

        Raises TimeoutError as ssl.SSLSocket does: "The <name> operation timed out". With a time-out of 0 it is called once.
        """

@final
class Watch:
    """A lasting watch on a descriptor, an epoll's say, which one tasklet waits for again and again."""

    def __new__(cls, fd: int) -> Self: ...
    def wait(self, timeout: float | None = None, daemon: bool = False) -> Literal[0, 1, 2]:
        """Block this tasklet until the descriptor is readable (1), wake() is called (2) or `timeout` seconds have passed (0).

        Returns at once when it is readable already, or wake() was called before. A `daemon` wait neither keeps
        roamlet.run() going nor hides a deadlock. OSError when the descriptor is not open or the watch is closed meanwhile.
        """
    def select(
        self, keys: dict[int, SelectorKey], timeout: float | None = None, daemon: bool = False
    ) -> list[tuple[SelectorKey, int]] | None:
        """What an epoll has found, waiting up to `timeout` seconds for the first.

        Pairs of a key of `keys`, a dict of selectors.SelectorKey by descriptor, and its directions. None after wake(). With the
        int 0 it only looks. Blocks this tasklet only. Otherwise like wait(). Linux.
        """
    def wake(self) -> None:
        """End the wait that is under way, or the next one. Thread-safe; does not switch."""
    def close(self) -> None:
        """Take the descriptor out of the hub's set, before it is closed. A waiting tasklet raises OSError."""

def wait_readable(fd: int, timeout: float | None = None, daemon: bool = False) -> None:
    """Block this tasklet until reading from `fd` would not block: there is data, an end or an error.

    Raises TimeoutError after `timeout` seconds, OSError when `fd` is not open or is closed (io.close) meanwhile.
    """

def wait_writable(fd: int, timeout: float | None = None, daemon: bool = False) -> None:
    """Block this tasklet until writing to `fd` would not block. Otherwise like wait_readable."""

def read(fd: int, size: int, timeout: float | None = None, daemon: bool = False) -> bytes:
    """Return what `fd` has, 1 to `size` bytes, waiting for the first; b"" at its end.

    `fd` may be blocking or not. Blocks this tasklet only. Raises TimeoutError, OSError as os.read does.
    """

def write(fd: int, data: ReadableBuffer, timeout: float | None = None, daemon: bool = False) -> int:
    """Write all of `data` to `fd` and return its length in bytes. `timeout` limits each wait, not their sum.

    `fd` may be blocking or not: it is written to as it can take it. Blocks this tasklet only. Raises TimeoutError or
    OSError (BrokenPipeError when the reading end is closed) with part of the data written.
    """

def close(fd: int, /) -> None:
    """Close `fd`; tasklets that wait for it, of any thread, raise OSError (EBADF). Does not block or switch."""

def may_be_ready(fd: int, writing: bool, timeout: float | None, /) -> bool:
    """Block this tasklet until a call on `fd` may find something to do: True, also when it is closed or was never open.

    False after `timeout` seconds (None: never).
    """

def let_go(fd: int, /) -> None:
    """Let tasklets that wait for `fd`, of any thread, raise OSError (EBADF): the caller is about to close it. Does not switch."""

def let_others_run() -> None:
    """Let other tasklets run now and then: called by what has found something to do at once. May switch; obeys cancelled scopes."""

def poll_now(interest: dict[int, int], /) -> list[tuple[int, int]]:
    """Return what select.poll.poll(0) would find for `interest`, events by descriptor. Keeps the GIL; does not block or switch."""

def epoll_now(fd: int, most: int, /) -> list[tuple[int, int]]:
    """Return what select.epoll.poll(0, most) would find on the open epoll `fd`. Keeps the GIL; does not block or switch. Linux."""

def set_responsive(on: bool, /) -> None:
    """Begin or end once to want a short switch interval; see roamlet.responsive."""

def configure(socket_type: type[Socket], look_up: Callable[[int, int, int, _Address], _Address], /) -> None:
    """Say what accept() makes, and what finds the numeric form of an address with a name in it."""

def forked() -> None:
    """Called in a forked child: make this thread's hub anew."""
