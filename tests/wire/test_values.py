"""Values that are more than plain: exact types come back, refusals name the path, and nothing is made that was not allowed."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import ipaddress
import math
import pathlib
import struct
import sys
import threading
import time
import types
import uuid
import warnings
import zoneinfo
from pathlib import Path
from typing import NamedTuple

import pytest

from roamlet.wire import codec
from roamlet.wire.codec import CannotTravel, CodecError
from roamlet.wire.values import kinds, values
from roamlet.wire.values.instances import resolve_by_import
from tests.remote.raising import raises

pytestmark = pytest.mark.filterwarnings("ignore:The 'u' type code:DeprecationWarning")

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
needs_zones = pytest.mark.skipif(not zoneinfo.TZPATH, reason="this machine has no files of time zones")

Point = collections.namedtuple("Point", "x y")


def text_array(text):
    """One of the type code u, which is deprecated from 3.13 on and is in programs that people have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return array.array("u", text)


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Size(enum.IntEnum):
    SMALL = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Watchful(enum.Flag):
    READ = 1
    WRITE = 2

    @classmethod
    def _missing_(cls, value):
        calls.append("missing")
        return super()._missing_(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    number: int
    cells: list

    def __post_init__(self):
        calls.append("post_init")


@dataclasses.dataclass
class Base:
    a: int = 1


@dataclasses.dataclass
class Derived(Base):
    b: str = "b"


class Plain:
    __slots__ = ("__dict__", "__secret", "slotted")

    def __init__(self, secret):
        calls.append("init")
        self.__secret = secret
        self.free = [secret]

    @property
    def trap(self):
        raise AssertionError("a property ran")

    @trap.setter
    def trap(self, value):
        raise AssertionError("a property ran")

    def __setattr__(self, name, value):
        calls.append("setattr " + name)
        object.__setattr__(self, name, value)

    def __setstate__(self, state):
        raise AssertionError("__setstate__ ran")

    def __reduce__(self):
        raise AssertionError("__reduce__ ran")

    def same(self, other):
        return (self.__secret, self.free) == (other.__secret, other.free)


class OwnError(ValueError):
    def __init__(self, text, code):
        super().__init__(text)
        calls.append("error init")
        self.code = code


calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


def there_and_back(value):
    aside = []
    data = values.dumps(value, aside=aside)
    calls.clear()
    back = values.loads(data, resolve=resolve_by_import, buffers=[bytes(one) for one in aside])
    assert calls == []
    return back


KINDS = [
    range(3),
    range(10**20, -5, -7),
    slice(None),
    slice(1, "b", (2,)),
    datetime.date(1, 1, 1),
    datetime.date(9999, 12, 31),
    datetime.time(23, 59, 59, 999999),
    datetime.time(1, fold=1),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    datetime.datetime(2024, 10, 27, 2, 30, fold=1),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(-datetime.timedelta(hours=3, seconds=7), "odd")),
    datetime.timedelta(-1, 5, 7),
    datetime.timedelta.max,
    datetime.UTC,
    decimal.Decimal("1.50"),
    decimal.Decimal("-0E+7"),
    decimal.Decimal("NaN123"),
    decimal.Decimal("-sNaN"),
    decimal.Decimal("-Infinity"),
    decimal.Decimal("9" * 5000),
    fractions.Fraction(-3, 7),
    fractions.Fraction(10**400, 3),
    uuid.UUID(int=2**128 - 1),
    pathlib.PurePosixPath("/a/../b"),
    pathlib.PosixPath("."),
    pathlib.PureWindowsPath("C:\\x"),
    ipaddress.ip_address("127.0.0.1"),
    ipaddress.ip_address("fe80::1%eth0"),
    ipaddress.ip_network("10.0.0.0/8"),
    ipaddress.ip_network("fe80::/10"),
    ipaddress.ip_interface("10.1.2.3/8"),
    ipaddress.ip_interface("::1/64"),
    collections.OrderedDict(b=1, a=[2]),
    collections.defaultdict(list, a=[1]),
    collections.defaultdict(None, a=1),
    collections.deque([1, 2, 3], 5),
    collections.deque(),
    collections.Counter("abracadabra"),
    array.array("d", [1.5, math.inf]),
    array.array("b", b"xyz"),
    text_array("a\u20ac"),
    types.SimpleNamespace(a=1, b=[2]),
    Ellipsis,
    NotImplemented,
    Point(1, [2]),
    Pair(1),
    Colour.BLUE,
    Size.SMALL,
    Right.READ,
    Right.READ | Right.WRITE,
    Right(0),
    Derived(b="c"),
    int,
    Row,
    {Right.READ: {datetime.date(2000, 1, 1)}, Point(1, 2): (uuid.UUID(int=5), None)},
    [datetime.date(2000, 1, day) for day in range(1, 30)],
    collections.OrderedDict((("k", collections.deque([Colour.RED])),)),
]


