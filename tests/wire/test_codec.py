"""Plain values to bytes and back: exact types, refusals that name the path, and no trust in the bytes."""

import bisect
import collections
import enum
import math
import random
import struct
import tracemalloc

import pytest

from roamlet.wire import codec
from roamlet.wire.codec import CannotTravel, CodecError, dumps, loads
from tests.wire.damage import damaged

PLAIN = [
    None, True, False, 0, 1, -1, 255, 256, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, 10**50, -(10**50),
    2**4000, -(2**4000), 0.0, -0.0, 1.5, 1e308, 5e-324, math.inf, -math.inf, 1j, complex(-0.0, math.inf),
    b"", b"\x00\xff", bytes(range(256)), b"x" * 70000, bytearray(b""), bytearray(b"\x00a"),
    "", "a", "h\xe9", "\U0001f600", "\udc80", "a\udcff\ud800b", "x" * 255, "x" * 256, "\xe9" * 128, "y" * 70000,
    [], (), {}, set(), frozenset(), [[]], ((),), [()], {"": {}}, [None, True], (1, "a", b"b", 2.5, None),
    list(range(8)), tuple(range(1000)), [2**70] * 8, [1, 2**63] * 8, [True] * 10, [1.5] * 9, (math.inf,) * 9, ["a"] * 8,
    ("\xe9", "") * 6, ["\udc80"] * 8, [b"a"] * 9, [1, 1.0] * 8, [[1] * 9] * 9,
    {1: 2, "a": [1, {"b": (None,)}], None: True, (1, 2): "t", b"k": 1.5, frozenset([1]): 0},
    {1, 2, 3}, {"a", b"a", 1, None, (1, "x")}, set(range(50)), frozenset(["x", ("y",)]), frozenset(range(20)),
    {frozenset([frozenset()])},
]  # fmt: skip


def same(one, other):
    """Equal, of equal types, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(a, b) and same(x, y) for (a, x), (b, y) in zip(one.items(), other.items(), strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return one == other and sorted(map(type, one), key=str) == sorted(map(type, other), key=str)
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    return one == other


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: ascii(value)[:40])
def test_a_plain_value_comes_back_as_it_was(value):
    assert same(loads(dumps(value)), value)


def test_bytes_and_their_head_and_tuples_and_their_beginning_are_what_dumps_makes():
    for value in (b"", b"bytes" * 1000):
        assert codec.head_of(value) + value == codec.dumps(value)
    whole = codec.dumps(("module", "function", (1, 2), None))
    head = codec.dumps(("module", "function"))[5:]
    assert codec.dumps(((1, 2), None), head=whole[:5] + head) == whole


def test_not_a_number_keeps_its_bits():
    odd = struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0]
    assert struct.pack(">d", loads(dumps(odd))).hex() == "7ff8000000000123"


def test_a_dict_keeps_its_order():
    value = {str(number): number for number in (3, 1, 2)}
    assert list(loads(dumps(value))) == ["3", "1", "2"]


def test_bytes_of_any_buffer_type_are_accepted_only_as_exact_types():
    with pytest.raises(CannotTravel, match="memoryview"):
        dumps(memoryview(b"abc"))


Point = collections.namedtuple("Point", "x y")


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Own:
    pass


class Hostile:
    """Nothing of it may be asked for more than its type."""

    def __repr__(self):
        raise AssertionError("its repr was called")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Point(1, 2), r"^value cannot travel: it is a tests\.wire\.test_codec\.Point; send tuple\(\.\.\.\) of it"),
        ([collections.OrderedDict(a=1)], r"^value\[0\] cannot travel: it is a collections\.OrderedDict; send dict\("),
        ({"a": Colour.RED}, r"^value\['a'\] cannot travel: it is a tests\.wire\.test_codec\.Colour; send int\("),
        ({Text("k"): 1}, r"^value, key of type Text cannot travel: it is a tests\.wire\.test_codec\.Text; send str\("),
        (
            (1, [2, {"rows": [0, 1, 2, (x for x in ())]}]),
            r"^value\[1\]\[1\]\['rows'\]\[3\] cannot .* it is a generator; send list\(",
        ),
        ({1, 2, Own}, r"^value, item of type type cannot travel: it is a type; only None, bool, int"),
        (Own(), r"^value cannot travel: it is a tests\.wire\.test_codec\.Own; only None, bool, int"),
        (lambda: 0, r"it is a function"),
        (object(), r"it is a object"),
        (range(3), r"it is a range"),
        (collections.defaultdict(list), r"defaultdict"),
        (collections.Counter("a"), r"Counter"),
        ([1.5] * 9 + [Own()], r"^value\[9\] cannot travel"),
        ([Hostile()], r"^value\[0\] cannot travel: it is a tests\.wire\.test_codec\.Hostile"),
        ({Hostile: [iter([])]}, r"^value, key of type type cannot travel"),
        (ValueError("x"), r"it is a ValueError"),
        (NotImplemented, r"NotImplementedType"),
        (..., r"ellipsis"),
    ],
    ids=range(18),
)
def test_what_is_not_plain_is_refused_by_its_path(value, message):
    with pytest.raises(CannotTravel, match=message):
        dumps(value)


def refusal(*args, **kwargs):
    """The CannotTravel of a call of dumps, without its traceback, which would be a cycle with the test's frame."""
    try:
        dumps(*args, **kwargs)
    except CannotTravel as error:
        return error.with_traceback(None)
    pytest.fail("it was not refused")


