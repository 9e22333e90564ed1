"""The figures of event loops are taken, with tiny counts. How fast they are is not looked at."""

from bench.aio import measure as aio
from bench.bars import verdicts
from bench.tables import aio_table


def test_every_figure_has_both_sides_and_a_row() -> None:
    taken = aio.measure(aio.Settings(rounds=1, echoes=200, requests=100, others=200), lambda text: None)
    skipped = taken.pop("skipped")
    assert skipped.keys() <= {"aiohttp", "asyncpg"}  # they want a server, or a package
    assert taken.keys() | skipped.keys() == aio.FIGURES.keys()
    for one in taken.values():
        assert one["roamlet_us"] > 0 and one["asyncio_us"] > 0 and len(one["turns"]) == 1
    assert [row[0] for row in aio_table(taken).rows] == [
        title for name, (title, *_) in aio.FIGURES.items() if name in taken
    ]
    assert len(verdicts({"aio": taken})) == 8 - len(skipped)
