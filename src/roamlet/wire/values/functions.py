"""Functions that have no name to be found by, made again out of their code; bound methods and partials.

Runs on targets of the parent's own minor version only (methods and partials: of any); sent when the first of them goes down. Such
values never come up: the parent has no decoder for these tags, and this one works where a parent has sent it alone.

    j  u32 number in this message, then a tuple (magic, code, module, qualified name), then a tuple (defaults, defaults of keywords,
       contents of cells by name, globals by name)
    J  u32 number of a function that came, or has begun to come, before in the same message
    m  a tuple (function, object): a bound method        p  a tuple (function, args, kwargs): a partial

The functions of one message that are from one module share their globals, which are those that their code names.
"""

import sys
import types

from roamlet.wire import codec
from roamlet.wire.codec import _DECODE, CannotTravel, CodecError
from roamlet.wire.values import kinds, values


def apply(*arguments, **kwargs):
    """Call a function that came as a value: apply(function, args, **kwargs)."""
    function, args = arguments
    return function(*args, **kwargs)


def _checked(data):
    if not kinds.may_import or data.makers is None:
        raise CodecError("a message is garbled: code where only data may be")


def _decode_function(data, position, depth):
    _checked(data)
    number = values._U32.unpack_from(data, position)[0]
    head, position = _DECODE[data[position + 4]](data, position + 5, depth - 1)
    magic, code, module, name = head
    if bytes(magic) != _magic():
        raise CannotTravel("a value cannot travel: %s is code of another version of Python" % name)
    import marshal  # here, because it has not been imported everywhere when this part comes

    code = marshal.loads(bytes(code))
    if "namespaces" not in vars(data):
        data.namespaces = {}
        data.functions = {}
    builtins = sys.modules["builtins"]
    names = data.namespaces.setdefault(module, {"__name__": module, "__builtins__": builtins})
    cells = tuple(types.CellType() for _ in code.co_freevars)
    function = types.FunctionType(code, names, code.co_name, None, cells)
    function.__qualname__ = name
    data.functions[number] = function
    parts, position = _DECODE[data[position]](data, position + 1, depth - 1)
    function.__defaults__, function.__kwdefaults__, contents, held = parts
    for name, cell in zip(code.co_freevars, cells):  # noqa: B905 - 2.7 knows no strict
        if name in contents:
            cell.cell_contents = contents[name]
    names.update(held)
    return function, position


def _magic():
    return sys.modules["_frozen_importlib_external"].MAGIC_NUMBER


def _decode_again(data, position, depth):
    _checked(data)
    return data.functions[values._U32.unpack_from(data, position)[0]], position + 4


def _decode_method(data, position, depth):
    _checked(data)
    parts, position = _DECODE[data[position]](data, position + 1, depth - 1)
    function, owner = parts
    if codec.PY2:
        function = getattr(function, "__func__", function)
    return types.MethodType(function, owner), position


def _decode_partial(data, position, depth):
    _checked(data)
    parts, position = _DECODE[data[position]](data, position + 1, depth - 1)
    function, args, kwargs = parts
    import functools  # as marshal

    return functools.partial(function, *args, **dict((str(name), value) for name, value in kwargs.items())), position


for _tag, _decoder in (("j", _decode_function), ("J", _decode_again), ("m", _decode_method), ("p", _decode_partial)):
    _DECODE[ord(_tag)] = _decoder
