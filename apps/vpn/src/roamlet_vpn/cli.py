"""`roamlet vpn`: parses, and calls one function a command. What a command does is in commands/changing.py, or in
the module named with it.

This module is imported for `roamlet --help`, so it imports nothing that takes time; a command's module is imported when it runs.
"""

import argparse
import json
import signal
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

FILE = "network.toml"
FAILED = 1  # exit code
OFFLINE = ("gateway",)  # commands that connect to no server

EPILOG = """\
A first network:
  roamlet vpn init alpha=root@alpha.example.com beta=root@beta.example.com     looks around there and writes network.toml
  roamlet vpn plan                                                            what would change where; changes nothing
  roamlet vpn apply                                                           does it; a server that is cut off takes it back
  roamlet vpn check                                                           what does not work, why, and what to do about it
  roamlet vpn gateway                                                         what to set on each gateway, line by line

Exit code: 0 all is well; 1 something failed or was refused; 2 plan: something would change; 3 done, but some site was out of reach;
64 wrong command line or no such file, nothing was touched; 130 interrupted."""

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def examine() -> list[tuple[str, str, str, str]]:
    """For `roamlet doctor`: whether this machine could be a server of an office. The machine that types needs ssh alone."""
    from roamlet_vpn.host import gather, system  # here, as commands import what they need

    lacks = [] if system.found("wg") else ["wg is missing"]
    if gather.wireguard({}, ()) is None:
        lacks.append("the kernel has no WireGuard, and there is no wireguard-go")
    if not lacks:
        return [("WireGuard", "ok", "this machine could be the server of an office", "")]
    said = f"this machine joins others, and could not be the server of an office itself: {', and '.join(lacks)}"
    return [("WireGuard", "ok", said, "")]


def add_parser(commands: Parsers) -> None:
    """Declare `roamlet vpn` and its commands."""
    parser = commands.add_parser(
        "vpn",
        help="join the LANs of several offices",
        description="Join the LANs of several offices by WireGuard, from one file, over ssh.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    subcommands = parser.add_subparsers(metavar="COMMAND", dest="vpn_command", required=True)
    _init(subcommands)
    plan = command(subcommands, "plan", "changing:plan", "show what would change on which server; changes nothing")
    plan.add_argument("--json", action="store_true", help="one JSON object, for other programs")
    apply = command(subcommands, "apply", "changing:apply", "make the servers what the file says")
    _changing(apply)
    _partial(apply)
    _lifecycle(subcommands)
    _check_commands(subcommands)
    gateway = command(subcommands, "gateway", "changing:gateway", "print what to set on the gateway of each site")
    gateway.add_argument("sites", metavar="SITE", nargs="*", help="of these sites alone")
    gateway.add_argument(
        "--as",
        dest="form",
        choices=("text", "nftables", "openwrt", "aws"),
        default="text",
        help="as words or as commands",
    )


def command(subcommands: Parsers, name: str, function: str, text: str) -> argparse.ArgumentParser:
    """Declare one; `function` is MODULE:NAME in this package, takes the options and returns the exit code."""
    parser = subcommands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".", allow_abbrev=False)
    parser.add_argument(
        "-f", "--file", metavar="FILE", type=Path, default=Path(FILE), help=f"the network; {FILE} if not given"
    )
    parser.add_argument("--ssh-config", metavar="FILE", help="for ssh -F, instead of the one that the network names")
    if name not in OFFLINE:
        parser.add_argument(
            "--ask-password", action="store_true", help="ask for sudo's password once, before anything is touched"
        )
    parser.set_defaults(command=run, function=function)
    return parser


def run(options: argparse.Namespace) -> int:
    """Carry the command out, and say on stderr what went wrong, with --json on stdout too. Blocks until it is done."""
    # Inside: it brings the core with it.
    from roamlet import RoamletError

    module, _, name = options.function.partition(":")
    function = getattr(import_module(f"roamlet_vpn.commands.{module}"), name)
    with _noticed() as interrupted:
        try:
            code = int(function(options))
        except RoamletError as error:
            # What is closed or taken back after Ctrl-C may fail, and take the place of the interrupt: that is not the outcome.
            code = FAILED if interrupted else _failed(options, error)
    if interrupted:
        raise KeyboardInterrupt
    return code


