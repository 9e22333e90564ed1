"""The import and call figures run for both sides, with tiny counts. How long they take is not looked at."""

from importlib.util import find_spec

import pytest
from bench.calls import measure as calls
from bench.remote_import import measure as imports
from bench.remote_import.measure import Line

pytestmark = pytest.mark.skipif(find_spec("mitogen") is None, reason="mitogen is not installed")


@pytest.mark.skipif(find_spec("django") is None, reason="django is not installed")
def test_both_sides_import_the_same_modules_in_a_fresh_context() -> None:
    settings = imports.Settings(lines=(Line(0),), rounds=1, cold_lines=(Line(0),), cold_rounds=1)
    run = imports.measure(settings, lambda text: None)
    assert run["skipped"] == {}
    for kind in ("warm", "cold"):
        ours, theirs = run[kind]["weft"]["0 ms"], run[kind]["mitogen"]["0 ms"]
        assert ours["modules"] == theirs["modules"] > 100
        assert ours["import_down"] > 100_000
        assert theirs["requests"] > 0


def test_calls_are_counted_for_both_sides_and_for_bare_pipes() -> None:
    run = calls.measure(calls.Settings(rounds=1, turn=0.0, contexts=1, context_rounds=1), lambda text: None)
    assert run["skipped"] == {}
    assert set(run["rates"]["one"]) == {"weft", "mitogen", "pipes"}
    assert set(run["rates"]["many"]) == set(run["contexts"]) == {"weft", "mitogen"}
    assert all(taken["per_s"] > 0 for way in run["rates"].values() for taken in way.values())
