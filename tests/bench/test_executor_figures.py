"""The figures of executors are taken for each side that is installed. How fast they are is not looked at."""

from bench.executor import measure as executor
from bench.tables import executor_table


def test_each_executor_is_measured_or_says_why_not() -> None:
    settings = executor.Settings(rounds=1, operations=20, count=10, workers=2)
    taken = executor.measure(settings, lambda text: None)
    assert set(taken["no_op_us"]) | set(taken["skipped"]) == set(executor.SIDES)
    assert {"roamlet", "calls", "processes"} <= set(taken["used"])
    assert all(one > 0 for part in ("no_op_us", "used") for one in taken[part].values())
    table = executor_table(taken)
    assert all(len(row) == len(table.heads) for row in table.rows) and len(table.rows) >= 3
