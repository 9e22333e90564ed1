"""The configuration file of wg-quick: what it says, and the same file with something else said. Its keys never come here.

Whatever is not managed from network.toml stays as it is, byte for byte: comments, blank lines, DNS, PostUp and its kin, Table,
FwMark, SaveConfig, preshared keys. So a change is as small to review as it can be, and a file made by hand is taken
over without being rewritten. In place of each private and preshared key stands KEPT, which host/gather.py has put there.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from roamlet_vpn.errors import VpnError
from roamlet_vpn.host.system import is_key
from roamlet_vpn.model.facts import KEPT, Facts
from roamlet_vpn.model.network import Endpoint, InterfaceAddress, Lan, endpoint_from
from roamlet_vpn.planning.actions import MADE_BY_APPLY

INTERFACE_KEYS = {
    "privatekey": "PrivateKey",
    "address": "Address",
    "listenport": "ListenPort",
    "mtu": "MTU",
    "fwmark": "FwMark",
    "dns": "DNS",
    "table": "Table",
    "preup": "PreUp",
    "postup": "PostUp",
    "predown": "PreDown",
    "postdown": "PostDown",
    "saveconfig": "SaveConfig",
}
PEER_KEYS = {
    "publickey": "PublicKey",
    "presharedkey": "PresharedKey",
    "allowedips": "AllowedIPs",
    "endpoint": "Endpoint",
    "persistentkeepalive": "PersistentKeepalive",
}
T = TypeVar("T")


class WgConfigError(VpnError, ValueError):
    """wg-quick would not take this configuration, or not as it seems meant. The message names the line."""


@dataclass(frozen=True)
class InterfacePart:
    """The section [Interface]. `other` has what is not managed, as (key, value) in the order of the file."""

    addresses: tuple[InterfaceAddress, ...] = ()
    listen_port: int = 0  # 0, or none: any that is free
    mtu: int | None = None
    private_key: bool = True  # whether there is one
    other: tuple[tuple[str, str], ...] = ()

    @property
    def save_config(self) -> bool:
        """Whether wg-quick overwrites the file with the running state whenever the interface goes down."""
        return any(key == "SaveConfig" and value.lower() == "true" for key, value in self.other)


@dataclass(frozen=True)
class PeerPart:
    """A section [Peer]. `name` is what its first comment says; public_key None is one that apply will make."""

    public_key: str | None
    allowed_ips: tuple[Lan, ...] = ()
    endpoint: Endpoint | None = None
    keepalive: int | None = None
    preshared: bool = False
    name: str = ""


@dataclass(frozen=True)
class WgConfig:
    """What a configuration says."""

    interface: InterfacePart
    peers: tuple[PeerPart, ...] = ()

    def peer(self, public_key: str) -> PeerPart | None:
        """The peer with this key; the last one, as for wg, where it stands twice."""
        return next((peer for peer in reversed(self.peers) if peer.public_key == public_key), None)


# ---- reading


@dataclass
class _Line:
    number: int
    raw: str
    key: str = ""  # in the spelling of the manual; "" for a comment or a blank line
    value: str = ""


@dataclass
class _Section:
    """A header with all that follows it, and the comment lines right above it, which mean it.

    `kind` is "interface", "peer", or "" for what stands before the first header.
    """

    kind: str
    lines: list[_Line]
    lead: list[_Line] = field(default_factory=list)

    def values(self, key: str) -> list[_Line]:
        return [line for line in self.lines if line.key == key]


def parsed(text: str) -> WgConfig:
    """What the text says. Raises WgConfigError for the first line that wg or wg-quick would refuse."""
    sections = _sections(text)
    interface = _interface([section for section in sections if section.kind == "interface"])
    return WgConfig(interface, tuple(_peer(section) for section in sections if section.kind == "peer"))


def said(facts: Facts) -> WgConfig | None:
    """What the configuration of a server says; None without one that wg-quick would take."""
    try:
        return None if facts.config is None else parsed(facts.config.text)
    except WgConfigError:
        return None


def _sections(text: str, broken: "list[str] | None" = None) -> list[_Section]:
    """With `broken`, what cannot be read is left out and put there, instead of raised."""
    sections = [_Section("", [])]
    # At what wg takes for the end of a line, and at no other: a comment goes on behind a form feed.
    for number, raw in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        words = raw.partition("#")[0].strip()
        line = _Line(number, raw)
        try:
            if words.startswith("["):
                if words.lower() not in ("[interface]", "[peer]"):
                    raise WgConfigError(f"line {number}: there is no section {words}; there are [Interface] and [Peer]")
                sections.append(_Section(words.lower().strip("[]"), [line], _cut_lead(sections[-1])))
                continue
            if words:
                line.key, line.value = _assignment(number, words, sections[-1].kind)
        except WgConfigError as error:
            if broken is None:
                raise
            broken.append(str(error))
            continue
        sections[-1].lines.append(line)
    return sections


def _cut_lead(section: _Section) -> list[_Line]:
    """Take the comment lines off its end."""
    first = len(section.lines)
    while first and section.lines[first - 1].raw.strip().startswith("#"):
        first -= 1
    lead = section.lines[first:]
    del section.lines[first:]
    return lead


def _assignment(number: int, words: str, kind: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in words.partition("="))
    known = {"interface": INTERFACE_KEYS, "peer": PEER_KEYS, "": {}}[kind]
    if not equals:
        raise WgConfigError(f"line {number}: {words!r} is neither a section nor KEY = VALUE")
    if not known:
        raise WgConfigError(f"line {number}: {key} stands before the first section; is the line [Interface] missing?")
    if key.lower() not in known:
        raise WgConfigError(
            f"line {number}: wg-quick knows no {key} in [{kind.capitalize()}]: {', '.join(known.values())}"
        )
    return known[key.lower()], value


def _interface(sections: list[_Section]) -> InterfacePart:
    lines = [line for section in sections for line in section.lines]
    addresses: list[InterfaceAddress] = []
    found = InterfacePart(private_key=False)
    for line in lines:
        if line.key == "Address":
            addresses += [_made(line, ipaddress.ip_interface, one, "an address") for one in _items(line)]
        elif line.key == "ListenPort":
            found = replace(found, listen_port=_whole(line, 0, 65535))
        elif line.key == "MTU":
            found = replace(found, mtu=_whole(line, 1, 65535))
        elif line.key == "PrivateKey":
            found = replace(found, private_key=bool(line.value))
        elif line.key:
            found = replace(found, other=(*found.other, (line.key, line.value)))
    return replace(found, addresses=tuple(addresses))


def _peer(section: _Section) -> PeerPart:
    keys = section.values("PublicKey")
    if not keys:
        raise WgConfigError(f"line {section.lines[0].number}: this [Peer] has no PublicKey")
    key = keys[-1]
    if key.value != MADE_BY_APPLY and not is_key(key.value):
        raise WgConfigError(
            f"line {key.number}: {key.value!r} is no public key: 32 bytes in base64, 44 characters that end in ="
        )
    found = PeerPart(None if key.value == MADE_BY_APPLY else key.value, name=_name(section))
    allowed: list[Lan] = []
    for line in section.lines:
        if line.key == "AllowedIPs":
            # wg cuts host bits off without a word, and so it means the network.
            allowed += [_made(line, _network, one, "a network") for one in _items(line) if one]
        elif line.key == "Endpoint":
            endpoint = endpoint_from(line.value)
            if endpoint is None:
                raise WgConfigError(
                    f"line {line.number}: {line.value!r} is no endpoint; write HOST:PORT or [IPV6]:PORT"
                )
            found = replace(found, endpoint=endpoint)
        elif line.key == "PersistentKeepalive":
            seconds = 0 if line.value.lower() == "off" else _whole(line, 0, 65535)
            found = replace(found, keepalive=seconds or None)
        elif line.key == "PresharedKey":
            found = replace(found, preshared=bool(line.value))
    return replace(found, allowed_ips=tuple(dict.fromkeys(allowed)))


def _name(section: _Section) -> str:
    """What the first comment under the header says, else the last one above it."""
    under = next((line for line in section.lines[1:] if line.raw.strip()), None)
    for line in (under, *reversed(section.lead)):
        if line is not None and line.raw.strip().startswith("#"):
            return line.raw.strip().lstrip("#").strip()
    return ""


def _items(line: _Line) -> list[str]:
    return [one.strip() for one in line.value.split(",")]


def _network(text: str) -> Lan:
    return ipaddress.ip_network(text, strict=False)


def _made(line: _Line, make: Callable[[str], T], text: str, what: str) -> T:
    try:
        return make(text)
    except ValueError:
        raise WgConfigError(f"line {line.number}: {line.key} = {text!r} is not {what}") from None


def _whole(line: _Line, lowest: int, highest: int) -> int:
    if not re.fullmatch(r"\d{1,5}", line.value) or not lowest <= int(line.value) <= highest:
        raise WgConfigError(
            f"line {line.number}: {line.key} = {line.value!r} is not a number from {lowest} to {highest}"
        )
    return int(line.value)


# ---- writing


def rendered(wanted: WgConfig, title: str) -> str:
    """A new file that says it, with `title` as its first comment; without `other` of the interface and without preshared keys."""
    return changed("", wanted, title)


def changed(text: str, wanted: WgConfig, title: str = "") -> str:
    """`text` with as few lines changed as will make it say `wanted`; the same text when it says so already.

    Lines that cannot be read are left out. What is not managed stays, also where `wanted` does not have it.
    """
    sections = _sections(text, [])
    if not any(section.kind == "interface" for section in sections):
        sections[0].lines += [_Line(0, f"# {title}"), _Line(0, "")] if title and not text else []
        sections.insert(1, _Section("interface", [_Line(0, "[Interface]")]))
    interfaces = [section for section in sections if section.kind == "interface"]
    _say_interface(interfaces, wanted.interface)
    old = {id(section): _peer_or_none(section) for section in sections if section.kind == "peer"}
    kept: dict[str | None, _Section] = {}
    for section in sections:  # the last one of those that stand twice, as wg does it
        before = old.get(id(section))
        same = None if before is None else counterpart(before, wanted, [other for other in old.values() if other])
        if same is not None:
            kept[same.public_key or same.name] = section
    stays = {id(section) for section in kept.values()}
    sections = [section for section in sections if section.kind != "peer" or id(section) in stays]
    for peer in wanted.peers:
        if (peer.public_key or peer.name) in kept:
            section = kept[peer.public_key or peer.name]
        else:
            section = _Section("peer", [_Line(0, "[Peer]"), *([_Line(0, f"# {peer.name}")] if peer.name else [])])
            _end_with_a_blank_line(sections[-1])
            sections.append(section)
        now = old.get(id(section))
        _say([section], None if now is None else _peer_texts(now), _peer_texts(peer))
    lines = [line.raw for section in sections for line in (*section.lead, *section.lines)]
    while lines and not lines[-1].strip():
        lines.pop()
    result = "\n".join(lines) + "\n"
    return text if result.strip() == text.strip() else result


def counterpart(peer: PeerPart, wanted: WgConfig, all_old: "list[PeerPart]") -> PeerPart | None:
    """The peer of `wanted` that this one of the file stands for: the same key, or under another key the same address in the tunnel.

    A peer whose key was rotated keeps its place, its comments and its preshared key this way.
    """
    same = None if peer.public_key is None else wanted.peer(peer.public_key)
    if same is not None:
        return same
    single = {lan for lan in peer.allowed_ips if lan.num_addresses == 1}
    known = {other.public_key for other in all_old}
    for other in wanted.peers:
        if other.public_key not in known and single.intersection(other.allowed_ips):
            return other
    return None


def _peer_or_none(section: _Section) -> PeerPart | None:
    try:
        return _peer(section)
    except WgConfigError:
        return None


def _say_interface(sections: list[_Section], wanted: InterfacePart) -> None:
    try:
        now = _interface(sections)
    except WgConfigError:
        now = None
    _say(sections, None if now is None else _interface_texts(now), _interface_texts(wanted))
    if sum(len(section.values("PrivateKey")) for section in sections) != 1:
        _put(sections, "PrivateKey", KEPT)


def _interface_texts(part: InterfacePart) -> dict[str, str | None]:
    return {
        "Address": ", ".join(map(str, part.addresses)),
        "ListenPort": str(part.listen_port or "") or None,
        "MTU": str(part.mtu or "") or None,
    }


def _peer_texts(peer: PeerPart) -> dict[str, str | None]:
    return {
        "PublicKey": peer.public_key or MADE_BY_APPLY,
        "AllowedIPs": ", ".join(map(str, peer.allowed_ips)),
        "Endpoint": None if peer.endpoint is None else str(peer.endpoint),
        "PersistentKeepalive": None if peer.keepalive is None else str(peer.keepalive),
    }


def _say(sections: list[_Section], now: dict[str, str | None] | None, wanted: dict[str, str | None]) -> None:
    """Put what differs; the order of a list means nothing. `now` is None for a part that cannot be read, or is new."""
    for key, text in wanted.items():
        if now is None or set((now[key] or "").split(", ")) != set((text or "").split(", ")):
            _put(sections, key, text)


def _put(sections: list[_Section], key: str, value: str | None) -> None:
    """One line KEY = VALUE in the first section, at the place of the first one that was there; none for None."""
    place: int | None = None
    for section in sections:
        numbers = [number for number, line in enumerate(section.lines) if line.key == key]
        if numbers and place is None and section is sections[0]:
            place = numbers[0]
        section.lines = [line for line in section.lines if line.key != key]
    if value is None:
        return
    lines = sections[0].lines
    if place is None:  # after the last line with a key
        place = 1 + max([0, *(number for number, line in enumerate(lines) if line.key)])
        while place < len(lines) and not any(line.key for line in lines) and lines[place].raw.strip().startswith("#"):
            place += 1
    lines.insert(place, _Line(0, f"{key} = {value}", key, value))


def _end_with_a_blank_line(section: _Section) -> None:
    while section.lines and not section.lines[-1].raw.strip():
        section.lines.pop()
    section.lines.append(_Line(0, ""))
