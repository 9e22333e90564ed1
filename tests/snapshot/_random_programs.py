"""Random programs that block in all kinds of places: modules with a main(ch), by seed."""

import random
import sys
import types
from importlib.machinery import ModuleSpec

HEADER = """
import contextlib, functools

class Manager:
    def __init__(self, ch, out, swallows):
        self.ch, self.out, self.swallows = ch, out, swallows
    def __enter__(self):
        self.out.append(("in", self.ch.receive()))
        return self
    def __exit__(self, kind, value, traceback):
        self.out.append(("out", kind and kind.__name__, self.ch.receive()))
        return self.swallows

class Thing:
    def __init__(self, ch, v):
        self.v = v + ch.receive()
    def method(self, ch, a=1, *rest, k=2, **named):
        return self.v + a + len(rest) + k + len(named) + ch.receive()
    def __call__(self, ch):
        return self.v * 2 + ch.receive()

class Derived(Thing):
    def __init__(self, ch, v):
        super().__init__(ch, v + ch.receive())
        self.more = ch.receive()

def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls = (wrapper.calls + function(*args, **kwargs)) % 100
        return wrapper.calls
    wrapper.calls = 0
    return wrapper

@contextlib.contextmanager
def managed(out, v):
    out.append(("enter", v))
    try:
        yield v
    except KeyError as error:
        out.append(("caught", repr(error)))
    finally:
        out.append(("leave", v))

def recurses(ch, n):
    return n + ch.receive() if n <= 0 else recurses(ch, n - 1) + ch.receive() % 3

def values(ch, n, blocks):
    try:
        for i in range(n):
            yield i + ch.receive() if blocks else i
    finally:
        pass

def delegates(ch, n, blocks):
    yield from values(ch, n, blocks)
    yield 7
"""

ITERABLES = [
    "reversed([1, 2])", "map(abs, [-1, 2])", '{1: 2}.items()', "{3}", "iter([5, 6])",
    "range(2)", "[1, 2]", '{"a": 1, "b": 2}.values()', 'enumerate("xy")', "zip([1, 2], (3, 4))", "(3, 4)", "values(ch, 2, False)",
]  # fmt: skip
BLOCKING = ["values(ch, 2, True)", "delegates(ch, 2, True)"]  # generators in the chain: from 3.12 on