@pytest.mark.parametrize("value", KINDS, ids=lambda value: ascii(value)[:50])
def test_a_value_of_its_own_kind_comes_back_as_it_was(value):
    back = there_and_back(value)
    assert type(back) is type(value)
    assert repr(back) == repr(value)


@needs_zones
@pytest.mark.parametrize(
    "value", [BERLIN, datetime.time(1, 2, tzinfo=BERLIN), datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN)]
)
def test_a_time_zone_comes_back_by_its_key(value):
    back = there_and_back(value)
    assert repr(back) == repr(value)
    assert back.utcoffset() == value.utcoffset() if isinstance(value, datetime.datetime) else back == value


@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc")])
def test_a_view_of_bytes_comes_back_as_readable_or_writable_as_it_was(value):
    with memoryview(value) as view, there_and_back(view) as back:
        assert type(back) is memoryview
        assert (back.tobytes(), back.readonly) == (b"abc", view.readonly)


def test_instances_are_made_without_running_anything_of_theirs():
    assert there_and_back(Row(1, [2])) == Row(1, [2])
    plain = Plain(5)
    assert there_and_back(plain).same(plain)
    error = there_and_back(OwnError("why", 7))
    assert type(error) is OwnError
    assert (error.args, error.code) == (("why",), 7)


def test_a_flag_of_several_is_not_made_by_code_of_its_class():
    assert there_and_back(Watchful.READ) is Watchful.READ
    data = values.dumps(Watchful.READ).replace(codec.dumps("READ"), codec.dumps(3))
    with pytest.raises(CannotTravel, match="Watchful has no member 3 here"):
        values.loads(data, resolve=resolve_by_import)
    assert calls == []


def test_rows_of_one_class_name_it_once():
    one, many = (len(values.dumps([Derived()] * count)) for count in (1, 101))
    assert (many - one) / 100 < 30


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1),
        FileNotFoundError(2, "gone", "/x"),
        KeyError(("k",)),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"),
        SyntaxError("why", ("f", 1, 2, "text")),
    ],
)
def test_exceptions_are_values_too(error):
    error.add_note("where")
    back = there_and_back([error])[0]
    assert (type(back), back.args, str(back), back.__notes__) == (type(error), error.args, str(error), ["where"])
    assert getattr(back, "filename", None) == getattr(error, "filename", None)


def holding(**fields):
    plain = types.SimpleNamespace(**fields)
    row = Base()
    vars(row).update(vars(plain))
    return row


LOCK = threading.Lock()


class OwnDict(dict):
    pass


