"""Draws the maps of docs/design/architecture.md from the imports in the sources, and fills in its tables of packages.

    python -m tools.architecture_map            fails if a picture or a table is not what the sources say
    python -m tools.architecture_map --write    makes them so

A package lies above all that it imports. An arrow leads from a package to one that it imports; those that follow from
other arrows are left out. Packages that import each other lie in one row, joined by a dashed line.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path

from tools import marked
from tools.import_graph import Module, Room, circles, first_comment, first_sentence, read, rooms

ROOT = Path(__file__).resolve().parent.parent
DESIGN = ROOT / "docs/design"
APPS = sorted(path.name for path in ROOT.glob("apps/*/src/roamlet_*") if path.is_dir() and path.suffix == "")

# Each map: the name of its file, and the package that it shows from inside.
MAPS = {
    "map.svg": "roamlet",
    "map-remote.svg": "roamlet.remote",
    "map-wire.svg": "roamlet.wire",
    "map-snapshot.svg": "roamlet.snapshot",
    "map-vpn.svg": "roamlet_vpn",
}
NOT_SHOWN = {"roamlet.__main__"}

BOX, GAP, ROW, MARGIN = 44, 26, 104, 24  # height of a box, space beside it, from one row to the next, around all
LETTER, PASSAGE = 7.9, 14  # widths: of a letter, and of an arrow that passes through a row

STYLE = """
  text { font: 600 13px system-ui, 'DejaVu Sans', sans-serif; text-anchor: middle; fill: #1f2430 }
  .count { font-weight: 400; font-size: 11px; fill: #5a6272 }
  .page { fill: #ffffff } .room { fill: #eef3fb; stroke: #6f8fc0 } .app { fill: #fdf3e3; stroke: #c79a4a }
  .one { fill: #f4f4f6; stroke: #a3a8b4 }
  .arrow, .circle { fill: none; stroke: #7d8798; stroke-width: 1.2 } .circle { stroke-dasharray: 5 4; stroke: #c05050 }
  #head path { fill: #7d8798 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e9f0 } .count { fill: #a9b1c2 } .page { fill: #14171d }
    .room { fill: #22304a; stroke: #6f8fc0 } .app { fill: #45371d; stroke: #c79a4a } .one { fill: #2a2d35; stroke: #7d8290 }
  }
"""


@dataclass
class Spot:
    """A box of a row, or the place where an arrow passes through it (`room` is None then)."""

    room: Room | None
    width: float
    x: float = 0.0
    above: list["Spot"] = field(default_factory=list)
    below: list["Spot"] = field(default_factory=list)


@dataclass
class Drawing:
    rows: list[list[Spot]]
    paths: list[list[tuple[Spot, int]]]
    """The arrows: the spots that each passes, from the top, and their rows."""
    circles: list[tuple[str, str]]
    at: dict[str, tuple[Spot, int]]


def ranks(found: Mapping[str, Room]) -> dict[str, int]:
    """The row of each room, 0 at the bottom: one more than the highest that it imports. The rooms of a circle share one."""
    rank: dict[str, int] = {}
    for part in circles({name: room.imports for name, room in found.items()}):
        lower = [rank[target] for name in part for target in found[name].imports if target not in part]
        rank.update(dict.fromkeys(part, max(lower, default=-1) + 1))
    top = max(rank.values())
    rank.update((name, top) for name in found if name in APPS and not found[name].imports)  # an app without roamlet
    return rank


def arrows(found: Mapping[str, Room], rank: Mapping[str, int]) -> list[tuple[str, str]]:
    """Imports that lead down, less those that follow from others."""
    below = {name: {t for t in room.imports if rank[t] < rank[name]} for name, room in found.items()}
    reached: dict[str, set[str]] = {}
    for name in sorted(found, key=lambda name: rank[name]):
        reached[name] = below[name].union(*(reached[target] for target in below[name]))
    return sorted(
        (name, target)
        for name, targets in below.items()
        for target in targets
        if not any(target in reached[other] for other in targets)
    )


def arranged(found: Mapping[str, Room], parent: str) -> Drawing:
    """Rows from the top, their boxes in an order in which few arrows cross."""
    rank = ranks(found)
    top = max(rank.values())
    rows: list[list[Spot]] = [[] for _ in range(top + 1)]
    at = {}
    for name in sorted(found):
        room = found[name]
        width = max(len(title(name, parent)), len(count(room)) * 0.85) * LETTER + 24
        at[name] = Spot(room, width), top - rank[name]
        rows[at[name][1]].append(at[name][0])
    paths = []
    for start, end in arrows(found, rank):
        (first, high), (last, low) = at[start], at[end]
        path = [(first, high), *((Spot(None, PASSAGE), row) for row in range(high + 1, low)), (last, low)]
        for spot, row in path[1:-1]:
            rows[row].append(spot)
        for (upper, _), (lower, _) in pairwise(path):
            upper.below.append(lower)
            lower.above.append(upper)
        paths.append(path)
    joined = [
        (name, target)
        for name in sorted(found)
        for target in sorted(found[name].imports)
        if rank[name] == rank[target] and (name < target or name not in found[target].imports)
    ]
    drawing = Drawing(rows, paths, joined, at)
    order(rows)
    place(rows)
    return drawing


def order(rows: list[list[Spot]]) -> None:
    """Sort each row by the middle of what its spots are joined to, down and up, some times over."""

    def sort(row: list[Spot], joined: Callable[[Spot], list[Spot]], beside: list[Spot]) -> None:
        index = {id(spot): number / max(len(beside) - 1, 1) for number, spot in enumerate(beside)}
        own = {id(spot): number / max(len(row) - 1, 1) for number, spot in enumerate(row)}

        def middle(spot: Spot) -> float:
            near = [index[id(other)] for other in joined(spot)]
            return sum(near) / len(near) if near else own[id(spot)]

        row.sort(key=middle)

    best = crossings(rows), [list(row) for row in rows]
    for _ in range(12):
        for upper, lower in pairwise(rows):
            sort(lower, lambda spot: spot.above, upper)
        for lower, upper in pairwise(reversed(rows)):
            sort(upper, lambda spot: spot.below, lower)
        if (now := crossings(rows)) < best[0]:
            best = now, [list(row) for row in rows]
    for row, kept in zip(rows, best[1], strict=True):
        row[:] = kept


def crossings(rows: list[list[Spot]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        index = {id(spot): number for number, spot in enumerate(lower)}
        ends = [index[id(end)] for spot in upper for end in sorted(spot.below, key=lambda spot: index[id(spot)])]
        total += sum(first > second for number, first in enumerate(ends) for second in ends[number + 1 :])
    return total


def place(rows: list[list[Spot]]) -> None:
    """Give each spot its x: near what it is joined to, in the order of its row, with space in between."""
    for row in rows:
        x = 0.0
        for spot in row:
            spot.x = x + spot.width / 2
            x += spot.width + GAP
    widest = max(rows, key=lambda row: row[-1].x + row[-1].width / 2 if row else 0)
    middle = (widest[-1].x + widest[-1].width / 2) / 2
    for row in rows:
        if row:
            shift = middle - (row[0].x - row[0].width / 2 + row[-1].x + row[-1].width / 2) / 2
            for spot in row:
                spot.x += shift
    for _ in range(30):
        for row in (*rows, *reversed(rows)):
            wanted = [
                sum(near.x for near in (*spot.above, *spot.below)) / (len(spot.above) + len(spot.below))
                if spot.above or spot.below
                else None
                for spot in row
            ]
            joined = [x for x in wanted if x is not None]
            middle = sum(joined) / len(joined) if joined else 0.0
            spread(row, [middle if x is None else x for x in wanted])


def spread(row: list[Spot], wanted: list[float]) -> None:
    """Put the spots where they are wanted; those that would overlap become a block around the mean of their wishes."""
    blocks: list[tuple[list[Spot], float]] = []  # the spots of a block, and the wanted place of its left edge

    def length(spots: list[Spot]) -> float:
        return sum(spot.width for spot in spots) + GAP * (len(spots) - 1)

    for spot, x in zip(row, wanted, strict=True):
        blocks.append(([spot], x - spot.width / 2))
        while len(blocks) > 1 and blocks[-2][1] + length(blocks[-2][0]) + GAP > blocks[-1][1]:
            (left, start), (right, end) = blocks[-2:]
            mean = (start * len(left) + (end - length(left) - GAP) * len(right)) / (len(left) + len(right))
            blocks[-2:] = [([*left, *right], mean)]
    for spots, left in blocks:
        edge = left
        for spot in spots:
            spot.x = edge + spot.width / 2
            edge += spot.width + GAP


def title(name: str, parent: str) -> str:
    if name == parent:
        return f"{parent.rpartition('.')[2]}/__init__"
    return name.removeprefix(parent + ".")


def count(room: Room) -> str:
    return "1 module" if room.modules == 1 else f"{room.modules} modules"


def picture(found: Mapping[str, Room], parent: str) -> str:
    """The map as SVG."""
    drawing = arranged(found, parent)
    left = min(spot.x - spot.width / 2 for row in drawing.rows for spot in row) - MARGIN
    right = max(spot.x + spot.width / 2 for row in drawing.rows for spot in row) + MARGIN
    width, height = right - left, (len(drawing.rows) - 1) * ROW + BOX + 2 * MARGIN

    def point(spot: Spot, y: float) -> str:
        return f"{spot.x - left:.1f} {y:.1f}"

    def y_of(row: int) -> float:
        return MARGIN + row * ROW

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>The packages of {parent}, each above what it imports</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker></defs>',
        '<rect class="page" width="100%" height="100%"/>',
    ]
    for path in drawing.paths:
        (start, first), *_ = path
        words = [f"M{point(start, y_of(first) + BOX)}"]
        for (upper, above), (lower, below) in pairwise(path):
            y, end = y_of(above) + BOX, y_of(below)
            words.append(
                f"C{point(upper, y + 30)} {point(lower, end - 30)} {point(lower, end - (lower.room is not None))}"
            )
            if lower.room is None:
                words.append(f"V{end + BOX:.1f}")
        lines.append(f'<path class="arrow" marker-end="url(#head)" d="{" ".join(words)}"/>')
    for start, end in drawing.circles:
        (a, row), (b, _) = sorted((drawing.at[start], drawing.at[end]), key=lambda spot: spot[0].x)
        y, deep = y_of(row) + BOX, y_of(row) + BOX + 26
        lines.append(f'<path class="circle" d="M{point(a, y)} C{point(a, deep)} {point(b, deep)} {point(b, y)}"/>')
    for name, (spot, row) in sorted(drawing.at.items()):
        room = found[name]
        kind = "app" if name in APPS and name != parent else "one" if room.modules == 1 else "room"
        y = y_of(row)
        imported = ", ".join(sorted(title(target, parent) for target in room.imports)) or "nothing of these"
        lines += [
            f"<g><title>{escape(f'{title(name, parent)} imports {imported}')}</title>"
            f'<rect class="{kind}" x="{spot.x - spot.width / 2 - left:.1f}" y="{y}" width="{spot.width:.1f}" '
            f'height="{BOX}" rx="6"/>',
            f'<text x="{spot.x - left:.1f}" y="{y + 19}">{escape(title(name, parent))}</text>',
            f'<text class="count" x="{spot.x - left:.1f}" y="{y + 35}">{count(room)}</text></g>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def shown(modules: Mapping[str, Module], parent: str) -> dict[str, Room]:
    """The rooms of a map. That of roamlet has the apps in it too."""
    kept = {name: module for name, module in modules.items() if name not in NOT_SHOWN}
    found = rooms(kept, parent, APPS if parent == "roamlet" else ())
    if not found[parent].imports and not any(parent in room.imports for room in found.values()):
        del found[parent]  # an __init__ with nothing in it
    return found


def table(modules: Mapping[str, Module], parent: str) -> str:
    """The packages and modules of `parent` as a table, the highest first."""
    found = shown(modules, parent)
    rank = ranks(found)
    rows = []
    for name, room in sorted(found.items(), key=lambda item: (-rank[item[0]], item[0])):
        if name == parent or name in APPS:
            continue
        file = ROOT / ("src" if parent.startswith("roamlet.") or parent == "roamlet" else f"apps/{parent[8:]}/src")
        path = file.joinpath(*name.split("."))
        link = f"../../{path.relative_to(ROOT)}" + ("" if path.is_dir() else ".py")
        if not path.is_dir() and not path.with_suffix(".py").exists():
            link += "i"
        imported = ", ".join(f"`{title(target, parent)}`" for target in sorted(room.imports) if target != parent) or "-"
        rows.append(f"| [`{title(name, parent)}`]({link}) | {room.modules} | {room.purpose} | {imported} |")
    return "\n".join(["| Package | Modules | What it is for | Imports |", "| --- | --- | --- | --- |", *rows])


def files(modules: Mapping[str, Module], parent: str) -> str:
    """Every file below `parent`, those in C and those for servers included, with its first sentence, as a table.

    Of `roamlet` itself, the files that are in no package.
    """
    folder = next(
        path for path in (ROOT / "src", *ROOT.glob("apps/*/src")) if (path / parent.partition(".")[0]).is_dir()
    )
    purposes = {
        name.removeprefix(parent + ".").replace(".", "/") + ".py": module.purpose
        for name, module in modules.items()
        if name.startswith(parent + ".") and not module.is_package and (parent != "roamlet" or name.count(".") == 1)
    }
    top = folder.joinpath(*parent.split("."))
    purposes = {path if (top / path).exists() else f"{path}i": purpose for path, purpose in purposes.items()}
    if parent == "roamlet":
        purposes["__init__.py"] = modules[parent].purpose
    else:
        installed = [path for path in top.glob("files/*") if path.is_file() and path.suffix != ".py"]
        for path in (*top.rglob("*.c"), *top.rglob("*.h"), *installed):
            purposes[str(path.relative_to(top))] = purpose_of(path.read_text(encoding="utf-8"))
    rows = [f"| `{path}` | {purpose.replace('|', chr(92) + '|')} |" for path, purpose in purposes.items() if purpose]
    rows.sort(key=lambda row: (row.count("/") > 0, row.rpartition("/")[0], row))
    return "\n".join(["| File | What it is for |", "| --- | --- |", *rows])


def purpose_of(source: str) -> str:
    """The first sentence of the comment that a file in C or of the shell begins with; of a unit of systemd, its description."""
    if found := re.match(r"\s*/\*(.*?)\*/", source, re.DOTALL):
        return first_sentence(re.sub(r"\n\s*\*? ?", "\n", found[1]))
    if found := re.match(r"\[Unit\]\nDescription=(.*)", source):
        return f"{found[1]}."
    return first_sentence(first_comment(source))


def main(arguments: list[str]) -> int:
    modules = read([ROOT / "src", *sorted(ROOT.glob("apps/*/src"))])
    wanted = {DESIGN / file: picture(shown(modules, parent), parent) for file, parent in MAPS.items()}
    for page in sorted(DESIGN.glob("*.md")):
        text = marked.filled(page.read_text(encoding="utf-8"), "packages", lambda parent: table(modules, parent))
        wanted[page] = marked.filled(text, "modules", lambda parent: files(modules, parent))
    return marked.settle(wanted, "tools.architecture_map", write="--write" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
