"""The figures of Dask clusters are taken for each side that is installed. How fast they are is not looked at."""

import pytest

from bench.clusters import measure as clusters
from bench.tables import clusters_table

pytest.importorskip("distributed", reason="the peer")
pytest.importorskip("pyarrow", reason="what is preloaded")


@pytest.mark.once(reason="contexts and Dask's event loop do the same on each switching backend")
@pytest.mark.exhaustive(reason="four clusters; tests/remote/dask shows that they work")
def test_each_cluster_is_measured_or_says_why_not() -> None:
    taken = clusters.measure(clusters.Settings(rounds=1, workers=1, repeats=1), lambda text: None)
    assert set(taken["ready_s"]) | set(taken["skipped"]) == set(clusters.SIDES)
    assert "roamlet" in taken["ready_s"] and taken["close_s"]["roamlet"] < 60
    table = clusters_table(taken)
    assert len(table.rows) == len(taken["ready_s"]) and all(len(row) == len(table.heads) for row in table.rows)