def around_itself():
    row = Base()
    row.a = [row]
    return row


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"rows": [0, 1, 2, holding(lock=LOCK)]}, "result['rows'][3].lock", "it is a _thread.lock, which holds"),
        (Point(1, (LOCK,)), "result.y[0]", "_thread.lock"),
        (ValueError("x", LOCK), "result.args[1]", "_thread.lock"),
        (Row(1, [LOCK]), "result.cells[0]", "_thread.lock"),
        (collections.deque([1, LOCK]), "result[1]", "_thread.lock"),
        (collections.defaultdict(list, k=LOCK), "result['k']", "_thread.lock"),
        (collections.defaultdict(lambda: 1), "result.default_factory", "it is a function; only data comes up"),
        (collections.OrderedDict(k=LOCK), "result[item 0]", "_thread.lock"),
        (types.SimpleNamespace(a=LOCK), "result.a", "_thread.lock"),
        (slice(1, LOCK), "result.stop", "_thread.lock"),
        ({frozenset([Point(1, len)]): 1}, "result, key of type frozenset, item of type Point.y", "builtin_function"),
        ((n for n in ()), "result", r"it is a generator; send list\(...\)"),
        (OwnDict(), "result", r"OwnDict; send dict\(...\) of it: a subclass is not turned into its base"),
        (struct.Struct("b"), "result", "Struct, which holds something of this process's own"),
        (io.BytesIO(), "result", r"BytesIO; send its path, or what read\(\) returns"),
        (threading.local(), "result", "_local"),
        (object(), "result", "it is a object"),
        (sys, "result", "it is a module"),
        (pathlib.PurePosixPath("a\0b"), "result", "a path with a NUL"),
        (decimal.Decimal("1E+100000000"), "result", "Decimal of more than"),
        (fractions.Fraction(1, 2**20000), "result", "Fraction of more than 16384 bits"),
        (memoryview(b"abcd")[::2], "result", "memoryview of something else"),
        (around_itself(), "result.a[0]", "it contains itself"),
        (functools.partial(len), "result", "functools.partial"),
    ],
    ids=range(24),
)
def test_what_cannot_travel_is_named_by_its_path(value, path, why):
    with raises(CannotTravel, match=why) as caught:
        values.dumps(value, "result")
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path} cannot travel: ")
    if path == "result.a[0]":
        vars(value).clear()


def test_one_list_in_many_places_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(codec, "_MAX_PIECES", 10_000)
    value: object = [Ellipsis]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(CannotTravel, match="what is reached in several ways is sent as often"):
        values.dumps(value)


def test_pieces_and_time_are_bounded_for_instances_too(monkeypatch):
    many = [Point(number, Ellipsis) for number in range(300)]
    data = values.dumps(many)
    assert values.loads(data, resolve=resolve_by_import) == many
    monkeypatch.setattr(codec, "_LARGE", 100)
    monkeypatch.setattr(codec, "_STRIDE", 64)
    with pytest.raises(codec.OutOfTime):
        codec.loads(values.to_decode(data, resolve_by_import), until=lambda: True)
    monkeypatch.setattr(codec, "_MAX_PIECES", 1000)
    with pytest.raises(CannotTravel, match="more than 1000 pieces"):
        values.dumps(many)
    with pytest.raises(CodecError, match="more than 1000 pieces"):
        values.loads(data, resolve=resolve_by_import)
    taken = 0
    for count in range(150, 300):
        try:
            data = values.dumps(many[:count])
        except CannotTravel:
            break
        taken = count
        assert values.loads(data, resolve=resolve_by_import) == many[:count]
    assert 150 < taken < 299


def test_nothing_is_made_of_classes_unless_somebody_says_so():
    data = values.dumps([Point(1, 2)])
    with pytest.raises(CannotTravel, match=r"test_values\.Point, and no classes are made of what comes this way"):
        values.loads(data)
    with pytest.raises(CannotTravel, match="no classes are made"):
        values.loads(values.dumps(int))


def state(kind, of):
    """A message that says it holds one of the kinds, whatever its state is."""
    number = next(number for number, entry in enumerate(kinds.KINDS) if entry and entry[1] == kind)
    return b"Vl\0\0\0\0k" + bytes([number]) + codec.dumps(of)


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        ("range", (1, 2)),
        ("range", (1, 2, 0)),
        ("range", (1.0, 2, 3)),
        ("date", bytearray(b"\0\0\1\1")),
        ("date", bytearray(b"\1")),
        ("date", b"\0\1\1\1"),
        ("datetime", (bytearray(b"\x27\x10\1\1\1\1\1\0\0\0\0\0"), None)),
        ("datetime", (bytearray(b"\x07\x10\1\1\1\1\1\0\0\0\0\0"), "UTC")),
        ("time", (bytearray(b"\1\1\1\xff\xff\xff\xff\0"), None)),
        ("timedelta", (10**12, 0, 0)),
        ("timezone", (5, None)),
        ("ZoneInfo", 5),
        ("Decimal", "1E+999999999999"),
        ("Decimal", "1" * 100_000),
        ("Decimal", "1_0"),
        ("Decimal", "1\n"),
        ("Fraction", (1, 0)),
        ("Fraction", (1, -1)),
        ("Fraction", (1 << 20_000, 3)),
        ("UUID", bytearray(b"short")),
        ("PosixPath", "a\0b"),
        ("PosixPath", ["a"]),
        ("IPv4Address", "1.2.3"),
        ("IPv4Address", "1" * 10_000),
        ("IPv6Network", "::/999"),
        ("OrderedDict", (1, 2, 3)),
        ("OrderedDict", ([], 2)),
        ("defaultdict", (5, {})),
        ("deque", (-1, [])),
        ("deque", (None, ())),
        ("Counter", []),
        ("array", ("O", 8, False, bytearray(8))),
        ("array", ("q", 8, False, bytearray(7))),
        ("array", ("qq", 8, False, bytearray(8))),
        ("memoryview", (1, bytearray())),
        ("SimpleNamespace", {1: 2}),
        ("ellipsis", 1),
        ("type", 5),
        ("type", ("os", 5)),
    ],
)
def test_a_state_that_no_encoder_sends_is_a_codec_error(kind, of):
    with pytest.raises(CodecError, match="garbled"):
        values.loads(state(kind, of), resolve=resolve_by_import)


