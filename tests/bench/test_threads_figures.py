"""The figures of threads that hand over are taken for both. How fast they are is not looked at."""

from bench.bars import verdicts
from bench.tables import threads_table
from bench.threads import measure as threads
from bench.threads.pairs import PAIRS


def test_each_kind_of_hand_over_is_counted_for_both() -> None:
    taken = threads.measure(threads.Settings(rounds=1, operations=20), lambda text: None)
    for rates in taken["rates"].values():
        assert list(rates) == list(PAIRS)
        assert all(one["per_s"] > 0 for kind in rates.values() for one in (kind["roamlet"], kind["threading"]))
    table = threads_table(taken)
    assert [row[0] for row in table.rows] == list(PAIRS)
    assert all(len(row) == len(table.heads) for row in table.rows)
    bars = verdicts({"threads": taken})
    assert [bar["value"] is not None for bar in bars] == [True] * 4 + ["2" in taken["rates"]] * 4
