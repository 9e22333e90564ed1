"""Values that are more than plain: dates, exact numbers, paths, arrays, exceptions, and instances of classes.

Both sides use this file: the parent imports it, a target gets it when it first meets such a value, in either direction. What is
plain stands in weft.wire.codec, and this adds tags to its tables when it is imported. Which classes may be made is not decided
here: whoever decodes says so, see `loads`.

A message that holds such values begins with a tag that no plain one has:

    V  the table of classes, then the value. The table is a list of tuples (module, qualified name, shape, names of fields...)
    k  u8 number of one of the KINDS below, then its state, a value
    o  u32 number in the table of classes, then the values of its fields: an instance
    B  u32 number of a buffer that came behind the message, see weft.wire.series

Values are trees: what is reached in two ways arrives twice, and what contains itself is refused.
"""

import struct
import sys
import types

from weft.wire import codec
from weft.wire.codec import _DECODE, MAX_DEPTH, PY2, CannotTravel, CodecError, int_types, text_type


class _Pattern(object):
    """A regular expression, compiled when it is first needed: re has not been imported everywhere when this part comes."""

    def __init__(self, text):
        self._text = text

    def match(self, text):
        import re

        self.match = re.compile(self._text).match
        return self.match(text)


OBJECT = "object"  # fields: those of the instance, by name
TUPLE = "tuple"  # a namedtuple: its items
ENUM = "enum"  # one field: the name of the member, or the number of a Flag that is several
EXCEPTION = "exception"  # two fields: args, and a dict of what else it holds

MOST_ASIDE = 4096  # buffers of one message
_MOST_CLASSES = 1 << 16
_MOST_DIGITS = 1 << 16  # of a Decimal
_MOST_EXPONENT = 7  # digits: hashing and comparing take their time beyond
_FRACTION_BITS = 1 << 14  # of each half: reducing a fraction takes the square of it
_LONGEST_NAME = 1000
_HEAP_TYPE = 1 << 9
_U32 = struct.Struct(">I")
_TAG_U32 = struct.Struct(">cI")
_KIND = [struct.pack(">cB", b"k", number) for number in range(64)]
_DATE = struct.Struct(">HBB")
_TIME = struct.Struct(">BBBIB")
_DATETIME = struct.Struct(">HBBBBBIB")
_DECIMAL = _Pattern(r"-?(?:[0-9]+(?:\.[0-9]*)?(?:E[+-]?[0-9]{1,%d})?|Infinity|s?NaN[0-9]*)\Z" % _MOST_EXPONENT)
_DTYPE = _Pattern(r"[<>|=]?[biufcSUMmV][0-9]+(\[[0-9A-Za-z]{1,8}\])?\Z")
_ZONE = _Pattern(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,3}\Z")
_MEMBER = types.MemberDescriptorType


class Message(bytearray if PY2 else bytes):
    """The bytes of a message with what decoding it needs besides."""

    refer = None
    buffers = ()
    resolve = None
    makers = None  # a list in the middle of decoding


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


# ---- encoding


def dumps(value, root="value", parts=None, refer=None, aside=None):
    """Return `value` as bytes: see weft.wire.codec.dumps, which refuses what this takes.

    `aside`: a list that takes large buffers out of the message, or None. Raises codec.CannotTravel.
    """
    return Packer(refer, aside).message(value, root, parts)


