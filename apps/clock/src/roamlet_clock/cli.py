"""`roamlet clock`: parses, and calls one function a command. What a command does is in commands.py, imported when it runs."""

import argparse
import sys
from typing import TypeAlias

from roamlet.cli.targets import add_options

FAILED = 1  # exit code

EPILOG = """\
  roamlet clock install root@pi-1 root@pi-2      shows what is to be done there, asks, and does it
  roamlet clock status 'root@pi-[1-2]'           what each has saved, and what it would set at its next boot
  roamlet clock remove root@pi-1                 leaves nothing behind

Exit code: 0 all is well; 1 some host failed, was refused or is not well; 2 --dry-run: something would change; 3 some host is out of
reach, and nothing else is wrong; 64 wrong command line, nothing was touched; 130 interrupted."""

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_parser(commands: Parsers) -> None:
    """Declare `roamlet clock` and its commands."""
    parser = commands.add_parser(
        "clock",
        help="keep the time of machines without a hardware clock",
        description="Keep the time of machines without a hardware clock over restarts: a script for sh and units of systemd.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    subcommands = parser.add_subparsers(metavar="COMMAND", dest="clock_command", required=True)
    install = _command(subcommands, "install", "have hosts keep their time; what is so already stays as it is")
    remove = _command(subcommands, "remove", "take everything of it away again, the stamps too")
    for changing in (install, remove):
        changing.add_argument("-n", "--dry-run", action="store_true", help="show what would be done, and do nothing")
        changing.add_argument("-y", "--yes", action="store_true", help="do not ask before anything is changed")
    status = _command(subcommands, "status", "show what each host has saved, and what its next boot would set")
    status.add_argument("--json", action="store_true", help="one JSON object, for other programs")
    _command(subcommands, "tick", "have hosts save their time now, as they do every quarter of an hour")
    _command(subcommands, "script", "print the script that is installed, for hosts without systemd", hosts=False)


def _command(subcommands: Parsers, name: str, text: str, *, hosts: bool = True) -> argparse.ArgumentParser:
    parser = subcommands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".", allow_abbrev=False)
    if hosts:
        add_options(parser)
    parser.set_defaults(command=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    """Carry the command out, and say on stderr what went wrong. Blocks until it is done."""
    # Inside: they bring the core with them.
    from roamlet import RoamletError
    from roamlet_clock import commands

    try:
        return int(getattr(commands, options.clock_command)(options))
    except RoamletError as error:
        print(f"roamlet clock {options.clock_command}: {error}", file=sys.stderr)
        return FAILED
