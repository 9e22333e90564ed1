"""Hubs: hosts of a fan-out through which the others of their group are reached. Which these are, and what happens when one dies.

Opens nothing itself: a function that is given opens a host, directly or through another context. The calls are in fan_out.py.
"""

import ipaddress
import socket
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import roamlet
from roamlet import io
from roamlet.remote.calls.engine import calls_of
from roamlet.remote.context import Context
from roamlet.remote.errors import CallTimeout, ConnectError, ConnectTimeout, ContextClosed, ContextDied, RemoteError
from roamlet.remote.link.link import LIMIT
from roamlet.sync import Lock

BEYOND = 100  # hosts: so many are opened directly, at some 1.5 ms of CPU time and 4 descriptors each
MOST = 100  # contexts behind one hub
TRIES = 3  # hosts of one group that may fail as its hub; what is left is opened directly then
LOOKUPS = 32  # at a time
PROBE = 5.0  # seconds in which a hub must answer when a host opened through it was not ready in time

Open = Callable[[int, Context | None], Context]
"""Opens the host at this place in the list, through the context if one is given."""


def subnet(host: str) -> str | None:
    """The network of a host: the /24 of its IPv4 address, or the /64 of its IPv6 address; None when it has no address.

    `host` is an address, or a name, with a user and a port or without. A name is looked up here. Blocks this tasklet only.
    """
    name = host.rpartition("@")[2]
    if name.startswith("[") or name.count(":") == 1:
        name = name.removeprefix("[").partition("]" if name.startswith("[") else ":")[0]
    try:
        address = str(io.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0]).partition("%")[0]
    except (OSError, UnicodeError):
        return None
    wide = 24 if ipaddress.ip_address(address).version == 4 else 64
    return str(ipaddress.ip_network(f"{address}/{wide}", strict=False))


@dataclass(frozen=True)
class Hubs:
    """Reach many hosts through some of them: gather and open_all take it as `hubs=`.

    Of each group one host that could be opened becomes the hub, and the others of the group are opened through it. `by` gives the
    groups: a function that returns the group of a host, or None for a host that is to be opened directly; or a mapping of names
    to lists of hosts. The default, remote.subnet, groups by network. Up to `beyond` hosts are opened directly, all of them. A hub
    leads to at most `most` contexts; a larger group gets more hubs.

    **This is a grant of rights**: all that goes to a host, and comes from it, passes its hub, which could read and change it. ssh
    runs there, with the keys and the configuration of that place. When a hub dies, another host of its group takes its place. When
    three hosts of a group have died as its hub, or could not be opened to become it, what is left of the group is opened
    directly. A call that may have begun is an error, and not made again. A hub that stops without a word is asked when a host
    opened through it is not ready in time, and is dead when it does not answer within 5 seconds. Nothing else finds that out:
    calls that go through hubs need a `timeout`.
    """

    by: Callable[[str], Hashable | None] | Mapping[str, Iterable[str]] = subnet
    beyond: int = BEYOND
    most: int = MOST

    def __post_init__(self) -> None:
        if not callable(self.by) and not isinstance(self.by, Mapping):
            raise TypeError(
                f"by must be a function from a host to its group, or a mapping of groups, not {self.by!r:.80}: "
                'remote.Hubs({"berlin": ["web1", "web2"]})'
            )
        if isinstance(self.by, Mapping):
            for group, hosts in self.by.items():
                if isinstance(hosts, str):
                    raise TypeError(f"the group {group!r} must be a list of hosts, not {hosts!r}: [{hosts!r}]")
        for name, number, least in (("beyond", self.beyond, 0), ("most", self.most, 1)):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ValueError(f"{name} must be a number, {least} or more, not {number!r}")

    def plan(self, hosts: Sequence[str | None], deadline: float | None = None) -> list[list[int]]:
        """The groups that get a hub each, as places in `hosts`; None is what must be opened directly.

        Blocks this tasklet while `by` does, which is called by 32 tasklets at a time, until `deadline` (of time.monotonic) at the
        latest: hosts whose group is not known by then have none.
        """
        if len(hosts) <= self.beyond:
            return []
        groups: dict[Hashable, list[int]] = {}
        for place, group in enumerate(self._groups(hosts, deadline)):
            if group is not None:
                groups.setdefault(group, []).append(place)
        return [part for group in groups.values() for part in _parts(group, self.most + 1) if len(part) > 1]

    def _groups(self, hosts: Sequence[str | None], deadline: float | None) -> list[Hashable | None]:
        by = self.by
        if isinstance(by, Mapping):
            named: dict[str, Hashable] = {}
            for group, members in by.items():
                for member in members:
                    named.setdefault(member, group)
            return [None if host is None else named.get(host) for host in hosts]
        found: list[Hashable | None] = [None] * len(hosts)
        waiting = iter([(place, host) for place, host in enumerate(hosts) if host is not None])

        def look_up() -> None:
            for place, host in waiting:
                if _left(deadline) == 0:
                    break
                found[place] = by(host)

        for tasklet in [roamlet.spawn(look_up) for _ in range(min(LOOKUPS, len(hosts)))]:
            if tasklet.wait(_left(deadline)):
                tasklet.join()
            else:
                tasklet.kill()
        return found