def test_the_parts_of_a_call_have_names_of_their_own():
    refused = refusal(("m", "f", (1,), {"rows": [iter([])]}), parts=("module", "name", "args", "kwargs"))
    assert str(refused).startswith("kwargs['rows'][0] cannot travel: it is a list_iterator")
    assert refused.path == "kwargs['rows'][0]"
    assert refused.type_name == "list_iterator"


def test_a_refusal_does_not_drag_our_own_exceptions_along():
    assert refusal(object()).__context__ is None


def test_a_long_path_is_shortened_in_the_message():
    value: object = object()
    for _ in range(100):
        value = {"some rather long key": value}
    refused = refusal(value)
    assert len(str(refused)) < 600
    assert refused.path.count("some rather long key") == 100


def test_a_value_that_contains_itself_is_refused():
    value: list[object] = [1]
    value.append({"again": value})
    with pytest.raises(CannotTravel, match=r"^value\[1\]\['again'\] cannot travel: it contains itself"):
        dumps(value)


@pytest.mark.parametrize("make", [lambda v: [v], lambda v: (v,), lambda v: {1: v}], ids=["list", "tuple", "dict"])
def test_the_deepest_value_that_travels_also_arrives(make):
    value = 1
    for _ in range(codec.MAX_DEPTH):
        value = make(value)
    assert loads(dumps(value)) == value
    with pytest.raises(CannotTravel, match="more than 128 containers deep"):
        dumps(make(value))


def test_the_deepest_set_that_travels_also_arrives():
    value = frozenset()
    deepest = None
    for _ in range(codec.MAX_DEPTH):
        try:
            data = dumps(value)
        except CannotTravel:
            break
        assert loads(data) == value
        deepest, value = value, frozenset([value])
    assert deepest is not None
    assert value != deepest


def test_a_value_that_grows_beyond_any_message_is_refused_early(monkeypatch):
    monkeypatch.setattr(codec, "_MAX_PIECES", 100_000)
    value: list[object] = [1]
    for _ in range(60):  # a list of two of the list before: 2**60 items, in 61 objects
        value = [value, value]
    with pytest.raises(CannotTravel, match="too large for one message"):
        dumps(value)


def small(monkeypatch):
    """Let messages be large, and have too many pieces, from sizes on that a test can make and count."""
    monkeypatch.setattr(codec, "_MAX_PIECES", 1000)
    monkeypatch.setattr(codec, "_LARGE", 100)
    monkeypatch.setattr(codec, "_STRIDE", 64)


FLAT = {
    "list": [None] * 1001,
    "tuple": (True,) * 1001,
    "dict": dict.fromkeys(range(501)),
    "set": {*range(900), *map(str, range(200))},
    "rows": [(number, None) for number in range(334)],
    "behind a list": [[None] * 900, *[None] * 101],
}


