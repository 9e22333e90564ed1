"""`roamlet run`: a function, a script or a shell command on many hosts at once. Decides from the words what to do; no transport."""

import argparse
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from roamlet.cli._errors import UsageError
from roamlet.cli.output.outcomes import Lines, Style, carry_out, shown
from roamlet.cli.output.progress import Progress
from roamlet.cli.programs.named_function import arguments_from, function_named
from roamlet.cli.reaching.declaring import add_hosts, add_hubs, add_limits, add_way, check_hubs, check_limits
from roamlet.cli.reaching.inventory import Host, Inventory
from roamlet.cli.reaching.opening import Hops
from roamlet.cli.reaching.options import check_python, hops, inventory_of, reach, targets_of

if TYPE_CHECKING:
    from roamlet.remote import Context, OutputFunction

# More local interpreters than this on one machine is a typing error; each takes a process and some 10 MB.
MOST_LOCAL = 256
MOST_PRINTED = 1 << 26  # characters of one host that are kept for --group and --json
LINE = 100  # characters that a line takes at least: the memory of an empty one

EPILOG = """\
What is run is one of
  MODULE:FUNCTION   a function, imported on this machine and sent; each ARG is read as JSON where it is JSON (3, true, [1, 2],
                    "text"), else as plain text; --text leaves all of them text. One line per host says what it returned
  SCRIPT.py         a file of this machine, run as a program by the target's Python; all that follows is its sys.argv, options too
  -c COMMAND        by the target's /bin/sh; ARGs are its $1, $2, ...
Of the last two, what is printed comes line by line with the host in front.

  roamlet run --local 3 platform:platform
  roamlet run -H alpha,beta --timeout 10 shutil:which rsync
  roamlet run -H 'web[01-20],@more-hosts' --group -c 'uname -r'
  roamlet run -i hosts.toml -H web,db --sudo cleanup.py --older-than 30

Exit code: 0 all succeeded, 1 it failed on at least one host, or ended there with another status than 0, 64 wrong command line
(nothing was touched), 3 it failed nowhere, but some hosts could not be reached, 130 interrupted."""


# What a shell command does with the words after it: $1, ${2}, $@, $*, $# or shift.
USES_ARGUMENTS = re.compile(r"\$\{?[1-9@*#]|\bshift\b")

Connect = Callable[[Host], AbstractContextManager["Context"]]
Start = Callable[["Context"], int]


