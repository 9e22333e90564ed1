"""The figures of fleets are taken, and what is computed from them follows from costs that are known."""

import pytest

from bench.bars import verdicts
from bench.fleets import measure as fleets
from bench.fleets.simulation import Costs, simulated
from bench.tables import fleet_tables

COSTS = Costs(
    direct_cpu=2e-3,
    behind_cpu=1e-3,
    hub_cpu=5e-3,
    call_cpu=1e-4,
    direct_call_cpu=2e-4,
    direct_bytes=30_000,
    behind_bytes=20_000,
    direct_descriptors=4.0,
    line=0.5,
)


def test_contexts_are_measured_directly_and_behind_hubs() -> None:
    settings = fleets.Settings(number=9, direct=3, most=3, turns=2, simulated=(100,))
    taken = fleets.measure(settings, lambda text: None)
    direct, behind = taken["measured"]["directly"], taken["measured"]["hubs"]
    assert (direct["hubs"], behind["hubs"]) == (0, 3)  # 4, 4 and 1
    assert direct["descriptors"] >= 3 > behind["descriptors"] > 0
    assert all(one["cpu_ms"] > 0 and len(one["call_s"]) == 2 for one in taken["measured"].values())
    assert [len(table.rows) for table in fleet_tables(taken)] == [2, 3]


def test_bars_are_of_a_thousand_contexts_alone() -> None:
    few = {"number": 60, "cpu_ms": 1.0, "kb": 20.0, "descriptors": 0.04, "call_s": [0.1]}
    for number, met in ((60, None), (1000, True)):
        run = {"fleets": {"measured": {"hubs": few | {"number": number}}}}
        of_fleets = [bar["met"] for bar in verdicts(run) if bar["part"] == "fleets"]
        assert of_fleets == [met] * 4


def test_a_single_host_takes_the_parent_and_the_line() -> None:
    one = simulated(1, 0, 32, COSTS)
    assert one["open_s"] == pytest.approx(0.502)
    assert (one["hubs"], one["descriptors"], one["mb"]) == (0, 4.0, 0.03)


def test_few_at_a_time_wait_for_the_line_and_many_for_the_cpu() -> None:
    assert simulated(100, 0, 10, COSTS)["open_s"] == pytest.approx(10 * 0.502, rel=0.05)
    assert simulated(100_000, 0, 100_000, COSTS)["open_s"] == pytest.approx(200.5, rel=0.01)


def test_hubs_take_cpu_descriptors_and_memory_off_the_parent_and_take_turns_themselves() -> None:
    flat, tree = simulated(10_000, 0, 10_000, COSTS), simulated(10_000, 99, 10_000, COSTS)
    assert (tree["hubs"], tree["descriptors"]) == (100, 400)
    assert tree["cpu_s"] == pytest.approx(100 * 2e-3 + 9_900 * 1e-3)
    assert flat["cpu_s"] == pytest.approx(20.0)
    assert tree["mb"] < flat["mb"] and tree["call_s"] < flat["call_s"]
    one_hub = simulated(1001, 1000, 1001, COSTS)
    assert one_hub["open_s"] == pytest.approx(0.502 + 1000 * 5e-3 + 0.5, rel=0.01)
