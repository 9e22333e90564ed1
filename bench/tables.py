"""Tables: from one run's figures to rows of text, for the terminal and for the reference docs alike."""

from typing import Any

from roamlet_bench import gil, server
from roamlet_bench.show import NONE, Table, number

from .aio.measure import FIGURES as AIO_FIGURES
from .ansible import report as ansible
from .clusters.measure import SIDES as CLUSTERS
from .core import FIGURES, blocked
from .executor.measure import SIDES as EXECUTORS
from .libraries.measure import ALONE
from .libraries.measure import FIGURES as LIBRARY_FIGURES
from .libraries.measure import SIDES as LIBRARY_SIDES
from .sleeping.measure import KINDS as SLEEPING_KINDS
from .wsgi.measure import FIGURES as WSGI_FIGURES
from .wsgi.measure import SIDES as WSGI_SIDES

SIDE_TITLES = {"roamlet": "roamlet", "mitogen": "Mitogen", "pipes": "bare pipes"}


def tables(run: dict[str, Any]) -> list[Table]:
    """All tables of a run, in the order in which they are read: verdicts last."""
    made: list[Table] = []
    if "core" in run:
        made += core_tables(run["core"])
    if "import" in run:
        made += import_tables(run["import"])
    if "calls" in run:
        made += call_tables(run["calls"])
    if "stream" in run:
        made.append(stream_table(run["stream"]))
    if "delivery" in run:
        made.append(delivery_table(run["delivery"]))
    if "fleets" in run:
        made += fleet_tables(run["fleets"])
    if "start" in run:
        made.append(start_table(run["start"]))
    if "files" in run:
        made.append(file_table(run["files"]))
    for part in (gil, server):
        name = part.__name__.rpartition(".")[2]
        if name in run:
            made += part.tables(run[name])
    if "call_async" in run:
        made.append(call_async_table(run["call_async"]))
    if "executor" in run:
        made.append(executor_table(run["executor"]))
    if "clusters" in run:
        made.append(clusters_table(run["clusters"]))
    if "aio" in run:
        made.append(aio_table(run["aio"]))
    if "threads" in run:
        made.append(threads_table(run["threads"]))
    if "sleeping" in run:
        made.append(sleeping_table(run["sleeping"]))
    if "io" in run:
        made += io_tables(run["io"])
    if "libraries" in run:
        made.append(libraries_table(run["libraries"]))
    if "wsgi" in run:
        made.append(wsgi_table(run["wsgi"]))
    if "snapshot" in run:
        made += snapshot_tables(run["snapshot"])
    if "seeing" in run:
        made.append(seeing_table(run["seeing"]))
    if "ansible" in run:
        made += ansible.tables(run["ansible"])
    made.append(bar_table(run))
    return made


def runtimes(core: dict[str, Any]) -> list[str]:
    """The runtimes with figures, in the order of their first appearance."""
    return list(dict.fromkeys([*(name for taken in core["times"].values() for name in taken), *core["blocked"]]))


def core_tables(core: dict[str, Any]) -> list[Table]:
    names = runtimes(core)
    absolute = Table(
        f"Core: ns of CPU per operation; one generator.send takes {number(core['unit_ns'])}",
        ["", *names],
        notes=[
            "roamlet is on its native backend; roamlet on greenlet is the fallback.",
            "greenlet and generators have neither scheduler nor channel: they are floors, not competitors.",
            "asyncio's message goes through Queue(1), the nearest thing that it has; gevent's through its Channel.",
        ],
    )
    sends = Table("Core: the same in generator.sends of the same process", ["", *names])
    peers = [name for name in names if name != "roamlet"]
    ratios = Table("Core: peer / roamlet", ["", *peers])
    for key, figure in FIGURES.items():
        taken = core["times"].get(key, {})
        if not taken:
            continue
        absolute.rows.append([figure.title, *(number(taken[name]["ns"]) if name in taken else NONE for name in names)])
        sends.rows.append(
            [
                figure.title,
                *(number(taken[name]["ns"] / taken[name]["unit_ns"]) if name in taken else NONE for name in names),
            ]
        )
        if "roamlet" in taken:
            ours = taken["roamlet"]["ns"]
            ratios.rows.append(
                [figure.title, *(number(taken[name]["ns"] / ours) if name in taken else NONE for name in peers)]
            )
    return [table for table in (absolute, sends, ratios, blocked_table(core), million_table(core)) if table.rows]


