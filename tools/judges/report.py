"""The table of the judges, its details, and the committed list of exceptions."""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tools.judges.judging import Verdict

EXCEPTIONS = Path(__file__).with_name("exceptions.toml")


def exceptions(version: str, path: Path = EXCEPTIONS, *, threads: str = "os") -> dict[str, str]:
    """The tests that need not pass on this version of Python, "3.12" for instance, and why not; those with
    `threads` only where threads are that, "tasklets".

    ValueError for an entry without a reason or with an unknown key.
    """
    found = {}
    for entry in tomllib.loads(path.read_text("utf-8")).get("exception", []):
        if (
            set(entry) - {"tests", "reason", "pythons", "threads"}
            or not entry.get("tests")
            or not entry.get("reason", "").strip()
        ):
            raise ValueError(f"{path}: an exception has tests, a reason and perhaps pythons and threads, not {entry}")
        if version in entry.get("pythons", [version]) and threads == entry.get("threads", threads):
            found.update(dict.fromkeys(entry["tests"], entry["reason"]))
    return found


def table(verdicts: Iterable[Verdict]) -> str:
    """A line for each module and Python."""
    head = f"{'Python':7} {'module':24} {'stock':>6} {'patched':>8} {'%':>6} {'excepted':>9} {'unexpected':>11} {'held up':>8}"
    lines = [head]
    for each in verdicts:
        if each.stock.state in ("absent", "skipped"):
            lines.append(f"{each.python:7} {each.module:24} {each.stock.state}: {each.stock.text[:70]}")
            continue
        stock = len(each.stock.passed())
        kept = stock - len(each.lost)
        longest = max(each.late().values(), default=0.0)
        lines.append(
            f"{each.python:7} {each.module:24} {stock:6} {kept:8} {100 * kept / max(stock, 1):6.1f} {len(each.excepted):9} "
            f"{len(each.unexpected()):11} {f'{longest:.1f} s' if longest else '':>8}"
        )
    return "\n".join(lines)


def details(verdicts: Iterable[Verdict]) -> str:
    """What was lost without a reason, what held the thread up, and which lines of the list are needless."""
    lines = []
    for each in verdicts:
        for name in each.unexpected():
            last = (each.lost[name].text.strip().splitlines() or [""])[-1]
            lines.append(f"{each.python} {name} {each.lost[name].outcome}: {last[:160]}")
        for name, seconds in sorted(each.late().items()):
            lines.append(f"{each.python} {name} held its thread up for {seconds:.1f} s")
        lines += [f"{each.python} {name} passes: its exception is needless" for name in each.needless]
        lines += [
            f"{each.python} {each.module} was not run to its end, {how}: {run.text[-300:]}"
            for how, run in (("stock", each.stock), ("patched", each.patched))
            if run.state == "unfinished"
        ]
    return "\n".join(lines)


def as_json(verdicts: Iterable[Verdict]) -> str:
    """All of it."""
    return json.dumps([asdict(each) for each in verdicts], indent=1)
