"""Reads the log of a run, which connection/recording.py and the callback plugin `recap` write, and adds it up by task."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

MODULE, COMMAND, CORE = "module", "command", "core"  # the ways, as they are recorded
WORDS = {MODULE: "warm Python", COMMAND: "command", CORE: "core's plugin"}


@dataclass
class Task:
    """One task of a playbook, on all its hosts and for all items of its loop."""

    uuid: str
    name: str = ""
    seconds: float = 0.0  # from its start to its last result; without the callback plugin, spent in requests
    turnarounds: int = 0
    down: int = 0  # bytes, to the targets
    up: int = 0
    hosts: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    ways: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # kinds of the broker's errors

    @property
    def over_roamlet(self) -> bool:
        """Whether it had anything to do on a target, over roamlet: others are in the log for their names and times."""
        return bool(self.ways or self.turnarounds or self.failures)

    @property
    def way(self) -> str:
        """The ways that its modules took, as words."""
        if not self.ways:
            return "files" if self.turnarounds else ""
        names = [name for name in (MODULE, CORE, COMMAND) if self.ways.get(name)]
        if MODULE in names and not self.reasons:
            names = [MODULE]  # its commands were those around the module: for a temporary folder and the like
        said = ", ".join(f"{WORDS[name]} ({self.ways[name]})" if len(names) > 1 else WORDS[name] for name in names)
        return f"{said}: {'; '.join(self.reasons)}" if self.reasons else said

    @property
    def label(self) -> str:
        """Its name, or what it ran where no callback plugin has recorded the name."""
        return self.name or ", ".join(self.modules) or self.uuid


def read(lines: Iterable[str]) -> list[Task]:
    """The tasks of a log, slowest first. Other lines, such as errors of the broker, are passed over."""
    tasks: dict[str, Task] = {}
    begun: dict[str, float] = {}
    for text in lines:
        line = _line(text)
        if line is None:
            continue
        uuid = line["task"]
        task = tasks.setdefault(uuid, Task(uuid))
        try:
            _add(task, line, begun)
        except (KeyError, TypeError, ValueError):
            continue  # of another version
    return sorted(tasks.values(), key=lambda task: -task.seconds)


def _line(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("task"), str) else None


def _add(task: Task, line: dict[str, Any], begun: dict[str, float]) -> None:
    if "begins" in line:
        task.name = str(line["name"])
        begun[task.uuid] = float(line["begins"])
    elif "ends" in line:
        task.seconds = max(task.seconds, float(line["ends"]) - begun.get(task.uuid, float(line["ends"])))
    elif "request" in line:
        if task.uuid not in begun:
            task.seconds += float(line["seconds"])
        task.turnarounds += int(line["turnarounds"])
        task.down += int(line["down"])
        task.up += int(line["up"])
        _once(task.failures, line["error"])
    elif "way" in line:
        task.ways[line["way"]] = task.ways.get(line["way"], 0) + 1
        _once(task.reasons, line["why"])
        _once(task.modules, line["module"])
    _once(task.hosts, line.get("host"))


def _once(known: list[str], value: Any) -> None:
    if value and str(value) not in known:
        known.append(str(value))


def plain(task: Task) -> dict[str, Any]:
    """A task for JSON."""
    return {
        "task": task.label,
        "seconds": round(task.seconds, 6),
        "turnarounds": task.turnarounds,
        "bytes_down": task.down,
        "bytes_up": task.up,
        "hosts": task.hosts,
        "modules": task.modules,
        "ways": task.ways,
        "reasons": task.reasons,
        "failures": task.failures,
    }


def table(tasks: Sequence[Task], most: int) -> list[str]:
    """The slowest `most` tasks and the sum of all, as lines of text."""
    rows = [("seconds", "turnarounds", "kB down", "kB up", "task", "way")]
    rows += [_row(task, task.label, task.way) for task in tasks[:most]]
    total = Task(
        "",
        seconds=sum(task.seconds for task in tasks),
        turnarounds=sum(task.turnarounds for task in tasks),
        down=sum(task.down for task in tasks),
        up=sum(task.up for task in tasks),
    )
    left = len(tasks) - most
    rows.append(_row(total, f"all {len(tasks)} tasks" + (f", {left} of them not shown" if left > 0 else ""), ""))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [
        "  ".join(
            [cell.rjust(width) for cell, width in zip(row[:4], widths, strict=False)]
            + [row[4].ljust(widths[4]), row[5]]
        ).rstrip()
        for row in rows
    ]


def _row(task: Task, label: str, way: str) -> tuple[str, str, str, str, str, str]:
    return (
        f"{task.seconds:.2f}",
        str(task.turnarounds),
        f"{task.down / 1000:.1f}",
        f"{task.up / 1000:.1f}",
        label if len(label) <= WIDEST else label[: WIDEST - 3] + "...",
        way,
    )


WIDEST = 50  # characters of a task's name in the table
