"""What earlier runs gave, kept in the repository, so that it outlives the machine that they were run on.

`stock.json` has whether a target passes with stock: the measure of later runs. `results.json` has what roamlet gave, with a
digest of the sources that it was run with. Both are written by `--record`, and read for the verdict and for the page.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.ansible.judges.judging import COLUMNS, Result
from apps.ansible.judges.targets import FOLDER

STOCK = FOLDER / "stock.json"
OURS = FOLDER / "results.json"
COLUMN = "roamlet"


@dataclass(frozen=True)
class Records:
    """The two files; a test has others."""

    stock_path: Path = STOCK
    ours_path: Path = OURS

    def stock(self, line: str) -> dict[str, dict[str, bool]]:
        """What stock gave on one core line: column, then target, then whether it passed."""
        found: dict[str, dict[str, bool]] = _read(self.stock_path).get(line, {})
        return found

    def ours(self, line: str) -> list[Result]:
        """What roamlet gave on one core line; `sources` is empty where it was run before digests were kept."""
        return [
            Result(target=target, column=COLUMN, **values)
            for target, values in _read(self.ours_path).get(line, {}).items()
        ]

    def add(self, line: str, measured: Iterable[Result], now: str, run: Collection[str]) -> None:
        """Put what was measured on one core line into the files, and forget targets that are not among those that are run.

        A broken sandbox says nothing, and is not recorded. `now` is the digest of the present sources: what was measured
        with other ones does not replace what was measured with these.
        """
        everything = _read(self.stock_path)
        columns = everything.setdefault(line, {})
        ours = {result.target: result for result in self.ours(line)}
        for result in measured:
            if result.outcome == "broken":
                continue
            if COLUMNS[result.column].is_stock:
                columns.setdefault(result.column, {})[result.target] = result.passed
            else:
                ours[result.target] = newer(ours.get(result.target), result, now)
        for name, known in columns.items():
            columns[name] = {target: passed for target, passed in known.items() if target in run}
        _write(self.stock_path, everything)
        kept = {
            target: {"outcome": result.outcome, "seconds": result.seconds, "sources": result.sources}
            for target, result in ours.items()
            if target in run
        }
        _write(self.ours_path, {**_read(self.ours_path), line: kept})


def newer(recorded: Result | None, measured: Result, now: str) -> Result:
    """Which of two results of one target counts: the measured one, unless only the recorded one is of the present sources."""
    if recorded and recorded.sources == now != measured.sources:
        return recorded
    return measured


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def _write(path: Path, everything: dict[str, Any]) -> None:
    path.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", "utf-8")