def million_table(core: dict[str, Any]) -> Table:
    table = Table(f"Core: {core.get('many', 0):,} blocked at once, then let go", ["", "s of CPU", "resident GB"])
    for name, taken in core.get("million", {}).items():
        table.rows.append([name, number(taken["seconds"], 2), number(taken["bytes"] / 1e9, 2)])
    return table


def blocked_table(core: dict[str, Any]) -> Table:
    memory = core["blocked"]
    table = Table(
        f"Core: resident bytes per blocked tasklet, {core.get('members', 0):,} of them", ["Python frames", *memory]
    )
    for frames in map(str, blocked.DEPTHS):
        row = [number(memory[name].get(frames), 0) for name in memory]
        if any(cell != NONE for cell in row):
            table.rows.append([frames, *row])
    return table


IMPORTS = {
    "warm": "Import of django.db.models in a fresh context: seconds of the call, parent's scan warm",
    "cold": "The same, by a function that imports it, from a parent that has not",
    "requests": "Import of requests in a fresh context, its certificates read: seconds of the call, parent's scan warm",
}


def import_tables(taken: dict[str, Any]) -> list[Table]:
    sides = list(taken["first"])
    if not sides:
        return []
    made = []
    for kind, title in IMPORTS.items():
        by_side = taken.get(kind, {})
        lines = list(dict.fromkeys(line for side in sides for line in by_side.get(side, {})))
        table = Table(
            title,
            ["round trip", *(SIDE_TITLES[side] for side in sides), "Mitogen / roamlet", "with connecting", "turns"],
        )
        for line in lines:
            found = [by_side.get(side, {}).get(line) for side in sides]
            ratio = [ratio_of(found, ["import_s"]), ratio_of(found, ["connect_s", "import_s"])]
            spread = "; ".join(f"{min(one['turns']):.2f} to {max(one['turns']):.2f}" for one in found if one)
            table.rows.append([line, *(number(one and one["import_s"], 2) for one in found), *ratio, spread])
        if table.rows:
            made.append(table)
    made.append(hop_table(taken, sides))
    made.append(traffic_table(taken, sides))
    return made


def hop_table(taken: dict[str, Any], sides: list[str]) -> Table:
    """What another hop costs, and what scanning does, which happens once in a parent."""
    hops, scan = taken["hops"], taken["scan"]
    table = Table(
        f"Import of django.db.models through lines of {hops['line']}: seconds of the call, and what another hop costs",
        ["", "one line", "two lines in a row", "more, in round trips of one"],
    )
    for side in sides:
        one, two = (min(hops["import_s"].get(side, {}).get(lines, []), default=None) for lines in ("1", "2"))
        more = (two - one) / hops["round_trip"] if one and two else None
        table.rows.append([SIDE_TITLES[side], number(one, 2), number(two, 2), number(more)])
    if scan:
        table.notes = [
            f"roamlet's scan for it in a fresh process: {scan['seconds'] * 1000:.0f} ms for {scan['modules']} modules"
            f" (others {', '.join(f'{seconds * 1000:.0f}' for seconds in sorted(scan['turns'])[1:]) or 'none'})."
        ]
    return table


def ratio_of(found: list[dict[str, Any] | None], parts: list[str]) -> str:
    if len(found) < 2 or not all(found):
        return NONE
    ours, theirs = (sum(one[part] for part in parts) for one in found if one)
    return number(theirs / ours)


TRAFFIC = (
    ("modules there", "modules", 1, 0),
    ("requests that an import waited for", "requests", 1, 0),
    ("turnarounds on the wire, the call itself included", "import_turnarounds", 1, 0),
    ("kB down by the call", "import_down", 1e3, 1),
    ("kB down after the result", "sent_behind", 1e3, 1),
    ("kB up by the call", "import_up", 1e3, 1),
    ("kB down to connect", "connect_down", 1e3, 1),
    ("bytes of the command line", "argv", 1, 0),
    ("ms to connect", "connect_s", 1e-3, 0),
    ("ms of CPU in the parent", "parent_cpu_s", 1e-3, 1),
)