class Packer(object):
    """Encodes one message. What a target may send up; the parent adds what goes down (functions, say)."""

    def __init__(self, refer=None, aside=None):
        self.out = codec._Referring()
        self.out.refer = refer
        self.out.large = True  # what is not put aside is joined
        self.aside = aside
        self._table = []
        self._numbers = {}  # (class, names of fields) -> number in the table
        self._around = set()  # ids of what lies around the value that is being encoded

    def message(self, value, root, parts=None):
        """Return the bytes; raise codec.CannotTravel when something inside cannot travel."""
        refusal = None
        try:
            if parts and type(value) is tuple and len(parts) == len(value):
                self.items(b"t", value, value, MAX_DEPTH)
            else:
                parts = None
                self.put(value, MAX_DEPTH)
        except Refusal as error:  # not kept, or it would hold this frame, which holds it
            refusal = error.why, error.type_name, error.steps[::-1]
        except (RuntimeError, BufferError) as error:
            refusal = "%s; send a copy, if another thread changes it meanwhile" % error, type_name(type(value)), []
        if refusal is None:
            return b"V" + codec.dumps(self._table) + b"".join(self.out)
        why, name, steps = refusal
        if parts and steps:
            root = parts[int(steps.pop(0)[1:-1])]
        path = root + "".join(steps)
        raise CannotTravel("%s cannot travel: %s" % (codec._short(path), why), path, name)

    def put(self, value, depth):
        """Encode one value. Raises Refusal."""
        kind = type(value)
        encode = _CONTAINERS.get(kind)
        if encode is not None:
            encode(self, value, depth)
        elif kind in codec._ENCODE:
            try:
                codec._ENCODE[kind](value, self.out, depth)
            except codec._Refused:
                raise Refusal("it is a %s; %s" % (type_name(kind), codec._advice(value)), value)
        else:
            self.other(value, kind, depth)

    def other(self, value, kind, depth):
        """Encode a value that is not plain."""
        number = _NUMBERS.get(kind) or _look_up(kind)
        if number:
            self.put_kind(number, KINDS[number][2](value), value, depth)
        elif issubclass(kind, type) or kind is getattr(types, "ClassType", None):
            self.put_class(value, depth)
        else:
            self.put_instance(value, kind, depth)

    def put_kind(self, number, state, value, depth):
        """Encode the state of a value as one of the KINDS."""
        self.out.append(_KIND[number])
        self.enter(value, depth)
        try:
            self.put(state, depth - 1)
        except Refusal as error:
            step = KINDS[number][4]
            if step is not None and error.steps:
                error.steps[-1] = step(error.steps[-1])
            raise
        self._around.discard(id(value))

    def put_class(self, value, depth):
        """Encode a class itself, by its name."""
        self.put_kind(CLASS, self.name_of_class(value), value, depth)

    def name_of_class(self, kind):
        """Return (module, qualified name) by which the other side knows a class."""
        return codec_text(kind.__module__), codec_text(getattr(kind, "__qualname__", kind.__name__))

    def put_instance(self, value, kind, depth):
        """Encode an instance of somebody's class by its fields, or refuse it."""
        shape = shape_of(kind)
        if shape is None:
            raise Refusal(_why_not(value, kind), value)
        names, values, steps = fields_of(value, shape)
        key = (kind, names)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._table)
            self._table.append(self.name_of_class(kind) + (codec_text(shape),) + names)
        self.out.append(_TAG_U32.pack(b"o", number))
        self.enter(value, depth)
        index = -1
        try:
            for item in values:
                index += 1
                self.put(item, depth - 1)
        except Refusal as error:
            raise error.at(steps(index))
        self._around.discard(id(value))

    def enter(self, value, depth):
        """Refuse what contains itself, or lies too deep, or has become too many pieces."""
        if id(value) in self._around:
            raise Refusal("it contains itself", value)
        if not depth:
            raise Refusal("it lies more than %d containers deep" % MAX_DEPTH, value)
        if len(self.out) > codec._MAX_PIECES:
            raise Refusal(
                "with it the message has more than %d pieces (what is reached in several ways is sent as often); send it in parts"
                % codec._MAX_PIECES,
                value,
            )
        self._around.add(id(value))

    def items(self, tag, items, value, depth):
        """Encode the items of the list or tuple `value`."""
        self.enter(value, depth)
        self.out.append(_TAG_U32.pack(tag, len(items)))
        index = -1
        try:
            for item in items:
                index += 1
                self.put(item, depth - 1)
        except Refusal as error:
            raise error.at("[%d]" % index)
        self._around.discard(id(value))

    def put_list(self, value, depth):
        items = tuple(value)  # whatever other threads do to it
        if len(items) < codec.BULK or not codec._encode_bulk(items, self.out, b"q", b"g", b"u"):
            self.items(b"l", items, value, depth)

    def put_tuple(self, value, depth):
        if len(value) < codec.BULK or not codec._encode_bulk(value, self.out, b"Q", b"G", b"U"):
            self.items(b"t", value, value, depth)

    def put_dict(self, value, depth):
        pairs = list(value.items())
        self.enter(value, depth)
        self.out.append(_TAG_U32.pack(b"d", len(pairs)))
        key = done = None
        try:
            for key, item in pairs:
                done = False
                self.put(key, depth - 1)
                done = True
                self.put(item, depth - 1)
        except Refusal as error:
            raise error.at(("[%s]" if done else ", key %s") % codec._name(key))
        self._around.discard(id(value))

    def put_set(self, value, depth, tag=b"e"):
        self.enter(value, depth)
        self.out.append(tag)
        items = tuple(value)
        try:
            self.put_tuple(items, depth - 1)
        except Refusal as error:
            if error.steps:
                error.steps[-1] = ", item %s" % codec._name(items[int(error.steps[-1][1:-1])])
            raise
        self._around.discard(id(value))

    def put_frozenset(self, value, depth):
        self.put_set(value, depth, b"z")

    def may_put_aside(self, value):
        """Whether a large value may travel behind the message. On 2.7 what is text does not: it arrives as such."""
        if self.aside is None or len(self.aside) >= MOST_ASIDE:
            return False
        return not (PY2 and isinstance(value, bytes) and codec._is_utf8(value))

    def put_bytes(self, value, depth):
        if len(value) > codec.BIG and self.may_put_aside(value):
            self.out.append(_TAG_U32.pack(b"B", len(self.aside)))
            self.aside.append(value)
        else:
            codec._ENCODE[type(value)](value, self.out, depth)


