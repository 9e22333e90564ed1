"""What status and check found, as tables and text for a terminal."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from roamlet_vpn.backends import backend_of
from roamlet_vpn.check.checked import Checked
from roamlet_vpn.check.latency import matrix, missing
from roamlet_vpn.errors import shown
from roamlet_vpn.model.diagnosis import ERROR
from roamlet_vpn.model.network import Network
from roamlet_vpn.model.status import SiteStatus

STYLES = {"up": "green", "idle": "yellow", "down": "red"}
KILO, MEGA = 1e3, 1e6


def status_table(network: Network, found: tuple[SiteStatus, ...]) -> RenderableType:
    """A row for each tunnel as each of its ends has it."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    names = backend_of(network).columns
    for name in ("site", "peer", "", names[0], "received", "sent", names[1]):
        table.add_column(name, justify="right" if name in ("received", "sent") else "left", no_wrap=name != names[1])
    below: list[RenderableType] = []
    for one in found:
        if one.error is not None:
            lines = [line.strip() for line in shown(one.error).splitlines()]
            below.append(Text.assemble((f"{one.site}: {lines[0]}", "red"), *(f"\n    {line}" for line in lines[1:])))
            continue
        if not one.up:
            table.add_row(one.site, "", Text("down", "red"), Text(f"{network.interface} is down", "red"))
        for peer in one.peers:
            table.add_row(
                one.site,
                peer.label() if peer.peer else Text(peer.label(), "yellow"),
                Text(peer.state, STYLES[peer.state]),
                peer.since(),
                _amount(peer.rx, peer.rx_rate),
                _amount(peer.tx, peer.tx_rate),
                peer.by(),
            )
    return Group(*([table] if table.row_count else []), *below)


def check_report(network: Network, found: Checked) -> RenderableType:
    """Latencies, rates, and what is wrong with what to do about it."""
    ways = matrix(network, found.measurements)
    parts: list[RenderableType] = []
    for title, name in (("server to server", "servers"), ("LAN to LAN", "lans")):
        if any(seconds is not None for row in ways[name].values() for seconds in row.values()):
            gone = {(one, to) for kind, one, to in missing(network, found.measurements) if kind == name}
            parts += [Text(f"round trip, {title}", "bold"), Padding(_matrix(network, ways[name], gone), (0, 0, 1, 2))]
    if found.throughputs:
        rates = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for one in found.throughputs:
            rate = Text(shown(one.error or ""), "red") if one.rate is None else f"{8 * one.rate / MEGA:.0f} Mbit/s"
            rates.add_row(f"{one.site} to {one.peer}", rate)
        parts += [Text("throughput", "bold"), Padding(rates, (0, 0, 1, 2))]
    if not found.diagnoses:
        parts.append(Text("nothing is wrong", "green"))
    for diagnosis in found.diagnoses:
        colour = "red" if diagnosis.severity == ERROR else "yellow"
        parts.append(
            Text.assemble((f"{diagnosis.severity}: {diagnosis.name}", f"bold {colour}"), f"  {shown(diagnosis.what)}")
        )
        evidence = shown(" ".join(diagnosis.evidence.split()))
        parts.append(Padding(Text(f"seen: {evidence}", "dim"), (0, 0, 0, 4)))
        parts += [Padding(Text(f"- {step}"), (0, 0, 0, 4)) for step in diagnosis.fix]
    return Group(*parts)


def _matrix(network: Network, ways: dict[str, dict[str, float | None]], gone: set[tuple[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("from")
    for site in network.sites:
        table.add_column(site.name, justify="right")
    for site in network.sites:
        row = ways[site.name]
        cells = [
            Text("-", "dim")
            if other.name == site.name or (row.get(other.name) is None and (site.name, other.name) not in gone)
            else _milliseconds(row.get(other.name))
            for other in network.sites
        ]
        table.add_row(site.name, *cells)
    return table


def _milliseconds(seconds: float | None) -> Text:
    return Text("none", "red") if seconds is None else Text(f"{1000 * seconds:.1f} ms")


def _amount(count: int, rate: float | None) -> str:
    if rate is not None:
        return f"{8 * rate / MEGA:.1f} Mbit/s" if 8 * rate >= MEGA else f"{8 * rate / KILO:.1f} kbit/s"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
