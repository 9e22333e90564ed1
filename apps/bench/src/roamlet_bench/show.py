"""A table of figures, and how it is shown: rich on a terminal, plain text in a pipe, Markdown in the reference docs."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

NONE = "-"
STOCK = "nothing"  # what an unchanged program runs under where roamlet is not there


@dataclass
class Table:
    """A title, the heads of the columns, rows of equal length, and notes to be read with it. First column left, others right."""

    title: str
    heads: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: Sequence[str] = ()


def number(value: float | None, digits: int = 1) -> str:
    if value is None:
        return NONE
    return f"{value:,.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"


def show(table: Table, out: TextIO | None = None) -> None:
    """Print one table: with rich on a terminal, if rich is installed, else plain. Default: stdout."""
    out = out or sys.stdout
    if out.isatty():
        try:
            from rich.console import Console  # here: a plain run needs no rich
            from rich.table import Table as RichTable
        except ImportError:
            pass
        else:
            shown = RichTable(title=table.title, title_justify="left", title_style="bold")
            for position, head in enumerate(table.heads):
                shown.add_column(head, justify="right" if position else "left", no_wrap=True)
            for row in table.rows:
                shown.add_row(*row, style="bold red" if row[-1] == "MISSED" else None)
            console = Console(file=out, highlight=False)
            # Where there is no room for the lines between the columns, there is for the figures: rich would shorten them.
            if sum(widths(table)) + 3 * len(table.heads) + 1 <= console.width:
                console.print(shown, *table.notes, "", sep="\n")
                return
    print(plain(table), file=out)


def widths(table: Table) -> list[int]:
    """Of each column, that of its widest cell."""
    return [max(len(row[column]) for row in [table.heads, *table.rows]) for column in range(len(table.heads))]


def plain(table: Table) -> str:
    """Columns of text, as wide as their widest cell."""

    def line(cells: list[str]) -> str:
        first, *rest = [
            cell.rjust(width) if position else cell.ljust(width)
            for position, (cell, width) in enumerate(zip(cells, widths(table), strict=True))
        ]
        return "  ".join([first, *rest]).rstrip()

    return "\n".join(
        [
            table.title,
            *(f"  {line(list(row))}" for row in [table.heads, *table.rows]),
            *(f"  {note}" for note in table.notes),
            "",
        ]
    )


def markdown(table: Table) -> str:
    """A Markdown table under its title, notes below."""
    ruler = ["---", *(["---:"] * (len(table.heads) - 1))]
    rows = ["| " + " | ".join(cells) + " |" for cells in [table.heads, ruler, *table.rows]]
    return "\n".join([f"## {table.title}", "", *rows, "", *(f"{note}\n" for note in table.notes)])
