"""The area `dns`: names of hosts and services are looked up on worker threads. What is an address is answered at once."""

import functools
import socket
from collections.abc import Callable
from typing import Any

from roamlet.io import _dns, _originals, call_async
from roamlet.patch.changes import Changes
from roamlet.patch.functions import stands_for


@functools.wraps(_originals.getaddrinfo)
def getaddrinfo(
    host: bytes | str | None,
    port: bytes | str | int | None,
    family: int = 0,
    type: int = 0,
    proto: int = 0,
    flags: int = 0,
) -> list[Any]:
    return _dns.getaddrinfo(host, port, family, type, proto, flags)


@stands_for(_originals.getnameinfo)
def getnameinfo(sockaddr: Any, flags: int, /) -> tuple[str, str]:
    return _dns.getnameinfo(sockaddr, flags)


@stands_for(_originals.gethostbyname)
def gethostbyname(hostname: str, /) -> str:
    return _dns.gethostbyname(hostname)


def _on_a_worker(original: Callable[[str], Any]) -> Callable[[str], Any]:
    """What has no quick answer, or is asked too seldom for it to matter."""

    @stands_for(original)
    def asks(name: str, /) -> Any:
        return call_async(lambda: original(name))

    return asks


def apply(changes: Changes) -> None:
    """Replace the functions of the module `socket`, which socket.getfqdn and create_connection look up there."""
    changes.replace(socket, "getaddrinfo", getaddrinfo)
    changes.replace(socket, "getnameinfo", getnameinfo)
    changes.replace(socket, "gethostbyname", gethostbyname)
    changes.replace(socket, "gethostbyname_ex", _on_a_worker(_originals.gethostbyname_ex))
    changes.replace(socket, "gethostbyaddr", _on_a_worker(_originals.gethostbyaddr))
