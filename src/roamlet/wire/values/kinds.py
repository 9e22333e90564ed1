"""Each kind of value that is more than plain, but for instances of classes: taken apart into a state, and made again of it.

Dates, exact numbers, paths, addresses, containers of the standard library, arrays. A state is a plain value, or holds others of
these; roamlet.wire.values.values encodes it. States come from another process, so each is checked first.
The file is long because it is one table: each kind takes a few lines, and no kind needs another one.
"""

import struct
import sys
import types

from roamlet.wire import codec
from roamlet.wire.codec import PY2, CannotTravel, CodecError, int_types, text_type


class _Pattern(object):
    """A regular expression, compiled when it is first needed: re has not been imported everywhere when this part comes."""

    def __init__(self, text):
        self._text = text

    def match(self, text):
        import re

        self.match = re.compile(self._text).match
        return self.match(text)


_MOST_DIGITS = 1 << 16  # of a Decimal
_MOST_EXPONENT = 7  # digits: hashing and comparing take their time beyond
_FRACTION_BITS = 1 << 14  # of each half: reducing a fraction takes the square of it
HEAP_TYPE = 1 << 9  # in the flags of a type: a class statement made it, not C
_DATE = struct.Struct(">HBB")
_TIME = struct.Struct(">BBBIB")
_DATETIME = struct.Struct(">HBBBBBIB")
_DECIMAL = _Pattern(r"-?(?:[0-9]+(?:\.[0-9]*)?(?:E[+-]?[0-9]{1,%d})?|Infinity|s?NaN[0-9]*)\Z" % _MOST_EXPONENT)
_DTYPE = _Pattern(r"[<>|=]?[biufcSUMmV][0-9]+(\[[0-9A-Za-z]{1,8}\])?\Z")
_ZONE = _Pattern(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,3}\Z")

may_import = False  # what a value names may be imported: on a target, for what its parent sends


class Refusal(Exception):
    """Why something inside of a value cannot travel; the steps that lead there are added on the way out."""

    def __init__(self, why, value=None):
        Exception.__init__(self, why)
        self.why = why
        self.type_name = type_name(type(value))
        self.steps = []

    def at(self, step):
        """Return itself, one step further out."""
        self.steps.append(step)
        return self


def type_name(kind):
    """Return the name of a type for messages."""
    module = getattr(kind, "__module__", None)
    name = getattr(kind, "__qualname__", kind.__name__)
    return name if module in (None, "builtins", "__builtin__", "exceptions") else "%s.%s" % (module, name)