_CONTAINERS = {
    list: Packer.put_list,
    tuple: Packer.put_tuple,
    dict: Packer.put_dict,
    set: Packer.put_set,
    frozenset: Packer.put_frozenset,
    bytes: Packer.put_bytes,
    bytearray: Packer.put_bytes,
}


def codec_text(value):
    """Return a name as text, on 2.7 too."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _why_not(value, kind):
    name = type_name(kind)
    if kind is types.FunctionType or kind is types.MethodType or kind is types.BuiltinFunctionType:
        return "it is a %s; only data comes up" % name
    for base in (dict, list, tuple, set, frozenset, bool) + int_types + (float, text_type, bytes):
        if issubclass(kind, base):
            return "it is a %s; send %s(...) of it: a subclass is not turned into its base" % (name, base.__name__)
    if hasattr(kind, "__next__") or hasattr(kind, "next"):
        return "it is a %s; send list(...) of it" % name
    return "it is a %s, which holds something of this process's own; send what is needed to make it over there" % name


# ---- the shapes of instances


def shape_of(kind):
    """Return how instances of a class are taken apart, or None when they cannot be. Runs no code of the class."""
    if issubclass(kind, BaseException):
        return EXCEPTION
    enum = sys.modules.get("enum")
    if enum is not None and issubclass(kind, enum.Enum):
        return ENUM
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        return TUPLE if type(names) is tuple and kind.__itemsize__ and _is_plain(kind, tuple) else None
    return OBJECT if kind is not object and _is_plain(kind, object) else None


def _is_plain(kind, root):
    """Whether a class was made by class statements all the way down to `root`, so that its fields are all that there is."""
    size = root.__basicsize__ + 2 * struct.calcsize("P")
    for base in kind.__mro__:
        if base is root or base is object:
            continue
        if not base.__flags__ & _HEAP_TYPE or isinstance(vars(base).get("__new__"), types.BuiltinFunctionType):
            return False
        size += struct.calcsize("P") * len(list(_slots(base)))
    return issubclass(kind, root) and kind.__basicsize__ <= size


def _slots(base):
    """Yield (name, descriptor) of the slots that one class adds."""
    if base.__flags__ & _HEAP_TYPE:
        for name, member in list(vars(base).items()):
            if type(member) is _MEMBER:
                yield name, member


def slots_of(kind):
    """Return name -> descriptor of all slots of a class's instances."""
    found = {}
    for base in reversed(kind.__mro__):
        found.update(_slots(base))
    return found


def _dict_of(value):
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def _attribute(names):
    return lambda index: "." + names[index]


def _object_fields(value, kind):
    fields = dict(_dict_of(value))
    for name, member in slots_of(kind).items():
        try:
            fields[name] = member.__get__(value, kind)
        except AttributeError:
            pass  # not set
    if not all(isinstance(name, str) for name in fields):
        raise Refusal("it is a %s with a field whose name is no text" % type_name(kind), value)
    names = tuple(map(codec_text, fields))
    return names, list(fields.values()), _attribute(names)


def _tuple_fields(value, kind):
    if kind.__dictoffset__ and _dict_of(value):
        raise Refusal("it is a %s, a namedtuple that has other fields besides" % type_name(kind), value)
    names = tuple(map(codec_text, kind._fields))
    items = tuple.__getitem__(value, slice(None))
    if len(names) != len(items):
        raise Refusal("it is a %s of %d items for %d fields" % (type_name(kind), len(items), len(names)), value)
    return names, items, _attribute(names)