@pytest.mark.parametrize("value", FLAT.values(), ids=FLAT)
def test_a_value_of_too_many_pieces_is_refused_by_its_sender_and_by_its_receiver(value, monkeypatch):
    data = dumps(value)
    assert loads(data) == value
    small(monkeypatch)
    with pytest.raises(CannotTravel, match=r"too large for one message, in bytes or in pieces \(1000\)"):
        dumps(value)
    with pytest.raises(CodecError, match="it has more than 1000 pieces"):
        loads(data)


def test_what_its_sender_takes_is_taken_by_its_receiver_to_the_last_piece(monkeypatch):
    small(monkeypatch)
    shapes = (
        lambda n: [None] * n,
        lambda n: {number: [] for number in range(n)},
        lambda n: [[None] * (n // 2), *[()] * (n // 2), *[None] * 3],
        lambda n: [{1.5, "a", number} for number in range(n)],
    )

    def taken(value):
        try:
            data = dumps(value)
        except CannotTravel:
            return False
        assert loads(data) == value
        return True

    for shape in shapes:
        first_refused = bisect.bisect(range(1010), False, key=lambda count: not taken(shape(count)))
        assert 150 < first_refused < 1010
        for count in {*range(0, 1010, 20), *range(first_refused - 5, first_refused + 5)}:
            assert taken(shape(count)) == (count < first_refused), count


TIMED = {
    "list": [None] * 900,
    "tuples": [()] * 900,
    "dict": dict.fromkeys(range(450)),
    "ints": list(range(9000)),
    "floats": [0.5] * 9000,
    "texts": ["ab"] * 9000,
    "set": {*range(400), *map(str, range(400))},
}


@pytest.mark.parametrize("value", TIMED.values(), ids=TIMED)
def test_decoding_ends_when_there_is_no_more_time(value, monkeypatch):
    small(monkeypatch)
    data = dumps(value)
    looks = iter([False, True])
    with pytest.raises(codec.OutOfTime, match="was not decoded in time"):
        loads(data, until=lambda: next(looks))
    assert loads(data, until=lambda: False) == value


def test_a_message_has_a_largest_size(monkeypatch):
    monkeypatch.setattr(codec, "MAX_BODY", 1000)
    assert loads(dumps(b"x" * 995)) == b"x" * 995
    with pytest.raises(CannotTravel, match=r"^result takes 1001 bytes, and a message holds 1000; send it in parts"):
        dumps(b"x" * 996, "result")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"\x00",
        b"NN",
        b"i",
        b"i1234567",
        b"i123456789",
        b"f",
        b"c1234567",
        b"s",
        b"s\x05abcd",
        b"s\x01\xff",
        b"S\0\0\0\5abcd",
        b"b\xff\xff\xff\xffa",
        b"a\x00\x00\x00\x02a",
        b"I\0\0\0\1",
        b"l",
        b"l\0\0\0\1",
        b"l\0\0\0\1?",
        b"l\xff\xff\xff\xffNNNN",
        b"t\0\0\0\3NN",
        b"d\0\0\0\1N",
        b"d\0\0\0\2NN",
        b"d\0\0\0\1l\0\0\0\0N",
        b"el\0\0\0\1l\0\0\0\0",
        b"eN",
        b"es\1a",
        b"ed\0\0\0\0",
        b"e",
        b"zb\0\0\0\0",
        b"q\0\0\0\1",
        b"q\x20\0\0\0" + b"\0" * 64,
        b"G\xff\xff\xff\xff",
        b"u\0\0\0\1\0\0\0\5abc",
        b"u\0\0\0\2\0\0\0\1",
        b"U\xff\xff\xff\xff",
        b"u\0\0\0\1\0\0\0\1\xff",
        b"l\0\0\0\1" * 5000 + b"N",
        b"el\0\0\0\1" * 3000,
        b"d\0\0\0\1N" * 3000 + b"N",
    ],
    ids=lambda data: repr(data[:16]),
)
def test_bytes_that_are_no_value_raise_codec_error(data):
    with pytest.raises(CodecError, match="message"):
        loads(data)


