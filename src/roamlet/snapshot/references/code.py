"""Functions and code by reference: where they are found again, and whether they are still the same.

A reference is (module, qualified name, path, layer): the path leads from the function's code through co_consts to code nested in
it, and is empty for the function itself. Its fingerprint is of what the code does; file names and line numbers are left out.
Decorators may have put several functions of one code around each other under one name: the layer is which of them it is, from the
outside in, how many they are, and of code that was made while the program ran the name that it has in the place of a file.
"""

import hashlib
import sys
import weakref
from collections.abc import Iterator
from importlib import import_module
from types import CodeType, FunctionType, MethodType, ModuleType

from roamlet.snapshot._errors import BadSnapshot

Layer = tuple[int, int] | tuple[int, int, str]
Reference = tuple[str, str, tuple[int, ...], Layer]

ALONE = (0, 1)

FINGERPRINT = 8  # bytes

_fingerprints: dict[int, tuple[weakref.ref[CodeType], bytes]] = {}


def fingerprint(code: CodeType) -> bytes:
    """FINGERPRINT bytes that differ when the code would do something else."""
    key = id(code)
    found = _fingerprints.get(key)
    if found is not None and found[0]() is code:
        return found[1]
    made = _fingerprint(code)
    _fingerprints[key] = (weakref.ref(code, lambda gone: _forget(key, gone)), made)
    return made


def _forget(key: int, gone: "weakref.ref[CodeType]") -> None:
    found = _fingerprints.get(key)
    if found is not None and found[0] is gone:
        del _fingerprints[key]


def _fingerprint(code: CodeType) -> bytes:
    shape = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_stacksize,
        code.co_names,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        code.co_exceptiontable,
        [_constant(each) for each in code.co_consts],
    )
    digest = hashlib.blake2b(code.co_code, digest_size=FINGERPRINT)
    digest.update(repr(shape).encode("utf-8", "surrogatepass"))
    return digest.digest()


def digest_of(marshalled: bytes) -> bytes:
    """What says that marshalled code is as it was."""
    return hashlib.blake2b(marshalled, digest_size=16).digest()


def _constant(value: object) -> object:
    if isinstance(value, CodeType):
        return fingerprint(value)
    if isinstance(value, tuple):
        return [_constant(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(repr(each) for each in value)
    return type(value).__name__, repr(value)


def _unwrapped(found: object) -> Iterator[object]:
    """What a decorator may have put around a function, from the outside in."""
    for _ in range(100):
        yield found
        if isinstance(found, (classmethod, staticmethod, MethodType)):
            found = found.__func__
        elif isinstance(found, property):
            found = found.fget
        elif isinstance(found, FunctionType) and "__wrapped__" in found.__dict__:
            found = found.__dict__["__wrapped__"]
        else:
            return


def _look_up(module: object, name: str) -> object:
    """The attribute of this qualified name; a class's as it is in the class's __dict__. AttributeError or KeyError."""
    found = module
    for part in name.split("."):
        found = found.__dict__[part] if isinstance(found, type) else getattr(found, part)
    return found


def function_reference(function: FunctionType) -> Reference | None:
    """Where this very function is found by name; None: nowhere."""
    where = function.__module__
    module = sys.modules.get(where) if where != "__main__" else None
    return None if module is None else reference_in(module, where, function)


def reference_in(module: ModuleType, where: str, function: FunctionType) -> Reference | None:
    """The same for a function that is looked up in `module`, which is called `where` in the place that it is named for."""
    name = function.__qualname__
    if "<" in name:
        return None
    found = module.__dict__.get(name)
    file = function.__code__.co_filename
    made = (file,) if file.startswith("<") else ()
    if found is function and "__wrapped__" not in function.__dict__:
        return where, name, (), (*ALONE, *made)
    try:
        layers = _functions_at(module, name)
    except (AttributeError, KeyError):
        return None
    mark = fingerprint(function.__code__)
    same = [each for each in layers if each is function or fingerprint(each.__code__) == mark]
    index = next((index for index, each in enumerate(same) if each is function), None)
    return None if index is None else (where, name, (), (index, len(same), *made))


def _functions_at(module: ModuleType, name: str) -> list[FunctionType]:
    """The functions of this qualified name, from the outside in. AttributeError or KeyError."""
    return [each for each in _unwrapped(_look_up(module, name)) if isinstance(each, FunctionType)]


def _path_to(code: CodeType, wanted: CodeType) -> tuple[int, ...] | None:
    for number, each in enumerate(code.co_consts):
        if each is wanted:
            return (number,)
        if isinstance(each, CodeType) and wanted.co_qualname.startswith(each.co_qualname):
            below = _path_to(each, wanted)
            if below is not None:
                return (number, *below)
    return None


def code_reference(code: CodeType, where: str | None) -> Reference | None:
    """Where this very code is nested in a function of the module `where`; None: nowhere."""
    name = code.co_qualname.split(".<locals>")[0]
    module = sys.modules.get(where) if where is not None and where != "__main__" else None
    if module is None or "<" in name:
        return None
    try:
        for each in _functions_at(module, name):
            path = () if each.__code__ is code else _path_to(each.__code__, code)
            if path is not None:
                return where or "", name, path, ALONE
    except (AttributeError, KeyError):
        pass
    return None


def _nested(code: CodeType, path: tuple[int, ...]) -> CodeType | None:
    for number in path:
        found = code.co_consts[number] if number < len(code.co_consts) else None
        if not isinstance(found, CodeType):
            return None
        code = found
    return code


def resolve(reference: Reference, wanted: bytes) -> FunctionType:
    """The function that the reference names, or in whose code it lies. May import; BadSnapshot where that is not as it was."""
    where, name, path, (index, count, *made) = reference
    if type(where) is not str or type(name) is not str:  # a tuple that contains itself has a hash that ends in a crash
        raise BadSnapshot("the snapshot is damaged: it names a function by what is no text")
    try:
        module = sys.modules.get(where) or import_module(where)
    except ImportError as error:
        raise BadSnapshot(
            f"the snapshot needs the module {where!r}, for {name}, and it cannot be imported here: {error}. Install it, or "
            f"save with by_value=[{where!r}]"
        ) from error
    found = module.__dict__.get(name)
    if (
        not path
        and type(found) is FunctionType
        and "__wrapped__" not in found.__dict__
        and fingerprint(found.__code__) == wanted
    ):
        return found
    try:
        candidates = _functions_at(module, name)
    except (AttributeError, KeyError):
        candidates = []
    codes = [_nested(each.__code__, path) for each in candidates]
    same = [
        each for each, code in zip(candidates, codes, strict=True) if code is not None and fingerprint(code) == wanted
    ]
    if same and (path or len(same) == count):
        return same[index]
    if same:
        what = (
            f"was wrapped {_times(count)} by one decorator where it was saved, and is wrapped {_times(len(same))} here"
        )
    elif candidates and made:
        raise BadSnapshot(
            f"{where}.{name} had code that was made while the program ran ({made[0]}), as libraries do that compile a "
            "function when it is first called, and has other code here. Call it once in this process, and restore the snapshot then"
        )
    else:
        what = "is another version here" if candidates else "does not exist here"
    file = getattr(module, "__file__", None) or "built in"
    raise BadSnapshot(
        f"{where}.{name} {what} ({file}): the snapshot was made with other code, whose frames do not fit it. Restore it with the "
        "version of the module that it was saved with"
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def referenced_code(function: FunctionType, path: tuple[int, ...]) -> CodeType:
    """The code that a reference with this path means; it was checked by resolve()."""
    code = _nested(function.__code__, path)
    assert code is not None
    return code
