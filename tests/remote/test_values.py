"""What travels as arguments and results, over every version of Python: kinds, classes, refusals, large bytes."""

import datetime
import decimal
import uuid

import pytest
import weft_kinds

from tests.remote import interpreters
from weft import remote
from weft.remote import _values

HAVE = list(interpreters.found())
EVERYWHERE = [
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.UTC),
    datetime.timedelta(1, 2, 3),
    decimal.Decimal("1.50"),
    uuid.UUID(int=5),
    weft_kinds.Point(1, [2]),
]


@pytest.fixture(scope="module", params=HAVE)
def there(request):
    """One context of each version."""
    with remote.local(interpreters.found()[request.param]) as context:
        yield context


@pytest.fixture
def own():
    with remote.local() as context:
        yield context


@pytest.fixture
def registered(monkeypatch):
    """`register` for the length of a test."""
    monkeypatch.setattr(_values, "_registered", {})
    return remote.register


def test_kinds_that_every_version_has_go_there_and_come_back(there, registered):
    registered(weft_kinds.Point)
    back = there.call(weft_kinds.echo, (EVERYWHERE,))
    assert [type(value) for value in back] == [type(value) for value in EVERYWHERE]
    assert back == EVERYWHERE
