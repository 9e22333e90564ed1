"""Whose names are whose: the functions of a module with their locals, and what the whole module says about its attributes."""

import ast
import operator
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
Nested = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

# `raise ERROR` is an instance or a class, and only the name may say which.
CLASS_NAME = re.compile(
    r"(?:^|_)(?:cls|class|klass|type|typ|tp|kind|etype|exctype|factory|classes|types)\d*_?$|^[A-Z]|[a-z](?:Class|Type)$"
)
MADE_OF_A_CLASS = re.compile(r"^_*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Cancelled|Timeout|Failure)$")
EMPTIES = frozenset({"clear", "pop", "popleft", "popitem"})
AT_BIRTH = frozenset({"__init__", "__new__", "__post_init__", "__attrs_post_init__", "__set_name__", "setUp"})


def path_of(node: ast.AST) -> str | None:
    """`error`, `self.error`, or None for what has no such name. What is in a container has the path of the container."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            owner = path_of(node.value)
            return owner and f"{owner}.{node.attr}"
        case ast.Subscript() | ast.Starred():
            return path_of(node.value)
    return None


COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def version_says(test: ast.expr) -> bool | None:
    """How a condition about Python's version turns out for the Python that runs the check; None for any other condition."""
    match test:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in ("PY2", "PY3"):
            return name == "PY3"
        case ast.UnaryOp(op=ast.Not()):
            said = version_says(test.operand)
            return None if said is None else not said
        case ast.Compare(left=left, ops=[compared], comparators=[right]) if type(compared) in COMPARISONS:
            version = _part_of_version(left)
            try:
                said = version and COMPARISONS[type(compared)](version, ast.literal_eval(right))
            except (TypeError, ValueError):
                return None
            return None if said is None else bool(said)
    return None


def _part_of_version(node: ast.expr) -> Any:
    """`sys.version_info`, `sys.version_info[0]`, `sys.version_info[:2]` or `sys.version_info.major`; None for anything else."""
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="version_info"):
            return tuple(sys.version_info)
        case ast.Attribute(value=whole, attr="major" | "minor" as part) if _part_of_version(whole):
            return getattr(sys.version_info, part)
        case ast.Subscript(value=whole, slice=ast.Constant(value=int(index))) if _part_of_version(whole):
            return sys.version_info[index] if index in (0, 1) else None
        case ast.Subscript(value=whole, slice=ast.Slice(lower=None, upper=ast.Constant(value=int(end)), step=None)) if (
            _part_of_version(whole)
        ):
            return tuple(sys.version_info[:end])
    return None


def says_class(name: str) -> bool:
    """Whether somebody who names a thing so means a class of exceptions."""
    return bool(CLASS_NAME.search(name))


@dataclass
class Scope:
    """A function, a class body or the module: what its names are, and the scope around it."""

    node: ast.Module | ast.ClassDef | Function
    name: str
    outer: "Scope | None" = None
    local: set[str] = field(default_factory=set)
    declared_global: set[str] = field(default_factory=set)
    declared_nonlocal: set[str] = field(default_factory=set)
    changed_inside: set[str] = field(default_factory=set)  # by functions within, through nonlocal
    let_go: dict[str, int] = field(default_factory=dict)  # variables that it empties, and the last line where it does

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef))

    def owns(self, name: str) -> bool:
        """Whether the frame of this scope holds `name`: a local, or a variable of a function around it."""
        if not self.is_function or name in self.declared_global:
            return False
        if name in self.local:
            return True
        return self.owner_of(name) is not None

    def owner_of(self, name: str) -> "Scope | None":
        """The function around this one whose variable `name` is."""
        outer = self.outer
        while outer is not None:
            if outer.is_function and name in outer.local:
                return outer
            outer = outer.outer
        return None


@dataclass
class Module:
    """What the whole file says."""

    scopes: list[Scope] = field(default_factory=list)
    # Attributes (`.error`) and globals that are emptied, with the functions that do: whoever stores an exception counts on them.
    emptied: dict[str, set[str]] = field(default_factory=dict)
    instances: dict[str, ast.Call] = field(default_factory=dict)  # globals that are an exception from the start
    kept: set[str] = field(default_factory=set)  # attributes that exceptions are stored in


