"""The `roamlet` command: parses, calls the module of the command, and turns errors into messages and exit codes.

0 all is well · 1 something failed · 3 hosts out of reach · 64 the command line is wrong, nothing was touched · 130 interrupted
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from roamlet._escapes import escaped, escaped_for, print_escaped
from roamlet.cli._apps import commands_of_apps
from roamlet.cli._errors import USAGE, UsageError
from roamlet.cli._options import refuse_left, refuse_unknown, with_end_of_options

if TYPE_CHECKING:
    from roamlet.cli.describing.model import Command

__all__ = ["UsageError", "escaped", "escaped_for", "main", "print_escaped"]

# Each with the module that declares it: of a command line that names one, that module alone is loaded.
COMMANDS = {
    **{name: f"commands.{name}" for name in ("demo", "run", "shell", "put", "get", "hosts", "resume", "show")},
    **dict.fromkeys(("ps", "pstree", "stacks"), "commands.ps"),
    **{name: f"commands.{name}" for name in ("top", "trace")},
    "doctor": "examining.doctor",
    **{name: f"describing.{name}" for name in ("completion", "man")},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: sys.argv) and return the exit code. Prints; blocks until it is done."""
    words = sys.argv[1:] if argv is None else argv
    try:
        parser = _parser(words)
    except UsageError as error:
        print(error, file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:  # while a command of another package was imported
        print("roamlet: interrupted", file=sys.stderr)
        return 130
    words = with_end_of_options(parser, words)
    try:
        refuse_unknown(parser, words)
        options, left = parser.parse_known_args(words)
        if left:
            refuse_left(parser, options.roamlet_command, left)
        if options.roamlet_command is None and not options.version:
            parser.error("name a COMMAND; `roamlet --help` lists them")
    except SystemExit as exit_of_argparse:
        # argparse exits by itself: after --help without a code or with 0, after a wrong word with a message on stderr.
        return USAGE if exit_of_argparse.code else 0
    if options.version:
        # Inside: reading the package's metadata takes longer than all parsing.
        from importlib.metadata import version

        print(f"roamlet {version('roamlet')}")
        return 0
    try:
        return int(options.command(options))
    except UsageError as error:
        print(f"roamlet {options.roamlet_command}: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print(f"roamlet {options.roamlet_command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output has ended, `| head` for example. Nothing more can be printed; what is left in the buffers would
        # make the exit code 120.
        with suppress(OSError):
            sys.stdout.close()
        sys.stderr.close()
        return 1


def described_command() -> "Command":
    """All commands and options, those of the apps that are installed too, as data."""
    # Inside: it is needed where completion and manual pages are written, and for nothing else.
    from roamlet.cli.describing.model import described

    return described(_parser(()))


def _parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser for the command line `words`; without `words`, for roamlet's own commands alone."""
    parser = argparse.ArgumentParser(
        prog="roamlet", description="Tasklets and channels for CPython whose code travels.", allow_abbrev=False
    )
    parser.add_argument("--version", action="store_true", help="show roamlet's version and exit")
    # A destination that no option of a command uses, as `--name` would use "name".
    commands = parser.add_subparsers(metavar="COMMAND", dest="roamlet_command", prog=parser.prog)
    named = COMMANDS.get(words[0]) if words else None
    for module in [named] if named is not None else dict.fromkeys(COMMANDS.values()):
        import_module(f"roamlet.cli.{module}").add_parser(commands)
    for app in commands_of_apps(words, COMMANDS) if words is not None else ():
        app.add_parser(commands)
    return parser
