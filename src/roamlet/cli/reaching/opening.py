"""From a host of a command line to an open context: over ssh, through another host, under another account. No words here."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from roamlet._escapes import print_escaped

if TYPE_CHECKING:
    from roamlet.cli.reaching.inventory import Host
    from roamlet.remote import Context, OutputFunction


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

    def __enter__(self) -> "Hops":
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    @contextmanager
    def opened(self, host: "Host", output: "OutputFunction") -> "Iterator[Context]":
        """A context of this host, under root with sudo. Raises what roamlet.remote does."""
        # Inside: see __init__.
        from roamlet import remote

        with ExitStack() as stack:
            way: dict[str, Any] = {"via": self._hop(host.via)} if host.via else {}
            python = None if self._sudo else host.python
            context = None
            if host.address is not None:
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
