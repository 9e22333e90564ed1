"""The matrix of latencies of a check: server to server through the tunnel, and LAN to LAN. Pure."""

from statistics import median

from roamlet_vpn.model.measured import Echo, Kind, Measurements
from roamlet_vpn.model.network import Network

Matrix = dict[str, dict[str, float | None]]
KINDS: dict[str, tuple[Kind, ...]] = {"servers": ("tunnel",), "lans": ("client", "lan")}


def matrix(network: Network, measurements: Measurements) -> dict[str, Matrix]:
    """{"servers": {from: {to: seconds}}, "lans": the same}; None where nothing came back, or nothing was sent.

    Between LANs it is to a host of the far one that answers its own server, else to that server at its address there.
    """
    names = [site.name for site in network.sites]
    return {
        kind: {one: {to: _median(_echoes(one, to, kinds, measurements)) for to in names if to != one} for one in names}
        for kind, kinds in KINDS.items()
    }


def missing(network: Network, measurements: Measurements) -> list[tuple[str, str, str]]:
    """Where something was sent and nothing came back: of which part of the matrix, from, to."""
    names = [site.name for site in network.sites]
    return [
        (kind, one, to)
        for kind, kinds in KINDS.items()
        for one in names
        for to in names
        if to != one and (echoes := _echoes(one, to, kinds, measurements)) and _median(echoes) is None
    ]


def _echoes(one: str, to: str, kinds: tuple[Kind, ...], measurements: Measurements) -> tuple[Echo, ...]:
    """Those of the first kind of which there are some. A host that is not up says nothing of the way to it."""
    up = {echo.to for echo in measurements.echoes_of(to, None, "own client") if echo.answered}
    for kind in kinds:
        echoes = tuple(
            echo for echo in measurements.echoes_of(one, to, kind) if kind != "client" or echo.to in up or echo.answered
        )
        if echoes:
            return echoes
    return ()


def _median(echoes: tuple[Echo, ...]) -> float | None:
    times = [seconds for echo in echoes for seconds in echo.times]
    return median(times) if times else None