def codec_text(value):
    """Return a name as text, on 2.7 too."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def exact(state, *kinds):
    """Return a state that is a tuple of exactly these types."""
    if type(state) is not tuple or len(state) != len(kinds):
        raise CodecError("a message is garbled: a value of the wrong state")
    for item, kind in zip(state, kinds):  # noqa: B905 - 2.7 knows no strict
        if kind is not None and type(item) is not kind and not (kind is int and type(item) in int_types):
            raise CodecError("a message is garbled: a value of the wrong state")
    return state


def typed(state, kind):
    """Return a state that is of exactly this type."""
    if type(state) is not kind:
        raise CodecError("a message is garbled: a value of the wrong state")
    return state


def _absent(what, instead):
    return CannotTravel("a value cannot travel: Python %d.%d has no %s; %s" % (sys.version_info[:2] + (what, instead)))


def _imported(module, what, instead):
    """Import a standard module that not every version has."""
    try:
        return __import__(module)
    except ImportError:
        raise _absent(what, instead)


# ---- of the standard library


def _range_state(value):
    return tuple(value.__reduce__()[1])


def _make_range(state):
    return (xrange if PY2 else range)(*exact(state, int, int, int))  # noqa: F821


def _slice_state(value):
    return value.start, value.stop, value.step


def _make_slice(state):
    return slice(*exact(state, None, None, None))


def _datetime():
    import datetime  # as re in _Pattern

    return datetime


def _date_state(value):
    return bytearray(_DATE.pack(value.year, value.month, value.day))


def _make_date(state):
    return _datetime().date(*_DATE.unpack(bytes(typed(state, bytearray))))


def _time_state(value):
    fields = value.hour, value.minute, value.second, value.microsecond, getattr(value, "fold", 0)
    return bytearray(_TIME.pack(*fields)), value.tzinfo


def _make_time(state):
    fields, zone = exact(state, bytearray, None)
    fields = _TIME.unpack(bytes(fields))
    return _datetime().time(*fields[:4], tzinfo=_zone(zone), **_fold(fields[4]))


def _datetime_state(value):
    fields = value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
    return bytearray(_DATETIME.pack(*(fields + (getattr(value, "fold", 0),)))), value.tzinfo


def _make_datetime(state):
    fields, zone = exact(state, bytearray, None)
    fields = _DATETIME.unpack(bytes(fields))
    return _datetime().datetime(*fields[:7], tzinfo=_zone(zone), **_fold(fields[7]))


def _zone(zone):
    if zone is not None and not isinstance(zone, _datetime().tzinfo):
        raise CodecError("a message is garbled: not a time zone")
    return zone


def _fold(fold):
    if not fold:
        return {}
    if PY2:
        raise _absent("fold in times", "send it in UTC")
    return {"fold": fold}


def _timedelta_state(value):
    return value.days, value.seconds, value.microseconds


def _make_timedelta(state):
    return _datetime().timedelta(*exact(state, int, int, int))


def _timezone_state(value):
    args = value.__getinitargs__()
    return args[0], (codec_text(args[1]) if len(args) > 1 else None)


def _timezone():
    """The class of fixed distances from UTC: that of the standard library, or for 2.7, which has none, one of our own."""
    if not PY2:
        return _datetime().timezone
    if not _TIMEZONE:
        _TIMEZONE.append(_make_timezone_class())
        NUMBERS[_TIMEZONE[0]] = _BY_NAME["datetime", "timezone"]
    return _TIMEZONE[0]


_TIMEZONE = []


def _make_timezone_class():
    class timezone(_datetime().tzinfo):
        """What 3.x has in datetime: a fixed distance from UTC."""

        def __init__(self, offset, name=None):
            self._offset = offset
            self._name = name

        def __getinitargs__(self):
            return (self._offset,) if self._name is None else (self._offset, self._name)

        def __eq__(self, other):
            return isinstance(other, timezone) and self._offset == other._offset

        def __ne__(self, other):
            return not self == other

        def __hash__(self):
            return hash(self._offset)

        def utcoffset(self, moment):
            return self._offset

        def dst(self, moment):
            """See datetime.tzinfo."""

        def tzname(self, moment):
            return str(self._name or "UTC%+03d:%02d" % divmod(self._offset.total_seconds() // 60, 60))

    return timezone


def _make_timezone(state):
    offset, name = exact(state, _datetime().timedelta, None)
    if name is not None:
        return _timezone()(offset, str(typed(name, text_type)))
    return _timezone()(offset)


def _zone_state(value):
    if value.key is None:
        raise Refusal("it is a zoneinfo.ZoneInfo without a key", value)
    return value.key


def _make_zone(state):
    """By its key, of what this machine's files have: nothing is imported for it."""
    # Imported here because not every version has it, and few values need it.
    import os

    zoneinfo = _imported("zoneinfo", "zoneinfo", "send the time in UTC")
    key = typed(state, text_type)
    if _ZONE.match(key) and any(os.path.isfile(os.path.join(folder, key)) for folder in zoneinfo.TZPATH):
        return zoneinfo.ZoneInfo(key)
    raise CannotTravel("a value cannot travel: the time zone %.80r is not among the files of this machine" % key)


def _decimal_state(value):
    text = codec_text(str(value))
    if len(text) > _MOST_DIGITS or not _DECIMAL.match(text):
        raise Refusal("it is a Decimal of more than %d digits, or exponent; send str() of it" % _MOST_DIGITS, value)
    return text