def _enum_fields(value, kind):
    said = value._name_
    if kind._member_map_.get(said) is not value:
        said = value._value_  # a Flag that is several
        if not isinstance(said, int):
            raise Refusal("it is no member of %s any more" % type_name(kind), value)
        said = int(said)
    return ("member",), (said,), lambda index: "._value_"


def _exception_fields(value, kind):
    args = value.args
    filename = getattr(value, "filename", None)
    if isinstance(value, EnvironmentError) and filename is not None and len(args) == 2:
        args += (filename,)  # which is how its constructor takes it
    fields = dict(_dict_of(value))
    fields.pop("__weft_hidden__", None)
    return ("args", "fields"), (tuple(args), fields), lambda index: (".args", ".__dict__")[index]


_FIELDS = {OBJECT: _object_fields, TUPLE: _tuple_fields, ENUM: _enum_fields, EXCEPTION: _exception_fields}


def fields_of(value, shape):
    """Return the names of an instance's fields, their values, and what names a field in a path by its index."""
    return _FIELDS[shape](value, type(value))


# ---- decoding


def loads(data, refer=None, resolve=None, buffers=()):
    """Return the value of a message that may hold more than plain values.

    `resolve(module, name, shape, fields)` returns a function that makes an instance of that class out of a list of the values
    of its fields; for shape None, the class itself. It raises CannotTravel for what may not be made, and without it nothing may.
    Raises CodecError when the bytes are no value, CannotTravel when they are one that cannot be made here.
    """
    message = to_decode(data, resolve)
    message.buffers = message.buffers or buffers
    return codec.loads(message, refer)


def to_decode(data, resolve):
    """Return `data` as a Message whose instances `resolve` makes, see `loads`."""
    message = data if isinstance(data, Message) else Message(data)
    message.resolve = resolve
    return message


def _decode_message(data, position, depth):
    if position != 1:
        raise CodecError("a message is garbled: there is another one inside")
    message = data
    if not isinstance(data, Message):
        message = Message(data)
        message.refer = getattr(data, "refer", None)
        message.resolve = default_resolve
    try:
        table, position = _DECODE[message[1]](message, 2, MAX_DEPTH)
        if type(table) is not list or len(table) > _MOST_CLASSES:
            raise CodecError("a message is garbled: its table of classes is none")
        message.makers = [_maker(message, entry) for entry in table]
        return _DECODE[message[position]](message, position + 1, MAX_DEPTH)
    except (CodecError, CannotTravel, MemoryError):
        raise
    except ImportError as error:
        raise CannotTravel("a value cannot travel: %s" % error)
    except Exception as error:
        # Whatever the constructors of the standard library say of a state that no encoder sends.
        raise CodecError("a message is garbled: %s: %s" % (type(error).__name__, str(error)[:200]))


default_resolve = None  # what makes instances in messages that codec.loads decodes


may_import = False  # what a value names may be imported: on a target, for what its parent sends


def _maker(message, entry):
    if type(entry) is not tuple or len(entry) < 3 or not all(type(part) is text_type for part in entry):
        raise CodecError("a message is garbled: a class that has no name")
    if max(map(len, entry)) > _LONGEST_NAME or entry[2] not in _FIELDS:
        raise CodecError("a message is garbled: a class of an unknown shape")
    return len(entry) - 3, _resolve(message, entry[0], entry[1], entry[2], entry[3:])


def _resolve(message, module, name, shape, fields):
    if message.resolve is None:
        raise CannotTravel(
            "a value cannot travel: it is a %s.%s, and no classes are made of what comes this way" % (module, name)
        )
    return message.resolve(module, name, shape, fields)


def _decode_instance(data, position, depth):
    if not depth:
        raise CodecError("a message nests deeper than %d containers" % MAX_DEPTH)
    count, make = data.makers[_U32.unpack_from(data, position)[0]]
    position += 4
    values = []
    for _ in range(count):
        item, position = _DECODE[data[position]](data, position + 1, depth - 1)
        values.append(item)
    return make(values), position


def _decode_kind(data, position, depth):
    if not depth:
        raise CodecError("a message nests deeper than %d containers" % MAX_DEPTH)
    number = data[position]
    if data.makers is None or not 0 < number < len(KINDS):
        raise CodecError("a message is garbled: unknown kind of value %d at %d" % (number, position))
    state, position = _DECODE[data[position + 1]](data, position + 2, depth - 1)
    if number == CLASS:
        module, name = _exact(state, text_type, text_type)
        return _resolve(data, module, name, None, ()), position
    return KINDS[number][3](state), position


