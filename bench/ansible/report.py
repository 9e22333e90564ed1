"""From the figures of Ansible to ratios, and to the tables that show them. Pure."""

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from roamlet_bench.show import Table, number

FIGURES = {"wall": "wall", "controller": "controller CPU", "target": "target CPU"}


def ratio(taken: dict[str, Any], scenario: str, figure: str, peer: str, which: str = "first") -> float:
    """roamlet's figure as a part of the peer's: the median of the rounds' ratios. Raises KeyError when one was not measured."""
    runs = taken["scenarios"][scenario]["runs"]
    return _ratio(runs["roamlet"][which][figure], runs[peer][which][figure])


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return median(own / other for own, other in zip(ours, theirs, strict=False))  # a peer may have had one round alone


def median(figures: Iterable[float]) -> float:
    return float(statistics.median(figures))


def growth(taken: dict[str, Any]) -> float:
    """How much longer roamlet takes for many hosts than for several, by the clock."""
    several, many = (taken["scenarios"][name]["runs"]["roamlet"]["first"]["wall"] for name in ("several", "many"))
    return median(many) / median(several)


def unlike(taken: dict[str, Any]) -> int:
    """How many differences from stock's results roamlet has. Raises KeyError when no run of roamlet could be compared."""
    compared = [one for one in taken["scenarios"].values() if {"roamlet", "stock"} <= one["runs"].keys()]
    if not compared:
        raise KeyError("roamlet")
    return sum(len(one["differences"].get("roamlet", ())) for one in compared)


def tables(taken: dict[str, Any]) -> list[Table]:
    sides = taken["sides"]
    names = [name for name in sides if any(name in one["runs"] for one in taken["scenarios"].values())]
    seconds = Table(
        "Ansible: seconds by the clock (CPU in the controller / CPU on the targets), the median round",
        ["", *(sides[name] for name in names), "rounds"],
        notes=[f"{name} {version}" for name, version in taken["versions"].items()],
    )
    ratios = Table(
        "Ansible: roamlet as a part of its peers, the median of the rounds' ratios",
        ["", *(f"{title} / {sides[peer]}" for peer in names if peer != "roamlet" for title in FIGURES.values())],
    )
    for title, runs, which in _rows(taken):
        cells = [_cell(runs.get(name, {}).get(which)) for name in names]
        rounds = max(len(by_run[which]["wall"]) for by_run in runs.values() if which in by_run)
        seconds.rows.append([title, *cells, str(rounds)])
        if which in runs.get("roamlet", {}):
            ratios.rows.append([title, *_ratios(runs, which, [name for name in names if name != "roamlet"])])
    made = [table for table in (seconds, ratios) if table.rows]
    unlike_stock = Table("Ansible: results that are not stock's", ["", "", "differences", "the first"])
    for one in taken["scenarios"].values():
        for name, found in one["differences"].items():
            unlike_stock.rows.append([one["title"], sides[name], str(len(found)), found[0][:160]])
    return made + ([unlike_stock] if unlike_stock.rows else [])


def _rows(taken: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    for one in taken["scenarios"].values():
        for which in ("first", "again"):
            if any(which in by_run for by_run in one["runs"].values()):
                yield one["title"] + (", second run" if which == "again" else ""), one["runs"], which


def _cell(figures: dict[str, list[float]] | None) -> str:
    if not figures:
        return number(None)
    wall, controller, target = (number(median(figures[key]), 2) for key in FIGURES)
    return f"{wall} ({controller} / {target})"


def _ratios(runs: dict[str, Any], which: str, peers: list[str]) -> Iterator[str]:
    for peer in peers:
        for figure in FIGURES:
            theirs = runs.get(peer, {}).get(which)
            there = theirs is not None and all(theirs[figure])  # core alone uses no CPU of targets
            yield number(_ratio(runs["roamlet"][which][figure], theirs[figure]) if theirs and there else None, 2)
