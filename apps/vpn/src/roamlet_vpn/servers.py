"""Contexts on the servers of a network, and one function called on all of them at once. Knows no plan and changes nothing.

A server that cannot be reached, or fails, is an error of that site alone: what to make of it is the caller's affair.
"""

import functools
import ipaddress
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import roamlet
from roamlet import remote
from roamlet_vpn.errors import VpnError
from roamlet_vpn.host import gather as host_gather
from roamlet_vpn.model.facts import Facts
from roamlet_vpn.model.network import SERVER, Address, Network, Site

T = TypeVar("T")

AT_ONCE = 32
CONNECTING = 20.0  # seconds
GATHERING = 60.0

OLDEST = (3, 6)  # the Python that what runs on the servers is written for


def open_site(
    site: Site,
    timeout: float = CONNECTING,
    *,
    ssh_config: str | None = None,
    fresh: bool = False,
    password: str | None = None,
) -> remote.Context:
    """A context under root on the site's server, by ssh and, where the file says so, sudo.

    `fresh` uses no connection that is open already (ControlMaster): it proves that a new one can be made. `password` is sudo's.
    Blocks this tasklet only. Raises what remote.ssh and remote.sudo do, and VpnError where the Python is too old.
    """
    match = SERVER.fullmatch(site.server)
    if match is None:
        raise VpnError(f"{site.name}: {site.server!r} is no server; write HOST, USER@HOST or USER@HOST:PORT")
    words = ["-F", ssh_config] if ssh_config else []
    if site.via:
        words += ["-J", site.via]  # the keys stay on this machine, and the host on the way needs no Python
    if fresh:
        words += ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
    outer = remote.ssh(
        match["ip"] or match["host"],
        user=match["user"],
        port=int(match["port"]) if match["port"] else None,
        python=None if site.sudo else site.python,
        ssh_args=words,
        name=site.name,
        timeout=timeout,
    )
    try:
        if not site.sudo:
            _check_python(site, outer)
            return outer
        inner = remote.sudo(via=outer, python=site.python, name=site.name, password=password, timeout=timeout)
        try:
            _check_python(site, inner)
        except BaseException:
            inner.close()
            raise
        return inner
    except BaseException:
        outer.close()
        raise


def _check_python(site: Site, context: remote.Context) -> None:
    """Raise VpnError where nothing of ours could run."""
    if context.facts.python[:2] < OLDEST:
        found = ".".join(map(str, context.facts.python))
        raise VpnError(
            f"{site.server} has Python {found}, and roamlet vpn needs 3.6 or later there. If it has a newer one by another name, "
            f'name that one: python = "/usr/bin/python3.6" in [sites.{site.name}]; else install python3'
        )


