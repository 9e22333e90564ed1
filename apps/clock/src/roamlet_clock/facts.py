"""What is known of a host: the shape of what roamlet_clock.host.gather sends, a claim until it is checked, and its checking."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roamlet_clock.untrusted import FactsError, Untrusted

VERSION = 1
KINDS = ("file", "folder", "link", "other")


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
        top = Untrusted(plain, f"the facts of {host}")
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
            synchronised=top["synchronised"].maybe(Untrusted.flag),
            paths={path: _found(one) for path, one in top["paths"].items()},
            units={name: unit for name, one in top["units"].items() if (unit := one.maybe(_unit)) is not None},
            status=top["status"].maybe(lambda one: {name: said.text() for name, said in one.items()}),
            missing={name: why.text() for name, why in top["missing"].items()},
        )


def _rtc(untrusted: Untrusted) -> Rtc:
    epoch = untrusted["epoch"].maybe(lambda one: one.whole(-(1 << 62), 1 << 62))
    return Rtc(untrusted["device"].text(), untrusted["name"].text(), epoch)


def _found(untrusted: Untrusted) -> Found:
    kind = untrusted["kind"].text()
    if kind not in KINDS:
        raise untrusted["kind"].wrong(f"kind of file; there are {', '.join(KINDS)}")
    return Found(kind, untrusted["mode"].whole(0, 0o7777), untrusted["uid"].whole(0, 1 << 32), untrusted["text"].text())


def _unit(untrusted: Untrusted) -> Unit:
    return Unit(*(untrusted[name].text() for name in ("load", "enabled", "active", "result")))
