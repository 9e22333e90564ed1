"""Follows the paths through one function and finds what it holds wherever it ends.

Branches are joined, loops are repeated until they add nothing new, and `finally` is followed for each way out. That any
call may raise counts only where a handler of the same function would catch it.
"""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from roamlet_leaks.check.conditions import may_raise, narrowed
from roamlet_leaks.check.scopes import Module, Scope, path_of
from roamlet_leaks.check.state import Origin, Site, State, join, same
from roamlet_leaks.check.values import Values, is_exc_info

STORES = frozenset({"append", "appendleft", "add", "insert", "extend", "extendleft", "setdefault", "set_exception"})
RERAISES = frozenset({"reraise", "_reraise", "raise_from", "raise_with_traceback", "raise_exc_info", "raise_"})
# A loop takes this many turns at most; each adds something or is the last, and few things pass from name to name.
TURNS = 12
# At most this many ways out of a function are told apart; further ones are joined.
WAYS = 40
# Statements followed in one function, each as often as it is visited: deeply nested `try` statements would never end.
MOST_STEPS = 20_000

Way = State | None  # None: this point is never reached


@dataclass
class Ends:
    """The ways out of a block, other than past its end.

    Those out of the function are kept apart, because what is held on one need not be raised on another.
    """

    returns: list[State] = field(default_factory=list)
    raises: list[State] = field(default_factory=list)
    breaks: Way = None
    continues: Way = None

    def add(self, other: "Ends") -> None:
        """Leave here too whatever leaves there."""
        self.add_leaving(other)
        self.breaks = join(self.breaks, other.breaks)
        self.continues = join(self.continues, other.continues)

    def add_leaving(self, other: "Ends") -> None:
        """Leave the function here too where it is left there."""
        for way in other.returns:
            _put(self.returns, way)
        for way in other.raises:
            _put(self.raises, way)

    def through(self, follow: Callable[[State], Way]) -> "Ends":
        """The ways out once each has been followed further."""
        done = Ends()
        for way in self.returns:
            _put(done.returns, follow(way))
        for way in self.raises:
            _put(done.raises, follow(way))
        done.breaks = self.breaks and follow(self.breaks)
        done.continues = self.continues and follow(self.continues)
        return done


def _put(ways: list[State], way: Way) -> None:
    """Add a way, unless the same is there."""
    if way is None or any(same(way, known) for known in ways):
        return
    if len(ways) < WAYS:
        ways.append(way)
    else:
        ways[-1] = join(ways[-1], way) or way


