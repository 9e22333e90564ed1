"""By which name the other side finds a function, and what is refused with which words."""

import collections
import datetime
import functools
import math
import operator
import os
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roamlet.remote import modules
from roamlet.remote.errors import CannotTravel, FunctionNotFound
from tests.remote.modules import bare_interpreter


class Kind:
    """Methods of all kinds."""

    @staticmethod
    def static() -> None: ...

    @classmethod
    def of_class(cls) -> None: ...

    def of_object(self) -> None: ...

    class Inner:
        @staticmethod
        def static() -> None: ...


class Child(Kind): ...


class Callable_:
    def __call__(self) -> None: ...


def plain() -> None: ...


@functools.wraps(plain)
def wrapper() -> None: ...


def undecorated() -> None: ...


ORIGINAL = undecorated
undecorated = functools.lru_cache(undecorated)
HERE = __name__


@pytest.mark.parametrize(
    ("function", "module", "qualname"),
    [
        (plain, HERE, "plain"),
        (undecorated, HERE, "undecorated"),
        (Kind.static, HERE, "Kind.static"),
        (Kind.of_class, HERE, "Kind.of_class"),
        (Child.of_class, HERE, "Child.of_class"),
        (Child.static, HERE, "Kind.static"),
        (Kind.Inner.static, HERE, "Kind.Inner.static"),
        (Kind.of_object, HERE, "Kind.of_object"),
        (Kind, HERE, "Kind"),
        (platform.platform, "platform", "platform"),
        (os.getpid, "posix", "getpid"),
        (os.path.join, "posixpath", "join"),
        (math.factorial, "math", "factorial"),
        (operator.add, "operator", "add"),
        (functools.reduce, "functools", "reduce"),
        (collections.OrderedDict, "collections", "OrderedDict"),
        (datetime.datetime.now, "datetime", "datetime.now"),
        (random.randint, "random", "randint"),
        (random.random, "random", "random"),
        (len, "builtins", "len"),
        (dict.fromkeys, "builtins", "dict.fromkeys"),
        (str.upper, "builtins", "str.upper"),
    ],
)
def test_what_an_import_can_reach_has_a_name(function: Callable[..., Any], module: str, qualname: str) -> None:
    assert modules.name_of(function) == modules.FunctionName(module, qualname)