def _left(deadline: float | None) -> float | None:
    """Seconds until then, 0 when it is over."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _parts(group: list[int], most: int) -> Iterator[list[int]]:
    """The group in parts of equal size, none larger than `most`."""
    count = -(-len(group) // most)
    for number in range(count):
        yield group[number * len(group) // count : (number + 1) * len(group) // count]


def _end_if_silent(hub: Context) -> None:
    """End a hub that no longer answers: it is stopped, or its host is gone without a word. Blocks this tasklet meanwhile."""
    try:
        hub.call(abs, (1,), timeout=PROBE)
    except CallTimeout:
        link = calls_of(hub).link
        link.give_up(f"it did not answer within {PROBE:g} seconds, and no host could be opened through it")
        link.ended.wait(LIMIT)
    except RemoteError:  # it has ended
        pass


class _Group:
    """The hosts that share a hub. `left`: those of which something is still to be done."""

    def __init__(self, members: list[int]) -> None:
        self.left = set(members)
        self.lock = Lock()  # held while a hub is opened: the others of the group wait for it
        self.hub: Context | None = None
        self.place = -1  # of the hub, among the hosts
        self.failed: set[int] = set()  # places of those that could not be opened as its hub, or died as such


class Tree:
    """The hubs of one fan-out, while it lasts. Thread-safe; blocks tasklets only.

    What `opened` has opened is closed when its block is left; a hub, when `done` was called for each host of its group, or by
    `close`. After `deadline` (of time.monotonic) no hub is waited for.
    """

    def __init__(self, groups: Iterable[list[int]], open: Open, deadline: float | None = None) -> None:
        self._open = open
        self._deadline = deadline
        self._of: dict[int, _Group] = {}
        self._used: dict[int, Context | None] = {}  # the hub that a host was opened through at last
        self._groups = groups = list(groups)
        for members in groups:
            group = _Group(members)
            self._of.update(dict.fromkeys(members, group))

    def order(self, count: int) -> list[int]:
        """In which order `count` hosts are best opened: one of each group first, so that no hub is waited for in a row."""
        longest = max(map(len, self._groups), default=0)
        first = [group[place] for place in range(longest) for group in self._groups if place < len(group)]
        return [*first, *(place for place in range(count) if place not in self._of)]

    def open(self, place: int) -> Context:
        """Open this host, through the hub of its group if it has one that lives. Raises what opening does, and CallTimeout when the
        deadline comes while it waits for its hub.

        The first of a group that comes becomes its hub. When a hub turns out to be gone, the host is opened in another way.
        """
        group = self._of.get(place)
        if group is None:
            return self._open(place, None)
        while True:
            self._used[place] = None
            with self._turn(group):
                hub = self._living_hub(group)
                if hub is None and len(group.failed) < TRIES:
                    try:
                        group.hub = self._open(place, None)
                    except Exception:
                        group.failed.add(place)
                        raise
                    group.place = place
                    return group.hub
            if hub is not None and group.place == place:
                return hub
            self._used[place] = hub
            try:
                return self._open(place, hub)
            except (ConnectError, ContextDied, ContextClosed) as error:
                left = _left(self._deadline)
                if hub is not None and isinstance(error, ConnectTimeout) and (left is None or left > PROBE):
                    _end_if_silent(hub)
                if hub is None or not hub.closed:
                    raise

    @contextmanager
    def _turn(self, group: _Group) -> Iterator[None]:
        """Holds the lock of the group, for a block."""
        left = _left(self._deadline)
        if not group.lock.acquire(timeout=-1 if left is None else left):
            raise CallTimeout("not called: the time for all calls together was over before its hub was open")
        try:
            yield
        finally:
            group.lock.release()

    @staticmethod
    def _living_hub(group: _Group) -> Context | None:
        """Only under the lock of the group."""
        if group.hub is not None and group.hub.closed:
            gone, group.hub = group.hub, None
            group.failed.add(group.place)
            gone.close()  # it gives back what it holds
        return group.hub

    @contextmanager
    def opened(self, place: int) -> Iterator[Context]:
        """A context of this host, for a block."""
        context = self.open(place)
        try:
            yield context
        finally:
            if not self._is_hub(place, context):
                context.close()

    def _is_hub(self, place: int, context: Context) -> bool:
        group = self._of.get(place)
        return group is not None and group.hub is context

    def lost_hub(self, place: int) -> bool:
        """Whether this host was opened through a hub that is gone by now: opening it again goes another way."""
        hub = self._used.get(place)
        return hub is not None and hub.closed

    def spares(self, place: int, error: Exception) -> bool:
        """Whether a call was not sent to this host because its hub is gone. It can be made again, and nothing runs twice."""
        return getattr(error, "sent", None) is False and self.lost_hub(place)

    def done(self, place: int) -> None:
        """Nothing more is to be done on this host. The last one of a group closes its hub."""
        group = self._of.get(place)
        if group is not None:
            group.left.discard(place)
            if not group.left and group.hub is not None:
                group.hub.close()

    def close(self) -> None:
        """Close all hubs, and so the contexts that were opened through them. No scope or time-out around it keeps it from that."""
        hubs = [group.hub for group in set(self._of.values()) if group.hub is not None]
        with roamlet.shield():
            for closing in [
                roamlet.spawn(hub.close) for hub in hubs
            ]:  # those that died, too: they give back what they hold
                closing.wait()
