"""Decides which of the exceptions that a function still holds when it ends are findings, and of which case."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from roamlet_leaks.check.flow import Flow
from roamlet_leaks.check.scopes import Module, Scope, path_of, says_class
from roamlet_leaks.check.state import Origin, Site, State
from roamlet_leaks.keep import Place

# `raise errors[0]`, `raise exc_info[1]`: other things in a container need not be exceptions.
SAYS_EXCEPTION = re.compile("exc|err|fail|problem|info", re.IGNORECASE)


@dataclass(frozen=True)
class Hit:
    """A place in a file, what holds the exception there, and the code of the case."""

    code: str
    node: Place
    name: str
    function: str
    starts: int
    """The line of its function."""


def hits(scope: Scope, module: Module) -> Iterator[Hit]:
    """All that one function, class body or module keeps, in no order and perhaps more than once."""
    endless: list[Hit] = []

    def never_left(loop: ast.While, state: State) -> None:
        for path, origin, site in _inside(state):
            if origin.kind == "caught" and _within(site.node, loop) and scope.owns(_root(path)):
                endless.append(_hit("RL006", site.node, path, scope))

    flow = Flow(scope, module, never_left)
    for state in flow.followed():
        for path, origin, site in _inside(state):
            yield from _judged(path, origin, site, state, scope, module)
    yield from endless
    yield from _raised_again(scope, module)


def _hit(code: str, node: Place, name: str, scope: Scope) -> Hit:
    return Hit(code, node, name, scope.name, getattr(scope.node, "lineno", 0))


def _inside(state: State) -> Iterator[tuple[str, Origin, Site]]:
    """What is held that has this frame in its traceback."""
    for path, origins in state.held.items():
        for origin, site in origins.items():
            if origin in state.inside:
                yield path, origin, site


def _judged(path: str, origin: Origin, site: Site, state: State, scope: Scope, module: Module) -> Iterator[Hit]:
    raised_by = state.inside[origin]
    if _is_let_go(path, origin, site, state, scope, module):
        return
    if not scope.owns(_root(path)):
        if origin.kind == "caught":
            yield _hit("RL005", site.node, path, scope)
    elif site.how != "name" or origin.kind == "caught":
        if origin.kind not in ("made", "taken") or _surely_exception(path, module):
            yield _hit(_code(path, site, scope), site.node, path, scope)
    elif not isinstance(raised_by, ast.arg) and not _may_be_class(path, origin, scope):
        # What `__exit__` is given has only its caller's frame, until it is raised here.
        yield _hit("RL002" if origin.kind in ("parameter", "exit") else "RL009", raised_by, path, scope)


def _is_let_go(path: str, origin: Origin, site: Site, state: State, scope: Scope, module: Module) -> bool:
    """Whether Python itself, another function of the file, or cleared frames see to it that nothing stays."""
    root = _root(path)
    owned = scope.owns(root)
    if site.how == "handler" or (("." in path or not owned) and _emptied_elsewhere(path, scope, module)):
        return True
    if origin in state.cleared and ("." in path or not owned):
        return True  # what is left is the frame of this function
    owner = scope.owner_of(root) if root not in scope.local else None
    ends: int = getattr(scope.node, "end_lineno", None) or 0
    return owner is not None and owner.let_go.get(root, 0) > ends


def _code(path: str, site: Site, scope: Scope) -> str:
    if "." in path or site.how == "future":
        return "RL004"
    if site.how == "container":
        return "RL007"
    if path in scope.declared_nonlocal:
        return "RL008"
    return "RL003" if site.how == "traceback" else "RL001"


def _root(path: str) -> str:
    return path.partition(".")[0]


def _within(node: ast.AST, outer: ast.AST) -> bool:
    return any(inner is node for inner in ast.walk(outer))


def _emptied_elsewhere(path: str, scope: Scope, module: Module) -> bool:
    """Whether another function of the file lets go of what is stored at `path`."""
    _, dot, name = path.rpartition(".")
    return bool(module.emptied.get(dot + name, set()) - {scope.name})


def _may_be_class(path: str, origin: Origin, scope: Scope) -> bool:
    """Whether what is raised may as well be a class, as far as its name and its default say."""
    if says_class(path):
        return True
    node = origin.node
    if isinstance(node, ast.arg):
        annotation = ast.unparse(node.annotation) if node.annotation else ""
        if "type[" in annotation.lower() or "Callable" in annotation:
            return True
        if isinstance(_default_of(node, scope), (ast.Name, ast.Attribute)):
            return True  # the default is a class, and so is what takes its place
    return any(_tells_class(call, path) for call in ast.walk(scope.node) if isinstance(call, ast.Call))


def _tells_class(call: ast.Call, path: str) -> bool:
    """`error(...)`, `issubclass(error, ...)`, `isinstance(error, type)`."""
    called = path_of(call.func)
    if called == path:
        return True
    match called, [path_of(argument) for argument in call.args]:
        case ("issubclass", [asked, _]) | ("isinstance", [asked, "type"]) | ("inspect.isclass" | "isclass", [asked]):
            return asked == path
    return False


def _default_of(argument: ast.arg, scope: Scope) -> ast.expr | None:
    if not isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    arguments = scope.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next((default for known, default in pairs if known is argument), None)


def _surely_exception(path: str, module: Module) -> bool:
    """Whether `raise self.error` or `raise errors[0]` raises an instance that stays where it was."""
    name = path.rpartition(".")[2]
    if "." in path:
        return name in module.kept
    return bool(SAYS_EXCEPTION.search(name)) and not says_class(name)


def _raised_again(scope: Scope, module: Module) -> Iterator[Hit]:
    """`raise ERROR`, where ERROR was made once when the module was loaded."""
    if not scope.is_function or not module.instances:
        return
    for node in _own(scope.node):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            name = node.exc.id
            if name in module.instances and name not in scope.local and scope.owner_of(name) is None:
                yield _hit("RL010", node, name, scope)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _own(child)
