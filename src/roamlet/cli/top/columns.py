"""Rows as columns of a given width: what does not fit is cut in the middle, then left out by rank. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from roamlet.diagnose.render import safe, shortened

GAP = 2
CUT_TO = 12  # columns that an elastic column keeps


class Column(NamedTuple):
    """One column. Of those that may be cut (`elastic`) the widest is cut first; those of the highest `rank` are left out first.

    `cut`: makes a text that is too long as short as that.
    """

    title: str
    right: bool = False
    elastic: bool = False
    rank: int = 0
    cut: Callable[[str, int], str] = shortened


def in_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> tuple[str, list[str]]:
    """The line of titles, and one for each row. A column without content is left out; `width` None: as wide as it has to be."""
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [max((len(row[index]) for row in cells), default=0) for index in range(len(columns))]
    widths = [max(wide, len(column.title)) if wide else 0 for wide, column in zip(widths, columns, strict=True)]
    if width is not None:
        _fit(columns, widths, width)
    return (
        _line(columns, [column.title for column in columns], widths, width),
        [_line(columns, row, widths, width) for row in cells],
    )


def _fit(columns: Sequence[Column], widths: list[int], width: int) -> None:
    while (over := sum(widths) + GAP * (sum(1 for w in widths if w) - 1) - width) > 0:
        able = [i for i, column in enumerate(columns) if column.elastic and widths[i] > CUT_TO]
        if able:
            widest = max(able, key=lambda i: widths[i])
            others = [widths[i] for i in able if i != widest]
            widths[widest] = max(widths[widest] - over, min(max(others, default=CUT_TO), widths[widest] - 1), CUT_TO)
            continue
        left = [i for i, wide in enumerate(widths) if wide and columns[i].rank]
        if not left:
            return  # the rest is cut at the edge
        widths[max(left, key=lambda i: columns[i].rank)] = 0


def _line(columns: Sequence[Column], cells: Sequence[str], widths: list[int], width: int | None) -> str:
    parts = []
    for column, cell, wide in zip(columns, cells, widths, strict=True):
        if wide:
            text = cell if len(cell) <= wide else column.cut(cell, wide)
            parts.append(text.rjust(wide) if column.right else text.ljust(wide))
    return (" " * GAP).join(parts).rstrip()[:width]
