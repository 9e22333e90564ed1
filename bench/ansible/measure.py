"""Take the figures of Ansible: the sides in turns on the same hosts, and what of their results differs from stock's."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roamlet_lab.errors import LabError

from . import cgroups, peers
from .results import differences, parse
from .runs import Controller, RunFailed
from .scenarios import Scenario, Sizes, scenarios, write_files
from .targets import Targets, targets

SERVERS = 10
SHOWN = 20  # differences of one side in one scenario that are kept


@dataclass(frozen=True)
class Settings:
    """How much work a run does. `only`: names of scenarios, or of sides, or both; without any of a kind, all."""

    rounds: int = 5
    sizes: Sizes = field(default_factory=Sizes)
    servers: int = SERVERS
    only: tuple[str, ...] = ()


QUICK = Settings(
    rounds=1, sizes=Sizes(pings=10, rounds=3, far=1, several=2, many=5, files=20, few=5, large=10_000_000), servers=2
)


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """{"versions", "sides": {name: title}, "scenarios": {name: {...}}, "skipped": {what: reason}}; see `take`."""
    skipped: dict[str, str] = {}
    taken: dict[str, Any] = {"versions": {}, "sides": {}, "scenarios": {}, "skipped": skipped}
    try:
        with ExitStack() as stack:
            venv = peers.installed(say)
            sides = peers.sides(venv)
            taken["versions"] = peers.versions(venv)
            taken["sides"] = {side.name: side.title for side in sides.values()}
            if "roamlet" not in sides:
                skipped["roamlet"] = "apps/ansible is not installed"
            base = stack.enter_context(cgroups.folder())
            up = stack.enter_context(targets(settings.servers, cgroups.group(base, "targets"), say))
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roamlet-bench-")))
            controller = Controller(venv, up, cgroups.group(base, "controller"), scratch)
            write_files(scratch, settings.sizes)
            warm_up(controller, sides, up, scratch, skipped)
            for scenario in chosen(settings, sides):
                taken["scenarios"][scenario.name] = take(
                    scenario, settings, controller, sides, up, scratch, skipped, say
                )
    except LabError as error:
        skipped["everything"] = str(error)
    return taken


def chosen(settings: Settings, sides: dict[str, peers.Side]) -> list[Scenario]:
    every = scenarios(settings.sizes)
    wanted = [one for one in every if one.name in settings.only]
    return wanted or every


def warm_up(
    controller: Controller, sides: dict[str, peers.Side], up: Targets, folder: Path, skipped: dict[str, str]
) -> None:
    """Run each side once, so that none pays for compiling its own files; one that cannot run at all is skipped."""
    playbook = folder / "warm_up.json"
    playbook.write_text(scenarios(Sizes(pings=1))[0].playbook)
    for side in (peers.RECORDING, *sides.values()):
        try:
            controller.run(side, playbook, 1, controller.new_home())
        except RunFailed as failure:
            skipped[side.name] = str(failure)
            sides.pop(side.name, None)


def take(
    scenario: Scenario,
    settings: Settings,
    controller: Controller,
    sides: dict[str, peers.Side],
    up: Targets,
    folder: Path,
    skipped: dict[str, str],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """{"title", "runs": {side: {"first"|"again": {"wall"|"controller"|"target"|"packets": [a figure a round]}}}, "differences"}."""
    playbook = folder / f"{scenario.name}.json"
    playbook.write_text(scenario.playbook)
    only = [name for name in settings.only if name in sides]
    if "core" in sides and "core" in scenario.each and (not only or "core" in only):
        record(scenario, playbook, controller, up, skipped, say)
    up.distance(scenario.rtt)
    runs: dict[str, dict[str, dict[str, list[float]]]] = {}
    results: dict[str, dict[str, str]] = {}
    for round_ in range(settings.rounds):
        names = [name for name in (*scenario.each, *(scenario.once if round_ == 0 else ())) if name in sides]
        names = [name for name in names if not only or name in only]
        names = names[round_ % len(names) :] + names[: round_ % len(names)] if names else []
        for name in names:
            if f"{name}, {scenario.title}" in skipped:
                continue
            say(f"ansible: {scenario.title}: round {round_ + 1} of {settings.rounds}, {sides[name].title}")
            up.reset()
            home = controller.new_home()
            for which in ("first", "again") if scenario.again else ("first",):
                try:
                    taken = controller.run(sides[name], playbook, scenario.hosts, home)
                except RunFailed as failure:
                    skipped[f"{name}, {scenario.title}"] = str(failure)
                    break
                say(
                    f"    {which}: {taken.wall:.2f} s, CPU {taken.controller:.2f} / {taken.target:.2f}, {taken.packets} packets"
                )
                figures = runs.setdefault(name, {}).setdefault(which, {})
                for key in ("wall", "controller", "target", "packets"):
                    figures.setdefault(key, []).append(getattr(taken, key))
                results.setdefault(which, {}).setdefault(name, taken.results)
    return {
        "title": scenario.title,
        "runs": runs,
        "differences": {name: found for name in sides if (found := unlike_stock(name, results))},
    }


def record(
    scenario: Scenario,
    playbook: Path,
    controller: Controller,
    up: Targets,
    skipped: dict[str, str],
    say: Callable[[str], None],
) -> None:
    """Have its hosts answer once what the side "core" will be given again; without that, it is skipped."""
    say(f"ansible: {scenario.title}: {peers.RECORDING.title}")
    up.distance(0)
    up.reset()
    home = controller.new_home()
    try:
        for _ in range(2 if scenario.again else 1):
            controller.run(peers.RECORDING, playbook, scenario.hosts, home)
    except RunFailed as failure:
        skipped[f"core, {scenario.title}"] = str(failure)


def unlike_stock(name: str, results: dict[str, dict[str, str]]) -> list[str]:
    """What this side's first results have that stock's have not."""
    found = []
    for which, by_side in results.items():
        if name != "stock" and {name, "stock"} <= by_side.keys():
            unlike = differences(parse(by_side["stock"]), parse(by_side[name]))
            found += [f"{which} run, {text}" for text in unlike]
    return found[:SHOWN] + ([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])
