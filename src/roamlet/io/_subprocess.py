"""Child processes: what the standard library's subprocess has, each call blocking its tasklet only.

Public as roamlet.io.subprocess. What is not here is the standard library's: the constants and exceptions are the same objects.
"""

import fcntl
import io
import os
import select
import selectors
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import (
    DEVNULL,
    PIPE,
    STDOUT,
    CalledProcessError,
    CompletedProcess,
    SubprocessError,
    TimeoutExpired,
)
from types import TracebackType
from typing import IO, Any, AnyStr

from roamlet.core import CancelScope
from roamlet.io._native import wait_readable
from roamlet.io._pipes import PipeEnd
from roamlet.io._processes import wait_process

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "CompletedProcess",
    "Popen",
    "SubprocessError",
    "TimeoutExpired",
    "call",
    "check_call",
    "check_output",
    "run",
]

_CHUNK = 64 * 1024  # bytes that are moved in one go; a pipe holds as many


class Popen(subprocess.Popen[AnyStr]):
    """A child process, as subprocess.Popen has it, that is waited for and talked to without blocking the thread.

    The arguments are those of subprocess.Popen. Starting it takes the thread for some milliseconds: until the child has begun its
    program, or it is known why it cannot. stdin, stdout and stderr are files of Python's io over pipes of roamlet's; each serves
    one tasklet at a time.

    Leaving its `with` normally closes the pipes and waits for the child, as in the standard library. Leaving it by an
    exception (killed, cancelled and out of time among them) kills the child with SIGKILL and reaps it at once.
    """

    def __init__(
        self,
        args: Any,
        bufsize: int = -1,
        executable: Any = None,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        *,
        text: bool | None = None,
        universal_newlines: bool | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        pipesize: int = -1,
        **options: Any,
    ) -> None:
        if text is not None and universal_newlines is not None and bool(text) != bool(universal_newlines):
            raise SubprocessError("text and universal_newlines say different things: pass one of them")
        text_mode = bool(encoding or errors or text or universal_newlines)
        if bufsize == 1 and not text_mode:
            message = "line buffering (bufsize=1) isn't supported in binary mode, the default buffer size will be used"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        self._ends: dict[str, PipeEnd] = {}
        self._conversation: _Conversation | None = None
        wanted = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        with _pipes_for(wanted, self._ends, pipesize) as handles:
            super().__init__(args, bufsize, executable, **handles, **options)
        self.encoding: str | None = encoding
        self.errors: str | None = errors
        self.pipesize = pipesize
        self.text_mode = text_mode
        for name, end in self._ends.items():
            setattr(self, name, _file(end, bufsize, self.text_mode, encoding, errors))

    def wait(self, timeout: float | None = None) -> int:
        """Block this tasklet until the child has ended; return its exit code, -N when signal N ended it.

        Raises TimeoutExpired after `timeout` seconds; the child goes on.
        """
        try:
            return wait_process(self, None if timeout is None else max(timeout, 0))
        except TimeoutError:
            raise TimeoutExpired(self.args, timeout or 0) from None

    def communicate(self, input: Any = None, timeout: float | None = None) -> Any:
        """Send `input` to the child, read what it says to its end, wait for it; return (stdout, stderr), None without a pipe.

        Blocks this tasklet only, however full the pipes are. Raises TimeoutExpired after `timeout` seconds: the child goes on,
        and another communicate() goes on where this one was, losing nothing.
        """
        if self._conversation is None:
            files = {name: getattr(self, name) for name in self._ends}
            self._conversation = _Conversation(self._ends, files, self.text_mode, input)
        elif input is not None:
            raise ValueError("communicate() has begun with other input: go on with communicate(timeout=...) alone")
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._conversation.go_on(deadline)
            self.wait(_left(deadline))
        except (TimeoutError, TimeoutExpired):
            output, errors = self._conversation.said()
            raise TimeoutExpired(self.args, timeout or 0, output, errors) from None
        return self._conversation.result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._end()
            return
        broken: OSError | None = None
        try:
            for name in ("stdout", "stderr", "stdin"):
                try:
                    self._close(name)
                except OSError as failure:  # a child that does not read any more; it is waited for nevertheless
                    broken = failure
            self.wait()
        except BaseException:
            broken = None  # its traceback holds this frame
            self._end()
            raise
        if broken is not None:
            try:
                raise broken
            finally:
                del broken

    def _close(self, name: str) -> None:
        """Close one of the pipes; what is in the buffer of stdin is written first."""
        file = getattr(self, name)
        if name in self._ends:
            if name != "stdin" or file is None:
                self._ends[name].close()  # also while another tasklet waits in it, whose buffer would refuse
            with suppress(RuntimeError):
                if file is not None:
                    file.close()

    def _end(self) -> None:
        """Kill the child and reap it; leave no descriptor open, and write nothing that is still in a buffer."""
        self.kill()
        for name, end in self._ends.items():
            end.close()  # what a buffer holds has nowhere to go; a tasklet that waits here is told
            with suppress(ValueError):
                self._close(name)
        try:
            with CancelScope(shield=True):
                wait_process(self)
        except BaseException:
            super().wait()  # killed while it waits: the child dies in no time, so let the thread wait for that
            raise