def _make_decimal(state):
    if len(typed(state, text_type)) > _MOST_DIGITS or not _DECIMAL.match(state):
        raise CodecError("a message is garbled: not a Decimal")
    import decimal  # here, because few values need it, and 2.7 takes its time for it

    return decimal.Decimal(state)


def _fraction_state(value):
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _FRACTION_BITS:
        raise Refusal("it is a Fraction of more than %d bits; send its two halves" % _FRACTION_BITS, value)
    return int(value.numerator), int(value.denominator)


def _make_fraction(state):
    above, below = exact(state, int, int)
    if max(above.bit_length(), below.bit_length()) > _FRACTION_BITS or below <= 0:
        raise CodecError("a message is garbled: not a Fraction")
    import fractions  # as decimal

    return fractions.Fraction(above, below)


def _uuid_state(value):
    return bytearray(value.bytes)


def _make_uuid(state):
    import uuid  # as decimal

    return uuid.UUID(bytes=bytes(typed(state, bytearray)))


def _path_state(value):
    text = codec_text(str(value))
    if "\0" in text:
        raise Refusal("it is a path with a NUL in it", value)
    return text


def _make_path(name):
    def make(state):
        if "\0" in typed(state, text_type):
            raise CodecError("a message is garbled: a path with a NUL in it")
        return getattr(_imported("pathlib", "pathlib", "send str(...) of the path"), name)(state)

    return make


def _make_address(name):
    def make(state):
        if len(typed(state, text_type)) > 200:
            raise CodecError("a message is garbled: not an address")
        return getattr(_imported("ipaddress", "ipaddress", "send str(...) of the address"), name)(state)

    return make


def _ordered_state(value):
    return tuple(item for pair in value.items() for item in pair)


def _make_ordered(state):
    if type(state) is not tuple or len(state) % 2:
        raise CodecError("a message is garbled: a dict of odd length")
    codec.check_keys(state[::2])
    import collections  # as decimal

    return collections.OrderedDict(zip(state[::2], state[1::2]))  # noqa: B905 - as above


