"""From a host of a command line to an open context: over ssh, through another host, under another account. No words here."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from roamlet._escapes import print_escaped

if TYPE_CHECKING:
    from roamlet.cli.reaching.inventory import Host
    from roamlet.remote import Context, Hubs, OutputFunction
    from roamlet.remote.hubs import Tree

T = TypeVar("T")


def hand_on(context: str, stream: str, line: str) -> None:
    """Print the target's output on stderr, with the host in front: stdout holds the results and nothing else."""
    print_escaped(f"{context}: {line}", sys.stderr)


class Hops:
    """Opens contexts, and the hosts on the way to them once for all. Leaving the `with` closes the latter."""

    def __init__(self, inventory_host: "Callable[[str], Host]", *, sudo: bool, password: str | None = None) -> None:
        # Inside: loading the core and the remote layer takes longer than all of `roamlet --help`.
        from roamlet.sync import Lock

        self._host = inventory_host
        self._sudo = sudo
        self._password = password
        self._stack = ExitStack()
        self._lock = Lock()
        self._hops: dict[str, Context] = {}
        self._hosts: Sequence[Host] = ()
        self._behind: Callable[[Host], Host] = lambda host: host
        self._places: dict[str, int] = {}  # of hosts that may be reached through hubs
        self._outputs: dict[int, OutputFunction] = {}
        self._tree: Tree | None = None

    def __enter__(self) -> "Hops":
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._stack.close()
        finally:
            self._tree = None  # which refers to this object

    def through_hubs(self, hosts: "Sequence[Host]", hubs: "Hubs", behind: "Callable[[Host], Host]") -> "list[Host]":
        """Reach these hosts through hubs from now on; return them in the order in which they are best opened.

        Groups are those of their addresses. `behind(host)` is what is known of a host for the ssh of a hub. Blocks this tasklet
        while names are looked up.
        """
        # Inside: see __init__.
        from roamlet.remote.hubs import Tree

        self._hosts, self._behind = hosts, behind
        self._places = {host.name: place for place, host in enumerate(hosts)}
        self._tree = Tree(hubs.plan([None if host.via else host.address for host in hosts]), self._open)
        self._stack.callback(self._tree.close)
        return [hosts[place] for place in self._tree.order(len(hosts))]

    def _open(self, place: int, via: "Context | None") -> "Context":
        host = self._hosts[place]
        assert host.address is not None
        way: dict[str, Any] = {}
        if via is not None:
            host = self._behind(host)
            way["via"] = via
        python = None if self._sudo else host.python
        return _by_ssh(host, str(host.address), python=python, output=self._outputs[place], **way)

    def carried_out(self, host: "Host", work: Callable[[], T], *, again: bool) -> T:
        """Return work(), which opens this host and uses it once; nothing more is done on the host afterwards.

        `again`: where its call was not sent because the hub is gone, it is made again, which goes another way.
        """
        tree, place = self._tree, self._places.get(host.name, -1)
        if tree is None:
            return work()
        try:
            while True:
                try:
                    return work()
                except Exception as error:
                    if not again or not tree.spares(place, error):
                        raise
        finally:
            tree.done(place)

    @contextmanager
    def opened(self, host: "Host", output: "OutputFunction") -> "Iterator[Context]":
        """A context of this host, under root with sudo. Raises what roamlet.remote does."""
        # Inside: see __init__.
        from roamlet import remote

        with ExitStack() as stack:
            way: dict[str, Any] = {"via": self._hop(host.via)} if host.via else {}
            python = None if self._sudo else host.python
            context = None
            if self._tree is not None and host.address is not None and not host.via:
                place = self._places[host.name]
                self._outputs[place] = output
                context = stack.enter_context(self._tree.opened(place))
            elif host.address is not None:
                context = stack.enter_context(_by_ssh(host, host.address, python=python, output=output, **way))
            elif not self._sudo:
                context = stack.enter_context(remote.local(python, name=host.name, output=output))
            if self._sudo:
                way = {} if context is None else {"via": context}
                context = stack.enter_context(
                    remote.sudo(python=host.python, password=self._password, name=host.name, output=output, **way)
                )
            assert context is not None
            yield context

    def _hop(self, name: str) -> "Context":
        with self._lock:
            if name not in self._hops:
                host = self._host(name)
                context = _by_ssh(host, host.address or host.name, python=host.python)
                self._hops[name] = self._stack.enter_context(context)
            return self._hops[name]


def _by_ssh(host: "Host", address: str, **more: Any) -> "Context":
    # Inside: see Hops.
    from roamlet import remote

    return remote.ssh(address, user=host.user, port=host.port, ssh_args=host.ssh_args, name=host.name, **more)