@pytest.mark.parametrize("key", ["/etc/passwd", "../../etc/passwd", "Nowhere/Else", "x" * 5000, ""])
def test_only_files_of_time_zones_are_read_for_a_time_zone(key):
    before = set(sys.modules)
    with pytest.raises(CannotTravel, match="is not among the files of this machine"):
        values.loads(state("ZoneInfo", key))
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "data",
    [
        b"V",
        b"VN",
        b"VNN",
        b"Vl\0\0\0\1NN",
        b"Vl\0\0\0\1t\0\0\0\1s\1aN",
        b"V" + codec.dumps([("m", "n", "shape")]) + b"N",
        b"V" + codec.dumps([("m" * 2000, "n", "object")]) + b"N",
        b"Vl\0\0\0\0o\0\0\0\0",
        b"Vl\0\0\0\0B\0\0\0\0",
        b"Vl\0\0\0\0k\0N",
        b"Vl\0\0\0\0k\xffN",
        b"Vl\0\0\0\0k",
        b"Vl\0\0\0\0Vl\0\0\0\0N",
        b"Vl\0\0\0\0NN",
        b"Vl\0\0\0\0" + b"k\x04t\0\0\0\3" * 3000,
        b"l\0\0\0\1k\x05a\0\0\0\4\0\0\1\1",
        b"k\x05a\0\0\0\4\0\1\1\1",
        b"o\0\0\0\0",
        b"l\0\0\0\1B\0\0\0\0",
        b"l\0\0\0\1Vl\0\0\0\0N",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_bytes_that_are_no_message_are_a_codec_error(data):
    with pytest.raises(CodecError, match="message"):
        values.loads(data)
    with pytest.raises(CodecError, match="message"):
        codec.loads(data)


@pytest.mark.parametrize("kind", ["dict", "set", "OrderedDict"])
def test_many_keys_of_one_hash_are_refused(kind):
    keys = [complex(-1000003 * number, number) for number in range(5000)]
    assert len({hash(key) for key in keys}) < 10
    if kind == "OrderedDict":
        data = state(kind, tuple(item for key in keys for item in (key, None)))
    else:
        head = b"d\0\0\x13\x88" if kind == "dict" else b"et\0\0\x13\x88"
        data = head + b"".join(codec.dumps(key) + b"N" * (kind == "dict") for key in keys)
    with pytest.raises(CodecError, match="keys of one hash"):
        values.loads(data)


@pytest.mark.parametrize("key", [str, int, lambda n: (n, -n), lambda n: 2**70 + n, lambda n: n / 7])
def test_many_keys_of_many_hashes_are_taken(key):
    value = {key(number): number for number in range(5000)}
    assert codec.loads(codec.dumps(value)) == value
    assert codec.loads(codec.dumps(set(value))) == set(value)


def test_numpy_is_waited_for_while_another_thread_imports_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("import time\ntime.sleep(0.3)\nis_whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "numpy", None)
    del sys.modules["numpy"]
    monkeypatch.setattr(kinds, "may_import", True)
    thread = threading.Thread(target=__import__, args=("numpy",))
    thread.start()
    while "numpy" not in sys.modules:
        time.sleep(0.001)
    assert kinds._numpy().is_whole
    thread.join()
