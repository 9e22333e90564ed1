"""Names of hosts and services to addresses and back, by the system's own resolver, on worker threads.

What is an address already is answered at once. The resolver itself has the time-outs (resolv.conf); a tasklet that does not
want to wait so long puts roamlet.timeout around it.
"""

import socket
from typing import Any, TypeAlias

from roamlet.io import _originals
from roamlet.io._workers.call_async import call_async

# family, type, protocol, canonical name, address: as typed for socket.getaddrinfo, without its many unions.
AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_BY_NUMBER = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV


def getaddrinfo(
    host: bytes | str | None,
    port: bytes | str | int | None,
    family: int = 0,
    type: int = 0,
    proto: int = 0,
    flags: int = 0,
) -> list[AddressInfo]:
    """Like socket.getaddrinfo: the addresses of `host` and `port`. Blocks this tasklet only; raises socket.gaierror."""
    try:
        return list(_originals.getaddrinfo(host, port, family, type, proto, flags | _NUMERIC))
    except socket.gaierror:  # a name, or wrong: the answer to the question as it was put says
        pass
    return call_async(lambda: list(_originals.getaddrinfo(host, port, family, type, proto, flags)))


def getnameinfo(sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int = 0) -> tuple[str, str]:
    """Like socket.getnameinfo: the names of a host and a service. Blocks this tasklet only; raises socket.gaierror."""
    if flags & _BY_NUMBER == _BY_NUMBER:
        return _originals.getnameinfo(sockaddr, flags)
    return call_async(lambda: _originals.getnameinfo(sockaddr, flags))


def gethostbyname(hostname: str) -> str:
    """Like socket.gethostbyname: an IPv4 address of the host. Blocks this tasklet only; raises socket.gaierror."""
    try:
        numeric = _originals.getaddrinfo(hostname, None, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return call_async(lambda: _originals.gethostbyname(hostname))
    return str(numeric[0][4][0])
