"""By which name the other side finds a function; those that have none (lambdas, closures) travel as values. Sends nothing."""

import builtins
import functools
import sys
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from roamlet.remote.errors import CannotTravel, FunctionNotFound
from roamlet.remote.modules import main_script

_CACHED = type(functools.lru_cache(len))
_KNOWN = 4096  # names; one that is not known is only found more slowly


class FunctionName(NamedTuple):
    """`module` is imported on the target, then `qualname` is looked up in it, part by part."""

    module: str
    qualname: str

    def __str__(self) -> str:
        return f"{self.module}.{self.qualname}"


_known: dict[tuple[str, str], FunctionName] = {}
"""The names of functions that are at the top of a module under their own __qualname__."""


def name_of(function: Callable[..., Any]) -> FunctionName:
    """The name by which `function` is found on the target.

    Anything callable that an import can reach has one: functions, classes, static and class methods, builtins, methods
    of an object that a module holds under the method's name (`random.randint`). The name is tried out here first.
    Raises CannotTravel when it has no name, FunctionNotFound when the name leads to something else; TypeError for what
    cannot be called. Thread-safe.
    """
    if type(function) is FunctionType and type(function.__module__) is str:
        known = _known.get((function.__module__, function.__qualname__))
        if known is not None and getattr(sys.modules.get(known.module), known.qualname, None) is function:
            return known
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called: give the function itself, as in call(os.getpid), without ()")
    _refuse_coroutines(function)
    if isinstance(function, functools.partial):
        raise _cannot(function, "it is a partial", "give its function, and its arguments in args= and kwargs=")
    module, qualname = _said_name(function)
    if "<lambda>" in qualname.split("."):
        raise _cannot(function, "a lambda has no name that can be imported", "give it one: def it at module level")
    if "<locals>" in qualname.split("."):
        raise _cannot(function, "it was defined inside of another function", "move it to module level")
    if module is None or not qualname:
        raise _cannot(function, "it has no name that can be imported", "wrap it in a function at module level")
    module = _public(function, module, qualname)
    _try_out(function, module, qualname)
    if module == "__main__":
        _, problem = main_script.script()
        if problem:
            raise _cannot(function, problem.partition(". ")[0], problem.partition(". ")[2])
        return FunctionName(main_script.name_on_target(), qualname)
    name = FunctionName(module, qualname)
    if type(function) is FunctionType and name == (function.__module__, function.__name__):
        if len(_known) >= _KNOWN:
            _known.clear()
        _known[name] = name
    return name


def _refuse_coroutines(function: Callable[..., Any]) -> None:
    """Raise TypeError for an `async def`: what calling it returns cannot come back, and nothing would run it."""
    inner: Any = function
    while isinstance(inner, functools.partial | MethodType):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__func__
    code = getattr(inner, "__code__", None)
    if isinstance(code, CodeType) and code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        if code.co_flags & CO_COROUTINE:
            then = f"Run it inside of a plain function: def run(): return asyncio.run({code.co_name}(...))"
        else:
            then = "Run a loop over it inside of a plain function, by asyncio.run, and return a list"
        raise TypeError(
            f"{code.co_qualname} is an async def: on the target, nothing would run what calling it returns.\n    {then}"
        )


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """The code that runs first when `function` is called, if it is Python's; decorators that say so are looked through."""
    target: Any = function
    for _ in range(16):
        if isinstance(target, MethodType):
            target = target.__func__
        elif isinstance(target, FunctionType) and not hasattr(target, "__wrapped__"):
            return target.__code__
        else:
            target = getattr(target, "__wrapped__", None)
            if target is None:
                return None
    return None


def namespace_of(module: str) -> ModuleType | None:
    """The module of this name as the other side calls it, if it is loaded here."""
    return sys.modules.get("__main__" if module == main_script.name_on_target() else module)


