"""`roamlet doctor`: what works on this machine and on hosts, and the line that mends what does not. Changes nothing."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import IO, Any

from roamlet._escapes import escaped_for
from roamlet.cli._errors import FAILED
from roamlet.cli.examining import hosts, machine, packages
from roamlet.cli.examining.finding import Finding
from roamlet.cli.output.needed import need_rich
from roamlet.cli.output.outcomes import Lines, Style, carry_out
from roamlet.cli.output.progress import Progress
from roamlet.cli.reaching.declaring import add_hosts, add_limits, add_way, check_limits
from roamlet.cli.reaching.options import hops, inventory_of, targets_of

DESCRIPTION = """\
What works on this machine: the Python, roamlet's core, ssh, limits, permissions, and the packages of other commands. With -H, also
which Python each host has, what works there, and how long a round trip takes. Nothing is changed."""

EPILOG = """\
Each line begins with ok, note (it works, with less) or WRONG; the line below says what to type.

  roamlet doctor
  roamlet doctor -H 'web[01-20]'

Exit code: 0 nothing is wrong, 1 something is, 64 wrong command line, 3 nothing is wrong, but hosts could not be reached."""

WORDS = {"ok": "ok", "note": "note", "wrong": "WRONG"}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet doctor`."""
    parser = commands.add_parser(
        "doctor",
        help="what works here and on hosts, and how to mend what does not",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_hosts(parser)
    add_way(parser)
    add_limits(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line and finding, for other programs")
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace, out: IO[str] | None = None, findings: Iterable[Finding] | None = None) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything is looked at.

    `findings`: about this machine, in place of those that are looked for.
    """
    out = out or sys.stdout
    inventory = inventory_of(options)
    targets = targets_of(options.hosts, options, inventory) if options.hosts is not None else []
    check_limits(options)
    if targets and not options.json:
        need_rich("add --json")
    states: Counter[str] = Counter()
    for finding in chain(machine.findings(), packages.findings()) if findings is None else findings:
        states[finding.state] += 1
        _print(finding, out, as_json=options.json)
    status = FAILED if states["wrong"] else 0
    if not options.json:
        print(_in_all(states), file=out)
    if not targets:
        return status
    progress = Progress(len(targets), sys.stderr)
    lines = Lines(progress)
    with hops(options, inventory) as way:

        def work(target: Any) -> dict[str, Any]:
            with progress.through(target.name, way.opened(target, output=lines)) as context:
                return hosts.examined(context, options.timeout)

        style = Style(hosts.shown, partial(dict), as_json=options.json)
        reached = carry_out(targets, work, out, style, options.at_once, progress, lines)
    return status or reached


def _print(finding: Finding, out: IO[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(finding.fields()), file=out)
        return
    print(f"{WORDS[finding.state]:5}  {finding.about:16}  {escaped_for(finding.said, out)}", file=out)
    if finding.mend:
        print(f"{'':23}  type: {escaped_for(finding.mend, out)}", file=out)


def _in_all(states: Counter[str]) -> str:
    if not states["wrong"]:
        return "nothing is wrong" + (f"; {states['note']} could be better" if states["note"] else "")
    return f"{states['wrong']} wrong" + (f", {states['note']} could be better" if states["note"] else "")
