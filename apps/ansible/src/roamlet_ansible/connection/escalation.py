"""The dialogue with a become plugin's command: its prompt, the password, its marker of success, its messages of failure.

Core's ssh plugin watches the same things in the same order; which text is a prompt, only the become plugin knows.
"""

import time
from typing import Any, Protocol

from ansible.errors import AnsibleConnectionFailure, AnsibleError

POLL = 2.0  # seconds that the target waits for something new before it answers that there is nothing


class Conversation(Protocol):
    """A process on the target that waits for input."""

    def talk(self, data: bytes, eof: bool, wait: float) -> tuple[bytes, bytes, int | None]:
        """Write `data`, and return what came on stdout and stderr since, and the exit status once it has ended.

        Blocks until something comes, for `wait` seconds at most.
        """


def escalated(become: Any, conversation: Conversation, data: bytes, patience: float) -> tuple[int, bytes, bytes]:
    """Answer the prompt of `become`, write `data` once the command runs, and return (status, stdout, stderr).

    Lines that hold the prompt or the marker of success are left out. Blocks. Raises AnsibleError for a password that is missing or
    wrong, AnsibleConnectionFailure when there is neither a prompt nor success, and not a word for `patience` seconds.
    """
    watch = Watch(become, patience)
    code: int | None = None
    given = b""
    while code is None and not watch.passed:
        out, err, code = conversation.talk(given, False, min(POLL, patience))
        given = watch.read(out, err)
    if code is not None and not watch.passed:
        watch.ended()
    eof = True
    while code is None:
        out, err, code = conversation.talk(data, eof, POLL)
        data, eof = b"", False
        watch.read(out, err)
    out, err = watch.rest()
    return code, out, err


class Watch:
    """Reads the output of a become command. `passed` is true once it has let the command through."""

    def __init__(self, become: Any, patience: float) -> None:
        self._become = become
        self._patience = patience
        self._heard = time.monotonic()
        self._streams = [_Stream(), _Stream()]
        self._answered = False
        self.passed = become is None  # nothing is between us and the command: all that it says is its own

    def read(self, out: bytes, err: bytes) -> bytes:
        """Take what came on the two streams; return what is to be written: the password, or nothing. Raises as escalated()."""
        answer = b""
        now = time.monotonic()
        if out or err:
            self._heard = now
        elif not self.passed and now - self._heard >= self._patience:
            said = b"".join(self.rest()).decode("utf-8", "replace")
            raise AnsibleConnectionFailure(
                f"Timeout ({self._patience:g}s) waiting for privilege escalation prompt: {said}"
            )
        for stream, data in zip(self._streams, (out, err), strict=True):
            for line in stream.lines(data):
                answer += self._examined(stream, line)
        return answer

    def _examined(self, stream: "_Stream", line: bytes) -> bytes:
        become = self._become
        if self.passed:
            stream.keep(line)
        elif become.expect_prompt() and become.check_password_prompt(line):
            return self._password()
        elif become.success and become.check_success(line):
            self.passed = True
        else:
            if become.check_incorrect_password(line):
                raise AnsibleError(f"Incorrect {become.name} password")
            if become.check_missing_password(line):
                raise AnsibleError(f"Missing {become.name} password")
            stream.keep(b"")
            if not line.endswith(b"\n"):
                stream.begun = line  # a prompt may still become one
            else:
                stream.keep(line)
        return b""

    def _password(self) -> bytes:
        if self._answered:
            raise AnsibleError(f"Incorrect {self._become.name} password")
        self._answered = True
        return (self._become.get_option("become_pass") or "").encode("utf-8", "surrogateescape") + b"\n"

    def ended(self) -> None:
        """The command has ended without letting anything through. What it has said is the result, as over core's own plugin."""
        self.rest()

    def rest(self) -> tuple[bytes, bytes]:
        """All that was printed, but for the prompts and the marker."""
        for stream in self._streams:
            stream.keep(b"")
        return self._streams[0].kept, self._streams[1].kept


class _Stream:
    def __init__(self) -> None:
        self.kept = b""
        self.begun = b""  # a line without its end, which may be a prompt

    def keep(self, line: bytes) -> None:
        """Add a line, after the one that was begun: a carriage return before a prompt ends none, as core counts lines."""
        self.kept, self.begun = self.kept + self.begun + line, b""

    def lines(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        whole, self.begun = self.begun + data, b""
        return whole.splitlines(True)
