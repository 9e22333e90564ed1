"""`roamlet top`: what processes do, again and again, on a terminal; or once, as a table or as JSON."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from roamlet._escapes import escaped_for, print_escaped
from roamlet.cli._errors import FAILED, UNREACHABLE, UsageError
from roamlet.cli.commands.seeing import (
    add_process,
    check_machine,
    check_process,
    host_and_pid,
    say_none_found,
    say_not_read,
)
from roamlet.cli.output.needed import need_rich
from roamlet.cli.reaching.opening import hand_on
from roamlet.cli.reaching.options import hops, inventory_of, targets_of

if TYPE_CHECKING:
    from roamlet.cli.reaching.inventory import Host
    from roamlet.cli.reaching.opening import Hops
    from roamlet.cli.top.board import Board, Key
    from roamlet.cli.top.looking import Looks, Told
    from roamlet.remote import Context

SHORTEST, LONGEST = 0.1, 3600.0  # seconds, of --interval

DESCRIPTION = """\
What a process does, once a second: its threads with their run queues, switches and messages a second, its tasklets by the place
where they wait, the tasklet that keeps its thread, its contexts. Without a process: all on this machine, or on the hosts of -H,
that use roamlet and may be looked at. On a terminal ? lists the keys; elsewhere, and with --once, it prints one table and ends."""

EPILOG = """\
The process runs nothing for it and need not be prepared, as for `roamlet ps`. Its counters are read without stopping it. To look at
its tasklets a process that runs is stopped for some milliseconds; so that this takes less than 1 % of its time, they are looked at
less often where it takes longer. What is shown says how old it is then.

  roamlet top 4711
  roamlet top web01:4711
  roamlet top -H 'web[01-20]' --name worker
  roamlet top --once --json 4711 | jq .places

Exit code: 0 all is well, 1 something was not read, 3 hosts out of reach, 64 the command line is wrong, 130 interrupted."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet top`."""
    parser = commands.add_parser(
        "top",
        help="what processes do now: rates, and tasklets by place, on the terminal",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_process(parser)
    parser.add_argument("--interval", metavar="SECONDS", type=float, default=1.0, help="between two looks (default: 1)")
    parser.add_argument("--once", action="store_true", help="look twice, for the rates, print one table and end")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object for each process and look; with --once one"
    )
    parser.set_defaults(command=top)


def top(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code. Raises UsageError, and KeyboardInterrupt for Ctrl-C."""
    _check(options)
    # Inside: loading the core and what reads takes longer than all of `roamlet --help`.
    from roamlet.cli.top.board import Board

    board = Board()
    with _looks(options, board) as looks:
        if options.once or options.json or not _can_be_drawn_on():
            _print(options, board, looks)
        elif not _draw(options, board, looks):
            return say_none_found(options)
    for (host, pid), why in board.refused.items():
        say_not_read(options, f"{host}:{pid}" if host else f"process {pid}", why)
    for name, why in board.hosts.items():
        say_not_read(options, f"host {name}", why)
    if options.hosts is None and options.process is None and not board.seen and not board.refused:
        return say_none_found(options)
    if board.refused or board.hosts.keys() - board.unreachable:
        return FAILED
    return UNREACHABLE if board.hosts else 0


def _check(options: argparse.Namespace) -> None:
    check_process(options)
    if not SHORTEST <= options.interval <= LONGEST:
        raise UsageError(
            f"--interval {options.interval:g}: give a number of seconds from {SHORTEST:g} to {LONGEST:g}, for example --interval 2"
        )


def _can_be_drawn_on() -> bool:
    need_rich("add --once")
    # Inside: rich is needed for this alone.
    from roamlet.cli.top.terminal import can_be_drawn_on

    return can_be_drawn_on(sys.stdout)


# ---- where the looks come from ----


@contextmanager
def _looks(options: argparse.Namespace, board: "Board") -> "Iterator[Looks]":
    """A function for this machine, or for each host, that looks at its processes; each is for a tasklet of its own."""
    from roamlet.cli.top import looking

    host, pid = host_and_pid(options)
    if options.hosts is None and host is None:
        check_machine()
        source = looking.Local(pid, options.name)
        yield [partial(looking.keep_looking, board, source, options.interval)]
        return
    inventory = inventory_of(options)
    targets = targets_of(options.hosts if host is None else [host], options, inventory)
    if len(targets) > options.at_once:
        raise UsageError(
            f"{len(targets)} hosts are more than are looked at at a time: give --at-once {len(targets)}, or fewer hosts"
        )
    with hops(options, inventory) as way:
        yield [partial(_look_on_host, options, board, way, target, pid) for target in targets]


def _look_on_host(
    options: argparse.Namespace,
    board: "Board",
    way: "Hops",
    target: "Host",
    pid: int | None,
    told: "Told",
    count: int | None,
) -> None:
    from roamlet.cli.targets import message_of
    from roamlet.cli.top import looking

    def work(context: "Context") -> None:
        source = looking.Remote(target.name, context, pid, options.name, options.timeout)
        looking.keep_looking(board, source, options.interval, told, count)

    looking.attend(board, target.name, way.opened(target, hand_on), message_of, work)


# ---- what becomes of them ----


def _print(options: argparse.Namespace, board: "Board", looks: "Looks") -> None:
    """Print what is found: with --json each look, or the last of two; else a table for each process after two."""
    from roamlet import scope

    lost = False

    def told(changed: "list[Key]") -> None:
        nonlocal lost
        if options.json and not options.once:
            try:
                _print_json(board, changed)
            except (
                BrokenPipeError
            ):  # of a host it would be noted as that host's error; of this machine it would come in a group
                lost = True
                lookers.cancel()

    with scope() as lookers:
        for look in looks:
            lookers.spawn(look, (told, 2 if options.once or not options.json else None))
    if lost:
        raise BrokenPipeError
    if options.json:
        if options.once:
            _print_json(board, list(board.seen))
        return
    from roamlet.cli.top import drawing

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, seen in enumerate(board.seen.values()):
        lines = [text for text, _ in drawing.whole(seen, width)]
        print_escaped("\n".join([""] * (number > 0) + lines), sys.stdout)


def _print_json(board: "Board", keys: "Sequence[Key]") -> None:
    for key in keys:
        seen = board.seen[key]
        text = json.dumps({**seen.rates.to_json(), "pause": seen.pause, "ended": seen.ended})
        print(escaped_for(text, sys.stdout), flush=True)


def _draw(options: argparse.Namespace, board: "Board", looks: "Looks") -> bool:
    """Show what is found on the terminal until the user leaves; false when there is nothing to show."""
    from roamlet.cli.top.screen import show

    host, pid = host_and_pid(options)
    local = options.hosts is None and host is None
    if local:
        looks[0](lambda _: None, 1)  # before the screen is taken: what is wrong with it is said in plain lines
        if not board.seen:
            return bool(board.refused)
    show(board, looks, only=(host, pid) if pid is not None else None)
    return True
