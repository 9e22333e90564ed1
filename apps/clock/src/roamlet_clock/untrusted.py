"""A value that a host has sent, untrusted until it has been read as what it must be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from roamlet.cli import escaped
from roamlet_clock.errors import ClockError

T = TypeVar("T")

MOST = 1000  # entries of one mapping or list
LONGEST = 1 << 17  # characters of one text


class FactsError(ClockError):
    """What a host has sent is not in the agreed shape. The message names the host and the place."""


@dataclass(frozen=True)
class Untrusted:
    """A value that a host sent, and its place."""

    value: Any
    where: str

    def wrong(self, what: str) -> FactsError:
        return FactsError(f"{self.where}: {self.value!r:.100} is no {what}; was it gathered by another roamlet?")

    def __getitem__(self, name: str) -> "Untrusted":
        if not isinstance(self.value, dict) or name not in self.value:
            raise FactsError(f"{self.where}: there is no {name!r}; was it gathered by another roamlet?")
        return Untrusted(self.value[name], f"{self.where}, {name if name.isprintable() else ascii(name)}")

    def items(self) -> list[tuple[str, "Untrusted"]]:
        if not isinstance(self.value, dict) or len(self.value) > MOST:
            raise self.wrong(f"mapping of at most {MOST} entries")
        return [(Untrusted(name, self.where).text(), self[name]) for name in self.value]

    def each(self) -> list["Untrusted"]:
        if not isinstance(self.value, list) or len(self.value) > MOST:
            raise self.wrong(f"list of at most {MOST} entries")
        return [Untrusted(one, f"{self.where}, {number}") for number, one in enumerate(self.value)]

    def maybe(self, made: Callable[["Untrusted"], T]) -> T | None:
        return None if self.value is None else made(self)

    def text(self) -> str:
        if not isinstance(self.value, str) or len(self.value) > LONGEST:
            raise self.wrong("text")
        return escaped(self.value)

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def whole(self, least: int, most: int) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not least <= self.value <= most:
            raise self.wrong(f"whole number from {least} to {most}")
        return self.value

    def number(self) -> float:
        if not isinstance(self.value, int | float) or isinstance(self.value, bool) or not abs(self.value) < 1 << 62:
            raise self.wrong("number")
        return float(self.value)
