"""Fills in the figures of docs/compare from the tables of docs/reference and docs/design: no figure is typed twice.

    python -m tools.figures            fails if a page is not what those tables say
    python -m tools.figures --write    makes it so

`<!-- figures: PAGE | HEADING | COLUMNS | ROWS -->` before `<!-- end -->` has a part of the first table below a heading of PAGE
that starts with HEADING; `HEADING > NAME` is the first one below it whose first column is called NAME. COLUMNS are names with `;`
between them, and all columns where it is empty; the first column is always there. ROWS are starts of rows, whose cells are
joined by ` / `, with `;` between them, and all rows where it is empty.
"""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import marked

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PIECE = re.compile(r"<!-- figures: (?P<which>[^\n]+) -->\n.*?<!-- end -->", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """One table of a page, and the heading above it."""

    page: Path
    heading: str
    columns: list[str]
    rows: list[list[str]]

    def link(self, start: Path) -> str:
        """A link to the heading, from a page in the folder `start`."""
        anchor = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", self.heading).strip().lower())
        return f"[{self.heading}]({os.path.relpath(self.page, start)}#{anchor})"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def tables(page: Path) -> Iterator[Table]:
    """The tables of a page, in order."""
    heading, lines = "", page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
        elif line.startswith("|") and not lines[number - 1].startswith("|"):
            end = next((n for n in range(number, len(lines)) if not lines[n].startswith("|")), len(lines))
            yield Table(page, heading, cells(line), [cells(row) for row in lines[number + 2 : end]])


def part(which: str, start: Path, docs: Path = DOCS) -> str:
    """The table that the words of one piece ask for, with a link to where it is from. LookupError where there is no such thing."""
    page, place, columns, rows = (word.strip() for word in which.split("|"))
    heading, _, first = place.partition(" > ")
    below = [table for table in tables(docs / page) if table.heading.startswith(heading)]
    found = next((table for table in below if not first or table.columns[0] == first), None)
    if found is None:
        raise LookupError(f"{page} has no table {first} below a heading that starts with {heading!r}")
    wanted = [column.strip() for column in columns.split(";") if column.strip()]
    for column in wanted:
        if found.columns.count(column) != 1:
            raise LookupError(f"{page}, {found.heading}: not one column {column!r} among {found.columns}")
    places = [0, *map(found.columns.index, wanted)] if wanted else list(range(len(found.columns)))
    starts = [row.strip() for row in rows.split(";") if row.strip()]
    picked = []
    for row in starts or [""]:
        taken = [each for each in found.rows if " / ".join(each).startswith(row)]
        if not taken:
            raise LookupError(f"{page}, {found.heading}: no row starts with {row!r}")
        picked += taken
    shown = [[row[place] for place in places] for row in picked]
    numbers = [all(not cell or cell[0] in "-0123456789" for cell in column) for column in zip(*shown, strict=True)]
    rule = ["---", *("---:" if number else "---" for number in numbers[1:])]
    shown = [[found.columns[place] for place in places], rule, *shown]
    text = "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |") for row in shown)
    return f"{text}\n\nFrom {found.link(start)}."


def filled(page: Path) -> str:
    """The text of a page with each of its pieces made anew."""
    return PIECE.sub(
        lambda found: f"<!-- figures: {found['which']} -->\n\n{part(found['which'], page.parent)}\n\n<!-- end -->",
        page.read_text(encoding="utf-8"),
    )


def main(arguments: list[str]) -> int:
    wanted = {page: filled(page) for page in sorted((DOCS / "compare").glob("*.md"))}
    return marked.settle(wanted, "tools.figures", write="--write" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
