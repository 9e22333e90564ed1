"""The picture of servers on the front page: of the table in docs/reference/threads-and-io.md, drawn in docs/server.svg.

python -m tools.front_picture --write      without it: names the file when it is not what the table says
"""

import sys
from pathlib import Path

from roamlet_bench.plot import SVG
from tools.marked import settle

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/reference/threads-and-io.md"
PICTURE = ROOT / "docs/server.svg"
TITLE = "Requests a second, 10 connections, beside a thread that computes"
NAMES = ("threads", "gevent", "asyncio", "uvloop", "roamlet")
WIDTH, ROW, LABEL = 640, 26, 90


def figures(page: str) -> dict[str, str]:
    """{server: its requests a second as the table has them}, with the interpreter's usual switch interval."""
    found = {}
    head: list[str] = []
    for line in page.partition("## Server: requests a second")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "" and "c=10, beside" in cells:
            head = cells
        elif head and len(cells) == len(head):
            row = dict(zip(head, cells, strict=True))
            if row["interval"] == "5 ms" and row["under"] in "-nothing" and row["responsive"] in ("-", "off"):
                found.setdefault(row[""], row["c=10, beside"])
    return found


def drawn(values: dict[str, str]) -> str:
    """The picture: a bar for each server, all of one scale."""
    sizes = {name: float(text.rstrip("k+")) * (1000 if "k" in text else 1) for name, text in values.items()}
    picture = SVG(WIDTH, 40 + ROW * len(NAMES) + 8)
    picture.text(12, 12, TITLE, 14)
    for number, name in enumerate(NAMES):
        top = 40 + number * ROW
        width = max(2.0, (WIDTH - LABEL - 70) * sizes[name] / max(sizes[each] for each in NAMES))
        picture.text(LABEL - 8, top + 3, name, 13, "end")
        picture.bar(LABEL, top, width, ROW - 8, "#0f766e" if name == "roamlet" else "#94a3b8")
        picture.text(LABEL + width + 6, top + 3, f"{sizes[name]:,.0f}", 13)
    return picture.content()


def main() -> int:
    wanted = {PICTURE: drawn(figures(TABLE.read_text(encoding="utf-8")))}
    return settle(wanted, "tools.front_picture", write="--write" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
