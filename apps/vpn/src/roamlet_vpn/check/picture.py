"""The network as a drawing: an SVG of its sites on a ring and the tunnels between them, with what a check has found. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from roamlet_vpn.backends import backend_of
from roamlet_vpn.model.diagnosis import ERROR, Diagnosis
from roamlet_vpn.model.network import Network, Site

WIDTH, HEAD, LINE, PAD = 236, 34, 19, 12  # of a site's card, in pixels
GAP = 110  # between cards on the ring, at the least
MARGIN = 36
TITLE, LEGEND = 56, 48  # heights above and below the ring
MOST_LABELS = 28  # tunnels: of more, only the lines are drawn

COLOURS = {"up": "#2e9e5b", "idle": "#d99a1c", "down": "#d13c3c", "unknown": "#9aa3af"}
WORDS = {"up": "up", "idle": "idle", "down": "down", "unknown": "not looked at"}

STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2937 }
.title { font-size: 17px; font-weight: 600 } .under { font-size: 12px; fill: #6b7280 }
.name { font-size: 15px; font-weight: 600; fill: #ffffff } .line { font-size: 12px }
.what { fill: #6b7280 } .label { font-size: 11.5px; text-anchor: middle } .fault { font-size: 12px; fill: #b42323 }
.caution { font-size: 12px; fill: #8a5a00 }
"""


@dataclass(frozen=True)
class Tunnel:
    """What is known of the tunnel between two sites. `seconds`: of a round trip; `rates`: bytes a second, each way."""

    site: str
    peer: str
    state: str  # of WORDS
    seconds: float | None = None
    rates: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Card:
    site: Site
    x: float  # of its middle
    y: float
    height: float


def picture(network: Network, tunnels: Iterable[Tunnel] = (), diagnoses: Iterable[Diagnosis] = ()) -> str:
    """The text of an SVG file. Tunnels that are not given are drawn as not looked at."""
    faults: dict[str, list[Diagnosis]] = {site.name: [] for site in network.sites}
    for one in diagnoses:
        if one.site in faults and one.name not in [other.name for other in faults[one.site]]:
            faults[one.site].append(one)
    known = {frozenset((one.site, one.peer)): one for one in tunnels}
    lines = {site.name: _lines(site) for site in network.sites}
    heights = {name: _height(lines[name], faults[name]) for name in lines}
    cards, width, height = _places(network, heights)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(_title(network))}</title><style>{STYLE}</style>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="10" fill="#f8fafc"/>',
        f'<text class="title" x="{MARGIN}" y="34">{escape(_title(network))}</text>',
        f'<text class="under" x="{MARGIN}" y="52">{escape(_subtitle(network))}</text>',
    ]
    pairs = [(site.name, peer.name) for site, peer in network.pairs()]
    drawn = [
        _tunnel(cards[one], cards[other], known.get(frozenset((one, other))), len(pairs), len(cards))
        for one, other in pairs
    ]
    parts += [line for line, _ in drawn]
    parts += [
        _card(cards[site.name], lines[site.name], faults[site.name], site.name == network.hub) for site in network.sites
    ]
    parts += [label for _, label in drawn if label]
    parts.append(_legend({known[pair].state if pair in known else "unknown" for pair in map(frozenset, pairs)}, height))
    return "\n".join([*parts, "</svg>", ""])


def _title(network: Network) -> str:
    count = len(network.sites)
    return f"{count} {'site' if count == 1 else 'sites'} joined by {backend_of(network).title}"


def _subtitle(network: Network) -> str:
    shape = "a mesh" if network.topology == "mesh" else f"all through {network.hub}"
    return f"{shape}, tunnel addresses in {network.tunnel}"


def _lines(site: Site) -> list[tuple[str, str]]:
    """The lines of a card: (word, value)."""
    lines = [("LAN", str(lan)) for lan in site.lans]
    if site.lan_address is not None:
        lines.append(("server", str(site.lan_address)))
    if site.address is not None:
        lines.append(("tunnel", str(site.address)))
    lines.append(("endpoint", "none: it calls" if site.endpoint is None else str(site.endpoint)))
    return lines


def _height(lines: list[tuple[str, str]], faults: list[Diagnosis]) -> float:
    return HEAD + PAD + LINE * (len(lines) + len(faults)) + (6 if faults else 0) + PAD - 6


def _places(network: Network, heights: Mapping[str, float]) -> tuple[dict[str, _Card], float, float]:
    """The cards on an ellipse that is wide enough to keep neighbours apart, and the size of the whole."""
    count = len(network.sites)
    tallest = max(heights.values(), default=HEAD)
    turn = -math.pi / 2 if count != 2 else math.pi  # two sites lie side by side, otherwise the first is on top
    angles = [turn + 2 * math.pi * number / max(count, 1) for number in range(count)]
    wide, tall = 0.0, 0.0
    if count == 2:
        wide = (WIDTH + 1.6 * GAP) / 2
    elif count > 2:
        wide, tall = (WIDTH + GAP) / 2, (tallest + GAP) / 2
        while not _apart(angles, wide, tall, tallest):
            wide, tall = wide * 1.05, tall * 1.05
    xs, ys = [wide * math.cos(angle) for angle in angles], [tall * math.sin(angle) for angle in angles]
    left = min(xs, default=0) - WIDTH / 2
    top = min((y - heights[site.name] / 2 for y, site in zip(ys, network.sites, strict=True)), default=0)
    bottom = max((y + heights[site.name] / 2 for y, site in zip(ys, network.sites, strict=True)), default=0)
    width = max(max(xs, default=0) + WIDTH / 2 - left + 2 * MARGIN, 420)
    shift = (width - (max(xs, default=0) + WIDTH / 2 - left)) / 2
    cards = {
        site.name: _Card(site, x - left + shift, y - top + TITLE + 24, heights[site.name])
        for site, x, y in zip(network.sites, xs, ys, strict=True)
    }
    return cards, width, bottom - top + TITLE + 24 + LEGEND + 12


