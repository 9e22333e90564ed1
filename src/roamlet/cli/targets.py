"""For commands of apps: hosts named as for `roamlet run`, from the words of a command line to open contexts, concurrently."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from roamlet._escapes import escaped
from roamlet.cli._errors import UsageError
from roamlet.cli.output.hints import for_one_host
from roamlet.cli.reaching.declaring import AT_ONCE, HOSTS, add_way
from roamlet.cli.reaching.inventory import Host
from roamlet.cli.reaching.opening import hand_on
from roamlet.cli.reaching.options import check_python, hops, inventory_of, targets_of

if TYPE_CHECKING:
    from roamlet.remote import Context

__all__ = ["Host", "Reached", "add_options", "hosts_of", "message_of", "reached"]

LOCAL = "local"


@dataclass
class Reached:
    """`contexts` of the hosts that could be reached, `failed` with the error of each other; both by the name of the host."""

    contexts: "dict[str, Context]" = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare HOST..., --local and the options of `roamlet run` that say how to get to a host; they end up in `options`."""
    parser.add_argument("hosts", metavar="HOST", nargs="*", help=HOSTS)
    parser.add_argument("--local", action="store_true", help="this machine, in place of hosts or beside them")
    add_way(parser)


def hosts_of(options: argparse.Namespace) -> list[Host]:
    """The hosts that the options of add_options() name, each once. Touches no network. Raises roamlet.cli.UsageError."""
    check_python(options.python)
    try:
        found = targets_of(options.hosts, options, inventory_of(options))
    except UsageError as error:
        raise UsageError(str(error).replace("-H", "HOST")) from None  # `roamlet run` takes hosts by -H
    if options.local:
        found.append(Host(LOCAL, None, python=options.python))
    if not found:
        raise UsageError("name a HOST, or this machine with --local")
    if len({host.name for host in found}) < len(found):
        raise UsageError(f"a host is called {LOCAL!r}, as this machine is with --local; do one of them at a time")
    return found


@contextmanager
def reached(hosts: Sequence[Host], options: argparse.Namespace) -> Iterator[Reached]:
    """Contexts on the hosts, opened AT_ONCE at a time, as the options say; closed at the end of the `with`.

    Asks for sudo's password first, if the options say so. The targets' output goes to stderr, with the host in front. Blocks this
    tasklet only. Raises roamlet.cli.UsageError; a host that cannot be reached is in `failed`.
    """
    # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
    from roamlet import remote

    with hops(options, inventory_of(options)) as way:
        closing: list[ExitStack] = []

        def opened(host: Host) -> "Context":
            stack = ExitStack()
            context = stack.enter_context(way.opened(host, hand_on))
            closing.append(stack)
            return context

        try:
            done = remote.open_all([partial(opened, host) for host in hosts], at_once=AT_ONCE)
            found = Reached(failed={hosts[one.index].name: one.error for one in done.failed if one.error is not None})
            names = [host.name for host in hosts if host.name not in found.failed]
            found.contexts.update(zip(names, done.contexts, strict=True))
            yield found
        finally:
            _close(closing)


def message_of(error: Exception) -> str:
    """The error of a host as text, in words of the command line and without anything that a terminal would obey."""
    # Inside: as in reached().
    from roamlet.remote import RemoteError

    text = str(error) or type(error).__name__
    text = for_one_host(text) if isinstance(error, RemoteError) else text
    return escaped(text)


def _close(stacks: list[ExitStack]) -> None:
    """All at once. Blocks this tasklet only."""
    # Inside: as in reached().
    import roamlet

    for closed in [roamlet.spawn(stack.close) for stack in stacks]:
        closed.join()
