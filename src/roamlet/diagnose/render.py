"""A model.Process as text: a table like that of ps, a tree like that of pstree, stacks with equal ones grouped and counted, JSON.

Pure: nothing is looked up. Tasklets that differ in nothing but their object are one row with a count, unless `each` is set; cycles
of waiting come first in every text. `width` is that of the terminal in columns, None for no limit. Where rows of a table are
longer, what the tasklet waits for and where it is come on lines of their own. Lines of a table and branches of a tree that are
longer still are cut, other lines are not. Names that come from the process are shown so that a terminal obeys nothing in them.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from roamlet.diagnose.model import (
    BLOCKED,
    RECEIVE,
    RUNNING,
    SELECT,
    SEND,
    TIMER,
    Context,
    Frame,
    Process,
    Scheduler,
    Stack,
    Tasklet,
    Thread,
    Wait,
    groups_of,
)

NARROWEST = 40  # columns: a narrower terminal gets this
OVERDUE = -0.1  # seconds: a timer that is later than a busy thread is late
SHOWN = 5  # ids, wakers or calls of one row, before "and N more"
_OF_TASKLET = attrgetter("name", "state", "parent", "main", "atomic")
_OF_WAIT = attrgetter("kind", "on", "host", "function", "owner", "buffer")
SHORTEST = 8  # columns that a cell keeps, however narrow the terminal is


def table(process: Process, *, width: int | None = None, each: bool = False) -> str:
    """A row for each tasklet, or for each group of equal ones, under a line for its thread; then the contexts."""
    return _text(process, _table(process, width, each))


def tree(process: Process, *, width: int | None = None, each: bool = False) -> str:
    """Threads, below each its tasklets, below those what was spawned in their scopes, and asyncio's tasks; contexts with calls."""
    if width is None:
        return _text(process, _tree(process, each))
    limit = max(width, NARROWEST)
    return _text(process, (shortened(safe(line), limit) for line in _tree(process, each, limit)))


def stacks(process: Process, *, each: bool = False, tasklet: int | None = None) -> str:
    """Each stack once, the innermost call first, with the tasklets that have it and what they wait for.

    `tasklet`: the id of one; LookupError when the process has no such tasklet.
    """
    return _text(process, _stacks(process, each, tasklet))


def as_json(process: Process, *, indent: int | None = None) -> str:
    """What model.Process.from_json(json.loads(...)) makes a Process of again."""
    return json.dumps(process.to_json(), indent=indent)


