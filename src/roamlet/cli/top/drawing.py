"""The parts of what `roamlet top` shows, as lines of text with a style: a process and its tables. Pure."""

from collections.abc import Iterable, Sequence

from roamlet.cli.top.board import Board, Key, Seen
from roamlet.cli.top.columns import Column, in_columns
from roamlet.diagnose.model import Tasklet
from roamlet.diagnose.rates import ContextRates, Place, Rates, ThreadRates
from roamlet.diagnose.render import duration, place_of, plural, safe, shortened, waits_for

UNLIMITED = 1 << 20  # columns
WORTH_A_LINE = 1.5  # seconds between two looks at tasklets

Line = tuple[str, str]  # the text, and the style that rich knows it by
PLAIN, TITLE, HEADER, FAINT, WARNING, ALARM, CHOSEN = "", "reverse", "bold", "dim", "yellow", "bold red", "reverse"


def without_folders(place: str, width: int) -> str:
    """A place, "function() at folder/file:line", without folders where it is too long, and then cut."""
    function, at, file = place.partition(" at ")
    return shortened(f"{function}{at}{file.rpartition('/')[2]}", width)


THREADS = (
    Column("THREAD", elastic=True),
    Column("STATE", rank=4),
    Column("CPU %", right=True, rank=2),
    Column("RUN", right=True),
    Column("TASKLETS", right=True),
    Column("SWITCH/S", right=True, rank=1),
    Column("MSG/S", right=True, rank=3),
    Column("TIMERS", right=True, rank=5),
    Column("FDS", right=True, rank=6),
)
CONTEXTS = (
    Column("CONTEXT", elastic=True),
    Column("STATE", rank=6),
    Column("CALLS", right=True),
    Column("FOR", right=True, rank=5),
    Column("CALL/S", right=True, rank=2),
    Column("TRIP/S", right=True, rank=4),
    Column("RTT", right=True, rank=7),
    Column("DOWN/S", right=True, rank=1),
    Column("UP/S", right=True, rank=3),
)
PLACES = (
    Column("COUNT", right=True),
    Column("+/-", right=True, rank=3),
    Column("STATE", rank=2),
    Column("FOR", right=True, rank=4),
    Column("WAITS FOR", elastic=True, rank=1),
    Column("AT", elastic=True, cut=without_folders),
)
PROCESSES = (
    Column("HOST", elastic=True),
    Column("PID", right=True),
    Column("CPU %", right=True),
    Column("MEMORY", right=True, rank=4),
    Column("TASKLETS", right=True),
    Column("RUN", right=True, rank=3),
    Column("SWITCH/S", right=True, rank=1),
    Column("MSG/S", right=True, rank=2),
    Column("COMMAND", elastic=True),
)
TASKLETS = (
    Column("TASKLET"),
    Column("NAME", elastic=True, rank=2),
    Column("STATE", rank=1),
    Column("FOR", right=True, rank=3),
    Column("WAITS FOR", elastic=True),
    Column("AT", elastic=True, rank=4, cut=without_folders),
)


# ---- numbers ----


def rate(number: float | None) -> str:
    """A number a second, in at most seven characters; "" for one that is not known yet."""
    if number is None:
        return ""
    for limit, unit, word in ((99_999.5, 1, ""), (9_999_500, 1e3, "k"), (1e13, 1e6, "M")):
        if number < limit:
            return f"{number / unit:,.0f}{word}"
    return f"{number:.0e}"


