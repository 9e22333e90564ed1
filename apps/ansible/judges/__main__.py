"""`make judges-ansible`: run ansible-core's integration targets with stock ssh and with roamlet, and compare."""

import argparse
import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from apps.ansible.judges import prepare, report, sandbox, targets
from apps.ansible.judges.judging import COLUMNS, Result, Setup, judge, kept
from apps.ansible.judges.records import COLUMN, Records, newer

PAGE = prepare.ROOT / "docs/reference/ansible-judges.md"
SECONDS = 600.0


def options(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make judges-ansible ARGS=...", description=__doc__)
    parser.add_argument("--core", action="append", help="a line of ansible-core, 2.21 for instance; all without it")
    parser.add_argument("--only", default="", help="names of targets, with commas; all of the data file without it")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="of %(default)s")
    parser.add_argument("--jobs", type=int, default=1, help="sandboxes at a time")
    parser.add_argument("--timeout", type=float, default=SECONDS, help="seconds for a target (%(default)s)")
    parser.add_argument("--resume", action="store_true", help="take over results of an earlier run of the same")
    parser.add_argument("--record", action="store_true", help="run nothing; write what is kept into the data files")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page of the documentation")
    parser.add_argument("--list", action="store_true", help="only say which targets would be run")
    return parser.parse_args(words)


def _setup(core: targets.Core, data: targets.Targets, columns: list[str]) -> Setup:
    venv = prepare.virtual_environment(core)
    source = prepare.source(core, venv)
    layer = prepare.layer()
    roamlet = prepare.roamlet(venv) if "roamlet" in columns else ""
    return Setup(
        source=source,
        venv=venv,
        wheels=prepare.wheels(core, venv),
        version=core.version,
        layer=layer,
        results=prepare.BUILD / "results" / core.line,
        where=prepare.mount_point(),
        stock_key=prepare.stock_key(core),
        sources=roamlet,
        adjusted=data.adjusted,
    )


def _one(setup: Setup, name: str, columns: list[str], seconds: float, resume: bool) -> list[Result]:
    """One target in all columns, one after the other, so that they are measured under the same load."""
    found = []
    for column in columns:
        earlier = kept(setup, column, name) if resume else None
        found.append(earlier or judge(setup, COLUMNS[column], name, seconds))
    return found


def _names(words: str) -> list[str]:
    return [name for name in words.split(",") if name]


def run_line(core: targets.Core, data: targets.Targets, chosen: argparse.Namespace, columns: list[str]) -> int:
    """All targets of one core line; its exit code."""
    setup = _setup(core, data, columns)
    present = targets.present(setup.source)
    asked = _names(chosen.only)
    names = [name for name in asked if name in present] if asked else data.chosen(present)
    if missing := [name for name in asked if name not in present]:
        print(f"ansible-core {core.version} has no target {', '.join(missing)}", file=sys.stderr)
    if len(missing) == len(asked) and asked:
        return 2
    if unknown := data.unknown(present):
        print(f"not in {targets.DATA.name}: {', '.join(unknown)}")
    recorded = Records().stock(core.line)
    print(f"ansible-core {core.version}, Python {core.python}: {len(names)} targets", flush=True)
    if chosen.list:
        print("\n".join(names))
        return 0
    print(report.heading(columns), flush=True)
    results: list[Result] = []
    with ThreadPoolExecutor(chosen.jobs) as executor:
        waiting = {
            executor.submit(_one, setup, name, columns, data.seconds.get(name, chosen.timeout), chosen.resume): name
            for name in names
        }
        try:
            for future in as_completed(waiting):
                found = future.result()
                results += found
                row = {result.column: result for result in found}
                print(report.line(waiting[future], row, columns, recorded), flush=True)
        except (KeyboardInterrupt, SystemExit):
            # Sandboxes end with the threads that started them; the executor would wait for their targets first.
            print("interrupted", file=sys.stderr, flush=True)
            os._exit(130)
    rows = report.rows(results)
    print("\n".join(report.summary(rows, recorded, columns)), flush=True)
    return report.exit_code(rows, recorded)


def kept_results(line: str) -> list[Result]:
    """All results of one core line that are kept."""
    found = sorted((prepare.BUILD / "results" / line).glob("*/*.json"))
    return [Result(**json.loads(path.read_text("utf-8"))) for path in found]


def record(data: targets.Targets, records: Records) -> None:
    """Put the results that are kept into the data files."""
    now = prepare.sources()
    for line in data.cores:
        records.add(line, kept_results(line), now, data.run)


def write_page(data: targets.Targets, records: Records, path: Path) -> None:
    """The page of the documentation: what is kept of this machine's runs, and for all else what was recorded."""
    now = prepare.sources()
    lines = {}
    for line, core in data.cores.items():
        source = prepare.BUILD / "source" / f"ansible_core-{core.version}"
        if not source.exists():
            raise prepare.NotPrepared(
                f"no targets of ansible-core {core.version} are here: --core {line} --list fetches them"
            )
        ours = {result.target: result for result in records.ours(line)}
        found = report.rows([*ours.values(), *kept_results(line)])
        for target, result in ours.items():
            found[target][COLUMN] = newer(result, found[target][COLUMN], now)
        lines[line] = (found, records.stock(line), targets.present(source))
    path.write_text(report.page(data, lines, now), "utf-8")
    print(f"{path.relative_to(prepare.ROOT)}: {', '.join(lines)}")


def write(data: targets.Targets, chosen: argparse.Namespace) -> int:
    """Write the data files and the page, as far as that was asked for; the exit code."""
    if chosen.record:
        record(data, Records())
    if chosen.page:
        try:
            write_page(data, Records(), PAGE)
        except prepare.NotPrepared as problem:
            print(f"the page cannot be written: {problem}", file=sys.stderr)
            return 2
    return 0


def main(words: list[str]) -> int:
    """Run what was asked for; the exit code is the worst of the core lines."""
    if words[:1] == ["roles"]:
        # Inside: it brings the lab and the benchmark, which the targets do not need.
        from apps.ansible.judges import roles

        return roles.main(words[1:])
    if words[:1] == ["mitogen"]:
        from apps.ansible.judges import mitogen_books

        return mitogen_books.main(words[1:])
    chosen = options(words)
    data = targets.read()
    if chosen.record or chosen.page:
        return write(data, chosen)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    columns = _names(chosen.columns)
    if wrong := [name for name in columns if name not in COLUMNS]:
        print(f"no column {', '.join(wrong)}; there are {', '.join(COLUMNS)}", file=sys.stderr)
        return 2
    if "roamlet" in columns and not prepare.can_judge_roamlet():
        print("this clone has no package roamlet-ansible: its column is left out", file=sys.stderr)
        columns.remove("roamlet")
    if reason := sandbox.why_not(prepare.mount_point()):
        print(f"the judges cannot run on this machine: {reason}", file=sys.stderr)
        return 2
    codes = []
    for line in chosen.core or data.cores:
        if line not in data.cores:
            print(f"no core line {line}; there are {', '.join(data.cores)}", file=sys.stderr)
            return 2
        try:
            codes.append(run_line(data.cores[line], data, chosen, columns))
        except prepare.NotPrepared as problem:
            print(f"the judges cannot run: {problem}", file=sys.stderr)
            return 2
    return 1 if 1 in codes else max(codes, default=2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
