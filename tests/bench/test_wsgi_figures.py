"""The figures of gunicorn's workers are taken, with tiny counts. How fast they are is not looked at."""

from bench.bars import verdicts
from bench.tables import wsgi_table
from bench.wsgi import measure as wsgi


def test_every_figure_has_all_sides_and_a_row() -> None:
    taken = wsgi.measure(wsgi.Settings(rounds=1, requests=100), lambda text: None)
    assert taken.keys() == wsgi.FIGURES.keys()
    for one in taken.values():
        assert all(one[side] > 0 for side in wsgi.SIDES) and len(one["turns"]) == 1
    assert [row[0] for row in wsgi_table(taken).rows] == [title for title, *_ in wsgi.FIGURES.values()]
    assert len(verdicts({"wsgi": taken})) == 3