def traffic_table(taken: dict[str, Any], sides: list[str]) -> Table:
    """Counts and bytes, which are the same on every line: from the first one, of requests from the slowest."""
    columns = [
        (f"{SIDE_TITLES[side]}, {kind}", by_line[line])
        for kind, line in (("warm", "0 ms"), ("cold", "0 ms"), ("requests", "200 ms"))
        for side in sides
        if line in (by_line := taken.get(kind, {}).get(side, {}))
    ]
    table = Table("Import: what it took, at 0 ms, of requests at 200 ms", ["", *(head for head, _ in columns)])
    for title, key, unit, digits in TRAFFIC:
        table.rows.append([title, *(number(one[key] / unit, digits) for _, one in columns)])
    return table


def file_table(files: dict[str, Any]) -> Table:
    sides = files["rates"]
    made = Table(
        f"A file of {files['size'] / 2**20:.0f} MiB to a context, MB/s by round trip",
        ["round trip", *(SIDE_TITLES[side] for side in sides), "ratio"],
        notes=[
            "roamlet's time includes checksum, fsync and rename; the others have none of them. No TCP slow start on the line."
        ],
    )
    for line in dict.fromkeys(line for taken in sides.values() for line in taken):
        rates = [taken[line]["bytes_per_s"] / 1e6 if line in taken else None for taken in sides.values()]
        ratio = rates[0] / rates[1] if len(rates) == 2 and rates[0] and rates[1] else None
        made.rows.append([f"{line} ms", *(number(rate) for rate in rates), number(ratio)])
    return made