def _decode_aside(data, position, depth):
    if data.makers is None:
        raise CodecError("a message is garbled: a buffer where none may be")
    return data.buffers[_U32.unpack_from(data, position)[0]], position + 4


def _exact(state, *kinds):
    """Return a state that is a tuple of exactly these types."""
    if type(state) is not tuple or len(state) != len(kinds):
        raise CodecError("a message is garbled: a value of the wrong state")
    for item, kind in zip(state, kinds):  # noqa: B905 - 2.7 knows no strict
        if kind is not None and type(item) is not kind and not (kind is int and type(item) in int_types):
            raise CodecError("a message is garbled: a value of the wrong state")
    return state


def _one(state, kind):
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


# ---- the kinds of values: how each is taken apart and made again


def _range_state(value):
    return tuple(value.__reduce__()[1])


def _make_range(state):
    return (xrange if PY2 else range)(*_exact(state, int, int, int))  # noqa: F821


def _slice_state(value):
    return value.start, value.stop, value.step


def _make_slice(state):
    return slice(*_exact(state, None, None, None))


def _datetime():
    import datetime  # as re in _Pattern

    return datetime


def _date_state(value):
    return bytearray(_DATE.pack(value.year, value.month, value.day))


def _make_date(state):
    return _datetime().date(*_DATE.unpack(bytes(_one(state, bytearray))))


def _time_state(value):
    fields = value.hour, value.minute, value.second, value.microsecond, getattr(value, "fold", 0)
    return bytearray(_TIME.pack(*fields)), value.tzinfo


def _make_time(state):
    fields, zone = _exact(state, bytearray, None)
    fields = _TIME.unpack(bytes(fields))
    return _datetime().time(*fields[:4], tzinfo=_zone(zone), **_fold(fields[4]))


def _datetime_state(value):
    fields = value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
    return bytearray(_DATETIME.pack(*(fields + (getattr(value, "fold", 0),)))), value.tzinfo


def _make_datetime(state):
    fields, zone = _exact(state, bytearray, None)
    fields = _DATETIME.unpack(bytes(fields))
    return _datetime().datetime(*fields[:7], tzinfo=_zone(zone), **_fold(fields[7]))


def _zone(zone):
    if zone is not None and not isinstance(zone, _datetime().tzinfo):
        raise CodecError("a message is garbled: a time zone that is none")
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
    return _datetime().timedelta(*_exact(state, int, int, int))


def _timezone_state(value):
    args = value.__getinitargs__()
    return args[0], (codec_text(args[1]) if len(args) > 1 else None)


