"""network.toml read and checked: every mistake at once, each with its line and what to write instead. Touches no server.

This file has the form: which keys there are and what may stand there. model/conflicts.py has what fits together only as a whole.
"""

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from roamlet_vpn.errors import VpnError, shown
from roamlet_vpn.host.system import is_key
from roamlet_vpn.model.conflicts import conflicts
from roamlet_vpn.model.lines import Lines
from roamlet_vpn.model.network import (
    SERVER,
    TUNNEL,
    Address,
    BackendName,
    Endpoint,
    Lan,
    Network,
    Site,
    Topology,
    endpoint_from,
)

T = TypeVar("T")

# Words that people write for a key of ours; anything else is looked for by its letters.
MEANT = {
    "host": "server",
    "hostname": "server",
    "ssh": "server",
    "ip": "address",
    "tunnel_address": "address",
    "lan": "lans",
    "lan_ip": "lan_address",
    "subnet": "lans",
    "subnets": "lans",
    "networks": "lans",
    "port": "listen_port",
    "range": "tunnel",
    "name": "interface",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
INTERFACE = re.compile(r"(?!-)[A-Za-z0-9_=+.-]{1,15}")  # what wg-quick takes, and no tool takes for an option
NO_INTERFACES = (".", "..", "all", "default", "interfaces", "lo")  # words of wg, of sysctl and of every machine
SMALLEST_MTU, LARGEST_MTU = 576, 9000


@dataclass(frozen=True)
class Problem:
    """One mistake. `line` counts from 1; 0 where there is no line to name."""

    line: int
    message: str

    def __str__(self) -> str:
        return shown(f"line {self.line}: {self.message}" if self.line else self.message)


class NetworkFileError(VpnError, ValueError):
    """The file is no network. `problems` has every mistake, by line."""

    def __init__(self, name: str, problems: "tuple[Problem, ...]") -> None:
        self.name = name
        self.problems = problems
        if len(problems) == 1:
            text = f"{name}, {problems[0]}" if problems[0].line else f"{name}: {problems[0]}"
        else:
            text = "\n".join([f"{name} has {len(problems)} mistakes:", *(f"  {problem}" for problem in problems)])
        super().__init__(text)


class NoNetworkFile(NetworkFileError):
    """There is no such file: the command line names a wrong one."""

    exit_code = 64  # as for a wrong command line


def read(path: Path) -> Network:
    """The network of the file. Raises NetworkFileError, also where the file cannot be read. `ssh_config` counts from its folder."""
    try:
        text = path.read_text("utf-8-sig")  # editors of Windows put a mark before the text
    except FileNotFoundError:
        raise NoNetworkFile(
            str(path), (Problem(0, "there is no such file. `roamlet vpn init` makes one; -f FILE names another"),)
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkFileError(str(path), (Problem(0, f"the file cannot be read: {error}"),)) from None
    network = parse(text, str(path))
    if network.ssh_config is not None:
        network = replace(network, ssh_config=str(path.parent / Path(network.ssh_config).expanduser()))
    return network


def parse(text: str, name: str = "network.toml") -> Network:
    """The network that the text describes. Raises NetworkFileError, which calls the text `name`."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        line = int(match[2]) if match and match[2] else len(text.splitlines())
        said = match[1] if match else str(error)
        raise NetworkFileError(
            name, (Problem(line, f"this is not TOML: {said}. Put text in quotes, lists in [ ]"),)
        ) from None
    reader = _Reader(Lines(text))
    network = reader.network(tables)
    problems = reader.problems
    if network.sites:
        problems += [
            Problem(reader.lines.of(*where), what) for where, what in conflicts(network, frozenset(reader.unread))
        ]
    if problems:
        raise NetworkFileError(name, tuple(sorted(problems, key=lambda problem: problem.line)))
    return network


class _Wrong(Exception):
    """A value that is not what its key takes; the message goes on after the key. The second argument is the item of a list."""


class _Several(Exception):
    """Several items of one list that are wrong, each by the arguments of a _Wrong."""


class _Reader:
    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.problems: list[Problem] = []
        self.unread: set[str] = set()

    def problem(self, message: str, *where: str) -> None:
        self.problems.append(Problem(self.lines.of(*where), message))

    def network(self, tables: Mapping[str, Any]) -> Network:
        self.unknown(tables, ("network", "sites"), "the file", "a table")
        own = self.table(tables.get("network", {}), "network")
        self.unknown(own, tuple(NETWORK_KEYS), "[network]", "a key", "network")
        values = self.values(own, NETWORK_KEYS, "network")
        values["tunnel"], values["second"] = (*values.get("tunnel", (TUNNEL,)), None)[:2]
        ranges = tuple(lan for lan in (values["tunnel"], values["second"]) if lan is not None)
        sites = self.table(tables.get("sites", {}), "sites")
        if not sites and not self.problems:
            self.problem("there are no sites. Each office has a table: [sites.alpha]", "sites")
        return Network(**values, sites=tuple(self.site(name, table, ranges) for name, table in sites.items()))

    def site(self, name: str, table: object, ranges: tuple[Lan, ...]) -> Site:
        """`ranges` are the tunnel's: of which an address is goes by its family."""
        where = ("sites", name)
        label = f"[sites.{name}]"
        if not NAME.fullmatch(name):
            self.problem(f"{name!r} is no name of a site: letters, digits, - and _, at most 63", *where)
        own = self.table(table, *where)
        if not isinstance(table, dict):
            return Site(name, "")
        self.unknown(own, tuple(SITE_KEYS), label, "a key", *where)
        if "server" not in own:
            self.unread.add("server")
            self.problem(f'{label} has no server. Write how ssh reaches it: server = "root@alpha.example.com"', *where)
        values = self.values(own, SITE_KEYS, *where)
        for address, prefix in values.pop("address", ()):
            if "address" in values or (len(ranges) == 2 and address.version != ranges[0].version):
                values["second"], values["second_prefix"] = address, prefix
            else:
                values["address"], values["prefix"] = address, prefix
        site = Site(name, **{"server": "", **values})
        if site.endpoint is not None and site.endpoint.port == 0:
            site = replace(site, endpoint=replace(site.endpoint, port=site.listen_port))
        return site

    def table(self, value: object, *where: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        shown = ".".join(where)
        self.problem(f"{shown} is {_shown(value)}, and should be a table: write [{shown}] and its keys below", *where)
        return {}

    def unknown(self, table: Mapping[str, Any], known: tuple[str, ...], label: str, what: str, *where: str) -> None:
        for key in table:
            if key not in known:
                near = _nearest(key, known)
                self.unread.add(near)
                advice = f"; did you mean {near}?" if near else f". There are: {', '.join(known)}"
                self.problem(f"{label} has {what} {key!r}, which means nothing here{advice}", *where, key)

    def values(
        self, table: Mapping[str, Any], readers: "Mapping[str, Callable[[Any], Any]]", *where: str
    ) -> dict[str, Any]:
        found = {}
        for key, reader in readers.items():
            if key in table:
                try:
                    found[key] = reader(table[key])
                except (_Wrong, _Several) as error:
                    self.unread.add(key)
                    self.problems += [
                        Problem(self.lines.of(*where, key, near=_text_of(one)), f"{key} = {one[0]}")
                        for one in (error.args if isinstance(error, _Several) else (error.args,))
                    ]
        return found


def _text_of(wrong: tuple[Any, ...]) -> str | None:
    """The item of a list that is wrong, by which its line is found."""
    return str(wrong[1]) if len(wrong) > 1 else None


def _nearest(key: str, known: tuple[str, ...]) -> str:
    """The key that was probably meant; "" when nothing is near."""
    lower = key.lower().replace("-", "_")
    if MEANT.get(lower) in known:
        return MEANT[lower]
    return next(iter(difflib.get_close_matches(lower, known, n=1, cutoff=0.5)), "")


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)


# ---- what may stand behind a key


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise _Wrong(f"{_shown(value)}: give a text in quotes")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"{_shown(value)}: give true or false, without quotes")
    return value


def _number(lowest: int, highest: int, what: str) -> Callable[[Any], int]:
    def read_number(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise _Wrong(f"{_shown(value)}: give {what}, a number from {lowest} to {highest} without quotes")
        return value

    return read_number


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], Any]:
    def read_choice(value: Any) -> str:
        text = _text(value)
        if text not in choices:
            near = difflib.get_close_matches(text.lower(), choices, n=1)
            raise _Wrong(f'"{text}": ' + (f"did you mean {near[0]}?" if near else f"give one of {', '.join(choices)}"))
        return text

    return read_choice


