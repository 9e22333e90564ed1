# ruff: noqa: F841, PLC3002, PLE0704, RET503, RUF015, RUF018
# The constructs are the point here, not the shortest way to what they compute.
"""Ways to be suspended in a loop, a generator, a block, or in what drops a value."""

from tests.core._form import Token, form, swallows


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
