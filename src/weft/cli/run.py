"""`weft run`: one function on many hosts at once. Decides what to do from the words, does it, prints; no transport here."""

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol

from weft.cli._errors import UsageError
from weft.cli._named_function import arguments_from, function_named

if TYPE_CHECKING:
    from weft.cli._fan_out import Outcome

__all__ = ["add_parser"]

# More local interpreters than this on one machine is a slip of the finger; each takes a process and some 10 MB.
MOST_LOCAL = 256

HOST = re.compile(r"(?:[^\s,@-][^\s,@]*@)?[^\s,@-][^\s,@]*")
PORT = re.compile(r"[^:]+:\d+")  # an IPv6 address has more than one colon

# The last place of a traceback that is no library's, in the text that comes with an error from over there.
PLACE = re.compile(r'File "(?:weft:)?([^"]+)", line (\d+), in (\S+)')

EPILOG = """\
Each ARG is read as JSON where it is JSON (3, true, [1, 2], "text"), else as plain text; --text leaves all of them text.

  weft run --local 3 platform:platform
  weft run -H alpha,beta --timeout 10 shutil:which rsync

Exit code: 0 all succeeded, 1 at least one host failed, 2 wrong command line (nothing was touched)."""


class Context(Protocol):
    """What a context offers that this command uses."""

    def call(self, function: Callable[..., Any], args: Sequence[Any] = ..., *, timeout: float | None = ...) -> Any:
        """Run function(*args) over there and return what it returns."""


@dataclass(frozen=True)
class Target:
    """One place to run on. `host` is None for an interpreter on this machine."""

    name: str
    host: str | None
    python: str | None


Connect = Callable[[Target], AbstractContextManager[Context]]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `weft run` and its options."""
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
    where.add_argument("-H", "--hosts", metavar="HOST[,HOST...]", action="append", help="hosts that ssh reaches")
    parser.add_argument("--python", metavar="PATH", help="the interpreter over there, instead of the one found")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="how long the call may take on each host")
    parser.add_argument("--json", action="store_true", help="one JSON object per line and host, for other programs")
    parser.add_argument("--text", action="store_true", help="pass every ARG as text, whatever it looks like")
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="imported here, sent there")
    parser.add_argument("args", metavar="ARG", nargs="*", default=[], help="arguments of the function")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, connect: Connect | None = None, out: IO[str] | None = None) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything is touched.

    `connect` makes the context of a target (default: by weft.remote), `out` takes the output (default: stdout).
    """
    # Inside: loading the core and the remote layer takes longer than all of `weft --help`.
    from weft.cli._fan_out import fan_out

    out = out or sys.stdout
    targets = _targets(options)
    if options.timeout is not None and not 0 < options.timeout < float("inf"):
        raise UsageError(f"--timeout {options.timeout:g}: give a number of seconds above 0, for example --timeout 10")
    function = function_named(options.function)
    args = arguments_from(options.args, as_text=options.text)
    connect = connect or _connect

    def work(target: Target) -> Any:
        with connect(target) as context:
            return context.call(function, args, timeout=options.timeout)

    width = max(len(target.name) for target in targets)
    failed: list[Outcome[Target, Any]] = []
    for outcome in fan_out(targets, work):
        if outcome.error is not None:
            failed.append(outcome)
        print(_json_line(outcome) if options.json else _line(outcome, width), file=out, flush=True)
    if failed and not options.json:
        _print_failures(failed, len(targets), out)
    return 1 if failed else 0


def _targets(options: argparse.Namespace) -> list[Target]:
    if options.python is not None and (not options.python.strip() or options.python.startswith("-")):
        raise UsageError(f"--python {options.python!r}: give the name or path of an interpreter, for example python3.8")
    if options.local is not None:
        if options.python is not None and shutil.which(options.python) is None:
            there = (
                "that is no program that can be started"
                if os.path.exists(options.python)
                else "there is no such program"
            )
            raise UsageError(f"--python {options.python!r}: {there} on this machine")
        if not 1 <= options.local <= MOST_LOCAL:
            raise UsageError(f"--local {options.local}: give a number from 1 to {MOST_LOCAL}, for example --local 3")
        return [Target(f"local-{number}", None, options.python) for number in range(1, options.local + 1)]
    names = [name.strip() for given in options.hosts for name in given.split(",")]
    for name in names:
        if not name:
            raise UsageError(f"-H {','.join(options.hosts)!r} names an empty host; separate hosts by one comma: -H a,b")
        if not HOST.fullmatch(name):
            raise UsageError(f"-H: {name!r} is no host name; give HOST or USER@HOST as ssh takes it")
        if PORT.fullmatch(name):
            raise UsageError(
                f"-H: {name!r} names a port, which belongs into ssh's configuration: Port in ~/.ssh/config"
            )
        if names.count(name) > 1:
            raise UsageError(f"-H names {name!r} more than once; each host runs the function once")
    return [Target(name, name, options.python) for name in names]


@contextmanager
def _connect(target: Target) -> Iterator[Context]:
    # Inside: see run().
    from weft import remote

    if target.host is None:
        opened = remote.local(python=target.python, name=target.name, output=_hand_on)
    else:
        opened = remote.ssh(target.host, python=target.python, output=_hand_on)
    with opened as context:
        yield context


def _hand_on(context: str, stream: str, line: str) -> None:
    """What is printed over there goes to stderr, with the host in front: stdout holds the results and nothing else."""
    print(f"{context}: {line}", file=sys.stderr, flush=True)


def _line(outcome: "Outcome[Target, Any]", width: int) -> str:
    what = f"ok      {outcome.value!r}" if outcome.error is None else f"FAILED  {_headline(outcome.error)}"
    return f"{outcome.target.name:{width}}  {outcome.seconds:7.2f} s  {what}"


def _reason(error: Exception) -> list[str]:
    """The lines of an error's message, the type's name in front unless the message has it."""
    lines = str(error).splitlines() or [""]
    name = type(error).__name__
    return lines if lines[0].startswith(name) else [f"{name}: {lines[0]}".rstrip(": "), *lines[1:]]


def _headline(error: Exception) -> str:
    """One line: the message's first, without an announcement of lines that do not follow, and where it was raised."""
    first = re.sub(r"(,? and said|\. The last lines of its stderr):?$", "", _reason(error)[0])
    place = _place(error)
    return f"{first} ({place})" if place else first


def _traceback(error: Exception) -> str:
    """The traceback from over there, which weft.remote attaches as a note; empty when there is none."""
    return "\n".join(getattr(error, "__notes__", ()))


def _place(error: Exception) -> str:
    """Where over there the error was raised: FILE:LINE in FUNCTION; empty when that is not known."""
    places = PLACE.findall(_traceback(error))
    return "{}:{} in {}".format(*places[-1]) if places else ""


def _json_line(outcome: "Outcome[Target, Any]") -> str:
    fields: dict[str, Any] = {
        "host": outcome.target.name,
        "ok": outcome.error is None,
        "seconds": round(outcome.seconds, 3),
    }
    if outcome.error is None:
        fields["value"] = outcome.value
    else:
        fields["error"] = type(outcome.error).__name__
        fields["message"] = str(outcome.error)
        fields["traceback"] = _traceback(outcome.error) or None
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # Plain values that JSON has no word for (bytes, sets, NaN): as Python writes them, and said so.
        return json.dumps({**fields, "value": repr(outcome.value), "repr": True}, ensure_ascii=False)


def _print_failures(failed: "Sequence[Outcome[Target, Any]]", total: int, out: IO[str]) -> None:
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