def survey(tree: ast.Module) -> Module:
    """Look at all of a file once."""
    module = Module()
    top = Scope(tree, "<module>")
    _fill(top, tree.body, module)
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                made_of = (path_of(call.func) or "").rpartition(".")[2]
                if MADE_OF_A_CLASS.match(made_of):
                    module.instances[name] = call
    return module


def _fill(scope: Scope, body: list[ast.stmt], module: Module) -> None:
    module.scopes.append(scope)
    nodes = list(_own_nodes(body))
    if isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = scope.node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        scope.local.update(argument.arg for argument in named if argument is not None)
    for node in nodes:
        _note_names(scope, node)
        if isinstance(node, ast.ExceptHandler) and node.name:
            _note_kept(node, module)
    scope.local -= scope.declared_global | scope.declared_nonlocal
    for node in nodes:
        _note_emptied(scope, node, module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = node.name if scope.outer is None else f"{scope.name}.{node.name}"
            inner = Scope(node, name, scope)
            _fill(inner, node.body, module)
            for changed in inner.declared_nonlocal:
                owner = inner.owner_of(changed)
                if owner is not None:
                    owner.changed_inside.add(changed)


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node of a scope, without what is inside of the functions and classes in it."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and (said := version_says(node.test)) is not None:
            waiting.extend(node.body if said else node.orelse)  # the others are dead
        elif not isinstance(node, Nested):
            waiting.extend(ast.iter_child_nodes(node))


def _note_names(scope: Scope, node: ast.AST) -> None:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.ExceptHandler(name=str(name)):
            scope.local.add(name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope.local.add(name)
        case ast.Import() | ast.ImportFrom():
            scope.local.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            scope.local.add(name)
        case ast.Global():
            scope.declared_global.update(node.names)
        case ast.Nonlocal():
            scope.declared_nonlocal.update(node.names)


def _note_emptied(scope: Scope, node: ast.AST, module: Module) -> None:
    """Write down who sets an attribute or a global to nothing."""
    emptied: list[ast.AST] = []
    match node:
        case ast.Assign():
            for assigned in node.targets:
                emptied.extend(_set_to_nothing(assigned, node.value))
        case ast.Delete():
            emptied.extend(node.targets)
        case ast.Call(func=ast.Attribute(attr=method, value=owner)) if method in EMPTIES:
            emptied.append(owner)
    for target in emptied:
        if isinstance(target, ast.Name) and scope.is_function:
            scope.let_go[target.id] = max(scope.let_go.get(target.id, 0), target.lineno)
    if not scope.is_function or scope.name.rpartition(".")[2] in AT_BIRTH:
        return
    for target in emptied:
        path = path_of(target)
        _, dot, name = (path or "").removesuffix(".__traceback__").rpartition(".")
        if name and (dot or not scope.owns(name)):
            module.emptied.setdefault(dot + name, set()).add(scope.name)


def _set_to_nothing(target: ast.AST, value: ast.AST) -> Iterator[ast.AST]:
    match target, value:
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
            if len(targets) == len(values):
                for one, its_value in zip(targets, values, strict=True):
                    yield from _set_to_nothing(one, its_value)
        case (
            (ast.Attribute() | ast.Name() | ast.Subscript()),
            (ast.Constant(value=None) | ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[])),
        ):
            yield target
        case (
            (ast.Attribute() | ast.Name()),
            ast.Call(args=[], keywords=[], func=ast.Name(id="dict" | "list" | "set" | "deque")),
        ):
            yield target


def _note_kept(handler: ast.ExceptHandler, module: Module) -> None:
    """Write down the attributes that a handler stores its exception in."""
    for node in _own_nodes(handler.body):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == handler.name:
            module.kept.update(target.attr for target in node.targets if isinstance(target, ast.Attribute))
