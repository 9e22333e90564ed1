"""Messages of values that are more than plain: dates, exact numbers, paths, arrays, exceptions, and instances of classes.

Here they are encoded and decoded; how a value is taken apart and made again is in roamlet.wire.values.kinds and
roamlet.wire.values.instances. Both sides use the three files: the parent imports them, a target gets them when it first
meets such a value, in either direction. What is plain is in roamlet.wire.codec, and this adds tags to its tables
when it is imported. Which classes may be made is not decided here: whoever decodes says so, see `loads`.

A message that holds such values begins with a tag that no plain one has:

    V  the table of classes, then the value. The table is a list of tuples (module, qualified name, shape, names of fields...)
    k  u8 number of one of roamlet.wire.values.kinds.KINDS, then its state, a value
    o  u32 number in the table of classes, then the values of its fields: an instance
    B  u32 number of a buffer that came after the message, see roamlet.wire.values.large_messages

Values are trees: what is reached in two ways arrives twice, and what contains itself is refused.
"""

import struct
import types

from roamlet.wire import codec
from roamlet.wire.codec import _DECODE, MAX_DEPTH, PY2, CannotTravel, CodecError, int_types, text_type
from roamlet.wire.values import kinds
from roamlet.wire.values.instances import SHAPES, fields_of, resolve_by_import, shape_of
from roamlet.wire.values.kinds import CLASS, KINDS, NUMBERS, Buffer, Refusal, codec_text, exact, look_up, type_name

MOST_ASIDE = 4096  # buffers of one message
_MOST_CLASSES = 1 << 16
_LONGEST_NAME = 1000
_U32 = struct.Struct(">I")
_TAG_U32 = struct.Struct(">cI")
_KIND = [struct.pack(">cB", b"k", number) for number in range(64)]

default_resolve = None  # what makes instances in messages that codec.loads decodes


class Message(codec.Watched):
    """The bytes of a message with what decoding it needs besides."""

    buffers = ()
    resolve = None
    makers = None  # a list in the middle of decoding


# ---- encoding


