"""Damaged images do not crash the interpreter: see _images.py. More of them: tests/soak/test_images.py."""

import pytest

from roamlet.snapshot import BadSnapshot, _sound
from tests.snapshot import _images


@pytest.mark.parametrize("by_value", [False, True], ids=["by name", "by value"])
@pytest.mark.skipif(not _sound._KNOWN, reason="of this version the depth of the stack alone is compared")
def test_no_damaged_image_crashes(by_value):
    found = _images.outcomes(_images.image(by_value=by_value), range(150))
    assert set(found) <= {"refused", "went on", "stopped"}, found
    assert found["refused"] > 100


def loops(items):
    for item in items:
        yield [each + 1 for each in item]


@pytest.mark.skipif(not _sound._KNOWN, reason="of this version the depth of the stack alone is compared")
def test_what_a_loop_has_is_an_iterator():
    generator = loops([[1], [2]])
    next(generator)
    code, unit = generator.gi_code, generator.gi_frame.f_lasti // 2 + 1
    variables = (None,) * code.co_nlocals
    _sound.check(code, unit, 0, (*variables, iter([2])))
    with pytest.raises(ValueError, match=f"slot {len(variables)} has a list where an iterator is needed"):
        _sound.check(code, unit, 0, (*variables, [2]))


def test_code_that_jumps_out_of_itself_is_damaged():
    code = loops.__code__
    with pytest.raises(ValueError, match="the code of 'loops' is damaged"):
        _sound.check_code(code.replace(co_consts=(), co_code=b"\x09\0" * 4))
    _sound.check_code(code)
    assert issubclass(BadSnapshot, ValueError)
