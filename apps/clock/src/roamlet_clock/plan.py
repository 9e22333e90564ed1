"""From the facts of a host to what is to be done there: pure, and the same for the same facts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from roamlet_clock import units
from roamlet_clock.actions import Action, Put, Reload, Remove, Run, Systemctl
from roamlet_clock.facts import Facts, Found
from roamlet_clock.times import when
from roamlet_clock.units import InstalledFile

OLDEST_SYSTEMD = 219
STAYS = "where it sets a later time than the stamps, that one stays"
MUCH = 86400  # seconds that a hardware clock may be behind and still be one
# Other software for the same: two of them at once are no harm, and no help either.
OTHERS = ("fake-hwclock.service", "fake-hwclock-load.service", "soft-hwclock.service")
ASKED_UNITS = (*units.UNITS, *OTHERS)
# Every file that may be ours, whatever the host is; a folder of which all is.
OUR_FILES = tuple(dict.fromkeys(file.path for known in (True, False) for file in units.installed_files(known)))
# What `systemctl enable` makes: the links of a unit whose file was removed by hand are left alone.
LINKS = tuple(
    f"{units.UNIT_FOLDER}/{target}.wants/{name}"
    for file in units.installed_files(True)
    for name in (file.path.rpartition("/")[2],)
    for target in re.findall(r"^WantedBy=(\S+)$", file.text, re.MULTILINE)
)
ASKED_PATHS = (*OUR_FILES, *LINKS, units.FOLDER)

WITHOUT_SYSTEMD = """\
systemd does not run this host, and roamlet clock sets up nothing else there. By hand, as root there, with the script from
        roamlet clock script
    as {program} (mode 755), these lines in /etc/crontab keep the time, and `{program} save` belongs to what runs at shutdown:
{lines}
    What is started before cron sees the wrong time, though.""".format(
    program=units.PROGRAM, lines="\n".join(f"        {line}" for line in units.CRON_LINES)
)


@dataclass(frozen=True)
class Plan:
    """What is to be done on one host, in this order; `notes` say what the user should know, `refusal` why nothing is done."""

    actions: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str | None = None


def wanted_files(facts: Facts) -> tuple[InstalledFile, ...]:
    """What a host of these facts is to have; none where there is no systemd."""
    return units.installed_files(facts.time_set) if facts.systemd is not None else ()


def plan_install(facts: Facts) -> Plan:
    """What makes the host keep its time, or keep it as this version of roamlet clock does; nothing where it is so already."""
    refusal = _refusal(facts) or (WITHOUT_SYSTEMD if facts.systemd is None else None)
    if refusal is None and facts.systemd is not None and facts.systemd < OLDEST_SYSTEMD:
        refusal = f"its systemd is {facts.systemd}, and roamlet clock knows {OLDEST_SYSTEMD} and later"
    return Plan(refusal=refusal) if refusal else Plan(tuple(_install(facts)), tuple(_notes(facts)))


def _install(facts: Facts) -> Iterator[Action]:
    wanted = wanted_files(facts)
    puts = tuple(_puts(wanted, facts))
    gone = tuple(_removals({file.path for file in wanted}, facts))
    yield from puts
    yield from gone
    touched = [action.path for action in puts] + [action.path for action in gone]
    if any(path != units.PROGRAM for path in touched):
        yield Reload()
    if disabled := tuple(name for name in units.ENABLED if not _enabled(facts, name)):
        yield Systemctl("enable", disabled)
    # A timer whose text has changed runs on as the old one. A service has nothing to do again: its next start reads the new text.
    changed = {action.path.rpartition("/")[2] for action in puts}
    active = [name for name in units.ENABLED if name in facts.units and facts.units[name].active == "active"]
    if started := tuple(name for name in units.ENABLED if name not in active):
        yield Systemctl("start", started)
    if restarted := tuple(name for name in active if name.endswith(".timer") and name in changed):
        yield Systemctl("restart", restarted)
    if not _has_stamp(facts):
        yield Run(units.PROGRAM, "begin")


def plan_remove(facts: Facts) -> Plan:
    """What leaves nothing of roamlet clock on the host; nothing where there is nothing."""
    if (refusal := _refusal(facts)) is not None:
        return Plan(refusal=refusal)
    removals = tuple(_removals((), facts))
    actions: list[Action] = []
    ours = {name: facts.units[name] for name in reversed(units.UNITS) if name in facts.units}
    stopped = any(unit.active not in ("inactive", "failed", "") for unit in ours.values())
    if stopped:  # and with it what the timer may start before it is stopped; which saves, once more
        actions.append(Systemctl("stop", tuple(name for name, unit in ours.items() if unit.known)))
    if disabled := tuple(name for name, unit in ours.items() if unit.enabled == "enabled"):
        actions.append(Systemctl("disable", disabled))
    if failed := tuple(name for name, unit in ours.items() if unit.active == "failed"):
        actions.append(Systemctl("reset-failed", failed))
    actions += removals
    links = tuple(path for path in LINKS if path in facts.paths and path.rpartition("/")[2] not in disabled)
    actions += [Remove(path) for path in links]
    if units.FOLDER in facts.paths or stopped:
        actions.append(Remove(units.FOLDER, folder=True))
    if facts.systemd is not None and (removals or disabled or links):
        actions.append(Reload())
    return Plan(tuple(actions))


def plan_tick(facts: Facts) -> Plan:
    """What saves the time of the host now."""
    refusal = _refusal(facts)
    if refusal is None and units.PROGRAM not in facts.paths:
        refusal = "roamlet clock is not installed there; `roamlet clock install` does it"
    return Plan(refusal=refusal) if refusal else Plan((Run(units.PROGRAM, "tick"),))


def wrong(facts: Facts) -> tuple[str, ...]:
    """What is not as an installed roamlet clock should be, in words; nothing where all is well."""
    if not any(path in facts.paths for path in OUR_FILES):
        return ("not installed; `roamlet clock install` does it",)
    if facts.systemd is None:  # it was set up by hand
        return ()
    found: list[str] = []
    for action in _install(facts):
        if isinstance(action, Put):
            found.append(f"{action.path} is {'missing' if action.old is None else 'not as it is installed'}")
        elif isinstance(action, Systemctl) and action.what != "restart":
            found += [f"{name} is not {'enabled' if action.what == 'enable' else 'active'}" for name in action.units]
        elif isinstance(action, Run):
            found.append("there is no stamp yet")
    found += _unsafe(facts)
    found += [
        f"{name} has failed" for name, unit in facts.units.items() if unit.active == "failed" and name in units.UNITS
    ]
    return tuple(found)


def aside(facts: Facts) -> tuple[str, ...]:
    """Who else may know the time at a boot. Where one has set a later time than the stamps, roamlet clock steps aside."""
    found: list[str] = []
    if (rtc := facts.rtc) is not None:
        what = f"there is a hardware clock, {rtc.device} ({rtc.name})"
        if rtc.epoch is None or rtc.epoch < facts.time - MUCH:
            shows = "no time" if rtc.epoch is None else when(rtc.epoch)
            found.append(f"{what}, which shows {shows}; is its battery empty? The time is taken from the stamps")
        else:
            found.append(f"{what}: {STAYS}")
    if facts.clock_file is not None:
        kept = facts.clock_file
        found.append(f"systemd-timesyncd keeps {kept.path}, of {when(kept.time)}: {STAYS}")
    return tuple(found)


# ---- what they share


def _refusal(facts: Facts) -> str | None:
    if not facts.is_root:
        return "root is needed there: name it as root@HOST, or give --sudo"
    return None


def _puts(wanted: Iterable[InstalledFile], facts: Facts) -> Iterator[Put]:
    for file in wanted:
        there = facts.paths.get(file.path)
        if there != Found("file", file.mode, 0, file.text):
            yield Put(file.path, file.mode, file.text, None if there is None else there.text)


def _removals(wanted: Iterable[str], facts: Facts) -> Iterator[Remove]:
    """Of what may be ours, and is there, all that is not wanted."""
    for path in OUR_FILES:
        if path in facts.paths and path not in wanted:
            yield Remove(path)


def _unsafe(facts: Facts) -> Iterator[str]:
    """Who else than root could say what time it is at the next boot."""
    folder = facts.paths.get(units.FOLDER)
    if folder is not None and folder.kind == "folder" and (folder.uid or folder.mode & 0o022):
        whose = f"belongs to user {folder.uid}" if folder.uid else f"has mode {folder.mode:o}"
        yield f"{units.FOLDER} {whose}: others than root may set the clock; chown root: and chmod 755 it"


def _has_stamp(facts: Facts) -> bool:
    folder = facts.paths.get(units.FOLDER)
    # The script looks through a link that somebody has put there.
    return folder is not None and ("stamp" in folder.names or bool((facts.status or {}).get("stamp")))


def _enabled(facts: Facts, name: str) -> bool:
    return name in facts.units and facts.units[name].enabled == "enabled"


def _notes(facts: Facts) -> Iterator[str]:
    yield from _unsafe(facts)
    yield from aside(facts)
    for name in OTHERS:
        if _enabled(facts, name):
            yield f"{name} does the same and stays as it is; `systemctl disable --now {name}` takes it out"
    if facts.synchronised is False:
        yield "the clock is not synchronised now: the first stamp is no better than it"
