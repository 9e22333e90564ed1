"""`roamlet run`: one function on many hosts at once. Decides what to do from the words, does it, prints; no transport here."""

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from roamlet.cli._errors import UsageError
from roamlet.cli._hints import for_command_line
from roamlet.cli._inventory import Host, Inventory, folded, hosts_from, read_inventory
from roamlet.cli._named_function import arguments_from, function_named
from roamlet.cli._opening import Hops, hand_on
from roamlet.cli._progress import Progress

if TYPE_CHECKING:
    from roamlet.cli._fan_out import Outcome

__all__ = ["add_parser"]

# More local interpreters than this on one machine is a slip of the finger; each takes a process and some 10 MB.
MOST_LOCAL = 256
AT_ONCE = 50  # hosts; each is a process of ssh here while it runs

FAILED, UNREACHABLE = 1, 3  # exit codes

# The last place of a traceback that is no library's, in the text that comes with an error from over there.
PLACE = re.compile(r'File "(?:roamlet:)?([^"]+)", line (\d+), in (\S+)')

EPILOG = """\
Each ARG is read as JSON where it is JSON (3, true, [1, 2], "text"), else as plain text; --text leaves all of them text.

  roamlet run --local 3 platform:platform
  roamlet run -H alpha,beta --timeout 10 shutil:which rsync
  roamlet run -H 'web[01-20],@more-hosts' --group platform:python_version
  roamlet run -i hosts.toml -H web,db --sudo mychecks:firewall

Exit code: 0 all succeeded, 1 the function failed on at least one host, 64 wrong command line (nothing was touched), 3 it failed
nowhere, but some hosts could not be reached, 130 interrupted."""


class Context(Protocol):
    """What a context offers that this command uses."""

    def call(self, function: Callable[..., Any], args: Sequence[Any] = ..., *, timeout: float | None = ...) -> Any:
        """Run function(*args) over there and return what it returns."""


