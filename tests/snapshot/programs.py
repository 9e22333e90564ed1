"""Programs that block in the middle of each construct: a function of a channel each, which receives numbers and returns something
that can be compared. They are resumed from every point at which they wait."""

import contextlib
import functools
import sys


def leaf(ch):
    x = ch.receive()
    return x * 10


def middle(ch, k):
    a = k + leaf(ch)
    return a + 1


def outer(ch, k):
    return [middle(ch, k), "o"]


def counter_three_calls_deep(ch):
    i, out = 0, []
    while i < 3:
        out.append(outer(ch, i))
        i += 1
    return out


def loop_over_range(ch):
    return_value = []
    for i in range(2, 5):
        return_value.append((i, leaf(ch)))
    return return_value


def loop_over_list_that_grows(ch):
    items, out = [1, 2, 3], []
    for i in items:
        if len(items) < 5:
            items.append(i * 7)  # the iterator must stay tied to this very list
        out.append((i, leaf(ch)))
    return out


def loop_over_dict_and_items(ch):
    d, out = {"a": 1, "b": 2, "c": 3}, []
    for k in d:
        out.append((k, leaf(ch)))
    for k, v in d.items():
        out.append((k, v, leaf(ch)))
    return out


def views_of_a_dict(ch):
    d = {"a": 1}
    keys, values, items = d.keys(), d.values(), d.items()
    leaf(ch)
    d["b"] = leaf(ch)
    return list(keys), list(values), list(items)


def loop_over_enumerate_and_zip(ch):
    out = []
    for i, (a, b) in enumerate(zip("abc", [5, 6, 7], strict=False), 3):
        out.append((i, a, b, leaf(ch)))
    return out


def loop_over_set_str_map_reversed(ch):
    out = []
    for iterable in ({9}, "xy", map(str, (1, 2)), reversed([1, 2])):
        for each in iterable:
            out.append((each, leaf(ch)))
    return out


def loop_over_the_channel(ch):
    out = []
    for value in ch:
        out.append(value)
        if len(out) == 4:
            break
    return out, leaf(ch)


def comprehension_over_the_channel(ch):
    return [value for value, _ in zip(range(3), [ch.receive() for _ in range(3)], strict=False)]


class Context:
    """A manager that notes what happens and swallows KeyError."""

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("out", kind and kind.__name__))
        return kind is KeyError


def with_blocks(ch):
    log = []
    with Context(log):
        log.append(leaf(ch))
        with Context(log):
            log.append(leaf(ch))
            raise KeyError(1)
        log.append(leaf(ch))
    return log


@contextlib.contextmanager
def manager(log):
    log.append("enter")
    try:
        yield 5
    except ValueError as e:
        log.append(("caught", str(e)))
    finally:
        log.append("done")


def with_contextmanager(ch):
    log = []
    with manager(log) as v:
        log.append((v, leaf(ch)))
        raise ValueError("boom")
    return log


class BlockingContext:
    """Blocks in both of its methods."""

    def __init__(self, ch, log):
        self.ch = ch
        self.log = log

    def __enter__(self):
        self.log.append(self.ch.receive())
        return self.log

    def __exit__(self, kind, value, traceback):
        self.log.append(("x", kind and kind.__name__, self.ch.receive()))
        return True


def blocks_in_enter_and_exit(ch):
    log = []
    with BlockingContext(ch, log) as same:
        same.append("body")
    with BlockingContext(ch, log):
        raise OSError(3)
    return log


def try_finally_except(ch):
    log = []
    try:
        try:
            log.append(leaf(ch))
            raise ValueError("v")
        finally:
            log.append(("f", leaf(ch)))
    except ValueError as e:
        log.append(("e", str(e), leaf(ch), repr(sys.exc_info()[1])))
        try:
            raise KeyError("inner")
        except KeyError as k:
            log.append((repr(k), leaf(ch), repr(k.__context__)))
        log.append(repr(sys.exc_info()[1]))
        try:
            raise
        except ValueError as e2:
            log.append(("re", repr(e2), e2 is e))
    log.append(sys.exc_info()[1])
    return log


def closures(ch):
    n, log = 0, []

    def increase(by):
        nonlocal n
        n += by + ch.receive()
        log.append(n)
        return get

    def get():
        return n

    for k in range(3):
        g = increase(k)
    return log, n, g()


