"""The bars: what each figure has to reach, and whether it did. Pure: from the figures of one run to a list of verdicts."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from .ansible import report as ansible_report


@dataclass(frozen=True)
class Bar:
    """One thing to reach. `value` takes the whole run's figures and may raise KeyError when what it needs was not measured."""

    part: str
    title: str
    limit: float
    unit: str
    value: Callable[[dict[str, Any]], float]
    at_least: bool = False

    def verdict(self, run: dict[str, Any]) -> dict[str, Any]:
        """As plain data; `value` and `met` are None when the figure is missing from the run."""
        try:
            value = self.value(run)
        except KeyError:
            value = None
        met = None
        if value is not None:
            met = value >= self.limit if self.at_least else value <= self.limit
        kept = {key: entry for key, entry in asdict(self).items() if key != "value"}
        return {**kept, "value": value, "met": met}


def core_ratio(figure: str, runtime: str = "roamlet") -> Callable[[dict[str, Any]], float]:
    """roamlet's time for one operation, in generator.sends of the same process."""

    def value(run: dict[str, Any]) -> float:
        taken = run["core"]["times"][figure][runtime]
        return float(taken["ns"] / taken["unit_ns"])

    return value


def core_peer(figure: str, peer: str) -> Callable[[dict[str, Any]], float]:
    """roamlet's time as a part of a peer's."""

    def value(run: dict[str, Any]) -> float:
        taken = run["core"]["times"][figure]
        return float(taken["roamlet"]["ns"] / taken[peer]["ns"])

    return value


def blocked(frames: int) -> Callable[[dict[str, Any]], float]:
    return lambda run: run["core"]["blocked"]["roamlet"][str(frames)] / 1000


def million(run: dict[str, Any], what: str) -> float:
    """What a million blocked tasklets take; a run with fewer is scaled."""
    return float(run["core"]["million"]["roamlet"][what] * 1_000_000 / run["core"]["many"])


def warm(run: dict[str, Any], side: str, line: str) -> dict[str, Any]:
    taken: dict[str, Any] = run["import"]["warm"][side][line]
    return taken


def beyond_the_call(kind: str) -> Callable[[dict[str, Any]], float]:
    """Turnarounds on the wire while roamlet's call ran, at the slowest line, less the one that is the call itself."""
    return lambda run: float(run["import"][kind]["roamlet"]["200 ms"]["import_turnarounds"] - 1)


def sent_down(kind: str) -> Callable[[dict[str, Any]], float]:
    """MB of roamlet's call, on the line with the most."""
    return lambda run: float(max(taken["import_down"] for taken in imports(run, kind)) / 1e6)


