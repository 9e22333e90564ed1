"""A value that a server sent up, asked step by step to be what was agreed; the error names the place."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial, reduce
from operator import or_
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from roamlet_vpn.errors import VpnError
from roamlet_vpn.host.system import is_key
from roamlet_vpn.model.network import Address, Endpoint, InterfaceAddress, Lan

# More of one thing than any router of an office has: a claim that is longer is refused rather than kept.
MOST = 10_000
LONGEST_TEXT = 1 << 20
LONGEST_NAME = 1000
OPTIONAL = {"optional": True}  # in the metadata of a field: its key may be missing

T = TypeVar("T")


class FactsError(VpnError, ValueError):
    """A server's report does not have the agreed form. The message names the place."""


class Untrusted:
    """One value of the dict with the way to it, and what it may be asked to be. Each method raises FactsError."""

    def __init__(self, value: object, where: str) -> None:
        self.value = value
        self.where = where

    def wrong(self, wanted: str) -> FactsError:
        """The error for a value that is something else."""
        shown = repr(self.value)
        return FactsError(
            f"{self.where}: {shown if len(shown) <= 80 else shown[:77] + '...'} is no {wanted}: what the server sent is not "
            "believed, and nothing was done there. Is its /etc/wireguard in order, and is it the machine you think it is?"
        )

    def __getitem__(self, key: str) -> "Untrusted":
        if not isinstance(self.value, dict):
            raise self.wrong("dict")
        if key not in self.value:
            raise FactsError(f"{self.where}: {key!r} is not there; was it gathered by another version of roamlet?")
        return Untrusted(self.value[key], f"{self.where}, {key}")

    def read(self, wanted: type[T]) -> T:
        """A value of this type. A dataclass is a dict with the names of its fields; what Annotated adds to a type reads it."""
        hint: Any = wanted
        found: T = _reader(hint)(self)
        return found

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def items(self) -> "list[tuple[str, Untrusted]]":
        """Of a dict with names as keys."""
        if not isinstance(self.value, dict) or len(self.value) > MOST:
            raise self.wrong(f"dict of at most {MOST}")
        return [
            (Untrusted(key, f"{self.where}, a key").name(), Untrusted(value, f"{self.where}, {key}"))
            for key, value in self.value.items()
        ]

    def each(self) -> "list[Untrusted]":
        if not isinstance(self.value, list | tuple) or len(self.value) > MOST:
            raise self.wrong(f"list of at most {MOST}")
        return [Untrusted(value, f"{self.where}, number {number}") for number, value in enumerate(self.value, 1)]

    def maybe(self, read: "Callable[[Untrusted], T]") -> T | None:
        """None, or what `read` makes of it."""
        return None if self.value is None else read(self)

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("bool")
        return self.value

    def whole(self, lowest: int, highest: int) -> int:
        """An int of this range."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not lowest <= self.value <= highest:
            raise self.wrong(f"whole number from {lowest} to {highest}")
        return self.value

    def sha256(self) -> str:
        if not re.fullmatch("[0-9a-f]{64}", text := self.name()):
            raise self.wrong("SHA-256 of 64 hex digits")
        return text

    def number(self) -> float:
        """A finite number, not negative and below 10^12."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not 0 <= self.value < 1e12:
            raise self.wrong("number from 0 on")
        return float(self.value)

    def text(self) -> str:
        """Text of several lines, without what a terminal would obey."""
        if not isinstance(self.value, str) or len(self.value) > LONGEST_TEXT:
            raise self.wrong(f"text of at most {LONGEST_TEXT} characters")
        if not all(char.isprintable() or char in "\n\t\r\xa0\ufeff" for char in self.value):
            raise self.wrong("text without control characters")
        return self.value

    def name(self) -> str:
        """Text of one line."""
        if not isinstance(self.value, str) or len(self.value) > LONGEST_NAME or not self.value.isprintable():
            raise self.wrong(f"line of at most {LONGEST_NAME} printable characters")
        return self.value

    def key(self) -> str:
        if not isinstance(self.value, str) or not is_key(self.value):
            raise self.wrong("public key (32 bytes in base64)")
        return self.value

    def address(self) -> Address:
        try:
            return ipaddress.ip_address(self.name())
        except ValueError:
            raise self.wrong("address") from None

    def lan(self) -> Lan:
        """A network without host bits."""
        try:
            return ipaddress.ip_network(self.name())
        except ValueError:
            raise self.wrong("network, such as 192.168.10.0/24") from None

    def interface(self) -> InterfaceAddress:
        try:
            return ipaddress.ip_interface(self.name())
        except ValueError:
            raise self.wrong("address with a length, such as 192.168.10.2/24") from None

    def endpoint(self) -> Endpoint:
        """ADDRESS:PORT."""
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):(\d{1,5})", self.name())
        if match is None or int(match[3]) > 65535:
            raise self.wrong("endpoint, such as 198.51.100.2:51820")
        return Endpoint(str(Untrusted(match[1] or match[2], self.where).address()), int(match[3]))


def whole(lowest: int, highest: int) -> Callable[[Untrusted], int]:
    """What reads an int of this range."""
    return partial(Untrusted.whole, lowest=lowest, highest=highest)


Count = Annotated[int, whole(0, 1 << 64)]
Mode = Annotated[int, whole(0, 0o7777)]
Mtu = Annotated[int, whole(0, 1 << 31)]
PublicKey = Annotated[str, Untrusted.key]
Sha256 = Annotated[str, Untrusted.sha256]
Text = Annotated[str, Untrusted.text]

_READERS: dict[Any, Callable[[Untrusted], Any]] = {
    bool: Untrusted.flag,
    float: Untrusted.number,
    str: Untrusted.name,
    Address: Untrusted.address,
    Lan: Untrusted.lan,
    InterfaceAddress: Untrusted.interface,
    Endpoint: Untrusted.endpoint,
}


@cache
def _reader(wanted: Any) -> Callable[[Untrusted], Any]:
    if wanted in _READERS:
        return _READERS[wanted]
    args = get_args(wanted)
    if get_origin(wanted) is Annotated:
        return args[1]  # type: ignore[no-any-return]
    if isinstance(wanted, type) and is_dataclass(wanted):
        hints = get_type_hints(wanted, include_extras=True)
        readers = {one.name: (_reader(hints[one.name]), one.metadata) for one in fields(wanted)}
        return lambda found: wanted(
            **{name: read(found[name]) for name, (read, how) in readers.items() if how != OPTIONAL or name in found}
        )
    if NoneType in args:
        read = _reader(reduce(or_, (arg for arg in args if arg is not NoneType)))
        return lambda found: found.maybe(read)
    if get_origin(wanted) is Mapping:
        read = _reader(args[1])
        return lambda found: {name: read(one) for name, one in found.items()}
    assert get_origin(wanted) is tuple and args[1:] == (...,), wanted
    read = _reader(args[0])
    return lambda found: tuple(read(one) for one in found.each())
