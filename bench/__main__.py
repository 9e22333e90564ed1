"""`python -m bench`: take figures, print them, keep them as JSON, and write the docs' page from such a file."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roamlet_bench import gil, machine, server, show

from . import bars, page, tables
from .aio import measure as aio
from .ansible import measure as ansible
from .call_async import measure as call_async
from .calls import measure as calls
from .clusters import measure as clusters
from .core import measure as core
from .delivery import measure as delivery
from .executor import measure as executor
from .files import measure as files
from .fleets import measure as fleets
from .io import measure as io
from .libraries import measure as libraries
from .remote_import import measure as remote_import
from .seeing import measure as seeing
from .sleeping import measure as sleeping
from .snapshot import measure as snapshot
from .start import measure as start
from .stream import measure as stream
from .threads import measure as threads
from .wsgi import measure as wsgi

PARTS = {
    "core": core,
    "import": remote_import,
    "calls": calls,
    "stream": stream,
    "delivery": delivery,
    "fleets": fleets,
    "start": start,
    "files": files,
    "call_async": call_async,
    "executor": executor,
    "clusters": clusters,
    "aio": aio,
    "threads": threads,
    "sleeping": sleeping,
    "io": io,
    "libraries": libraries,
    "wsgi": wsgi,
    "snapshot": snapshot,
    "seeing": seeing,
    "gil": gil,
    "server": server,
    "ansible": ansible,
}
NAMED = ("ansible",)  # measured only when they are named: it takes root, and more than an hour


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure roamlet beside its peers, in one run."
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="core|import|calls|stream|delivery|fleets|start|files|call_async|executor|clusters|aio|threads|sleeping|io|libraries|wsgi|snapshot|seeing|gil|server|ansible",
        help="what to measure; without any, everything but ansible, which takes root and more than an hour",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every figure, the machine and the versions there"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns: under a minute, and noisier")
    parser.add_argument(
        "--python", action="append", metavar="PATH", help="gil and server: measure on this interpreter too"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="ansible: these scenarios and sides alone, as bench/ansible names them",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="ansible: how many turns each side has")
    parser.epilog = "python -m bench render FILE... PAGE writes a page of the docs from the JSON of earlier runs."
    parsed = parser.parse_args(arguments)
    unknown = [part for part in parsed.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part '{unknown[0]}' to measure; there are: {', '.join(PARTS)}")
    return parsed


def say(text: str) -> None:
    """Progress, for people who watch; it is no part of the output."""
    print(text, file=sys.stderr, flush=True)


def take(
    parts: list[str], quick: bool, pythons: Sequence[str] = (), only: Sequence[str] = (), rounds: int | None = None
) -> dict[str, Any]:
    """Measure these parts: everything that the JSON holds. Parts of threads are measured on `pythons` too."""
    run = machine.header(quick)
    for name in parts:
        part = PARTS[name]
        settings = part.QUICK if quick else part.Settings()
        if pythons and hasattr(settings, "pythons"):
            settings = replace(settings, pythons=(*settings.pythons, *pythons))
        if hasattr(settings, "only"):
            settings = replace(settings, only=tuple(only), rounds=rounds or settings.rounds)
        run[name] = part.measure(settings, say)
    run["bars"] = bars.verdicts(run)
    return run


def report(run: dict[str, Any]) -> None:
    for table in tables.tables(run):
        show.show(table)
    if "core" in run and not machine.is_312():
        print(f"The core's bars were set on Python 3.12; this is {run['versions']['python']}.")
    for part in PARTS:
        taken = run.get(part, {})
        for what, reason in (taken.get("skipped", {}) | taken.get("failed", {})).items():
            print(f"{part}: no figures of {what}: {reason.strip().splitlines()[-1]}")
            if "ModuleNotFoundError" in reason and "'roamlet" not in reason:
                print("    The peers come with: pip install 'roamlet[bench]'")


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["render"]:
        return render(arguments[1:])
    options = parse(arguments)
    noise = machine.busy()
    if noise:
        say(noise)
    parts = options.parts or [name for name in PARTS if name not in NAMED]
    run = take(parts, options.quick, options.python or (), options.only or (), options.rounds)
    report(run)
    if noise:
        print(noise)
    if options.json:
        options.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        say(f"every figure is in {options.json}")
    return 0


def render(arguments: list[str]) -> int:
    """`render FILE... PAGE`: the page of the docs from the JSON of a run, or of several that measured different parts."""
    if len(arguments) < 2:
        print(
            "render needs two paths or more: python -m bench render FILE.json [FILE.json ...] PAGE.md", file=sys.stderr
        )
        return 2
    *sources, target = map(Path, arguments)
    runs = [json.loads(source.read_text(encoding="utf-8")) for source in sources]
    run = runs[0] if len(runs) == 1 else page.merged(runs)
    target.write_text(page.page(run), encoding="utf-8")
    page.plots(run, target.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
