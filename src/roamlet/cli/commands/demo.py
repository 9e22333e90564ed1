"""`roamlet demo`: the whole story in half a minute, on this machine alone.

Three bare interpreters import Django from this process's memory; then a pipeline of tasklets calls into them; and one tasklet moves
through two more and home.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from time import monotonic
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from roamlet.cli._errors import UsageError
from roamlet.cli.demonstration.migration import journey
from roamlet.cli.demonstration.module import load
from roamlet.cli.output.needed import need_rich
from roamlet.cli.programs.interpreters import Interpreter, interpreters

if TYPE_CHECKING:
    from rich.console import Console

    from roamlet.remote import Context

CONTEXTS = 3
WORK = "roamlet_demo_work"
PACKAGES = ("django", "asgiref", "sqlparse")

# No call of the demo takes a second on a slow machine; one that takes this long will never end.
CALL_SECONDS = 60.0

TICK_SECONDS = 0.1


Open = Callable[[Interpreter], AbstractContextManager["Context"]]


@dataclass
class Station:
    """One context of the demo, and what happened in it."""

    name: str
    interpreter: Interpreter
    context: "Context | None" = None
    connected_in: float = 0.0
    imported_in: float = 0.0
    report: dict[str, Any] | None = None
    figures: tuple[int, int, int, int] = (0, 0, 0, 0)
    calls: int = 0


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet demo`."""
    parser = commands.add_parser(
        "demo",
        help="local contexts and tasklets: the whole story in half a minute",
        description="Three bare interpreters import Django from memory; then a pipeline of tasklets calls into them.",
        allow_abbrev=False,
    )
    parser.set_defaults(command=demo)


def demo(
    options: argparse.Namespace,
    open_context: Open | None = None,
    out: IO[str] | None = None,
    journey: Callable[[], str] = journey,
) -> int:
    """Carry the command out and return its exit code: 1 when a context failed, with the reason on `out`."""
    need_rich()
    # Inside: rich and the remote layer take longer to load than all of `roamlet --help`.
    from rich.console import Console

    from roamlet import RoamletError

    out = out or sys.stdout
    console = Console(file=out, highlight=False, width=None if out.isatty() else 110)
    stations = _stations(_bare_interpreters())
    console.print(_opening(stations))
    try:
        with ExitStack() as opened:
            _import_everywhere(stations, opened, open_context or _open, console)
            console.print(_table(stations))
            answers, seconds = _pipeline(stations)
        moved = _told(journey)
    except RoamletError as error:
        console.print(f"roamlet demo failed: {error}", markup=False)
        return 1
    for sentence in _closing(stations, answers, seconds, moved):
        console.print(sentence, markup=False)
    return 0


# -- where it runs


def _bare_interpreters() -> list[Interpreter]:
    """Interpreters without Django that the Django of this process can run on, newest first."""
    try:
        needed = metadata("django")["Requires-Python"] or ""
    except PackageNotFoundError:
        raise UsageError(
            "the demo sends Django to its contexts, and Django is not installed: pip install 'roamlet[demo]'"
        ) from None
    bare = [one for one in interpreters(PACKAGES) if not one.has and one.version >= _least(needed)]
    if not bare:
        raise UsageError(
            f"no interpreter without Django was found that Django's {needed!r} allows. The demo shows an import "
            "of what is not there; run it from a virtual environment, whose base interpreter has no Django"
        )
    # Those of this process's own version first, then the others: three different ones where there are.
    return sorted(bare, key=lambda one: one.version[:2] != sys.version_info[:2])


def _least(requires: str) -> tuple[int, ...]:
    """The lower bound in a Requires-Python such as '>=3.10'; this process's version when it is written otherwise."""
    number = requires.removeprefix(">=").strip()
    try:
        return tuple(int(part) for part in number.split("."))
    except ValueError:
        return sys.version_info[:2]


def _stations(bare: Sequence[Interpreter]) -> list[Station]:
    chosen = [bare[index % len(bare)] for index in range(CONTEXTS)]
    return [Station(f"{letter} ({one.name})", one) for letter, one in zip("ABC", chosen, strict=True)]


def _work() -> ModuleType:
    """The module whose functions run in the contexts, under a name outside of roamlet's: roamlet's own modules never travel.

    It imports Django, so it is loaded only once Django is known to be here.
    """
    return load(WORK, "work.py")


def _open(interpreter: Interpreter) -> "Context":
    # Inside: see demo().
    from roamlet import remote

    return remote.local(python=interpreter.path)


# -- the import


def _import_everywhere(stations: Sequence[Station], opened: ExitStack, open_context: Open, console: "Console") -> None:
    """Open every context and import Django in it, all at once, one tasklet each. Raises the first failure."""
    # Inside: see demo().
    from roamlet.cli.output.fan_out import fan_out

    imported = _work().imported

    def attend(station: Station) -> None:
        started = monotonic()
        station.context = opened.enter_context(open_context(station.interpreter))
        station.connected_in = monotonic() - started
        station.report = station.context.call(imported, timeout=CALL_SECONDS)
        station.imported_in = monotonic() - started - station.connected_in
        stats = station.context.stats
        station.figures = (stats.modules, stats.round_trips, stats.bytes_down, stats.bytes_up)

    with _progress(stations, console):
        for outcome in fan_out(stations, attend):
            if outcome.error is not None:
                try:
                    raise outcome.error
                finally:
                    del outcome  # its error's traceback holds this frame


