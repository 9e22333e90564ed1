"""For commands of apps: hosts named as for `roamlet run`, from the words of a command line to open contexts, many at once."""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from roamlet.cli._errors import UsageError
from roamlet.cli._hints import for_one_host
from roamlet.cli._inventory import Host, Inventory, hosts_from, read_inventory
from roamlet.cli._opening import hand_on
from roamlet.cli.run import add_way, check_python, hops, with_way

if TYPE_CHECKING:
    from roamlet.remote import Context

__all__ = ["Host", "Reached", "add_options", "hosts_of", "message_of", "reached"]

LOCAL = "local"
AT_ONCE = 50  # each is a process of ssh here while it is open


@dataclass
class Reached:
    """`contexts` of the hosts that could be reached, `failed` with the error of each other; both by the name of the host."""

    contexts: "dict[str, Context]" = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare HOST..., --local and the options of `roamlet run` that say how to get to a host; they end up in `options`."""
    parser.add_argument(
        "hosts",
        metavar="HOST",
        nargs="*",
        help="hosts that ssh reaches: [USER@]HOST[:PORT], ranges as in web[01-20], groups of -i, @FILE with one a line",
    )
    parser.add_argument("--local", action="store_true", help="this machine, in place of hosts or beside them")
    add_way(parser)
    parser.add_argument("--ssh-config", metavar="FILE", help="for ssh -F")


def hosts_of(options: argparse.Namespace) -> list[Host]:
    """The hosts that the options of add_options() name, each once. Touches no network. Raises roamlet.cli.UsageError."""
    check_python(options.python)
    _check_ssh_config(options.ssh_config)
    inventory = _inventory(options)
    try:
        found = with_way(hosts_from(options.hosts, inventory), options, inventory) if options.hosts else []
    except UsageError as error:
        raise UsageError(str(error).replace("-H", "HOST")) from None  # which is how `roamlet run` takes them
    if options.local:
        found.append(Host(LOCAL, None, python=options.python))
    if not found:
        raise UsageError("name a HOST, or this machine with --local")
    if len({host.name for host in found}) < len(found):
        raise UsageError(f"a host is called {LOCAL!r}, as this machine is with --local; do one of them at a time")
    return [_configured(host, options) for host in found]


@contextmanager
def reached(hosts: Sequence[Host], options: argparse.Namespace, *, at_once: int = AT_ONCE) -> Iterator[Reached]:
    """Contexts on the hosts, opened `at_once` at a time, as the options say; closed at the end of the `with`.

    Asks for sudo's password first, if it is to. What is printed over there goes to stderr, with the host in front. Blocks this
    tasklet only. Raises roamlet.cli.UsageError; a host that cannot be reached is in `failed`.
    """
    # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
    from roamlet import remote

    with hops(options, _inventory(options), partial(_configured, options=options)) as way:
        closing: list[ExitStack] = []

        def opened(host: Host) -> "Context":
            stack = ExitStack()
            context = stack.enter_context(way.opened(host, hand_on))
            closing.append(stack)
            return context

        try:
            done = remote.open_all([partial(opened, host) for host in hosts], at_once=at_once)
            found = Reached(failed={hosts[one.index].name: one.error for one in done.failed if one.error is not None})
            names = [host.name for host in hosts if host.name not in found.failed]
            found.contexts.update(zip(names, done.contexts, strict=True))
            yield found
        finally:
            _close(closing)


def message_of(error: Exception) -> str:
    """What the error of a host says, in words of the command line and without anything that a terminal would obey."""
    # Inside: as in reached().
    from roamlet.remote import RemoteError

    text = str(error) or type(error).__name__
    text = for_one_host(text) if isinstance(error, RemoteError) else text
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _inventory(options: argparse.Namespace) -> Inventory:
    return read_inventory(options.inventory) if options.inventory else Inventory()


def _check_ssh_config(path: str | None) -> None:
    """Raises UsageError where ssh could not read it: it would say so once for each host, as if that one were out of reach."""
    if path is None or path == "none":  # which is ssh's word for no file
        return
    if os.path.isdir(path) or not os.access(path, os.R_OK):
        why = "there is no such file" if not os.path.exists(path) else "ssh needs a file that this user may read"
        raise UsageError(f"--ssh-config {path}: {why}")


def _configured(host: Host, options: argparse.Namespace) -> Host:
    return replace(host, ssh_args=("-F", options.ssh_config, *host.ssh_args)) if options.ssh_config else host


def _close(stacks: list[ExitStack]) -> None:
    """All at once. Blocks this tasklet only."""
    # Inside: as in reached().
    import roamlet

    for closed in [roamlet.spawn(stack.close) for stack in stacks]:
        closed.join()