def recursive_closure(ch):
    def sum_to(n):
        return ch.receive() if n == 0 else n + sum_to(n - 1)

    return [sum_to(3), sum_to(2)]


def lambdas(ch):
    f = lambda x, y=3: x + y + leaf(ch)  # noqa: E731
    return [f(1), f(2, y=7)]


def squares(n):
    for i in range(n):
        got = yield i * i
        if got:
            yield ("got", got)


def generator_in_a_variable(ch):
    g = squares(6)
    out = [next(g), next(g), leaf(ch)]
    out.append(next(g))
    out.append(leaf(ch))
    out.append(g.send("hi"))
    out.extend(g)
    return out


def generator_expression_in_a_variable(ch):
    k = 5
    g = (x + k for x in [1, 2, 3, 4])
    out = [next(g), leaf(ch)]
    out.append(next(g))
    out.append(leaf(ch))
    return [*out, *g]


def loop_over_generator(ch):
    out = []
    for x in squares(3):
        out.append((x, leaf(ch)))
    return out


def ended_generator_in_a_variable(ch):
    g = squares(1)
    out = [*g, leaf(ch)]
    return [*out, *g]


async def answer(ch):
    return ch.receive() + 1


async def asks(ch, log):
    for _ in range(3):
        log.append(await answer(ch))
    return "done"


def coroutine_not_begun_in_a_variable(ch):
    log = []
    coroutine = asks(iter([1]), log)
    try:
        return leaf(ch), log
    finally:
        coroutine.close()


def deep_recursion(ch, n=40):
    if n == 0:
        return ch.receive()
    return 1 + deep_recursion(ch, n - 1)


def recursion_of_500(ch):
    return deep_recursion(ch, 500)


def comprehensions(ch):
    return [x + ch.receive() for x in (1, 2)], {k: [v + leaf(ch) for v in range(2)] for k in "ab"}


class Thing:
    def __init__(self, ch):
        self.v = ch.receive()

    def method(self, *a, **k):
        return (self.v, a, k, self.ch.receive() if hasattr(self, "ch") else None)

    def __call__(self, c):
        return self.v + c.receive()


class SubThing(Thing):
    def __init__(self, ch):
        super().__init__(ch)
        self.ch = ch
        self.w = ch.receive()

    def method(self, *a, **k):
        return ("sub", super().method(*a, **k))


def methods(ch):
    thing = SubThing.__new__(SubThing)
    thing.v, thing.ch = 4, ch
    bound = thing.method
    return [bound(1, z=2), thing.method(*[1], q=3), super(SubThing, thing).method()]


def inside_init(ch):
    out = []
    for _ in range(4):  # often enough for CPython to specialise the call
        out.append(Thing(ch).v)
    thing = SubThing(ch)
    return [*out, (thing.v, thing.w)]


def callable_object(ch):
    thing = Thing.__new__(Thing)
    thing.v = 3
    return [thing(ch), thing(ch)]


def decorate(f):
    @functools.wraps(f)
    def wrapper(*a, **k):
        return ("w", f(*a, **k))

    return wrapper


@decorate
def decorated(ch, a, *, b=2):
    return a + b + leaf(ch)


def calls_a_decorated(ch):
    return [decorated(ch, 1), decorated(ch, 1, b=5)]


def calls_a_partial(ch):
    call = functools.partial(middle, ch, k=3)
    return [call(), call(k=4)]


def keywords(ch):
    def f(a, *r, k=1, **kw):
        return (a, r, k, sorted(kw.items()), leaf(ch))

    return [f(1, 2, 3, k=4, z=5), f(*(1, 2), y=1), leaf(ch=ch)]


def match_statement(ch):
    match {"a": [1, leaf(ch)]}:
        case {"a": [x, y]}:
            return (x, y, leaf(ch))


def unbound_variables(ch):
    if leaf(ch) == 20:
        late = 1
    leaf(ch)
    try:
        return late
    except UnboundLocalError as error:
        return str(error)


def formatted(ch):
    return f"{leaf(ch)}-{leaf(ch)!r:>6}" + str(1 if leaf(ch) else 2)


