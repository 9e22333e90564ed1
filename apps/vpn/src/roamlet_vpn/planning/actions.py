"""The actions that every backend has. Each backend adds its own: wireguard/actions.py, ssh/actions.py."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MADE_BY_APPLY", "Action", "Forward", "MakeKey", "diff"]

MADE_BY_APPLY = "(made by apply)"  # in place of a public key whose private key does not exist yet


@dataclass(frozen=True)
class Action:
    """One change of one server. `repairs` says what is not as it should be."""

    repairs: str

    def describe(self) -> str:
        """What will be done, in a line without the situation."""
        raise NotImplementedError

    def plain(self) -> dict[str, Any]:
        """What host/act.py takes."""
        raise NotImplementedError

    def details(self) -> Sequence[str]:
        """Lines that show exactly what changes: those of a diff begin with + or -."""
        return ()


@dataclass(frozen=True)
class MakeKey(Action):
    """A private key, made and kept on the server."""

    def describe(self) -> str:
        return "make a private key; it stays there"

    def plain(self) -> dict[str, Any]:
        return {"do": "make_key"}


@dataclass(frozen=True)
class Forward(Action):
    """Passing packets on between networks, of one family (4 or 6), now and after a restart."""

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

    def plain(self) -> dict[str, Any]:
        return {
            "do": "forwarding",
            "family": self.family,
            "live": self.live,
            "persistent": self.persistent,
            "accept_ra": list(self.accept_ra),
        }


def diff(old: str | None, new: str | None) -> list[str]:
    """The lines that change, with + and -, and as many around them as tell where; all of them for a new file."""
    before = old.splitlines() if old is not None else []
    lines = list(difflib.unified_diff(before, (new or "").splitlines(), lineterm="", n=2))[2:]
    return lines if old is not None else lines[1:]
