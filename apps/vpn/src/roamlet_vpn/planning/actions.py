"""The actions that every backend has. Each backend adds its own: wireguard/actions.py, ssh/actions.py."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

MADE_BY_APPLY = "(made by apply)"  # in place of a public key whose private key does not exist yet


@dataclass(frozen=True)
class Action:
    """One change of one server. `repairs` says what is not as it should be."""

    do: ClassVar[str]  # what host/act.py calls it
    words: ClassVar[str]  # what describe() says, unless a class has its own; {name} stands for the value of a field

    repairs: str

    def describe(self) -> str:
        """What will be done, in a line without the situation."""
        return self.words.format_map(vars(self))

    def plain(self) -> dict[str, Any]:
        """What host/act.py takes: `do` and all fields but `repairs`, networks and addresses as text, tuples as lists."""
        return {"do": self.do, **{one.name: _plain(getattr(self, one.name)) for one in fields(self)[1:]}}

    def details(self) -> Sequence[str]:
        """Lines that show exactly what changes: those of a diff begin with + or -."""
        return ()


@dataclass(frozen=True)
class MakeKey(Action):
    """A private key, made and kept on the server."""

    do = "make_key"
    words = "make a private key; it stays there"


@dataclass(frozen=True)
class Forward(Action):
    """Passing packets on between networks, of one family (4 or 6), now and after a restart."""

    do = "forwarding"
    family: int
    live: bool
    persistent: bool
    accept_ra: tuple[str, ...] = ()

    def describe(self) -> str:
        when = " and ".join(
            text for wanted, text in ((self.live, "now"), (self.persistent, "after a restart")) if wanted
        )
        kept = f", still taking router advertisements on {', '.join(self.accept_ra)}" if self.accept_ra else ""
        return f"turn on forwarding of IPv{self.family}, {when}{kept}"


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def diff(old: str | None, new: str | None) -> list[str]:
    """The lines that change, with + and -, and as many around them as tell where; all of them for a new file."""
    before = old.splitlines() if old is not None else []
    lines = list(difflib.unified_diff(before, (new or "").splitlines(), lineterm="", n=2))[2:]
    return lines if old is not None else lines[1:]