@contextmanager
def _progress(stations: Sequence[Station], console: "Console") -> Iterator[None]:
    """Bars that a tasklet moves while others work; nothing at all where the output is no terminal."""
    if not console.is_terminal:
        yield
        return
    # Inside: see demo().
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    import roamlet

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} modules"),
        TimeElapsedColumn(),
    )
    # No thread of rich: a tasklet of ours draws, in turns with those that do the work.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        bars = [(station, progress.add_task(station.name, total=None)) for station in stations]

        def draw() -> None:
            for station, bar in bars:
                if station.context is not None:
                    done = station.context.stats.modules
                    progress.update(bar, completed=done, total=done if station.report else None)
            progress.refresh()

        def keep_drawing() -> None:
            while True:
                draw()
                roamlet.sleep(TICK_SECONDS)

        drawing = roamlet.tasklet(keep_drawing)()
        try:
            yield
        finally:
            drawing.kill()
            draw()


# -- the pipeline


def _pipeline(stations: Sequence[Station]) -> tuple[dict[str, list[str]], float]:
    """Send every field type through a channel, have the contexts say its lookups, collect: (answers, seconds)."""
    # Inside: see demo().
    import roamlet

    lookups = _work().lookups
    jobs: roamlet.channel[str] = roamlet.channel()
    results: roamlet.channel[tuple[str, list[str]]] = roamlet.channel()
    report = stations[0].report
    assert report is not None
    fields: list[str] = report["fields"]

    def source() -> None:
        for field in fields:
            jobs.send(field)
        jobs.close()

    def middle(station: Station, context: "Context") -> None:
        for field in jobs:
            answer = context.call(lookups, (field,), timeout=CALL_SECONDS)
            station.calls += 1
            results.send((field, answer))

    started = monotonic()
    roamlet.tasklet(source)()
    for station in stations:
        assert station.context is not None
        roamlet.tasklet(middle)(station, station.context)
    answers = dict(results.receive() for _ in fields)
    seconds = monotonic() - started
    roamlet.run()  # the stages see that the jobs are over, and end
    return answers, seconds


# -- what is printed


def _opening(stations: Sequence[Station]) -> str:
    paths = dict.fromkeys(f"{one.interpreter.name} ({one.interpreter.path})" for one in stations)
    return (
        f"Three contexts without Django: {', '.join(paths)}. Each imports django.db.models from this process's memory."
    )


def _table(stations: Sequence[Station]) -> Any:
    # Inside: see demo().
    from rich.table import Table

    table = Table()
    table.add_column("context", no_wrap=True)
    headings = ("Django", "modules", "round trips", "kB down", "kB up", "s to connect", "s to import")
    for heading in headings:
        table.add_column(heading, justify="right")
    for station in stations:
        assert station.report is not None
        modules, round_trips, down, up = station.figures
        table.add_row(
            station.name,
            station.report["django"],
            str(modules),
            str(round_trips),
            f"{down / 1000:.1f}",
            f"{up / 1000:.1f}",
            f"{station.connected_in:.2f}",
            f"{station.imported_in:.2f}",
        )
    return table


def _told(journey: Callable[[], str]) -> str:
    """The sentence about the migration, or the reason why this Python cannot show it."""
    # Inside: see demo().
    from roamlet import NoCore
    from roamlet.remote import NoTasklets

    try:
        return journey()
    except (NoCore, NoTasklets) as error:
        return f"Tasklets that move are not shown: {str(error).splitlines()[0]}"


def _closing(stations: Sequence[Station], answers: dict[str, list[str]], seconds: float, moved: str) -> list[str]:
    modules = sum(station.figures[0] for station in stations)
    most = max(station.figures[1] for station in stations)
    trips = f"in at most {most} round trips each" if most else "without waiting for a single round trip"
    kilobytes = sum(station.figures[2] for station in stations) / 1000
    shares = ", ".join(f"{station.calls} by {station.name.split()[0]}" for station in stations)
    comparisons = sum(len(names) for names in answers.values())
    return [
        f"Three interpreters that have no Django imported it: {modules} modules in {kilobytes:.0f} kB over their pipes, "
        f"{trips}, while nothing was installed and no file was written.",
        f"A pipeline of {len(stations) + 2} tasklets on two channels then asked them about {len(answers)} types of "
        f"database fields in {seconds * 1000:.0f} ms ({shares}), and got {comparisons} lookups back.",
        moved,
        "The contexts are closed and their processes are gone; for machines of your own: roamlet run -H HOST platform:platform",
    ]