def _apart(angles: list[float], wide: float, tall: float, height: float) -> bool:
    points = [(wide * math.cos(angle), tall * math.sin(angle)) for angle in angles]
    return all(
        abs(one[0] - other[0]) >= WIDTH + 1.3 * GAP or abs(one[1] - other[1]) >= height + 0.5 * GAP
        for number, one in enumerate(points)
        for other in points[number + 1 :]
    )


def _card(card: _Card, lines: list[tuple[str, str]], faults: list[Diagnosis], is_hub: bool) -> str:
    left, top = card.x - WIDTH / 2, card.y - card.height / 2
    broken = any(fault.severity == ERROR for fault in faults)
    head = "#b42323" if broken else "#b7791f" if faults else "#31557f"
    name = card.site.name + (" (hub)" if is_hub else "")
    parts = [
        f'<g><rect x="{left:.1f}" y="{top:.1f}" width="{WIDTH}" height="{card.height:.1f}" rx="8" fill="#ffffff" '
        f'stroke="{head}" stroke-width="1.2"/>',
        f'<path d="M{left:.1f} {top + HEAD:.1f} v-{HEAD - 8} a8 8 0 0 1 8 -8 h{WIDTH - 16} a8 8 0 0 1 8 8 v{HEAD - 8} z" '
        f'fill="{head}"/>',
        f'<text class="name" x="{left + PAD:.1f}" y="{top + 22.5:.1f}">{escape(_cut(name, 26))}</text>',
    ]
    y = top + HEAD + PAD + 8
    for word, value in lines:
        parts.append(
            f'<text class="line" x="{left + PAD:.1f}" y="{y:.1f}"><tspan class="what">{word}</tspan>'
            f'<tspan x="{left + PAD + 62:.1f}">{escape(_cut(value, 24))}</tspan></text>'
        )
        y += LINE
    y += 4 if faults else 0
    for fault in faults:
        kind, mark = ("fault", "✗") if fault.severity == ERROR else ("caution", "!")
        parts.append(f'<text class="{kind}" x="{left + PAD:.1f}" y="{y:.1f}">{mark} {escape(fault.name)}</text>')
        y += LINE
    return "".join(parts) + "</g>"


def _tunnel(one: _Card, other: _Card, known: Tunnel | None, pairs: int, count: int) -> tuple[str, str]:
    """The line, and the label that lies over all cards ("" for none)."""
    state = "unknown" if known is None else known.state
    dash = ' stroke-dasharray="7 6"' if state in ("down", "unknown") else ""
    line = (
        f'<line x1="{one.x:.1f}" y1="{one.y:.1f}" x2="{other.x:.1f}" y2="{other.y:.1f}" '
        f'stroke="{COLOURS[state]}" stroke-width="3" stroke-linecap="round"{dash}/>'
    )
    words = _words(known)
    if not words or pairs > MOST_LABELS:
        return line, ""
    x, y = _between(one, other, 0.5 if count < 4 or pairs < count else 0.4)
    size = 6.4 * max(len(word) for word in words) + 14
    height = 15 * len(words) + 7
    parts = [
        f'<rect x="{x - size / 2:.1f}" y="{y - height / 2:.1f}" width="{size:.1f}" height="{height}" rx="{min(11, height / 2)}" '
        f'fill="#ffffff" stroke="{COLOURS[state]}"/>'
    ]
    for number, word in enumerate(words):
        parts.append(
            f'<text class="label" x="{x:.1f}" y="{y - height / 2 + 15 + 15 * number:.1f}">{escape(word)}</text>'
        )
    return line, "<g>" + "".join(parts) + "</g>"


def _words(known: Tunnel | None) -> list[str]:
    if known is None:
        return []
    words = [WORDS[known.state] if known.seconds is None else f"{1000 * known.seconds:.1f} ms"]
    if known.rates is not None:
        there, back = (f"{8 * rate / 1e6:.0f}" for rate in known.rates)
        words.append(f"{there} / {back} Mbit/s")
    return words


def _between(one: _Card, other: _Card, share: float) -> tuple[float, float]:
    """The point at this share of what is to be seen of the line between two cards."""
    dx, dy = other.x - one.x, other.y - one.y
    start, end = _leaves(one, dx, dy), 1 - _leaves(other, dx, dy)
    at = start + (end - start) * share
    return one.x + at * dx, one.y + at * dy


def _leaves(card: _Card, dx: float, dy: float) -> float:
    """The share of the line from the middle of a card at which it leaves the card."""
    ways = [WIDTH / 2 / abs(dx) if dx else 1.0, card.height / 2 / abs(dy) if dy else 1.0]
    return min(0.49, *ways)


def _legend(states: set[str], height: float) -> str:
    parts = []
    x = float(MARGIN)
    y = height - 22
    for state in (state for state in WORDS if state in states):
        dash = ' stroke-dasharray="7 6"' if state in ("down", "unknown") else ""
        parts.append(
            f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{x + 34:.0f}" y2="{y:.0f}" stroke="{COLOURS[state]}" stroke-width="3"{dash}/>'
            f'<text class="under" x="{x + 42:.0f}" y="{y + 4:.0f}">{WORDS[state]}</text>'
        )
        x += 58 + 7 * len(WORDS[state]) + 20
    return "".join(parts)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