def local() -> Callable[[], None]:
    def inside() -> None: ...

    return inside


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda: 1,
            r"the function .*<lambda> cannot travel: a lambda has no name that can be imported; .* module level",
        ),
        (
            local(),
            r"the function .*local.<locals>.inside cannot travel: it was defined inside of another function; move it",
        ),
        (
            Kind().of_object,
            r"Kind.of_object cannot travel: it is a method of an object \(.*Kind\), which would have to",
        ),
        ("text".upper, r"the function str.upper cannot travel: it is a method of an object \(builtins.str\)"),
        (
            functools.partial(plain, 1),
            r"the function functools.partial cannot travel: it is a partial; give its function",
        ),
        (Callable_(), r"Callable_ cannot travel: it is an object that can be called, not a function; call a function"),
    ],
)
def test_what_no_import_can_reach_cannot_travel(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(CannotTravel, match=message):
        modules.name_of(function)


def test_a_function_that_a_decorator_has_replaced_is_refused() -> None:
    with pytest.raises(FunctionNotFound, match=r"undecorated is something else by now .*; has it been decorated"):
        modules.name_of(ORIGINAL)


def test_a_function_whose_name_was_deleted_is_refused() -> None:
    def stray() -> None: ...

    stray.__qualname__ = "stray"
    with pytest.raises(FunctionNotFound, match=f"the module {HERE} has no stray"):
        modules.name_of(stray)


def test_a_function_of_a_module_that_is_not_imported_is_refused() -> None:
    def stray() -> None: ...

    stray.__qualname__, stray.__module__ = "stray", "module_of_nobody"
    with pytest.raises(FunctionNotFound, match="module_of_nobody, which is not imported here. Import the module"):
        modules.name_of(stray)


def test_what_cannot_be_called_is_a_mistake_of_the_call() -> None:
    with pytest.raises(TypeError, match=r"3 cannot be called: give the function itself, as in call\(os.getpid\)"):
        modules.name_of(3)  # type: ignore[arg-type]


def test_the_code_of_a_decorated_function_is_that_of_the_function_behind_it() -> None:
    assert modules.code_of(plain) is plain.__code__
    assert modules.code_of(undecorated) is ORIGINAL.__code__
    assert modules.code_of(wrapper) is plain.__code__
    assert modules.code_of(Kind.of_class) is Kind.of_class.__func__.__code__  # type: ignore[attr-defined]
    assert modules.code_of(len) is None
    assert modules.code_of(SimpleNamespace) is None


PLAN = """
def work():
    pass

def tell():
    import sys
    from roamlet.remote import modules
    name = modules.name_of(work)
    bundle = modules.plan(name.module, (), frozenset(sys.stdlib_module_names))
    sys.stdout.write(str(name) + "\\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(bundle.data)
"""
GUARD = "if __name__ == '__main__':\n    tell()\n"


def run(*arguments: str, folder: Path, text: str = "") -> tuple[str, bytes, str]:
    """Run Python: the first line that it prints, the rest, and what it says when it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, input=text.encode(), capture_output=True, timeout=60, check=False
    )
    name, _, body = done.stdout.partition(b"\n")
    return name.decode(), body, done.stderr.decode()


def test_the_main_script_travels_under_another_name_so_that_its_guard_is_false(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "script.py").write_text("import beside\n" + PLAN + GUARD)
    name, body, _ = run("script.py", folder=tmp_path)
    assert name == "__roamlet_main__.work"
    outcome = bare_interpreter.imports_from(sys.executable, [body], "import __roamlet_main__; __roamlet_main__.work()")
    assert outcome == bare_interpreter.Outcome([], None, ["__roamlet_main__", "beside"])


def test_a_module_started_by_its_name_keeps_its_name_and_its_relative_imports(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "beside.py").write_text("")
    (tmp_path / "package" / "tool.py").write_text("from . import beside\n" + PLAN + GUARD)
    name, body, _ = run("-m", "package.tool", folder=tmp_path)
    assert name == "package.tool.work"
    outcome = bare_interpreter.imports_from(sys.executable, [body], "import package.tool; package.tool.work()")
    assert outcome == bare_interpreter.Outcome([], None, ["package", "package.beside", "package.tool"])


def test_a_package_started_by_its_name_travels_as_its_main_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text("import package\n" + PLAN + GUARD)
    name, body, _ = run("-m", "package", folder=tmp_path)
    assert name == "package.__main__.work"
    outcome = bare_interpreter.imports_from(sys.executable, [body], "import package.__main__ as m; m.work()")
    assert (outcome.asked, outcome.problem) == ([], None)


def test_a_folder_that_is_run_travels_like_a_script(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text("import beside\n" + PLAN + GUARD)
    (tmp_path / "beside.py").write_text("")
    name, body, _ = run(".", folder=tmp_path)
    assert name == "__roamlet_main__.work"
    outcome = bare_interpreter.imports_from(sys.executable, [body], "import __roamlet_main__")
    assert outcome == bare_interpreter.Outcome([], None, ["__roamlet_main__", "beside"])


@pytest.mark.parametrize(
    ("arguments", "text", "how"),
    [
        (("-c", PLAN + "tell()"), "", "it came by `python -c`"),
        (("-",), PLAN + "tell()", "it came through standard input"),
        (("-i", "-q"), PLAN + "\ntell()\n", "it was typed into an interactive session"),
    ],
)
def test_a_main_script_without_a_file_is_refused_by_name(
    tmp_path: Path, arguments: tuple[str, ...], text: str, how: str
) -> None:
    _, _, errors = run(*arguments, folder=tmp_path, text=text)
    assert (
        f"CannotTravel: the function __main__.work cannot travel: the main script has no source to send: {how}; "
        "Put the function into a module, or start the script from a file"
    ) in errors
