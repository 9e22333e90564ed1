"""`roamlet lab`: parses, calls one function a command, and prints what a person wants to know of a lab."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from roamlet.cli import UsageError
from roamlet_lab.units import in_percent, in_seconds, seconds, share

if TYPE_CHECKING:
    from roamlet_lab import Lab

ETHERNET = 1500  # the MTU of a line until it is set
DEFAULT_NAME = "lab"

EPILOG = """\
  sudo "$(command -v roamlet)" lab up --offices 3 --rtt 80ms
  sudo "$(command -v roamlet)" lab shell alpha-client ping -c 3 192.168.20.50
  sudo "$(command -v roamlet)" lab set --loss 1% --cut beta
  sudo "$(command -v roamlet)" lab down

A machine is called as its office is (the server), or OFFICE-client, OFFICE-gateway, or admin, which is on the internet.

Exit code: 0 all is well, 1 something failed, 64 wrong command line; `shell` ends as its command does."""


def examine() -> list[tuple[str, str, str, str]]:
    """For `roamlet doctor`: whether this user can have labs on this machine."""
    from roamlet_lab.spaces import why_not  # here, as in the commands

    reason = why_not()
    return (
        [("labs", "note", reason, "")] if reason else [("labs", "ok", "this user can make offices on this machine", "")]
    )


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet lab` and its commands."""
    parser = commands.add_parser(
        "lab",
        help="offices on this machine, to try networks in",
        description="Offices in network namespaces on this machine, each with a client, a server that takes ssh and a NAT gateway, "
        "and an internet between them. Nothing outside is changed. Takes root.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    inner = parser.add_subparsers(metavar="COMMAND", dest="lab_command", required=True)
    up = _command(inner, "up", _up, "build the offices and leave them running")
    up.add_argument(
        "--offices", metavar="N|NAME,...", default="2", help="how many, or what they are called (default: %(default)s)"
    )
    up.add_argument(
        "--rtt", metavar="TIME", type=seconds, default=0.080, help="from office to office and back (default: 80ms)"
    )
    up.add_argument("--systemd", action="store_true", help="boot a systemd on each server")
    up.add_argument(
        "--stateful", metavar="OFFICE,...", default="", help="these gateways drop what they know no connection of"
    )
    _settings(up)
    status = _command(inner, "status", _status, "what there is, and what the internet has done to packets")
    status.add_argument("--json", action="store_true", help="one JSON object, for other programs")
    change = _command(inner, "set", _set, "change what the internet does to packets")
    change.add_argument("--rtt", metavar="TIME", type=seconds, help="from office to office and back, for example 80ms")
    change.add_argument("--office", metavar="OFFICE", help="--mtu and --blackhole are about its line alone")
    change.add_argument("--cut", metavar="OFFICE", help="take its line down")
    change.add_argument("--mend", metavar="OFFICE", help="its line is up again")
    change.add_argument("--renumber", metavar="OFFICE", help="give it another WAN address")
    change.add_argument(
        "--blackhole", choices=("on", "off"), help="on: packets that are too large for a line are dropped silently"
    )
    _settings(change)
    shell = _command(
        inner,
        "shell",
        _shell,
        "a shell, or one command, on a machine",
        usage="%(prog)s [--name LAB] MACHINE [WORD ...]",
    )
    shell.add_argument(
        "machine", metavar="MACHINE", help="an office (its server), OFFICE-client, OFFICE-gateway, or admin"
    )
    words = shell.add_argument("words", metavar="WORD", nargs=argparse.REMAINDER, help="the command; without: a shell")
    words.required = False  # argparse before 3.13 asks for it where MACHINE is missing
    down = _command(inner, "down", _down, "end everything in the lab and leave nothing behind")
    down.add_argument("--all", action="store_true", help="every lab on this machine")


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    about: str,
    usage: str | None = None,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", usage=usage, allow_abbrev=False
    )
    parser.add_argument("--name", metavar="LAB", default=DEFAULT_NAME, help="which lab (default: %(default)s)")
    parser.set_defaults(command=_reported(run))
    return parser


