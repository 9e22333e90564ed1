"""Plain values to bytes and back: exact, fast, safe to decode from anybody.

Plain values are None, bool, int of any size, float, complex, bytes, bytearray, str, list, tuple, dict, set and frozenset. Types
are matched exactly: a subclass (namedtuple, OrderedDict, IntEnum, ...) is refused, never turned into its base. Decoding makes
these types and nothing else, checks every count against the bytes that are there before it allocates, and
raises CodecError for whatever it does not know.

On Python 2.7 `unicode` is text; `str` travels as text when it is valid UTF-8 and as bytes otherwise; text always arrives as
`unicode`, bytes as `str`; `int` and `long` are one. Strings with lone surrogates travel. (A pair of lone surrogates becomes one
character on 2.7, which does not tell them apart.)

A value is one tag byte and what the tag says; integers of the format are big-endian:

    N T F  None, True, False          i  int as int64              I  u32 size, two's complement
    f  float64   c  two float64       s  u8 size, UTF-8            S  u32 size, UTF-8
    b  u32 size, bytes                a  u32 size, bytearray
    l t d  u32 count, values: list, tuple, dict (key, value, key, value, ...)
    e z    a list or tuple follows: set, frozenset of its values
    q Q    u32 count, count int64: list, tuple of them             g G  the same with float64
    u U    u32 count, count u32 sizes, UTF-8: list, tuple of strings
    r      u32 number of something that stays where it is: see `carry`; the only one that needs more than the bytes
The homogeneous forms (q Q g G u U) are chosen by the encoder from BULK values on; they cost a tenth of the time.

One file of more than 600 lines, because it is in the start payload, where each module and each import costs bytes.
"""

import struct
import sys

from roamlet.wire.protocol import MAX_BODY, WireError

MAX_DEPTH = 128  # containers within containers
BULK = 8
FEW = 256  # keys, which may all have one hash
BIG = 1 << 20  # bytes; where the other end can take that, larger ones are not copied into the message but sent after it
# Of a value: what holds one list many times over must not fill the memory, or take minutes to decode.
_MAX_PIECES = MAX_BODY // 32
_LARGE = 1 << 20  # bytes of a message whose decoding is watched
# Values, and for those of the homogeneous forms a hundred times as many, between two looks at the time.
_STRIDE = 1 << 12
PY2 = sys.version_info[0] == 2

_U32 = struct.Struct(">I")
_TAG_U32 = struct.Struct(">cI")
_TAG_I64 = struct.Struct(">cq")
_TAG_F64 = struct.Struct(">cd")
_TAG_COMPLEX = struct.Struct(">cdd")
_I64 = struct.Struct(">q")
_F64 = struct.Struct(">d")
_COMPLEX = struct.Struct(">dd")
_SHORT = [struct.pack(">cB", b"s", size) for size in range(256)]

if PY2:
    text_type = unicode  # noqa: F821
    int_types = (int, long)  # noqa: F821
else:
    text_type = str
    int_types = (int,)
_HASHED_WELL = set([text_type, bytes])  # which of them have one hash cannot be known beforehand


class CodecError(WireError, ValueError):
    """The bytes are no value: cut, garbled, or made by somebody who means ill."""


class OutOfTime(WireError):
    """`until` of loads has said that there is no more time; what was decoded so far is dropped."""


class CannotTravel(WireError, TypeError):
    """A value is not plain. `path` says where it sits, `type_name` what it is."""

    def __init__(self, message, path="", type_name=""):
        WireError.__init__(self, message)
        self.path = path
        self.type_name = type_name


# ---- encoding


class _Referring(list):
    """The pieces of a value whose sender can name things by number, or takes large bytes as well."""

    refer = None
    large = False


richer = None  # of a target: what dumps does with a value that it cannot encode, where its caller says nothing else


def carry(kind):
    """Let objects of exactly this type travel as numbers, wherever `dumps` is given a `refer` that has numbers for them."""
    _CARRIED.add(kind)
    _ENCODE[kind] = _encode_reference


def carries(values):
    """Return whether one of these values travels as a number."""
    return not _CARRIED.isdisjoint(map(type, values))


