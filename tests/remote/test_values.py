"""What travels as arguments and results, over every version of Python: kinds, classes, refusals, large bytes."""

import datetime
import decimal
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import roamlet_kinds
import roamlet_registers
import roamlet_sent
import roamlet_stays

import roamlet
from roamlet import remote
from roamlet.remote.values import registry
from tests.remote import interpreters
from tests.remote.raising import raises

HAVE = list(interpreters.found())
EVERYWHERE = [
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.UTC),
    datetime.timedelta(1, 2, 3),
    decimal.Decimal("1.50"),
    uuid.UUID(int=5),
    roamlet_kinds.Point(1, [2]),
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
    monkeypatch.setattr(registry, "_registered", {})
    return remote.register


def test_kinds_that_every_version_has_go_there_and_come_back(there, registered):
    registered(roamlet_kinds.Point)
    back = there.call(roamlet_kinds.echo, (EVERYWHERE,))
    assert [type(value) for value in back] == [type(value) for value in EVERYWHERE]
    assert back == EVERYWHERE


def test_an_instance_goes_down_by_its_fields_with_its_module_and_no_constructor_runs(there):
    thing = roamlet_kinds.Thing("down", [roamlet_kinds.Point(1, 2)])
    name, inside, module, described, made = there.call(roamlet_kinds.describe, (thing,))
    assert (name, inside, module, made) == ("down", "[Point(x=1, y=2)]", "roamlet_kinds", [])
    assert described == "down: [Point(x=1, y=2)], 1"


def test_instances_in_a_large_message_go_both_ways(there, registered):
    registered(roamlet_kinds.Point)
    large = [roamlet_kinds.Point(1, "x" * (1 << 20)), roamlet_kinds.Point(2, [3])]
    assert there.call(roamlet_kinds.echo, (large,)) == large


def test_a_registered_class_comes_up_and_no_constructor_runs(there, registered):
    registered(roamlet_kinds.Thing)
    registered(roamlet_kinds.Point)
    before = list(roamlet_kinds.made)
    thing = there.call(roamlet_kinds.a_thing)["rows"][1]
    assert type(thing) is roamlet_kinds.Thing
    assert (thing.name, thing.inside) == ("a thing", [roamlet_kinds.Point(1, 2)])
    assert roamlet_kinds.made == before


def test_a_class_that_is_not_registered_is_named_with_its_path_and_what_to_do(there, registered):
    with raises(
        remote.CannotTravel, match=r"it is a roamlet_kinds\.Thing.*call remote\.register\(Thing\) before"
    ) as caught:
        there.call(roamlet_kinds.a_thing)
    assert caught.value.path == "result['rows'][1]"
    registered(roamlet_kinds.Thing)
    with raises(remote.CannotTravel, match=r"remote\.register\(Point\)") as caught:
        there.call(roamlet_kinds.a_thing)
    assert caught.value.path == "result['rows'][1].inside[0]"
    assert there.call(roamlet_sent.add, (1, 2)) == 3


def test_register_refuses_what_is_no_class_and_what_only_c_code_knows(registered):
    with pytest.raises(TypeError, match=r"register takes a class.*remote\.register\(type\(value\)\)"):
        registered(roamlet_kinds.made)
    with pytest.raises(TypeError, match="hold what only C code knows"):
        registered(type(iter([])))


@pytest.mark.parametrize(
    ("function", "path", "why"),
    [
        (roamlet_kinds.generator, "result", r"generator; send list\(...\) of it"),
        (roamlet_kinds.a_thing_with_a_lock, "result['rows'][3].inside", "lock"),
        (roamlet_kinds.opened, "result['file']", "file|TextIOWrapper"),
    ],
)
def test_a_result_that_cannot_travel_is_named_and_harms_nothing(there, function, path, why):
    with raises(remote.CannotTravel, match=why) as caught:
        there.call(function)
    assert caught.value.path == path
    assert there.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("version", [HAVE[0], HAVE[-1]])
def test_a_target_asks_once_for_what_its_results_need(version):
    with remote.local(interpreters.found()[version]) as context:
        for _ in range(2):
            assert context.call(datetime.date, (1970, 1, 1)) == datetime.date(1970, 1, 1)
            assert context.stats.round_trips == 1


def test_a_module_may_register_its_own_classes_at_its_top(there):
    assert there.call(roamlet_registers.doubled, (roamlet_registers.Reading(21),)).value == 42
    with pytest.raises(roamlet_registers.BrokenSensor, match="no signal"):
        there.call(roamlet_registers.broken, ("no signal",))


def test_an_argument_whose_module_fails_on_the_target_is_refused_by_name(there):
    why = r"echo was not run in .*importing its class roamlet_stays\.Stays failed: ValueError: not on the target"
    with raises(remote.CannotTravel, match=why):
        there.call(roamlet_kinds.echo, (roamlet_stays.Stays(),))
    assert there.call(roamlet_sent.add, (1, 2)) == 3


def test_a_tasklet_is_not_taken_for_an_iterator_because_it_has_a_next(own):
    with raises(
        remote.CannotTravel,
        match=r"args\[0\] cannot travel: it is a roamlet\.tasklet, which holds something of this process",
    ):
        own.call(roamlet_kinds.echo, (roamlet.getcurrent(),))


