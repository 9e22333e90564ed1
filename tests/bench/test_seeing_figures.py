"""The figures of a process that is looked at, with small numbers."""

import sys

import pytest

from bench.bars import looked_at, stopped_share
from bench.seeing.measure import Settings, _stops, measure


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")
def test_a_busy_process_is_measured_with_and_without_a_look() -> None:
    run = measure(Settings(turns=((50, 1.5),), rounds=1, interval=0.2, listings=1), lambda text: None)
    taken = run["looked_at"]["50"]
    assert taken["alone_per_s"] > 0 and taken["watched_per_s"] > 0 and taken["longest"] > 0
    assert taken["listed"] > 0
    assert taken["looks"] == 0 or taken["stop"] > 0  # it may be found without a processor each time


def test_stops_are_counted_once_for_each_look_at_tasklets() -> None:
    seen = [
        {"taken": taken, "age": age, "stopped": stopped}
        for taken, age, stopped in (
            (0.0, 0.0, 0.01),
            (1.0, 1.0, 0.01),
            (2.0, 0.0, 0.01),
            (3.0, 1.0, 0.01),
            (4.0, 0.0, 0.03),
        )
    ]
    assert _stops(seen) == ([0.01, 0.01, 0.03], 4.0)
    assert _stops(seen[:1]) == ([0.01], 0.0)
    assert _stops([]) == ([], 0.0)


def test_a_share_that_was_not_measured_is_no_verdict() -> None:
    with pytest.raises(KeyError):
        stopped_share(2000)({"seeing": {"looked_at": {"2000": {"share": None}}}})
    assert stopped_share(2000)({"seeing": {"looked_at": {"2000": {"share": 0.0071}}}}) == pytest.approx(0.71)


def test_figures_of_looks_have_their_units() -> None:
    run = {"seeing": {"looked_at": {"2000": {"stop": 0.0038, "listed": 0.4}}}}
    assert looked_at(2000, "stop", 1e-3)(run) == pytest.approx(3.8)
    assert looked_at(2000, "listed", 1.0)(run) == pytest.approx(0.4)
    with pytest.raises(KeyError):
        looked_at(2000, "stop", 1e-3)({"seeing": {"looked_at": {"2000": {"stop": None}}}})