def _server(value: Any) -> str:
    text = _text(value)
    match = SERVER.fullmatch(text)
    if match is None:
        raise _Wrong(f'"{text}": give HOST, USER@HOST or USER@HOST:PORT, as after ssh; options go into ~/.ssh/config')
    if match["port"] is not None and not 1 <= int(match["port"]) <= 65535:
        raise _Wrong(f'"{text}": there is no port {match["port"]}; ports are 1 to 65535')
    return text


def _via(value: Any) -> str:
    """One host, or several with commas between them, as behind ssh -J. ssh puts them into a command for a shell."""
    text = _text(value)
    for one in text.split(","):
        if re.search(r"[$\\]", _server(one)):
            raise _Wrong(f'"{text}": a name on the way holds no $ and no \\; name the user in ~/.ssh/config')
    return text


def _interface(value: Any) -> str:
    text = _text(value)
    if not INTERFACE.fullmatch(text) or text in NO_INTERFACES:
        raise _Wrong(f'"{text}": give a name of at most 15 letters, digits, or one of _ = + . -, such as wg0')
    return text


def _lan(value: Any) -> Lan:
    text = _text(value)
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_interface(text).network
    except ValueError:
        raise _Wrong(f'"{text}": give a network such as 192.168.10.0/24 or fd00:10::/64', text) from None
    raise _Wrong(f'"{text}": there are bits set after the /{meant.prefixlen}; the network is {meant}', text)


