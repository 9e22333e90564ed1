"""What is measured side by side, a row of the tables each: an implementation, its interpreter, features on or off."""

import json
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"

PROBE_SECONDS = 60.0

# Asked of the interpreter itself, as what can be imported depends on much: its version, and why each module cannot be had.
QUESTION = """
import importlib, json, platform, sys
def why_not(name):
    try:
        importlib.import_module(name)
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
print(json.dumps([platform.python_version(), {name: why_not(name) for name in sys.argv[1:]}]))
"""


@dataclass(frozen=True)
class Implementation:
    """A program and what it runs on. `needs`: the modules without which it cannot be measured, with spaces between."""

    name: str
    program: str
    words: tuple[str, ...] = ()
    needs: str = ""
    under: str = ""  # the module that runs the unchanged program: roamlet.threads or roamlet.patch
    responsive: bool = False

    @property
    def of_threads(self) -> bool:
        """Whether it is the program of plain threads, which is measured on every interpreter; its peers only on the first."""
        return self.under != "" or self.name == "threads"


@dataclass(frozen=True)
class Variant:
    """An implementation on an interpreter at a switch interval in seconds."""

    implementation: Implementation
    python: str
    version: str
    interval: float

    @property
    def title(self) -> str:
        """Names it in notes, in progress and in plots."""
        feature = " responsive" if self.implementation.responsive else ""
        return f"{self.version} {self.implementation.name}{feature}, {self.interval * 1e3:g} ms"

    def command(self, *words: str) -> list[str]:
        """The command line that runs its program, as people would run it."""
        runner = ["-m", self.implementation.under] if self.implementation.under else []
        program = str(PROGRAMS / self.implementation.program)
        return [self.python, *runner, program, *self.implementation.words, *words]

    def described(self) -> dict[str, Any]:
        """The variant as it is written to the JSON."""
        implementation = asdict(self.implementation)
        kept = {key: implementation[key] for key in ("name", "under", "responsive")}
        return {**kept, "version": self.version, "interval": self.interval, "title": self.title}


# All turns of each figure of each variant.
Turns = dict[Variant, dict[str, list[dict[str, float]]]]


def variants(
    implementations: Sequence[Implementation],
    pythons: Sequence[str],
    intervals: Sequence[float],
    skipped: dict[str, str],
) -> Iterator[Variant]:
    """Every implementation that can be had on every interpreter; the others get their reason in `skipped`.

    Peers of the threads are taken on the first interpreter only: they are there for comparison. Starts each interpreter once.
    """
    needed = tuple(sorted({module for one in implementations for module in one.needs.split()}))
    for position, python in enumerate(pythons):
        version, missing = probe(python, needed)
        for implementation in implementations:
            if position and not implementation.of_threads:
                continue
            reason = next(filter(None, map(missing.get, implementation.needs.split())), None)
            if reason is not None:
                skipped[f"{version} {implementation.name}"] = reason
                continue
            for interval in intervals:
                if implementation.responsive and interval != max(intervals):
                    continue  # it shortens the interval itself
                yield Variant(implementation, python, version, interval)


@cache
def probe(python: str, modules: tuple[str, ...]) -> tuple[str, dict[str, str | None]]:
    """The version of an interpreter, and for each module why it cannot be imported there, or None. Raises OSError, ValueError."""
    done = subprocess.run(
        [python, "-c", QUESTION, *modules],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROBE_SECONDS,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ValueError(f"{python} is no Python that could be measured: {last}")
    version, missing = json.loads(done.stdout.strip().splitlines()[-1])
    return version, missing


def medians(turns: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The median of each figure over the turns, and all turns of the one that counts, 'value'."""
    together: dict[str, Any] = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
    together["turns"] = [turn["value"] for turn in turns]
    return together


def rows(turns: Turns) -> list[dict[str, Any]]:
    """The variants that were measured, as written to the JSON: each figure's median, and all its turns."""
    return [
        {"variant": variant.described(), **{figure: medians(all_turns) for figure, all_turns in taken.items()}}
        for variant, taken in turns.items()
        if taken
    ]


def compact(value: float | None) -> str:
    """A rate in at most four characters or so: 143, 2.30k, 37.1k, 1.23M."""
    if value is None:
        return "-"
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if value >= unit * 0.9995:
            scaled = value / unit
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f}{sign}"
    return f"{value:.0f}"
