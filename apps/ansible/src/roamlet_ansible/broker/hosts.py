"""What the broker holds for each account of each host: a context, and the zygotes there with what each of them has."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import roamlet
from roamlet import sync
from roamlet.remote import ConnectError, Context, NoPython, PythonTooOld, RemoteError
from roamlet_ansible.cores.packed import Keeper
from roamlet_ansible.host import runner

from .bytecode import Bytecode
from .opening import open_context as _open
from .zygotes import Payload, Zygote

SOON = 0.25  # seconds that a temporary folder may stay for a request that takes its removal along
REMOVAL = 5.0  # seconds that temporary folders may take when a context is closed


class Ahead:
    """A context that is opened before the request that needs it. That request raises `error`, if there is one."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.is_over = False  # the request has come


class Host:
    """One account of one host, as a worker has described it. Its context is opened when it is first needed."""

    def __init__(self, target: dict[str, Any], hosts: "Hosts") -> None:
        self.target = target
        self.hosts = hosts
        self.lock = sync.Lock()
        self.context: Context | None = None
        self._users: dict[Context, int] = {}  # how many requests, conversations and other contexts need it
        self._outdated: set[Context] = set()  # nothing needs them any more: they are being closed
        self._ways: dict[Context, tuple[Host, Context]] = {}  # what a context goes through
        self.python: str | None = None  # the interpreter of the latest module, for the next context too
        self.zygotes: dict[str, Zygote] = {}
        self.homes: dict[str, tuple[int, bytes, bytes]] = {}  # what `echo ~name` gives, as long as `accounts` is right
        self.accounts = ""
        self.removals: dict[str, str] = {}  # path -> command, of temporary folders that may still be there
        self.kept: list[tuple[str, int, bytes]] = []  # those that could not be removed: the next worker says so

    @property
    def is_open(self) -> bool:
        return self.context is not None and not self.context.closed

    def open_ahead(self, python: str | None, ahead: Ahead) -> None:
        """Open the context if it is not open. Raises nothing."""
        with self.lock:
            if ahead.is_over:
                return
            try:
                self._opened(python)
            except Exception as error:
                ahead.error = error

    def opened(self, python: str | None = None, ahead: Ahead | None = None) -> Context:
        """The context. `python` is what the task's modules run by: preferred for a new context, so that only one is needed.

        `ahead`: what has been tried for the same request is not tried again.
        """
        with self.lock:
            if ahead is not None:
                ahead.is_over = True
                error, ahead.error = ahead.error, None
                try:
                    if error is not None and not self.is_open:
                        raise error
                finally:
                    del error  # its traceback holds this frame
            return self._opened(python)

    def _opened(self, python: str | None) -> Context:
        python = self.python = python or self.python
        if self.context is None or self.context.closed:
            self.zygotes.clear()
            self.homes.clear()
            if self.context is not None:
                self._left(self.context)
                self.context = None
            way = _way(self.target, self.hosts)
            if way is not None:
                way[0].hold(way[1])
            try:
                self.context = self._new(python, None if way is None else way[1])
                if way is not None:
                    self._ways[self.context], way = way, None
            finally:
                if way is not None:
                    way[0].release(way[1])
        return self.context

    def _new(self, python: str | None, through: Context | None) -> Context:
        try:
            return _open(self.target, python if python and python.startswith("/") else None, through)
        except ConnectError as error:
            # Exactly these: that Python does not start, or is too old. The module then fails as it does over ssh.
            if python is None or type(error) not in (NoPython, PythonTooOld, ConnectError):
                raise
            return _open(self.target, None, through)

    def hold(self, context: Context) -> None:
        """Keep a context open, also when another one takes its place, until release()."""
        self._users[context] = self._users.get(context, 0) + 1

    def release(self, context: Context) -> None:
        """The opposite of hold(). Does not block: what nothing needs any more is closed meanwhile."""
        users = self._users.pop(context) - 1
        if users:
            self._users[context] = users
        elif context is not self.context:
            self._outdated.add(context)
            self.hosts.spawn(self._end, (context,))

    def _left(self, context: Context) -> None:
        """A context that is closed needs nothing to go through."""
        way = self._ways.pop(context, None)
        if way is not None:
            way[0].release(way[1])

    def cost(self) -> tuple[Context | None, tuple[int, int, int]]:
        """The context, and what it has cost: turnarounds, bytes down, bytes up."""
        if self.context is None:
            return None, (0, 0, 0)
        stats = self.context.stats
        return self.context, (stats.calls + stats.round_trips, stats.bytes_down, stats.bytes_up)

    def zygote(self, key: str) -> Zygote:
        return self.zygotes.setdefault(key, Zygote())

    def notice(self, accounts: str) -> None:
        """What was known of accounts is right only as long as their files are the same."""
        if accounts != self.accounts:
            self.homes.clear()
            self.accounts = accounts

    def remove_soon(self, context: Context) -> None:
        """remove(), unless a request has taken the removals along by then, which most do: it saves a message for each folder."""
        roamlet.sleep(SOON)
        if self.removals:
            self.remove(context)

    def remove(self, context: Context) -> None:
        """Remove the temporary folders of tasks that have ended. Blocks this tasklet; no worker waits for it."""
        removals = dict(self.removals)
        try:
            done = context.call(runner.carry_out, (list(removals.items()), (), "nothing", ()))
        except RemoteError:
            return  # the next request tries it again
        self.removed(removals, done)

    def removed(self, removals: dict[str, str], done: dict[str, Any]) -> None:
        self.kept += [(path, code, err) for path, code, err in done["kept"] if path in self.removals]
        for path in removals:
            self.removals.pop(path, None)

    def reset(self, outdated: Context | None = None) -> None:
        """Have the next request open a new context; with `outdated`, if it would have that one.

        Tasks that run in the old one go on, as sessions of ssh do; it is closed at once, or after the last of them.
        """
        context = self._parted(outdated)
        if context is not None and context not in self._users:
            self._end(context)

    def close(self) -> None:
        """Close the context, whatever runs in it, and those that others have taken the place of."""
        context = self._parted(None)
        for one in {*self._users, *self._outdated, *(() if context is None else (context,))}:
            self._end(one)

    def _parted(self, outdated: Context | None) -> Context | None:
        with self.lock:
            if outdated is not None and self.context is not outdated:
                return None
            context, self.context = self.context, None
            self.zygotes.clear()
            self.homes.clear()
        return context

    def _end(self, context: Context) -> None:
        if self.removals and not context.closed:
            with suppress(TimeoutError), roamlet.timeout(REMOVAL):
                self.remove(context)
        context.close()
        self._outdated.discard(context)
        self._left(context)


