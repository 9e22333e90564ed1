"""What goes down besides data: classes and functions by their names, and functions that have none as code.

Only the encoding; roamlet.wire.values.functions makes them again on the target. Code is bytecode, which each minor
version of Python has its own of; so it travels between equal versions alone.
"""

import dis
import functools
import importlib.util
import marshal
import sys
import types
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from roamlet.remote import modules
from roamlet.remote.errors import CannotTravel, RemoteError
from roamlet.remote.modules.imports.bytecode import with_nested
from roamlet.remote.values.kept import Hold, Kept
from roamlet.wire.values import kinds, values

BY_NAME = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, type(functools.lru_cache(len)))
_LAZY_IMPORT: Any = getattr(types, "LazyImportType", None)  # from 3.15 on
PARTS_OF_A_FUNCTION = (".__defaults__", ".__kwdefaults__", ".__closure__", ".__globals__")


class Packer(values.Packer):
    """Encodes one message that goes down. It needs these `modules` there, and with `code` roamlet.wire.values.functions, too."""

    def __init__(self, refer: Any, aside: list[Any], version: tuple[int, ...], owner: object = None) -> None:
        """`version`: of the Python on the target. `owner`: of the values that it keeps; None for a message that may name none."""
        super().__init__(refer, aside)  # type: ignore[no-untyped-call]
        self.modules: dict[str, bool] = {}  # name -> whether it must be had
        self.code: bool = False
        self.kept: list[Hold] = []
        self._owner = owner
        self._version = version
        self._functions: dict[int, tuple[int, FunctionType]] = {}

    def name_of_class(self, kind: type) -> tuple[str, str]:
        why = getattr(kind, "stays_here", None)  # of classes of ours
        if type(why) is str:
            raise kinds.Refusal(f"it is a {kind.__name__}; {why}")
        try:
            return self._name(kind)
        except Exception as error:  # whatever its metaclass does
            raise kinds.Refusal(f"its class {kinds.type_name(kind)} cannot be found on the target: {error}") from None

    def _name(self, thing: Any) -> tuple[str, str]:
        name = modules.name_of(thing)
        self.modules[name.module] = True
        return name.module, name.qualname

    def other(self, value: Any, kind: type, depth: int) -> None:
        if kind is FunctionType:
            self._put_function(value, depth)
        elif kind is Kept:
            hold = value.hold_for(self._owner)
            self.out.append(values._TAG_U32.pack(b"K", hold.number))
            self.kept.append(hold)
        elif kind is MethodType:
            self._put_method(value, depth)
        elif kind is functools.partial:
            self._put_several(
                b"p", value, (value.func, value.args, value.keywords), (".func", ".args", ".keywords"), depth
            )
        elif kind is ModuleType:
            self._put_name((self._module(value), ""), value, depth)
        elif kind in BY_NAME:
            try:
                name = self._name(value)
            except RemoteError as error:
                raise kinds.Refusal(str(error), value) from None
            self._put_name(name, value, depth)
        else:
            super().other(value, kind, depth)  # type: ignore[no-untyped-call]

    def _module(self, module: ModuleType) -> str:
        name = modules.name_on_target() if module.__name__ == "__main__" else module.__name__
        self.modules[name] = True
        return name

    def _put_name(self, name: tuple[str, str], value: Any, depth: int) -> None:
        self.put_kind(kinds.CLASS, name, value, depth)  # type: ignore[no-untyped-call]

    def _put_method(self, value: MethodType, depth: int) -> None:
        try:
            self._put_name(self._name(value), value, depth)
        except RemoteError:  # its object has no name: it travels with it
            self._put_several(b"m", value, (value.__func__, value.__self__), (".__func__", ".__self__"), depth)

    def _put_several(self, tag: bytes, value: Any, parts: tuple[Any, ...], steps: tuple[str, ...], depth: int) -> None:
        self.code = True
        self.out.append(tag)
        self.enter(value, depth)  # type: ignore[no-untyped-call]
        try:
            self.put(parts, depth - 1)  # type: ignore[no-untyped-call]
        except kinds.Refusal as refusal:
            refusal.steps[-1:] = [steps[int(step[1:-1])] for step in refusal.steps[-1:]]
            raise
        self._around.discard(id(value))

    def _put_function(self, value: FunctionType, depth: int) -> None:
        known = self._functions.get(id(value))
        if known is not None:
            self.out.append(values._TAG_U32.pack(b"J", known[0]))
            return
        try:
            name = self._name(value)
        except CannotTravel as error:
            problem = str(error)
        except RemoteError as error:
            raise kinds.Refusal(str(error), value) from None
        else:
            self._put_name(name, value, depth)
            return
        self._put_code(value, problem, depth)

    def _put_code(self, value: FunctionType, problem: str, depth: int) -> None:
        here = sys.version_info[:2]
        if self._version[:2] != here:
            raise kinds.Refusal(
                f"{problem}. As code it would travel to Python {here[0]}.{here[1]} alone, and the target has "
                f"{'.'.join(map(str, self._version))}",
                value,
            )
        number = len(self._functions)
        self._functions[id(value)] = (number, value)
        code = value.__code__
        module = value.__module__ if isinstance(value.__module__, str) else "__roamlet__"
        head = (importlib.util.MAGIC_NUMBER, bytearray(marshal.dumps(code)), module, value.__qualname__)
        self.out.append(values._TAG_U32.pack(b"j", number))
        self.put(head, depth - 1)  # type: ignore[no-untyped-call]
        for name in _imported(code):
            self.modules.setdefault(name, False)
        parts = (value.__defaults__, value.__kwdefaults__, dict(_cells(value)), dict(_globals(value)))
        self._put_several(b"", value, parts, PARTS_OF_A_FUNCTION, depth)


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function's code names, with those of the functions inside of it; builtins are on the target as well."""
    names = {
        instruction.argval
        for code in with_nested(function.__code__)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for name in sorted(names):
        if name in function.__globals__ and name != "__builtins__":
            value = function.__globals__[name]
            yield name, value.resolve() if type(value) is _LAZY_IMPORT else value


def _imported(code: CodeType) -> Iterator[str]:
    """The modules that a function imports while it runs."""
    for one in with_nested(code):
        for instruction in dis.get_instructions(one):
            if instruction.opname == "IMPORT_NAME" and instruction.argval:
                yield instruction.argval


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it has no value yet
            continue
