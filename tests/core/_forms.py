# ruff: noqa: F841, FURB171, FURB192, PIE804, PLC3002, PLE0704, RET503, RUF015, RUF018
# The constructs are the point here, not the shortest way to what they compute.
"""Ways to be suspended: each form calls `inner` from within one construct of Python and returns what that returned.

What a form has on its operand stack or in its locals meanwhile is made of Token, which knows when it was damaged.
"""

import contextvars
import functools
import operator
import random
from collections.abc import Callable
from typing import Any


class Token:
    """A value that says whether it is still whole: the collector would have cleared its dictionary."""

    __match_args__ = ("value",)

    def __init__(self, value: Any = 0) -> None:
        self.value = value
        self.whole = True

    def check(self) -> Any:
        assert self.whole
        return self.value


FORMS: dict[str, Callable[[Callable[[], Any]], Any]] = {}
SWALLOWING: set[str] = set()  # forms out of which an exception does not come as it was


def form(function: Callable[[Callable[[], Any]], Any]) -> Callable[[Callable[[], Any]], Any]:
    FORMS[function.__name__] = function
    return function


def swallows(function: Callable[[Callable[[], Any]], Any]) -> Callable[[Callable[[], Any]], Any]:
    SWALLOWING.add(function.__name__)
    return form(function)


@form
def direct(inner):
    return inner()


@form
def list_display(inner):
    first, value, last = [Token(1), inner(), Token(2)]
    assert first.check() == 1 and last.check() == 2
    return value


@form
def dict_display(inner):
    things = {"a": Token(1), "b": inner(), "c": Token(3)}
    assert things["a"].check() == 1
    return things["b"]


def second_of(first, second=None, *rest, **named):
    first.check()
    for thing in (*rest, *named.values()):
        thing.check()
    return second


@form
def positional_arguments(inner):
    return second_of(Token(1), inner(), Token(2))


@form
def keyword_arguments(inner):
    return second_of(first=Token(1), second=inner(), third=Token(3))


@form
def star_arguments(inner):
    return second_of(*[Token(1)], inner(), *[Token(3)], **{"named": Token(4)})


def apply(function, *args, **named):
    for thing in (*args, *named.values()):
        thing.check()
    return function()


@form
def called_with_star_arguments(inner):
    return apply(inner, *(Token(1), Token(2)), **{"named": Token(3)})


@form
def under_map(inner):
    token = Token(5)
    value = list(map(lambda other: (other.check(), inner())[1], [token]))[0]
    assert token.check() == 5
    return value


@form
def under_sorted(inner):
    values = []
    assert sorted([Token(1)], key=lambda token: values.append(inner()) or token.check())[0].check() == 1
    return values[0]


@form
def under_reduce(inner):
    return functools.reduce(lambda first, second: (first.check(), inner(), second.check())[1], [Token(1), Token(2)])


@form
def under_min(inner):
    values = []
    assert min([Token(3)], key=lambda token: values.append(inner()) or 0).check() == 3
    return values[0]


@form
def under_partial(inner):
    return functools.partial(apply, inner)(Token(1))


@form
def under_cached(inner):
    return functools.lru_cache(lambda token: (token.check(), inner())[1])(Token(8))


@form
def under_context_run(inner):
    return contextvars.copy_context().run(apply, inner, Token(9))


@form
def under_methodcaller(inner):
    class Thing:
        def method(self, token):
            token.check()
            return inner()

    return operator.methodcaller("method", Token(1))(Thing())


class Special:
    """Every special method calls `inner`."""

    def __init__(self, inner):
        self.inner = inner
        self.values = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.inner()

    def __call__(self, token):
        token.check()
        return self.inner()

    def __getitem__(self, token):
        return self.__call__(token)

    def __setitem__(self, key, token):
        self.values.append(self.inner())

    def __delitem__(self, key):
        self.values.append(self.inner())

    def __add__(self, token):
        return self.__call__(token)

    def __radd__(self, token):
        return self.__call__(token)

    def __iadd__(self, token):
        self.values.append(self.__call__(token))
        return self

    def __lt__(self, token):
        return self.__call__(token)

    def __neg__(self):
        return self.inner()

    def __contains__(self, token):
        self.values.append(self.__call__(token))
        return True

    def __bool__(self):
        self.values.append(self.inner())
        return True

    def __len__(self):
        self.values.append(self.inner())
        return 1

    def __format__(self, spec):
        self.values.append(self.inner())
        return "x"

    def __hash__(self):
        self.values.append(self.inner())
        return 1

    def __enter__(self):
        self.values.append(self.inner())
        return self

    def __exit__(self, *_):
        return None

    @property
    def computed(self):
        return self.inner()