def _tunnels(value: Any) -> tuple[Lan, ...]:
    return _one_each(_tunnel, value, "ranges")


def _one_each(read_one: Callable[[Any], Any], value: Any, what: str) -> tuple[Any, ...]:
    """One, or a list of one of each family."""
    found = _each(read_one, value) if isinstance(value, list) else (read_one(value),)
    families = [(one[0] if isinstance(one, tuple) else one).version for one in found]
    if not 1 <= len(found) <= 2 or len(set(families)) < len(found):
        raise _Wrong(f"{_shown(value)}: of a list of {what} one is of IPv4 and the other of IPv6")
    return found


def _tunnel(value: Any) -> Lan:
    network = _usable(_lan(value))
    if network.num_addresses < 4:
        raise _Wrong(f'"{network}": there is no room for two sites in it; give a /24, such as 10.8.1.0/24')
    return network


def _lans(value: Any) -> tuple[Lan, ...]:
    if not isinstance(value, list):
        raise _Wrong(f'{_shown(value)}: give a list, also of one: ["192.168.10.0/24"]')
    return _each(lambda one: _usable(_lan(one)), value)


def _each(read_one: Callable[[Any], T], values: list[Any]) -> tuple[T, ...]:
    """Each item of a list. Raises _Several with all that are wrong."""
    found, wrong = [], []
    for value in values:
        try:
            found.append(read_one(value))
        except _Wrong as error:
            wrong.append(error.args)
    if wrong:
        raise _Several(*wrong)
    return tuple(found)


def _usable(lan: Lan) -> Lan:
    if lan.prefixlen == 0:
        raise _Wrong(f'"{lan}": that is the whole internet; name the networks of the office', str(lan))
    if lan.is_loopback or lan.is_multicast or lan.is_link_local:
        raise _Wrong(f'"{lan}": no router passes this range on (loopback, multicast or link-local)', str(lan))
    return lan


def _lan_address(value: Any) -> Address:
    text = _text(value)
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        without = f"; without /{text.partition('/')[2]}" if "/" in text else ""
        raise _Wrong(f'"{text}": give an address of the LAN, such as 192.168.10.2{without}') from None


def _addresses(value: Any) -> tuple[tuple[Address, int | None], ...]:
    return _one_each(_address, value, "addresses")


def _address(value: Any) -> tuple[Address, int | None]:
    text = _text(value)
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        raise _Wrong(f'"{text}": give an address of the tunnel, such as 10.8.1.1, or leave the line out') from None
    return address.ip, address.network.prefixlen if "/" in text else None


def _endpoint(value: Any) -> Endpoint:
    text = _text(value)
    bare = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]", text)
    found = endpoint_from(f"{text}:1" if bare else text)
    if found is None:
        port = re.fullmatch(r"[^:]+:(\d+)", text)
        if port is not None and not 1 <= int(port[1]) <= 65535:
            raise _Wrong(f'"{text}": there is no port {port[1]}; ports are 1 to 65535')
        raise _Wrong(f'"{text}": give HOST:PORT, such as vpn.example.com:51820, or [2001:db8::1]:51820')
    if re.fullmatch(r"[\d.]+", found.host) and found.address is None:
        raise _Wrong(f'"{text}": {found.host} is no address; each of its four numbers is 0 to 255')
    address = found.address
    if address is not None and (address.is_unspecified or address.is_loopback or address.is_multicast):
        raise _Wrong(f'"{text}": no site can reach a server at {address}; give the address that the internet sees')
    return replace(found, port=0) if bare else found  # 0: the listen port, which may be read later


def _keys(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _Wrong(f'{_shown(value)}: give a list, also of one: ["PUBLIC KEY"]')
    return tuple(dict.fromkeys(_each(_key, value)))


def _key(value: Any) -> str:
    if not isinstance(value, str) or not is_key(value):
        raise _Wrong(f"{_shown(value)}: give public keys, 44 characters that end in =, as `wg show` prints them", value)
    return value


def _keepalive(value: Any) -> int | None:
    return _number(0, 65535, "seconds (0: none)")(value) or None


NETWORK_KEYS: dict[str, Callable[[Any], Any]] = {
    "tunnel": _tunnels,
    "topology": _one_of(get_args(Topology)),
    "hub": _text,
    "backend": _one_of(get_args(BackendName)),
    "interface": _interface,
    "ssh_config": _text,
}
SITE_KEYS: dict[str, Callable[[Any], Any]] = {
    "server": _server,
    "sudo": _flag,
    "via": _via,
    "python": _text,
    "address": _addresses,
    "lan_address": _lan_address,
    "gateway": _lan_address,
    "lans": _lans,
    "endpoint": _endpoint,
    "listen_port": _number(0, 65535, "a UDP port"),
    "keepalive": _keepalive,
    "other_peers": _keys,
    "mtu": _number(SMALLEST_MTU, LARGEST_MTU, "bytes"),
}