class Writer:
    """Writes one program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0
        self.functions = []

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def expression(self, depth=2):
        kind = self.random.randrange(22 if depth > 0 else 3)
        e = lambda: self.expression(depth - 1)  # noqa: E731
        quotes = "'''" if depth > 1 else "'"  # 3.11 cannot have those of an f-string inside of it
        if kind == 0:
            return str(self.random.randrange(1, 9))
        if kind <= 2:
            return "ch.receive()"
        forms = {
            3: lambda: f"({e()} + {e()})",
            4: lambda: f"({e()} if {e()} % 2 else {e()})",
            5: lambda: f"sum([{e()}, {e()}])",
            6: lambda: f"len([x + {e()} for x in range({self.random.randrange(1, 3)})])",
            7: lambda: f"(lambda a, b=2: a + b + {e()})({e()})",
            8: lambda: f'Thing(ch, {e()}).method(ch, *[{e()}], **{{"z": {e()}}})',
            9: lambda: f"Thing(ch, {e()})(ch)",
            10: lambda: f"Thing(ch, 1).method(ch, {e()}, {e()}, k={e()})",
            11: lambda: f'len({{x: {e()} for x in "ab"}})',
            12: lambda: f"({e()} and {e()} or 3)",
            13: lambda: f"len(f{quotes}{{{e()}}}-{{{e()}:>4}}{quotes})",
            14: lambda: f"Derived(ch, {e()}).more",
            15: lambda: f"recurses(ch, {self.random.randrange(3)})",
            16: lambda: f"functools.partial(Thing(ch, 1).method, ch, k={e()})({e()}, z={e()})",
            17: lambda: f"({e()} < {e()} < {e()}) + {e()}",
            18: lambda: f"[{e()}, {e()}, {e()}][({e()}) % 3]",
            19: lambda: f"(lambda *a, k=3, **n: len(a) + k + len(n) + {e()})(*[{e()}], q={e()})",
            20: lambda: f"sum([x * {e()} for x in [y for y in (1, {e()})] if x % 2])",
        }
        if kind in forms:
            return forms[kind]()
        return f"{self.random.choice(self.functions)}(ch, out, {e()})" if self.functions else "5"

    def block(self, indent, depth, in_loop=False):
        return [line for _ in range(self.random.randrange(1, 4)) for line in self.statement(indent, depth, in_loop)]

    def statement(self, indent, depth, in_loop):
        r, p, e = self.random, "    " * indent, self.expression
        kind = r.randrange(20 if depth > 0 else 3)

        def inner(loop=in_loop):
            return self.block(indent + 1, depth - 1, loop)

        if kind <= 1:
            return [f"{p}out.append({e()})"]
        if kind == 2:
            return [f"{p}total += {e()}"]
        if kind == 3:
            iterable = r.choice(ITERABLES + (BLOCKING if sys.version_info >= (3, 12) else []))
            tail = [f'{p}else: out.append("else")'] if r.random() < 0.3 else []
            return [f"{p}for {self.name()} in {iterable}:", *inner(True), *tail]
        if kind == 4:
            n = self.name()
            return [f"{p}{n} = 0", f"{p}while {n} < 2:", f"{p}    {n} += 1", *inner(True)]
        if kind == 5:
            return [
                f"{p}try:", *inner(), f"{p}    if {e()} % 2: raise ValueError(total)", f"{p}except ValueError as e{indent}:",
                f"{p}    out.append(repr(e{indent}))", *inner(), f"{p}else: out.append(1)", f"{p}finally:",
                *self.block(indent + 1, depth - 1),
            ]  # fmt: skip
        if kind == 6:
            raises = [f"{p}    raise KeyError({e()})"] if r.random() < 0.5 else []
            return [f"{p}with Manager(ch, out, True):", *inner(), *raises]
        if kind == 7:
            return [f"{p}if {e()} % 2:", *inner(), f"{p}else:", *inner()]
        if kind == 8:
            f, n = self.name(), self.name()
            return [
                f"{p}{n} = {e()}", f"{p}def {f}(q=3):", f"{p}    nonlocal {n}, total", f"{p}    {n} += q + {e()}; total += 1",
                f"{p}    return {n}", f"{p}out.append({f}() + {f}({e()}))",
            ]  # fmt: skip
        if kind == 9 and in_loop:
            return [f"{p}if {e()} % 3 == 0: {r.choice(['break', 'continue'])}"]
        if kind == 10:
            a, b = self.name(), self.name()
            return [
                f"{p}match [{e()}, {e()}]:",
                f"{p}    case [{a}, {b}] if {e()} > 1: out.append(({a}, {b}))",
                f"{p}    case _: pass",
            ]
        if kind == 11:
            g = self.name()
            return [
                f"{p}{g} = (x * {r.randrange(1, 4)} for x in [1, 2, 3])", f"{p}out.append(next({g}))", f"{p}out.append({e()})",
                f"{p}out.extend({g})",
            ]  # fmt: skip
        return self.more_statements(kind, indent, depth, inner)

    def more_statements(self, kind, indent, depth, inner):
        r, p, e = self.random, "    " * indent, self.expression
        a, b = self.name(), self.name()
        if kind == 13:
            swallows = r.choice(["True", "False"])
            return [
                f"{p}try:", f"{p}    with Manager(ch, out, {swallows}) as {a}, Manager(ch, out, False):",
                *self.block(indent + 2, depth - 1),
                f"{p}        if {e()} % 2: raise KeyError({e()})", f"{p}except KeyError as e{indent}: out.append(repr(e{indent}))",
            ]  # fmt: skip
        if kind == 14:
            return [f"{p}with managed(out, {e()}) as {a}:", *inner(), f"{p}    if {e()} % 3 == 0: raise KeyError({a})"]
        if kind == 15:
            return [
                f"{p}try:", f"{p}    try:", *self.block(indent + 2, depth - 1), f"{p}        raise KeyError({e()})",
                f"{p}    except KeyError:", *self.block(indent + 2, depth - 1), f"{p}        raise",
                f"{p}    finally: out.append({e()})", f"{p}except KeyError as e{indent}: out.append((repr(e{indent}), {e()}))",
            ]  # fmt: skip
        if kind == 16:
            return [
                f"{p}try: raise ExceptionGroup('g', [ValueError({e()}), KeyError({e()})])",
                f"{p}except* ValueError as e{indent}: out.append((repr(e{indent}.exceptions), {e()}))",
                f"{p}except* KeyError:", *inner(False),
            ]  # fmt: skip
        if kind == 17:
            return [
                f"{p}{a}, *{b} = [{e()}, {e()}, {e()}]", f"{p}{b}[({e()}) % 2] += {e()}", f"{p}{b} = {{'a': {e()}, 'b': {b}}}",
                f"{p}{b}['a'] -= ({a} := {e()})", f"{p}out.append(({a}, sorted(map(str, {b}.items()))))", f"{p}del {a}",
            ]  # fmt: skip
        if kind == 18:
            return [
                f"{p}@counted", f"{p}def {a}(v, *, w=2):", f"{p}    nonlocal total", f"{p}    for _ in range(2):",
                f"{p}        try:",
                f"{p}            if v % 2: return w + {e()}", f"{p}            v += {e()}", f"{p}        finally: total += 1",
                f"{p}    return v", f"{p}out.append({a}({e()}, w={e()}) + {a}({e()}))",
            ]  # fmt: skip
        if kind == 19:
            return [
                f"{p}{a} = Thing(ch, {e()})", f"{p}{a}.v += {e()}", f"{p}{b} = {a}.method", f"{p}out.append({e()})",
                f"{p}out.append({b}(ch, *range({e()} % 3)))",
            ]  # fmt: skip
        return [f"{p}out.append([{e()}, {e()}, (*[{e()}], 2)])"]

    def function(self, head, end):
        uses = "    def use(): return total"
        return "\n".join([head, uses, *self.block(1, 3), *end]) + "\n"

    def program(self):
        text = HEADER
        for number in range(3):
            text += self.function(f"def f{number}(ch, out, start):\n    total = start", ["    return total"])
            self.functions.append(f"f{number}")
        return text + self.function(
            "def main(ch):\n    out = []\n    total = 0", ["    out.append(f2(ch, out, 1))", "    return out"]
        )


def module(seed):
    """The program of this seed as a module that can be imported; None when it does not compile (a `break` in a finally)."""
    made = types.ModuleType(f"random_program_{seed}")
    made.__file__ = f"/{made.__name__}.py"
    made.__loader__ = object()  # tracebacks warn of one that is None
    made.__spec__ = ModuleSpec(made.__name__, made.__loader__)
    try:
        code = compile(Writer(seed).program(), made.__file__, "exec")
    except SyntaxError:
        return None
    exec(code, made.__dict__)
    sys.modules[made.__name__] = made
    return made