@form
def attribute(inner):
    return (Token(1).check(), Special(inner).missing)[1]


@form
def computed_property(inner):
    return (Token(1), Special(inner).computed, Token(2))[1]


@form
def instance_call(inner):
    return (Token(1), Special(inner)(Token(2)))[1]


@form
def subscript(inner):
    return [Token(1), Special(inner)[Token(2)]][1]


@form
def subscript_store(inner):
    special = Special(inner)
    special[Token(1)] = Token(2)
    return special.values[0]


@form
def subscript_delete(inner):
    special = Special(inner)
    del special[Token(1)]
    return special.values[0]


@form
def addition(inner):
    return (Token(1), Special(inner) + Token(2))[1]


@form
def addition_from_the_right(inner):
    return (Token(1), Token(3) + Special(inner))[1]


@form
def addition_in_place(inner):
    special = Special(inner)
    special += Token(1)
    return special.values[0]


@form
def comparison(inner):
    return Special(inner) < Token(4)


@form
def negation(inner):
    return (Token(1), -Special(inner))[1]


@form
def membership(inner):
    special = Special(inner)
    assert Token(1) in special
    return special.values[0]


@form
def truth(inner):
    special = Special(inner)
    return special.values[0] if special and Token(1).check() else None


@form
def length(inner):
    special = Special(inner)
    assert (Token(1), len(special))[1] == 1
    return special.values[0]


@form
def f_string(inner):
    special = Special(inner)
    assert f"{Token(1).check()}{special:>3}{Token(2).check()}" == "1x2"
    return special.values[0]


@form
def hashing(inner):
    special = Special(inner)
    assert special in {special}
    return special.values[0]


@form
def entering(inner):
    special = Special(inner)
    with special as entered:
        assert entered is special
    return special.values[0]


class Guard:
    def __init__(self, on_exit=lambda: None):
        self.on_exit = on_exit
        self.token = Token()

    def __enter__(self):
        return self.token

    def __exit__(self, *_):
        self.token.check()
        self.left = self.on_exit()


@form
def inside_with(inner):
    with Guard() as first, Guard() as second:
        value = inner()
        first.check()
        second.check()
    return value


@form
def leaving_with(inner):
    guard = Guard(inner)
    with guard:
        Token(1).check()
    return guard.left


@form
def leaving_with_an_exception(inner):
    guard = Guard(inner)
    try:
        with guard:
            raise LookupError(Token(1))
    except LookupError as error:
        error.args[0].check()
    return guard.left


@form
def constructor(inner):
    class Thing:
        def __init__(self, token):
            self.token, self.value = token, inner()

    thing = Thing(Token(2))
    assert thing.token.check() == 2
    return thing.value


@form
def constructor_at_new(inner):
    class Thing:
        def __new__(cls, token):
            self = super().__new__(cls)
            self.token, self.value = token, inner()
            return self

    thing = Thing(Token(2))
    assert thing.token.check() == 2
    return thing.value


@form
def through_super(inner):
    class Base:
        def method(self, token):
            token.check()
            return inner()

    class Derived(Base):
        def method(self, token):
            return super().method(token)

    return (Token(1), Derived().method(Token(2)))[1]


@form
def decorated(inner):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **named):
            return function(*args, **named)

        return wrapper

    @decorator
    def function(token, *, named):
        token.check()
        named.check()
        return inner()

    return function(Token(1), named=Token(2))


@form
def applying_a_decorator(inner):
    def decorator(function):
        return inner()

    @decorator
    def function():
        pass

    return function