def dumps(value, root="value", parts=None, refer=None, otherwise=None, head=None):
    """Return `value` as bytes. Thread-safe; does not block.

    `refer(object)` returns the number (u32) by which the other side's `loads` will know an object of a type that was
    given to `carry`, or None; it may be called for a value that is refused in the end.

    `root` names the value in the messages of CannotTravel. When the value is a tuple whose items have names of their own
    (the arguments of a call), `parts` lists these names and takes the place of `root`.
    `otherwise(value, root, parts, refer)` is returned for what is not plain, or larger than BIG
    (roamlet.wire.values.values); False for plain values alone, on a target too.
    `head`, for a tuple of less than BULK items: the beginning of a longer tuple, whose last items these are.
    Raises CannotTravel, naming the path of the first thing inside that is not plain.
    """
    if value is None:
        return b"N"
    if otherwise is None:
        otherwise = richer
    out = []
    if refer is not None:
        out = _Referring()
        out.refer = refer
    try:
        try:
            _ENCODE[type(value)](value, out, MAX_DEPTH)
        except _Large:
            if otherwise:
                raise
            out = _Referring()
            out.refer = refer
            out.large = True
            _ENCODE[type(value)](value, out, MAX_DEPTH)
        if len(out) > _MAX_PIECES:
            raise _Refused
        if head:
            out[0] = head
        data = b"".join(out)
    except (_Refused, KeyError, RuntimeError):
        # KeyError is a type without an encoder; RuntimeError is a dict or set that another thread changes meanwhile, or
        # a RecursionError of a caller that is deep already. The slow second walk finds out which, and where.
        data = None
    if otherwise and (data is None or len(data) > MAX_BODY):
        return otherwise(value, root, parts, refer)
    if data is None:
        raise _explain(value, root, parts, refer)
    if len(data) > MAX_BODY:
        raise CannotTravel(
            "%s takes %d bytes, and a message holds %d; send it in parts" % (root, len(data), MAX_BODY), root
        )
    return data


def head_of(value):
    """Return what precedes the bytes `value` in a message: followed by them, it is what `dumps` returns."""
    return _TAG_U32.pack(b"b", len(value))


class _Refused(Exception):
    """Stop encoding; the second walk says why."""


class _Large(_Refused):
    """There are bytes which are better not copied into the message."""


def _encode_none(value, out, depth):
    out.append(b"N")


def _encode_bool(value, out, depth):
    out.append(b"T" if value else b"F")


def _encode_int(value, out, depth):
    try:
        out.append(_TAG_I64.pack(b"i", value))
    except struct.error:
        data = _big_to_bytes(value)
        out.append(_TAG_U32.pack(b"I", len(data)))
        out.append(data)


def _encode_float(value, out, depth):
    out.append(_TAG_F64.pack(b"f", value))


def _encode_complex(value, out, depth):
    out.append(_TAG_COMPLEX.pack(b"c", value.real, value.imag))


def _encode_text(value, out, depth):
    _append_utf8(_to_utf8(value), out)


def _append_utf8(data, out):
    size = len(data)
    if size < 256:
        out.append(_SHORT[size] + data)
    else:
        out.append(_TAG_U32.pack(b"S", size))
        out.append(data)


def _encode_bytes(value, out, depth):
    if len(value) > BIG and not getattr(out, "large", False):
        raise _Large
    out.append(_TAG_U32.pack(b"b", len(value)))
    out.append(value)


def _encode_py2_str(value, out, depth):
    if _is_utf8(value):
        _append_utf8(value, out)
    else:
        _encode_bytes(value, out, depth)


def _encode_bytearray(value, out, depth):
    if len(value) > BIG and not getattr(out, "large", False):
        raise _Large
    value = bytes(value)  # one copy, so that size and content agree whatever other threads do
    out.append(_TAG_U32.pack(b"a", len(value)))
    out.append(value)


def _encode_list(value, out, depth):
    if len(value) >= BULK:
        value = tuple(value)
        if _encode_bulk(value, out, b"q", b"g", b"u"):
            return
    _encode_items(b"l", value, out, depth)


def _encode_tuple(value, out, depth):
    if len(value) < BULK or not _encode_bulk(value, out, b"Q", b"G", b"U"):
        _encode_items(b"t", value, out, depth)