def summary(process: Process) -> str:
    """One line: which process, and how much is in it."""
    count = sum(len(thread.scheduler.tasklets) for thread in process.threads if thread.scheduler is not None)
    parts = [f"process {process.pid}"]
    if process.command:
        parts[0] += f" ({process.command})"
    if process.python:
        parts.append(f"Python {process.python}")
    if process.roamlet:
        parts.append(f"roamlet {process.roamlet}" + (f" on {process.backend}" if process.backend else ""))
    parts += [plural(len(process.threads), "thread"), plural(count, "tasklet")]
    if process.contexts:
        parts.append(plural(len(process.contexts), "context"))
    return safe(", ".join(parts))


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """Seconds in two or three digits: "350 ms", "12.3 s", "5 min", "2.1 h", "3.5 d"; "" for None."""
    if seconds is None:
        return ""
    for limit, unit, word in ((1.0, 0.001, "ms"), (100.0, 1.0, "s"), (6000.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if abs(seconds) < limit:
            value = seconds / unit
            return f"{value:.1f} {word}" if word != "ms" and abs(value) < 100 else f"{value:.0f} {word}"
    return f"{seconds / 86400:.1f} d"


def safe(text: str) -> str:
    """The text on one line, with what a terminal would obey as escapes."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def shortened(text: str, width: int) -> str:
    """The text in at most `width` columns: what is in the middle is left out."""
    if len(text) <= width:
        return text
    if width <= 1:
        return text[:width]
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"


def place(frame: Frame, width: int | None = None) -> str:
    """Where a call is, "function() at file:line". In fewer columns than that needs, the folders of the file are left out first."""
    line = frame.line if frame.line is not None else "?"
    text = f"{frame.function}() at {frame.file}:{line}"
    if width is None or len(text) <= width:
        return text
    tail = f"{frame.file.rsplit('/', 1)[-1]}:{line}"
    text = f"{frame.function}() at {tail}"
    if len(text) <= width or len(tail) + SHORTEST > width:
        return shortened(text, width)
    return f"{shortened(frame.function, width - len(tail) - 1)} {tail}"


def of_program(frames: Stack, folder: str) -> Frame | None:
    """The innermost frame that is not roamlet's own, whose files are in this folder; else the innermost one."""
    if not frames:
        return None
    return next((frame for frame in frames if not folder or not frame.file.startswith(folder)), frames[0])


def place_of(tasklet: Tasklet, folder: str, width: int | None = None) -> str:
    """Where a tasklet is, in code of the program: see of_program(); "" without a frame."""
    frame = of_program(tasklet.frames, folder)
    return place(frame, width) if frame is not None else ""


def waits_for(wait: Wait | None) -> str:
    """What a tasklet waits for, in words, with its time limit and the holder of a lock."""
    if wait is None:
        return ""
    text = wait.text
    if wait.due is not None:
        if wait.due < OVERDUE:
            text += f", overdue for {duration(-wait.due)}"
        elif wait.kind == TIMER:
            text += f" in {duration(max(wait.due, 0.0))}"
        else:
            text += f", for {duration(max(wait.due, 0.0))} more"
    if wait.owner is not None:
        text += f", held by {wait.owner:#x}"
    return text


def _until(due: float) -> str:
    return f"overdue for {duration(-due)}" if due < OVERDUE else f"in {duration(max(due, 0.0))}"


def group(tasklets: Iterable[Tasklet], key: Callable[[Tasklet], object]) -> list[list[Tasklet]]:
    """The tasklets with an equal key together, in the order in which the first of each appears."""
    groups: dict[object, list[Tasklet]] = {}
    for tasklet in tasklets:
        groups.setdefault(key(tasklet), []).append(tasklet)
    return list(groups.values())


def _group_alike(tasklets: Iterable[Tasklet], key: Callable[[Tasklet], object]) -> list[list[Tasklet]]:
    """group() for a key that looks at nothing which is of one tasklet alone, nor at the address or the times of its wait.

    A hundred thousand share few stacks and waits: comparing what is quick to compare first asks for few keys.
    """
    groups: dict[object, list[Tasklet]] = {}
    same: dict[object, list[Tasklet]] = {}
    for t in tasklets:
        wait = t.wait
        part = _OF_TASKLET(t), None if wait is None else _OF_WAIT(wait), id(t.frames), id(t.tasks)
        found = same.get(part)
        if found is None:
            found = same[part] = groups.setdefault(key(t), [])
        found.append(t)
    return list(groups.values())


def alike(tasklet: Tasklet) -> object:
    """What tasklets of one row have in common. Those that wait at different channels for the same thing are alike."""
    wait = tasklet.wait
    at = None if wait is None else _OF_WAIT(wait)
    return (
        tasklet.main,
        tasklet.name,
        tasklet.state,
        at,
        tasklet.frames,
        tasklet.parent,
        bool(tasklet.tasks),
        tasklet.atomic > 0,
    )


# ---- pieces that all texts have ----


def _text(process: Process, lines: Iterable[str]) -> str:
    everything = [
        summary(process),
        *_held_up(process),
        *_cycles(process),
        *lines,
        *(f"not read: {problem}" for problem in process.problems),
    ]
    return "\n".join(map(safe, everything)) + "\n"


def _cycles(process: Process) -> Iterator[str]:
    for cycle in process.cycles:
        head, *steps = cycle.text.split("\n")
        yield f"DEADLOCK: {head}"
        yield from steps


def _held_up(process: Process) -> Iterator[str]:
    """Of a thread that keeps the GIL in its sleep: nothing else of the process can say what is wrong with it."""
    for thread in process.threads:
        if thread.holds_gil and thread.state == "sleeping":
            running = (
                [t for t in thread.scheduler.tasklets if t.state == RUNNING] if thread.scheduler is not None else []
            )
            where = "".join(f": {t.name} ({t.id:#x}) in {place_of(t, process.folder)}" for t in running[:1])
            yield f"HELD UP: a call in C sleeps with the GIL, and no Python code of the process runs until it ends{where}"


def _thread_line(thread: Thread, width: int | None = None) -> str:
    """Which thread, and what it does. In fewer columns than that needs, its state is kept: its number in memory goes first, then
    the end of the line.
    """
    words = [f"thread {thread.name or 'without a name'}"]
    words.append(f"({', '.join(_ids(thread))})")
    if thread.service:
        words.append("of roamlet's own")
    doing = ", ".join(_doing(thread))
    text = safe(" ".join(words) + ": " + doing)
    if width is None or len(text) <= width:
        return text
    if thread.native_id is not None:
        words[1] = f"({thread.native_id})"
    text = safe(" ".join(words) + ": " + doing)
    return text if len(text) <= width else text[: width - 1] + "…"


def _ids(thread: Thread) -> Iterator[str]:
    if thread.native_id is not None:
        yield str(thread.native_id)
    yield f"{thread.id:#x}"


def _doing(thread: Thread) -> Iterator[str]:
    scheduler = thread.scheduler
    if thread.state is not None:
        yield thread.state
    if thread.holds_gil:
        yield "holds the GIL"
    if scheduler is None:
        yield "no tasklets"
        return
    yield "waits in its hub" if scheduler.idle else f"{scheduler.runnable:,} runnable"
    yield plural(len(scheduler.tasklets), "tasklet")
    if scheduler.timers:
        yield f"{plural(scheduler.timers, 'timer')}, the next {_until(scheduler.next_timer or 0.0)}"
    if scheduler.descriptors:
        yield plural(scheduler.descriptors, "descriptor")


def _state(tasklet: Tasklet) -> str:
    return tasklet.state + (", atomic" if tasklet.atomic else "") + (", preempted" if tasklet.preempted else "")


def _context_lines(context: Context, names: dict[int, str]) -> Iterator[str]:
    words = [f"context {context.name}"]
    if context.parent:
        words[0] = f"parent {context.name}"
    details = [
        context.state or "",
        f"pid {context.process}" if context.process else "",
        f"Python {context.python}" if context.python else "",
    ]
    details.append(f"behind {context.via}" if context.via else "")
    details.append(f"round trip {duration(context.round_trip)}" if context.round_trip is not None else "")
    details.append(plural(len(context.calls), "call") + " in flight" if context.calls else "no call in flight")
    if context.bytes_down is not None and context.bytes_up is not None:
        details.append(f"{context.bytes_down:,} bytes down, {context.bytes_up:,} up")
    yield " ".join(words) + ": " + ", ".join(detail for detail in details if detail)
    for call in context.calls[:SHOWN]:
        since = f", for {duration(call.since)}" if call.since is not None else ""
        waiting = f", {names.get(call.tasklet, '')} ({call.tasklet:#x}) waits" if call.tasklet is not None else ""
        yield f"  call of {call.function}{since}{waiting}"
    if len(context.calls) > SHOWN:
        yield f"  and {len(context.calls) - SHOWN:,} more"


def _names(process: Process) -> dict[int, str]:
    return (
        {tasklet.id: tasklet.name for _, tasklet in process.tasklets()}
        if any(c.calls for c in process.contexts)
        else {}
    )


def _rows(scheduler: Scheduler, each: bool) -> list[tuple[list[Tasklet], int]]:
    """For each row of the table how many tasklets it is for, and those: of several that differ in their ids alone the first."""
    if each:
        return [([tasklet], 1) for tasklet in scheduler.tasklets]
    groups = groups_of(scheduler.tasklets)
    counts = {group.first.id: group.size for group in groups}
    rows = _group_alike((group.first for group in groups), alike)
    return [(tasklets, sum(counts[tasklet.id] for tasklet in tasklets)) for tasklets in rows]


def _longest_wait(tasklets: Sequence[Tasklet]) -> float | None:
    return max((t.wait.since for t in tasklets if t.wait is not None and t.wait.since is not None), default=None)


def _common_wait(tasklets: Sequence[Tasklet], count: int) -> str:
    """What all of a group of so many wait for; without the address where they wait at different ones."""
    first = tasklets[0].wait
    if first is None or count == 1:
        return waits_for(first)
    waits = list({id(tasklet.wait): tasklet.wait for tasklet in tasklets if tasklet.wait is not None}.values())
    dues = [wait.due for wait in waits if wait.due is not None]
    places = {wait.address for wait in waits}
    text = first.text
    if len(places) > 1 and first.address:
        text = text.replace(f" {first.address:#x}", "") + f" ({len(places):,} of them)"
    elif len({wait.text for wait in waits}) > 1 and first.kind not in (SEND, RECEIVE, SELECT):
        text = (
            f"{first.kind} of {len({wait.text for wait in waits}):,} descriptors"
            if first.descriptor is not None
            else text
        )
    if dues:
        text += f", the first {_until(min(dues))}"
    owners = {wait.owner for wait in waits}
    if first.owner is not None:
        text += f", held by {first.owner:#x}" if len(owners) == 1 else f", held by {len(owners):,} tasklets"
    return text


# ---- the table ----

COLUMNS = ("TASKLET", "COUNT", "NAME", "STATE", "FOR", "WAITS FOR", "AT")
_RIGHT = {1, 4}
_NAME, _WAITS, _AT = 2, 5, 6
_BELOW = {
    _WAITS: "waits for ",
    _AT: "in ",
}  # what has a line of its own below the row, where the terminal is too narrow
_INDENT = " " * 6  # of such a line


def _table(process: Process, width: int | None, each: bool) -> Iterator[str]:
    blocks = [
        (thread, _rows(thread.scheduler, each) if thread.scheduler is not None and (each or not thread.service) else [])
        for thread in process.threads
    ]
    folder = process.folder
    cells = [[(tasklets[0], _cells(tasklets, count, folder)) for tasklets, count in rows] for _, rows in blocks]
    limit = None if width is None else max(width, NARROWEST)
    widths, below = _widths([each_row for rows in cells for each_row in rows], folder, limit)
    for (thread, _), rows in zip(blocks, cells, strict=True):
        yield ""
        yield _thread_line(thread, limit)
        if rows:
            yield _row(COLUMNS, widths)[:limit]
        for first, row in rows:
            at = row[_AT] if _AT in below else place_of(first, folder, widths[_AT])
            yield _row((*row[:_AT], at), widths)[:limit]
            for index in below:
                if row[index] and limit is not None:
                    room = limit - len(_INDENT) - len(_BELOW[index])
                    text = place_of(first, folder, room) if index == _AT else shortened(safe(row[index]), room)
                    yield f"{_INDENT}{_BELOW[index]}{shortened(safe(text), room)}"
        if not rows and thread.frames:
            yield f"  in {place(thread.frames[0])}"
    names = _names(process)
    for context in process.contexts:
        yield ""
        yield from _context_lines(context, names)


def _cells(tasklets: Sequence[Tasklet], count: int, folder: str) -> tuple[str, ...]:
    first, number = tasklets[0], f"{count:,}" if count > 1 else ""
    since, wait = duration(_longest_wait(tasklets)), _common_wait(tasklets, count)
    return (f"{first.id:#x}", number, first.name, _state(first), since, wait, place_of(first, folder))


def _widths(
    rows: list[tuple[Tasklet, tuple[str, ...]]], folder: str, limit: int | None
) -> tuple[list[int], tuple[int, ...]]:
    """The width of each column, 0 for one that has no content or goes below its row; and the columns that go there.

    A place is shown without the folders of its file before a column goes below. `rows`: the first tasklet of each, and its cells.
    """
    widths = []
    for index, title in enumerate(COLUMNS):
        longest = max((len(safe(row[index])) for _, row in rows), default=0)
        widths.append(max(longest, len(title)) if longest else 0)
    if limit is None:
        return widths, ()
    over = _wide(widths) - limit
    if over > 0:
        shortest = max((_least(frame) for frame in {of_program(t.frames, folder) for t, _ in rows}), default=0)
        widths[_AT] = max(widths[_AT] - over, min(shortest, widths[_AT]))
    below: list[int] = []
    for index in (_AT, _WAITS):
        if _wide(widths) > limit and widths[index]:
            widths[index] = 0
            below.insert(0, index)
    widths[_NAME] = max(widths[_NAME] - max(_wide(widths) - limit, 0), min(SHORTEST, widths[_NAME]))
    return widths, tuple(below)


def _least(frame: Frame | None) -> int:
    """The columns of a place without the folders of its file."""
    if frame is None:
        return 0
    bare = Frame(frame.function, frame.file.rsplit("/", 1)[-1], frame.line)
    return len(safe(place(bare)))


def _wide(widths: list[int]) -> int:
    return sum(widths) + 2 * sum(1 for width in widths if width)


def _row(cells: Sequence[str], widths: list[int]) -> str:
    parts = []
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if width:
            text = shortened(safe(cell), width)
            parts.append(text.rjust(width) if index in _RIGHT else text.ljust(width))
    return ("  " + "  ".join(parts)).rstrip()


# ---- the tree ----


def _tree(process: Process, each: bool, limit: int | None = None) -> Iterator[str]:
    room = None if limit is None else limit - len("├─ ")
    names = _names(process)
    roots: list[tuple[str, list[str]]] = []
    roots += [(_thread_line(thread, room), list(_branches(thread, each, process.folder))) for thread in process.threads]
    for context in process.contexts:
        head, *calls = _context_lines(context, names)
        branches = [f"{'├─' if n < len(calls) - 1 else '└─'} {call.strip()}" for n, call in enumerate(calls)]
        roots.append((head, branches))
    for number, (head, below) in enumerate(roots):
        last = number == len(roots) - 1
        yield f"{'└─' if last else '├─'} {head}"
        yield from (f"{'   ' if last else '│  '}{line}" for line in below)


def _branches(thread: Thread, each: bool, folder: str) -> Iterator[str]:
    if thread.scheduler is None:
        if thread.frames:
            yield f"└─ {place(thread.frames[0])}"
        return
    known = {tasklet.id for tasklet in thread.scheduler.tasklets}
    below: dict[int | None, list[Tasklet]] = {}
    for tasklet in thread.scheduler.tasklets:
        below.setdefault(
            tasklet.parent if tasklet.parent in known and tasklet.parent != tasklet.id else None, []
        ).append(tasklet)
    # A stack of our own: scopes may be nested deeper than Python's recursion limit.
    pending = _level(below.pop(None, []), below, each, "")
    while pending:
        prefix, last, tasklets = pending.pop()
        head = tasklets[0]
        tasks = head.tasks if len(tasklets) == 1 else ()
        yield f"{prefix}{'└─' if last else '├─'} {_branch(tasklets, folder)}"
        inner = prefix + ("   " if last else "│  ")
        more = below.pop(head.id, []) if len(tasklets) == 1 else []
        for number, task in enumerate(tasks):
            end = number == len(tasks) - 1 and not more
            awaits = f", awaits {task.awaits}" if task.awaits else ""
            at = f" in {place(task.frames[0])}" if task.frames else ""
            yield f"{inner}{'└─' if end else '├─'} task {task.name} {task.coroutine}: {task.state}{awaits}{at}"
        pending += _level(more, below, each, inner)
    if below:  # those whose parents are each other's: damaged data
        rest = [tasklet for tasklets in below.values() for tasklet in tasklets]
        yield from (f"└─ {_branch([tasklet], folder)}" for tasklet in rest)


def _level(
    tasklets: list[Tasklet], below: dict[int | None, list[Tasklet]], each: bool, prefix: str
) -> list[tuple[str, bool, list[Tasklet]]]:
    """The groups of one level, the last first. Tasklets with others below them are in no group."""
    alone = [t for t in tasklets if each or t.id in below or t.tasks]
    whole = (
        group(tasklets, lambda t: t.id if each or t.id in below or t.tasks else alike(t))
        if alone
        else _group_alike(tasklets, alike)
    )
    return [(prefix, number == len(whole) - 1, each_group) for number, each_group in enumerate(whole)][::-1]


def _branch(tasklets: list[Tasklet], folder: str) -> str:
    first = tasklets[0]
    count = f"{len(tasklets):,} × " if len(tasklets) > 1 else ""
    at = f" in {place_of(first, folder)}" if first.frames else ""
    scope = f" [{first.scope}]" if first.scope else ""
    return f"{count}{first.name} ({first.id:#x}){scope}: {_doing_now(tasklets)}{at}"


def _doing_now(tasklets: list[Tasklet]) -> str:
    first = tasklets[0]
    since = duration(_longest_wait(tasklets))
    if first.state != BLOCKED:
        return _state(first)
    return f"{_state(first)}{f' for {since}' if since else ''}, {_common_wait(tasklets, len(tasklets)) or 'for an unknown reason'}"


# ---- stacks ----


def _stacks(process: Process, each: bool, wanted: int | None) -> Iterator[str]:
    found = wanted is None
    for thread in process.threads:
        tasklets = thread.scheduler.tasklets if thread.scheduler is not None else []
        if wanted is not None:
            tasklets = [tasklet for tasklet in tasklets if tasklet.id == wanted]
            if not tasklets:
                continue
        found = True
        yield ""
        yield _thread_line(thread)
        if thread.scheduler is None or (thread.frames and wanted is None and thread.scheduler.current is None):
            yield from _frame_lines(thread.frames)
        for same in (
            [[t] for t in tasklets]
            if each
            else _group_alike(tasklets, lambda t: (t.frames, t.state, t.wait and t.wait.kind))
        ):
            yield ""
            yield from _stack(same)
    if not found:
        raise LookupError(f"process {process.pid} has no tasklet {wanted:#x}: `ps` lists those that it has")
    if wanted is None:
        names = _names(process)
        for context in process.contexts:
            yield ""
            yield from _context_lines(context, names)


def _stack(same: list[Tasklet]) -> Iterator[str]:
    first = same[0]
    names = list(dict.fromkeys(tasklet.name for tasklet in same))
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")
    if len(same) == 1:
        yield f"{shown} ({first.id:#x}): {_doing_now(same)}"
    else:
        yield f"{len(same):,} × {shown}: {_doing_now(same)}"
        more = f" and {len(same) - SHOWN:,} more" if len(same) > SHOWN else ""
        yield "  tasklets " + ", ".join(f"{tasklet.id:#x}" for tasklet in same[:SHOWN]) + more
    for scope in first.scopes:
        yield f"  in {scope}"
    yield from _frame_lines(first.frames)
    wait = first.wait
    if wait is not None and wait.wakers:
        yield "  could be woken by:"
        yield from (f"    {waker.text}" for waker in wait.wakers[:SHOWN])
        if len(wait.wakers) > SHOWN:
            yield f"    and {len(wait.wakers) - SHOWN:,} more"
    for task in first.tasks:
        yield f"  task {task.name} {task.coroutine}: {task.state}{f', awaits {task.awaits}' if task.awaits else ''}"
        yield from (f"  {line}" for line in _frame_lines(task.frames))


def _frame_lines(frames: Stack) -> Iterator[str]:
    for frame in frames:
        yield f"    {frame.function}  {frame.file}:{frame.line if frame.line is not None else '?'}"
        yield from (f"        {name} = {value}" for name, value in frame.locals or ())
