r"""What one server reports, built and checked from the plain dict that host/gather.py sends up. Touches no server.

The dict is untrusted: every value is checked before anything is decided by it (model/untrusted.py). The shape
(all keys are there, unless marked `optional`; None means "not there", and what could not be found out is None or
empty and named in `missing`):

    {
        "version": 1,                     # of this shape
        "hostname": "alpha",
        "time": 1700000000.25,            # its clock, Unix seconds, taken while the dict was made
        "kernel": "6.1.0-18-amd64", "os": "Debian GNU/Linux 12 (bookworm)", "python": "3.11.2",
        "is_root": True,
        "systemd": True,                  # PID 1 is systemd
        "tools": {"wg": "v1.0.20210914", "wg-quick": "", "ip": "6.1.0", "sysctl": None, "systemctl": "252", "wireguard-go": None},
                                          # a version, "" when it says none, None when the tool is not there
        "wireguard": "kernel",            # or "wireguard-go": what makes an interface there; None: nothing does
        "devices": {"eth0": {"mtu": 1500, "up": True, "kind": "", "addresses": ["192.168.10.2/24", "fe80::1/64"], "accept_ra": 1}},
                                          # kind: as `ip -d link` says (bridge, wireguard, tun, veth ...), "" for hardware
                                          # accept_ra: the sysctl of IPv6, None without one
        "routes": [{"to": "default", "family": 4, "via": "192.168.10.1", "dev": "eth0", "metric": None, "mtu": None, "source": None,
                    "protocol": "static", "scope": "global", "type": "unicast"}],
                                          # table main, IPv4 and IPv6; `to`: "default" or a network with its length; dev may be None
        "forwarding": {"ipv4": {"live": True, "persistent": False}, "ipv6": {"live": False, "persistent": False}},
                                          # persistent: what the sysctl files set when it starts; live None: no such family there
        "interface": {                    # as it runs; None: there is no such interface
            "public_key": "base64=",      # None: it has no private key
            "listen_port": 51820, "mtu": 1420, "up": True, "fwmark": None, "addresses": ["10.8.1.1/24"],
            "peers": [{"public_key": "base64=", "preshared": False, "endpoint": "198.51.100.2:51820",
                       "allowed_ips": ["10.8.1.2/32", "192.168.20.0/24"], "handshake_age": 12.5,
                       "rx": 1000, "tx": 1000, "keepalive": 25}],
                                          # endpoint, handshake_age (seconds) and keepalive (seconds) may be None; rx, tx in bytes
        },
        "config": {                       # /etc/wireguard/INTERFACE.conf; None: there is no such file
            "text": "[Interface]\n...",   # each key of a PrivateKey or PresharedKey line, in comments too, replaced there by
                                          # "(kept on the server)"; an empty value stays empty
            "public_key": "base64=",      # of its PrivateKey, by `wg pubkey`; None: none there, or none that wg takes
            "mode": 0o600, "uid": 0, "mtime": 1700000000.0, "sha256": "64 hex digits, of the file on the server"
        },
        "waiting_key": {"public_key": "base64=", "mode": 0o600},   # /etc/wireguard/INTERFACE.key; None: there is no such file
        "other_interfaces": [{"name": "wg1", "public_key": "base64=", "listen_port": 51821, "allowed_ips": ["10.99.0.0/24"]}],
                                          # the other WireGuard interfaces of this server, such as one for home workers
        "unit": {"name": "wg-quick@wg0.service", "enabled": "enabled", "active": "active"},
                                          # what `systemctl is-enabled` and `is-active` print; None without systemd
        "listeners": [{"protocol": "udp", "address": "0.0.0.0", "port": 51820, "process": "named"}],
                                          # UDP sockets; process None: unknown, or the kernel's own (WireGuard in the kernel)
        "follows_names": True,            # optional: a timer looks the names of endpoints up again; None without systemd
        "ssh": {...},                     # optional: the tunnels of ssh there, see model/ssh_facts.py
        "rollback": {"token": "...", "seconds_left": 40.0},        # one that is armed; None: none is
        "resolved": {"vpn.example.com": ["198.51.100.2"]},         # optional: endpoint names of its configuration, as seen there
        "missing": {"sysctl": "there is no such tool"}             # what could not be found out, and why: no reason to fail whole
    }

IPv6 zones (fe80::1%eth0) are left out by the server; endpoints of IPv6 are written [2001:db8::1]:51820.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from roamlet_vpn.host import system
from roamlet_vpn.model.network import Address, Endpoint, InterfaceAddress, Lan
from roamlet_vpn.model.ssh_facts import SshFacts
from roamlet_vpn.model.untrusted import (
    OPTIONAL,
    Count,
    FactsError,
    Mode,
    Mtu,
    PublicKey,
    Sha256,
    Text,
    Untrusted,
    whole,
)

__all__ = [
    "Config",
    "Device",
    "Facts",
    "FactsError",
    "Forwarding",
    "Interface",
    "LivePeer",
    "OtherInterface",
    "Route",
    "Unit",
]

VERSION = 1
KEPT = system.KEPT

Port = Annotated[int, whole(0, 65535)]
Number = Annotated[int, whole(0, (1 << 32) - 1)]


@dataclass(frozen=True)
class LivePeer:
    """A peer as `wg show` has it."""

    public_key: PublicKey
    preshared: bool
    endpoint: Endpoint | None
    allowed_ips: tuple[Lan, ...]
    handshake_age: float | None  # seconds; None: there has been none
    rx: Count  # bytes
    tx: Count
    keepalive: Annotated[int, whole(1, 65535)] | None  # seconds


@dataclass(frozen=True)
class Interface:
    """The tunnel interface as it runs."""

    public_key: PublicKey | None
    listen_port: Port
    mtu: Mtu
    up: bool
    addresses: tuple[InterfaceAddress, ...]
    peers: tuple[LivePeer, ...]
    fwmark: Number | None = None


@dataclass(frozen=True)
class Config:
    """The configuration file, its keys replaced."""

    text: Text
    public_key: PublicKey | None
    mode: Mode
    uid: Annotated[int, whole(0, 1 << 32)]
    mtime: float
    sha256: Sha256


@dataclass(frozen=True)
class Device:
    """Any network device of the server."""

    mtu: Mtu
    up: bool
    kind: str
    addresses: tuple[InterfaceAddress, ...]
    accept_ra: Annotated[int, whole(0, 255)] | None = None


@dataclass(frozen=True)
class Route:
    """A route of the table main; `to` is 0.0.0.0/0 or ::/0 for the default."""

    to: Lan
    via: Address | None
    dev: str | None
    metric: Number | None
    mtu: Mtu | None
    source: Address | None = None
    protocol: str = ""
    scope: str = ""
    type: str = "unicast"


@dataclass(frozen=True)
class Forwarding:
    """Whether packets of one family are passed on, now and after a restart. live None: the server has no such family."""

    live: bool | None
    persistent: bool


@dataclass(frozen=True)
class OtherInterface:
    """A WireGuard interface of the server that is not this network's."""

    name: str
    public_key: PublicKey | None
    listen_port: Port
    allowed_ips: tuple[Lan, ...]