def _encode_items(tag, value, out, depth):
    if not depth or len(out) + len(value) > _MAX_PIECES:
        raise _Refused
    out.append(_TAG_U32.pack(tag, len(value)))
    depth -= 1
    for item in value:
        _ENCODE[type(item)](item, out, depth)


def _encode_bulk(value, out, int_tag, float_tag, text_tag):
    """Encode a tuple whose items are of one simple type; return False, with nothing done, for any other."""
    kinds = set(map(type, value))
    if len(kinds) != 1:
        return False
    kind = kinds.pop()
    count = len(value)
    try:
        if kind is int:
            data = struct.Struct(">%dq" % count).pack(*value)
            tag = int_tag
        elif kind is float:
            data = struct.Struct(">%dd" % count).pack(*value)
            tag = float_tag
        elif kind is text_type:
            texts = [_to_utf8(text) for text in value] if PY2 else list(map(str.encode, value))
            data = struct.Struct(">%dI" % count).pack(*map(len, texts)) + b"".join(texts)
            tag = text_tag
        else:
            return False
    except (struct.error, UnicodeError):
        return False  # an int above 64 bits, a lone surrogate: one by one, then
    out.append(_TAG_U32.pack(tag, count))
    out.append(data)
    return True


def _encode_dict(value, out, depth):
    if not depth or len(out) + 2 * len(value) > _MAX_PIECES:
        raise _Refused
    out.append(_TAG_U32.pack(b"d", len(value)))
    depth -= 1
    for key, item in value.items():
        _ENCODE[type(key)](key, out, depth)
        _ENCODE[type(item)](item, out, depth)


def _encode_set(value, out, depth):
    if not depth:
        raise _Refused
    out.append(b"e")
    _encode_tuple(tuple(value), out, depth - 1)


def _encode_frozenset(value, out, depth):
    if not depth:
        raise _Refused
    out.append(b"z")
    _encode_tuple(tuple(value), out, depth - 1)


def _encode_reference(value, out, depth):
    refer = getattr(out, "refer", None)
    number = refer(value) if refer is not None else None
    if number is None:
        raise _Refused
    out.append(_TAG_U32.pack(b"r", number))


if PY2:

    def _to_utf8(value):
        return value.encode("utf-8")

    def _is_utf8(data):
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return False
        # 2.7 also takes the three bytes of a lone surrogate, which no other Python calls UTF-8.
        return not any(rest[:1] >= b"\xa0" for rest in data.split(b"\xed")[1:])

    def _big_to_bytes(value):
        size = value.bit_length() // 8 + 1
        return ("%0*x" % (2 * size, value & ((1 << 8 * size) - 1))).decode("hex")

    def _big_from_bytes(data):
        value = int(bytes(data).encode("hex") or "0", 16)
        return value - (1 << 8 * len(data)) if len(data) and data[0] & 0x80 else value

    def _from_utf8(data):
        return data.decode("utf-8")

else:

    def _to_utf8(value):
        try:
            return value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")

    def _big_to_bytes(value):
        return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)

    def _big_from_bytes(data):
        return int.from_bytes(data, "big", signed=True)

    def _from_utf8(data):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.decode("utf-8", "surrogatepass")


_ENCODE = {
    type(None): _encode_none,
    bool: _encode_bool,
    float: _encode_float,
    complex: _encode_complex,
    bytes: _encode_py2_str if PY2 else _encode_bytes,
    text_type: _encode_text,
    bytearray: _encode_bytearray,
    list: _encode_list,
    tuple: _encode_tuple,
    dict: _encode_dict,
    set: _encode_set,
    frozenset: _encode_frozenset,
}
for _type in int_types:
    _ENCODE[_type] = _encode_int
_CARRIED = set()  # types that travel as numbers


# ---- why a value cannot travel

_CONTAINERS = (list, tuple, dict, set, frozenset)


