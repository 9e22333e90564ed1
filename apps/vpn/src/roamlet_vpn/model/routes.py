"""Which of a server's routes a packet takes, and which of them keep packets for a far LAN out of the tunnel. Pure."""

import shlex
from collections.abc import Iterable

from roamlet_vpn.model.facts import Route
from roamlet_vpn.model.network import Address, Lan, is_inside


def inside(lan: Lan, routes: Iterable[Route], device: str) -> list[Route]:
    """The routes for a part of this LAN by anything but the device: a route that is longer wins, whatever its metric is."""
    there = list(routes)
    own = {route.to for route in there if route.dev == device}
    return [
        route
        for route in there
        if route.to != lan and is_inside(route.to, lan) and route.dev != device and route.to not in own
    ]


def way_to(address: Address, routes: Iterable[Route]) -> Route | None:
    """The route of table main that a packet for this address takes; None without one."""
    there = [route for route in routes if address in route.to]
    return max(there, key=lambda route: (route.to.prefixlen, -(route.metric or 0)), default=None)


def way(route: Route) -> str:
    """Where a route leads, in words that follow its network."""
    if route.type != "unicast":
        return f" is {route.type}"
    return (f" via {route.via}" if route.via is not None else "") + (
        f" by {route.dev}" if route.dev is not None else ""
    )


def removal(route: Route) -> str:
    """The command that takes the route away."""
    words = ["ip", *(["-6"] if route.to.version == 6 else []), "route", "del"]
    if route.type != "unicast":
        words.append(route.type)
    words.append(str(route.to))
    if route.via is not None:
        words += ["via", str(route.via)]
    if route.dev is not None:
        words += ["dev", route.dev]
    if route.metric is not None:
        words += ["metric", str(route.metric)]
    return shlex.join(words)  # the server named the device and the type