@form
def for_loop(inner):
    values = []
    for first in [Token(1)]:
        for second in (Token(2),):
            values.append(inner())
            second.check()
        first.check()
    return values[0]


@form
def unpacked_loop(inner):
    for number, (token, value) in enumerate([(Token(1), None)]):
        assert number == 0 and value is None
        value = inner()
        token.check()
    return value


@form
def iterator(inner):
    class Values:
        def __init__(self):
            self.left = [1]

        def __iter__(self):
            return self

        def __next__(self):
            if not self.left:
                raise StopIteration
            self.left.pop()
            return inner()

    return [(Token(1), value) for value in Values()][0][1]


@form
def while_loop(inner):
    token, value = Token(1), None
    while value is None:
        value = inner()
    token.check()
    return value


@form
def list_comprehension(inner):
    token = Token(1)
    return [(token.check(), inner())[1] for token in (Token(2), Token(3))[:1]][0]


@form
def dict_comprehension(inner):
    return {token.check(): inner() for token in [Token(2)]}[2]


@form
def set_comprehension(inner):
    return {(token.check(), inner()) for token in [Token(2)]}.pop()[1]


@form
def generator_expression(inner):
    outer = Token(6)
    return next((outer.check(), token.check(), inner())[2] for token in [Token(2)])


@form
def generator(inner):
    def values(token):
        yield token.check()
        kept = Token(2)
        yield inner()
        kept.check()

    return list(values(Token(1)))[1]


@form
def generator_in_a_loop(inner):
    def values(token):
        for other in (Token(1),):
            yield (token.check(), inner(), other.check())[1]

    for value in values(Token(0)):
        found = value
    return found


@form
def delegating_generator(inner):
    def values():
        value = yield from below(Token(1))
        yield value

    def below(token):
        token.check()
        if False:
            yield
        return inner()

    return next(values())


@form
def sent_into_a_generator(inner):
    def values():
        token = yield
        token.check()
        yield inner()

    generator = values()
    next(generator)
    return generator.send(Token(1))


@form
def thrown_into_a_generator(inner):
    def values():
        try:
            yield
        except LookupError as error:
            yield (error.args[0].check(), inner())[1]

    generator = values()
    next(generator)
    return generator.throw(LookupError(Token(1)))


@form
def suspended_generator_beside(inner):
    def values(token):
        yield 1
        yield token.check()

    beside = values(Token(5))
    next(beside)
    value = inner()
    assert next(beside) == 5
    return value


async def awaited(inner, token):
    token.check()
    return inner()


class AsyncGuard:
    async def __aenter__(self):
        return Token(1)

    async def __aexit__(self, *_):
        pass


async def several(inner):
    for token in [Token(1)]:
        yield (token.check(), inner())[1]


async def coroutine(inner):
    async with AsyncGuard() as token:
        async for value in several(lambda: 3):
            assert value == 3
        token.check()
        return await awaited(inner, token)


@form
def in_a_coroutine(inner):
    try:
        coroutine(inner).send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError


@form
def in_an_async_generator(inner):
    async def first():
        async for value in several(inner):
            return value

    try:
        first().send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError


@form
def try_block(inner):
    token = Token(1)
    try:
        return inner()
    finally:
        token.check()


@form
def except_block(inner):
    try:
        raise LookupError(Token(1))
    except LookupError as error:
        value = inner()
        error.args[0].check()
    return value


@form
def nested_except_blocks(inner):
    try:
        raise LookupError(Token(1))
    except LookupError:
        try:
            raise ValueError(Token(2))
        except ValueError as error:
            value = (Token(3), inner())[1]
            error.__context__.args[0].check()
    return value


@form
def after_an_exception(inner):
    for token in [Token(1)]:
        try:
            raise LookupError
        except LookupError:
            pass
        value = (Token(2), inner())[1]
        token.check()
    return value


@form
def finally_block(inner):
    try:
        Token(1).check()
    finally:
        value = inner()
    return value


