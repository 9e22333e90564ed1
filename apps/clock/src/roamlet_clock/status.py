"""How the soft clock of a host is, from its facts, for people and for programs. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from roamlet_clock import units
from roamlet_clock.facts import Facts
from roamlet_clock.plan import aside, wrong

STAMPS = {
    "stamp": f"{units.FOLDER}/stamp",
    "previous": f"{units.FOLDER}/stamp.1",
    "installed": f"{units.FOLDER}/installed",
}


@dataclass(frozen=True)
class Status:
    """Of one host. Times are seconds since 1970. `wrong` says what is not as it should be; `error` why nothing is known."""

    host: str
    error: str | None = None
    reached: bool = True
    installed: bool = False
    now: float | None = None
    synchronised: bool | None = None
    synchronised_by: str = ""
    rtc: str | None = None
    rtc_time: int | None = None
    stamp: int | None = None
    stamp_why: str = ""
    previous: int | None = None
    installed_at: int | None = None
    floor: int | None = None
    floor_by: str = ""
    next_boot: int | None = None
    next_boot_by: str = ""
    units: Mapping[str, str] | None = None
    wrong: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        return self.error is None and not self.wrong

    @property
    def age(self) -> float | None:
        """Seconds from the last stamp to the host's own clock; negative where the stamp lies in its future."""
        return None if self.stamp is None or self.now is None else self.now - self.stamp


def status(host: str, facts: Facts) -> Status:
    """Of a host with these facts."""
    said = facts.status or {}
    damaged = {
        path: why for name, path in STAMPS.items() if (why := said.get(f"{name}_why", "")) not in ("", "missing")
    }
    answer = said.get("synchronised", "")
    return Status(
        host,
        installed=facts.status is not None,
        now=facts.time,
        synchronised=facts.synchronised if not answer else answer == "yes",
        synchronised_by=said.get("synchronised_by", ""),
        rtc=None if facts.rtc is None else f"{facts.rtc.device} ({facts.rtc.name})",
        rtc_time=None if facts.rtc is None else facts.rtc.epoch,
        stamp=_time(said, "stamp"),
        stamp_why=said.get("stamp_why", ""),
        previous=_time(said, "previous"),
        installed_at=_time(said, "installed"),
        floor=_time(said, "floor"),
        floor_by=said.get("floor_by", ""),
        next_boot=_time(said, "next_boot"),
        next_boot_by=said.get("next_boot_by", ""),
        units={
            name: _in_words(facts, name) for name in units.ENABLED if name in facts.units and facts.units[name].known
        },
        wrong=(
            *wrong(facts),
            *(f"{path} {why}; the next save replaces it" for path, why in damaged.items()),
            *(f"{name} cannot be found out: {why}" for name, why in facts.missing.items()),
        ),
        aside=aside(facts),
    )


def plain(one: Status) -> dict[str, Any]:
    """For JSON."""
    return {**asdict(one), "well": one.well, "age": one.age}


def _time(said: Mapping[str, str], key: str) -> int | None:
    text = said.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _in_words(facts: Facts, name: str) -> str:
    unit = facts.units[name]
    return f"{unit.enabled or unit.load or 'unknown'}, {unit.active or 'unknown'}"
