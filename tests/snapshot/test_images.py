"""Damaged images do not crash the interpreter: see _images.py. More of them: tests/soak/test_images.py."""

import dis
import marshal
import sys

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot import _native
from roamlet.snapshot.loading import load
from roamlet.snapshot.references.code import digest_of, resolve
from tests.snapshot import _images


@pytest.mark.parametrize("by_value", [False, True], ids=["by name", "by value"])
def test_no_damaged_image_crashes(by_value):
    found = _images.outcomes(_images.image(by_value=by_value), range(150))
    assert set(found) <= {"refused", "went on", "stopped"}, found
    assert found["refused"] > 100


def test_no_changed_frame_crashes():
    found = _images.outcomes(_images.image(by_value=False), range(300), of_frames=True)
    assert set(found) <= {"refused", "went on", "stopped"}, found
    assert found["refused"] > 100
    assert found["went on"] > 10


def loops(items):
    for item in items:
        yield [each + 1 for each in item]


def waits_in_a_call(ch, items):
    for item in items:
        try:
            with ch:
                item(ch.receive(), key=[1, *items])
        except ValueError as error:
            error.add_note("caught")
            ch.receive()


def delegates(items):
    received = yield from items
    return received


HAS_INDEX = sys.version_info >= (3, 15)  # above the iterator of a loop, which is empty there
KEEPS_NEXT = "CALL_KW" in dis.opmap  # from 3.13 on a frame keeps the instruction that it executes


def content_of(generator):
    """What is saved of a generator: state, unit, offset, nulls, slots, what it handles."""
    state, _, *content = _native.generator_get(generator)
    return [state, *content]


def refusal(make, content):
    fresh = make()
    try:
        _native.generator_set(fresh, *content)
    except ValueError as error:
        return str(error)
    return None


def test_a_generator_is_what_it_has_in_its_slots():
    generator = loops(iter([[1], [2]]))
    next(generator)
    state, unit, offset, nulls, slots, handled = content_of(generator)
    at = len(slots) - 1 - HAS_INDEX
    assert refusal(lambda: loops([]), (state, unit, offset, nulls, slots, handled)) is None
    message = (
        f"slot {at + 1} has nothing where the number of an item"
        if HAS_INDEX
        else f"slot {at} has a list where an iterator is needed"
    )
    wrong = (*slots[:at], [2], *slots[at + 1 :])
    assert message in refusal(lambda: loops([]), (state, unit, offset, nulls, wrong, handled))
    empty = nulls | 1 << at
    assert "has nothing where an iterator" in refusal(lambda: loops([]), (state, unit, offset, empty, slots, handled))
    assert "does not fit" in refusal(lambda: loops([]), (state, unit, offset, nulls, (*slots, slots[at]), handled))
    assert "does not fit" in refusal(lambda: loops([]), (state, unit, offset, nulls, slots, "no exception"))