@contextmanager
def _noticed() -> "Iterator[list[int]]":
    """A list that is empty until Ctrl-C is pressed, which otherwise works as before. In the main thread alone."""
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield seen
        return

    def note(number: int, frame: "FrameType | None") -> object:
        seen.append(number)
        return before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _failed(options: argparse.Namespace, error: Exception) -> int:
    """Say what went wrong."""
    # Inside: as in run().
    from roamlet_vpn.errors import VpnError, shown

    code = error.exit_code if isinstance(error, VpnError) else FAILED
    print(f"roamlet vpn {options.vpn_command}: {shown(error)}", file=sys.stderr)
    if getattr(options, "json", False):
        print(json.dumps({"error": str(error), "exit_code": code}))
    return code


def _seconds(lowest: float, highest: float) -> "Callable[[str], float]":
    """Reads a number of seconds in this range."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds from {lowest:g} to {highest:g}")
        return number

    return read


def _init(subcommands: Parsers) -> None:
    parser = command(subcommands, "init", "init:init", "look around on the servers and write the file of a network")
    parser.add_argument(
        "servers",
        metavar="[SITE=]SERVER",
        nargs="+",
        help="as ssh takes it: [USER@]HOST[:PORT]; the site is called as the host calls itself, unless a name is given",
    )
    parser.add_argument("--sudo", action="store_true", help="become root there by sudo")
    parser.add_argument("--via", metavar="SERVER", help="go through this host")
    parser.add_argument(
        "--tunnel", metavar="NETWORK", help="the range of the tunnel; 10.8.1.0/24, or the next one that is free"
    )
    parser.add_argument(
        "--hub", metavar="SITE", help="let all others talk through this site; without it, each with each"
    )
    parser.add_argument("--adopt", action="store_true", help="take over what wg-quick configurations made by hand say")
    parser.add_argument("--interface", metavar="NAME", default="wg0", help="of the tunnel; wg0 if not given")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask; take what was found")


def _lifecycle(subcommands: Parsers) -> None:
    add = command(subcommands, "add", "changing:add", "take a further site into the file, and apply")
    add.add_argument("site", metavar="[SITE=]SERVER", help="as for init")
    add.add_argument("--sudo", action="store_true", help="become root there by sudo")
    add.add_argument("--via", metavar="SERVER", help="go through this host")
    _changing(add)
    _partial(add)
    remove = command(subcommands, "remove", "changing:remove", "take a site out of the file and out of the network")
    remove.add_argument("site", metavar="SITE")
    _changing(remove)
    _partial(remove)
    rotate = command(
        subcommands, "rotate", "changing:rotate", "give sites new keys; their peers learn them in the same change"
    )
    rotate.add_argument("sites", metavar="SITE", nargs="+")
    _changing(rotate)
    down = command(subcommands, "down", "changing:down", "take the tunnels away on all servers; their keys stay there")
    down.add_argument("--keep-config", action="store_true", help="leave the configurations where they are")
    down.add_argument(
        "--backend",
        choices=("wireguard", "ssh"),
        help="the tunnels of this kind, whatever the file says: those that are left over",
    )
    _changing(down)
    _partial(down)


def _check_commands(subcommands: Parsers) -> None:
    status = command(subcommands, "status", "checking:status", "show handshakes, endpoints and rates of all tunnels")
    check = command(subcommands, "check", "checking:check", "measure from all servers at once, and name what is wrong")
    for parser in (status, check):
        parser.add_argument(
            "--json", action="store_true", help="one JSON object, for other programs; with --watch one a line"
        )
        parser.add_argument(
            "--watch",
            metavar="SECONDS",
            nargs="?",
            type=_seconds(0.1, 86400),
            const=2.0 if parser is status else 30.0,
            help="go on until Ctrl-C, every so many seconds",
        )
    check.add_argument(
        "--throughput", action="store_true", help="also load each tunnel fully, one way and then the other"
    )
    check.add_argument("--seconds", metavar="N", type=_seconds(0.1, 60), default=5.0, help="for so long each; 5")
    check.add_argument(
        "--client",
        metavar="SITE=ADDRESS",
        action="append",
        default=[],
        help="a host in the site's LAN to ask, instead of those that the server knows; as often as you like",
    )
    check.add_argument("--svg", metavar="FILE", type=Path, help="also draw what was found")
    picture = command(subcommands, "picture", "checking:draw", "draw the network as an SVG, with what a check finds")
    picture.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("network.svg"), help="network.svg if not given"
    )
    picture.add_argument("--offline", action="store_true", help="from the file alone, without connecting to a server")


def _changing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before anything is changed")
    parser.add_argument(
        "--rollback-after",
        metavar="SECONDS",
        type=_seconds(5, 3600),
        help="a server that is not heard of for so long rolls back; 60",
    )


def _partial(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partial", action="store_true", help="go on without the servers that cannot be reached")