class Hosts:
    """All hosts of a run."""

    def __init__(self, packed: Keeper) -> None:
        self.packed = packed
        self.bytecode = Bytecode()
        self.has_zygotes = False  # whether one was ever started
        self.spawn: Callable[..., Any] = roamlet.spawn  # of work that no request waits for, and that raises nothing
        self._hosts: dict[str, Host] = {}
        self.payloads: dict[str, Payload] = {}

    def host(self, target: dict[str, Any]) -> Host:
        key = json.dumps(target, sort_keys=True)
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = Host(target, self)
        return host

    def reset_all_ways(self, target: dict[str, Any]) -> None:
        """Close the contexts on what `target` describes, whatever they go through."""
        for host in list(self._hosts.values()):
            if {**host.target, "via": None, "via_python": None} == {**target, "via": None, "via_python": None}:
                host.reset()

    def close(self) -> None:
        for host in self._hosts.values():
            host.close()
        self.bytecode.close()


def _way(target: dict[str, Any], hosts: Hosts) -> tuple[Host, Context] | None:
    """The context that the way to `target` begins in. A failure there is no failure of the target, and says so."""
    via = target.get("via")
    if via is None:
        return None
    host = hosts.host(via)
    try:
        return host, host.opened(target.get("via_python"))
    except RemoteError as error:
        raise ConnectError(
            f"{target['name']} is reached through {via['name']} (roamlet_via), and there is no way to that one: {error}"
        ) from None
