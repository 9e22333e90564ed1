"""What can be done to a server for tunnels of ssh, as frozen values, like those of wireguard/actions.py;
host/tunnel_act.py carries them out.

The plain forms, all of them right to do twice. A NAME is that of an end: call-SITE or accept-SITE.

    {"do": "tunnel_identity"}
        a new key to call with, into id_ed25519.new, 0600, unless there is one
    {"do": "tunnel_use_identity", "public": "ssh-ed25519 ..."}
        what waits in id_ed25519.new takes its place, if it has this public key; one that is in place already is left there
    {"do": "tunnel_user"}
        the user that callers log in as, which can do nothing else
    {"do": "tunnel_file", "name": "known_hosts", "text": ..., "before": ...}
        authorized_keys, known_hosts, sshd (the file for its folder; then it reads it), NAME (a script) or NAME.service.
        `text` None: no such file. `before` as for write_config
    {"do": "tunnel_device", "name": NAME, "device": "tun2", "anew": False, "routes": [...], "addresses": [...]}
        the device and its routes as the script of NAME makes them; `anew`: taken away before. Without these routes and addresses
    {"do": "tunnel_run", "name": NAME, "restart": True}
        the unit enabled, and it runs; without systemd the loop that calls, or the script that makes the device
    {"do": "tunnel_remove", "name": NAME}
        the unit, what runs of it, and its files
    {"do": "tunnel_remove_device", "device": "tun2"}
        if it belongs to that user
    {"do": "tunnel_down"}
        all of it: every end, the devices, keys, what sshd was told, the user; forwarding is put back unless WireGuard needs it
"""

from dataclasses import dataclass
from typing import Any

from roamlet_vpn.model.network import Lan
from roamlet_vpn.planning.actions import MADE_BY_APPLY, Action, MakeKey, diff


@dataclass(frozen=True)
class MakeIdentity(MakeKey):
    """The key that this server calls others with, made and kept there."""

    do = "tunnel_identity"
    words = "make a key for ssh; its private half stays there"


@dataclass(frozen=True)
class UseIdentity(Action):
    """The key that waits takes its place."""

    do = "tunnel_use_identity"
    words = "call with the new key from now on"
    public: str


@dataclass(frozen=True)
class TunnelUser(Action):
    """The user that callers log in as."""

    do = "tunnel_user"
    words = "make the user that tunnels log in as"


@dataclass(frozen=True)
class TunnelFile(Action):
    """A file of the tunnels; `text` None: it goes. `old` is its text now, if there is one, and `before` the SHA-256 of that."""

    do = "tunnel_file"
    name: str
    text: str | None
    old: str | None
    before: str | None

    def describe(self) -> str:
        what = {"sshd": "the configuration of sshd for it"}.get(self.name, self.name)
        return f"{'write' if self.old is None else 'remove' if self.text is None else 'change'} {what}"

    def details(self) -> list[str]:
        return diff(self.old, self.text)

    def plain(self) -> dict[str, Any]:
        if self.text is not None and MADE_BY_APPLY in self.text:
            raise ValueError(f"{self.name} waits for keys and cannot be written: make them, gather and plan again")
        return {"do": self.do, "name": self.name, "text": self.text, "before": self.before}


@dataclass(frozen=True)
class TunnelDevice(Action):
    """The tun device of one end: as its script makes it, and without what else it has."""

    do = "tunnel_device"
    name: str
    device: str
    anew: bool = False
    routes: tuple[Lan, ...] = ()  # those to be removed
    addresses: tuple[str, ...] = ()

    def describe(self) -> str:
        text = f"make {self.device} {'anew' if self.anew else 'what its script says'}"
        gone = [*map(str, self.routes), *self.addresses]
        return text + (f", without {', '.join(gone)}" if gone else "")


@dataclass(frozen=True)
class RunTunnel(Action):
    """What runs at one end, now and after a restart of the server."""

    do = "tunnel_run"
    name: str
    restart: bool

    def describe(self) -> str:
        return f"{'restart' if self.restart else 'start'} {self.name}"


@dataclass(frozen=True)
class RemoveTunnel(Action):
    """An end that nothing has on the other side any more."""

    do = "tunnel_remove"
    words = "stop {name}, and remove its files"
    name: str


@dataclass(frozen=True)
class RemoveDevice(Action):
    """A device of a tunnel that is gone."""

    do = "tunnel_remove_device"
    words = "take {device} away"
    device: str


@dataclass(frozen=True)
class TunnelsDown(Action):
    """The end of all tunnels of ssh on this server."""

    do = "tunnel_down"
    words = "take the ssh tunnels away, their keys and their user with them"