def shared_object(ch):
    items = []

    def f(x):
        x.append(ch.receive())
        return x is items

    return [f(items), f(items), items]


def exception_through_frames(ch):
    def f():
        try:
            return g()
        except ZeroDivisionError:
            return ("ok", leaf(ch))

    def g():
        return 1 // (ch.receive() - 1)

    return [f(), f()]


def frames_seen_from_within(ch):
    def f():
        ch.receive()
        out, frame = [], sys._getframe()
        while frame:
            out.append((frame.f_code.co_name, frame.f_lineno > 0))
            frame = frame.f_back
        return out

    return f()


def traceback_through_restored_frames(ch):
    def f():
        leaf(ch)
        return 1 // 0

    try:
        f()
    except ZeroDivisionError as error:
        names, tb = [], error.__traceback__
        while tb:
            names.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
            tb = tb.tb_next
        return names


def many_variables(ch):
    names = {f"v{i}": i for i in range(5)}
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = b8 = b9 = leaf(ch)
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = c8 = c9 = d0 = d1 = d2 = d3 = d4 = d5 = d6 = d7 = d8 = d9 = leaf(ch)
    e0 = e1 = e2 = e3 = e4 = e5 = e6 = e7 = e8 = e9 = f0 = f1 = f2 = f3 = f4 = f5 = f6 = f7 = f8 = f9 = leaf(ch)
    if a0 < 0:
        g0 = g1 = g2 = g3 = g4 = g5 = g6 = g7 = 1
        print(g0, g1, g2, g3, g4, g5, g6, g7)
    leaf(ch)
    abc = (
        a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + b0 + b1 + b2 + b3 + b4 + b5 + b6 + b7 + b8 + b9 + c0 + c1 + c2
    )
    rest = (
        c3 + c4 + c5 + c6 + c7 + c8 + c9 + d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7 + d8 + d9 + e0 + e1 + e2 + e3 + e4 + e5
    )
    return abc, rest + e6 + e7 + e8 + e9 + f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8 + f9, names


# ---- generators that block themselves, in the chain: not on 3.11 ----


def blocking_generator(ch, n):
    for i in range(n):
        yield i + ch.receive()


def delegating_generator(ch):
    result = yield from blocking_generator(ch, 3)
    yield result


def generator_that_blocks(ch):
    out = []
    for x in blocking_generator(ch, 4):
        out.append(x)
    for x in delegating_generator(ch):
        out.append(x)
    return out


def generator_that_blocks_while_handling(ch):
    def g():
        try:
            yield 1
            raise ValueError("in it")
        except ValueError as error:
            yield (leaf(ch), str(error), repr(sys.exc_info()[1]))

    out = []
    for x in g():
        out.append((x, sys.exc_info()[1]))
    return out


# ---- `with` blocks of which more is known in __enter__ from 3.14 on ----


class Static:
    """A manager to which nothing refers while its __enter__ runs."""

    @staticmethod
    def __enter__():
        return leaf(Static.ch)

    @staticmethod
    def __exit__(*args):
        pass


class Binding:
    def __get__(self, instance, kind):
        return lambda *args: instance.ended.append(args)


class BoundByPythonCode:
    __exit__ = Binding()

    def __init__(self, ch):
        self.ch, self.ended = ch, []

    def __enter__(self):
        return leaf(self.ch)


def static_enter(ch):
    Static.ch = ch
    with Static() as value:
        Static.ch = None
    return value


def enter_when_exit_is_bound_by_python_code(ch):
    manager = BoundByPythonCode(ch)
    with manager as value:
        value += leaf(ch)
    return value, manager.ended


NOT_BEFORE_314 = [static_enter, enter_when_exit_is_bound_by_python_code]
NOT_ON_311 = [generator_that_blocks, generator_that_blocks_while_handling]
PROGRAMS = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__module__", None) == __name__ and getattr(value, "__code__", None)
    and value.__code__.co_varnames[:1] == ("ch",)
    and value not in (leaf, middle, outer, decorated, answer, asks, blocking_generator, delegating_generator, deep_recursion)
    and (sys.version_info >= (3, 12) or value not in NOT_ON_311)
    and (sys.version_info >= (3, 14) or value not in NOT_BEFORE_314)
]  # fmt: skip