def imports(run: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """roamlet's imports of this kind, one for each line. Raises KeyError when no line has any."""
    taken = list(run["import"][kind]["roamlet"].values())
    if not taken:
        raise KeyError(kind)
    return taken


def import_time(line: str, *parts: str) -> Callable[[dict[str, Any]], float]:
    """roamlet's seconds as a part of Mitogen's, on this line."""

    def value(run: dict[str, Any]) -> float:
        ours, theirs = (sum(warm(run, side, line)[part] for part in parts) for side in ("roamlet", "mitogen"))
        return float(ours / theirs)

    return value


def hop(run: dict[str, Any]) -> float:
    """By the clock: how much longer roamlet's import takes through one line more, in its round trips."""
    hops = run["import"]["hops"]
    one, two = (hops["import_s"]["roamlet"][lines] for lines in ("1", "2"))
    if not (one and two):
        raise KeyError("hops")
    return float((min(two) - min(one)) / hops["round_trip"])


def bootstrap_round_trips(run: dict[str, Any]) -> float:
    """By the clock: how much longer connecting takes at 200 ms than at 0, in round trips."""
    return float((warm(run, "roamlet", "200 ms")["connect_s"] - warm(run, "roamlet", "0 ms")["connect_s"]) / 0.2)


def call_rate(way: str) -> Callable[[dict[str, Any]], float]:
    """roamlet's calls per second as a multiple of Mitogen's."""

    def value(run: dict[str, Any]) -> float:
        taken = run["calls"]["rates"][way]
        return float(taken["roamlet"]["per_s"] / taken["mitogen"]["per_s"])

    return value


def delivery_cpu(run: dict[str, Any]) -> float:
    """The parent's CPU time for the second context, as a part of that for the first one."""
    taken = run["delivery"]["cpu_s"]
    return float(taken["second"] / taken["first"])


def fleet(what: str) -> Callable[[dict[str, Any]], Any]:
    """A figure of the contexts behind hubs. Raises KeyError where there were fewer than 1,000."""

    def value(run: dict[str, Any]) -> Any:
        taken = run["fleets"]["measured"]["hubs"]
        if taken["number"] < 1000:
            raise KeyError(what)
        return taken[what]

    return value


def executor_cost(run: dict[str, Any]) -> float:
    costs = run["executor"]["no_op_us"]
    return float(costs["roamlet"] / costs["calls"])


def cluster_start(run: dict[str, Any]) -> float:
    taken = run["clusters"]["ready_s"]
    return float(taken["roamlet"] / taken["dask"])


def cluster_work(side: str, name: str) -> Callable[[dict[str, Any]], float]:
    """The seconds for one workload as a multiple of those of Dask's LocalCluster."""

    def value(run: dict[str, Any]) -> float:
        taken = run["clusters"]["workload_s"][name]
        return float(taken[side] / taken["dask"])

    return value


def file_rate(run: dict[str, Any]) -> float:
    """roamlet's bytes per second at 200 ms as a multiple of Mitogen's."""
    rates = run["files"]["rates"]
    return float(rates["roamlet"]["200"]["bytes_per_s"] / rates["mitogen"]["200"]["bytes_per_s"])


def one_call_beside_pipes(run: dict[str, Any]) -> float:
    """roamlet's calls per second as a part of what two processes exchange over bare pipes."""
    taken = run["calls"]["rates"]["one"]
    return float(taken["roamlet"]["per_s"] / taken["pipes"]["per_s"])


def stream_rate(kind: str) -> Callable[[dict[str, Any]], float]:
    """roamlet's values per second of one stream as a multiple of Mitogen's."""

    def value(run: dict[str, Any]) -> float:
        taken = run["stream"]["rates"][kind]
        return float(taken["roamlet"]["per_s"] / taken["mitogen"]["per_s"])

    return value


def stream_memory(run: dict[str, Any]) -> float:
    """What the parent has taken at most for a stream that it takes slowly, in MB."""
    return float(run["stream"]["slow"]["roamlet"]["above_start"] / 1e6)


def started(key: str, unit: float) -> Callable[[dict[str, Any]], float]:
    """What one of roamlet's contexts costs, in this unit."""
    return lambda run: float(run["start"]["contexts"]["roamlet"][key] / unit)


def row(run: dict[str, Any], part: str, name: str, interval: float) -> dict[str, Any]:
    """The row of an implementation on the interpreter that was measured first, at this switch interval."""
    for found in run[part]["rows"]:
        variant = found["variant"]
        if variant["name"] == name and variant["interval"] == interval:
            taken: dict[str, Any] = found
            return taken
    raise KeyError(name)


def efficiency(run: dict[str, Any]) -> float:
    """Two CPU-bound threads with everything on."""
    return float(row(run, "gil", "roamlet.threads", 0.0005)["efficiency"]["value"])


def threaded_server(figure: str) -> Callable[[dict[str, Any]], float]:
    """Requests a second of the threaded server on roamlet.threads as a multiple of the stock one's."""

    def value(run: dict[str, Any]) -> float:
        ours, stock = (row(run, "server", name, 0.005)[figure]["value"] for name in ("roamlet.threads", "threads"))
        return float(ours / stock)

    return value


FLASK = "Flask, roamlet.patch"


def beside(figure: str, name: str = "roamlet.patch") -> Callable[[dict[str, Any]], float]:
    """Requests a second of a threaded server under roamlet.patch beside a thread that computes, as a part of those without it."""

    def value(run: dict[str, Any]) -> float:
        found = row(run, "server", name, 0.005)
        return float(found[f"{figure}+cpu"]["value"] / found[figure]["value"])

    return value


def patched(
    figure: str, what: str, scale: float = 1.0, name: str = "roamlet.patch"
) -> Callable[[dict[str, Any]], float]:
    """A figure of that server beside a thread that computes."""
    return lambda run: float(row(run, "server", name, 0.005)[f"{figure}+cpu"][what] * scale)


def async_rate(which: str) -> Callable[[dict[str, Any]], float]:
    """roamlet's calls to worker threads per second as a multiple of asyncio.to_thread's."""

    def value(run: dict[str, Any]) -> float:
        taken = run["call_async"]["rates"][which]
        return float(taken["roamlet"]["per_s"] / taken["asyncio"]["per_s"])

    return value


def loops(figure: str) -> Callable[[dict[str, Any]], float]:
    """CPU time over a loop in a tasklet, or between the two worlds, as a multiple of asyncio's."""
    return lambda run: float(run["aio"][figure]["ratio"])


def library(way: str) -> Callable[[dict[str, Any]], float]:
    """CPU time of a library's operation under roamlet.patch, as a multiple of gevent's."""
    return lambda run: float(run["libraries"]["cpu"][way]["ratio"])


def hold_up(run: dict[str, Any]) -> float:
    """The library that holds up its thread longest beside gevent's way: that multiple."""
    return max(float(held["roamlet"] / held["gevent"]) for held in run["libraries"]["gap"].values())


def wsgi(figure: str) -> Callable[[dict[str, Any]], float]:
    """Requests per second of CPU of roamlet's worker for gunicorn, as a multiple of gevent's."""
    return lambda run: float(run["wsgi"][figure]["ratio"])


def hand_over_rate(kind: str, cores: int) -> Callable[[dict[str, Any]], float]:
    """roamlet's hand-overs between two OS threads per second as a multiple of the standard library's."""

    def value(run: dict[str, Any]) -> float:
        taken = run["threads"]["rates"][str(cores)][kind]
        return float(taken["roamlet"]["per_s"] / taken["threading"]["per_s"])

    return value


def http(kind: str, connections: int, figure: str, ours: str, theirs: str) -> Callable[[dict[str, Any]], float]:
    """Requests that `ours` answers, a second or a second of its CPU time, as a multiple of those of `theirs`."""

    def value(run: dict[str, Any]) -> float:
        taken = run["io"][kind][str(connections)]
        return float(taken[ours][figure] / taken[theirs][figure])

    return value


def chain(frames: int, figure: str) -> Callable[[dict[str, Any]], float]:
    """A figure of roamlet's of a tasklet so many frames deep, saved and restored."""
    return lambda run: float(run["snapshot"]["frames"][str(frames)]["roamlet"][figure])


def through_a_file(run: dict[str, Any]) -> float:
    """Seconds in which 100,000 tasklets are saved to a file and restored in another process; a run with fewer is scaled."""
    taken = run["snapshot"]["many"]["roamlet"]
    return float((taken["save"]["seconds"] + taken["restore"]["seconds"]) * 100_000 / run["snapshot"]["count"])


def stopped_share(count: int) -> Callable[[dict[str, Any]], float]:
    """What part of its time a busy process with so many tasklets is stopped by `roamlet top`, in percent."""

    def value(run: dict[str, Any]) -> float:
        share = run["seeing"]["looked_at"][str(count)]["share"]
        if share is None:
            raise KeyError("share")
        return float(share * 100)

    return value


def looked_at(count: int, figure: str, unit: float) -> Callable[[dict[str, Any]], float]:
    """A figure of a process with so many tasklets, in this unit: "listed", by `roamlet ps`, or a "stop" for a look."""

    def value(run: dict[str, Any]) -> float:
        taken = run["seeing"]["looked_at"][str(count)][figure]
        if taken is None:
            raise KeyError(figure)
        return float(taken / unit)

    return value


def travel(round_trip: int, figure: str, unit: float) -> Callable[[dict[str, Any]], float]:
    """A figure of what travels to a context at the end of such a line, in this unit."""
    return lambda run: float(run["snapshot"]["travel"][str(round_trip)][figure] / unit)


def ansible(scenario: str, figure: str, peer: str, which: str = "first") -> Callable[[dict[str, Any]], float]:
    """A figure of playbooks over roamlet's connection as a part of a peer's."""
    return lambda run: ansible_report.ratio(run["ansible"], scenario, figure, peer, which)


SENDS, RATIO = "generator.sends", "x"
BARS = (
    Bar("core", "message", 2.6, SENDS, core_ratio("message")),
    Bar("core", "schedule, 10 tasklets", 1.1, SENDS, core_ratio("schedule_10")),
    Bar("core", "schedule, 1000 tasklets", 1.9, SENDS, core_ratio("schedule_1000")),
    Bar("core", "ring of 1000, per hop", 2.2, SENDS, core_ratio("ring")),
    Bar("core", "create + run + finish", 3.5, SENDS, core_ratio("create")),
    Bar("core", "value through a buffer", 1.2, SENDS, core_ratio("buffered")),
    Bar(
        "core",
        "time limit started and cancelled",
        1000,
        "ns",
        lambda run: run["core"]["times"]["timers"]["roamlet"]["ns"],
    ),
    Bar("core", "to another thread and back, roamlet / SimpleQueue", 2, RATIO, core_peer("across", "threading")),
    Bar("core", "blocked, shallow", 2.4, "kB", blocked(1)),
    Bar("core", "blocked, ten frames deep", 3.0, "kB", blocked(10)),
    Bar("core", "atomic, roamlet / RLock", 0.7, RATIO, core_peer("exclusive", "threading")),
    Bar("core", "a million blocked", 2.5, "GB", lambda run: million(run, "bytes") / 1e9),
    Bar("core", "a million made and ended", 3.0, "s", lambda run: million(run, "seconds")),
    Bar("core", "message, roamlet / gevent", 0.05, RATIO, core_peer("message", "gevent")),
    Bar("core", "hand-over by semaphores, roamlet / gevent", 1 / 15, RATIO, core_peer("semaphore", "gevent")),
    Bar("core", "contended lock, roamlet / gevent", 1 / 15, RATIO, core_peer("contended", "gevent")),
    Bar("clusters", "ready, roamlet / LocalCluster", 2.0, RATIO, cluster_start),
    *(
        Bar("clusters", f"{name}, roamlet / LocalCluster", 1.05, RATIO, cluster_work("roamlet", name))
        for name in ("array", "groupby", "join", "tiny")
    ),
    *(
        Bar("clusters", f"{name} over links, roamlet / LocalCluster", 1.3, RATIO, cluster_work("links", name))
        for name in ("array", "groupby", "join", "tiny")
    ),
    Bar("delivery", "parent's CPU, second context / first", 0.15, RATIO, delivery_cpu),
    Bar("delivery", "the way to the second context", 2.0, "MB", lambda run: run["delivery"]["mb"]["second"]),
    Bar("fleets", "1,000 contexts behind hubs, CPU of the parent for each", 1.3, "ms", fleet("cpu_ms")),
    Bar("fleets", "memory of the parent for each", 22.0, "kB", fleet("kb")),
    Bar("fleets", "descriptors of the parent for each", 0.1, "", fleet("descriptors")),
    Bar("fleets", "a call of all", 0.5, "s", lambda run: min(fleet("call_s")(run))),
    Bar("executor", "a call that does nothing, CPU, executor / context.call", 1.15, RATIO, executor_cost),
    Bar(
        "executor",
        "used of the cores by calls of 1 ms",
        0.9,
        "x",
        lambda run: run["executor"]["used"]["roamlet"],
        at_least=True,
    ),
    Bar("import", "round trips beyond the call", 0, "round trips", beyond_the_call("warm")),
    Bar("import", "sent down by the call", 0.48, "MB", sent_down("warm")),
    Bar("import", "seconds at 200 ms, roamlet / Mitogen", 1 / 4, RATIO, import_time("200 ms", "import_s")),
    Bar("import", "the same with connecting", 1 / 3, RATIO, import_time("200 ms", "connect_s", "import_s")),
    Bar("import", "at 80 ms and 10 Mbit/s", 1 / 2.2, RATIO, import_time("80 ms, 10 Mbit/s", "import_s")),
    Bar("import", "requests: round trips beyond the call", 0, "round trips", beyond_the_call("requests")),
    Bar("import", "requests: sent down, with certificates", 0.35, "MB", sent_down("requests")),
    Bar("import", "scan of Django, cold", 350, "ms", lambda run: float(run["import"]["scan"]["seconds"] * 1000)),
    Bar("import", "one hop more, by the clock", 1.25, "round trips", hop),
    Bar("import", "bootstrap, by the clock", 1.1, "round trips", bootstrap_round_trips),
    Bar("import", "sent down to connect", 24, "kB", lambda run: warm(run, "roamlet", "0 ms")["connect_down"] / 1000),
    Bar("calls", "one at a time, roamlet / Mitogen", 1.5, RATIO, call_rate("one"), at_least=True),
    Bar("calls", "one at a time, roamlet / bare pipes", 0.5, RATIO, one_call_beside_pipes, at_least=True),
    Bar("calls", "100 at once, roamlet / Mitogen", 2.0, RATIO, call_rate("many"), at_least=True),
    *(
        Bar("stream", f"{kind} a second, roamlet / Mitogen", 1.5, RATIO, stream_rate(key), at_least=True)
        for key, kind in (("values", "small values"), ("64 KiB", "bytes in 64 KiB"), ("1 MiB", "bytes in 1 MiB"))
    ),
    Bar("stream", "the parent's peak above its start, taken slowly", 64, "MB", stream_memory),
    Bar("start", "the child's CPU for a bootstrap", 70, "ms", started("child_cpu_s", 1e-3)),
    Bar("start", "the parent's CPU for a context", 2, "ms", started("parent_cpu_s", 1e-3)),
    Bar("start", "the parent's memory for a context", 80, "kB", started("parent_bytes", 1e3)),
    Bar("files", "16 MiB at 200 ms, roamlet / Mitogen", 5.0, RATIO, file_rate, at_least=True),
    Bar("gil", "two CPU threads against one, everything on", 0.97, RATIO, efficiency, at_least=True),
    Bar("server", "10 connections, roamlet.threads / threads", 1.3, RATIO, threaded_server("10"), at_least=True),
    *(
        bar
        for count in ("1", "10")
        for bar in (
            Bar(
                "server", f"roamlet.patch, {count} at a time, beside / alone", 0.4, RATIO, beside(count), at_least=True
            ),
            Bar("server", f"roamlet.patch, {count} at a time, beside, p99", 3, "ms", patched(count, "p99", 1e3)),
            Bar(
                "server",
                f"roamlet.patch, {count} at a time, the computing thread",
                0.4,
                RATIO,
                patched(count, "computing"),
                at_least=True,
            ),
        )
    ),
    *(
        bar
        for count in ("1", "10")
        for bar in (
            Bar("server", f"Flask, {count} at a time, beside / alone", 0.4, RATIO, beside(count, FLASK), at_least=True),
            Bar(
                "server",
                f"Flask, {count} at a time, the computing thread",
                0.4,
                RATIO,
                patched(count, "computing", name=FLASK),
                at_least=True,
            ),
        )
    ),
    *(
        Bar("threads", f"{kind} on one core, roamlet / threading", limit, RATIO, hand_over_rate(kind, 1), at_least=True)
        for kind, limit in (("Condition", 1.1), ("Semaphore", 1.5), ("Event", 1.5), ("Queue", 1.5))
    ),
    *(
        Bar("threads", f"{kind} on two cores, roamlet / threading", 0.9, RATIO, hand_over_rate(kind, 2), at_least=True)
        for kind in ("Condition", "Semaphore", "Event", "Queue")
    ),
    Bar("call_async", "one outstanding, roamlet / asyncio.to_thread", 1.4, RATIO, async_rate("one"), at_least=True),
    Bar("call_async", "100 outstanding, roamlet / asyncio.to_thread", 10, RATIO, async_rate("many"), at_least=True),
    *(
        Bar("io", f"HTTP, {count} connections, per CPU second, roamlet / {peer}", limit, RATIO, rate, at_least=True)
        for count in (10, 100)
        for peer, limit in (("gevent", 1.7), ("uvloop", 0.9))
        for rate in [http("alone", count, "per_cpu_s", "roamlet", peer)]
    ),
    *(
        Bar("seeing", f"stopped by roamlet top, {count:,} tasklets", 1.0, "%", stopped_share(count))
        for count in (2_000, 100_000)
    ),
    *(
        Bar("seeing", f"a stop for a look, {count:,} tasklets", limit, "ms", looked_at(count, "stop", 1e-3))
        for count, limit in ((2_000, 5.0), (100_000, 150.0))
    ),
    Bar("seeing", "roamlet ps, 100,000 tasklets, idle", 1.0, "s", looked_at(100_000, "listed", 1.0)),
    *(
        Bar("libraries", f"{title}, CPU, roamlet.patch / gevent", limit, RATIO, library(way))
        for way, title, limit in (
            ("socket", "a socket", 0.45),
            ("redis", "redis GET", 0.55),
            ("psycopg", "psycopg", 0.5),
            ("pymysql", "PyMySQL", 1.0),
            ("urllib3", "urllib3", 0.75),
            ("requests", "requests", 0.75),
            ("requests_tls", "requests over TLS", 0.85),
            ("tls", "a TLS connection", 1.0),
        )
    ),
    Bar("libraries", "the longest hold-up of a thread, roamlet.patch / gevent", 1.0, RATIO, hold_up),
    Bar(
        "libraries",
        "a request that waits",
        31,
        "kB",
        lambda run: float(run["libraries"]["memory"]["roamlet"] / 1000),
    ),
    Bar("wsgi", "Flask, 1 connection, per CPU second, roamlet / gevent", 1.0, RATIO, wsgi("query_1"), at_least=True),
    Bar(
        "wsgi", "Flask, 100 connections, per CPU second, roamlet / gevent", 1.1, RATIO, wsgi("query_100"), at_least=True
    ),
    Bar("wsgi", "Flask that waits, 100 connections, roamlet / gevent", 1.1, RATIO, wsgi("waiting_100"), at_least=True),
    Bar("aio", "an echo, 1 connection, roamlet.aio / asyncio", 1.1, RATIO, loops("echo_1")),
    Bar("aio", "an echo, 100 connections, roamlet.aio / asyncio", 1.1, RATIO, loops("echo_100")),
    Bar("aio", "a request by aiohttp, roamlet.aio / asyncio", 1.1, RATIO, loops("aiohttp")),
    Bar("aio", "a query by asyncpg, roamlet.aio / asyncio", 1.1, RATIO, loops("asyncpg")),
    *(
        Bar("aio", f"{title}, / create_task and await", 1.7, RATIO, loops(name))
        for name, title in (
            ("await_1", "await_"),
            ("await_100", "await_ in 100 tasklets"),
            ("wrap_1", "wrap"),
            ("wrap_100", "wrap in 100 tasks"),
        )
    ),
    *(
        Bar(
            "io",
            f"beside a computing thread, {title}",
            limit,
            RATIO,
            http("beside", 10, "per_s", ours, theirs),
            at_least=True,
        )
        for title, limit, ours, theirs in (
            ("roamlet / gevent", 15, "roamlet", "gevent"),
            ("responsive / gevent", 100, "roamlet, responsive", "gevent"),
            ("roamlet / gevent at 0.5 ms", 10, "roamlet, 0.5 ms", "gevent, 0.5 ms"),
        )
    ),
    Bar("io", "an idle connection", 6, "kB", lambda run: run["io"]["idle"]["roamlet"]["bytes"] / 1000),
    Bar("snapshot", "4 frames: save", 60, "us of CPU", chain(4, "save_us")),
    Bar("snapshot", "4 frames: restore", 30, "us of CPU", chain(4, "restore_us")),
    Bar("snapshot", "4 frames", 450, "bytes", chain(4, "bytes")),
    Bar("snapshot", "500 frames: save", 350, "us of CPU", chain(500, "save_us")),
    Bar("snapshot", "500 frames: restore", 350, "us of CPU", chain(500, "restore_us")),
    Bar("snapshot", "100,000 tasklets to a file and into another process", 15, "s", through_a_file),
    Bar("snapshot", "a move to a local context", 3, "ms", travel(0, "moves_s", 1e-3)),
    Bar("snapshot", "a block of roamlet.at in a local context", 3, "ms", travel(0, "blocks_s", 1e-3)),
    Bar("snapshot", "a move at 200 ms, by the clock", 2.1, "round trips", travel(200, "moves_s", 0.2)),
    Bar("ansible", "100 pings, wall, roamlet / stock", 0.22, RATIO, ansible("pings", "wall", "stock")),
    Bar("ansible", "100 pings, wall, roamlet / Mitogen", 0.7, RATIO, ansible("pings", "wall", "mitogen")),
    Bar(
        "ansible", "83 tasks, controller CPU, roamlet / Mitogen", 0.75, RATIO, ansible("tasks", "controller", "mitogen")
    ),
    Bar("ansible", "83 tasks, target CPU, roamlet / stock", 0.1, RATIO, ansible("tasks", "target", "stock")),
    Bar("ansible", "83 tasks, target CPU, roamlet / Mitogen", 1.0, RATIO, ansible("tasks", "target", "mitogen")),
    *(
        Bar("ansible", f"28 tasks at 80 ms, {title} run, wall, roamlet / Mitogen", 0.75, RATIO, rate)
        for which, title in (("first", "first"), ("again", "second"))
        for rate in [ansible("far", "wall", "mitogen", which)]
    ),
    *(
        Bar("ansible", f"14 tasks on {hosts} hosts, {title}, roamlet / Mitogen", 0.5, RATIO, rate)
        for name, hosts in (("several", 10), ("many", 50))
        for figure, title in (("target", "target CPU"), ("wall", "wall"))
        for rate in [ansible(name, figure, "mitogen")]
    ),
    Bar(
        "ansible",
        "14 tasks, wall of 50 hosts / 10 hosts",
        5.0,
        RATIO,
        lambda run: ansible_report.growth(run["ansible"]),
    ),
    Bar(
        "ansible",
        "1,000 files of 1 kB at 26 ms, wall, roamlet / Mitogen",
        0.9,
        RATIO,
        ansible("files", "wall", "mitogen"),
    ),
    Bar("ansible", "100 files of 1 kB at 26 ms, wall, roamlet / stock", 0.5, RATIO, ansible("few", "wall", "stock")),
    Bar(
        "ansible", "a file of 100 MB at 26 ms, wall, roamlet / Mitogen", 0.9, RATIO, ansible("large", "wall", "mitogen")
    ),
    Bar("ansible", "a file of 100 MB at 26 ms, wall, roamlet / stock", 0.5, RATIO, ansible("large", "wall", "stock")),
    Bar("ansible", "a fresh run's first task, wall, roamlet / stock", 1.0, RATIO, ansible("first", "wall", "stock")),
    Bar("ansible", "the same at 80 ms", 1.0, RATIO, ansible("first_far", "wall", "stock")),
    Bar("ansible", "results unlike stock's", 0, "values", lambda run: float(ansible_report.unlike(run["ansible"]))),
)


def verdicts(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The verdict on each bar of the parts that this run measured."""
    return [bar.verdict(run) for bar in BARS if bar.part in run]
