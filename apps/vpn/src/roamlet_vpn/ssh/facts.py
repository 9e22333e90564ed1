"""What one server says of its ssh tunnels, checked like everything else in its facts (model/facts.py). Touches no server.

The shape, `ssh` in the facts (host/tunnel_facts.py makes it); what could not be found out is named in their `missing`:

    {
        "user": True,                     # the one that tunnels log in as
        "key": "ssh-ed25519 AAAA...",     # the public half of the key that it calls with; None: there is none
        "key_mode": 0o600,                # of the private half; None: there is none
        "waiting_key": None,              # the same of one that waits for its turn
        "host_keys": ["ssh-ed25519 AAAA..."],                       # those that its sshd shows
        "files": {"call-beta": {"text": "...", "sha256": "64 hex digits"}},   # by the names of ssh_actions.TunnelFile
        "ends": {"call-beta": {"enabled": "enabled", "active": "active", "age": 12.5, "said": None}},
                                          # of which there is a script, a unit or a process. enabled: None without systemd; age:
                                          # seconds since it was started last; said: last words of an ssh that has no tunnel
        "devices": {"tun2": {"user": "roamlet-vpn", "queue": 2000, "carrier": True, "rx": 100, "tx": 100,
                             "addresses": [{"local": "10.8.1.1", "peer": "10.8.1.2"}]}}
                                          # all tun devices; carrier: somebody holds the other end of it
    }
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from roamlet_vpn.model.network import Address
from roamlet_vpn.model.untrusted import Claim

__all__ = ["SshDevice", "SshEnd", "SshFacts", "SshFile"]

# One public key as ssh writes it: it goes into files of other servers, so nothing else may stand in it.
KEY = re.compile(r"(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,2000}={0,2}")


@dataclass(frozen=True)
class SshFile:
    """A file as it is over there."""

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
    def from_claim(cls, claim: Claim) -> "SshFacts":
        """Raises FactsError."""
        return cls(
            user=claim["user"].flag(),
            key=claim["key"].maybe(_key),
            key_mode=claim["key_mode"].maybe(lambda one: one.whole(0, 0o7777)),
            waiting_key=claim["waiting_key"].maybe(_key),
            host_keys=tuple(_key(one) for one in claim["host_keys"].each()),
            files={name: _file(one) for name, one in claim["files"].items()},
            ends={name: _end(one) for name, one in claim["ends"].items()},
            devices={name: _device(one) for name, one in claim["devices"].items()},
        )

    @property
    def there(self) -> bool:
        """Whether anything of such tunnels is on the server."""
        return bool(self.user or self.key or self.files or self.ends)


def _key(claim: Claim) -> str:
    text = claim.name()
    if not KEY.fullmatch(text):
        raise claim.wrong("public key of ssh")
    return text


def _file(claim: Claim) -> SshFile:
    sha256 = claim["sha256"].name()
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise claim["sha256"].wrong("SHA-256 of 64 hex digits")
    return SshFile(claim["text"].text(), sha256)


def _end(claim: Claim) -> SshEnd:
    return SshEnd(
        enabled=claim["enabled"].maybe(Claim.name),
        active=claim["active"].name(),
        age=claim["age"].maybe(Claim.number),
        said=claim["said"].maybe(Claim.name),
    )


def _device(claim: Claim) -> SshDevice:
    return SshDevice(
        user=claim["user"].maybe(Claim.name),
        queue=claim["queue"].whole(0, 1 << 32),
        carrier=claim["carrier"].flag(),
        rx=claim["rx"].whole(0, 1 << 64),
        tx=claim["tx"].whole(0, 1 << 64),
        addresses=tuple(
            (one["local"].address(), one["peer"].maybe(Claim.address)) for one in claim["addresses"].each()
        ),
    )