def _explain(value, root, parts, refer):
    """Return the CannotTravel that says what in `value` is not plain, and where."""
    if parts and type(value) is tuple and len(parts) == len(value):
        pairs = [(item, parts[index]) for index, item in enumerate(value)]
    else:
        pairs = [(value, root)]
    done = set()
    for item, path in pairs:
        error = _search(item, path, MAX_DEPTH, set(), done, refer)
        if error is not None:
            return error
    return CannotTravel(
        "%s cannot travel: it is too large for one message, in bytes or in pieces (%d), or another thread changed it meanwhile; "
        "send it in parts, or send a copy" % (root, _MAX_PIECES),
        root,
    )


def _search(value, path, depth, around, done, refer):
    """Return why `value` cannot travel, or None. `around`: ids of what it lies in; `done`: of what was found to be plain."""
    kind = type(value)
    if kind not in _CONTAINERS:
        if kind in _CARRIED:
            return _refusal(value, path) if refer is None or refer(value) is None else None
        return None if kind in _ENCODE else _refusal(value, path)
    if id(value) in done:
        return None
    if id(value) in around or not depth:
        why = "contains itself" if depth else "lies more than %d containers deep" % MAX_DEPTH
        return CannotTravel("%s cannot travel: it %s" % (_short(path), why), path, kind.__name__)
    if kind is dict:
        steps = []
        for key, item in list(value.items()):
            steps.append((key, "%s, key %s" % (path, _name(key))))
            steps.append((item, "%s[%s]" % (path, _name(key))))
    elif kind in (set, frozenset):
        steps = [(item, "%s, item %s" % (path, _name(item))) for item in list(value)]
    else:
        steps = [(item, "%s[%d]" % (path, index)) for index, item in enumerate(value)]
    around.add(id(value))
    for item, where in steps:
        error = _search(item, where, depth - 1, around, done, refer)
        if error is not None:
            return error
    around.discard(id(value))
    done.add(id(value))
    return None


def _refusal(value, path):
    kind = type(value)
    name = kind.__name__
    if kind.__module__ not in ("builtins", "__builtin__"):
        name = "%s.%s" % (kind.__module__, name)
    return CannotTravel("%s cannot travel: it is a %s; %s" % (_short(path), name, _advice(value)), path, name)


def _short(path):
    return path if len(path) < 300 else path[:140] + " ... " + path[-140:]


def _name(value):
    """A key or an item in a path: as it is when short and plain, else its type only (a repr may run anybody's code)."""
    kind = type(value)
    if kind in _ENCODE and kind not in _CONTAINERS:
        text = repr(value)
        return text if len(text) <= 40 else text[:37] + "..."
    return "of type %s" % kind.__name__


def _advice(value):
    if type(value) in _CARRIED:
        return "it lives on another link than this one, or its link has ended"
    for base in (dict, list, tuple, set, frozenset, bool) + int_types + (float, text_type, bytes):
        if issubclass(type(value), base):  # not isinstance, which asks the value itself
            return "send %s(...) of it, since only exact plain types travel" % base.__name__
    if hasattr(type(value), "next" if PY2 else "__next__"):
        return "send list(...) of it"
    return "only None, bool, int, float, complex, bytes, str, list, tuple, dict, set and frozenset travel"


# ---- decoding


class Watched(bytearray if PY2 else bytes):
    """Bytes that may name things by number, and whose decoding is bounded: in pieces, and in time."""

    refer = None
    until = None
    left = 0


def loads(data, refer=None, start=0, until=None):
    """Return the value that `data` (bytes) holds from `start` on. Thread-safe; does not block; runs no code of others but `refer`.

    `refer(number)` returns what the other side has named so, or raises CodecError; without it no number is taken. `until()` is
    asked now and then while a large message is decoded; where it returns true, OutOfTime is raised.
    Raises CodecError when the bytes are no value, hold more than one, nest deeper than MAX_DEPTH, or have more pieces than the
    other side's `dumps` sends.
    """
    if data == b"N":
        return None
    is_watched = len(data) > _LARGE
    if type(data) is not bytes:  # one of roamlet.wire.values.values
        data.refer = refer
        data.until = until
        data.left = _MAX_PIECES
    elif data[start : start + 1] != b"b" and (is_watched or (refer is not None and b"r" in data)):
        data = Watched(data)
        data.refer = refer
        data.until = until
        data.left = _MAX_PIECES
    elif PY2:
        data = bytearray(data)
    try:
        value, position = _DECODE[data[start]](data, start + 1, MAX_DEPTH)
    except (CannotTravel, OutOfTime):
        raise
    except (IndexError, struct.error, UnicodeError, TypeError, OverflowError, AttributeError) as error:
        # Cut in the middle, no UTF-8, an unhashable key, a tag of roamlet.wire.values.values where none may be.
        raise CodecError("a message of %d bytes is garbled: %s" % (len(data), error))
    if position != len(data):
        # Also where a slice came out short: the position is then past the end.
        raise CodecError("a message of %d bytes is garbled: its value ends at %d" % (len(data), position))
    return value


