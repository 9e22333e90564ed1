"""The figures of libraries are taken, with tiny counts. How fast they are is not looked at."""

import pytest

from bench.bars import verdicts
from bench.libraries import measure as libraries
from bench.tables import libraries_table


@pytest.mark.timeout(400)  # the first run downloads the servers
def test_every_figure_has_all_sides_and_a_row() -> None:
    tiny = libraries.Settings(rounds=1, operations=10, together=5, waiting=5, milliseconds=200)
    taken = libraries.measure(tiny, lambda text: None)
    if without := taken["skipped"].keys() & libraries.STARTED.keys():
        pytest.skip(", ".join(f"{name}: {taken['skipped'][name]}" for name in sorted(without)))
    assert taken["skipped"] == {}
    assert taken["cpu"].keys() == taken["gap"].keys() == libraries.FIGURES.keys()
    assert all(one[side] > 0 for one in taken["cpu"].values() for side in (*libraries.SIDES, libraries.ALONE, "floor"))
    assert all(held[side] > 0 for held in taken["gap"].values() for side in ("roamlet", "gevent"))
    assert [row[0] for row in libraries_table(taken).rows] == [title for title, _ in libraries.FIGURES.values()]
    assert all(verdict["value"] is not None for verdict in verdicts({"libraries": taken}))
