"""Options that commands share: -H, -i, --via, --sudo, --at-once, --timeout and their like, defaults and checks.

Which hosts they name is found in options.py, which is loaded where hosts are looked for. What `put` and `get` share besides is in
commands/copying.py.
"""

import argparse
from typing import TYPE_CHECKING

from roamlet.cli._errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

HUBS_BEYOND = 100  # hosts: as roamlet.remote has it
AT_ONCE = 50  # hosts; each is a process of ssh here while its context is open

HOSTS = "hosts that ssh reaches: [USER@]HOST[:PORT], ranges as in web[01-20], groups of -i, @FILE with one a line"


def add_hosts(parser: "argparse._ActionsContainer", *, required: bool = False) -> None:
    """Declare -H."""
    parser.add_argument(
        "-H",
        "--hosts",
        metavar="HOST[,HOST...]",
        action="append",
        required=required,
        help=HOSTS,
    )


def add_way(parser: argparse.ArgumentParser, *, ssh_options: bool = True) -> None:
    """Declare the options that say how to get to a host; `ssh_options`: with -o, unless the command means something else by it."""
    parser.add_argument(
        "-i",
        "--inventory",
        metavar="FILE",
        type=_path,
        help="groups and settings of hosts: TOML, or Ansible's INI or JSON",
    )
    parser.add_argument("--via", metavar="HOST", help="go through this host, which then runs the rest of the way")
    parser.add_argument("--sudo", action="store_true", help="as root on the target, by sudo")
    parser.add_argument(
        "--ask-password", action="store_true", help="ask for sudo's password once, before anything is touched"
    )
    parser.add_argument("--python", metavar="PATH", help="the interpreter on the target, instead of the one found")
    parser.add_argument("--ssh-config", metavar="FILE", help="for ssh -F, on this machine")
    parser.set_defaults(ssh_options=[])
    if ssh_options:
        _add_ssh_options(parser)


def _add_ssh_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        dest="ssh_options",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of ssh's own; may be repeated",
    )


def add_hubs(parser: argparse.ArgumentParser) -> None:
    """Declare --hubs and --hubs-beyond."""
    parser.add_argument(
        "--hubs",
        metavar="GROUP[,GROUP...]",
        action="append",
        help="reach the hosts of each of these groups of -i through one of them, or with the word subnets those of each network",
    )
    parser.add_argument(
        "--hubs-beyond",
        metavar="N",
        type=int,
        default=HUBS_BEYOND,
        help=f"with --hubs, reach up to N hosts directly all the same (default: {HUBS_BEYOND})",
    )


def check_hubs(options: argparse.Namespace) -> None:
    """Raise UsageError for what hubs cannot go with."""
    if options.hubs_beyond < 0:
        raise UsageError(f"--hubs-beyond {options.hubs_beyond}: give a number of hosts, 0 or more")
    for given, word in ((options.via, "--via"), (options.local, "--local")):
        if options.hubs and given is not None:
            raise UsageError(f"--hubs and {word} say two things about the way to the hosts; give one of them")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Declare --timeout and --at-once."""
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="how long it may take on each host")
    parser.add_argument(
        "--at-once", metavar="N", type=int, default=AT_ONCE, help=f"at most N hosts at a time (default: {AT_ONCE})"
    )


def check_limits(options: argparse.Namespace) -> None:
    """Raise UsageError for what is no length of time, and what is no number of hosts."""
    if options.timeout is not None and not 0 < options.timeout < float("inf"):
        raise UsageError(f"--timeout {options.timeout:g}: give a number of seconds above 0, for example --timeout 10")
    if options.at_once < 1:
        raise UsageError(f"--at-once {options.at_once}: give a number of hosts, 1 or more")


def _path(text: str) -> "Path":
    # Inside: loading it takes a tenth of all that `roamlet ps` loads.
    from pathlib import Path

    return Path(text)
