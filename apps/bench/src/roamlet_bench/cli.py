"""`roamlet bench`: what threads cost on this machine, stock and with roamlet. Parses and prints; others measure and draw.

1: something could not be measured · 64: the command line is wrong · a peer that is not installed is noted and changes nothing
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from roamlet.cli import UsageError

if TYPE_CHECKING:
    from roamlet_bench.show import Table

DESCRIPTIONS = {
    "gil": "Two CPU-bound threads against one, and pairs of threads that hand over by Lock, Condition, Semaphore, Event, Queue "
    "and SimpleQueue: alone and beside a CPU-bound thread, stock and with roamlet.threads.",
    "server": "A threaded web server by socketserver under load, with 1 and 10 connections, alone and beside a CPU-bound thread: "
    "stock, with roamlet.threads, and gevent, asyncio, uvloop and roamlet beside it.",
}

# Shorter turns measure the clock and the start of threads; longer rounds than an hour are typing errors.
SECONDS = (0.01, 60.0)
ROUNDS = (1, 1000)
INTERVALS = (1e-6, 10.0)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet bench`."""
    parser = commands.add_parser(
        "bench",
        help="what threads and the GIL cost here, stock and with roamlet",
        description="Figures of this machine, everything in turns within one run; the medians count.",
        allow_abbrev=False,
    )
    parser.set_defaults(command=bench)
    parts = parser.add_subparsers(metavar="gil|server|import", dest="part", required=True)
    _add_import(parts)
    for part, description in DESCRIPTIONS.items():
        one = parts.add_parser(part, description=description, help=description.split(":")[0], allow_abbrev=False)
        one.add_argument(
            "--json", type=Path, metavar="FILE", help="write every figure, the machine and the versions there"
        )
        one.add_argument(
            "--plot", type=Path, metavar="FILE", help="draw the figures: .svg, or .png with the extra 'plot'"
        )
        one.add_argument("--seconds", type=float, metavar="S", help="the length of one turn of one figure")
        one.add_argument("--rounds", type=int, metavar="N", help="the number of turns; their median counts")
        one.add_argument("--quick", action="store_true", help="fewer and shorter turns, and noisier")
        one.add_argument(
            "--python",
            action="append",
            metavar="PATH",
            help="measure on this interpreter too; may be given several times",
        )
        one.add_argument(
            "--interval",
            action="append",
            type=float,
            metavar="MS",
            help="a switch interval in milliseconds; may be given several times (default: 5 and 0.5)",
        )
        if part == "gil":
            one.add_argument("--cores", type=int, default=0, metavar="N", help="on N cores (default: on all)")
        else:
            one.add_argument("--pin", action="store_true", help="keep the servers off the core that the load is on")


