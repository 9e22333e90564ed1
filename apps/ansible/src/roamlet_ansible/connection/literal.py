"""Commands and files by a client's own command line, such as `docker exec`: for targets that have no Python, and other exceptions.

Each command starts the client anew, as the connection plugins do that users know. With roamlet_via it starts on the other host.
"""

import os
import selectors
import shlex
import subprocess
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.utils.display import Display

from roamlet_ansible.broker.client import BrokerError

BLOCK = 65536  # bytes that dd reads and writes at once

display = Display()

Output = tuple[int, bytes, bytes]


class Literal:
    """exec_command, put_file and fetch_file by `words()`. Goes after RoamletConnection: it uses through() and _broker() of that."""

    def words(self, command: str) -> list[str]:
        """The client's command line that runs `command`, which is for a shell, on the target."""
        raise NotImplementedError

    def client_environment(self) -> dict[str, str]:
        """Variables of the environment that the client starts with, beside those of this process."""
        return {}

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> Output:
        """Run a command on the target."""
        words = self.words(cmd)
        display.vvv(f"EXEC {cmd} BY {words[0]}", host=self._host())  # type: ignore[attr-defined]
        become = self.become if sudoable else None  # type: ignore[attr-defined]
        if become is not None and become.expect_prompt():
            from .escalation import escalated  # each task's process would import it, and seldom needs it

            if self.through() is not None:  # type: ignore[attr-defined]
                token = self._ask_there({"do": "start", "command": self._line(words), "tty": False})[0]["token"]
                return escalated(become, _There(self, token), in_data or b"", self._patience())  # type: ignore[attr-defined]
            with _Process(words, self.client_environment()) as process:
                return escalated(become, process, in_data or b"", self._patience())  # type: ignore[attr-defined]
        return self._run_client(words, in_data)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file to the target, by dd there."""
        display.vvv(f"PUT {in_path} TO {out_path}", host=self._host())  # type: ignore[attr-defined]
        name = to_bytes(in_path, errors="surrogate_or_strict")
        if not os.path.exists(name):
            raise AnsibleFileNotFound(f"file or module does not exist: {in_path}")
        with open(name, "rb") as file:
            data = file.read()
        count = "" if data else " count=0"
        code, out, err = self._run_client(self.words(f"dd of={shlex.quote(out_path)} bs={BLOCK}{count}"), data)
        if code:
            raise AnsibleError(f"failed to transfer file {in_path} to {out_path}:\n{to_text(out)}\n{to_text(err)}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file from the target, by dd there."""
        display.vvv(f"FETCH {in_path} TO {out_path}", host=self._host())  # type: ignore[attr-defined]
        code, out, err = self._run_client(self.words(f"dd if={shlex.quote(in_path)} bs={BLOCK}"), None)
        if code:
            raise AnsibleError(f"failed to fetch file {in_path} to {out_path}:\n{to_text(err)}")
        with open(to_bytes(out_path, errors="surrogate_or_strict"), "wb") as file:
            file.write(out)

    def _run_client(self, words: list[str], data: bytes | None) -> Output:
        if self.through() is not None:  # type: ignore[attr-defined]
            blobs = [] if data is None else [data]
            request = {"do": "exec", "command": self._line(words), "tty": False, "input": data is not None}
            answer, parts = self._ask_there(request, blobs)
            return answer["rc"], parts[0], parts[1]
        try:
            run = subprocess.run(
                words, input=data or b"", env=_environment(self.client_environment()), capture_output=True, check=False
            )
        except OSError as error:
            raise _not_started(words, error) from None
        return run.returncode, run.stdout, run.stderr

    def _line(self, words: list[str]) -> str:
        """One command line for a shell on the host that is gone through."""
        variables = [f"{name}={value}" for name, value in self.client_environment().items()]
        return shlex.join(["env", *variables, *words] if variables else words)

    def _ask_there(
        self, request: dict[str, Any], blobs: list[bytes] | None = None
    ) -> tuple[dict[str, Any], list[bytes]]:
        try:
            return self._broker().ask({**request, "target": self.through()}, blobs or ())  # type: ignore[attr-defined, no-any-return]
        except BrokerError as error:
            raise AnsibleConnectionFailure(
                f"{self._host()} is reached through {self.via()!r}, where no command could be run: {error}"  # type: ignore[attr-defined]
            ) from None


class LiteralBeyond(Literal):
    """With roamlet_via as Literal, on the host that is gone through; without it as core's class, the next of the bases."""

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> Output:
        """Run a command on the target."""
        return self._way().exec_command(cmd, in_data=in_data, sudoable=sudoable)  # type: ignore[no-any-return]

    def put_file(self, in_path: str, out_path: str) -> Any:
        """Copy a file to the target."""
        return self._way().put_file(in_path, out_path)

    def fetch_file(self, in_path: str, out_path: str) -> Any:
        """Copy a file from the target."""
        return self._way().fetch_file(in_path, out_path)

    def _way(self) -> Any:
        return super(Literal, self) if self.via() is None else super()  # type: ignore[attr-defined]


class _There:
    """A command that runs on the host that is gone through."""

    def __init__(self, plugin: Literal, token: str) -> None:
        self._plugin = plugin
        self._token = token

    def talk(self, data: bytes, eof: bool, wait: float) -> tuple[bytes, bytes, int | None]:
        answer, blobs = self._plugin._ask_there({"do": "talk", "token": self._token, "eof": eof, "wait": wait}, [data])
        return blobs[0], blobs[1], answer["rc"]


class _Process:
    """A client on this machine that is talked to."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment(environment))
        except OSError as error:
            raise _not_started(words, error) from None
        self._selector = selectors.DefaultSelector()
        for number, stream in enumerate((self._process.stdout, self._process.stderr)):
            assert stream is not None  # it is a pipe
            self._selector.register(stream, selectors.EVENT_READ, number)

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def talk(self, data: bytes, eof: bool, wait: float) -> tuple[bytes, bytes, int | None]:
        if eof:
            out, err = self._process.communicate(data)
            return out, err, self._process.returncode
        if data:
            assert self._process.stdin is not None  # it is a pipe
            self._process.stdin.write(data)
            self._process.stdin.flush()
        streams = [b"", b""]
        ready = self._selector.select(wait)
        for key, _ in ready:
            piece = os.read(key.fd, BLOCK)
            if piece:
                streams[key.data] += piece
            else:
                self._selector.unregister(key.fileobj)
        code = self._process.wait() if not self._selector.get_map() else None
        return streams[0], streams[1], code


def _environment(variables: dict[str, str]) -> dict[str, str] | None:
    return {**os.environ, **variables} if variables else None


def _not_started(words: list[str], error: OSError) -> AnsibleConnectionFailure:
    return AnsibleConnectionFailure(
        f"the client {words[0]!r} could not be started: {error.strerror}. Is it installed, and on PATH?"
    )