def test_exceptions_come_as_values(own, registered):
    error = own.call(roamlet_kinds.echo, (ValueError("a", 1),))
    assert (type(error), error.args) == (ValueError, ("a", 1))
    with raises(remote.CannotTravel, match=r"register\(OwnError\)"):
        own.call(roamlet_kinds.return_own)
    registered(roamlet_kinds.OwnError)
    before = list(roamlet_kinds.made)
    (kept,) = own.call(roamlet_kinds.return_own)
    assert (type(kept), kept.args, kept.code) == (roamlet_kinds.OwnError, ("kept", 9), 9)
    assert roamlet_kinds.made == before


def test_an_exception_of_a_registered_class_is_raised_as_such(there, registered):
    with raises(remote.RemoteError, match=r"roamlet_kinds\.OwnError"):
        there.call(roamlet_kinds.raise_own)
    registered(roamlet_kinds.OwnError)
    before = list(roamlet_kinds.made)
    with raises(roamlet_kinds.OwnError) as caught:
        there.call(roamlet_kinds.raise_own, ("odd", 5))
    assert (caught.value.args, caught.value.code) == (("odd", 5), 5)
    assert "in raise_own" in caught.value.__notes__[0]
    assert roamlet_kinds.made == before


def test_what_an_exception_holds_does_not_hide_it(own):
    with raises(remote.RemoteError, match="ValueError"):
        own.call(roamlet_kinds.raise_with, (ValueError,))


def test_leaving_python_is_an_error_of_the_call_alone(there):
    with raises(remote.FunctionExited):
        there.call(roamlet_kinds.leave)
    assert there.call(roamlet_sent.add, (1, 2)) == 3


def test_a_kind_that_the_other_version_lacks_is_refused_in_the_caller_by_name():
    if "2.7" not in HAVE:
        pytest.skip("there is no Python 2.7 on this machine")
    with remote.local(interpreters.found()["2.7"]) as old:
        with raises(remote.CannotTravel, match=r"Python 2\.7 has no pathlib; send str\(...\) of the path"):
            old.call(roamlet_kinds.echo, (Path("/x"),))
        with raises(remote.CannotTravel, match=r"Python 2\.7 has no fold in times"):
            old.call(roamlet_kinds.echo, (datetime.time(1, fold=1),))
        assert old.call(roamlet_kinds.kind, (datetime.UTC,)) == "timezone"
        assert old.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_large_bytes_go_both_ways_as_what_they_are(there, kind):
    data = kind(b"\1\2\xff") * 1_500_000
    back = there.call(roamlet_kinds.echo, ([data, {"more": data}, b"\xfe"],))
    assert back == [data, {"more": data}, b"\xfe"]
    assert type(back[0]) is kind


def test_one_megabyte_lists_of_large_bytes_share_the_link_with_small_calls(own, in_tasklets):
    data = b"\1" * 20_000_000

    def one(number):
        if number == 0:
            return own.call(roamlet_kinds.size_of, (data,))
        return own.call(roamlet_sent.add, (number, 0))

    assert in_tasklets(one, list(range(10))) == [20_000_000, *range(1, 10)]


def test_values_and_large_bytes_pass_through_other_contexts(own, registered):
    registered(roamlet_kinds.Thing)
    registered(roamlet_kinds.Point)
    data = b"\xff" * 3_000_000
    with remote.local(interpreters.found()[HAVE[0]], via=own) as behind:
        assert behind.call(roamlet_kinds.echo, ([data, datetime.date(2000, 1, 1)],)) == [
            data,
            datetime.date(2000, 1, 1),
        ]
        assert behind.call(roamlet_kinds.a_thing)["rows"][1].name == "a thing"


def test_a_result_beyond_the_chosen_limit_is_refused_by_name_and_not_stored(there):
    there.largest_result = 3_000_000
    try:
        with raises(
            remote.CannotTravel, match="takes 400000[0-9]+ bytes, and 3000000 may come up.*context.largest_result ="
        ):
            there.call(roamlet_kinds.big, (40_000_000,))
        assert len(there.call(roamlet_kinds.big, (2_900_000,))) == 2_900_000
    finally:
        there.largest_result = 1 << 30


@pytest.mark.parametrize("size", [0, -1, True, "5"])
def test_an_invalid_limit_is_refused(own, size):
    with pytest.raises(ValueError, match="largest_result must be a number of bytes"):
        own.largest_result = size


MEASURED = """
import os
import subprocess
import sys
import roamlet_kinds
from roamlet import remote

def peak(pid="self"):
    for line in open("/proc/%s/status" % pid):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

with remote.local() as context:
    context.call(roamlet_kinds.size_of, (b"1" * (1 << 21),))
    context.call(roamlet_kinds.big, (1 << 21,))
    pid, size = context.facts.pid, 256 << 20
    before, there = peak(), peak(pid)
    data = b"1" * size
    assert context.call(roamlet_kinds.size_of, (data,)) == size
    print((peak() - before) / size, (peak(pid) - there) / size)
    del data
    before = peak()
    assert len(context.call(roamlet_kinds.big, (size,))) == size
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
