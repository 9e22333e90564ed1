"""What travels as arguments and results, over every version of Python: kinds, classes, refusals, large bytes."""

import datetime
import decimal
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import weft_kinds
import weft_registers
import weft_sent
import weft_stays

import weft
from tests.remote import interpreters
from tests.remote.raising import raises
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


def test_an_instance_goes_down_by_its_fields_with_its_module_and_no_constructor_runs(there):
    thing = weft_kinds.Thing("down", [weft_kinds.Point(1, 2)])
    name, inside, module, described, made = there.call(weft_kinds.describe, (thing,))
    assert (name, inside, module, made) == ("down", "[Point(x=1, y=2)]", "weft_kinds", [])
    assert described == "down: [Point(x=1, y=2)], 1"


def test_a_registered_class_comes_up_and_no_constructor_runs(there, registered):
    registered(weft_kinds.Thing)
    registered(weft_kinds.Point)
    before = list(weft_kinds.made)
    thing = there.call(weft_kinds.a_thing)["rows"][1]
    assert type(thing) is weft_kinds.Thing
    assert (thing.name, thing.inside) == ("over there", [weft_kinds.Point(1, 2)])
    assert weft_kinds.made == before


def test_a_class_that_is_not_registered_is_named_with_its_path_and_what_to_do(there, registered):
    with raises(
        remote.CannotTravel, match=r"it is a weft_kinds\.Thing.*call remote\.register\(Thing\) before"
    ) as caught:
        there.call(weft_kinds.a_thing)
    assert caught.value.path == "result['rows'][1]"
    registered(weft_kinds.Thing)
    with raises(remote.CannotTravel, match=r"remote\.register\(Point\)") as caught:
        there.call(weft_kinds.a_thing)
    assert caught.value.path == "result['rows'][1].inside[0]"
    assert there.call(weft_sent.add, (1, 2)) == 3


def test_register_refuses_what_is_no_class_and_what_only_c_code_knows(registered):
    with pytest.raises(TypeError, match=r"register takes a class.*remote\.register\(type\(value\)\)"):
        registered(weft_kinds.made)
    with pytest.raises(TypeError, match="hold what only C code knows"):
        registered(type(iter([])))


