"""A parent in a hundred lines, which blocks: starts a target over pipes, pushes frames, waits for frames."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from roamlet.wire import build, codec, protocol
from roamlet.wire.modules import bundle
from roamlet.wire.values import large_messages

Frame = tuple[int, int, int, int, bytes]
CONTEXT = 7
PATIENCE = 20.0


class Ended(Exception):
    """The target closed the link."""


class Target:
    """One target. `hello` is its HELLO; `streams` and `logs` collect what it printed and logged."""

    def __init__(
        self,
        python: str,
        frames: bytes = b"",
        wrap: Callable[[list[str]], Sequence[str]] = list,
        pass_fds: Sequence[int] = (),
        **config: Any,
    ) -> None:
        """`frames` are pushed with CONFIG; `wrap` may put another program around the command; the rest goes to CONFIG."""
        self.token = build.new_token()
        self.process = subprocess.Popen(
            list(wrap(build.command(python, self.token))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=pass_fds,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.down, self.up = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.streams = {1: b"", 2: b""}
        self.logs: list[tuple[Any, ...]] = []
        self.frames: list[Frame] = []
        self.wants: dict[str, int] = {}
        self.arriving: dict[int, large_messages.Arrival] = {}
        self.hello: dict[str, Any] = {}
        self.scanner = build.StartScanner(self.token)
        self.reader = protocol.FrameReader()
        self._last = 0
        self.write(build.preamble({"id": CONTEXT, "name": "target", **config}) + frames)

    def start(self) -> "Target":
        while not self.scanner.feed(self.read()):
            pass
        if self.scanner.status == protocol.STARTED:
            self.take(self.scanner.rest)
            self.hello = codec.loads(self.wait_for(protocol.HELLO, 0)[4])
        return self

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.down, view) :]

    def send(self, kind: int, number: int, body: bytes) -> None:
        self.write(protocol.frame(CONTEXT, 0, number, kind, body))

    def read(self) -> bytes:
        if not select.select([self.up], [], [], PATIENCE)[0]:
            raise AssertionError(f"nothing came within {PATIENCE} seconds; stderr: {self.stderr()!r}")
        data = os.read(self.up, 1 << 16)
        if not data:
            raise Ended(f"status {self.process.wait(PATIENCE)}; stderr: {self.stderr()!r}")
        return data

    def stderr(self) -> bytes:
        """What came by the standard error that the process was started with; waits for its end when that is near."""
        assert self.process.stderr is not None
        if self.process.poll() is None:
            return b"(still running)"
        return self.process.stderr.read()

    def take(self, data: bytes) -> None:
        for frame in self.reader.feed(data) if data else ():
            _, source, number, kind, body = frame
            assert source == CONTEXT
            if kind == protocol.STREAM:
                self.streams[number] += body
            elif kind == protocol.LOG:
                self.logs.append(codec.loads(body))
            elif kind == protocol.WANT:
                name = codec.loads(body)
                if name.startswith("roamlet.wire."):
                    parts = build.ASKED[name.removeprefix("roamlet.wire.")]
                    self.send(protocol.MODULES, number, bundle.pack([build.part(part) for part in parts]))
                    continue
                self.wants[name] = number
                self.frames.append(frame)
            elif kind & protocol.KIND_MORE:
                if number not in self.arriving:
                    self.arriving[number] = large_messages.Arrival(body)
                elif (message := self.arriving[number].add(body)) is not None:
                    del self.arriving[number]
                    self.frames.append((frame[0], source, number, kind & ~protocol.KIND_MORE, message))
            else:
                self.frames.append(frame)

    def wait_for(self, kind: int, number: int | None = None) -> Frame:
        """Take the first frame of this kind (and id) out of what came, waiting for it."""
        while True:
            for frame in self.frames:
                if frame[3] == kind and number in (None, frame[2]):
                    self.frames.remove(frame)
                    return frame
            self.take(self.read())

    def wait_until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            self.take(self.read())

    def begin(self, name: str, *args: Any, **kwargs: Any) -> int:
        """Send a call of "module:function" and return its number."""
        module, _, function = name.partition(":")
        self._last += 1
        self.send(protocol.CALL, self._last, codec.dumps((module, function, args, kwargs or None)))
        return self._last

    def answer(self, number: int) -> Any:
        """Wait for the answer of a call: the value, or the dict of ERROR as an ErrorAnswer."""
        while True:
            for frame in self.frames:
                if frame[2] == number and frame[3] in (protocol.RESULT, protocol.ERROR):
                    self.frames.remove(frame)
                    value = codec.loads(frame[4])
                    return ErrorAnswer(value) if frame[3] == protocol.ERROR else value
            self.take(self.read())

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.answer(self.begin(name, *args, **kwargs))

    def modules(self, sources: dict[str, str], packages: Sequence[str] = (), number: int = 0, **more: Any) -> None:
        self.send(protocol.MODULES, number, packed(sources, packages, **more))

    def close(self) -> int:
        """Say goodbye and return the exit status; kill what does not go."""
        assert self.process.stdin is not None
        if self.process.poll() is None and not self.process.stdin.closed:
            try:
                self.send(protocol.GOODBYE, 0, b"")
                while True:
                    self.take(self.read())
            except (Ended, BrokenPipeError):
                pass
        return self.end()

    def end(self) -> int:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def seconds_to_die(self) -> float:
        begin = time.monotonic()
        self.process.wait(PATIENCE)
        return time.monotonic() - begin


class ErrorAnswer(dict[str, Any]):
    """The body of an ERROR."""


def packed(sources: dict[str, str], packages: Sequence[str] = (), **more: Any) -> bytes:
    """A bundle: name -> source (None for a namespace package); `packages` names those that are packages."""
    modules = []
    for name, source in sources.items():
        path = "/parent/" + name.replace(".", "/")
        if source is None:
            modules.append((name, bundle.NAMESPACE, b"", path))
        elif name in packages:
            modules.append((name, bundle.PACKAGE, source.encode(), path + "/__init__.py"))
        else:
            modules.append((name, bundle.MODULE, source.encode(), path + ".py"))
    return bundle.pack(modules, **more)


def send_part(target: Any, name: str) -> None:
    """Send a part of the payload, those that it stands on before it, as a parent does."""
    parts = [*build.STANDS_ON.get(name, ()), name]
    target.send(protocol.MODULES, 0, bundle.pack([build.part(part) for part in parts]))
    for part in parts:
        if part not in build.CALLED:
            target.send(protocol.PART, 0, codec.dumps(part))
