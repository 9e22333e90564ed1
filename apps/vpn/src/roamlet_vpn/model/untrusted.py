"""A value that a server sent up, asked step by step to be what was agreed; the error names the place."""

import ipaddress
import re
from collections.abc import Callable
from typing import TypeVar

from roamlet_vpn.errors import VpnError
from roamlet_vpn.host.system import is_key
from roamlet_vpn.model.network import Address, Endpoint, InterfaceAddress, Lan

__all__ = ["FactsError", "Untrusted"]

# More of one thing than any router of an office has: a claim that is longer is refused rather than kept.
MOST = 10_000
LONGEST_TEXT = 1 << 20
LONGEST_NAME = 1000

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

    def lans(self) -> tuple[Lan, ...]:
        return tuple(one.lan() for one in self.each())

    def interfaces(self) -> tuple[InterfaceAddress, ...]:
        """A list of addresses, each with the length of its network."""
        return tuple(one._interface() for one in self.each())

    def _interface(self) -> InterfaceAddress:
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