def _decode_unknown(data, position, depth):
    raise CodecError("a message is garbled: unknown tag %d at %d" % (data[position - 1], position - 1))


def _decode_none(data, position, depth):
    return None, position


def _decode_true(data, position, depth):
    return True, position


def _decode_false(data, position, depth):
    return False, position


def _decode_int(data, position, depth):
    return _I64.unpack_from(data, position)[0], position + 8


def _decode_big(data, position, depth):
    stop = position + 4 + _U32.unpack_from(data, position)[0]
    return _big_from_bytes(data[position + 4 : stop]), stop


def _decode_float(data, position, depth):
    return _F64.unpack_from(data, position)[0], position + 8


def _decode_complex(data, position, depth):
    return complex(*_COMPLEX.unpack_from(data, position)), position + 16


def _decode_short_text(data, position, depth):
    stop = position + 1 + data[position]
    return _from_utf8(data[position + 1 : stop]), stop


def _decode_text(data, position, depth):
    stop = position + 4 + _U32.unpack_from(data, position)[0]
    return _from_utf8(data[position + 4 : stop]), stop


def _decode_bytes(data, position, depth):
    stop = position + 4 + _U32.unpack_from(data, position)[0]
    return bytes(data[position + 4 : stop]), stop


def _decode_bytearray(data, position, depth):
    stop = position + 4 + _U32.unpack_from(data, position)[0]
    return bytearray(data[position + 4 : stop]), stop


def _decode_reference(data, position, depth):
    refer = getattr(data, "refer", None)
    if refer is None:
        raise CodecError("a message names something of the link's where none may be")
    return refer(_U32.unpack_from(data, position)[0]), position + 4


def _count(data, position, size):
    """Read a count of values that take at least `size` bytes each; refuse it when they cannot all be there."""
    count = _U32.unpack_from(data, position)[0]
    if count * size > len(data) - position - 4:
        raise CodecError("a message is garbled: %d values announced, %d bytes left" % (count, len(data) - position - 4))
    return count, position + 4


def spend(data, count):
    """Count so many more pieces of a message of more than _LARGE bytes. Raises CodecError when they are too many, OutOfTime."""
    left = data.left
    data.left -= count
    if data.left < 0:
        raise CodecError("a message is garbled: it has more than %d pieces" % _MAX_PIECES)
    if left // _STRIDE != data.left // _STRIDE:
        _watch(data)


def _watch(data):
    """Raise OutOfTime when the caller of loads has no more time for this message."""
    until = getattr(data, "until", None)
    if until is not None and until():
        raise OutOfTime("a message of %d bytes was not decoded in time" % len(data))


def _decode_many(data, position, depth, count):
    """Decode so many values, with looks at the time; return them as a list."""
    items = []
    while count:
        some = min(count, _STRIDE)
        count -= some
        for _ in range(some):
            item, position = _DECODE[data[position]](data, position + 1, depth)
            items.append(item)
        _watch(data)
    return items, position


def _decode_list(data, position, depth):
    if not depth:
        raise CodecError("a message nests deeper than %d containers" % MAX_DEPTH)
    count, position = _count(data, position, 1)
    depth -= 1
    if len(data) > _LARGE:
        spend(data, count)
        if count > _STRIDE:
            return _decode_many(data, position, depth, count)
    items = []
    for _ in range(count):
        item, position = _DECODE[data[position]](data, position + 1, depth)
        items.append(item)
    return items, position


def _decode_tuple(data, position, depth):
    items, position = _decode_list(data, position, depth)
    return tuple(items), position


