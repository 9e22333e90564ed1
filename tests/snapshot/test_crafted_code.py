"""Code that no compiler has made is refused, and the check of it harms no memory: the interpreter trusts its instructions."""

import dis
from types import CodeType

import pytest

from roamlet.snapshot import _native

OPCODES = dis.opmap
PLAIN = (("NOP", 0), ("LOAD_CONST", 0), ("RETURN_VALUE", 0))


def plain() -> None: ...


def adds(first: int, second: int) -> bool:
    return len([first, second]) + first < second


def calls_with_keywords(function, value):
    return function(value, key=value)


def waits(ch):
    value = yield ch
    return value


def code(*instructions: tuple[str, int], table: bytes = b"", depth: int = 2) -> CodeType:
    content = b"".join(bytes((OPCODES[name], number)) for name, number in instructions)
    return plain.__code__.replace(
        co_consts=(None,), co_names=(), co_code=content, co_stacksize=depth, co_exceptiontable=table
    )


def changed(body: CodeType, name: str, number: int, skip: int = 0, opcode: str | None = None) -> CodeType:
    """With another number, or other code, in the first instruction of this name, or that many units after it."""
    content = bytearray(body.co_code)
    at = next(each.offset for each in dis.get_instructions(body) if each.opname == name) + 2 * skip
    content[at + 1] = number
    if opcode is not None:
        content[at] = OPCODES[opcode]
    return body.replace(co_code=bytes(content))


def specialised() -> CodeType:
    for _ in range(100):
        adds(1, 2)
    body = adds.__code__
    assert body._co_code_adaptive != body.co_code
    return body.replace(co_code=body._co_code_adaptive)


def extended(*numbers: int) -> tuple[tuple[str, int], ...]:
    return tuple(("EXTENDED_ARG", number) for number in numbers)


HANDLER = (("PUSH_EXC_INFO", 0), ("LOAD_CONST", 0), ("RETURN_VALUE", 0))  # at unit 3
CRAFTED = {
    "a negative variable is read": lambda: code(PLAIN[0], *extended(0x80, 0, 0), ("LOAD_FAST", 0), PLAIN[2]),
    "a negative variable is written": lambda: code(*PLAIN[:2], *extended(255, 255, 255), ("STORE_FAST", 0), *PLAIN[1:]),
    "a table begins before the code": lambda: code(*PLAIN, table=bytes([0xC2, *[0x40] * 4, 0, 1, 1, 0])),
    "a handler is before the code": lambda: code(*PLAIN, table=bytes([0x80, 3, 0x42, *[0x40] * 4, 0, 0])),
    "a table ends in an entry": lambda: code(*PLAIN, *HANDLER, table=bytes([0x80, 3, 3])),
    "entries of a table overlap": lambda: code(*PLAIN, *HANDLER, table=bytes([0x80, 3, 3, 0] * 2)),
    "entries of a table are not in order": lambda: code(*PLAIN, *HANDLER, table=bytes([0x82, 1, 3, 0, 0x80, 1, 3, 0])),
    "an entry of a table is not marked": lambda: code(*PLAIN, *HANDLER, table=bytes([0, 3, 3, 0])),
    "a table divides an instruction": lambda: code(
        PLAIN[0], *extended(0), *PLAIN[1:], *HANDLER, table=bytes([0x82, 2, 4, 0])
    ),
    "the stack is larger than a compiler's": lambda: code(*PLAIN, depth=1 << 30),
    "nothing is returned": lambda: code(PLAIN[0], PLAIN[2]),
    "nothing is raised": lambda: code(PLAIN[0], ("RAISE_VARARGS", 1)),
    "a name is not there": lambda: code(PLAIN[0], ("LOAD_NAME", 200), PLAIN[2]),
    "an operator is not there": lambda: changed(adds.__code__, "BINARY_OP", 200),
    "a comparison is not there": lambda: changed(adds.__code__, "COMPARE_OP", 252),
    "a cache is executed": lambda: code(*PLAIN[:2], ("CACHE", 0), PLAIN[2]),
    "it is specialised": specialised,
    "a yield is in no generator": lambda: waits.__code__.replace(co_flags=plain.__code__.co_flags),
    "no generator is made": lambda: changed(waits.__code__, "RETURN_GENERATOR", 0, opcode="NOP"),
}
# Since 3.12 the interpreter itself fills the first cache of an instruction when it makes the code.
IN_CACHES = {
    "a cache has content": lambda: changed(adds.__code__, "BINARY_OP", 7, skip=1),
    "an instruction is in a cache": lambda: changed(adds.__code__, "BINARY_OP", 7, skip=1, opcode="NOP"),
}


@pytest.mark.pythons((3, 11), (3, 11), reason="later versions write over what was in a cache")
@pytest.mark.parametrize("make", IN_CACHES.values(), ids=IN_CACHES.keys())
def test_what_is_in_caches_is_not_sound(make):
    assert not _native.is_sound(make())


@pytest.mark.parametrize("make", CRAFTED.values(), ids=CRAFTED.keys())
def test_crafted_code_is_not_sound(make):
    assert not _native.is_sound(make())


def test_what_the_cases_are_made_of_is_sound():
    for body in (code(*PLAIN), code(*PLAIN, *HANDLER, table=bytes([0x80, 3, 3, 0])), waits.__code__.replace()):
        assert _native.is_sound(body)
    for function in (adds, calls_with_keywords):
        assert _native.is_sound(function.__code__.replace())


@pytest.mark.pythons((3, 11), (3, 12), reason="after that, the names are an operand")
def test_the_names_of_keywords_are_names_of_arguments():
    body = calls_with_keywords.__code__
    number = body.co_consts.index(("key",))
    for names in ((), ("key", 1), ("key", "more", "most"), 5, None):
        consts = list(body.co_consts)
        consts[number] = names
        assert _native.is_sound(body.replace(co_consts=tuple(consts))) == (names == ())
    assert not _native.is_sound(changed(body, "KW_NAMES", 200))


def annotates():
    def made(first: 1): ...

    return made


@pytest.mark.pythons((3, 11), (3, 13), reason="after that, annotations are a function")
def test_annotations_are_pairs():
    body = annotates.__code__
    unit = next(each.offset // 2 for each in dis.get_instructions(body) if each.opname == "MAKE_FUNCTION")
    inner = next(each for each in body.co_consts if isinstance(each, CodeType))

    def check(annotations):
        _native.check([], [(annotates, unit, 0, 1, (None, annotations, inner))], None, unit, -1, None, None)

    check(("first", 1))
    with pytest.raises(ValueError, match="slot 1 has a tuple where a constant of the code is needed"):
        check(("first",))


@pytest.mark.parametrize("unit", [-(1 << 63), (1 << 63) - 1, -2])
def test_a_frame_is_nowhere_outside_of_its_code(unit):
    with pytest.raises(ValueError, match="does not fit its code"):
        _native.check([], [(plain, unit, 1, 0, ())], None, -1, -1, None, None)
    with pytest.raises(ValueError, match="does not fit its code"):
        _native.generator_set(waits(None), -1, unit, 0, 0, (None,), None)