def _settings(parser: argparse.ArgumentParser) -> None:
    """What the internet does, on whichever command."""
    parser.add_argument("--loss", metavar="SHARE", type=share, help="so much of all packets is lost, for example 1%%")
    parser.add_argument("--rate", metavar="MBIT", type=float, help="of each office's line, in Mbit/s; 0: no limit")
    parser.add_argument("--mtu", metavar="BYTES", type=int, help="largest packet that a line takes")


def _reported(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """What goes wrong with a lab as one message."""

    def reporting(options: argparse.Namespace) -> int:
        # Inside, here and below: what builds labs takes longer to load than all of `roamlet --help`.
        from roamlet_lab import LabError, why_not

        if reason := why_not():
            print(f"roamlet lab: {reason}", file=sys.stderr)
            return 1
        try:
            return run(options)
        except LabError as error:
            print(f"roamlet lab: {error}", file=sys.stderr)
            return 1

    return reporting


def _up(options: argparse.Namespace) -> int:
    from roamlet_lab import Lab, Office

    wanted = options.offices
    if wanted.isdigit():
        from roamlet_lab.layout import places

        names = [place.name for place in places(int(wanted))]
    else:
        names = wanted.split(",")
    strict = [name for name in options.stateful.split(",") if name]
    if unknown := [name for name in strict if name not in names]:
        raise UsageError(f"--stateful {unknown[0]}: there is no such office; there are {', '.join(names)}")
    offices = [Office(name, stateful=name in strict) for name in names]
    lab = Lab(offices, rtt=options.rtt, systemd=options.systemd, name=options.name, say=_say)
    with lab.up().kept_if_well():
        lab.internet.set(loss=options.loss, rate=options.rate, mtu=options.mtu)
    _print_lab(lab)
    name = "" if options.name == DEFAULT_NAME else f" --name {options.name}"
    print(
        f"\nssh -F {lab.ssh_config} {names[0]}    roamlet lab shell{name} {names[0]}-client    roamlet lab down{name}"
    )
    return 0


def _status(options: argparse.Namespace) -> int:
    from roamlet_lab import running

    lab = running(options.name)
    if options.json:
        print(json.dumps(lab.described()))
    else:
        _print_lab(lab)
    return 0


def _set(options: argparse.Namespace) -> int:
    from roamlet_lab import running

    lab = running(options.name)
    blackhole = None if options.blackhole is None else options.blackhole == "on"
    lab.internet.set(
        rtt=options.rtt,
        loss=options.loss,
        rate=options.rate,
        mtu=options.mtu,
        blackhole=blackhole,
        office=options.office,
    )
    if options.cut:
        lab.internet.cut(options.cut)
    if options.mend:
        lab.internet.mend(options.mend)
    if options.renumber:
        lab.internet.renumber(options.renumber)
    _print_lab(lab)
    return 0


def _shell(options: argparse.Namespace) -> int:
    from roamlet_lab import running

    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    argv = running(options.name).machine(options.machine).argv(*(words or ["bash", "-l"]))
    sys.stdout.flush()
    os.execv(argv[0], argv)


def _down(options: argparse.Namespace) -> int:
    from roamlet_lab import running
    from roamlet_lab.lab import names_of_labs

    names = names_of_labs() if options.all else [options.name]
    for name in names:
        running(name).down()
        print(f"lab {name} is down")
    return 0


def _say(text: str) -> None:
    print(f"roamlet lab: {text}", file=sys.stderr, flush=True)


def _print_lab(lab: "Lab") -> None:
    found = lab.described()
    net = found["internet"]
    rate = f"{net['rate_mbit']:g} Mbit/s" if net["rate_mbit"] else "no limit of rate"
    print(
        f"lab {found['name']}: {in_seconds(net['rtt'])} from office to office and back, {in_percent(net['loss'])} loss, {rate}\n"
    )
    rows = [("office", "WAN", "LAN", "server", "client", "gateway", "line", "packets in", "out", "lost")]
    for office in found["offices"]:
        line = office["line"]
        state = ("up" if line["up"] else "DOWN") + (f", MTU {line['mtu']}" if line["mtu"] != ETHERNET else "")
        lost = sum(line[what] for what in ("lost", "crowded_out", "nowhere", "too_large"))
        kind = "stateful" if office["stateful"] else "plain"
        addresses = (office[what] for what in ("name", "wan", "lan", "server", "client"))
        rows.append((*addresses, kind, state, str(line["passed"]), str(line["taken"]), str(lost)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