Connect = Callable[[Host], AbstractContextManager[Context]]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet run` and its options."""
    parser = commands.add_parser(
        "run",
        help="run a function on many hosts at once",
        description="Run MODULE:FUNCTION with ARGs on every host at once; one line per host as results come.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--local", metavar="N", type=int, help="N interpreters on this machine")
    where.add_argument(
        "-H",
        "--hosts",
        metavar="HOST[,HOST...]",
        action="append",
        help="hosts that ssh reaches: [USER@]HOST[:PORT], ranges as in web[01-20], groups of -i, @FILE with one a line",
    )
    add_way(parser)
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="how long the call may take on each host")
    parser.add_argument(
        "--at-once", metavar="N", type=int, default=AT_ONCE, help=f"so many hosts at a time (default: {AT_ONCE})"
    )
    parser.add_argument(
        "--group", action="store_true", help="equal results once, with the hosts that gave them, at the end"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line and host, for other programs")
    parser.add_argument("--text", action="store_true", help="pass every ARG as text, whatever it looks like")
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="imported here, sent there")
    parser.add_argument("args", metavar="ARG", nargs="*", default=[], help="arguments of the function")
    parser.set_defaults(command=run)


def add_way(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say how to get to a host."""
    parser.add_argument(
        "-i",
        "--inventory",
        metavar="FILE",
        type=Path,
        help="groups and settings of hosts: TOML, or Ansible's INI or JSON",
    )
    parser.add_argument("--via", metavar="HOST", help="go through this host, which then runs the rest of the way")
    parser.add_argument("--sudo", action="store_true", help="as root over there, by sudo")
    parser.add_argument(
        "--ask-password", action="store_true", help="ask for sudo's password once, before anything is touched"
    )
    parser.add_argument("--python", metavar="PATH", help="the interpreter over there, instead of the one found")


def run(options: argparse.Namespace, connect: Connect | None = None, out: IO[str] | None = None) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything is touched.

    `connect` makes the context of a target (default: by roamlet.remote), `out` takes the output (default: stdout).
    """
    out = out or sys.stdout
    inventory = read_inventory(options.inventory) if options.inventory else Inventory()
    targets = _targets(options, inventory)
    if options.timeout is not None and not 0 < options.timeout < float("inf"):
        raise UsageError(f"--timeout {options.timeout:g}: give a number of seconds above 0, for example --timeout 10")
    if options.at_once < 1:
        raise UsageError(f"--at-once {options.at_once}: give a number of hosts, 1 or more")
    function = function_named(options.function)
    args = arguments_from(options.args, as_text=options.text)
    if connect is not None:
        return _run(options, targets, partial(_call, connect, function, args, options.timeout), out)
    with hops(options, inventory) as way:
        by_roamlet: Connect = partial(way.opened, output=hand_on)
        return _run(options, targets, partial(_call, by_roamlet, function, args, options.timeout), out)


def hops(
    options: argparse.Namespace, inventory: Inventory, changed: Callable[[Host], Host] = lambda host: host
) -> Hops:
    """What opens contexts as the command line says; asks for a password if it is to. Raises UsageError when it cannot.

    `changed` is what becomes of hosts on the way.
    """
    password = None
    if options.ask_password:
        if not options.sudo:
            raise UsageError("--ask-password asks for sudo's password: give --sudo too, or leave it out")
        # Inside: hardly anybody asks.
        from getpass import getpass

        try:
            password = getpass("password for sudo: ")
        except EOFError:
            raise UsageError(
                "--ask-password: there is no terminal to ask on; give the password in ROAMLET_SUDO_PASSWORD"
            ) from None
    return Hops(lambda name: changed(hosts_from([name], inventory)[0]), sudo=options.sudo, password=password)


def _call(
    connect: Connect,
    function: Callable[..., Any],
    args: Sequence[Any],
    timeout: float | None,
    progress: Progress,
    target: Host,
) -> Any:
    try:
        progress.move(target.name, "connecting")
        with connect(target) as context:
            progress.move(target.name, "running")
            return context.call(function, args, timeout=timeout)
    finally:
        progress.move(target.name, "done")


def _run(
    options: argparse.Namespace, targets: Sequence[Host], call: Callable[[Progress, Host], Any], out: IO[str]
) -> int:
    # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
    from roamlet.cli._fan_out import fan_out
    from roamlet.remote import ConnectError

    progress = Progress(len(targets), sys.stderr)
    width = max(len(target.name) for target in targets)
    outcomes: list[Outcome[Host, Any]] = []
    try:
        for outcome in fan_out(targets, partial(call, progress), at_once=options.at_once):
            if outcome.error is not None or options.group:
                outcomes.append(outcome)
            if options.json or not options.group:
                progress.wipe()
                print(_json_line(outcome) if options.json else _line(outcome, width), file=out, flush=True)
                progress.show()
    finally:
        progress.wipe()
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if not options.json:
        if options.group:
            print_groups(outcomes, out)
        if failed:
            _print_failures(failed, len(targets), out)
    if not failed:
        return 0
    return UNREACHABLE if all(isinstance(outcome.error, ConnectError) for outcome in failed) else FAILED


def print_groups(outcomes: "Sequence[Outcome[Host, Any]]", out: IO[str]) -> None:
    """Equal results together, the most frequent first; failures by the first line of their message, whatever host it names."""
    groups: dict[str, list[Outcome[Host, Any]]] = {}
    for outcome in outcomes:
        groups.setdefault(_what_anywhere(outcome), []).append(outcome)
    for what, same in sorted(groups.items(), key=lambda item: -len(item[1])):
        if len(same) == 1:
            print(f"1 host: {_what(same[0])}", file=out)
        else:
            print(f"{len(same)} hosts: {what}", file=out)
        print(f"    {folded(sorted(outcome.target.name for outcome in same))}", file=out)


def _what_anywhere(outcome: "Outcome[Host, Any]") -> str:
    """`_what`, with HOST for the name of a host that failed: what 200 hosts refuse in one way is one group."""
    what = _what(outcome)
    return what if outcome.error is None else what.replace(repr(outcome.target.name), "HOST")


def _targets(options: argparse.Namespace, inventory: Inventory) -> list[Host]:
    check_python(options.python)
    if options.local is not None:
        if options.via is not None:
            raise UsageError(
                "--local and --via: local interpreters run on this machine, and nothing is on the way to them"
            )
        if options.python is not None and shutil.which(options.python) is None:
            there = (
                "that is no program that can be started"
                if os.path.exists(options.python)
                else "there is no such program"
            )
            raise UsageError(f"--python {options.python!r}: {there} on this machine")
        if not 1 <= options.local <= MOST_LOCAL:
            raise UsageError(f"--local {options.local}: give a number from 1 to {MOST_LOCAL}, for example --local 3")
        return [Host(f"local-{number}", None, python=options.python) for number in range(1, options.local + 1)]
    return with_way(hosts_from(options.hosts, inventory), options, inventory)


def check_python(python: str | None) -> None:
    """Raise UsageError for what is no name of an interpreter."""
    if python is not None and (not python.strip() or python.startswith("-")):
        raise UsageError(f"--python {python!r}: give the name or path of an interpreter, for example python3.8")


def with_way(hosts: list[Host], options: argparse.Namespace, inventory: Inventory) -> list[Host]:
    """The hosts with what the command line says of all of them; what it says wins over the inventory."""
    if options.via is not None:
        hosts_from([options.via], inventory)  # so that a word which names none is refused before anything is touched
    changed = {key: value for key, value in (("via", options.via), ("python", options.python)) if value is not None}
    return [replace(host, **changed) for host in hosts]


def _line(outcome: "Outcome[Host, Any]", width: int) -> str:
    return f"{outcome.target.name:{width}}  {outcome.seconds:7.2f} s  {_what(outcome)}"


def _what(outcome: "Outcome[Host, Any]") -> str:
    return f"ok      {_shown(outcome.value)}" if outcome.error is None else f"FAILED  {_headline(outcome.error)}"


def _shown(value: Any, text: Callable[[Any], str] = repr) -> str:
    """`value` as text; what a host sends may be an int that Python makes no text of, and ends this command for no other."""
    try:
        return text(value)
    except ValueError as error:
        return f"<{type(value).__name__} that cannot be shown: {error}>"


def _message(error: Exception) -> str:
    """The error's text; what roamlet itself proposes there, as it is done here."""
    # Inside: as in _run.
    from roamlet.remote import RemoteError

    text = _shown(error, str)
    return for_command_line(text) if isinstance(error, RemoteError) and type(error) is not RemoteError else text


def _reason(error: Exception) -> list[str]:
    """The lines of an error's message, the type's name in front unless the message has it."""
    lines = _message(error).splitlines() or [""]
    name = type(error).__name__
    return lines if lines[0].startswith(name) else [f"{name}: {lines[0]}".rstrip(": "), *lines[1:]]


def _headline(error: Exception) -> str:
    """One line: the message's first, without an announcement of lines that do not follow, and where it was raised."""
    first = re.sub(r"(,? and said|\. The last lines of its stderr):?$", "", _reason(error)[0])
    place = _place(error)
    return f"{first} ({place})" if place else first


def _traceback(error: Exception) -> str:
    """The traceback from over there, which roamlet.remote attaches as a note; empty when there is none."""
    return "\n".join(getattr(error, "__notes__", ()))


def _place(error: Exception) -> str:
    """Where over there the error was raised: FILE:LINE in FUNCTION; empty when that is not known."""
    places = PLACE.findall(_traceback(error))
    return "{}:{} in {}".format(*places[-1]) if places else ""


def _json_line(outcome: "Outcome[Host, Any]") -> str:
    fields: dict[str, Any] = {
        "host": outcome.target.name,
        "ok": outcome.error is None,
        "seconds": round(outcome.seconds, 3),
    }
    if outcome.error is None:
        fields["value"] = outcome.value
    else:
        fields["error"] = type(outcome.error).__name__
        fields["message"] = _message(outcome.error)
        fields["traceback"] = _traceback(outcome.error) or None
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # Plain values that JSON has no word for (bytes, sets, NaN): as Python writes them, and said so.
        return json.dumps({**fields, "value": _shown(outcome.value), "repr": True}, ensure_ascii=False)


def _print_failures(failed: "Sequence[Outcome[Host, Any]]", total: int, out: IO[str]) -> None:
    # Inside: the table is needed only when something failed.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, soft_wrap=False, width=None if out.isatty() else 132)
    table = Table(show_lines=len(failed) > 1)
    table.add_column("host", no_wrap=True)
    table.add_column("why", overflow="fold")
    for outcome in failed:
        assert outcome.error is not None
        why = [*_reason(outcome.error), *_traceback(outcome.error).splitlines()]
        table.add_row(Text(outcome.target.name), Text("\n".join(why)))
    console.print(f"{len(failed)} of {total} failed:", highlight=False)
    console.print(table)