@dataclass
class Flow:
    """Follows one function, class body or module. `endless` is told of what a loop holds that nothing leaves."""

    scope: Scope
    module: Module
    endless: Callable[[ast.While, State], None]
    values: Values = field(init=False)
    ends: Ends = field(init=False, default_factory=Ends)
    steps: int = field(init=False, default=0)
    watching: list[Way] = field(init=False, default_factory=list)
    """By try statement: all that its body knew at any point."""

    def __post_init__(self) -> None:
        self.values = Values(self.scope, self.module)

    def followed(self) -> list[State]:
        """What is held at each kind of end of the function."""
        last = self.block(self.scope.node.body, self._at_entry())
        return [*([] if last is None else [last]), *self.ends.returns, *self.ends.raises]

    def _at_entry(self) -> State:
        state = State()
        if not isinstance(self.scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return state
        arguments = self.scope.node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        leaving = self.scope.node.name in ("__exit__", "__aexit__")
        for index, argument in enumerate(argument for argument in named if argument is not None):
            given = leaving and (index in (2, 3) or (argument is arguments.vararg and index < 3))
            origin = self.values.origin("exit" if given else "parameter", argument)
            state = state.bound(argument.arg, [origin], Site(argument, "name"))
            if given:
                state = state.raised([origin], argument)
        return state

    def block(self, statements: Iterable[ast.stmt], state: Way) -> Way:
        """Follow statements one after the other."""
        for statement in statements:
            if state is None:
                return None
            if self.watching and may_raise(statement):
                self.watching = [join(known, state) for known in self.watching]
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, state: State) -> Way:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise RecursionError(f"there are too many ways through {self.scope.name}")
        match node:
            case ast.Assign():
                return self._assigned(node.targets, node.value, self._effects(node.value, state), node)
            case ast.AnnAssign():
                return (
                    self._assigned([node.target], node.value, self._effects(node.value, state), node)
                    if node.value
                    else state
                )
            case ast.AugAssign():
                path = path_of(node.target)
                state = self._effects(node.value, state)
                put = self.values.contents([node.value], state)
                return state.added(path, put, Site(node, "container")) if path else state
            case ast.Delete():
                for target in node.targets:
                    state = self._unbound(target, state)
                return state
            case ast.Expr():
                return self._after(node.value, state)
            case ast.Return():
                _put(self.ends.returns, self._after(node.value, state) if node.value else state)
                return None
            case ast.Raise():
                return self._raise(node, state)
            case ast.Break():
                self.ends.breaks = join(self.ends.breaks, state)
                return None
            case ast.Continue():
                self.ends.continues = join(self.ends.continues, state)
                return None
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return state.without(node.name)
        return self._compound(node, state)

    def _compound(self, node: ast.stmt, state: State) -> Way:
        match node:
            case ast.If():
                return self._if(node, state)
            case ast.While():
                return self._while(node, state)
            case ast.For() | ast.AsyncFor():
                return self._for(node, state)
            case ast.Try() | ast.TryStar():
                return self._try(node, state)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    state = self._effects(item.context_expr, state)
                    if item.optional_vars is not None:
                        state = self._bound(item.optional_vars, set(), state, Site(node, "name"))
                return self.block(node.body, state)
            case ast.Match():
                state = self._effects(node.subject, state)
                way: Way = state
                for case in node.cases:
                    way = join(way, self.block(case.body, state))
                return way
            case ast.Assert():
                return narrowed(node.test, self._effects(node.test, state))[0]
        return state

    def _if(self, node: ast.If, state: State) -> Way:
        """Follow `if`, and its `elif` one after the other: generated code has hundreds of them."""
        after: Way = None
        while True:
            yes, no = narrowed(node.test, self._effects(node.test, state))
            after = join(after, self.block(node.body, yes))
            match node.orelse:
                case [ast.If() as node] if no is not None:
                    state = no
                case _:
                    return join(after, self.block(node.orelse, no))

    # What statements do to names.

    def _assigned(self, targets: list[ast.expr], value: ast.expr, state: State, node: ast.stmt) -> State:
        how = _how(value)
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                parts = self.values.parts(value, len(target.elts), state)
                for element, origins in zip(target.elts, parts, strict=True):
                    state = self._bound(element, origins, state, Site(node, how))
            else:
                state = self._bound(target, self.values.of(value, state), state, Site(node, how))
        return state

    def _bound(self, target: ast.AST, origins: set[Origin], state: State, site: Site) -> State:
        path = path_of(target)
        match target:
            case ast.Tuple() | ast.List():
                for element in target.elts:
                    state = self._bound(element, origins, state, site)
                return state
            case ast.Starred():
                return self._bound(target.value, origins, state, site)
            case ast.Name():
                if target.id in self.scope.changed_inside:
                    return state
                if not self.scope.is_function:
                    # What is not caught is no matter there, and there may be thousands of names.
                    origins = {origin for origin in origins if origin.kind == "caught"}
                return state.bound(target.id, origins, site)
            case ast.Attribute() if target.attr == "__traceback__":
                return state.stripped(self.values.of(target.value, state)) if not origins else state
            case ast.Attribute() if path:
                return state.bound(path, origins, Site(site.node, "attribute"))
            case ast.Subscript() if path:
                inside = [origin for origin in origins if origin in state.inside]
                return state.added(path, inside, Site(site.node, "container"))
        return state

    def _unbound(self, target: ast.AST, state: State) -> State:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                state = self._unbound(element, state)
            return state
        path = path_of(target)
        if isinstance(target, ast.Attribute) and target.attr == "__traceback__":
            return state.stripped(self.values.of(target.value, state))
        return state.without(path) if path else state

    # What expressions do beside having a value.

    def _effects(self, expression: ast.AST | None, state: State) -> State:
        if expression is None or isinstance(expression, (ast.Name, ast.Constant)):
            return state
        for node in ast.walk(expression):
            if isinstance(node, ast.NamedExpr):
                state = self._bound(node.target, self.values.of(node.value, state), state, Site(node, _how(node.value)))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                state = self._method(node, node.func, state)
        return state

    def _method(self, node: ast.Call, called: ast.Attribute, state: State) -> State:
        if called.attr == "clear_frames":
            return state.frames_cleared(
                {origin for argument in node.args for origin in self.values.of(argument, state)}
            )
        path = path_of(called.value)
        if called.attr == "with_traceback":
            if len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
                return state.stripped(self.values.of(called.value, state))
        elif path and called.attr in STORES:
            future = called.attr == "set_exception"
            put = self.values.contents(node.args[:1] if future else node.args, state)
            return state.added(path, put, Site(node, "future" if future else "container"))
        elif path and called.attr == "clear" and not node.args:
            return state.without(path)
        return state

    def _after(self, expression: ast.expr, state: State) -> Way:
        """After an expression that stands alone or is returned: some calls do not end, or raise what they are given."""
        state = self._effects(expression, state)
        called = path_of(expression.func) if isinstance(expression, ast.Call) else None
        if called == "os._exit":
            return None
        if isinstance(expression, ast.Call) and called is not None and called.rpartition(".")[2] in RERAISES:
            value = expression.args[1 if len(expression.args) == 3 else 0 :][:1]  # of type, value and traceback
            given = {origin for argument in value for origin in self.values.of(argument, state)}
            _put(self.ends.raises, state.raised(given, expression))
            return None
        return state

    def _raise(self, node: ast.Raise, state: State) -> Way:
        state = self._effects(node.exc, state)
        if node.exc is None:
            raised = set(self.values.handling[-1:])
        else:
            raised = self.values.of(node.exc, state)
            path = path_of(node.exc)
            if path and not isinstance(node.exc, ast.Name):
                state = state.added(path, raised, Site(node, "container"))
        _put(self.ends.raises, state.raised(raised, node))
        return None

    # Loops.

    def _while(self, node: ast.While, state: State) -> Way:
        forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        turn, out, inside = self._turns(node, state, lambda known: narrowed(node.test, self._effects(node.test, known)))
        if forever and not inside.returns and inside.breaks is None and turn is not None:
            self.endless(node, turn)
        return join(self.block(node.orelse, out), inside.breaks)

    def _for(self, node: ast.For | ast.AsyncFor, state: State) -> Way:
        state = self._effects(node.iter, state)
        targets = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]

        def next_one(known: State) -> tuple[Way, Way]:
            bound = known
            for target, element in zip(targets, self.values.elements(node, known), strict=True):
                bound = self._bound(target, element, bound, Site(node, "name"))
            return bound, known

        _, out, inside = self._turns(node, state, next_one)
        return join(self.block(node.orelse, out), inside.breaks)

    def _turns(
        self, node: ast.While | ast.For | ast.AsyncFor, state: State, top: Callable[[State], tuple[Way, Way]]
    ) -> tuple[Way, Way, Ends]:
        """What comes round at the end of the body, and what leaves at the top of the loop, once nothing new comes; and all ways
        out of the body.
        """
        outer, self.ends = self.ends, Ends()
        known: Way = state
        for _ in range(TURNS):
            assert known is not None
            enters, leaves = top(known)
            self.ends.continues = None
            turn = join(self.block(node.body, enters), self.ends.continues)
            more = join(known, turn)
            if same(more, known):
                break
            known = more
        inside, self.ends = self.ends, outer
        outer.add_leaving(inside)
        return turn, leaves, inside

    # Exceptions.

    def _try(self, node: ast.Try | ast.TryStar, state: State) -> Way:
        if not node.finalbody:
            return self._handled(node, state)
        outer, self.ends = self.ends, Ends()
        watching, self.watching = self.watching, [state]
        after = self._handled(node, state)
        (at_any_point,), self.watching = self.watching, watching
        inside, self.ends = self.ends, outer
        asked = self.values.origin("caught", node, "finally")
        self.values.handling.append(asked)
        outer.add(inside.through(lambda way: self.block(node.finalbody, way.raised([asked], node))))
        self._passing(node, at_any_point, asked)
        self.values.handling.pop()
        return self.block(node.finalbody, after)

    def _passing(self, node: ast.Try | ast.TryStar, state: Way, asked: Origin) -> None:
        """Follow the finally clause for what any call may have raised, to the handlers around it."""
        ends, self.ends = self.ends, Ends()
        passed = self.block(node.finalbody, state and state.raised([asked], node))
        self.watching = [join(known, passed) for known in self.watching]
        if any(is_exc_info(part) for statement in node.finalbody for part in ast.walk(statement)):
            # The clause asks for the exception that passes through: not one of those that are raised by name.
            _put(ends.raises, self.block(node.finalbody, State().raised([asked], node)))
        self.ends = ends

    def _handled(self, node: ast.Try | ast.TryStar, state: State) -> Way:
        outer, self.ends = self.ends, Ends()
        self.watching.append(state)
        after = self.block(node.body, state)
        at_any_point = self.watching.pop()
        assert at_any_point is not None
        raised = self.ends.raises
        if any(_catches_all(handler) for handler in node.handlers):
            self.ends.raises = []
        outer.add(self.ends)
        self.ends = outer
        after = self.block(node.orelse, after)
        for handler in node.handlers:
            # What is raised by name is followed on its own: what is held before it need not be held behind a finally clause.
            for way in (at_any_point, *raised):
                after = join(after, self._handler(handler, way))
        return after

    def _handler(self, handler: ast.ExceptHandler, state: State) -> Way:
        """Follow an except clause, which forgets its name however it is left."""
        caught = self.values.origin("caught", handler)
        state = state.raised([caught], handler)
        if handler.name:
            state = state.bound(handler.name, [caught], Site(handler, "handler"))
        outer, self.ends = self.ends, Ends()
        self.values.handling.append(caught)
        after = self.block(handler.body, state)
        self.values.handling.pop()
        inside, self.ends = self.ends, outer
        name = handler.name
        outer.add(inside.through(lambda way: way.without(name)) if name else inside)
        return after.without(name) if after is not None and name else after


def _how(value: ast.expr) -> str:
    """Which rule speaks of a name that is given this value."""
    for node in ast.walk(value):
        match node:
            case ast.Attribute(attr="__traceback__") | ast.Call(func=ast.Attribute(attr="exc_info")):
                return "traceback"
            case (
                ast.Call(func=ast.Name(id="exc_info"))
                | ast.Call(func=ast.Attribute(value=ast.Name(id="sys"), attr="exception"))
            ):
                return "traceback"
    return "name"


def _catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or path_of(handler.type) in ("Exception", "BaseException")