def _timezone():
    """The class of fixed distances from UTC: that of the standard library, or for 2.7, which has none, one of our own."""
    if not PY2:
        return _datetime().timezone
    if not _TIMEZONE:
        _TIMEZONE.append(_make_timezone_class())
        _NUMBERS[_TIMEZONE[0]] = _BY_NAME["datetime", "timezone"]
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
            """See datetime.tzinfo."""
            return self._offset

        def dst(self, moment):
            """See datetime.tzinfo."""

        def tzname(self, moment):
            """See datetime.tzinfo."""
            return str(self._name or "UTC%+03d:%02d" % divmod(self._offset.total_seconds() // 60, 60))

    return timezone


def _make_timezone(state):
    offset, name = _exact(state, _datetime().timedelta, None)
    if name is not None:
        return _timezone()(offset, str(_one(name, text_type)))
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
    key = _one(state, text_type)
    if _ZONE.match(key) and any(os.path.isfile(os.path.join(folder, key)) for folder in zoneinfo.TZPATH):
        return zoneinfo.ZoneInfo(key)
    raise CannotTravel("a value cannot travel: the time zone %.80r is not among the files of this machine" % key)


def _decimal_state(value):
    text = codec_text(str(value))
    if len(text) > _MOST_DIGITS or not _DECIMAL.match(text):
        raise Refusal("it is a Decimal of more than %d digits, or exponent; send str() of it" % _MOST_DIGITS, value)
    return text


def _make_decimal(state):
    if len(_one(state, text_type)) > _MOST_DIGITS or not _DECIMAL.match(state):
        raise CodecError("a message is garbled: a Decimal that is none")
    import decimal  # here, because few values need it, and 2.7 takes its time for it

    return decimal.Decimal(state)


def _fraction_state(value):
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _FRACTION_BITS:
        raise Refusal("it is a Fraction of more than %d bits; send its two halves" % _FRACTION_BITS, value)
    return int(value.numerator), int(value.denominator)


def _make_fraction(state):
    above, below = _exact(state, int, int)
    if max(above.bit_length(), below.bit_length()) > _FRACTION_BITS or below <= 0:
        raise CodecError("a message is garbled: a Fraction that is none")
    import fractions  # as decimal

    return fractions.Fraction(above, below)


def _uuid_state(value):
    return bytearray(value.bytes)


def _make_uuid(state):
    import uuid  # as decimal

    return uuid.UUID(bytes=bytes(_one(state, bytearray)))


def _path_state(value):
    text = codec_text(str(value))
    if "\0" in text:
        raise Refusal("it is a path with a NUL in it", value)
    return text


def _make_path(name):
    def make(state):
        if "\0" in _one(state, text_type):
            raise CodecError("a message is garbled: a path with a NUL in it")
        return getattr(_imported("pathlib", "pathlib", "send str(...) of the path"), name)(state)

    return make


def _make_address(name):
    def make(state):
        if len(_one(state, text_type)) > 200:
            raise CodecError("a message is garbled: an address that is none")
        return getattr(_imported("ipaddress", "ipaddress", "send str(...) of the address"), name)(state)

    return make


def _address_state(value):
    return str(value)


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

    factory, items = _exact(state, None, dict)
    if factory is not None and not callable(factory):
        raise CodecError("a message is garbled: a default that cannot be made")
    return collections.defaultdict(factory, items)


def _default_step(step):
    return ".default_factory" if step == "[0]" else ""


def _deque_state(value):
    return value.maxlen, list(value)


def _make_deque(state):
    import collections  # as decimal

    longest, items = _exact(state, None, list)
    if longest is not None and (type(longest) not in int_types or longest < 0):
        raise CodecError("a message is garbled: a deque of odd length")
    return collections.deque(items, longest)


def _no_step(step):
    return ""


def _make_counter(state):
    import collections  # as decimal

    result = collections.Counter()
    dict.update(result, _one(state, dict))
    return result


def _array_state(value):
    code = value.typecode
    if code in ("u", "w", "c"):
        return codec_text(code), 0, False, codec_text(value.tounicode() if code != "c" else value.tostring())
    data = value.tostring() if PY2 else value.tobytes()
    return codec_text(code), value.itemsize, sys.byteorder == "big", bytearray(data)


def _make_array(state):
    import array  # as re in _Pattern

    code, size, big, data = _exact(state, text_type, int, bool, None)
    if code in ("u", "w", "c"):
        return array.array(str(code), _one(data, text_type))
    if len(code) != 1 or code not in "bBhHiIlLqQfd" or type(data) is not bytearray:
        raise CodecError("a message is garbled: an array that is none")
    result = array.array(str(code))
    if result.itemsize != size:  # long is of four bytes on some machines, of eight on others
        raise CannotTravel(
            "a value cannot travel: an array of %r has items of %d bytes over there and of %d here; use 'q' or 'i'"
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
    readonly, data = _exact(state, bool, bytearray)
    return memoryview(bytes(data) if readonly else data)


def _namespace_state(value):
    return vars(value)


def _make_namespace(state):
    if PY2:
        raise _absent("types.SimpleNamespace", "send vars(...) of it")
    result = types.SimpleNamespace()
    for name in _one(state, dict):
        _one(name, str)
    vars(result).update(state)
    return result


def _namespace_step(step):
    return "." + step[2:-2] if step[:2] == "['" else step


def _singleton_state(value):
    return value is Ellipsis


def _make_singleton(state):
    return Ellipsis if _one(state, bool) else NotImplemented


def _class_state(value):
    raise Refusal("it is a class", value)  # never called: put_class has its own


# ---- numpy, where it is there


def _numpy():
    """Return numpy. What comes up may not import it: then the caller has to have done so."""
    numpy = sys.modules.get("numpy")
    if numpy is None and may_import:
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
    text, shape, in_columns, writeable, data = _exact(state, text_type, tuple, bool, bool, bytearray)
    numpy = _numpy()
    kind = _dtype(numpy, text)
    count = 1
    for length in shape:
        if type(length) not in int_types or not 0 <= length < 1 << 62:
            raise CodecError("a message is garbled: an array that is none")
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
    text, data = _exact(state, text_type, bytearray)
    numpy = _numpy()
    kind = _dtype(numpy, text)
    if kind.itemsize != len(data):
        raise CodecError("a message is garbled: a number of another size than its type")
    return numpy.frombuffer(bytes(data), kind)[0]


class Buffer(object):
    """Bytes that arrive as a bytearray, and are not copied to be sent."""

    __slots__ = ("view",)

    def __init__(self, owner):
        self.view = memoryview(owner)

    def __len__(self):
        return self.view.shape[0]


def _put_buffer(packer, value, depth):
    if packer.may_put_aside(value):
        packer.out.append(_TAG_U32.pack(b"B", len(packer.aside)))
        packer.aside.append(value)
    else:
        packer.put(bytearray(value.view.tobytes()), depth)


_CONTAINERS[Buffer] = _put_buffer

CLASS = 1
SCALAR = 2
# In the order of their numbers: the first three are special. Each: module and name of the type, its state, how it is made of one,
# and what a step inside of the state is called in a path (None: as it is).
KINDS = [
    None,
    (None, "type", _class_state, None, None),
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
    ("ipaddress", "IPv4Address", _address_state, _make_address("IPv4Address"), None),
    ("ipaddress", "IPv6Address", _address_state, _make_address("IPv6Address"), None),
    ("ipaddress", "IPv4Network", _address_state, _make_address("IPv4Network"), None),
    ("ipaddress", "IPv6Network", _address_state, _make_address("IPv6Network"), None),
    ("ipaddress", "IPv4Interface", _address_state, _make_address("IPv4Interface"), None),
    ("ipaddress", "IPv6Interface", _address_state, _make_address("IPv6Interface"), None),
    ("collections", "OrderedDict", _ordered_state, _make_ordered, _ordered_step),
    ("collections", "defaultdict", _default_state, _make_default, _default_step),
    ("collections", "deque", _deque_state, _make_deque, _no_step),
    ("collections", "Counter", dict, _make_counter, None),
    ("array", "array", _array_state, _make_array, None),
    ("builtins", "memoryview", _view_state, _make_view, None),
    ("types", "SimpleNamespace", _namespace_state, _make_namespace, _namespace_step),
    ("builtins", "ellipsis", _singleton_state, _make_singleton, None),
    ("numpy", "ndarray", _ndarray_state, _make_ndarray, None),
]
_BY_NAME = dict(((entry[0], entry[1]), number) for number, entry in enumerate(KINDS) if entry and entry[0])
_BY_NAME["builtins", "xrange"] = _BY_NAME["builtins", "range"]
_BY_NAME["builtins", "NotImplementedType"] = _BY_NAME["builtins", "ellipsis"]
_NUMBERS = {}  # type -> number, of those that were met


def _look_up(kind):
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
        if module == "builtins" and kind.__flags__ & _HEAP_TYPE:
            return None
        if module in ("builtins", "types") or getattr(owner, name, None) is kind:
            _NUMBERS[kind] = number
            return number
        return None
    numpy = sys.modules.get("numpy")
    generic = getattr(numpy, "generic", None)
    if generic is not None and issubclass(kind, generic) and (module == "numpy"):
        return SCALAR
    return None


_DECODE[ord("V")] = _decode_message
_DECODE[ord("k")] = _decode_kind
_DECODE[ord("o")] = _decode_instance
_DECODE[ord("B")] = _decode_aside


# ---- making instances on a target, which takes whatever its parent sends


def install(child):
    """Let this target make instances of the classes that its parent names."""
    use(resolve_by_import, True)


def use(resolve, imports):
    """Let messages that codec.loads decodes make what `resolve` makes, see `loads`; `imports`: and import what they name."""
    global default_resolve, may_import  # noqa: PLW0603 - the tables that they belong to are global too
    default_resolve, may_import = resolve, imports


def find(module, name):
    """Return what `name`, a qualified one, leads to in a module, importing it."""
    __import__(str(module))
    found = sys.modules[str(module)]
    for part in name.split(".") if name else ():
        found = getattr(found, str(part))
    return found


def resolve_by_import(module, name, shape, fields):
    """See `loads`: any class that can be imported. Only for what the parent itself has sent."""
    if PY2 and module == "builtins":
        module = "exceptions" if shape == EXCEPTION else "__builtin__"
    try:
        kind = find(module, name)
    except ImportError as error:
        raise CannotTravel("a value cannot travel: importing its class %s.%s failed: %s" % (module, name, error))
    except AttributeError as error:
        raise CannotTravel("a value cannot travel: its class %s.%s is not there: %s" % (module, name, error))
    if shape is None:
        return kind
    return maker(kind, shape, fields)


def maker(kind, shape, fields):
    """Return the function that makes an instance of `kind` out of a list of the values of its `fields`.

    Runs no code of the class: neither its constructor nor a descriptor, a property or `__setstate__`.
    """
    if not isinstance(kind, type) or shape_of(kind) != shape:
        raise CannotTravel("a value cannot travel: %s is no %s here" % (type_name(kind), shape))
    return _MAKERS[shape](kind, tuple(str(name) for name in fields))


def _make_objects(kind, fields):
    slots = slots_of(kind)
    setters = [(index, slots[name]) for index, name in enumerate(fields) if name in slots]
    others = [(index, name) for index, name in enumerate(fields) if name not in slots]
    if others and not kind.__dictoffset__:
        raise CannotTravel("a value cannot travel: %s has no field %s here" % (type_name(kind), others[0][1]))

    def make(values):
        made = object.__new__(kind)
        for index, member in setters:
            member.__set__(made, values[index])
        if others:
            held = object.__getattribute__(made, "__dict__")
            for index, name in others:
                held[name] = values[index]
        return made

    return make


def _make_tuples(kind, fields):
    if tuple(kind._fields) != fields:
        raise CannotTravel("a value cannot travel: %s has the fields %s here, and %s over there" % (
            type_name(kind), ", ".join(kind._fields), ", ".join(fields)))  # fmt: skip
    return lambda values: tuple.__new__(kind, values)


def _make_enums(kind, fields):
    import enum  # not in 2.7, which has no class that leads here

    # Where somebody has written one of his own, making a Flag of several would run it.
    own_missing = any("_missing_" in vars(base) for base in kind.__mro__ if base.__module__ != "enum")

    def make(values):
        said = values[0]
        if type(said) is not int:
            member = kind._member_map_.get(_one(said, str))
        else:
            member = kind._value2member_map_.get(said)
            known = 0
            if member is None and issubclass(kind, enum.Flag) and not own_missing:
                for one in kind._member_map_.values():
                    known |= one._value_
                if not said & ~known:
                    member = kind(said)
        if member is None:
            raise CannotTravel("a value cannot travel: %s has no member %.80r here" % (type_name(kind), said))
        return member

    if len(fields) != 1:
        raise CodecError("a message is garbled: an enum of several fields")
    return make


def _make_exceptions(kind, fields):
    base = next(one for one in kind.__mro__ if not one.__flags__ & _HEAP_TYPE)
    if len(fields) != 2:
        raise CodecError("a message is garbled: an exception of several fields")

    def make(values):
        args, held = _exact(tuple(values), tuple, dict)
        if not all(type(name) in (str, text_type) for name in held):
            raise CodecError("a message is garbled: an exception with a field that has no name")
        check_exception(base, args)
        made = base.__new__(kind, *args)
        base.__init__(made, *args)  # the interpreter's own, where some of them keep their fields
        object.__getattribute__(made, "__dict__").update((str(name), value) for name, value in held.items())
        return made

    return make


def check_exception(base, args):
    """Refuse arguments that the interpreter's own exceptions take, and then fail over, or read memory that is not theirs."""
    sound = True
    if issubclass(base, UnicodeError) and base is not UnicodeError:
        sound = len(args) in (4, 5)
        if sound:
            held, start, end = args[-4:-1]
            sound = type(held) in (text_type, bytes) and type(start) in int_types and type(end) in int_types
            sound = sound and 0 <= start <= end <= len(held)
    elif issubclass(base, SyntaxError) and len(args) > 1:
        where = args[1]
        sound = len(args) == 2 and type(where) is tuple and len(where) in (4, 6)
        if sound:
            for item in (where[0], where[3]):
                sound = sound and (item is None or type(item) in (text_type, bytes))
            for item in where[1:3] + where[4:]:
                sound = sound and (item is None or (type(item) in int_types and -1 <= item <= 1 << 16))
    elif base.__name__ in ("ExceptionGroup", "BaseExceptionGroup"):
        sound = False
    if not sound:
        raise CodecError("a message is garbled: a %s with arguments that it cannot have" % base.__name__)


_MAKERS = {OBJECT: _make_objects, TUPLE: _make_tuples, ENUM: _make_enums, EXCEPTION: _make_exceptions}
