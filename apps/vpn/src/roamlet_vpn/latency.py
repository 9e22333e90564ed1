"""The matrix of latencies of a check: server to server through the tunnel, and LAN to LAN. Pure."""

from statistics import median
from typing import Any

from roamlet_vpn.measured import Echo, Measurements
from roamlet_vpn.network import Network

__all__ = ["matrix"]

Matrix = dict[str, dict[str, float | None]]


def matrix(network: Network, measurements: Measurements) -> dict[str, Matrix]:
    """{"servers": {from: {to: seconds}}, "lans": the same}; None where nothing came back.

    Between LANs it is to a host of the far one, or to its server at its address there if no host of it is known.
    """
    return {"servers": _of(network, measurements, ("tunnel",)), "lans": _of(network, measurements, ("client", "lan"))}


def _of(network: Network, measurements: Measurements, kinds: tuple[Any, ...]) -> Matrix:
    names = [site.name for site in network.sites]
    return {one: {to: _seconds(one, to, kinds, measurements) for to in names if to != one} for one in names}


def _seconds(one: str, to: str, kinds: tuple[Any, ...], measurements: Measurements) -> float | None:
    for kind in kinds:
        echoes: tuple[Echo, ...] = measurements.echoes_of(one, to, kind)
        if echoes:
            times = [seconds for echo in echoes for seconds in echo.times]
            return median(times) if times else None
    return None
