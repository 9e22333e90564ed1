"""The figures of call_async are taken for every peer, with tiny counts. How fast they are is not looked at."""

from importlib.util import find_spec

from bench.bars import verdicts
from bench.call_async import measure as call_async
from bench.tables import call_async_table

MISSING = {"gevent"} if find_spec("gevent") is None else set()


def test_calls_to_workers_are_counted_for_every_peer() -> None:
    taken = call_async.measure(call_async.Settings(rounds=1, turn=0.0), lambda text: None)
    assert set(taken["skipped"]) == MISSING
    for which in ("one", "many"):
        assert set(taken["rates"][which]) == {"roamlet", "asyncio", "gevent", "futures"} - MISSING
        assert all(one["per_s"] > 0 for one in taken["rates"][which].values())
    table = call_async_table(taken)
    assert [row[0] for row in table.rows][:2] == ["roamlet.call_async", "asyncio.to_thread"]
    bars = verdicts({"call_async": taken})
    assert [bar["value"] is not None for bar in bars] == [True, True]
