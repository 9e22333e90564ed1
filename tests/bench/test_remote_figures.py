"""The import and call figures run for both sides, with tiny counts. How long they take is not looked at."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.bare import bare_python, command
from bench.calls import measure as calls
from bench.files import measure as files
from bench.remote_import import measure as imports
from bench.remote_import.measure import Line
from bench.sides import SIDES
from bench.start import measure as start
from bench.stream import measure as stream
from bench.stream.worker import Streamer

MISSING = {"mitogen"} if find_spec("mitogen") is None else set()


@pytest.mark.skipif(find_spec("django") is None, reason="django is not installed")
@pytest.mark.skipif(find_spec("requests") is None, reason="requests is not installed")
def test_every_side_imports_the_whole_package_in_a_fresh_context() -> None:
    zero = (Line(0),)
    settings = imports.Settings(
        zero, 1, zero, 1, requests_lines=zero, requests_rounds=1, hop_line=Line(0), hop_rounds=1, scans=1
    )
    run = imports.measure(settings, lambda text: None)
    present = {"roamlet", "mitogen"} - MISSING
    assert {what.partition(",")[0] for what in run["skipped"]} == MISSING
    for kind in ("warm", "cold", "requests"):
        taken = {side: by_line["0 ms"] for side, by_line in run[kind].items()}
        assert set(taken) == present
        assert all(one["modules"] > 40 and one["import_down"] > 100_000 for one in taken.values())
        assert all(one["requests"] > 0 for side, one in taken.items() if side == "mitogen")
        if kind != "requests":
            assert len({one["modules"] for one in taken.values()}) == 1, (
                "the targets of the two sides do not have the same modules"
            )
    assert set(run["hops"]["import_s"]) == present
    assert all(len(hops["1"]) == len(hops["2"]) == 1 for hops in run["hops"]["import_s"].values())
    assert run["scan"]["modules"] > 100


def test_of_the_turns_the_fastest_is_chosen_and_where_luck_decides_the_median() -> None:
    turns = [{"import_s": seconds, "connect_s": 1 / seconds} for seconds in (3.0, 1.0, 2.0)]
    taken = imports.chosen({"roamlet": {"a": turns, "b": turns, "c": []}}, by_luck={"b"})
    assert taken["roamlet"]["a"] == {"import_s": 1.0, "connect_s": 1 / 3, "turns": [3.0, 1.0, 2.0]}
    assert taken["roamlet"]["b"]["import_s"] == 2.0
    assert "c" not in taken["roamlet"]


def test_a_line_says_what_it_is_like_in_words_and_to_the_relay() -> None:
    line = Line(80, rate=10, jitter=20, loss=1)
    assert (line.title, line.delays(7)) == ("80 ms, 10 Mbit/s, 20 ms jitter, 1 % lost", "0.08:0.02:0.01:7")
    assert (Line(0).title, Line(0).delays(0)) == ("0 ms", "0.0:0.0:0.0:0")


def test_calls_are_counted_for_every_side_and_for_bare_pipes() -> None:
    run = calls.measure(calls.Settings(rounds=1, turn=0.0), lambda text: None)
    assert set(run["skipped"]) == MISSING
    assert set(run["rates"]["one"]) == {"roamlet", "mitogen", "pipes"} - MISSING
    assert set(run["rates"]["many"]) == {"roamlet", "mitogen"} - MISSING
    assert all(taken["per_s"] > 0 for way in run["rates"].values() for taken in way.values())


def test_what_a_context_costs_is_taken_for_every_side() -> None:
    run = start.measure(start.Settings(rounds=1, contexts=2), lambda text: None)
    assert set(run["skipped"]) == MISSING
    assert set(run["contexts"]) == {"roamlet", "mitogen"} - MISSING
    for taken in run["contexts"].values():
        assert set(taken["turns"]) == {"seconds", "parent_cpu_s", "child_cpu_s", "parent_bytes", "child_bytes"}
        assert taken["child_cpu_s"] > 0
        assert taken["child_bytes"] > 1e6


def test_of_a_start_the_least_times_and_the_median_memory_count() -> None:
    taken = start.chosen([{"seconds": seconds, "parent_bytes": seconds} for seconds in (3.0, 1.0, 2.0)])
    assert (taken["seconds"], taken["parent_bytes"], taken["turns"]["seconds"]) == (1.0, 2.0, [3.0, 1.0, 2.0])


def test_a_file_arrives_on_every_side() -> None:
    run = files.measure(files.Settings(round_trips=(0,), size=600_000, rounds=1), lambda text: None)
    assert set(run["skipped"]) == MISSING
    assert all(run["rates"][side]["0"]["bytes_per_s"] > 0 for side in {"roamlet", "mitogen"} - MISSING)


def test_streams_are_counted_for_every_side_and_so_is_the_memory_of_one_that_is_taken_slowly() -> None:
    run = stream.measure(stream.Settings(rounds=1, turn=0.0, slow_count=4, pause=0.0), lambda text: None)
    assert {what.partition(",")[0] for what in run["skipped"]} == MISSING
    assert set(run["rates"]) == set(stream.KINDS)
    for taken in run["rates"].values():
        assert set(taken) == {"roamlet", "mitogen"} - MISSING
        assert all(one["per_s"] > 0 for one in taken.values())
    assert set(run["slow"]) == {"roamlet", "mitogen"} - MISSING
    assert all(one["above_start"] > 0 for one in run["slow"].values())


class Short(SIDES["roamlet"]):  # type: ignore[misc]
    def values(self, context: object, count: int, size: int) -> Iterator[object]:
        return iter([(0, "a value")] * (count - 1))


def test_a_stream_that_ends_too_early_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="9 of 10 values came"):
        Streamer(Short()).slowly(10, 0, 0.0)


def test_the_far_interpreter_is_our_version_and_has_nothing_of_ours(tmp_path: Path) -> None:
    python = command(tmp_path, "python", bare_python(tmp_path))
    program = "import sys; print(sys.version_info[:2], [p for p in sys.path if 'site-packages' in p], 'x' in sys.path)"
    shown = subprocess.run(
        [python, "-c", program],
        env={**os.environ, "PYTHONPATH": "x"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    packages = next((tmp_path / "bare" / "lib").glob("python*/site-packages"))
    assert list(packages.iterdir()) == []
    assert shown == f"{sys.version_info[:2]} ['{packages}'] False\n"
