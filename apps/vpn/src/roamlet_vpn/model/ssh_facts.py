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
from typing import Annotated

from roamlet_vpn.model.network import Address
from roamlet_vpn.model.untrusted import Count, Mode, Sha256, Text, Untrusted, whole

# One public key as ssh writes it: it goes into files of other servers, so it must hold nothing else.
KEY = re.compile(r"(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,2000}={0,2}")


def _key(untrusted: Untrusted) -> str:
    text = untrusted.name()
    if not KEY.fullmatch(text):
        raise untrusted.wrong("public key of ssh")
    return text


PublicKey = Annotated[str, _key]


@dataclass(frozen=True)
class SshFile:
    """A file on the server."""

    text: Text
    sha256: Sha256


@dataclass(frozen=True)
class SshEnd:
    """What runs at one end, in systemctl's words."""

    enabled: str | None  # None: there is no systemd
    active: str
    age: float | None  # seconds since it was started last
    said: str | None


def _ends(untrusted: Untrusted) -> tuple[Address, Address | None]:
    return untrusted["local"].address(), untrusted["peer"].maybe(Untrusted.address)


@dataclass(frozen=True)
class SshDevice:
    """A tun device."""

    user: str | None
    queue: Annotated[int, whole(0, 1 << 32)]  # packets
    carrier: bool
    rx: Count  # bytes
    tx: Count
    addresses: tuple[Annotated[tuple[Address, Address | None], _ends], ...]  # its own, and the one at the other end


@dataclass(frozen=True)
class SshFacts:
    """All of it."""

    user: bool
    key: PublicKey | None
    key_mode: Mode | None
    waiting_key: PublicKey | None
    host_keys: tuple[PublicKey, ...]
    files: Mapping[str, SshFile]
    ends: Mapping[str, SshEnd]
    devices: Mapping[str, SshDevice]

    @property
    def there(self) -> bool:
        """Whether anything of such tunnels is on the server."""
        return bool(self.user or self.key or self.files or self.ends)