class Unsuccessful(Exception):
    """A script or command has ended, and not with 0. `printed`: what it printed, for --group; `fields`: the same for --json."""

    def __init__(self, message: str, printed: list[str], fields: dict[str, Any]) -> None:
        super().__init__(message)
        self.printed = printed
        self.fields = fields


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet run` and its options."""
    parser = commands.add_parser(
        "run",
        help="run a function, a script or a shell command on many hosts at once",
        description="Run a function, a script or a shell command on every host at once.",
        usage="roamlet run (--local N | -H HOST[,HOST...]) [options] (MODULE:FUNCTION | SCRIPT.py | -c COMMAND) [ARG ...]",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--local", metavar="N", type=int, help="N interpreters on this machine")
    add_hosts(where)
    add_way(parser)
    add_hubs(parser)
    add_limits(parser)
    parser.add_argument(
        "--group", action="store_true", help="equal results once, with the hosts that gave them, at the end"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line and host, for other programs")
    parser.add_argument("--text", action="store_true", help="pass every ARG as text, whatever it looks like")
    parser.add_argument("-c", dest="shell_command", metavar="COMMAND", help="run COMMAND by /bin/sh")
    parser.add_argument("what", metavar="MODULE:FUNCTION | SCRIPT.py", nargs="?", help="what is run")
    parser.add_argument("args", metavar="ARG", nargs="*", default=[], help="arguments of what is run")
    parser.set_defaults(command=run, ends_options=_names_script)


def _names_script(before: Sequence[str], word: str) -> bool:
    """Whether the first word that is no option names a script: what follows is the script's own, as with python."""
    return word.endswith(".py") and ":" not in word and not any(one.startswith("-c") for one in before)


def run(options: argparse.Namespace, connect: Connect | None = None, out: IO[str] | None = None) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything is touched.

    `connect` makes the context of a target for a function (default: by roamlet.remote), `out` takes the output (default: stdout).
    """
    out = out or sys.stdout
    inventory = inventory_of(options)
    targets = _targets(options, inventory)
    check_limits(options)
    check_hubs(options)
    start = _started(options)
    if start is not None:
        with hops(options, inventory) as way:
            targets = reach(targets, way, options, inventory)
            return _run_program(options, targets, way, start, out)
    function = function_named(options.what)
    args = arguments_from(options.args, as_text=options.text)
    style = Style(shown, lambda value: {"value": value}, as_json=options.json, group=options.group)
    progress = Progress(len(targets), sys.stderr)
    with hops(options, inventory) as way:
        targets = reach(targets, way, options, inventory)
        lines = Lines(progress)
        opened: Connect = connect or partial(way.opened, output=lines)

        def call(target: Host) -> Any:
            with progress.through(target.name, opened(target)) as context:
                return context.call(function, args, timeout=options.timeout)

        def work(target: Host) -> Any:
            return way.carried_out(target, partial(call, target), again=True)

        return carry_out(targets, work, out, style, options.at_once, progress, lines)


def _targets(options: argparse.Namespace, inventory: Inventory) -> list[Host]:
    if options.local is None:
        return targets_of(options.hosts, options, inventory)
    check_python(options.python)
    for option, word in (("via", "--via"), ("ssh_config", "--ssh-config"), ("ssh_options", "-o")):
        if getattr(options, option):
            raise UsageError(
                f"--local and {word}: local interpreters run on this machine, and nothing is on the way to them"
            )
    if options.python is not None and shutil.which(options.python) is None:
        there = (
            "that is no program that can be started" if os.path.exists(options.python) else "there is no such program"
        )
        raise UsageError(f"--python {options.python!r}: {there} on this machine")
    if not 1 <= options.local <= MOST_LOCAL:
        raise UsageError(f"--local {options.local}: give a number from 1 to {MOST_LOCAL}, for example --local 3")
    return [Host(f"local-{number}", None, python=options.python) for number in range(1, options.local + 1)]


# ---- scripts and shell commands


def _started(options: argparse.Namespace) -> Start | None:
    """What runs a script or a command in a context; None where a function is named. Raises UsageError."""
    if options.shell_command is not None:
        if not options.shell_command.strip() or "\0" in options.shell_command:
            raise UsageError("-c: there is no command; give one as a single word, for example -c 'uname -r'")
        words = [options.what, *options.args] if options.what is not None else []
        if words and not USES_ARGUMENTS.search(options.shell_command):
            whole = shlex.quote(" ".join([options.shell_command, *words]))
            raise UsageError(
                f"-c takes the command as a single word, and {options.shell_command!r} uses no $1 or $@ for {words[0]!r}: quote "
                f"all of it, -c {whole}. Several hosts are one word, too: -H alpha,beta"
            )
        # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
        from roamlet.remote.programs import run_command

        return lambda context: run_command(context, options.shell_command, words, options.timeout)
    if options.what is None:
        raise UsageError("what is to be run is required: MODULE:FUNCTION, SCRIPT.py or -c COMMAND")
    if not _names_script((), options.what):
        return None
    try:
        with open(options.what, "rb") as file:
            source = file.read()
    except OSError as error:
        raise UsageError(f"{options.what}: the script cannot be read: {error.strerror}") from None
    # Inside: as above.
    from roamlet.remote.programs import run_script

    # Its neighbours can be imported, as where python runs it.
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.what)))
    return lambda context: run_script(context, options.what, source, options.args, options.timeout)


class Printed:
    """Keeps what one host prints, for --group and --json."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []
        self._size = 0

    def __call__(self, context: str, stream: str, line: str) -> None:
        self._size += max(len(line) + 1, LINE)
        if self._size <= MOST_PRINTED:
            self._lines.append((stream, line))

    def text(self, stream: str) -> str:
        """All of one stream."""
        return "".join(line + "\n" for of, line in self._lines if of == stream)

    def lines(self) -> list[str]:
        """All lines in the order in which they came, set in."""
        return [f"        {line}" for _, line in self._lines]

    def check(self) -> None:
        """Raise Unsuccessful where not all could be kept."""
        if self._size > MOST_PRINTED:
            why = f"it printed more than the {MOST_PRINTED} characters that --group and --json keep (short lines count as {LINE})"
            raise Unsuccessful(why, [], {})


def _run_program(options: argparse.Namespace, targets: Sequence[Host], way: Hops, start: Start, out: IO[str]) -> int:
    kept = options.group or options.json
    style = Style(
        lambda printed: "".join("\n" + line for line in printed.lines()),
        lambda printed: {"status": 0, **_fields(printed)},
        as_json=options.json,
        group=options.group,
        each=False,
    )
    progress = Progress(len(targets), sys.stderr)
    lines = Lines(progress, out)

    def start_it(target: Host) -> Printed:
        printed = Printed()
        output: OutputFunction = printed if kept else lines
        with progress.through(target.name, way.opened(target, output)) as context:
            status = start(context)
        printed.check()
        if status:
            raise Unsuccessful(_ended(status), printed.lines(), {"status": status, **_fields(printed)})
        return printed

    def work(target: Host) -> Printed:
        return way.carried_out(target, partial(start_it, target), again=False)  # it may have begun

    return carry_out(targets, work, out, style, options.at_once, progress, lines)


def _fields(printed: Printed) -> dict[str, Any]:
    return {"stdout": printed.text("stdout"), "stderr": printed.text("stderr")}


def _ended(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"