def call_tables(calls: dict[str, Any]) -> list[Table]:
    made = []
    for way, title in (("one", "one at a time"), ("many", f"{calls['at_once']} at once")):
        table = Table(
            f"No-op calls to a context on this machine, {title}",
            ["", "per second", "median turn", "us CPU parent", "us CPU child"],
        )
        for side, taken in calls["rates"][way].items():
            median = sorted(taken["turns"])[len(taken["turns"]) // 2]
            cpu = [number(taken.get(f"{whose}_us")) for whose in ("parent", "child")]
            table.rows.append([SIDE_TITLES[side], number(taken["per_s"], 0), number(median, 0), *cpu])
        made.append(table)
    return made


STARTS = (  # of a context: what, in which unit
    ("ms to open", "seconds", 1e-3),
    ("ms CPU parent", "parent_cpu_s", 1e-3),
    ("ms CPU child", "child_cpu_s", 1e-3),
    ("kB in the parent", "parent_bytes", 1e3),
    ("MB of the child", "child_bytes", 1e6),
)


def start_table(start: dict[str, Any]) -> Table:
    table = Table(
        f"What one context costs, of {start['count']} on this machine",
        ["", *(title for title, _, _ in STARTS)],
        notes=[
            "In brackets the least and the most of all turns. The child's CPU time is all that it has used since its start."
        ],
    )
    for side, taken in start["contexts"].items():
        row = [SIDE_TITLES[side]]
        for _, key, unit in STARTS:
            least, most = (number(end(taken["turns"][key]) / unit) for end in (min, max))
            row.append(f"{number(taken[key] / unit)} ({least} to {most})")
        table.rows.append(row)
    return table


def stream_table(stream: dict[str, Any]) -> Table:
    """One row for each kind of value; blocks are given in MB/s."""
    sides = list(dict.fromkeys(side for taken in stream["rates"].values() for side in taken))
    heads = [head for side in sides for head in (SIDE_TITLES[side], f"{SIDE_TITLES[side]}, median turn")]
    cpu = [f"us CPU {whose}, {SIDE_TITLES[side]}" for side in sides for whose in ("parent", "child")]
    total = f"{stream['slow_bytes'] / 2**20:.0f} MiB"
    table = Table(
        "A stream of values from one function in a context on this machine",
        ["", *heads, "ratio", *cpu],
        notes=[
            f"The CPU time is that of one value. Taken slowly: {total} in blocks of 1 MiB, with a pause after each."
        ],
    )
    for kind, taken in stream["rates"].items():
        size = stream["sizes"][kind]
        unit, digits = (size / 1e6, 1) if size else (1, 0)
        row = [f"blocks of {kind}, MB/s" if size else "small tuples, per second"]
        for side in sides:
            median = sorted(taken[side]["turns"])[len(taken[side]["turns"]) // 2]
            row += [number(taken[side]["per_s"] * unit, digits), number(median * unit, digits)]
        ratio = taken["roamlet"]["per_s"] / taken["mitogen"]["per_s"] if {"roamlet", "mitogen"} <= set(taken) else None
        used = [number(taken[side].get(f"{whose}_us"), 2) for side in sides for whose in ("parent", "child")]
        table.rows.append([*row, number(ratio, 2), *used])
    if stream["slow"]:
        slow = [number(stream["slow"].get(side, {}).get("above_start", 0) / 1e6) for side in sides]
        cells = [cell for one in slow for cell in (one, NONE)]
        table.rows.append(["taken slowly, MB above the start", *cells, *[NONE] * (1 + len(cpu))])
    return table


def seeing_table(seeing: dict[str, Any]) -> Table:
    """One row for each number of tasklets."""
    heads = [
        "",
        "messages a second",
        "looked at",
        "loss, %",
        "a stop, ms",
        "stopped, % of the time",
        "longest pause, ms",
        "`roamlet ps` while idle, s",
    ]
    table = Table("A busy process that `roamlet top` looks at once a second", heads)
    for count, taken in seeing["looked_at"].items():
        share, stop = (
            None if taken[name] is None else taken[name] * factor for name, factor in (("share", 100), ("stop", 1e3))
        )
        row = [f"{int(count):,} tasklets", number(taken["alone_per_s"], 0), number(taken["watched_per_s"], 0)]
        row += [number(taken["loss"] * 100, 2), number(stop, 1), number(share, 2), number(taken["longest"] * 1e3, 1)]
        row.append(number(taken["listed"], 2))
        table.rows.append(row)
    return table


CALL_ASYNC_TITLES = {
    "roamlet": "roamlet.call_async",
    "asyncio": "asyncio.to_thread",
    "gevent": "gevent's threadpool",
    "futures": "concurrent.futures, from a thread",
}


def call_async_table(taken: dict[str, Any]) -> Table:
    table = Table(
        "A call to a worker thread and back",
        ["", "per second, one outstanding", "us CPU", f"per second, {taken['at_once']} outstanding", "us CPU"],
    )
    for peer, title in CALL_ASYNC_TITLES.items():
        found = [taken["rates"][which].get(peer) for which in ("one", "many")]
        if any(found):
            cells = [
                cell for one in found for cell in (number(one and one["per_s"], 0), number(one and one["cpu_us"], 2))
            ]
            table.rows.append([title, *cells])
    return table


def aio_table(taken: dict[str, Any]) -> Table:
    table = Table(
        "Event loops in tasklets: us of CPU for each, beside asyncio's loop in the same run",
        ["", "roamlet.aio", "asyncio", "compared with", "roamlet / asyncio", "turns"],
    )
    for name, (title, (_, mine), (_, peer), _) in AIO_FIGURES.items():
        if name not in taken:
            continue
        one, peer_title = taken[name], "the same" if peer == mine else "a task made and awaited"
        spread = f"{min(one['turns']):.2f} to {max(one['turns']):.2f}"
        cells = [
            number(one["roamlet_us"], 1),
            number(one["asyncio_us"], 1),
            peer_title,
            number(one["ratio"], 2),
            spread,
        ]
        table.rows.append([title, *cells])
    return table


def libraries_table(taken: dict[str, Any]) -> Table:
    table = Table(
        "Libraries, 50 at a time in one thread: us of CPU of the client for each operation",
        [
            "",
            *LIBRARY_SIDES,
            "roamlet / gevent",
            "turns",
            ALONE,
            "alone / gevent",
            "longest hold-up, roamlet",
            "gevent",
        ],
        notes=[
            "Alone: one operation after the other on one thread, over stock sockets that block, nothing patched. What the library "
            "itself costs is part of every side, so that roamlet / gevent can hardly be less than alone / gevent.",
            "The hold-up, in ms, is how long a ticker of the thread waited at most while 50 open a connection and use it.",
            "Each request of `requests` that waits takes "
            + ", ".join(f"{number(taken['memory'][side] / 1000, 1)} kB ({side})" for side in LIBRARY_SIDES)
            + ".",
            "Not shown: requests by the clock, which on one machine are those of the server.",
        ],
    )
    for name, (title, _) in LIBRARY_FIGURES.items():
        if name not in taken["cpu"]:
            continue
        one, held = taken["cpu"][name], taken["gap"][name]
        cells = [number(one[side], 1) for side in LIBRARY_SIDES]
        spread = f"{min(one['turns']):.2f} to {max(one['turns']):.2f}"
        holds = [number(held["roamlet"], 1), number(held["gevent"], 1)]
        floor = [number(one[ALONE], 1), number(one["floor"], 2)]
        table.rows.append([title, *cells, number(one["ratio"], 2), spread, *floor, *holds])
    return table


def wsgi_table(taken: dict[str, Any]) -> Table:
    table = Table(
        "A Flask application in one worker of gunicorn: requests per second of the worker's CPU",
        ["", *WSGI_SIDES, "roamlet / gevent", "turns"],
        notes=[
            "A query of a database in memory. What Flask and gunicorn do is the same on each side, and most of it.",
            "Not shown: latency, and drivers of databases that wait in C.",
        ],
    )
    for name, (title, *_) in WSGI_FIGURES.items():
        one = taken[name]
        spread = f"{min(one['turns']):.2f} to {max(one['turns']):.2f}"
        table.rows.append([title, *(number(one[side], 0) for side in WSGI_SIDES), number(one["ratio"], 2), spread])
    return table


def threads_table(taken: dict[str, Any]) -> Table:
    heads = [""]
    for cores in taken["rates"]:
        where = "one core" if cores == "1" else f"{cores} cores"
        heads += [f"threading, {where}", f"roamlet.threads, {where}", "roamlet / threading"]
    table = Table("Two OS threads that hand over: there and back, per second", heads)
    for kind in next(iter(taken["rates"].values())):
        row = [kind]
        for rates in taken["rates"].values():
            theirs, ours = rates[kind]["threading"]["per_s"], rates[kind]["roamlet"]["per_s"]
            row += [number(theirs, 0), number(ours, 0), number(ours / theirs, 2)]
        table.rows.append(row)
    return table


def delivery_table(taken: dict[str, Any]) -> Table:
    title = f"Contexts behind an intermediary that import {', '.join(taken['packages'])}"
    table = Table(title, ["", "s of the parent's CPU", "MB to the intermediary"])
    names = {
        "first": "the first",
        "second": "the second",
        "later": "later ones",
        "next run": "the first of the next run",
    }
    for which, title in names.items():
        if which in taken["cpu_s"]:
            table.rows.append([title, number(taken["cpu_s"][which], 2), number(taken["mb"][which], 2)])
    return table


def fleet_tables(taken: dict[str, Any]) -> list[Table]:
    heads = [
        "in the parent, for each context",
        "ms of CPU to open and call it",
        "kB",
        "descriptors",
        "ms of CPU to close it",
    ]
    measured = Table("Fleets: contexts on this machine", [*heads, "ms of CPU for a call", "s for a call of all"])
    for one in taken["measured"].values():
        way = f"{one['number']}, behind {one['hubs']} hubs" if one["hubs"] else f"{one['number']}, directly"
        cpu = [
            number(one["cpu_ms"], 2),
            number(one["kb"], 0),
            number(one["descriptors"], 2),
            number(one["close_ms"], 2),
        ]
        measured.rows.append([way, *cpu, number(one["call_ms"], 3), number(min(one["call_s"]), 3)])
    title = f"Fleets: computed from these costs, where a host takes {taken['line_s']} s to be ready"
    heads = ["hosts", "s to open all", "s of the parent's CPU", "s of it for a call of all", "MB", "descriptors"]
    computed = Table(title, heads)
    for one in taken["simulated"]:
        way = f"{one['hubs']:,} hubs" if one["hubs"] else "directly"
        cells = [
            number(one[key], 0 if key == "descriptors" else 1)
            for key in ("open_s", "cpu_s", "call_s", "mb", "descriptors")
        ]
        computed.rows.append([f"{one['hosts']:,}, {way}, {one['at_once']} at a time", *cells])
    return [measured, computed]


def executor_table(taken: dict[str, Any]) -> Table:
    used = f"used of the cores by calls of 1 ms on {taken['workers']} workers"
    table = Table("Executors on this machine", ["", "us of CPU for a call that does nothing", used])
    for side, title in EXECUTORS.items():
        if side in taken["no_op_us"]:
            table.rows.append([title, number(taken["no_op_us"][side], 0), number(taken["used"][side], 2)])
    return table


def clusters_table(taken: dict[str, Any]) -> Table:
    workloads = list(taken["workload_s"])
    heads = ["", f"s until {taken['workers']} workers are ready", *(f"s: {name}" for name in workloads), "s to close"]
    table = Table("Dask clusters on this machine", heads)
    for side, title in CLUSTERS.items():
        if side in taken["ready_s"]:
            seconds = [number(taken["workload_s"][name].get(side), 2) for name in workloads]
            table.rows.append([title, number(taken["ready_s"][side], 1), *seconds, number(taken["close_s"][side], 1)])
    return table


def sleeping_table(taken: dict[str, Any]) -> Table:
    heads = [""]
    for cores in taken["ns"]:
        where = "one core" if cores == "1" else f"{cores} cores"
        heads += [f"CPU, {where}", f"clock, {where}"]
    table = Table("Two threads in C that wake each other: ns for there and back", heads)
    for kind, title in SLEEPING_KINDS.items() if taken["ns"] else ():
        each = [by_kind[kind] for by_kind in taken["ns"].values()]
        table.rows.append([title, *(number(one[what], 0) for one in each for what in ("cpu", "wall"))])
    return table


def io_tables(taken: dict[str, Any]) -> list[Table]:
    made = []
    for kind, title in (
        ("alone", "alone, a core each for server and load"),
        ("beside", "beside a thread that computes on the other core"),
    ):
        counts = list(taken[kind])
        heads = [f"{what}, c={count}" for count in counts for what in ("per s", "per CPU s", "p99 ms")]
        table = Table(f"Keep-alive HTTP, c connections, {title}", ["", *heads])
        if kind == "beside":
            table.notes = [
                "0.5 ms: sys.setswitchinterval. responsive: roamlet.responsive(). The CPU time is that of both threads."
            ]
        for variant in dict.fromkeys(title for count in counts for title in taken[kind][count]):
            row = [variant]
            for count in counts:
                found = taken[kind][count].get(variant, {})
                row += [number(found.get("per_s"), 0), number(found.get("per_cpu_s"), 0)]
                row.append(number(found["p99"] * 1e3 if found else None))
            table.rows.append(row)
        made.append(table)
    table = Table("Idle connections: resident bytes of one, with its tasklet", ["", "connections", "bytes"])
    for peer, found in taken["idle"].items():
        table.rows.append([peer, number(found["connections"], 0), number(found["bytes"], 0)])
    return [table for table in [*made, table] if table.rows]


CHAINS = {
    "roamlet": "a tasklet of roamlet",
    "dispatch-py": "generators of dispatch-py",
    "pickle": "plain objects, pickle",
}


def snapshot_tables(taken: dict[str, Any]) -> list[Table]:
    frames = Table(
        "Snapshots: a call chain that waits, saved and restored",
        ["frames", "", "bytes", "save, us of CPU", "restore, us of CPU"],
        notes=[
            "The plain objects hold what the frames hold. dill and cloudpickle save no generator, gevent and greenlet nothing."
        ],
    )
    for count, by_side in taken["frames"].items():
        for side, found in by_side.items():
            figures = (number(found["bytes"], 0), number(found["save_us"]), number(found["restore_us"]))
            frames.rows.append([count, CHAINS[side], *figures])
    many = Table(
        f"Snapshots: {taken['count']:,} chains of 4 frames through a file into another process",
        ["", "s to save", "MB", "s to restore", "peak MB, saving", "peak MB, restoring"],
    )
    for side, found in taken["many"].items():
        save, restore = found["save"], found["restore"]
        row = [CHAINS[side], number(save["seconds"], 2), number(save["bytes"] / 1e6), number(restore["seconds"], 2)]
        many.rows.append([*row, *(number(each["peak"] / 1e6, 0) for each in (save, restore))])
    travel = Table(
        "Travel to a context: ms", ["round trip", "a call", "a tasklet moves", "a block of roamlet.at"],
        notes=["A tasklet of 4 frames that waits in a channel, until it is there; a block, with what it has changed brought back."],
    )  # fmt: skip
    for line, found in taken["travel"].items():
        travel.rows.append(
            [f"{line} ms", *(number(found[f"{what}_s"] * 1e3, 2) for what in ("calls", "moves", "blocks"))]
        )
    return [table for table in (frames, many, travel) if table.rows]


def bar_table(run: dict[str, Any]) -> Table:
    table = Table("Bars", ["", "measured", "bar", "", "verdict"])
    for bar in run["bars"]:
        met = {True: "met", False: "MISSED", None: "not measured"}[bar["met"]]
        sign = ">=" if bar["at_least"] else "<="
        table.rows.append(
            [f"{bar['part']}: {bar['title']}", number(bar["value"], 3), f"{sign} {bar['limit']:.3g}", bar["unit"], met]
        )
    return table
