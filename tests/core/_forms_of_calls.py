# ruff: noqa: FURB171, FURB192, PIE804, RUF015
# The constructs are the point here, not the shortest way to what they compute.
"""Ways to be suspended in a call: displays, arguments, functions in C, special methods, constructors, decorators."""

import contextvars
import functools
import operator

from tests.core._form import Token, form


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