class Servers:
    """The servers of a network: `contexts` of those that could be reached, `failed` with the error of each other, both by site.

    `with` closes all. Only to be used in one thread.
    """

    def __init__(
        self,
        network: Network,
        *,
        ssh_config: str | None = None,
        at_once: int = AT_ONCE,
        password: str | None = None,
    ):
        self.network = network
        self.at_once = at_once
        self.ssh_config = ssh_config or network.ssh_config
        self._open = functools.partial(open_site, ssh_config=self.ssh_config, password=password)
        self._before: list[remote.Context] = []  # those that a fresh one has taken the place of
        self.contexts: dict[str, remote.Context] = {}
        self.failed: dict[str, Exception] = {}

    def connect(
        self, names: Iterable[str] | None = None, *, timeout: float = CONNECTING, fresh: bool = False
    ) -> dict[str, Exception]:
        """Open a context to each of these sites, all without; returns the errors of those that cannot be reached now.

        A fresh one takes the place of the one that was there, which stays as it is until close(); others are opened where none is.
        Blocks for `timeout` seconds and little more.
        """
        wanted = [self.network.site(name) for name in (self._all() if names is None else names)]
        wanted = [site for site in wanted if fresh or site.name not in self.contexts or self.contexts[site.name].closed]
        openers = [functools.partial(self._open, site, timeout, fresh=fresh) for site in wanted]
        opened = remote.open_all(openers, at_once=self.at_once)
        errors = {
            wanted[result.index].name: _kept(result.error) for result in opened.failed if result.error is not None
        }
        reached = [site.name for site in wanted if site.name not in errors]
        for name, context in zip(reached, opened.contexts, strict=True):
            if name in self.contexts:
                self._before.append(self.contexts[name])
            self.contexts[name] = context
            self.failed.pop(name, None)
        self.failed.update({name: error for name, error in errors.items() if name not in self.contexts})
        return errors

    def _all(self) -> list[str]:
        return [site.name for site in self.network.sites]

    def each(
        self, function: Callable[..., T], arguments: Mapping[str, Sequence[Any]], *, timeout: float = GATHERING
    ) -> dict[str, remote.Result[T]]:
        """Call the function on these sites' servers, with the arguments of each; all answers, by site in the same order.

        A site without a context answers with the error for which it has none. Blocks until all have answered.
        """
        called = {name: roamlet.spawn(self._ask, (name, function, args, timeout)) for name, args in arguments.items()}
        return {name: call.join() for name, call in called.items()}

    def _ask(self, name: str, function: Callable[..., T], args: Sequence[Any], timeout: float) -> remote.Result[T]:
        try:
            if name not in self.contexts:
                raise self.failed.get(name) or VpnError(f"{name}: there is no connection to its server")
            return remote.Result(name, value=self.contexts[name].call(function, args, None, timeout))
        except Exception as error:
            return remote.Result(name, error=_kept(error))

    def facts(self, names: Iterable[str] | None = None) -> dict[str, remote.Result[Facts]]:
        """The facts of these sites, all without: gathered on all servers at once, and checked here."""
        wanted = dict.fromkeys(self._all() if names is None else names, (self.network.interface,))
        checked: dict[str, remote.Result[Facts]] = {}
        for name, answer in self.each(host_gather.gather, wanted).items():
            try:
                checked[name] = remote.Result(name, value=Facts.from_plain(answer.get(), name))
            except Exception as error:
                checked[name] = remote.Result(name, error=_kept(error))
        return checked

    def reached_through_tunnel(self, names: Iterable[str]) -> set[str]:
        """Those of these sites whose servers ssh may reach through the network itself: by way of a host, or at an address in it.

        Blocks for as long as looking up names takes, which is no connection.
        """
        inside = [lan for site in self.network.sites for lan in (*site.lans, *self.network.tunnels)]
        found = set()
        for name in names:
            site = self.network.site(name)
            ends = _addresses_of(ssh_hostname(site.server, self.ssh_config))
            if site.via is not None or any(end in lan for end in ends for lan in inside if lan.version == end.version):
                found.add(name)
        return found

    def close(self) -> None:
        """Close all contexts, many at once, and then those that they were opened through, which for sudo is ssh.

        Blocks this tasklet only.
        """
        contexts = [*self.contexts.values(), *self._before]
        self.contexts.clear()
        self._before.clear()
        ways = [context.via for context in contexts if context.via is not None]
        for several in (contexts, ways):
            remote.Opened(several, []).close()

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def ssh_hostname(server: str, ssh_config: str | None) -> str:
    """What ssh makes of a host that may be a name of its configuration; the host itself where it does not say."""
    match = SERVER.fullmatch(server)
    host = server if match is None else match["ip"] or match["host"]
    words = ["ssh", *(["-F", ssh_config] if ssh_config else []), "-G", "--", host]
    try:
        said = subprocess.run(
            words, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return host
    return next((line.partition(" ")[2] for line in said.splitlines() if line.startswith("hostname ")), host)


def _addresses_of(host: str) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]


def _kept(error: Exception) -> Exception:
    """The error without the frames that it has passed: what is kept longer than those would keep them, in a cycle."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