def _decode_dict(data, position, depth):
    if not depth:
        raise CodecError("a message nests deeper than %d containers" % MAX_DEPTH)
    count, position = _count(data, position, 2)
    depth -= 1
    if len(data) > _LARGE:
        spend(data, 2 * count)
    if count > FEW:
        return _decode_large_dict(data, position, depth, count)
    result = {}
    for _ in range(count):
        key, position = _DECODE[data[position]](data, position + 1, depth)
        result[key], position = _DECODE[data[position]](data, position + 1, depth)
    return result, position


def _decode_large_dict(data, position, depth, count):
    items, position = _decode_many(data, position, depth, 2 * count)
    keys = items[::2]
    check_keys(keys)
    return dict(zip(keys, items[1::2])), position  # noqa: B905 - 2.7 knows no strict


def check_keys(keys):
    """Refuse many keys of one hash: to put them into a dict or a set takes the square of their number."""
    if len(keys) <= FEW or set(map(type, keys)) <= _HASHED_WELL or len(set(map(hash, keys))) > len(keys) - FEW:
        return
    seen = {}
    for key in map(hash, keys):
        seen[key] = seen.get(key, 0) + 1
    if max(seen.values()) > FEW:
        raise CodecError("a message is garbled: %d keys of one hash" % max(seen.values()))


def _decode_set_items(data, position, depth):
    """Decode the list or tuple that holds a set's items."""
    if not depth:
        raise CodecError("a message nests deeper than %d containers" % MAX_DEPTH)
    items, position = _DECODE[data[position]](data, position + 1, depth - 1)
    if type(items) not in (list, tuple):
        raise CodecError("a message is garbled: a set of %s" % type(items).__name__)
    check_keys(items)
    return items, position


def _decode_set(data, position, depth):
    items, position = _decode_set_items(data, position, depth)
    return set(items), position


def _decode_frozenset(data, position, depth):
    items, position = _decode_set_items(data, position, depth)
    return frozenset(items), position


def _decode_ints(data, position, depth):
    return _unpacked(data, position, "q")


def _decode_floats(data, position, depth):
    return _unpacked(data, position, "d")


def _unpacked(data, position, form):
    """The tuple of numbers of 8 bytes each that follow their count, and where it ends."""
    count, position = _count(data, position, 8)
    stop = position + 8 * count
    if count <= 100 * _STRIDE:
        return struct.Struct(">%d%s" % (count, form)).unpack_from(data, position), stop
    items = []
    for start in range(position, stop, 800 * _STRIDE):
        some = min(stop - start, 800 * _STRIDE) // 8
        items.extend(struct.Struct(">%d%s" % (some, form)).unpack_from(data, start))
        _watch(data)
    return tuple(items), stop


def _decode_texts(data, position, depth):
    count, position = _count(data, position, 4)
    sizes = struct.Struct(">%dI" % count).unpack_from(data, position)
    position += 4 * count
    items = []
    for start in range(0, count, 100 * _STRIDE):
        for size in sizes[start : start + 100 * _STRIDE]:
            stop = position + size
            items.append(_from_utf8(data[position:stop]))
            position = stop
        _watch(data)
    return tuple(items), position


def _as_list(decode):
    def decode_as_list(data, position, depth):
        items, position = decode(data, position, depth)
        return list(items), position

    return decode_as_list


_DECODE = [_decode_unknown] * 256
for _tag, _decoder in (
    ("N", _decode_none),
    ("T", _decode_true),
    ("F", _decode_false),
    ("i", _decode_int),
    ("I", _decode_big),
    ("f", _decode_float),
    ("c", _decode_complex),
    ("s", _decode_short_text),
    ("S", _decode_text),
    ("b", _decode_bytes),
    ("a", _decode_bytearray),
    ("l", _decode_list),
    ("t", _decode_tuple),
    ("d", _decode_dict),
    ("e", _decode_set),
    ("z", _decode_frozenset),
    ("q", _as_list(_decode_ints)),
    ("Q", _decode_ints),
    ("g", _as_list(_decode_floats)),
    ("G", _decode_floats),
    ("u", _as_list(_decode_texts)),
    ("U", _decode_texts),
    ("r", _decode_reference),
):
    _DECODE[ord(_tag)] = _decoder
