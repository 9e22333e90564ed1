"""Programs as in programs.py, with coroutines and async generators: held in variables, and in the chain that waits."""

import sys
import types


@types.coroutine
def pausing(value):
    got = yield value
    return got


async def adds(first):
    second = await pausing(first)
    return first + await adds_one(second)


async def adds_one(second):
    try:
        return 1 + await pausing(second)
    except KeyError as error:
        return repr(error)


def sent(coroutine, value):
    """What it waits with next, or has returned."""
    try:
        return coroutine.send(value)
    except StopIteration as error:
        return ("returned", error.value)


def coroutine_in_a_variable(ch):
    coroutine = adds(3)
    out = [sent(coroutine, None), ch.receive()]
    out.append(sent(coroutine, 4))
    out.append(ch.receive())
    out.append(sent(coroutine, 5))
    ch.receive()
    return out, coroutine.cr_frame


def coroutine_s_awaited_in_a_variable(ch):
    awaited = adds(3).__await__()
    out = [sent(awaited, None), ch.receive(), sent(awaited, 4), ch.receive(), sent(awaited, 5)]
    return [*out, type(awaited).__name__]


async def echoes(n):
    log = []
    try:
        for i in range(n):
            got = yield i, list(log)
            log.append(got)
    finally:
        log.append("finally")


def next_of(generator, value=None):
    """Its next value, when it gets there without waiting."""
    try:
        generator.asend(value).send(None)
    except StopIteration as error:
        return error.value
    except StopAsyncIteration:
        return "over"


def async_generator_in_a_variable(ch):
    generator = echoes(3)
    out = [ch.receive(), next_of(generator)]
    out.append(ch.receive())
    for value in "abcd":
        out.append(next_of(generator, value))
        out.append(ch.receive())
    return [*out, next_of(generator)]


def async_generator_that_is_closed(ch):
    generator = echoes(3)
    out = [next_of(generator), ch.receive()]
    try:
        generator.aclose().send(None)
    except StopIteration:
        out.append("closed")
    out.append(ch.receive())
    return [*out, next_of(generator), generator.ag_frame]


# ---- in the chain: not on 3.11 ----


@types.coroutine
def driven(coroutine):
    return (yield from coroutine)


class Asynchronous:
    """A manager and an iterable whose methods block."""

    def __init__(self, ch, log):
        self.ch = ch
        self.log = log

    async def __aenter__(self):
        self.log.append(("enter", self.ch.receive()))
        return self

    async def __aexit__(self, kind, value, traceback):
        self.log.append(("exit", kind and kind.__name__, self.ch.receive()))
        return True

    def __aiter__(self):
        return self

    async def __anext__(self):
        value = self.ch.receive()
        if value % 4 == 0:
            raise StopAsyncIteration
        return value


def awaits_under_a_loop(ch):
    log = []
    for value in driven(waits_and_pauses(ch, log)):
        log.append(value)
    return log


async def waits_and_pauses(ch, log):
    for number in range(2):
        log.append(ch.receive())
        await pausing(number)
    async with Asynchronous(ch, log):
        log.append(ch.receive())
        raise KeyError("in it")
    async for value in Asynchronous(ch, log):
        log.append(value)


IN_VARIABLES = [
    coroutine_in_a_variable, coroutine_s_awaited_in_a_variable, async_generator_in_a_variable, async_generator_that_is_closed,
]  # fmt: skip
PROGRAMS = [*IN_VARIABLES, *([awaits_under_a_loop] if sys.version_info >= (3, 12) else [])]
