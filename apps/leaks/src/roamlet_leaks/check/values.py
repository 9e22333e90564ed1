"""What an expression holds: which of the exceptions that a function knows of its value keeps alive."""

import ast
from collections.abc import Iterable

from roamlet_leaks.check.scopes import Module, Scope, path_of, says_class
from roamlet_leaks.check.state import Origin, State

# Containers that hold what they are made of; what the result of any other call keeps is unknown.
COPIES = frozenset(
    {"tuple", "list", "set", "frozenset", "dict", "reversed", "sorted", "iter", "deque", "enumerate", "zip"}
)
GROUPS = frozenset({"ExceptionGroup", "BaseExceptionGroup"})


class Values:
    """Reads expressions of one function. `handling`: the exceptions that its except and finally clauses are in the middle of."""

    def __init__(self, scope: Scope, module: Module) -> None:
        self.scope = scope
        self.module = module
        self.handling: list[Origin] = []
        self._origins: dict[tuple[int, str], Origin] = {}

    def origin(self, kind: str, node: ast.AST, by: str = "") -> Origin:
        """The one origin of this kind and place."""
        return self._origins.setdefault((id(node), kind + by), Origin(kind, node, by))

    def of(self, node: ast.AST | None, state: State) -> set[Origin]:
        """The exceptions that the value of `node` holds, or may turn out to be."""
        match node:
            case ast.Name():
                return set(state.at(node.id))
            case ast.Attribute():
                return self._attribute(node, state)
            case ast.Tuple() | ast.List() | ast.Set():
                return self.contents(node.elts, state)
            case ast.Dict():
                return self.contents(node.values, state)
            case ast.Starred() | ast.NamedExpr():
                return self.of(node.value, state)
            case ast.Await():
                return {self.origin("taken", node)}
            case ast.IfExp():
                return self._all([node.body, node.orelse], state)
            case ast.BoolOp():
                return self._all(node.values, state)
            case ast.BinOp(op=ast.Add() | ast.BitOr()):
                return self._all([node.left, node.right], state)
            case ast.Subscript():
                return self._subscript(node, state)
            case ast.Call():
                return self._call(node, state)
        return set()

    def parts(self, node: ast.AST, count: int, state: State) -> list[set[Origin]]:
        """What each of `count` targets gets when the value of `node` is taken apart."""
        if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == count:
            return [self.of(element, state) for element in node.elts]
        whole = self.of(node, state)
        taken = node.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) else node
        if is_exc_info(taken):
            return [set(), *[whole] * (count - 1)]  # the type holds nothing
        return [self.contents([node], state) or {self.origin("taken", node, str(index))} for index in range(count)]

    def elements(self, node: ast.For | ast.AsyncFor, state: State) -> list[set[Origin]]:
        """What the targets of a loop get at each turn: one set for a single target, one for each element of a tuple."""
        count = len(node.target.elts) if isinstance(node.target, (ast.Tuple, ast.List)) else 1
        known = self.contents([node.iter], state)
        return [known or {self.origin("taken", node, str(index))} for index in range(count)]

    def _all(self, nodes: Iterable[ast.AST | None], state: State) -> set[Origin]:
        return {origin for node in nodes for origin in self.of(node, state)}

    def contents(self, nodes: Iterable[ast.AST | None], state: State) -> set[Origin]:
        """What a container of these certainly holds: most things that are put into one are not exceptions."""
        return {origin for origin in self._all(nodes, state) if origin in state.inside}

    def _attribute(self, node: ast.Attribute, state: State) -> set[Origin]:
        path = path_of(node)
        if path is not None and path in state.held:
            return set(state.at(path))
        if node.attr == "__traceback__":
            return {origin for origin in self.of(node.value, state) if origin in state.inside}
        return set() if says_class(node.attr) else {self.origin("taken", node)}

    def _subscript(self, node: ast.Subscript, state: State) -> set[Origin]:
        if is_exc_info(node.value):
            match node.slice:
                case ast.Constant(value=0) | ast.Slice(upper=ast.Constant(value=1)):
                    return set()
            return self._current()
        known = {origin for origin in self.of(node.value, state) if origin in state.inside}
        return known or {self.origin("taken", node)}

    def _call(self, node: ast.Call, state: State) -> set[Origin]:
        if is_exc_info(node) or _called(node) == "sys.exception":
            return self._current()
        if isinstance(node.func, ast.Attribute) and node.func.attr == "with_traceback":
            taken_away = len(node.args) == 1 and isinstance(node.args[0], ast.Constant)
            return {self.origin("made", node)} if taken_away else self.of(node.func.value, state)
        name = _called(node)
        if name in COPIES:
            return self.contents(node.args, state)
        if name in GROUPS:
            # To raise a group adds no frame to the tracebacks of what is in it.
            inside = self.contents(node.args[1:], state)
            return {self.origin("made", node), *(origin for origin in inside if origin.kind == "caught")}
        return set() if name in ("type", "getattr", "str", "repr", "int", "len") else {self.origin("made", node)}

    def _current(self) -> set[Origin]:
        """What sys.exc_info() returns here; outside of handlers it is somebody else's, whose traceback has no frame of ours."""
        return {self.handling[-1]} if self.handling else set()


def _called(node: ast.Call) -> str:
    return path_of(node.func) or ""


def is_exc_info(node: ast.AST) -> bool:
    """Whether this asks for the exception that is being handled, and its traceback."""
    return isinstance(node, ast.Call) and _called(node) in ("sys.exc_info", "exc_info")
