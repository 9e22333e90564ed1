"""What of a Board is on the screen, and what keys change about it. Pure: keys come in by name, lines go out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from roamlet.cli.top import drawing
from roamlet.cli.top.board import Board, Key, Seen
from roamlet.cli.top.columns import Column, in_columns
from roamlet.cli.top.drawing import CHOSEN, FAINT, HEADER, PLAIN, TITLE, Line
from roamlet.diagnose import render
from roamlet.diagnose.rates import Place
from roamlet.diagnose.render import safe

PROCESSES, PROCESS, PLACE, TASKLET = "processes", "process", "place", "tasklet"  # the levels, from the outside in
LEAST_ROWS = 3  # of the list that is chosen from, however small the terminal is
AROUND = 7  # lines around a table and a list: title, foot, two lines of titles, two empty ones, "and more"
LONGEST_FILTER = 60

HELP = """\
up, down, k, j   choose a row; page up, page down, home, end go further
enter            look into it: a process, a place, a tasklet's stack
esc, backspace   back out
s, r             sort by the next column; the other way round
/                show only rows that have a text; enter keeps it, esc drops it
p, space         pause: nothing is read until it is pressed again
?                this help
q, Ctrl-C        quit

RUN is the length of a thread's run queue, FDS the descriptors that its
tasklets wait for. COUNT tasklets are at a place, +/- more or fewer than at
the look before; FOR is how long the first of them has waited, or a context's
oldest call has been on its way. SWITCH/S is how often the tasklets of a
thread came to where others may run, MSG/S the values that passed through
channels. A tasklet "keeps" its thread while it lets no other one run."""


@dataclass(frozen=True)
class Row:
    """One row of a list: what tells it from the others, what it shows, and what it is sorted by."""

    key: object
    cells: Sequence[str]
    ranks: dict[str, Any]


@dataclass
class Chosen:
    """What is chosen of one list, and how it is ordered."""

    key: object = None
    index: int = 0
    top: int = 0  # the first row on the screen
    sort: int = 0
    reverse: bool = False


@dataclass
class View:
    """The state of the screen. `leave`: q was pressed. `only`: there is one process, whose level is the outermost."""

    only: Key | None = None
    level: str = PROCESSES
    process: Key | None = None
    place: tuple[str, str, str] | None = None
    tasklet: int | None = None
    filter: str = ""
    typing: bool = False
    paused: bool = False
    help: bool = False
    leave: bool = False
    lists: dict[str, Chosen] = field(default_factory=lambda: {level: Chosen() for level in SORTS})
    page: int = 10

    def __post_init__(self) -> None:
        if self.only is not None:
            self.level, self.process = PROCESS, self.only

    # ---- keys ----

    def press(self, key: str, board: Board) -> None:
        """Do what a key is for; one without a meaning does nothing."""
        if self.typing:
            self._type(key)
        elif self.help:
            self.help = False
        elif key in KEYS:
            KEYS[key](self, board)

    def _type(self, key: str) -> None:
        if key == "enter":
            self.typing = False
        elif key == "esc":
            self.typing, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable() and len(self.filter) < LONGEST_FILTER:
            self.filter += key

    def move(self, board: Board, by: int) -> None:
        """Choose a row that is so many further down."""
        chosen, rows = self.lists[self.level], self.rows(board)
        index = max(0, min(self._index(chosen, rows) + by, len(rows) - 1))
        chosen.index, chosen.key = index, rows[index].key if rows else None

    def enter(self, board: Board) -> None:
        """Look into what is chosen."""
        chosen, rows = self.lists[self.level], self.rows(board)
        if not rows:
            return
        key: Any = rows[self._index(chosen, rows)].key
        if self.level == PROCESSES:
            self.process = key
        elif self.level == PROCESS:
            self.place = key
        elif self.level == PLACE:
            self.tasklet = key
        else:
            return
        self.level = LEVELS[LEVELS.index(self.level) + 1]
        self.filter = ""
        self.lists[self.level].key, self.lists[self.level].index = None, 0

    def back(self, _: Board) -> None:
        """One level out; a filter is dropped first."""
        if self.filter:
            self.filter = ""
        elif self.level != (PROCESS if self.only is not None else PROCESSES):
            self.level = LEVELS[LEVELS.index(self.level) - 1]

    def sort(self, _: Board) -> None:
        """By the next of the columns that make sense."""
        chosen = self.lists[self.level]
        chosen.sort, chosen.reverse = (chosen.sort + 1) % len(SORTS[self.level]), False

    def turn(self, _: Board) -> None:
        self.lists[self.level].reverse = not self.lists[self.level].reverse

    def start_typing(self, _: Board) -> None:
        if self.level != TASKLET:
            self.typing = True

    def pause(self, _: Board) -> None:
        self.paused = not self.paused

    def show_help(self, _: Board) -> None:
        self.help = True

    def quit(self, _: Board) -> None:
        self.leave = True

    # ---- rows ----

    def rows(self, board: Board) -> list[Row]:
        """Those of the list at this level, sorted and filtered."""
        rows = list(self._all_rows(board))
        chosen = self.lists[self.level]
        name, descending = SORTS[self.level][chosen.sort]
        if name:
            rows.sort(key=lambda row: row.ranks[name], reverse=descending != chosen.reverse)
        elif chosen.reverse:
            rows.reverse()
        wanted = self.filter.casefold()
        return [row for row in rows if not wanted or any(wanted in cell.casefold() for cell in row.cells)]

    def _all_rows(self, board: Board) -> Iterator[Row]:
        if self.level == PROCESSES:
            for key, seen in board.seen.items():
                rates = seen.rates
                ranks: dict[str, Any] = {name: getattr(rates, attribute) or 0 for name, attribute in OF_PROCESS.items()}
                yield Row(key, drawing.process_row(key, seen), {**ranks, "host": (key[0] or "", key[1])})
            return
        seen_ = self._seen(board)
        if seen_ is None:
            return
        if self.level == PROCESS:
            for place in seen_.rates.places:
                ranks = {"count": place.count, "+/-": place.grown or 0, "for": place.longest or 0, "at": place.at}
                yield Row(place.key, drawing.place_row(place), ranks)
        elif self.level == PLACE and (found := self._place(seen_)) is not None:
            folder = seen_.history.full.folder if seen_.history.full is not None else ""
            for tasklet in found.members:
                since = tasklet.wait.since if tasklet.wait is not None else None
                yield Row(tasklet.id, drawing.tasklet_row(tasklet, folder), {"for": since or 0, "name": tasklet.name})
        elif self.level == TASKLET:
            for number, line in enumerate(self._stack(seen_)):
                yield Row(number, [line], {})

    def _seen(self, board: Board) -> Seen | None:
        return board.seen.get(self.process) if self.process is not None else None

    def _place(self, seen: Seen) -> Place | None:
        return next((place for place in seen.rates.places if place.key == self.place), None)

    def _stack(self, seen: Seen) -> list[str]:
        """The lines of `roamlet stacks --tasklet` for the one that is shown."""
        full = seen.history.full
        if full is None or self.tasklet is None:
            return []
        try:
            text = render.stacks(full, tasklet=self.tasklet)
        except LookupError:
            return [f"tasklet {self.tasklet:#x} has ended, or is in no list of its thread any more"]
        _, _, lines = text.partition("\n\n")
        return lines.splitlines()

    def _index(self, chosen: Chosen, rows: list[Row]) -> int:
        """Where the chosen row is now; where it is gone, the one in its place."""
        found = next((i for i, row in enumerate(rows) if row.key == chosen.key), chosen.index)
        return max(0, min(found, len(rows) - 1))

    # ---- the screen ----

    def lines(self, board: Board, width: int, height: int, clock: str) -> list[Line]:
        """What a terminal of this size shows: exactly `height` lines, none wider."""
        made = [(self._title(width, clock), TITLE)]
        if self.help:
            made += [(line, PLAIN) for line in HELP.splitlines()]
        else:
            above = self._above(board, width, height)
            room = max(height - len(made) - len(above) - 2, LEAST_ROWS)
            made += above[: max(height - len(made) - room - 2, 0)]
            made += self._list(board, width, room)
        made = made[: max(height - 1, 1)]
        made += [("", PLAIN)] * (height - 1 - len(made))
        if height > 1:
            made.append((self._foot(), FAINT))
        return [(safe(text)[:width], style) for text, style in made]

    def _title(self, width: int, clock: str) -> str:
        right = " PAUSED " if self.paused else ""
        left = f" roamlet top  {clock}"
        return (left.ljust(width - len(right)) + right)[:width].ljust(width)

    def _foot(self) -> str:
        if self.typing:
            return f"show only rows with: {self.filter}_"
        words = {PROCESSES: "enter process", PROCESS: "enter place", PLACE: "enter stack", TASKLET: ""}
        filtered = f" /{self.filter}" if self.filter else ""
        outermost = PROCESS if self.only is not None else PROCESSES
        parts = ["q quit", "? help", "p pause", f"/ filter{filtered}", f"s sort: {self._sorted_by()}"]
        if self.level == TASKLET:
            parts = parts[:3]
        parts += [words[self.level]] if words[self.level] else []
        parts += [] if self.level == outermost else ["esc back"]
        return "  ".join(parts)

    def _sorted_by(self) -> str:
        chosen = self.lists[self.level]
        name = SORTS[self.level][chosen.sort][0] or "as listed"
        return name + (" reversed" if chosen.reverse else "")

    def _above(self, board: Board, width: int, height: int) -> list[Line]:
        """What is above the list of the level."""
        if self.level == PROCESSES:
            lines = drawing.troubles(board)[: height // 3]
            count = sum(seen.rates.tasklets for seen in board.seen.values())
            of = f"{len(board.seen)} process{'' if len(board.seen) == 1 else 'es'}"
            return [(f"{of}, {render.plural(count, 'tasklet')}", PLAIN), *lines, ("", PLAIN)]
        seen = self._seen(board)
        if seen is None:
            return [("this process has ended, or is not found any more", drawing.ALARM)]
        if self.level == PLACE:
            where, state, waits = self.place or ("", "", "")
            return [(f"process {seen.rates.pid}, {state}, {waits}", PLAIN), (where, HEADER), ("", PLAIN)]
        if self.level == TASKLET:
            return [(f"process {seen.rates.pid}, tasklet {self.tasklet:#x}", HEADER), ("", PLAIN)]
        lines = list(drawing.head(seen, width))
        threads = [drawing.thread_row(thread) for thread in seen.rates.threads]
        contexts = [drawing.context_row(context) for context in seen.rates.contexts]
        for columns, rows, what in ((drawing.THREADS, threads, "thread"), (drawing.CONTEXTS, contexts, "context")):
            most = min(max(height // 4, 2), height - len(lines) - LEAST_ROWS - AROUND)
            if rows and most > 0:
                lines += [("", PLAIN), *drawing.table(columns, rows[:most], width)]
                if len(rows) > most:
                    lines.append((f"and {render.plural(len(rows) - most, what)} more", FAINT))
        return [*lines, ("", PLAIN)]

    def _list(self, board: Board, width: int, room: int) -> list[Line]:
        """The rows from which one is chosen, and their titles, in `room` + 1 lines; the chosen one is among them."""
        rows, chosen = self.rows(board), self.lists[self.level]
        self.page = max(room - 1, 1)
        index = self._index(chosen, rows)
        chosen.top = max(0, min(chosen.top, index, len(rows) - room))
        chosen.top = max(chosen.top, index - room + 1)
        if self.level == TASKLET:  # nothing is chosen of it: keys scroll
            chosen.top = max(0, min(index, len(rows) - room))
        shown = rows[chosen.top : chosen.top + room]
        if not rows:
            return [("no row has that text" if self.filter else "nothing to show", FAINT)]
        if self.level == TASKLET:
            return [(row.cells[0], PLAIN) for row in shown]
        titles, lines = in_columns(COLUMNS[self.level], [row.cells for row in shown], width)
        made = [(titles, HEADER)]
        for number, line in enumerate(lines, chosen.top):
            made.append((line.ljust(width), CHOSEN) if number == index else (line, PLAIN))
        return made


LEVELS = (PROCESSES, PROCESS, PLACE, TASKLET)
COLUMNS: dict[str, Sequence[Column]] = {
    PROCESSES: drawing.PROCESSES,
    PROCESS: drawing.PLACES,
    PLACE: drawing.TASKLETS,
}
# By level: names of Row.ranks, the first is what a list begins with, and whether the greatest come first. "": as it is.
SORTS: dict[str, tuple[tuple[str, bool], ...]] = {
    PROCESSES: (
        ("cpu", True),
        ("memory", True),
        ("tasklets", True),
        ("switches", True),
        ("messages", True),
        ("host", False),
    ),
    PROCESS: (("count", True), ("+/-", True), ("for", True), ("at", False)),
    PLACE: (("", False), ("for", True), ("name", False)),
    TASKLET: (("", False),),
}
OF_PROCESS = {
    "cpu": "processor",
    "memory": "memory",
    "tasklets": "tasklets",
    "switches": "switches",
    "messages": "messages",
}
FAR = 1 << 40
KEYS: dict[str, Callable[[View, Board], None]] = {
    "up": lambda view, board: view.move(board, -1),
    "k": lambda view, board: view.move(board, -1),
    "down": lambda view, board: view.move(board, 1),
    "j": lambda view, board: view.move(board, 1),
    "page up": lambda view, board: view.move(board, -view.page),
    "page down": lambda view, board: view.move(board, view.page),
    "home": lambda view, board: view.move(board, -FAR),
    "end": lambda view, board: view.move(board, FAR),
    "enter": View.enter,
    "right": View.enter,
    "esc": View.back,
    "left": View.back,
    "backspace": View.back,
    "s": View.sort,
    "r": View.turn,
    "/": View.start_typing,
    "p": View.pause,
    " ": View.pause,
    "?": View.show_help,
    "h": View.show_help,
    "q": View.quit,
}
