"""What can be done to one server, as frozen values: wireguard/plan.py decides, planning/show.py prints, host/act.py
carries out their plain form.

The plain forms, and what act does with each; all of them are right to do twice:

    {"do": "make_key"}
        a new private key into INTERFACE.key, 0600, unless there is one
    {"do": "write_config", "text": ..., "public_key": ..., "before": ..., "preshared_from": {public key: public key}}
        the configuration, atomically, 0600. "(kept on the server)" in its PrivateKey line becomes the private key, of the present
        configuration or of INTERFACE.key, whose public key is `public_key`; no such key is an error; out of INTERFACE.key,
        that file goes when the configuration stands. In a PresharedKey line it becomes the one that the present one has for
        this peer, or for the peer that `preshared_from` names for it (whose key was rotated). `before` is the SHA-256 of the file
        that the plan was made from, None where there was none: any other is an error, because the file was edited meanwhile
    {"do": "protect_config"}
        owner root, mode 0600
    {"do": "up", "mtu": 1420}
        the interface, by its unit under systemd, else by `wg-quick up`; then this MTU, unless it is None
    {"do": "link_up"}
        `ip link set INTERFACE up`
    {"do": "sync", "keep_endpoints": [public key]}
        `wg syncconf` with the stripped configuration, without the Endpoint lines of these peers
    {"do": "addresses", "add": ["10.8.1.1/24"], "remove": [...]}
        of the interface; added first
    {"do": "mtu", "mtu": 1380}
        of the interface
    {"do": "routes", "add": ["192.168.20.0/24"], "remove": [...]}
        `ip route replace NETWORK dev INTERFACE`; `ip route del NETWORK dev INTERFACE`
    {"do": "hold", "routes": [["192.168.20.0/24", "tun2", None]]}
        what is sent to these networks goes on by this device (and gateway), whatever other routes come, until the change is over
    {"do": "forwarding", "family": 4, "live": True, "persistent": True, "accept_ra": ["eth0"]}
        the sysctl, now if `live`, in /etc/sysctl.d if `persistent`. The devices named (IPv6 alone) get accept_ra 2 before, in
        the same way: a router would lose its own default route otherwise
    {"do": "enable_unit", "name": "wg-quick@wg0.service"}
        `systemctl enable`, without starting it
    {"do": "follow_names", "wanted": True}
        a timer of systemd that looks up the endpoints that are names, of silent peers; not wanted: none
    {"do": "down", "keep_config": True}
        the unit disabled, the interface taken away; unless the configuration is kept, it is moved aside and forwarding put back to
        what it was before, where nothing else needs it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roamlet_vpn.model.network import Address, InterfaceAddress, Lan
from roamlet_vpn.planning.actions import MADE_BY_APPLY, Action, diff


@dataclass(frozen=True)
class WriteConfig(Action):
    """The configuration file. `old` is its text now (None: no such file), with the keys replaced as in `text`."""

    do = "write_config"
    text: str
    public_key: str | None
    old: str | None
    before: str | None
    preshared_from: tuple[tuple[str, str], ...] = ()

    def describe(self) -> str:
        return "write the configuration" if self.old is None else "change the configuration"

    def details(self) -> list[str]:
        return diff(self.old, self.text)

    def plain(self) -> dict[str, Any]:
        if self.public_key is None or MADE_BY_APPLY in self.text:
            raise ValueError(
                "a configuration that waits for keys cannot be written: make the keys, gather and plan again"
            )
        return {
            "do": self.do,
            "text": self.text,
            "public_key": self.public_key,
            "before": self.before,
            "preshared_from": dict(self.preshared_from),
        }


@dataclass(frozen=True)
class ProtectConfig(Action):
    """Owner and mode of the configuration file."""

    do = "protect_config"
    words = "give the configuration to root, mode 0600"


@dataclass(frozen=True)
class Up(Action):
    """The interface, out of its configuration, with this MTU: wg-quick goes by what was learnt of a way, for ten minutes or so."""

    do = "up"
    words = "bring the interface up"
    mtu: int | None = None


@dataclass(frozen=True)
class LinkUp(Action):
    """An interface that is there, but down."""

    do = "link_up"
    words = "set the interface up"


@dataclass(frozen=True)
class Sync(Action):
    """Key, port and peers of the running interface, from the configuration. `changes` says which, one a line."""

    do = "sync"
    words = "bring the running interface to the configuration, without a restart"
    changes: tuple[str, ...] = ()
    keep_endpoints: tuple[str, ...] = ()

    def details(self) -> tuple[str, ...]:
        return self.changes

    def plain(self) -> dict[str, Any]:
        return {"do": self.do, "keep_endpoints": list(self.keep_endpoints)}


@dataclass(frozen=True)
class Addresses(Action):
    """Addresses of the interface."""

    do = "addresses"
    add: tuple[InterfaceAddress, ...] = ()
    remove: tuple[InterfaceAddress, ...] = ()

    def describe(self) -> str:
        return _added_removed("address", "addresses", self.add, self.remove)


@dataclass(frozen=True)
class Mtu(Action):
    """The MTU of the interface."""

    do = "mtu"
    words = "set the MTU to {mtu}"
    mtu: int


@dataclass(frozen=True)
class Routes(Action):
    """Routes through the interface."""

    do = "routes"
    add: tuple[Lan, ...] = ()
    remove: tuple[Lan, ...] = ()

    def describe(self) -> str:
        return _added_removed("route to", "routes to", self.add, self.remove)


@dataclass(frozen=True)
class Hold(Action):
    """Routes that work by other devices, kept in use until the tunnel has shaken hands: network, device, gateway each."""

    do = "hold"
    routes: tuple[tuple[Lan, str, Address | None], ...]

    def describe(self) -> str:
        ways = ", ".join(f"{to} through {device}" for to, device, _ in self.routes)
        return f"go on sending to {ways} until the tunnel has shaken hands"


@dataclass(frozen=True)
class EnableUnit(Action):
    """The unit that brings the interface up when the server starts."""

    do = "enable_unit"
    words = "enable {name}"
    name: str


@dataclass(frozen=True)
class FollowNames(Action):
    """The timer that looks up the endpoints again that are names, where a peer is silent."""

    do = "follow_names"
    wanted: bool = True

    def describe(self) -> str:
        return "follow the names of endpoints, by a timer" if self.wanted else "follow names of endpoints no longer"


@dataclass(frozen=True)
class Down(Action):
    """The end of the tunnel on this server."""

    do = "down"
    keep_config: bool = True

    def describe(self) -> str:
        return "take the interface down" + (
            "" if self.keep_config else ", move its configuration aside, and put forwarding back"
        )


def _added_removed(one: str, many: str, add: Sequence[object], remove: Sequence[object]) -> str:
    parts = [
        f"{verb} the {one if len(what) == 1 else many} {', '.join(map(str, what))}"
        for verb, what in (("add", add), ("remove", remove))
        if what
    ]
    return ", ".join(parts)
