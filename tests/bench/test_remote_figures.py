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
from bench.stream import measure as stream
from bench.stream.worker import Streamer

MISSING = {"mitogen"} if find_spec("mitogen") is None else set()


@pytest.mark.skipif(find_spec("django") is None, reason="django is not installed")
def test_every_side_imports_the_whole_package_in_a_fresh_context() -> None:
    settings = imports.Settings(lines=(Line(0),), rounds=1, cold_lines=(Line(0),), cold_rounds=1)
    run = imports.measure(settings, lambda text: None)
    assert set(run["skipped"]) == MISSING
    for kind in ("warm", "cold"):
        taken = {side: by_line["0 ms"] for side, by_line in run[kind].items()}
        assert set(taken) == {"weft", "mitogen"} - MISSING
        assert len({one["modules"] for one in taken.values()}) == 1, "the sides do not have the same modules over there"
        assert all(one["modules"] > 100 and one["import_down"] > 100_000 for one in taken.values())
        assert all(one["requests"] > 0 for side, one in taken.items() if side == "mitogen")


def test_calls_are_counted_for_every_side_and_for_bare_pipes() -> None:
    run = calls.measure(calls.Settings(rounds=1, turn=0.0, contexts=1, context_rounds=1), lambda text: None)
    assert set(run["skipped"]) == MISSING
    assert set(run["rates"]["one"]) == {"weft", "mitogen", "pipes"} - MISSING
    assert set(run["rates"]["many"]) == set(run["contexts"]) == {"weft", "mitogen"} - MISSING
    assert all(taken["per_s"] > 0 for way in run["rates"].values() for taken in way.values())


def test_a_file_arrives_on_every_side() -> None:
    run = files.measure(files.Settings(round_trips=(0,), size=600_000, rounds=1), lambda text: None)
    assert set(run["skipped"]) == MISSING
    assert all(run["rates"][side]["0"]["bytes_per_s"] > 0 for side in {"weft", "mitogen"} - MISSING)


def test_streams_are_counted_for_every_side_and_so_is_the_memory_of_one_that_is_taken_slowly() -> None:
    run = stream.measure(stream.Settings(rounds=1, turn=0.0, slow_count=4, pause=0.0), lambda text: None)
    assert {what.partition(",")[0] for what in run["skipped"]} == MISSING
    assert set(run["rates"]) == set(stream.KINDS)
    for taken in run["rates"].values():
        assert set(taken) == {"weft", "mitogen"} - MISSING
        assert all(one["per_s"] > 0 for one in taken.values())
    assert set(run["slow"]) == {"weft", "mitogen"} - MISSING
    assert all(one["above_start"] > 0 for one in run["slow"].values())


class Short(SIDES["weft"]):  # type: ignore[misc]
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