@dataclass(frozen=True)
class Unit:
    """The systemd unit of the interface, in systemctl's words."""

    name: str
    enabled: str
    active: str


@dataclass(frozen=True)
class Listener:
    """A UDP socket."""

    address: Address
    port: Port
    process: str | None


@dataclass(frozen=True)
class Key:
    """The public half of a private key that waits in a file of its own."""

    public_key: PublicKey | None
    mode: Mode


@dataclass(frozen=True)
class Rollback:
    """A rollback that the server will do by itself unless it is told not to."""

    token: str
    seconds_left: float


def _interface(untrusted: Untrusted) -> Interface:
    interface = untrusted.read(Interface)
    if len({peer.public_key for peer in interface.peers}) < len(interface.peers):
        raise FactsError(
            f"{untrusted.where}, peers: one key stands there twice; no interface has that, and it is not believed"
        )
    return interface


def _route(untrusted: Untrusted) -> Route:
    family = untrusted["family"].whole(4, 6)
    if untrusted["to"].value == "default":
        assert isinstance(untrusted.value, dict)  # since it has a family
        untrusted = Untrusted({**untrusted.value, "to": "::/0" if family == 6 else "0.0.0.0/0"}, untrusted.where)
    return untrusted.read(Route)


def _forwarding(untrusted: Untrusted) -> Mapping[int, Forwarding]:
    return {4: untrusted["ipv4"].read(Forwarding), 6: untrusted["ipv6"].read(Forwarding)}


@dataclass(frozen=True)
class Facts:
    """All that is known of one server."""

    hostname: str
    time: float
    kernel: str
    os: str
    python: str
    is_root: bool
    systemd: bool
    tools: Mapping[str, str | None]
    wireguard: str | None
    devices: Mapping[str, Device]
    routes: tuple[Annotated[Route, _route], ...]
    forwarding: Annotated[Mapping[int, Forwarding], _forwarding]  # by 4 and 6
    interface: Annotated[Interface, _interface] | None
    config: Config | None
    waiting_key: Key | None
    other_interfaces: tuple[OtherInterface, ...]
    unit: Unit | None
    listeners: tuple[Listener, ...]
    rollback: Rollback | None
    resolved: Mapping[str, tuple[Address, ...]] = field(default_factory=dict, metadata=OPTIONAL)
    missing: Mapping[str, str] = field(default_factory=dict)
    follows_names: bool | None = field(default=None, metadata=OPTIONAL)
    ssh: SshFacts | None = field(default=None, metadata=OPTIONAL)

    @property
    def public_key(self) -> str | None:
        """The key it has or is about to have: its configuration's, else the one that waits, else the one that runs."""
        if self.config is not None and self.config.public_key is not None:
            return self.config.public_key
        if self.waiting_key is not None and self.waiting_key.public_key is not None:
            return self.waiting_key.public_key
        return self.interface.public_key if self.interface is not None else None

    @classmethod
    def from_plain(cls, plain: object, server: str) -> "Facts":
        """Facts out of what `server` sent. Raises FactsError, which names the server and the place."""
        top = Untrusted(plain, f"the facts of {server}")
        if top["version"].whole(0, 1 << 30) != VERSION:
            raise FactsError(
                f"the facts of {server} have version {top['version'].value!r}, and this roamlet reads {VERSION}: "
                "it was gathered by another roamlet. Run the same one on both sides of the pipe."
            )
        return top.read(cls)
