"""What expressions show without being followed: on which branch of a condition there is no exception, and which may raise one."""

import ast

from roamlet_leaks.check.scopes import path_of, version_says
from roamlet_leaks.check.state import State, join

Way = State | None

RAISING = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.Subscript, ast.BinOp, ast.JoinedStr)


def may_raise(node: ast.stmt) -> bool:
    """Whether the statement itself may raise something: not one within it, and not by `raise`."""
    match node:
        case ast.If() | ast.While():
            return _may_raise(node.test)
        case ast.Assign() | ast.AnnAssign() | ast.Return() | ast.Expr():
            return node.value is not None and _may_raise(node.value)
        case ast.Pass() | ast.Break() | ast.Continue() | ast.Raise() | ast.Try() | ast.TryStar() | ast.Delete():
            return False
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Global() | ast.Nonlocal():
            return False
    return True


def _may_raise(expression: ast.expr) -> bool:
    return any(isinstance(node, RAISING) for node in ast.walk(expression))


def narrowed(test: ast.expr, state: State) -> tuple[Way, Way]:
    """What is known where `test` held, and where it did not; None for a branch that is never taken."""
    said = version_says(test)
    if said is not None:
        return (state, None) if said else (None, state)
    match test:
        case ast.Constant():
            return (state, None) if test.value else (None, state)
        case ast.UnaryOp(op=ast.Not()):
            yes, no = narrowed(test.operand, state)
            return no, yes
        case ast.BoolOp():
            return _in_turn(test, state)
        case ast.NamedExpr():
            return narrowed(test.target, state)
        case ast.Name() | ast.Attribute():
            return state, _forgotten(test, state)
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return _forgotten(left, state), state
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]):
            return state, _forgotten(left, state)
        case ast.Call(func=ast.Name(id="len" | "any"), args=[held]):
            return state, _forgotten(held, state)
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="len"), args=[held]), ops=[compared], comparators=[ast.Constant(value=0)]
        ):
            empty = _forgotten(held, state)
            return (empty, state) if isinstance(compared, (ast.Eq, ast.LtE)) else (state, empty)
        case ast.Call(func=ast.Name(id="isinstance"), args=[held, classes]):
            return state, _forgotten(held, state) if _names_all(classes) else state
    return state, state


def _in_turn(tests: ast.BoolOp, state: State) -> tuple[Way, Way]:
    """`and` goes on to its next test where the one before held, `or` where it did not."""
    every = isinstance(tests.op, ast.And)
    on: Way = state
    out: Way = None
    for test in tests.values:
        if on is None:
            break
        yes, no = narrowed(test, on)
        on, left = (yes, no) if every else (no, yes)
        out = join(out, left)
    return (on, out) if every else (out, on)


def _forgotten(node: ast.expr, state: State) -> State:
    if isinstance(node, ast.NamedExpr):
        node = node.target
    path = path_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    return state.without(path) if path else state


def _names_all(classes: ast.expr) -> bool:
    """Whether what is no instance of `classes` is no exception at all."""
    names = [path_of(one) for one in (classes.elts if isinstance(classes, ast.Tuple) else [classes])]
    return "Exception" in names or "BaseException" in names
