"""Stubs of the modules that have no annotations because Python 2.7 runs them too, for wheels: type checkers of users ask for types.

setup.py runs it when a wheel is built. Each value and argument is Any in them: the modules are roamlet's own, and their callers say
the types. None is written into the sources, where mypy would take it for the module.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator
from pathlib import Path

# Folders and files below the package.
UNTYPED = ("wire", "diagnose/attaching/asking.py", "diagnose/outside/on_target.py")

KEPT_DECORATORS = ("property", "staticmethod", "classmethod")


def write(package: Path) -> list[Path]:
    """Write a stub beside each untyped module of a built package, whose folder `package` is. Returns the stubs."""
    written = []
    for name in UNTYPED:
        place = package / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            if told := of(path.read_text("utf-8")):
                stub = path.with_suffix(".pyi")
                stub.write_text(told, "utf-8")
                written.append(stub)
    return written


def of(source: str) -> str:
    """The stub of a module; empty for one that declares nothing."""
    tree = ast.parse(source)
    classes = {each.name for each in _statements(tree.body) if isinstance(each, ast.ClassDef)}
    known = dict.fromkeys(classes, "") | _imported(tree)
    lines = ["def __getattr__(name: str) -> Any: ..."]
    seen: set[str] = set()
    imports = {"from typing import Any"}
    for each in _statements(tree.body):
        for name, told in _declared(each, known):
            if name not in seen and (not name.startswith("_") or name in classes):
                seen.add(name)
                lines += told
        if isinstance(each, ast.ClassDef):
            imports |= {known[base.id] for base in each.bases if isinstance(base, ast.Name) and known.get(base.id)}
    return "\n".join([*sorted(imports), "", *lines, ""]) if seen else ""


def _imported(tree: ast.Module) -> dict[str, str]:
    """{name: the import} of what a module has from others of roamlet."""
    return {
        (name.asname or name.name): f"from {each.module} import {name.name} as {name.asname or name.name}"
        for each in _statements(tree.body)
        if isinstance(each, ast.ImportFrom) and each.module is not None and each.module.startswith("roamlet.")
        for name in each.names
    }


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module or class, and those below its conditions: the first of each name counts."""
    for each in body:
        yield each
        for name in ("body", "orelse", "finalbody"):
            if isinstance(each, (ast.If, ast.Try, ast.With)):
                yield from _statements(getattr(each, name, ()))
        for handler in getattr(each, "handlers", ()):
            yield from _statements(handler.body)


def _declared(statement: ast.stmt, known: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of what a statement declares."""
    if isinstance(statement, ast.FunctionDef):
        yield statement.name, _function(statement)
    elif isinstance(statement, ast.ClassDef):
        yield statement.name, _class(statement, known)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                if isinstance(each, ast.Name):
                    yield each.id, [f"{each.id}: Any"]


def _function(function: ast.FunctionDef, indent: str = "") -> list[str]:
    decorators = [each.id for each in function.decorator_list if isinstance(each, ast.Name)]
    kept = [name for name in decorators if name in KEPT_DECORATORS]
    arguments = function.args
    is_method = bool(indent) and "staticmethod" not in kept
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    told = []
    for index, each in enumerate(positional):
        annotation = "" if is_method and index == 0 else ": Any"
        told.append(f"{each.arg}{annotation}{' = ...' if index >= first_default else ''}")
        if each in arguments.posonlyargs and index == len(arguments.posonlyargs) - 1:
            told.append("/")
    if arguments.vararg is not None:
        told.append(f"*{arguments.vararg.arg}: Any")
    elif arguments.kwonlyargs:
        told.append("*")
    told += [
        f"{each.arg}: Any{'' if default is None else ' = ...'}"
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        told.append(f"**{arguments.kwarg.arg}: Any")
    result = "None" if function.name == "__init__" else "Any"
    return [
        *(f"{indent}@{name}" for name in kept),
        f"{indent}def {function.name}({', '.join(told)}) -> {result}: ...",
    ]


def _class(statement: ast.ClassDef, known: dict[str, str]) -> list[str]:
    bases = [_base(each, known) for each in statement.bases]
    lines: dict[str, list[str]] = {}
    if "Any" in bases:  # of another module: a class whose base is unknown is itself unknown to some checkers
        lines["__getattr__"] = ["    def __getattr__(self, name: str) -> Any: ..."]
    bases = [base for base in dict.fromkeys(bases) if base not in ("object", "Any")]
    head = "class " + statement.name + ("(" + ", ".join(bases) + ")" if bases else "") + ":"
    for each in _statements(statement.body):
        if isinstance(each, ast.FunctionDef):
            if not each.name.startswith("_") or each.name.startswith("__"):
                lines.setdefault(each.name, _function(each, "    "))
        else:
            for name, told in _declared(each, known):
                if not name.startswith("_"):
                    lines.setdefault(name, [f"    {line}" for line in told])
    for node in ast.walk(statement):
        is_own = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_own and isinstance(node.value, ast.Name) and node.value.id == "self" and not node.attr.startswith("_"):
            lines.setdefault(node.attr, [f"    {node.attr}: Any"])
    return [head, *([line for each in lines.values() for line in each] or ["    ..."])]


def _base(node: ast.expr, known: dict[str, str]) -> str:
    """A class of Python's own, or one that is known, by its name; any other as Any."""
    if isinstance(node, ast.Name) and (node.id in known or isinstance(getattr(builtins, node.id, None), type)):
        return node.id
    return "Any"