def _file(end: PipeEnd, bufsize: int, text: bool, encoding: str | None, errors: str | None) -> IO[Any]:
    """The file that stands for a pipe in a Popen, buffered as the standard library does."""
    file: Any = end
    size = io.DEFAULT_BUFFER_SIZE if bufsize in (-1, 1) else bufsize
    if bufsize != 0:
        file = io.BufferedReader(end, size) if end.readable() else io.BufferedWriter(end, size)
    if not text:
        return file  # type: ignore[no-any-return] # a PipeEnd is an IO[bytes], but not by name
    if end.readable():
        return io.TextIOWrapper(file, encoding=encoding, errors=errors)
    return io.TextIOWrapper(file, encoding, errors, write_through=True, line_buffering=bufsize == 1)


def _pipe_end(handle: Any) -> PipeEnd | None:
    """The pipe's end below a file that is to be a child's: another child's stdout, for example."""
    handle = getattr(handle, "buffer", handle)
    handle = getattr(handle, "raw", handle)
    return handle if isinstance(handle, PipeEnd) else None


@contextmanager
def _pipes_for(handles: dict[str, Any], ends: dict[str, PipeEnd], size: int) -> Iterator[dict[str, Any]]:
    """Yield `handles` with the child's end of a new pipe for each PIPE; ours go into `ends`. The child's are closed
    afterwards, and everything if starting fails.
    """
    given, theirs = dict(handles), []
    try:
        for name, handle in handles.items():
            end = _pipe_end(handle)
            if end is not None and not end.closed:
                end.share()
            if handle == PIPE:
                read_fd, write_fd = os.pipe()
                given[name], ours = (read_fd, write_fd) if name == "stdin" else (write_fd, read_fd)
                theirs.append(given[name])
                ends[name] = PipeEnd(ours, "w" if name == "stdin" else "r")
                if size > 0 and hasattr(fcntl, "F_SETPIPE_SZ"):
                    fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, size)
        yield given
    except BaseException:
        for ours_end in ends.values():
            ours_end.close()
        ends.clear()
        raise
    finally:
        for fd in theirs:
            os.close(fd)