def dumps(value, root="value", parts=None, refer=None, aside=None):
    """Return `value` as bytes: see roamlet.wire.codec.dumps, which refuses what this takes.

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
        if refusal is None and len(self.out) > codec._MAX_PIECES:
            refusal = _too_many(), type_name(type(value)), []
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
        number = NUMBERS.get(kind) or look_up(kind)
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

    def enter(self, value, depth, count=1):
        """Refuse what contains itself, or lies too deep, or becomes too many pieces with `count` more."""
        if id(value) in self._around:
            raise Refusal("it contains itself", value)
        if not depth:
            raise Refusal("it lies more than %d containers deep" % MAX_DEPTH, value)
        if len(self.out) + count > codec._MAX_PIECES:
            raise Refusal(_too_many(), value)
        self._around.add(id(value))

    def items(self, tag, items, value, depth):
        """Encode the items of the list or tuple `value`."""
        self.enter(value, depth, len(items))
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
        self.enter(value, depth, 2 * len(pairs))
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

    def put_aside(self, value):
        """Let a large value travel after the message; False where it may not. On 2.7 what is text does not: it arrives as such."""
        is_text = PY2 and type(value) is bytes and codec._is_utf8(value)
        if is_text or self.aside is None or len(self.aside) >= MOST_ASIDE:
            return False
        self.out.append(_TAG_U32.pack(b"B", len(self.aside)))
        self.aside.append(value)
        return True

    def put_bytes(self, value, depth):
        if len(value) <= codec.BIG or not self.put_aside(value):
            codec._ENCODE[type(value)](value, self.out, depth)

    def put_buffer(self, value, depth):
        if not self.put_aside(value):
            self.put(bytearray(value.view.tobytes()), depth)


def _too_many():
    return (
        "with it the message has more than %d pieces (what is reached in several ways is sent as often); send it in parts"
        % codec._MAX_PIECES
    )


_CONTAINERS = {
    list: Packer.put_list,
    tuple: Packer.put_tuple,
    dict: Packer.put_dict,
    set: Packer.put_set,
    frozenset: Packer.put_frozenset,
    bytes: Packer.put_bytes,
    bytearray: Packer.put_bytes,
    Buffer: Packer.put_buffer,
}


def _why_not(value, kind):
    name = type_name(kind)
    if kind is types.FunctionType or kind is types.MethodType or kind is types.BuiltinFunctionType:
        return "it is a %s; only data comes up" % name
    for base in (dict, list, tuple, set, frozenset, bool) + int_types + (float, text_type, bytes):
        if issubclass(kind, base):
            return "it is a %s; send %s(...) of it: a subclass is not turned into its base" % (name, base.__name__)
    if hasattr(kind, "read"):
        return "it is a %s; send its path, or what read() returns" % name
    if hasattr(kind, "next" if PY2 else "__next__"):  # the `next` of tasklets is another
        return "it is a %s; send list(...) of it" % name
    return (
        "it is a %s, which holds something of this process's own; send what is needed to make it on the other side"
        % name
    )


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
        message.until = getattr(data, "until", None)
        message.left = codec._MAX_PIECES
        message.resolve = default_resolve
    try:
        table, position = _DECODE[message[1]](message, 2, MAX_DEPTH)
        if type(table) is not list or len(table) > _MOST_CLASSES:
            raise CodecError("a message is garbled: it has no table of classes")
        message.makers = [_maker(message, entry) for entry in table]
        message.left = codec._MAX_PIECES  # the sender counts those of the value alone
        return _DECODE[message[position]](message, position + 1, MAX_DEPTH)
    except (CodecError, CannotTravel, MemoryError, codec.OutOfTime):
        raise
    except ImportError as error:
        raise CannotTravel("a value cannot travel: %s" % error)
    except Exception as error:
        # Whatever the constructors of the standard library raise for a state that no encoder sends.
        raise CodecError("a message is garbled: %s: %s" % (type(error).__name__, str(error)[:200]))


def _maker(message, entry):
    if type(entry) is not tuple or len(entry) < 3 or not all(type(part) is text_type for part in entry):
        raise CodecError("a message is garbled: a class that has no name")
    if max(map(len, entry)) > _LONGEST_NAME or entry[2] not in SHAPES:
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
    if len(data) > codec._LARGE:
        codec.spend(data, count)
    values = []
    for _ in range(count):
        item, position = _DECODE[data[position]](data, position + 1, depth - 1)
        values.append(item)
    return make(values), position


def _decode_kind(data, position, depth):
    if not depth:
        raise CodecError("a message nests deeper than %d containers" % MAX_DEPTH)
    if len(data) > codec._LARGE:
        codec.spend(data, 1)
    number = data[position]
    if data.makers is None or not 0 < number < len(KINDS):
        raise CodecError("a message is garbled: unknown kind of value %d at %d" % (number, position))
    state, position = _DECODE[data[position + 1]](data, position + 2, depth - 1)
    if number == CLASS:
        module, name = exact(state, text_type, text_type)
        return _resolve(data, module, name, None, ()), position
    return KINDS[number][3](state), position


def _decode_aside(data, position, depth):
    if data.makers is None:
        raise CodecError("a message is garbled: a buffer where none may be")
    return data.buffers[_U32.unpack_from(data, position)[0]], position + 4


_DECODE[ord("V")] = _decode_message
_DECODE[ord("k")] = _decode_kind
_DECODE[ord("o")] = _decode_instance
_DECODE[ord("B")] = _decode_aside


def install(child):
    """Let this target make instances of the classes that its parent names."""
    use(resolve_by_import, True)


def use(resolve, imports):
    """Let messages that codec.loads decodes make what `resolve` makes, see `loads`; `imports`: and import what they name."""
    global default_resolve  # noqa: PLW0603 - the tables that it belongs to are global too
    default_resolve = resolve
    kinds.may_import = imports
