"""What can be done to a host, one step each, and right to do twice. How it is done is in apply.py and host/act.py."""

import difflib
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Put:
    """Write a file, whole or not at all. `old` is what is there now, None where nothing is."""

    path: str
    mode: int
    text: str
    old: str | None = None

    def describe(self) -> str:
        return f"{'write' if self.old is None else 'rewrite'} {self.path} ({self.mode:o})"


@dataclass(frozen=True)
class Remove:
    """Remove a file or a link; a folder with the stamps in it: one that holds anything else stays, and that is told."""

    path: str
    folder: bool = False

    def describe(self) -> str:
        return f"remove {self.path}{' with the stamps in it' if self.folder else ''}"

    def plain(self) -> dict[str, Any]:
        return {"do": "remove", "path": self.path, "folder": self.folder}


@dataclass(frozen=True)
class Reload:
    """Have systemd read its units again."""

    def describe(self) -> str:
        return "have systemd read its units again"

    def plain(self) -> dict[str, Any]:
        return {"do": "systemctl", "words": ["daemon-reload"]}


@dataclass(frozen=True)
class Systemctl:
    """enable, disable, start, restart, stop or reset-failed some units."""

    what: str
    units: tuple[str, ...]

    def describe(self) -> str:
        return f"{self.what} {', '.join(self.units)}"

    def plain(self) -> dict[str, Any]:
        return {"do": "systemctl", "words": [self.what, *self.units]}


@dataclass(frozen=True)
class Run:
    """Have the installed script do something."""

    program: str
    command: str

    def describe(self) -> str:
        return f"run {self.program} {self.command}"

    def plain(self) -> dict[str, Any]:
        return {"do": "run", "program": self.program, "command": self.command}


Action: TypeAlias = Put | Remove | Reload | Systemctl | Run


def diff(action: Put) -> list[str]:
    """The lines that change, with + and -, and as many around them as tell where; nothing for a new file."""
    if action.old is None:
        return []
    return list(difflib.unified_diff(action.old.splitlines(), action.text.splitlines(), lineterm="", n=1))[2:]