@pytest.mark.parametrize(
    "make", [lambda: loops([[1], [2]]), lambda: delegates(iter([1, 2]))], ids=["loops", "delegates"]
)
def test_a_generator_is_where_one_can_be(make):
    """Fresh, or behind a yield, in the state that belongs there: nowhere else."""
    fresh, begun = make(), make()
    next(begun)
    states = {content_of(fresh)[0], content_of(begun)[0], -3, -2, -1}
    right = [content_of(each)[:2] for each in (fresh, begun)]
    for each in (fresh, begun):
        _, _, offset, nulls, slots, handled = content_of(each)
        taken = [
            [state, unit]
            for state in sorted(states)
            for unit in range(-1, len(each.gi_code.co_code) // 2 + 1)
            if refusal(make, (state, unit, offset, nulls, slots, handled)) is None
        ]
        assert taken
        assert [place for place in taken if place not in right] == []


def places(code):
    """(own unit, unit after the caches, name) of each instruction."""
    found = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    ends = [each.offset for each in found[1:]] + [len(code.co_code)]
    return [(each.offset // 2, end // 2, each.opname) for each, end in zip(found, ends, strict=True)]


LOOP = (iter([1]), None)[: 1 + HAS_INDEX]
LOOP_NULLS = HAS_INDEX << waits_in_a_call.__code__.co_nlocals + 1


def test_a_frame_is_within_an_instruction_and_goes_on_where_that_ends():
    """Not in the middle of one: the interpreter would execute its caches."""
    code = waits_in_a_call.__code__
    within = {
        (own, end - own) if KEEPS_NEXT else (end - 1, 0) for own, end, name in places(code) if name.startswith("CALL")
    }
    taken = set()
    for unit in range(len(code.co_code) // 2):
        for offset in range(7):
            for more in ((), (len,), (len, 1)):
                slots = (*(None,) * code.co_nlocals, *LOOP, *more)
                try:
                    _native.check([], [(waits_in_a_call, unit, offset, LOOP_NULLS, slots)], None, -1, -1, None, None)
                except ValueError:
                    continue
                taken.add((unit, offset))
    ends = {end: own for own, end, _ in places(code)}
    assert taken & within
    for unit, offset in taken:
        goes_on = unit + offset if KEEPS_NEXT else unit + 1 + offset
        assert goes_on in ends, (unit, offset)
        assert not KEEPS_NEXT or ends[goes_on] == unit, (unit, offset)


def test_what_a_handler_has_is_an_exception():
    code = waits_in_a_call.__code__
    ends = [(own, end) for own, end, name in places(code) if name == "CALL"]
    own, end = ends[-1]  # receive() in the handler
    at, offset = (own, end - own) if KEEPS_NEXT else (end - 1, 0)
    error = ValueError()

    def check(*operands, error=error):
        variables = [None, None, None, error]
        slots = (*variables, *LOOP, *operands)
        _native.check([], [(waits_in_a_call, at, offset, LOOP_NULLS, slots)], None, -1, -1, None, None)

    check(None)
    check(KeyError())
    for before in (7, KeyError):
        with pytest.raises(ValueError, match=rf"slot {5 + HAS_INDEX} has an? \w+ where an exception or None is needed"):
            check(before)
    with pytest.raises(ValueError, match="handles what is no exception"):
        _native.check([], [], 7, -1, -1, None, None)


@pytest.mark.pythons((3, 12), (3, 99), reason="before, a variable without a value is noticed where it is read")
def test_a_variable_that_has_a_value_wherever_it_is_read_has_one():
    generator = loops([[1]])
    next(generator)
    state, unit, gap, _, slots, handled = content_of(generator)
    with pytest.raises(ValueError, match="slot 0 has nothing where something is needed"):
        _native.generator_set(loops([]), state, unit, gap, 1, slots, handled)


def shares(generator, ch):
    for each in generator:
        ch.send(each)


def asks(ch):
    yield ch.receive()


@pytest.mark.pythons((3, 12), (3, 99), reason="before, a generator cannot block in a chain of frames")
def test_a_generator_runs_in_one_frame_of_one_tasklet(monkeypatch):
    ch = roamlet.channel()
    generator = asks(ch)
    tasklet = roamlet.tasklet(shares)(generator, ch)
    tasklet.run()
    data = snapshot.dumps((ch, tasklet))
    tasklet.kill()
    made = []

    def twice(self, records, *rest):
        made.append(ticket(self, records, *rest))
        return ticket(self, records, *rest)

    ticket = load.Loader.ticket
    monkeypatch.setattr(load.Loader, "ticket", twice)
    with pytest.raises(snapshot.BadSnapshot, match="two frames are of one generator"):
        snapshot.loads(data)
    assert made


def appends(items, ch):
    list.append(items, ch.receive())
    return items


@pytest.mark.pythons((3, 13), (3, 13), reason="of 3.13, where a call that has been specialised trusts it")
def test_the_method_append_without_its_list_is_refused():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(appends)([], ch)
    tasklet.run()
    data = snapshot.dumps((ch, tasklet))
    tasklet.kill()
    with pytest.raises(snapshot.BadSnapshot, match="has nothing where the object whose method is called is needed"):
        snapshot.loads(data)


def test_code_that_jumps_out_of_itself_is_damaged():
    code = loops.__code__
    with pytest.raises(ValueError, match="the code of 'loops' is damaged"):
        load._check_code(code.replace(co_consts=(), co_code=b"\x09\0" * 4))
    load._check_code(code.replace())  # as it was made: code that has run is specialised
    assert issubclass(snapshot.BadSnapshot, ValueError)


def test_of_code_that_was_found_sound_a_bounded_number_of_digests_is_kept(monkeypatch):
    checked = []
    monkeypatch.setattr(load, "_check_code", checked.append)
    monkeypatch.setattr(load, "_found_sound", set())
    monkeypatch.setattr(load, "_MOST_FOUND", 3)
    images = [marshal.dumps(loops.__code__.replace(co_name=f"number{number}")) for number in range(5)]
    for image in images:
        for _ in range(2):
            load.code(image, digest_of(image))
    assert [each.co_name for each in checked] == [f"number{number}" for number in range(5)]
    assert len(load._found_sound) == 2


def test_a_function_is_named_by_texts():
    """A tuple that contains itself, as damaged bytes can make one, ends the process where it is looked up."""
    for where, name in (((1,), "loads"), (snapshot.__name__, ("loads",))):
        with pytest.raises(snapshot.BadSnapshot, match="it names a function by what is no text"):
            resolve((where, name, (), (0, 1)), b"")


@pytest.mark.pythons((3, 11), (3, 11), reason="behind, comprehensions have no functions")
def test_the_function_of_a_comprehension_is_not_called_again():
    """It takes an iterator, and crashes with anything else. Damaged bytes make pickle, which is in C, call it."""
    code = compile("[each for each in ()]", "somewhere", "eval").co_consts[0]
    function = load.new_function(code, __name__, "<listcomp>", None)
    with pytest.raises(ValueError, match="<listcomp>, which only the function around it may"):
        list(map(function, [5]))