@pytest.mark.parametrize(
    ("function", "path", "why"),
    [
        (weft_kinds.generator, "result", r"generator; send list\(...\) of it"),
        (weft_kinds.a_thing_with_a_lock, "result['rows'][3].inside", "lock"),
        (weft_kinds.opened, "result['file']", "file|TextIOWrapper"),
    ],
)
def test_a_result_that_cannot_travel_is_named_and_harms_nothing(there, function, path, why):
    with raises(remote.CannotTravel, match=why) as caught:
        there.call(function)
    assert caught.value.path == path
    assert there.call(weft_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("version", [HAVE[0], HAVE[-1]])
def test_a_target_asks_once_for_what_its_results_need(version):
    with remote.local(interpreters.found()[version]) as context:
        for _ in range(2):
            assert context.call(datetime.date, (1970, 1, 1)) == datetime.date(1970, 1, 1)
            assert context.stats.round_trips == 1


def test_a_module_may_register_its_own_classes_at_its_top(there):
    assert there.call(weft_registers.doubled, (weft_registers.Reading(21),)).value == 42
    with pytest.raises(weft_registers.BrokenSensor, match="no signal"):
        there.call(weft_registers.broken, ("no signal",))


def test_an_argument_whose_module_fails_over_there_is_refused_by_name(there):
    why = r"echo was not run in .*importing its class weft_stays\.Stays failed: ValueError: not over there"
    with raises(remote.CannotTravel, match=why):
        there.call(weft_kinds.echo, (weft_stays.Stays(),))
    assert there.call(weft_sent.add, (1, 2)) == 3


def test_a_tasklet_is_not_taken_for_an_iterator_because_it_has_a_next(own):
    with raises(
        remote.CannotTravel,
        match=r"args\[0\] cannot travel: it is a weft\.tasklet, which holds something of this process",
    ):
        own.call(weft_kinds.echo, (weft.getcurrent(),))


def test_exceptions_come_as_values(own, registered):
    error = own.call(weft_kinds.echo, (ValueError("a", 1),))
    assert (type(error), error.args) == (ValueError, ("a", 1))
    with raises(remote.CannotTravel, match=r"register\(OwnError\)"):
        own.call(weft_kinds.return_own)
    registered(weft_kinds.OwnError)
    before = list(weft_kinds.made)
    (kept,) = own.call(weft_kinds.return_own)
    assert (type(kept), kept.args, kept.code) == (weft_kinds.OwnError, ("kept", 9), 9)
    assert weft_kinds.made == before


def test_an_exception_of_a_registered_class_is_raised_as_such(there, registered):
    with raises(remote.RemoteError, match=r"weft_kinds\.OwnError"):
        there.call(weft_kinds.raise_own)
    registered(weft_kinds.OwnError)
    before = list(weft_kinds.made)
    with raises(weft_kinds.OwnError) as caught:
        there.call(weft_kinds.raise_own, ("odd", 5))
    assert (caught.value.args, caught.value.code) == (("odd", 5), 5)
    assert "in raise_own" in caught.value.__notes__[0]
    assert weft_kinds.made == before


def test_what_an_exception_holds_does_not_hide_it(own):
    with raises(remote.RemoteError, match="ValueError"):
        own.call(weft_kinds.raise_with, (ValueError,))


def test_leaving_python_is_an_error_of_the_call_alone(there):
    with raises(remote.FunctionExited):
        there.call(weft_kinds.leave)
    assert there.call(weft_sent.add, (1, 2)) == 3


def test_a_kind_that_the_other_version_lacks_is_refused_in_the_caller_by_name():
    if "2.7" not in HAVE:
        pytest.skip("there is no Python 2.7 on this machine")
    with remote.local(interpreters.found()["2.7"]) as old:
        with raises(remote.CannotTravel, match=r"Python 2\.7 has no pathlib; send str\(...\) of the path"):
            old.call(weft_kinds.echo, (Path("/x"),))
        with raises(remote.CannotTravel, match=r"Python 2\.7 has no fold in times"):
            old.call(weft_kinds.echo, (datetime.time(1, fold=1),))
        assert old.call(weft_kinds.kind, (datetime.UTC,)) == "timezone"
        assert old.call(weft_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_large_bytes_go_both_ways_as_what_they_are(there, kind):
    data = kind(b"\1\2\xff") * 1_500_000
    back = there.call(weft_kinds.echo, ([data, {"more": data}, b"\xfe"],))
    assert back == [data, {"more": data}, b"\xfe"]
    assert type(back[0]) is kind


def test_one_megabyte_lists_of_large_bytes_share_the_link_with_small_calls(own, in_tasklets):
    data = b"\1" * 20_000_000

    def one(number):
        if number == 0:
            return own.call(weft_kinds.size_of, (data,))
        return own.call(weft_sent.add, (number, 0))

    assert in_tasklets(one, list(range(10))) == [20_000_000, *range(1, 10)]


def test_values_and_large_bytes_pass_through_other_contexts(own, registered):
    registered(weft_kinds.Thing)
    registered(weft_kinds.Point)
    data = b"\xff" * 3_000_000
    with remote.local(interpreters.found()[HAVE[0]], via=own) as behind:
        assert behind.call(weft_kinds.echo, ([data, datetime.date(2000, 1, 1)],)) == [data, datetime.date(2000, 1, 1)]
        assert behind.call(weft_kinds.a_thing)["rows"][1].name == "over there"


def test_a_result_beyond_the_chosen_limit_is_refused_by_name_and_not_stored(there):
    there.largest_result = 3_000_000
    try:
        with raises(
            remote.CannotTravel, match="takes 400000[0-9]+ bytes, and 3000000 may come up.*context.largest_result ="
        ):
            there.call(weft_kinds.big, (40_000_000,))
        assert len(there.call(weft_kinds.big, (2_900_000,))) == 2_900_000
    finally:
        there.largest_result = 1 << 30


@pytest.mark.parametrize("size", [0, -1, True, "5"])
def test_a_limit_that_is_none_is_refused(own, size):
    with pytest.raises(ValueError, match="largest_result must be a number of bytes"):
        own.largest_result = size


MEASURED = """
import os
import subprocess
import sys
import weft_kinds
from weft import remote

def peak(pid="self"):
    for line in open("/proc/%s/status" % pid):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

with remote.local() as context:
    context.call(weft_kinds.size_of, (b"1" * (1 << 21),))
    context.call(weft_kinds.big, (1 << 21,))
    pid, size = context.facts.pid, 256 << 20
    before, there = peak(), peak(pid)
    data = b"1" * size
    assert context.call(weft_kinds.size_of, (data,)) == size
    print((peak() - before) / size, (peak(pid) - there) / size)
    del data
    before = peak()
    assert len(context.call(weft_kinds.big, (size,))) == size
    print((peak() - before) / size)
"""


def test_a_quarter_of_a_gigabyte_costs_little_more_than_itself_on_either_side():
    done = subprocess.run(
        [sys.executable, "-c", MEASURED],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent / "sent")])},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    ratios = [float(word) for word in done.stdout.split()]
    assert len(ratios) == 3
    assert max(ratios) <= 1.3, ratios
