"""Bars in an SVG or PNG file. SVG needs nothing; PNG needs Pillow, the `plot` extra.

The scale is logarithmic: what there is to see is a collapse by two powers of ten, and differences of a third beside it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from xml.sax.saxutils import escape

# One for each bar of a group, in turn; they differ for those who tell few colours apart, too (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442")

ACROSS = 2
PANEL_WIDTH = 560
LABEL_WIDTH = 210
VALUE_WIDTH = 60
BAR = 12
STEP = 15
HEADING = 20
MARGIN = 16


class PlotRefused(ValueError):
    """The file cannot be drawn: its ending is unknown, or what draws it is missing. The message says what to do."""


@dataclass(frozen=True)
class Panel:
    """A title and groups of bars: (name of the group, [(name of the bar, its colour's number, value, value in words)])."""

    title: str
    groups: Sequence[tuple[str, Sequence[tuple[str, int, float, str]]]]

    @property
    def height(self) -> int:
        return HEADING + sum(HEADING * bool(name) + STEP * len(bars) for name, bars in self.groups) + MARGIN


class Canvas(Protocol):
    """Where it is drawn; pixels from the upper left."""

    def bar(self, left: float, top: float, width: float, height: float, colour: str) -> None: ...
    def text(self, left: float, top: float, words: str, size: int, anchor: str = "start") -> None: ...
    def save(self, path: Path) -> None: ...


def check(path: Path) -> None:
    """Raise PlotRefused when `path` could not be drawn: asked before anything is measured."""
    canvas(path, 1, 1)


def draw(title: str, panels: Sequence[Panel], path: Path) -> None:
    """Write the panels, two beside each other, into a .svg or .png file. Raises PlotRefused, OSError."""
    rows = [panels[at : at + ACROSS] for at in range(0, len(panels), ACROSS)]
    height = 2 * MARGIN + HEADING + sum(max(panel.height for panel in row) for row in rows)
    onto = canvas(path, ACROSS * PANEL_WIDTH + MARGIN, height)
    onto.text(MARGIN, MARGIN, f"{title} (logarithmic scale)", 16)
    top = float(MARGIN + HEADING + MARGIN // 2)
    for row in rows:
        for position, panel in enumerate(row):
            draw_panel(onto, panel, MARGIN + position * PANEL_WIDTH, top)
        top += max(panel.height for panel in row)
    onto.save(path)


def draw_panel(onto: Canvas, panel: Panel, left: float, top: float) -> None:
    onto.text(left, top, panel.title, 13)
    top += HEADING
    values = [value for _, bars in panel.groups for _, _, value, _ in bars if value > 0]
    if not values:
        return
    low = math.floor(math.log10(min(values) * 0.9))
    high = max(math.log10(max(values)), low + 1)
    room = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH - MARGIN
    for group, bars in panel.groups:
        if group:
            onto.text(left, top + 4, group, 11)
            top += HEADING
        for name, colour, value, words in bars:
            width = room * (math.log10(value) - low) / (high - low) if value > 0 else 0
            onto.text(left + LABEL_WIDTH - 6, top, name, 10, "end")
            onto.bar(left + LABEL_WIDTH, top, max(width, 1), BAR, COLOURS[colour % len(COLOURS)])
            onto.text(left + LABEL_WIDTH + max(width, 1) + 5, top, words, 10)
            top += STEP


def curves(title: str, rows: Sequence[tuple[str, Sequence[tuple[float, float]]]], path: Path) -> None:
    """Write kB over seconds as steps into a .svg or .png file. Rows: (name, [(seconds, kB), ...]). Raises PlotRefused, OSError."""
    width, height, left, top = 800, 360, 64, 56
    onto = canvas(path, width + left + 2 * MARGIN, height + top + 48)
    onto.text(MARGIN, MARGIN, title, 14)
    longest = max((points[-1][0] for _, points in rows if points), default=0) or 1.0
    most = max((points[-1][1] for _, points in rows if points), default=0) or 1.0
    for part in range(5):
        level = top + height - height * part / 4
        onto.bar(left, level, width, 1, "#dddddd")
        onto.text(left - 6, level - 6, f"{most * part / 4:,.0f} kB", 10, "end")
        onto.text(left + width * part / 4, top + height + 8, f"{longest * part / 4:.2f} s", 10)
    for position, (name, points) in enumerate(rows):
        colour = COLOURS[position]
        onto.bar(left + width - 300, top + height - 48 + 18 * position, 24, 4, colour)
        onto.text(left + width - 268, top + height - 52 + 18 * position, name, 11)
        for (at, level), (until, following) in pairwise(points):
            low = top + height * (1 - level / most)
            high = top + height * (1 - following / most)
            onto.bar(left + width * at / longest, low - 1, max(width * (until - at) / longest, 1), 2, colour)
            onto.bar(left + width * until / longest - 1, high - 1, 2, low - high + 2, colour)
    onto.save(path)


def canvas(path: Path, width: int, height: int) -> Canvas:
    """The one for this ending."""
    kinds: dict[str, Any] = {".svg": SVG, ".png": PNG}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise PlotRefused(f"a plot is written as .svg or .png, and '{path.name}' is neither: name it plot.svg")
    made: Canvas = kind(width, height)
    return made


class SVG:
    """Text, as small and as steady as its figures."""

    def __init__(self, width: int, height: int) -> None:
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]

    def bar(self, left: float, top: float, width: float, height: float, colour: str) -> None:
        self._lines.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height}" fill="{colour}"/>'
        )

    def text(self, left: float, top: float, words: str, size: int, anchor: str = "start") -> None:
        self._lines.append(
            f'<text x="{left:.1f}" y="{top + size * 0.9:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def content(self) -> str:
        """The text of the file."""
        return "\n".join([*self._lines, "</svg>", ""])

    def save(self, path: Path) -> None:
        path.write_text(self.content(), encoding="utf-8")


class PNG:
    """Twice as many pixels as SVG counts, for screens that have them."""

    SCALE = 2

    def __init__(self, width: int, height: int) -> None:
        try:
            from PIL import Image, ImageDraw, ImageFont  # here: needed for PNG alone
        except ImportError as error:
            raise PlotRefused(
                f"a PNG needs Pillow ({error}): pip install 'roamlet-bench[plot]', or write an SVG, which needs nothing"
            ) from None
        self._font = ImageFont.load_default
        self._image = Image.new("RGB", (width * self.SCALE, height * self.SCALE), "white")
        self._draw = ImageDraw.Draw(self._image)

    def bar(self, left: float, top: float, width: float, height: float, colour: str) -> None:
        corners = (left, top, left + width, top + height)
        self._draw.rectangle([corner * self.SCALE for corner in corners], fill=colour)

    def text(self, left: float, top: float, words: str, size: int, anchor: str = "start") -> None:
        font = self._font(size=size * self.SCALE)
        if anchor == "end":
            left -= self._draw.textlength(words, font=font) / self.SCALE
        self._draw.text((left * self.SCALE, top * self.SCALE), words, fill="black", font=font)

    def save(self, path: Path) -> None:
        self._image.save(path)