def _ordered_step(step):
    return "[item %d]" % (int(step[1:-1]) // 2) if step[:1] == "[" else step


def _default_state(value):
    return value.default_factory, dict(value)


def _make_default(state):
    import collections  # as decimal

    factory, items = exact(state, None, dict)
    if factory is not None and not callable(factory):
        raise CodecError("a message is garbled: a default that cannot be made")
    return collections.defaultdict(factory, items)


def _default_step(step):
    return ".default_factory" if step == "[0]" else ""


def _deque_state(value):
    return value.maxlen, list(value)


def _make_deque(state):
    import collections  # as decimal

    longest, items = exact(state, None, list)
    if longest is not None and (type(longest) not in int_types or longest < 0):
        raise CodecError("a message is garbled: a deque of odd length")
    return collections.deque(items, longest)


def _make_counter(state):
    import collections  # as decimal

    result = collections.Counter()
    dict.update(result, typed(state, dict))
    return result


def _array_state(value):
    code = value.typecode
    if code in ("u", "w", "c"):
        return codec_text(code), 0, False, codec_text(value.tounicode() if code != "c" else value.tostring())
    data = value.tostring() if PY2 else value.tobytes()
    return codec_text(code), value.itemsize, sys.byteorder == "big", bytearray(data)


def _make_array(state):
    import array  # as re in _Pattern

    code, size, big, data = exact(state, text_type, int, bool, None)
    if code in ("u", "w", "c"):
        return array.array(str(code), typed(data, text_type))
    if len(code) != 1 or code not in "bBhHiIlLqQfd" or type(data) is not bytearray:
        raise CodecError("a message is garbled: not an array")
    result = array.array(str(code))
    if result.itemsize != size:  # long is of four bytes on some machines, of eight on others
        raise CannotTravel(
            "a value cannot travel: an array of %r has items of %d bytes on the other side and of %d here; use 'q' or 'i'"
            % (str(code), size, result.itemsize)
        )
    if PY2:
        result.fromstring(bytes(data))
    else:
        result.frombytes(data)
    if big != (sys.byteorder == "big"):
        result.byteswap()
    return result


def _view_state(value):
    if value.ndim != 1 or value.format != "B" or value.strides != (1,):
        raise Refusal("it is a memoryview of something else than bytes in a row; send bytes(...) of it", value)
    return value.readonly, Buffer(value) if value.shape[0] > codec.BIG else bytearray(value.tobytes())


def _make_view(state):
    readonly, data = exact(state, bool, bytearray)
    return memoryview(bytes(data) if readonly else data)


def _make_namespace(state):
    if PY2:
        raise _absent("types.SimpleNamespace", "send vars(...) of it")
    result = types.SimpleNamespace()
    for name in typed(state, dict):
        typed(name, str)
    vars(result).update(state)
    return result


def _namespace_step(step):
    return "." + step[2:-2] if step[:2] == "['" else step


def _singleton_state(value):
    return value is Ellipsis


def _make_singleton(state):
    return Ellipsis if typed(state, bool) else NotImplemented


# ---- of numpy, where it is there


def _numpy():
    """Return numpy. What comes up may not import it: then the caller has to have done so."""
    numpy = sys.modules.get("numpy")
    if may_import and (numpy is None or getattr(getattr(numpy, "__spec__", None), "_initializing", False)):
        # Another thread may be importing it: then it is there in part.
        numpy = _imported("numpy", "numpy", "install it there, or send .tolist()")
    if numpy is None:
        raise CannotTravel("a value cannot travel: it is made of numpy, which is not imported here; import numpy")
    return numpy


def _dtype_text(value):
    text = codec_text(value.dtype.str)
    if value.dtype.hasobject or value.dtype.names or not value.dtype.itemsize or not _DTYPE.match(text):
        raise Refusal("it is a numpy %s of dtype %s; only numbers, times, texts and bytes travel"
                      % (type(value).__name__, value.dtype), value)  # fmt: skip
    return text


def _ndarray_state(value):
    text = _dtype_text(value)
    in_columns = value.flags.f_contiguous and not value.flags.c_contiguous
    rows = value.T if in_columns else value if value.flags.c_contiguous else value.copy("C")
    if not rows.size or rows.nbytes <= codec.BIG:
        data = bytearray(rows.tobytes())
    else:
        data = Buffer(rows.reshape(-1).view("u1"))
    return text, tuple(map(int, value.shape)), bool(in_columns), bool(value.flags.writeable), data


def _make_ndarray(state):
    text, shape, in_columns, writeable, data = exact(state, text_type, tuple, bool, bool, bytearray)
    numpy = _numpy()
    kind = _dtype(numpy, text)
    count = 1
    for length in shape:
        if type(length) not in int_types or not 0 <= length < 1 << 62:
            raise CodecError("a message is garbled: not an array")
        count = min(count * length, 1 << 80)
    if len(shape) > 32 or count * kind.itemsize != len(data):
        raise CodecError("a message is garbled: an array of another size than its shape")
    result = numpy.frombuffer(data, kind) if data else numpy.empty(0, kind)
    result = result.reshape(shape[::-1]).T if in_columns else result.reshape(shape)
    if not writeable:
        result.flags.writeable = False
    return result


def _dtype(numpy, text):
    if not _DTYPE.match(text) or len(text) > 40:
        raise CodecError("a message is garbled: an array of no type")
    kind = numpy.dtype(str(text))
    if kind.hasobject or not kind.itemsize:
        raise CodecError("a message is garbled: an array of objects")
    return kind


def _scalar_state(value):
    return _dtype_text(value), bytearray(value.tobytes())


def _make_scalar(state):
    text, data = exact(state, text_type, bytearray)
    numpy = _numpy()
    kind = _dtype(numpy, text)
    if kind.itemsize != len(data):
        raise CodecError("a message is garbled: a number of another size than its type")
    return numpy.frombuffer(bytes(data), kind)[0]


# ---- all of them


class Buffer(object):
    """Bytes that arrive as a bytearray, and are not copied to be sent."""

    __slots__ = ("view",)

    def __init__(self, owner):
        self.view = memoryview(owner)

    def __len__(self):
        return self.view.shape[0]


CLASS = 1
SCALAR = 2
# In the order of their numbers: the first three are special. Each: module and name of the type, its state, how it is made of one,
# and what a step inside of the state is called in a path (None: as it is).
KINDS = [
    None,
    (None, "type", None, None, None),  # put_class has its own
    (None, "numpy.generic", _scalar_state, _make_scalar, None),
    ("builtins", "range", _range_state, _make_range, None),
    ("builtins", "slice", _slice_state, _make_slice, lambda step: {"[0]": ".start", "[1]": ".stop"}.get(step, ".step")),
    ("datetime", "date", _date_state, _make_date, None),
    ("datetime", "time", _time_state, _make_time, lambda step: ".tzinfo"),
    ("datetime", "datetime", _datetime_state, _make_datetime, lambda step: ".tzinfo"),
    ("datetime", "timedelta", _timedelta_state, _make_timedelta, None),
    ("datetime", "timezone", _timezone_state, _make_timezone, None),
    ("zoneinfo", "ZoneInfo", _zone_state, _make_zone, None),
    ("decimal", "Decimal", _decimal_state, _make_decimal, None),
    ("fractions", "Fraction", _fraction_state, _make_fraction, None),
    ("uuid", "UUID", _uuid_state, _make_uuid, None),
    ("pathlib", "PurePosixPath", _path_state, _make_path("PurePosixPath"), None),
    ("pathlib", "PosixPath", _path_state, _make_path("PosixPath"), None),
    ("pathlib", "PureWindowsPath", _path_state, _make_path("PureWindowsPath"), None),
    ("ipaddress", "IPv4Address", str, _make_address("IPv4Address"), None),
    ("ipaddress", "IPv6Address", str, _make_address("IPv6Address"), None),
    ("ipaddress", "IPv4Network", str, _make_address("IPv4Network"), None),
    ("ipaddress", "IPv6Network", str, _make_address("IPv6Network"), None),
    ("ipaddress", "IPv4Interface", str, _make_address("IPv4Interface"), None),
    ("ipaddress", "IPv6Interface", str, _make_address("IPv6Interface"), None),
    ("collections", "OrderedDict", _ordered_state, _make_ordered, _ordered_step),
    ("collections", "defaultdict", _default_state, _make_default, _default_step),
    ("collections", "deque", _deque_state, _make_deque, lambda step: ""),
    ("collections", "Counter", dict, _make_counter, None),
    ("array", "array", _array_state, _make_array, None),
    ("builtins", "memoryview", _view_state, _make_view, None),
    ("types", "SimpleNamespace", vars, _make_namespace, _namespace_step),
    ("builtins", "ellipsis", _singleton_state, _make_singleton, None),
    ("numpy", "ndarray", _ndarray_state, _make_ndarray, None),
]
_BY_NAME = dict(((entry[0], entry[1]), number) for number, entry in enumerate(KINDS) if entry and entry[0])
_BY_NAME["builtins", "xrange"] = _BY_NAME["builtins", "range"]
_BY_NAME["builtins", "NotImplementedType"] = _BY_NAME["builtins", "ellipsis"]
NUMBERS = {}  # type -> number, of those that were met


def look_up(kind):
    """Return the number of a type that is one of the KINDS, or None. Types are known by their names, so that none is imported."""
    module = getattr(kind, "__module__", None)
    name = kind.__name__
    if module == "__builtin__":
        module = "builtins"
    elif module == "pathlib._local":
        module = "pathlib"
    number = _BY_NAME.get((module, name))
    if number is not None:
        owner = sys.modules.get(module)
        if module == "builtins" and kind.__flags__ & HEAP_TYPE:
            return None
        if module in ("builtins", "types") or getattr(owner, name, None) is kind:
            NUMBERS[kind] = number
            return number
        return None
    numpy = sys.modules.get("numpy")
    generic = getattr(numpy, "generic", None)
    if generic is not None and issubclass(kind, generic) and (module == "numpy"):
        return SCALAR
    return None
