"""What the connection plugins of containers share: a client's command line leads there, and modules run in a warm Python inside."""

import os
import posixpath
import shutil
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.connection import ConnectionBase

from .literal import Literal
from .plugin import RoamletConnection

SHORTEST_TIMEOUT = 30.0  # seconds for a client to start a Python in the container


class ContainerConnection(RoamletConnection, Literal, ConnectionBase):  # type: ignore[misc]
    """Subclasses define words() and target(). Commands have the folder and the environment that the client gives them."""

    default_user = "root"

    def _connect(self) -> Any:
        self._connected = True
        return self

    def close(self) -> None:
        """Close the connection to the broker."""
        super().close()
        self._connected = False

    def reset(self) -> None:
        """Close the context in the container; the next task makes a new one."""
        self._reset_context()

    def container(self) -> str:
        """What the client calls the target."""
        return str(self.get_option("remote_addr") or self._play_context.remote_addr)

    def put_file(self, in_path: str, out_path: str) -> Any:
        """Copy a file into the container; a relative path is below its root."""
        return super().put_file(in_path, _below_root(out_path))

    def fetch_file(self, in_path: str, out_path: str) -> Any:
        """Copy a file from the container; a relative path is below its root."""
        return super().fetch_file(_below_root(in_path), out_path)

    def checked_environment(self, variable: str, given: Any) -> dict[str, str]:
        """The dictionary `given`, whose values must be text: YAML makes something else of yes or 1.10."""
        for name, value in (given or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise AnsibleError(f"{variable} of {self._host()} must be text: put quotes around {name}: {value!r}.")
        return {str(name): str(value) for name, value in (given or {}).items()}

    def _shell_words(self, command: str) -> list[str]:
        return [str(self._play_context.executable or "/bin/sh"), "-c", command]

    def _target(
        self, kind: str, *, timeout: float = 0, stay: dict[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """What hosts.py opens as `kind`, with the keyword arguments that roamlet.remote's function of that name has."""
        return {
            "kind": kind,
            "name": self._play_context.remote_addr,
            "container": self.container(),
            "options": options,
            "timeout": max(SHORTEST_TIMEOUT, float(timeout or 0)),
            "stay": {"environment": {}, "folder": None, "home": False, **(stay or {})},
        }


def same_program(option: str, name: str) -> bool:
    """Whether the executable that an option names is the one that `name` finds on PATH."""
    found = shutil.which(name)
    return option == name or (found is not None and os.path.realpath(option) == os.path.realpath(found))


def text_words(text: Any) -> list[str]:
    """Words that single spaces part: how the clients' further arguments are written."""
    return [word for word in str(text or "").split(" ") if word]


def _below_root(path: str) -> str:
    return posixpath.normpath(path if path.startswith("/") else "/" + path)
