"""Instances of classes, namedtuples, members of enums and exceptions: taken apart into fields, and made again of them.

None of it runs their code. Which classes may be made is decided by whoever decodes, see
roamlet.wire.values.values.loads; a target makes whatever its parent names.
"""

import struct
import sys
import types

from roamlet.wire.codec import PY2, CannotTravel, CodecError, int_types, text_type
from roamlet.wire.values.kinds import HEAP_TYPE, Refusal, codec_text, exact, type_name, typed

OBJECT = "object"  # fields: those of the instance, by name
TUPLE = "tuple"  # a namedtuple: its items
ENUM = "enum"  # one field: the name of the member, or the number of a Flag that is several
EXCEPTION = "exception"  # two fields: args, and a dict of what else it holds
SHAPES = (OBJECT, TUPLE, ENUM, EXCEPTION)

_MEMBER = types.MemberDescriptorType


# ---- taken apart


def shape_of(kind):
    """Return how instances of a class are taken apart, or None when they cannot be. Runs no code of the class."""
    if issubclass(kind, BaseException):
        return EXCEPTION
    enum = sys.modules.get("enum")
    if enum is not None and issubclass(kind, enum.Enum):
        return ENUM
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        return TUPLE if type(names) is tuple and getattr(kind, "__itemsize__", 1) and _is_plain(kind, tuple) else None
    return OBJECT if kind is not object and _is_plain(kind, object) else None


def _is_plain(kind, root):
    """Whether a class was made by class statements all the way down to `root`, so that its fields are all that there is."""
    size = getattr(root, "__basicsize__", 0) + 2 * struct.calcsize("P")
    for base in kind.__mro__:
        if base is root or base is object:
            continue
        if not base.__flags__ & HEAP_TYPE or isinstance(vars(base).get("__new__"), types.BuiltinFunctionType):
            return False
        size += struct.calcsize("P") * len(list(_slots(base)))
    # PyPy tells no sizes, and there no base of a class statement's hides fields.
    return issubclass(kind, root) and getattr(kind, "__basicsize__", 0) <= size


def _slots(base):
    """Yield (name, descriptor) of the slots that one class adds."""
    if base.__flags__ & HEAP_TYPE:
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
    if getattr(kind, "__dictoffset__", 1) and _dict_of(value):
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
    fields.pop("__roamlet_hidden__", None)
    return ("args", "fields"), (tuple(args), fields), lambda index: (".args", ".__dict__")[index]


_FIELDS = {OBJECT: _object_fields, TUPLE: _tuple_fields, ENUM: _enum_fields, EXCEPTION: _exception_fields}


def fields_of(value, shape):
    """Return the names of an instance's fields, their values, and what names a field in a path by its index."""
    return _FIELDS[shape](value, type(value))


# ---- made again


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
    except Exception as error:  # of the module, which runs while it is imported
        text = "a value cannot travel: importing its class %s.%s failed: %s: %s"
        raise CannotTravel(text % (module, name, type(error).__name__, error))
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
    if others and not getattr(kind, "__dictoffset__", 1):
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
        raise CannotTravel("a value cannot travel: %s has the fields %s here, and %s on the other side" % (
            type_name(kind), ", ".join(kind._fields), ", ".join(fields)))  # fmt: skip
    return lambda values: tuple.__new__(kind, values)


def _make_enums(kind, fields):
    import enum  # not in 2.7, which has no class that leads here

    # Where somebody has written one of his own, making a Flag of several would run it.
    own_missing = any("_missing_" in vars(base) for base in kind.__mro__ if base.__module__ != "enum")

    def make(values):
        said = values[0]
        if type(said) is not int:
            member = kind._member_map_.get(typed(said, str))
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
    base = next(one for one in kind.__mro__ if not one.__flags__ & HEAP_TYPE)
    if len(fields) != 2:
        raise CodecError("a message is garbled: an exception of several fields")

    def make(values):
        args, held = exact(tuple(values), tuple, dict)
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
