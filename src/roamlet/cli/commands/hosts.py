"""`roamlet hosts`: what -H and -i mean. Touches no network."""

import argparse
import json
import shlex
import sys
from typing import IO, Any

from roamlet.cli._errors import UsageError
from roamlet.cli.output.needed import need_rich
from roamlet.cli.reaching.declaring import add_hosts, add_way
from roamlet.cli.reaching.inventory import Host, Inventory, folded, hosts_from
from roamlet.cli.reaching.options import inventory_of, targets_of

COLUMNS = ("host", "address", "user", "port", "python", "via", "ssh arguments", "groups")

DESCRIPTION = """\
The hosts that -H means, and how each would be reached, by what -i and the command line say. No host is reached, and what ssh's own
configuration adds is not shown. Without -H: the groups of -i, and all its hosts."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet hosts`."""
    parser = commands.add_parser(
        "hosts",
        help="show which hosts -H and -i mean",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_hosts(parser)
    add_way(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line and host, for other programs")
    parser.set_defaults(command=hosts)


def hosts(options: argparse.Namespace, out: IO[str] | None = None) -> int:
    """Carry the command out: print, and return 0. Raises UsageError for what means no hosts."""
    out = out or sys.stdout
    if not options.json:
        need_rich("add --json")
    if options.hosts is None and options.inventory is None:
        raise UsageError("name hosts with -H, or an inventory with -i, for example: roamlet hosts -H 'web[01-20]'")
    inventory = inventory_of(options)
    words = options.hosts or _all_words(inventory)
    found = targets_of(words, options, inventory) if words else []
    groups = {name: {host.name for host in hosts_from([name], inventory)} for name in inventory.groups}
    of = {host.name: [name for name, members in groups.items() if host.name in members] for host in found}
    if options.json:
        for host in found:
            print(json.dumps(_plain(host, of[host.name])), file=out)
        return 0
    if options.hosts is None:
        for name, members in groups.items():
            print(f"{name}: {_counted(len(members))}{': ' if members else ''}{folded(sorted(members))}", file=out)
    _print_table(found, of, out)
    print(_counted(len(found)), file=out)
    return 0


def _all_words(inventory: Inventory) -> list[str]:
    """What -H would have to say for all that an inventory knows."""
    return list(dict.fromkeys([*inventory.groups, *inventory.settings]))


def _counted(number: int) -> str:
    return f"{number} host" if number == 1 else f"{number} hosts"


def _plain(host: Host, groups: list[str]) -> dict[str, Any]:
    return {
        "host": host.name,
        "address": host.address,
        "local": host.address is None,
        "user": host.user,
        "port": host.port,
        "python": host.python,
        "via": host.via,
        "ssh_args": list(host.ssh_args),
        "groups": groups,
    }


def _print_table(found: list[Host], of: dict[str, list[str]], out: IO[str]) -> None:
    # Inside: it takes longer to load than most of this command.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [
        (
            host.name,
            "this machine" if host.address is None else host.address,
            host.user or "",
            str(host.port or ""),
            host.python or "",
            host.via or "",
            shlex.join(host.ssh_args),
            " ".join(of[host.name]),
        )
        for host in found
    ]
    console = Console(file=out, soft_wrap=False, width=None if out.isatty() else 200)
    table = Table()
    used = [index for index in range(len(COLUMNS)) if index < 2 or any(row[index] for row in rows)]
    for index in used:
        table.add_column(COLUMNS[index], overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(Text(row[index]) for index in used))
    if rows:
        console.print(table)
