"""From figures to verdicts, tables and the docs' page: pure, so nothing is measured here."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as command
from bench.bars import verdicts
from bench.page import page
from bench.tables import tables
from roamlet_bench import server
from roamlet_bench.show import Table, plain, show


def timed(ns: float) -> dict[str, Any]:
    return {"ns": ns, "unit_ns": 20.0, "operations": 1, "turns": [ns]}


def imported(seconds: float, turnarounds: int) -> dict[str, Any]:
    counts = {"modules": 162, "requests": 0, "import_turnarounds": turnarounds, "argv": 500}
    sizes = {"import_down": 450_000, "sent_behind": 0, "import_up": 300, "connect_down": 20_000}
    times = {"connect_s": 0.1 + seconds / 10, "import_s": seconds, "parent_cpu_s": 0.01}
    return {**counts, **sizes, **times, "turns": [seconds, seconds + 0.1]}


REMOTE_AND_CORE = ("core", "import", "calls", "stream", "start", "snapshot")  # the parts of a_run()


def a_run() -> dict[str, Any]:
    message = {"roamlet": timed(50.0), "roamlet on greenlet": timed(660.0), "gevent": timed(2700.0)}
    figures = {"message": message, "create": {"roamlet": timed(200.0)}}
    warm = {
        "roamlet": {"0 ms": imported(0.4, 1), "200 ms": imported(0.6, 1)},
        "mitogen": {"0 ms": imported(0.5, 13), "200 ms": imported(3.0, 13)},
    }
    rates = {"roamlet": {"per_s": 8000.0, "turns": [8000.0]}, "mitogen": {"per_s": 5000.0, "turns": [5000.0]}}
    run: dict[str, Any] = {
        "taken": "2026-01-01T00:00:00+00:00",
        "quick": True,
        "machine": {"processor": "a processor", "cores": 2, "memory_bytes": 2**34, "system": "Linux", "load": [0.1]},
        "versions": {"python": "CPython 3.12.1", "compiler": "gcc", "roamlet": "0.1", "mitogen": "0.3"},
        "core": {
            "unit_ns": 20.0,
            "times": figures,
            "blocked": {"roamlet": {"1": 2600.0}},
            "members": 1000,
            "million": {"roamlet": {"seconds": 0.2, "bytes": 200e6}},
            "many": 100_000,
            "skipped": {},
        },
        "import": {
            "first": {"roamlet": {}, "mitogen": {}},
            "warm": warm,
            "cold": {},
            "requests": {side: {"200 ms": taken["200 ms"]} for side, taken in warm.items()},
            "hops": {
                "line": "200 ms",
                "round_trip": 0.2,
                "import_s": {"roamlet": {"1": [0.7, 0.6], "2": [0.8]}, "mitogen": {"1": [3.0], "2": []}},
            },
            "scan": {"seconds": 0.12, "modules": 230, "bytes": 580_000, "turns": [0.12, 0.2]},
            "skipped": {},
        },
        "start": {
            "count": 50,
            "contexts": {
                "roamlet": {
                    **(costs := dict.fromkeys(("seconds", "parent_cpu_s", "child_cpu_s"), 0.05)),
                    **(bytes_ := dict.fromkeys(("parent_bytes", "child_bytes"), 70e3)),
                    "turns": {key: [value, 2 * value] for key, value in {**costs, **bytes_}.items()},
                }
            },
            "skipped": {},
        },
        "stream": {
            "rates": {kind: dict(rates) for kind in ("values", "64 KiB")},
            "sizes": {"values": 0, "64 KiB": 65536},
            "slow": {
                "roamlet": {"above_start": 20e6, "seconds": 1.0},
                "mitogen": {"above_start": 300e6, "seconds": 1.0},
            },
            "slow_bytes": 2**28,
            "skipped": {},
        },
        "snapshot": {
            "frames": {
                "4": {
                    "roamlet": {"bytes": 388, "save_us": 18.0, "restore_us": 31.0},
                    "pickle": {"bytes": 232, "save_us": 4.0, "restore_us": 4.0},
                }
            },
            "many": {
                "roamlet": {
                    "save": {"seconds": 0.3, "bytes": 1_700_000, "before": 40e6, "peak": 60e6},
                    "restore": {"seconds": 0.2, "before": 40e6, "peak": 80e6},
                }
            },
            "count": 10_000,
            "travel": {"0": {"calls_s": 0.0001, "moves_s": 0.0005, "blocks_s": 0.0008}},
            "skipped": {"travel, 200 ms": "no line"},
        },
        "calls": {
            "rates": {"one": rates, "many": {}},
            "at_once": 100,
            "skipped": {"pipes": "none here"},
        },
    }
    run["bars"] = verdicts(run)
    return run


def verdict(run: dict[str, Any], title: str) -> Any:
    return next(bar for bar in run["bars"] if bar["title"] == title)


def test_a_figure_within_its_bar_is_met_and_one_beyond_it_is_missed() -> None:
    run = a_run()
    assert (verdict(run, "message")["value"], verdict(run, "message")["met"]) == (2.5, True)
    assert (verdict(run, "create + run + finish")["value"], verdict(run, "create + run + finish")["met"]) == (
        10.0,
        False,
    )
    assert verdict(run, "a million made and ended")["value"] == pytest.approx(2.0)
    assert verdict(run, "a million blocked")["value"] == pytest.approx(2.0)
    assert verdict(run, "schedule, 10 tasklets")["met"] is None
    assert verdict(run, "round trips beyond the call")["value"] == 0
    assert verdict(run, "seconds at 200 ms, roamlet / Mitogen")["met"] is True
    assert verdict(run, "one at a time, roamlet / Mitogen")["value"] == pytest.approx(1.6)


def test_imports_are_judged_by_round_trips_bytes_seconds_and_hops() -> None:
    run = a_run()
    for title, value in {
        "sent down by the call": 0.45,
        "requests: round trips beyond the call": 0,
        "requests: sent down, with certificates": 0.45,
        "scan of Django, cold": 120,
        "one hop more, by the clock": 1.0,
    }.items():
        assert verdict(run, title)["value"] == pytest.approx(value), title
    assert verdict(run, "requests: sent down, with certificates")["met"] is False
    assert verdict(run, "at 80 ms and 10 Mbit/s")["met"] is None
    text = plain(next(table for table in tables(run) if "another hop" in table.title))
    assert text.splitlines()[2].split()[-3:] == ["0.60", "0.80", "1.0"]
    assert text.splitlines()[3].split()[-3:] == ["3.00", "-", "-"]
    assert "120 ms for 230 modules (others 200)" in text
    run["import"]["scan"] = {}
    run["import"]["hops"]["import_s"] = {}
    run["bars"] = verdicts(run)
    assert verdict(run, "scan of Django, cold")["met"] is verdict(run, "one hop more, by the clock")["met"] is None
    assert tables(run)


def test_starts_are_judged_by_cpu_and_memory_and_shown_with_their_spread() -> None:
    run = a_run()
    titles = ("the child's CPU for a bootstrap", "the parent's CPU for a context", "the parent's memory for a context")
    assert [verdict(run, title)["met"] for title in titles] == [True, False, True]
    text = plain(next(table for table in tables(run) if "one context costs" in table.title))
    assert "50.0 (50.0 to 100.0)" in text
    assert "70.0 (70.0 to 140.0)" in text


def test_streams_are_judged_by_their_rates_and_by_what_the_parent_holds() -> None:
    run = a_run()
    assert verdict(run, "small values a second, roamlet / Mitogen")["value"] == pytest.approx(1.6)
    assert verdict(run, "bytes in 64 KiB a second, roamlet / Mitogen")["met"] is True
    assert verdict(run, "bytes in 1 MiB a second, roamlet / Mitogen")["met"] is None
    assert verdict(run, "the parent's peak above its start, taken slowly")["value"] == 20.0
    text = plain(next(table for table in tables(run) if "stream" in table.title))
    assert "524.3" in text, "8000 blocks of 64 KiB are 524.3 MB"
    assert "300.0" in text


def test_snapshots_are_judged_by_time_bytes_and_how_far_many_come_and_one_travels() -> None:
    run = a_run()
    for title, value, met in (
        ("4 frames: save", 18.0, True),
        ("4 frames: restore", 31.0, False),
        ("4 frames", 388, True),
        ("500 frames: save", None, None),
        ("100,000 tasklets to a file and into another process", 5.0, True),  # ten times the 10,000 that were tried
        ("a move to a local context", 0.5, True),
        ("a move at 200 ms, by the clock", None, None),
    ):
        assert verdict(run, title)["value"] == (None if value is None else pytest.approx(value)), title
        assert verdict(run, title)["met"] is met, title
    chains, many = (table for table in tables(run) if table.title.startswith("Snapshots"))
    assert chains.rows[0] == ["4", "a tasklet of roamlet", "388", "18.0", "31.0"]
    assert many.rows == [["a tasklet of roamlet", "0.30", "1.7", "0.20", "60", "80"]]


def test_a_figure_that_is_missing_from_the_run_has_no_verdict() -> None:
    run = a_run()
    assert verdict(run, "schedule, 10 tasklets")["met"] is None
    assert verdict(run, "100 at once, roamlet / Mitogen")["met"] is None


def test_parts_that_did_not_run_have_no_bars() -> None:
    run = a_run()
    for part in REMOTE_AND_CORE:
        if part != "calls":
            del run[part]
    assert {bar["part"] for bar in verdicts(run)} == {"calls"}


def test_every_row_of_every_table_has_a_cell_for_each_head() -> None:
    made = tables(a_run())
    assert len(made) >= 6
    for table in made:
        assert all(len(row) == len(table.heads) for row in table.rows), table.title


def test_a_run_of_one_part_alone_can_be_shown_too() -> None:
    for part in REMOTE_AND_CORE:
        run = {key: value for key, value in a_run().items() if key not in {*REMOTE_AND_CORE} - {part}}
        run["bars"] = verdicts(run)
        assert part in plain(tables(run)[-1])


def test_tables_are_plain_text_where_nobody_looks() -> None:
    out = io.StringIO()
    show(Table("A title", ["", "ns"], [["message", "90.0"]], ["a note"]), out)
    assert out.getvalue().splitlines() == ["A title", "             ns", "  message  90.0", "  a note", ""]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("columns", "lines_between"), [(60, True), (20, False)])
def test_a_terminal_gets_lines_between_the_columns_where_there_is_room_and_all_figures_anyway(
    columns: int, lines_between: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = Terminal()
    show(Table("A title", ["Python", "something", "else"], [["3.12.1", "37.1k", "1.23M"]]), out)
    assert ("│" in out.getvalue()) is lines_between
    assert all(word in out.getvalue() for word in ("Python", "something", "3.12.1", "37.1k", "1.23M"))


def test_the_page_says_what_it_was_taken_on_and_holds_all_tables(tmp_path: Path) -> None:
    run = a_run()
    source, target = tmp_path / "run.json", tmp_path / "benchmarks.md"
    source.write_text(json.dumps(run))
    assert command.main(["render", str(source), str(target)]) == 0
    text = target.read_text()
    assert text == page(run)
    assert "a processor, 2 cores, 16 GiB" in text
    assert "CPython 3.12.1 (gcc); roamlet 0.1, mitogen 0.3" in text
    assert "does not model TCP slow start" in text
    assert all(f"## {table.title}" in text for table in tables(run))


def test_a_page_of_several_runs_says_which_part_is_of_which(tmp_path: Path) -> None:
    first, second = a_run(), a_run()
    parts = [part for part in command.PARTS if part in first and part not in ("gil", "server")]
    kept, anew = parts[0], parts[1]
    second = {key: value for key, value in second.items() if key not in command.PARTS or key == anew}
    second["taken"] = "2031-01-01T00:00:00"
    files = [tmp_path / "first.json", tmp_path / "second.json"]
    for file, run in zip(files, (first, second), strict=True):
        file.write_text(json.dumps(run))
    target = tmp_path / "benchmarks.md"
    assert command.main(["render", *map(str, files), str(target)]) == 0
    lines = [line for line in target.read_text().splitlines() if ": taken " in line]
    assert len(lines) == 2
    assert kept in lines[0]
    assert anew not in lines[0].partition(":")[0]
    assert lines[1].startswith(f"- {anew}: taken 2031-01-01")


def test_a_part_that_does_not_exist_is_refused_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.parse(["coer"])
    assert "no part 'coer' to measure; there are: core, import, calls" in capsys.readouterr().err


def test_what_was_skipped_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    command.report(a_run())
    assert "calls: no figures of pipes: none here" in capsys.readouterr().out


def threads_run() -> dict[str, Any]:
    """A run of gil and server, with roamlet.threads twice as fast everywhere."""

    def of(name: str, factor: float, interval: float) -> dict[str, Any]:
        variant = {"name": name, "version": "3.12.1", "interval": interval, "title": f"{name} {interval}"}
        return {
            "variant": {
                **variant,
                "under": name if name.startswith("roamlet.") else "",
                "responsive": False,
            },
            "factor": factor,
        }

    variants = [
        of("threads", 1, 0.005),
        of("roamlet.threads", 2, 0.005),
        of("roamlet.threads", 2, 0.0005),
        of("roamlet.patch", 2, 0.005),
        of("Flask, roamlet.patch", 2, 0.005),
    ]
    run = {key: value for key, value in a_run().items() if key not in REMOTE_AND_CORE}
    run["gil"] = {"cores": 0, "skipped": {}, "failed": {}, "rows": []}
    run["server"] = {"connections": [1, 10], "skipped": {"3.12.1 gevent": "not here"}, "failed": {}, "rows": []}
    for one in variants:
        factor, variant = one["factor"], one["variant"]
        rate = {"value": 1000.0 * factor}
        run["gil"]["rows"].append({"variant": variant, "efficiency": {"value": 0.99}, "lock": rate, "lock+cpu": rate})
        load = {**rate, "busy": 0.99, "p99": 0.002, "cpu_us": 50.0, "switches": 3.0, "computing": 0.5}
        run["server"]["rows"].append({"variant": variant, **dict.fromkeys(("1", "10", "1+cpu", "10+cpu"), load)})
    run["bars"] = verdicts(run)
    return run


def test_threads_and_servers_have_a_page_of_their_own_with_plots(tmp_path: Path) -> None:
    source, target = tmp_path / "run.json", tmp_path / "threads-and-io.md"
    source.write_text(json.dumps(threads_run()))
    assert command.main(["render", str(source), str(target)]) == 0
    text = target.read_text()
    assert "# Threads, the GIL and servers" in text
    assert "| server: 10 connections, roamlet.threads / threads | 2.000 | >= 1.3 | x | met |" in text
    assert "| 3.12.1 | roamlet.threads | 0.5 ms | 0.99 | 2.00k |" in text
    for name in ("threads-gil.svg", "threads-server.svg"):
        assert f"]({name})" in text
        assert (tmp_path / name).read_text().startswith("<svg")


def test_the_page_of_a_run_of_everything_leaves_the_threads_to_theirs() -> None:
    run = {**threads_run(), **a_run()}
    run["bars"] = verdicts(run)
    assert page(run) == page(a_run())


def test_a_figure_that_the_load_limited_is_marked() -> None:
    table, beside, compared = server.tables(threads_run()["server"])
    assert compared.rows == [["3.12.1", "5 ms", *["2.00"] * 4, "50", "50", "-", "3.0", "3.0", "-"]]
    assert beside.rows[0] == ["threads", "3.12.1", "-", "5 ms", "1.000", "1.000", "0.50", "0.50", "2.0", "2.0"]
    assert table.rows[0] == ["threads", "3.12.1", "nothing", "-", "5 ms", *["1.00k+"] * 4, "50", "2.0"]