@form
def finally_block_with_an_exception(inner):
    values = []
    try:
        try:
            raise LookupError(Token(1))
        finally:
            values.append(inner())
    except LookupError as error:
        error.args[0].check()
    return values[0]


@swallows
def exception_group(inner):
    values = []
    try:
        raise ExceptionGroup("several", [LookupError(Token(1)), ValueError(Token(2))])
    except* LookupError:
        values.append(inner())
    except* ValueError as group:
        group.exceptions[0].args[0].check()
    return values[0]


@form
def match_class(inner):
    match Token(1), Token(2):
        case Token(first), Token(value=second):
            assert (first, second) == (1, 2)
            return inner()


@form
def match_guard(inner):
    values = []
    match {"key": Token(1)}:
        case {"key": token} if values.append(inner()) is None:
            token.check()
    return values[0]


@form
def class_body(inner):
    class Body:
        token = Token(1)
        value = inner()
        after = token.check()

    return Body.value


@form
def executed(inner):
    names = {"inner": inner, "Token": Token}
    exec("token = Token(1)\nvalue = inner()\ntoken.check()", names)
    return names["value"]


@form
def evaluated(inner):
    return eval("(Token(1), inner(), Token(2))[1]", {"inner": inner, "Token": Token})


@form
def closure(inner):
    token = Token(1)

    def function():
        nonlocal token
        value = inner()
        token.check()
        token = None
        return value

    return (Token(2), function())[1]


@form
def assignment_expression(inner):
    assert [Token(1), value := inner(), Token(2)][2].check() == 2
    return value


@form
def chained_comparison(inner):
    assert [0, 0 < (value := inner()) < 10**9][1]
    return value


@form
def many_operands(inner):
    things = [Token(1), [Token(2), [Token(3), [Token(4), (Token(5), inner(), Token(6)), Token(7)]]]]
    return things[1][1][1][1][1]


@form
def deep_stack(inner):
    return (lambda *args: args[-1])(*[Token(n) for n in range(300)], inner())


@swallows
def deleted_local(inner):
    class Dying:
        def __del__(self):
            values.append(inner())

    values, dying = [], Dying()
    del dying
    return values[0]


@swallows
def overwritten_local(inner):
    class Dying:
        def __del__(self):
            values.append(inner())

    values, dying, token = [], Dying(), Token(1)
    dying = token
    assert dying.check() == 1
    return values[0]


@swallows
def dropped_temporary(inner):
    class Dying:
        def __del__(self):
            values.append(inner())

    values = []
    (Token(1), Dying(), Token(2))
    return values[0]


@swallows
def dropped_while_unwinding(inner):
    class Dying:
        def __init__(self, token):
            self.token = token

        def __del__(self):
            self.token.check()
            values.append(inner())

    def fails(*_):
        raise LookupError(Token(1))

    values = []
    for token in [Token(2)]:
        try:
            [Token(3), Dying(Token(4)), [Token(5), fails(Token(6)), Token(7)]]
        except LookupError as error:
            error.args[0].check()
        token.check()
    return values[0]


@swallows
def dropped_when_a_frame_is_cleared(inner):
    class Dying:
        def __del__(self):
            values.append(inner())

    def function(first, dying, last):
        return Token(1)

    values = []
    assert (Token(2), function(Token(3), Dying(), Token(4)))[1].check() == 1
    return values[0]


@swallows
def bare_raise_while_unwinding(inner):
    class Dying:
        def __del__(self):
            values.append(inner())

    def raises_again():
        for _ in [Dying()]:
            raise

    values = []
    try:
        raise LookupError(Token(1))
    except LookupError:
        try:
            raises_again()
        except LookupError as error:
            error.args[0].check()
    return values[0]


def nested(names: list[str], innermost: Callable[[], Any]) -> Callable[[], Any]:
    """A function that calls `innermost` through the forms of these names, the first outermost."""
    function = innermost
    for name in reversed(names):
        function = functools.partial(FORMS[name], function)
    return function


def random_names(rng: random.Random, most: int, without: set[str] | None = None) -> list[str]:
    names = sorted(set(FORMS) - (without or set()))
    return [rng.choice(names) for _ in range(rng.randint(1, most))]
