"""The figures of delivery are taken, and say that large packages go once to an intermediary."""

from bench.delivery import measure as delivery
from bench.tables import delivery_table


def test_contexts_are_measured_one_after_the_other_and_in_the_next_run() -> None:
    taken = delivery.measure(delivery.Settings(rounds=1, contexts=2), lambda text: None)
    assert "numpy" in taken["packages"]
    assert set(taken["cpu_s"]) == set(taken["mb"]) == {"first", "second", "next run"}
    assert taken["mb"]["second"] < 2 < 5 < taken["mb"]["first"]
    table = delivery_table(taken)
    assert [len(row) for row in table.rows] == [3, 3, 3]