def codes_behind(code: CodeType, module: str) -> list[CodeType]:
    """The code of the functions of the same module that this code may come to call, its own left out.

    What its names lead to now counts: functions, and all methods of classes. Names that are reached through other
    modules or as attributes of objects are not seen.
    """
    namespace = vars(namespace_of(module) or builtins)
    found: dict[int, CodeType] = {id(code): code}
    pending = [code]
    while pending:
        one = pending.pop()
        pending += [constant for constant in one.co_consts if isinstance(constant, CodeType)]
        for name in one.co_names:
            value = namespace.get(name)
            members = vars(value).values() if isinstance(value, type) else (value,)
            for behind in map(_code_of_member, members):
                if behind is not None and behind.co_filename == code.co_filename and id(behind) not in found:
                    found[id(behind)] = behind
                    pending.append(behind)
    return [one for one in found.values() if one is not code]


def _code_of_member(value: object) -> CodeType | None:
    if isinstance(value, (staticmethod, classmethod)):
        return code_of(value.__func__)
    if isinstance(value, property):
        return None if value.fget is None else code_of(value.fget)
    # Nothing else is asked for an attribute: a lazy object would do its work, only because it is a global here.
    return code_of(value) if isinstance(value, (FunctionType, _CACHED)) else None


def _said_name(function: Any) -> tuple[str | None, str]:
    """Module and qualified name as the function itself tells them."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):  # a builtin: __self__ is its module
        return _module_of(function) or owner.__name__, function.__qualname__
    if isinstance(function, (MethodType, BuiltinFunctionType)) and owner is not None:
        if isinstance(owner, type):
            return owner.__module__, f"{owner.__qualname__}.{function.__name__}"
        return _held_by_a_module(function, type(owner).__module__), function.__name__
    owner = getattr(function, "__objclass__", None)  # str.upper and its like
    if isinstance(owner, type):
        return owner.__module__, f"{owner.__qualname__}.{function.__name__}"
    qualname = getattr(function, "__qualname__", None)
    if not isinstance(qualname, str):
        raise _cannot(
            function,
            "it is an object that can be called, not a function",
            "call a function at module level that uses it",
        )
    return _module_of(function), qualname


def _module_of(function: Any) -> str | None:
    module = getattr(function, "__module__", None)
    return module if isinstance(module, str) else None


def _held_by_a_module(method: Any, module: str) -> str:
    """The module when it holds this bound method under the method's own name, as `random` holds `randint`."""
    if method == getattr(sys.modules.get(module), method.__name__, None):
        return module
    kind = type(method.__self__)
    raise _cannot(
        method,
        f"it is a method of an object ({kind.__module__}.{kind.__qualname__}), which would have to travel as well",
        "call a function at module level that makes the object on the target",
    )


def _public(function: Any, module: str, qualname: str) -> str:
    """`operator` for `_operator`: what speeds a standard module up has other names in other versions of Python."""
    public = module.removeprefix("_")
    if public != module and getattr(sys.modules.get(public), qualname, None) is function:
        return public
    return module


def _try_out(function: Any, module: str, qualname: str) -> None:
    """Raise FunctionNotFound unless the name leads to this very function here."""
    holder: Any = sys.modules.get(module)
    if holder is None:
        raise FunctionNotFound(
            f"the function {qualname} says that it comes from the module {module}, which is not imported here. "
            "Import the module under this name, or set the function's __module__ to the one that holds it",
            function=f"{module}.{qualname}",
        )
    found = holder
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if found is function or (found is not None and found == function):
        return
    if found is None:
        why = f"the module {module} has no {qualname}."
    else:
        why = f"{module}.{qualname} is something else by now ({type(found).__name__}); has it been decorated or defined twice?"
    raise FunctionNotFound(
        f"the function {module}.{qualname} cannot be called on the target: {why} "
        "Give the object that the module holds under this name",
        function=f"{module}.{qualname}",
    )


def _cannot(function: Any, why: str, instead: str) -> CannotTravel:
    name = getattr(function, "__qualname__", None) or type(function).__name__
    module = _module_of(function)
    full = name if module in (None, builtins.__name__) else f"{module}.{name}"
    return CannotTravel(f"the function {full} cannot travel: {why}; {instead}", function=full)