def percent(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


def size(number: float | None) -> str:
    """Bytes: "34.2 MB"."""
    if number is None:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 99.95 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def changed(number: int | None) -> str:
    """A change of a count: "+12"; "" for none."""
    return f"{number:+,}" if number else ""


# ---- rows, each with what tells it from others ----


def thread_row(thread: ThreadRates) -> list[str]:
    name = f"{thread.name} (roamlet's own)" if thread.service else thread.name
    counts = ["" if n is None else f"{n:,}" for n in (thread.runnable, thread.tasklets)]
    waits = ["" if n is None else f"{n:,}" for n in (thread.timers, thread.descriptors)]
    rates = [rate(thread.switches), rate(thread.messages)]
    return [name, thread.state or "", percent(thread.processor), *counts, *rates, *waits]


def context_row(context: ContextRates) -> list[str]:
    name = f"parent {context.name}" if context.parent else context.name
    rates = [rate(context.calls), rate(context.round_trips), duration(context.round_trip)]
    sizes = [size(context.down), size(context.up)]
    return [name, context.state or "", f"{context.in_flight:,}", duration(context.longest), *rates, *sizes]


def place_row(place: Place) -> list[str]:
    longest = duration(place.longest)
    return [f"{place.count:,}", changed(place.grown), place.state, longest, place.waits, _at(place)]


def _at(place: Place) -> str:
    """Where it is; where that is not seen, which tasklets are there."""
    return place.at or ", ".join(place.names)


def process_row(key: Key, seen: Seen) -> list[str]:
    rates = seen.rates
    return [
        key[0] or "",
        str(key[1]),
        percent(rates.processor),
        size(rates.memory),
        f"{rates.tasklets:,}",
        f"{rates.runnable:,}",
        rate(rates.switches),
        rate(rates.messages),
        rates.command,
    ]


def tasklet_row(tasklet: Tasklet, folder: str) -> list[str]:
    wait = tasklet.wait
    since = duration(wait.since) if wait is not None else ""
    return [f"{tasklet.id:#x}", tasklet.name, tasklet.state, since, waits_for(wait), place_of(tasklet, folder)]


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[Line]:
    """The titles and the rows."""
    titles, lines = in_columns(columns, rows, width)
    return [(titles, HEADER), *((line, PLAIN) for line in lines)]


# ---- a process ----


def head(seen: Seen, width: int | None = None) -> Iterable[Line]:
    """What a process is and does, in some lines, with what an operator should see first. `width`: columns that there are."""
    rates = seen.rates
    where = f"{rates.host}: " if rates.host else ""
    yield f"{where}process {rates.pid} on Python {rates.python}, {rates.backend}: {rates.command}", HEADER
    numbers = [f"CPU {percent(rates.processor)} %" if rates.processor is not None else "", size(rates.memory)]
    numbers += [plural(len(rates.threads), "thread"), plural(rates.tasklets, "tasklet"), f"{rates.runnable:,} runnable"]
    yield ", ".join(word for word in numbers if word), PLAIN
    counts = [f"{rate(number)} {word}/s" for number, word in _flows(rates) if number is not None]
    counts += [plural(rates.timers, "timer")] if rates.timers else []
    counts += [plural(rates.descriptors, "descriptor") + " waited for"] if rates.descriptors else []
    if counts:
        yield ", ".join(counts), PLAIN
    if seen.ended is not None:
        yield f"no more to see: {seen.ended}", ALARM
    for cycle in rates.cycles:
        first, *steps = cycle.split("\n")
        yield f"DEADLOCK: {first}", ALARM
        yield from ((step, PLAIN) for step in steps)
    keeps = rates.keeps
    if keeps is not None:
        text = f"{keeps.name} ({keeps.tasklet:#x}) has kept {keeps.thread} for {duration(keeps.seconds)} or longer"
        room = max((width or UNLIMITED) - len(text) - len(" in "), 0)
        at = keeps.at if len(keeps.at) <= room else without_folders(keeps.at, room)
        yield f"{text} in {at}" if at else text, WARNING
    yield from _how(seen)
    yield from ((f"not read: {problem}", WARNING) for problem in rates.problems)


def _flows(rates: Rates) -> Iterable[tuple[float | None, str]]:
    yield rates.switches, "switches"
    yield rates.messages, "messages"


def _how(seen: Seen) -> Iterable[Line]:
    """How old what is shown of tasklets is, where that is worth a line, and why."""
    stopped = f"a look stops it for {seen.rates.stopped * 1e3:.1f} ms" if seen.rates.stopped else ""
    if seen.pause > WORTH_A_LINE:
        why = stopped or "a look takes long"
        yield f"tasklets: {duration(seen.rates.age)} old, looked at every {duration(seen.pause)}, as {why}", FAINT
    elif stopped:
        yield stopped, FAINT


def whole(seen: Seen, width: int | None) -> list[Line]:
    """All of a process: for --once."""
    rates = seen.rates
    lines = list(head(seen, width))
    for columns, rows in (
        (THREADS, [thread_row(thread) for thread in rates.threads]),
        (CONTEXTS, [context_row(context) for context in rates.contexts]),
        (PLACES, [place_row(place) for place in rates.places]),
    ):
        if rows:
            lines += [("", PLAIN), *table(columns, rows, width)]
    return [(safe(text), style) for text, style in lines]


def troubles(board: Board) -> list[Line]:
    """Processes and hosts of which nothing is seen, a line each."""
    lines = [(f"host {name}: {why}", ALARM) for name, why in board.hosts.items()]
    if board.connecting:
        lines.append((f"connecting to {', '.join(sorted(board.connecting))}", FAINT))
    for (host, pid), why in board.refused.items():
        where = f"{host}: " if host else ""
        lines.append((f"{where}{why if str(pid) in why else f'process {pid}: {why}'}", WARNING))
    return [(safe(text), style) for text, style in lines]