def _add_import(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    one = parts.add_parser(
        "import",
        help="bytes over time while a bare interpreter imports a package from here",
        description="Bytes over time while a bare interpreter at the end of a slow line imports MODULE: each module asked for when "
        "it is missed, and all in one bundle ahead of the call, as roamlet does.",
        allow_abbrev=False,
    )
    one.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .svg, or .png with the extra 'plot'")
    one.add_argument("--json", type=Path, metavar="FILE", help="write every figure, the machine and the versions there")
    one.add_argument("--rtt", type=float, default=80.0, metavar="MS", help="round trip of the line (default: 80)")
    one.add_argument(
        "module", metavar="MODULE", nargs="?", default="django.db.models", help="default: django.db.models"
    )
    one.set_defaults(command=bench_import)


def bench_import(options: argparse.Namespace) -> int:
    """Carry `roamlet bench import` out and return its exit code."""
    # Inside: see bench().
    from roamlet_bench import imports, machine, plot, show

    if not 0 <= options.rtt <= 10_000:
        raise UsageError(f"--rtt {options.rtt:g} is out of range: say 0 to 10000 milliseconds")
    _check_files(options)
    try:
        imports.check(options.module)
    except ImportError as error:
        raise UsageError(f"{options.module} cannot be imported here: {error}") from None
    run = machine.header(False)
    with _Progress(sys.stderr) as progress:
        run["import"] = taken = imports.measure(options.module, options.rtt / 1000, progress.say)
    show.show(imports.table(taken))
    if options.json:
        options.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot.curves(
            f"Bytes sent while a bare interpreter imports {options.module}", imports.curves(taken), options.plot
        )
    return 0


def _check_files(options: argparse.Namespace) -> None:
    """Raise UsageError for files that could not be written, before anything is measured."""
    # Inside: see bench().
    from roamlet_bench import plot

    for path in filter(None, (options.plot, options.json)):
        if not path.resolve().parent.is_dir():
            raise UsageError(f"'{path}' cannot be written: there is no folder '{path.parent}'")
    if options.plot:
        try:
            plot.check(options.plot)
        except plot.PlotRefused as refused:
            raise UsageError(str(refused)) from None


def bench(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code: 1 when something could not be measured."""
    # Inside: `roamlet --help` starts faster without the modules that measure and draw.
    from roamlet_bench import machine, show

    settings = _settings(options)
    _check_files(options)
    noise = machine.busy()
    if noise:
        print(noise, file=sys.stderr)
    run = machine.header(options.quick)
    part = _part(options.part)
    with _Progress(sys.stderr) as progress:
        run[options.part] = taken = part.measure(settings, progress.say)
    tables: Sequence[Table] = part.tables(taken)
    for table in tables:
        show.show(table)
    _write(options, run)
    for what, reason in taken["skipped"].items():
        print(f"not measured: {what}: {reason}")
    for what, reason in taken["failed"].items():
        print(f"roamlet bench {options.part}: {what} failed: {reason}", file=sys.stderr)
    return 1 if taken["failed"] or not taken["rows"] else 0


def _part(name: str) -> Any:
    # Inside: see bench().
    from roamlet_bench import gil, server

    return {"gil": gil, "server": server}[name]


def _settings(options: argparse.Namespace) -> Any:
    """The part's settings with what the command line changes. Raises UsageError for values that make no sense."""
    # Inside: see bench().
    from dataclasses import replace

    from roamlet_bench import variants

    part = _part(options.part)
    changed: dict[str, Any] = {}
    if options.seconds is not None:
        changed["seconds"] = _within("--seconds", options.seconds, SECONDS)
    if options.rounds is not None:
        changed["rounds"] = _within("--rounds", options.rounds, ROUNDS)
    if options.interval:
        changed["intervals"] = tuple(_within("--interval", ms / 1e3, INTERVALS, 1e3) for ms in options.interval)
    if options.python:
        changed["pythons"] = tuple(dict.fromkeys([sys.executable, *options.python]))
        for python in options.python:
            try:
                variants.probe(python, ())
            except (OSError, ValueError) as error:
                raise UsageError(f"--python {python}: {error}") from None
    if options.part == "server":
        changed["pin"] = options.pin
    elif options.cores:
        # Inside: see bench().
        from os import sched_getaffinity

        changed["cores"] = _within("--cores", options.cores, (1, len(sched_getaffinity(0))))
    return replace(part.QUICK if options.quick else part.Settings(), **changed)


def _within(option: str, value: Any, bounds: tuple[float, float], scale: float = 1) -> Any:
    low, high = bounds
    if not low <= value <= high:
        raise UsageError(f"{option} {value * scale:g} is out of range: say {low * scale:g} to {high * scale:g}")
    return value


def _write(options: argparse.Namespace, run: dict[str, Any]) -> None:
    """Write the requested files."""
    # Inside: see bench().
    from roamlet_bench import charts, plot

    if options.json:
        options.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        panels = {"gil": charts.gil_panels, "server": charts.server_panels}[options.part](run[options.part])
        where = run["machine"]
        plot.draw(f"roamlet bench {options.part}: {where['processor']}, {where['cores']} cores", panels, options.plot)


class _Progress:
    """One line that shows what is being measured, rewritten in place on a terminal; nothing in a pipe."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out if out.isatty() else None

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.say("")

    def say(self, text: str) -> None:
        if self._out is not None:
            self._out.write(f"\r\x1b[K{text}")
            self._out.flush()