def test_announced_counts_allocate_nothing():
    tracemalloc.start()
    try:
        for tag in b"ltdqQgGuUbasSI":
            with pytest.raises(CodecError):
                loads(bytes([tag]) + b"\x7f\xff\xff\xff" + b"N" * 100)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_random_damage_never_does_more_than_raise_codec_error():
    chance = random.Random(1)
    sound = [dumps(value) for value in PLAIN if len(dumps(value)) < 2000]
    outcomes = collections.Counter()
    for _ in range(4000):
        data = damaged(chance, sound)
        try:
            value = loads(data)
        except CodecError:
            outcomes["refused"] += 1
        else:
            outcomes["a value"] += 1
            assert same(loads(dumps(value)), value) or value != value
    assert min(outcomes["refused"], outcomes["a value"]) > 200


def test_random_bytes_never_do_more_than_raise_codec_error():
    chance = random.Random(2)
    tags = b"NTFiIfcsSbaltdezqQgGuU"
    refused = 0
    for _ in range(4000):
        data = bytes(
            chance.choice((chance.choice(tags), 0, chance.randrange(256))) for _ in range(chance.randrange(1, 40))
        )
        try:
            loads(data)
        except CodecError:
            refused += 1
    assert refused > 3000


def test_random_values_come_back():
    chance = random.Random(3)
    for _ in range(600):
        value = random_value(chance, 4)
        assert same(loads(dumps(value)), value)


def random_value(chance, depth):
    scalar = [
        lambda: None,
        lambda: chance.random() < 0.5,
        lambda: chance.randrange(-(2 ** chance.randrange(1, 100)), 2 ** chance.randrange(1, 100)),
        chance.random,
        lambda: complex(chance.random(), chance.random()),
        lambda: chance.randbytes(chance.randrange(300)),
        lambda: "".join(chr(chance.choice((65, 233, 0x20AC, 0xDC80, 0x1F600))) for _ in range(chance.randrange(100))),
    ]
    if not depth or chance.random() < 0.3:
        return chance.choice(scalar)()
    count = chance.randrange(12)
    make = chance.choice(
        [
            lambda: [random_value(chance, depth - 1) for _ in range(count)],
            lambda: tuple(random_value(chance, depth - 1) for _ in range(count)),
            lambda: {chance.choice(scalar)(): random_value(chance, depth - 1) for _ in range(count)},
            lambda: {chance.choice(scalar)() for _ in range(count)},
            lambda: frozenset(chance.choice(scalar)() for _ in range(count)),
            lambda: [chance.randrange(10) for _ in range(count)],
            lambda: bytearray(chance.randbytes(count)),
        ]
    )
    return make()


class Door:
    """Stays where it is; others know it by its number."""


@pytest.fixture
def carried():
    codec.carry(Door)
    yield
    codec._CARRIED.discard(Door)
    del codec._ENCODE[Door]


def test_what_stays_where_it_is_travels_as_a_number_wherever_it_stands_in_a_value(carried):
    doors = [Door(), Door()]
    data = dumps({"a": [doors[1], "r"], "b": (doors[0],)}, refer=doors.index)
    assert loads(data, refer=lambda number: f"door {number}") == {"a": ["door 1", "r"], "b": ("door 0",)}


def test_what_has_no_number_is_refused_by_its_path(carried):
    with pytest.raises(CannotTravel, match=r"value\[1\] cannot travel: it is a .*Door; it lives on another link"):
        dumps([1, Door()])
    with pytest.raises(CannotTravel, match=r"value\['x'\] cannot travel: it is a .*Door"):
        dumps({"x": Door()}, refer=lambda door: None)
    with pytest.raises(CannotTravel, match=r"value\[1\] cannot travel: it is a .*Own"):
        dumps([Door(), Own()], refer=lambda door: 1)


def test_a_number_where_none_may_be_is_no_value(carried):
    data = dumps([Door()], refer=lambda door: 7)
    with pytest.raises(CodecError, match="where none may be"):
        loads(data)
    with pytest.raises(CodecError, match="garbled"):
        loads(data[:-1], refer=lambda number: number)
