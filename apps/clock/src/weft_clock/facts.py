"""What is known of a host: the shape of what weft_clock.host.gather sends, and its checking. It is a claim until it is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weft_clock.errors import ClockError

__all__ = ["ClockFile", "Facts", "FactsError", "Found", "Rtc", "Unit"]

T = TypeVar("T")

VERSION = 1
MOST = 1000  # entries of one mapping, and lines of one text
LONGEST = 1 << 17  # characters of one text
KINDS = ("file", "folder", "link", "other")


class FactsError(ClockError):
    """What a host has sent is not what facts are. The message names the host and the place."""


@dataclass(frozen=True)
class Found:
    """What is at a path. `text` is that of a file, the names in a folder, where a link leads to."""

    kind: str
    mode: int
    uid: int
    text: str

    @property
    def names(self) -> tuple[str, ...]:
        """Those in a folder."""
        return tuple(self.text.split("\n")) if self.kind == "folder" and self.text else ()


@dataclass(frozen=True)
class Rtc:
    """A hardware clock. `epoch` is its time in seconds since 1970, None where it says none: its battery is empty or missing."""

    device: str
    name: str
    epoch: int | None


@dataclass(frozen=True)
class ClockFile:
    """What systemd-timesyncd keeps the time with; `time` is when it was touched last."""

    path: str
    time: float


@dataclass(frozen=True)
class Unit:
    """A unit in systemd's own words: LoadState, UnitFileState, ActiveState, Result."""

    load: str
    enabled: str
    active: str
    result: str

    @property
    def known(self) -> bool:
        return self.load not in ("", "not-found")


@dataclass(frozen=True)
class Facts:
    """All that is known of one host.

    `systemd` is its version, None where it has not booted the host; `time` the host's clock; `synchronised` None where that is not
    known; `paths` and `units` hold what was asked for and is there; `status` is what the installed script says, None without one.
    """

    hostname: str
    time: float
    is_root: bool
    systemd: int | None
    time_set: bool
    rtc: Rtc | None = None
    clock_file: ClockFile | None = None
    synchronised: bool | None = None
    paths: Mapping[str, Found] = field(default_factory=dict)
    units: Mapping[str, Unit] = field(default_factory=dict)
    status: Mapping[str, str] | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_plain(cls, plain: object, host: str) -> "Facts":
        """Facts out of what `host` sent. Raises FactsError."""
        top = _Claim(plain, f"the facts of {host}")
        if top["version"].whole(0, 1 << 30) != VERSION:
            raise FactsError(f"the facts of {host} have version {top['version'].value!r}, and this is {VERSION}")
        return cls(
            hostname=top["hostname"].text(),
            time=top["time"].number(),
            is_root=top["is_root"].flag(),
            systemd=top["systemd"].maybe(lambda one: one.whole(1, 100_000)),
            time_set=top["time_set"].flag(),
            rtc=top["rtc"].maybe(_rtc),
            clock_file=top["clock_file"].maybe(lambda one: ClockFile(one["path"].text(), one["time"].number())),
            synchronised=top["synchronised"].maybe(_Claim.flag),
            paths={path: _found(one) for path, one in top["paths"].items()},
            units={name: unit for name, one in top["units"].items() if (unit := one.maybe(_unit)) is not None},
            status=top["status"].maybe(lambda one: {name: said.text() for name, said in one.items()}),
            missing={name: why.text() for name, why in top["missing"].items()},
        )


@dataclass(frozen=True)
class _Claim:
    """A value that somebody sent, and where it stood."""

    value: Any
    where: str

    def wrong(self, what: str) -> FactsError:
        return FactsError(f"{self.where}: {self.value!r:.100} is no {what}; was it gathered by another weft?")

    def __getitem__(self, name: str) -> "_Claim":
        if not isinstance(self.value, dict) or name not in self.value:
            raise FactsError(f"{self.where}: there is no {name!r}; was it gathered by another weft?")
        return _Claim(self.value[name], f"{self.where}, {name}")

    def items(self) -> list[tuple[str, "_Claim"]]:
        if not isinstance(self.value, dict) or len(self.value) > MOST:
            raise self.wrong(f"mapping of at most {MOST} entries")
        return [(_Claim(name, self.where).text(), self[name]) for name in self.value]

    def maybe(self, made: Callable[["_Claim"], T]) -> T | None:
        return None if self.value is None else made(self)

    def text(self) -> str:
        if not isinstance(self.value, str) or len(self.value) > LONGEST:
            raise self.wrong("text")
        return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in self.value)

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


def _rtc(claim: _Claim) -> Rtc:
    epoch = claim["epoch"].maybe(lambda one: one.whole(-(1 << 62), 1 << 62))
    return Rtc(claim["device"].text(), claim["name"].text(), epoch)


def _found(claim: _Claim) -> Found:
    kind = claim["kind"].text()
    if kind not in KINDS:
        raise claim["kind"].wrong(f"kind of file; there are {', '.join(KINDS)}")
    return Found(kind, claim["mode"].whole(0, 0o7777), claim["uid"].whole(0, 1 << 32), claim["text"].text())


def _unit(claim: _Claim) -> Unit:
    return Unit(*(claim[name].text() for name in ("load", "enabled", "active", "result")))
