"""The figures of what threads sleep on are taken for each primitive. How fast they are is not looked at."""

import pytest

from bench.sleeping import measure as sleeping
from bench.tables import sleeping_table


def test_each_primitive_is_measured_by_the_clock_and_in_cpu() -> None:
    taken = sleeping.measure(sleeping.Settings(rounds=1, turns=20), lambda text: None)
    assert not taken["skipped"]
    for by_kind in taken["ns"].values():
        assert list(by_kind) == list(sleeping.KINDS)
        assert all(one["wall"] > 0 and one["cpu"] > 0 for one in by_kind.values())
    table = sleeping_table(taken)
    assert [row[0] for row in table.rows] == list(sleeping.KINDS.values())
    assert all(len(row) == len(table.heads) for row in table.rows)


def test_without_a_compiler_the_part_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: "no-such-compiler")
    taken = sleeping.measure(sleeping.Settings(rounds=1, turns=20), lambda text: None)
    assert "no-such-compiler" in taken["skipped"]["everything"]
    assert not sleeping_table(taken).rows
