"""What is drawn of the figures of gil.py and server.py: from plain data to the panels of a plot. Pure."""

from typing import Any

from roamlet_bench import gil, server
from roamlet_bench.plot import Panel
from roamlet_bench.variants import compact

Bar = tuple[str, int, float, str]


def bars(rows: list[dict[str, Any]], figure: str) -> list[Bar]:
    """A bar for each variant that has the figure, always in the same colour."""
    return [
        (row["variant"]["title"], position, row[figure]["value"], compact(row[figure]["value"]))
        for position, row in enumerate(rows)
        if figure in row
    ]


def gil_panels(taken: dict[str, Any]) -> list[Panel]:
    """The pairs alone, and beside a CPU-bound thread."""
    return [
        Panel(title, [(name, bars(taken["rows"], pair + beside)) for pair, name in gil.PAIRS.items()])
        for title, beside in (
            ("Hand-overs a second, alone", ""),
            ("Hand-overs a second beside a CPU-bound thread", gil.BESIDE),
        )
    ]


def server_panels(taken: dict[str, Any]) -> list[Panel]:
    """One for each number of connections, alone and beside a CPU-bound thread."""
    return [
        Panel(f"Requests a second, c={count}{words}", [("", bars(taken["rows"], f"{count}{beside}"))])
        for count in taken["connections"]
        for words, beside in ((", alone", ""), (", beside a CPU-bound thread", server.BESIDE))
    ]
