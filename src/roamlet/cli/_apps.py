"""Commands of other packages: each names a module with `add_parser` in the entry-point group `roamlet.commands`.

The group is looked up only for a word that is not one of roamlet's own commands, and then that one module is imported. For
`roamlet --help`, and for an unknown word, all modules of the group are imported.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from roamlet.cli._errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "roamlet.commands"

# roamlet's own packages beside it.
PACKAGES = {name: f"roamlet-{name}" for name in ("ansible", "bench", "clock", "lab", "leaks", "vpn")}


class Command(Protocol):
    """A module of one command."""

    def add_parser(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> object:
        """Declare the command; its parser has the default `command`, a function of the options that returns the exit code."""


class _Broken:
    """A command that is installed and cannot be imported: listed with the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def add_parser(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        commands.add_parser(self.name, help=self.reason.replace("%", "%%"))


def commands_of_apps(words: Sequence[str], own: Iterable[str]) -> list[Command]:
    """The modules that the command line `words` needs, given the names of roamlet's own commands.

    Raises UsageError when the command that it names is installed and cannot be imported.
    """
    named = next((word for word in words if not word.startswith("-")), "")
    if named in own:
        return []
    # Inside: it takes longer to load than all that roamlet's own commands need to be parsed.
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in sorted(entry_points(group=GROUP)) if entry.name not in own}
    if named in found:
        command = _loaded(found[named])
        if isinstance(command, _Broken):
            raise UsageError(f"roamlet {named} {command.reason}")
        return [command]
    if named in PACKAGES:
        raise UsageError(
            f"roamlet {named} comes with the package {PACKAGES[named]}, which is not installed beside roamlet: install it"
        )
    return [_loaded(entry) for entry in found.values()]


def _loaded(entry: "EntryPoint") -> Command:
    package = entry.dist.name if entry.dist else entry.value
    try:
        module: Command = entry.load()
    except Exception as error:  # an app may raise anything while it is imported; the other commands work without it
        return _Broken(
            entry.name,
            f"cannot be loaded from the package {package}: {type(error).__name__}: {error}. Install it again",
        )
    if not hasattr(module, "add_parser"):
        return _Broken(entry.name, f"cannot be loaded from the package {package}: {entry.value} has no add_parser()")
    return module
