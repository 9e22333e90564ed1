"""A client of debugpy's adapter: what an editor says to it, by the Debug Adapter Protocol, over the adapter's pipes."""

import itertools
import json
import subprocess
import sys
from typing import Any

Message = dict[str, Any]


class Editor:
    """A program under debugpy. Leaving the `with` ends it. Calls block until the adapter answers; the test's limit ends them."""

    def __init__(self, program: str, breakpoints: list[int], environment: dict[str, str]) -> None:
        self._words = program, breakpoints, environment
        self._numbers = itertools.count(1)
        self._events: list[Message] = []

    def __enter__(self) -> "Editor":
        program, breakpoints, environment = self._words
        self._adapter = subprocess.Popen(
            [sys.executable, "-m", "debugpy.adapter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            self.ask("initialize", adapterID="test", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
            launch = self._send(
                "launch", program=program, python=[sys.executable], console="internalConsole", env=environment
            )
            self.event("initialized")
            lines = [{"line": line} for line in breakpoints]
            self.ask("setBreakpoints", source={"path": program}, breakpoints=lines)
            self.ask("configurationDone")
            self._answer(launch)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        assert self._adapter.stdin is not None
        assert self._adapter.stdout is not None
        self._adapter.stdin.close()  # the adapter ends then, and the program with it
        try:
            self._adapter.wait(10)
        except subprocess.TimeoutExpired:
            self._adapter.kill()
            self._adapter.wait()
        self._adapter.stdout.close()

    def ask(self, command: str, **arguments: Any) -> Message:
        """Send a request; what is answered."""
        return self._answer(self._send(command, **arguments))

    def event(self, *names: str) -> Message:
        """The next event of one of these names, with its name."""
        while True:
            for index, message in enumerate(self._events):
                if message["event"] in names:
                    return self._events.pop(index)
            self._take(self._read())

    def stopped(self) -> tuple[int, str, int]:
        """Wait until the program stands: the thread, the function and the line."""
        thread = self.event("stopped")["body"]["threadId"]
        frame = self.ask("stackTrace", threadId=thread)["stackFrames"][0]
        self.frame = frame["id"]
        return thread, frame["name"], frame["line"]

    def printed(self) -> str:
        """What the program has written to stdout, when it has ended."""
        self.event("terminated")
        outputs = [message["body"] for message in self._events if message["event"] == "output"]
        return "".join(each["output"] for each in outputs if each.get("category") == "stdout")

    def _send(self, command: str, **arguments: Any) -> int:
        number = next(self._numbers)
        message = {"seq": number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        assert self._adapter.stdin is not None
        self._adapter.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._adapter.stdin.flush()
        return number

    def _answer(self, number: int) -> Message:
        while True:
            message = self._read()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], message
                return message.get("body") or {}
            self._take(message)

    def _take(self, message: Message) -> None:
        if message["type"] == "event":
            self._events.append(message)

    def _read(self) -> Message:
        assert self._adapter.stdout is not None
        length = 0
        while (line := self._adapter.stdout.readline()) != b"\r\n":
            assert line, "the adapter has ended"
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: Message = json.loads(self._adapter.stdout.read(length))
        return message
