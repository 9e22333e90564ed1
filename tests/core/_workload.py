"""Python code of many kinds, each of which an interrupt can hit in another state of the interpreter.

Each piece takes a seed and returns a value that repr() shows in full. What it returns does not depend on who else runs.
"""

import contextvars
import functools
import itertools
import json
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import roamlet

PIECES: dict[str, Callable[[int], object]] = {}

variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=-1)


def piece(function: Callable[[int], object]) -> Callable[[int], object]:
    PIECES[function.__name__] = function
    return function


class Key:
    """Compares and hashes in Python."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: "Key") -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value % 3)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.value == other.value


class Noted:
    """A with block that is noted."""

    def __init__(self, log: list[object]) -> None:
        self.log = log

    def __enter__(self) -> "Noted":
        self.log.append("in")
        return self

    def __exit__(self, kind: object, *_: object) -> bool:
        self.log.append(kind)
        return kind is KeyError


class Dying:
    def __init__(self, log: list[int], value: int) -> None:
        self.log, self.value = log, value

    def __del__(self) -> None:
        total = 0
        for i in range(4):
            total += i * self.value
        self.log.append(total)


class Lazy:
    """Attributes, items and calls that run Python code without a call in sight."""

    def __init__(self, value: int) -> None:
        self._value = value

    @property
    def value(self) -> int:
        return self._value + 1

    def __getattr__(self, name: str) -> int:
        return len(name) + self._value

    def __getitem__(self, index: int) -> int:
        if index > 4:
            raise IndexError(index)
        return index * self._value

    def __call__(self, *args: int, **kwargs: int) -> int:
        return sum(args) + sum(kwargs.values())

    def __add__(self, other: int) -> "Lazy":
        return Lazy(self._value + other)

    def __bool__(self) -> bool:
        return self._value % 2 == 0


def squares(n: int) -> Generator[int, int | None, str]:
    try:
        for i in range(n):
            got = yield i * i
            if got:
                yield -got
    finally:
        n = 0
    return f"done {n}"


@piece
def loops(seed: int) -> object:
    total = i = 0
    while i < 12:
        i += 1
        if i % 5 == 0:
            continue
        total = (total * 31 + i + seed) % 10007
    for j in range(20):
        if j == 15:
            break
        total ^= j
    else:
        total = -1
    return total


@piece
def try_finally(seed: int) -> object:
    log = []
    for i in range(6):
        try:
            try:
                if i % 2:
                    raise ValueError(i + seed)
                log.append(i)
                if i == 4:
                    continue
            except ValueError as error:
                log.append(error.args[0])
            finally:
                log.append("f")
        finally:
            log.append("g")
    return log


@piece
def exceptions_being_handled(seed: int) -> object:
    seen = []
    try:
        raise KeyError(seed)
    except KeyError as outer:
        for i in range(3):
            try:
                raise ValueError(i) from outer
            except ValueError as inner:
                seen.append((sys.exc_info()[1] is inner, inner.__cause__ is outer, inner.__context__ is outer))
            seen.append(sys.exc_info()[1] is outer)
    seen.append(isinstance(sys.exc_info()[1], ValueError))
    return seen


@piece
def exception_groups(seed: int) -> object:
    log: list[object] = []
    try:
        raise ExceptionGroup("several", [ValueError(seed), KeyError(seed), OSError(seed)])
    except* ValueError as group:
        log.append(len(group.exceptions))
    except* (KeyError, OSError) as group:
        log.append([type(error).__name__ for error in group.exceptions])
    return log


@piece
def comprehensions(seed: int) -> object:
    return (
        [a * b + seed for a in range(4) for b in range(4) if (a + b) % 3],
        {a: [b + seed for b in range(a)] for a in range(5)},
        sorted({a % 3 for a in range(9)}),
        sum(a for a in range(10)),
    )


@piece
def generators(seed: int) -> object:
    sent = []
    generator = squares(4)
    try:
        sent.append(next(generator))
        while True:
            sent.append(generator.send(len(sent) % 3))
    except StopIteration as end:
        sent.append(end.value)
    closed = squares(5)
    next(closed)
    closed.close()
    return sent, list(zip(squares(3), squares(4), strict=False)), [x + seed for x in squares(3)]


@piece
def exceptions_thrown_into_generators(seed: int) -> object:
    def stubborn() -> Iterator[object]:
        n = 0
        while n < 3:
            try:
                yield n
            except ValueError as error:
                n += 1
                for _ in range(3):
                    n += 0
                yield str(error)

    generator = stubborn()
    log = [next(generator)]
    for i in range(2):
        log.append(generator.throw(ValueError(i + seed)))  # type: ignore[attr-defined]
        log.append(next(generator))
    return log


@piece
def yield_from(seed: int) -> object:
    def outer(n: int) -> Generator[int, int | None, str]:
        first = yield from squares(n)
        second = yield from squares(n - 1)
        return first + second

    def run(n: int) -> Generator[object, None, None]:
        result = yield from outer(n)
        yield result

    return list(run(3)), seed


@piece
def coroutines(seed: int) -> object:
    class Awaitable:
        def __await__(self) -> Generator[int, None, int]:
            yield 1
            return seed

    async def numbers(n: int) -> object:
        for i in range(n):
            yield i

    async def work() -> object:
        total = 0
        async for i in numbers(3):  # type: ignore[attr-defined]
            total += i + await Awaitable()
        return total

    coroutine, steps = work(), 0
    try:
        while True:
            coroutine.send(None)
            steps += 1
    except StopIteration as end:
        return steps, end.value


@piece
def sort_keys(seed: int) -> object:
    values = [(i * 7919 + seed) % 17 for i in range(8)]
    return sorted(values, key=lambda v: -v * 2), sorted(values, key=functools.cmp_to_key(lambda a, b: a - b))


@piece
def comparisons(seed: int) -> object:
    keys = [Key((i * 31 + seed) % 11) for i in range(7)]
    keys.sort()
    return [key.value for key in keys], len({Key(i % 4) for i in range(8)}), max(keys).value, Key(1) in keys


DIGITS = re.compile(r"\d+")  # here, as compiling it is Python code too and would be counted the first time


@piece
def callbacks_of_re_sub(seed: int) -> object:
    return DIGITS.sub(lambda match: str(int(match.group()) * 2 + seed), "a1b22c333d4")


@piece
def callbacks_from_c(seed: int) -> object:
    def double(value: int) -> int:
        return value * 2 + seed

    return (
        list(map(double, range(4))),
        functools.reduce(lambda a, b: (a * 7 + b) % 97, range(6)),
        [key for key, _ in itertools.groupby(range(6), lambda v: v // 3)],
        json.dumps([seed, None], default=str),
        functools.partial(double, 3)(),
    )


@piece
def with_blocks(seed: int) -> object:
    log: list[object] = []
    with Noted(log), Noted(log):
        log.append(seed)
    with Noted(log):
        raise KeyError(seed)
    with ExitStack() as stack:
        for i in range(2):
            stack.callback(log.append, i)

    @contextmanager
    def managed() -> Iterator[int]:
        log.append("enter")
        try:
            yield 1
        finally:
            log.append("exit")

    with managed() as value:
        log.append(value)
    return [getattr(entry, "__name__", entry) for entry in log]


@piece
def recursion(seed: int) -> object:
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def down(n: int) -> int:
        return 0 if n == 0 else 1 + down(n - 1)

    return fib(6), down(40), seed


@piece
def context_variables(seed: int) -> object:
    variable.set(seed)
    log = [variable.get()]
    token = variable.set(seed + 1)
    for _ in range(3):
        log.append(variable.get())
    variable.reset(token)

    def other() -> int:
        variable.set(-5)
        return variable.get()

    log.append(contextvars.copy_context().run(other))
    log.append(variable.get())
    return log


@piece
def code_made_at_run_time(seed: int) -> object:
    names: dict[str, int] = {"seed": seed}
    exec("total = 0\nfor i in range(6): total += i + seed\nclass A:\n    z = [w for w in range(3)]\n", names)
    return names["total"], names["A"].z, eval("[seed + i for i in range(3)]", names)  # type: ignore[attr-defined]


@piece
def classes(seed: int) -> object:
    class Base:
        made: list[str] = []

        def __init_subclass__(cls, **kwargs: object) -> None:
            Base.made.append(cls.__name__)

        def method(self) -> int:
            return seed

    class Derived(Base, option=1):
        def method(self) -> int:
            return super().method() + 1

    return Base.made[-1], Derived().method(), isinstance(Derived(), Base)


@piece
def special_methods(seed: int) -> object:
    lazy = Lazy(seed)
    return lazy.value, lazy.missing, list(lazy), lazy(1, 2, third=3), (lazy + 2).value, bool(lazy), lazy[2]


@piece
def finalizers(seed: int) -> object:
    log: list[int] = []
    for i in range(3):
        Dying(log, i + seed)
    held = Dying(log, 9)
    held = Dying(log, 10)
    del held
    return log


@piece
def unpacking_and_matching(seed: int) -> object:
    first, *rest = range(seed % 3 + 4)

    def kind(value: object) -> object:
        match value:
            case [x, y]:
                return "pair", x, y
            case {"k": v}:
                return "dict", v
            case str() as text if len(text) > 2:
                return "text", text
            case _:
                return "other"

    return first, rest, [kind(value) for value in ([1, 2], {"k": 3}, "long", "s", None)], {"a": 1, "b": 2}


@piece
def closures(seed: int) -> object:
    def counter() -> Callable[[], int]:
        count = seed

        def step() -> int:
            nonlocal count
            count += 1
            return count

        return step

    step = counter()
    return [step() for _ in range(4)]


def everything(seed: int) -> str:
    """All pieces one after the other, inside an exception handler."""
    try:
        raise LookupError(seed)
    except LookupError as error:
        result = repr([function(seed) for function in PIECES.values()])
        return result if sys.exc_info()[1] is error else "another exception is being handled"


def spin(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def go_on(budget: int, at: list[object] | None = None, **options: Any) -> int:
    """run() with this budget until all is done, each interrupted tasklet inserted again. How often one was interrupted;
    where is appended to `at`."""
    count = 0
    while (tasklet := roamlet.run(budget, **options)) is not None:
        count += 1
        if at is not None:
            frame = tasklet.frame
            at.append((frame.f_code.co_name, frame.f_lasti))
            del frame
        tasklet.insert()
    return count
