"""What one server reports about its ssh tunnels, checked like everything else in its facts (model/facts.py). Touches no server.

The shape, `ssh` in the facts (host/tunnel_facts.py makes it); what could not be found out is named in their `missing`:

    {
        "user": True,                     # the one that tunnels log in as
        "key": "ssh-ed25519 AAAA...",     # the public half of the key that it calls with; None: no key
        "key_mode": 0o600,                # of the private half; None: no key
        "waiting_key": None,              # the same of one that waits for its turn
        "host_keys": ["ssh-ed25519 AAAA..."],                       # those that its sshd shows
        "files": {"call-beta": {"text": "...", "sha256": "64 hex digits"}},   # by the names of ssh_actions.TunnelFile
        "ends": {"call-beta": {"enabled": "enabled", "active": "active", "age": 12.5, "said": None}},
                                          # of which there is a script, a unit or a process. enabled: None without systemd; age:
                                          # seconds since it was started last; said: last words of an ssh that has no tunnel
        "devices": {"tun2": {"user": "roamlet-vpn", "queue": 2000, "carrier": True, "rx": 100, "tx": 100,
                             "addresses": [{"local": "10.8.1.1", "peer": "10.8.1.2"}]}}
                                          # all tun devices; carrier: a process holds the device
    }
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from roamlet_vpn.model.network import Address
from roamlet_vpn.model.untrusted import Untrusted

__all__ = ["SshDevice", "SshEnd", "SshFacts", "SshFile"]

# One public key as ssh writes it: it goes into files of other servers, so it must hold nothing else.
KEY = re.compile(r"(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,2000}={0,2}")


@dataclass(frozen=True)
class SshFile:
    """A file on the server."""

    text: str
    sha256: str


@dataclass(frozen=True)
class SshEnd:
    """What runs at one end, in systemctl's words."""

    enabled: str | None  # None: there is no systemd
    active: str
    age: float | None  # seconds since it was started last
    said: str | None


@dataclass(frozen=True)
class SshDevice:
    """A tun device."""

    user: str | None
    queue: int  # packets
    carrier: bool
    rx: int  # bytes
    tx: int
    addresses: tuple[tuple[Address, Address | None], ...]  # its own, and the one at the other end


@dataclass(frozen=True)
class SshFacts:
    """All of it."""

    user: bool
    key: str | None
    key_mode: int | None
    waiting_key: str | None
    host_keys: tuple[str, ...]
    files: Mapping[str, SshFile]
    ends: Mapping[str, SshEnd]
    devices: Mapping[str, SshDevice]

    @classmethod
    def from_untrusted(cls, untrusted: Untrusted) -> "SshFacts":
        """Raises FactsError."""
        return cls(
            user=untrusted["user"].flag(),
            key=untrusted["key"].maybe(_key),
            key_mode=untrusted["key_mode"].maybe(lambda one: one.whole(0, 0o7777)),
            waiting_key=untrusted["waiting_key"].maybe(_key),
            host_keys=tuple(_key(one) for one in untrusted["host_keys"].each()),
            files={
                name: SshFile(one["text"].text(), one["sha256"].sha256()) for name, one in untrusted["files"].items()
            },
            ends={name: _end(one) for name, one in untrusted["ends"].items()},
            devices={name: _device(one) for name, one in untrusted["devices"].items()},
        )

    @property
    def there(self) -> bool:
        """Whether anything of such tunnels is on the server."""
        return bool(self.user or self.key or self.files or self.ends)


def _key(untrusted: Untrusted) -> str:
    text = untrusted.name()
    if not KEY.fullmatch(text):
        raise untrusted.wrong("public key of ssh")
    return text


def _end(untrusted: Untrusted) -> SshEnd:
    return SshEnd(
        enabled=untrusted["enabled"].maybe(Untrusted.name),
        active=untrusted["active"].name(),
        age=untrusted["age"].maybe(Untrusted.number),
        said=untrusted["said"].maybe(Untrusted.name),
    )


def _device(untrusted: Untrusted) -> SshDevice:
    return SshDevice(
        user=untrusted["user"].maybe(Untrusted.name),
        queue=untrusted["queue"].whole(0, 1 << 32),
        carrier=untrusted["carrier"].flag(),
        rx=untrusted["rx"].whole(0, 1 << 64),
        tx=untrusted["tx"].whole(0, 1 << 64),
        addresses=tuple(
            (one["local"].address(), one["peer"].maybe(Untrusted.address)) for one in untrusted["addresses"].each()
        ),
    )