class _Conversation:
    """What communicate() has still to send, and what it has heard. It knows the process's pipes, not the process."""

    def __init__(self, ends: dict[str, PipeEnd], files: dict[str, Any], text: bool, input: Any) -> None:
        self._ends = ends
        self._files = files
        self._text = text
        self._heard: dict[str, list[bytes]] = {name: [] for name in files if name != "stdin"}
        self._unsent = memoryview(b"")
        stdin = files.get("stdin")
        if stdin is None:
            return
        try:
            stdin.flush()
        except BrokenPipeError:
            pass
        except ValueError:  # CPython lets it pass from 3.14 on that the program's stdin is closed
            if not stdin.closed:
                raise
        if input:
            data = input.encode(stdin.encoding, stdin.errors) if text else input
            self._unsent = memoryview(data).cast("B")
        else:
            _close_quietly(stdin)

    def go_on(self, deadline: float | None) -> None:
        """Send and hear until every pipe is closed. TimeoutError when the deadline comes first."""
        with selectors.DefaultSelector() as selector:
            for name, end in self._ends.items():
                if not end.closed:
                    event = selectors.EVENT_WRITE if name == "stdin" else selectors.EVENT_READ
                    selector.register(end.fileno(), event, name)
            while selector.get_map():
                wait_readable(selector.fileno(), _left(deadline))  # one descriptor that is ready when any of them is
                for key, _ in selector.select(0):
                    if not (self._send(key.fd) if key.data == "stdin" else self._hear(key.data, key.fd)):
                        selector.unregister(key.fd)
                        _close_quietly(self._files[key.data])

    def _send(self, fd: int) -> bool:
        """Send some; False when there is no more to send, or the reading end is closed."""
        try:
            # A blocking one, which another child shares, takes this much at once when it is ready.
            size = select.PIPE_BUF if os.get_blocking(fd) else _CHUNK
            self._unsent = self._unsent[os.write(fd, self._unsent[:size]) :]
        except BlockingIOError:  # another tasklet was faster
            return True
        except BrokenPipeError:
            return False
        return len(self._unsent) > 0

    def _hear(self, name: str, fd: int) -> bool:
        """Hear some; False at the end."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:  # another tasklet was faster
            return True
        self._heard[name].append(data)
        return bool(data)

    def said(self) -> tuple[bytes | None, bytes | None]:
        """What the child has said so far on stdout and stderr, as bytes; None without a pipe."""
        return self._said("stdout"), self._said("stderr")

    def result(self) -> tuple[Any, Any]:
        """What communicate() returns."""
        return self._decoded("stdout"), self._decoded("stderr")

    def _said(self, name: str) -> bytes | None:
        return b"".join(self._heard[name]) if name in self._heard else None

    def _decoded(self, name: str) -> Any:
        data = self._said(name)
        if data is None or not self._text:
            return data
        file = self._files[name]
        return data.decode(file.encoding, file.errors).replace("\r\n", "\n").replace("\r", "\n")


def _close_quietly(file: IO[Any]) -> None:
    with suppress(BrokenPipeError):
        file.close()


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def run(
    *popenargs: Any,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> CompletedProcess[Any]:
    """Like subprocess.run: run a command to its end; return a CompletedProcess. Blocks this tasklet only.

    When `timeout` seconds have passed, or this tasklet is killed or cancelled, the child is killed. Raises TimeoutExpired, and
    CalledProcessError when `check` is true and its exit code is not 0.
    """
    if input is not None:
        if options.get("stdin") is not None:
            raise ValueError("stdin and input may not both be used: input is sent through a pipe of its own")
        options["stdin"] = PIPE
    if capture_output:
        if options.get("stdout") is not None or options.get("stderr") is not None:
            raise ValueError("stdout and stderr may not be used with capture_output, which makes pipes of both")
        options["stdout"] = options["stderr"] = PIPE
    with Popen(*popenargs, **options) as process:
        stdout, stderr = process.communicate(input, timeout)
    code = process.returncode
    if check and code:
        raise CalledProcessError(code, process.args, stdout, stderr)
    return CompletedProcess(process.args, code, stdout, stderr)


def call(*popenargs: Any, timeout: float | None = None, **options: Any) -> int:
    """Run a command to its end and return its exit code. Otherwise like run()."""
    return run(*popenargs, timeout=timeout, **options).returncode


def check_call(*popenargs: Any, timeout: float | None = None, **options: Any) -> int:
    """Like call(), but CalledProcessError is raised for an exit code other than 0."""
    return run(*popenargs, timeout=timeout, check=True, **options).returncode


def check_output(*popenargs: Any, timeout: float | None = None, **options: Any) -> Any:
    """Run a command and return what it wrote to stdout. CalledProcessError for an exit code other than 0."""
    for name in ("stdout", "check"):
        if name in options:
            raise ValueError(f"{name} argument not allowed, it will be overridden: leave it out, or use run()")
    return run(*popenargs, stdout=PIPE, timeout=timeout, check=True, **options).stdout
