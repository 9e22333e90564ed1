"""A tasklet in each state it can be saved in, and what the copy has of it: value in transit, context, atomic depth, exception."""

import contextlib
import contextvars
import decimal
import pickle
import sys

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot import _native
from roamlet.snapshot.state import Captured
from tests.snapshot._driving import end

variable = contextvars.ContextVar("variable", default=0)
log = []


@pytest.fixture(autouse=True)
def empty_log():
    log.clear()
    yield
    log.clear()


def copied(*things):
    return snapshot.loads(snapshot.dumps(things))


def note(*args, **kwargs):
    log.append((args, kwargs))


def waits_in(ch):
    note(ch.receive())


def test_one_that_has_not_begun_has_its_arguments_and_its_state():
    paused = roamlet.tasklet(note, (1,), {"k": 2})
    scheduled = roamlet.tasklet(note)(3)
    bound, dead = roamlet.tasklet(note), roamlet.tasklet(note)(4)
    roamlet.run()
    log.clear()
    scheduled.bind(note, (3,)).insert()
    copies = copied(paused, scheduled, bound, dead)
    assert [(each.alive, each.paused, each.scheduled) for each in copies] == [
        (True, True, False), (True, False, True), (False, False, False), (False, False, False)
    ]  # fmt: skip
    scheduled.remove()
    roamlet.run()
    assert log == [((3,), {})]
    copies[0].run()
    copies[2](5)
    roamlet.run()
    assert log == [((3,), {}), ((1,), {"k": 2}), ((5,), {})]


def goes_round(name, times, returns):
    for _ in range(times):
        log.append(name)
        returned = roamlet.schedule(name) if name == "a" else roamlet.schedule()
        returns.append(returned)


def test_scheduled_ones_keep_their_order_and_what_schedule_returns():
    returns = []
    tasklets = [roamlet.tasklet(goes_round)(name, 3, returns) for name in "abc"]
    roamlet.schedule()
    assert log == ["a", "b", "c"]
    copies, copied_returns = copied(tasklets, returns)
    for each in tasklets:
        each.remove()
    log.clear()
    roamlet.run()
    assert log == ["a", "b", "c"] * 2
    assert copied_returns == ["a", copies[1], copies[2]] * 3
    for each in tasklets:
        end(each)


def pauses(ch):
    returned = roamlet.schedule_remove()  # not inside the call: `log` would be an operand, and copied
    log.append(returned)
    returned = roamlet.schedule_remove("value")
    log.append(returned)


def test_its_recursion_depth_is_that_of_its_own_frames():
    tasklet = roamlet.tasklet(two_deep)(2)
    tasklet.run()
    (copy,) = copied(tasklet)
    (again,) = copied(copy)
    three = (tasklet, copy, again)
    depths = [[each.recursion_depth for each in three]]
    for _ in range(2):
        for each in three:
            each.run()
        depths.append([each.recursion_depth for each in three])
    assert all(len(set(each)) == 1 for each in depths), depths
    assert depths[0][0] == depths[1][0] + 2  # 3.11 counts one call more
    assert depths[2] == [0, 0, 0]
    assert log == ["over"] * 3


def two_deep(more):
    if more:
        two_deep(more - 1)
        if more == 2:
            roamlet.schedule_remove()
            log.append("over")
    else:
        roamlet.schedule_remove()


def test_a_paused_one_is_paused():
    tasklet = roamlet.tasklet(pauses)(None)
    tasklet.run()
    (copy,) = copied(tasklet)
    assert copy.paused and not copy.scheduled
    roamlet.run()
    assert log == []
    copy.run()
    assert log == [copy] and copy.paused
    (second,) = copied(copy)
    second.run()
    assert log == [copy, "value"]
    end(tasklet)
    end(copy)


def sends(ch, value):
    returned = ch.send(value)
    log.append(returned)


def sends_error(ch):
    returned = ch.send_exception(ValueError, "why")
    log.append(returned)


def test_those_who_send_are_saved_in_their_order_with_what_they_send():
    ch = roamlet.channel()
    senders = [roamlet.tasklet(sends)(ch, value) for value in ("first", ["second"])] + [
        roamlet.tasklet(sends_error)(ch)
    ]
    roamlet.run()
    (copy,) = copied(ch)
    assert copy.balance == 3
    assert copy.receive() == "first"
    assert copy.receive() == ["second"]
    with pytest.raises(ValueError, match="why"):
        copy.receive()
    roamlet.run()
    assert log == [None, None, None]
    assert ch.balance == 3
    for each in senders:
        each.kill()


def test_receivers_keep_their_order():
    ch = roamlet.channel()
    receivers = [roamlet.tasklet(waits_in)(ch) for _ in range(3)]
    roamlet.run()
    (copy,) = copied(ch)
    for value in "xyz":
        copy.send(value)
    assert [args for args, _ in log] == [("x",), ("y",), ("z",)]
    for each in receivers:
        each.kill()


def test_a_value_on_its_way_arrives():
    ch = roamlet.channel()
    ch.preference = 0
    tasklet = roamlet.tasklet(waits_in)(ch)
    roamlet.schedule()
    ch.send("on its way")
    assert tasklet.scheduled and not tasklet.blocked
    (copy,) = copied(tasklet)
    roamlet.run()
    assert [args for args, _ in log] == [("on its way",)] * 2
    assert not copy.alive


def test_an_exception_on_its_way_is_raised():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(catches)(ch)
    roamlet.schedule()
    tasklet.throw(KeyError, "thrown", pending=True)
    copied(tasklet)
    roamlet.run()
    assert log == ["KeyError('thrown')"] * 2


def catches(ch):
    try:
        ch.receive()
    except KeyError as error:
        log.append(repr(error))


def test_a_copy_can_be_thrown_at_and_killed():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(catches)(ch)
    roamlet.schedule()
    (first, second) = (copied(tasklet)[0], copied(tasklet)[0])
    first.throw(KeyError, 1)
    second.kill()
    assert log == ["KeyError(1)"]
    assert not first.alive and not second.alive
    tasklet.kill()


def iterates(ch):
    for value in ch:
        log.append(value)
    log.append("over")


def test_a_loop_over_a_channel_that_is_closed_after_it_was_saved_ends():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(iterates)(ch)
    roamlet.schedule()
    (copy,) = copied(ch)
    copy.send(1)
    (again,) = copied(copy)
    again.close()
    roamlet.run()
    assert log == [1, "over"]
    ch.close()
    copy.close()
    roamlet.run()
    assert log == [1, "over", "over", "over"]
    assert not tasklet.alive


def test_one_whose_loop_was_ended_before_it_was_saved_ends_too():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(iterates)(ch)
    roamlet.schedule()
    ch.close()
    copied(tasklet)
    roamlet.run()
    assert log == ["over", "over"]


def test_a_closed_channel_is_closed_and_settings_come_along():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(waits_in)(ch)
    roamlet.schedule()
    ch.preference, ch.schedule_all = 1, True
    ch.close()
    (copy,) = copied(ch)
    assert (copy.preference, copy.schedule_all, copy.closing, copy.closed) == (1, True, True, False)
    tasklet.kill()
    copy.queue.kill()


def sends_and_notes(ch, value):
    ch.send(value)
    log.append(("sent", value))


def test_a_buffer_comes_along_with_its_values_and_those_that_wait_to_send():
    ch = roamlet.channel(2)
    ch.send([1])
    ch.send_exception(KeyError, "k")
    waiting = roamlet.tasklet(sends_and_notes)(ch, 3)
    roamlet.schedule()
    ch.close()
    copy, kept = copied(ch, waiting)
    for each in (pickle.loads(pickle.dumps(ch)), copy):
        assert (each.buffer, each.buffered, each.balance, each.preference, each.closing) == (2, 2, 1, 0, True)
        assert each.receive() == [1]
        with pytest.raises(KeyError):
            each.receive()
        assert list(each) == [3]
    roamlet.run()
    assert log == [("sent", 3)] * 2
    assert (kept.alive, ch.buffered, ch.balance) == (False, 2, 1)
    ch.receive()
    with contextlib.suppress(KeyError):
        ch.receive()
    assert list(ch) == [3]
    roamlet.run()


def waits_for_two(ch):
    first, second = ch.receive(), ch.receive()
    log.append([first, second])


def test_a_tasklet_comes_along_with_the_buffer_of_the_channel_that_it_uses():
    ch = roamlet.channel(3)
    tasklet = roamlet.tasklet(waits_for_two)(ch)
    roamlet.schedule()
    ch.send(1)  # it is runnable, with this value
    ch.send(2)
    copied(tasklet)
    roamlet.run()
    assert log == [[1, 2]] * 2


def test_a_c_function_as_the_tasklets_function():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(ch.receive)()
    roamlet.schedule()
    copy, its_channel = copied(tasklet, ch)
    (again, last) = copied(copy, its_channel)
    last.send(1)
    assert not again.alive
    tasklet.kill()
    copy.kill()


def reads_variable(ch):
    ch.receive()
    log.append((variable.get(), decimal.getcontext().prec))


def test_context_variables_come_along():
    ch = roamlet.channel()

    def start():
        variable.set(7)
        decimal.getcontext().prec = 11
        return roamlet.tasklet(reads_variable)(ch)

    tasklet = contextvars.copy_context().run(start)
    roamlet.schedule()
    (copy,) = copied(ch)
    copy.send(None)
    assert log == [(7, 11)]
    assert variable.get() == 0
    tasklet.kill()


def test_a_variable_that_is_nobodys_attribute_is_left_out_and_named():
    hidden = contextvars.ContextVar("hidden")
    ch, other = roamlet.channel(), roamlet.channel()

    def start():
        hidden.set(1)
        variable.set(5)
        roamlet.tasklet(waits_in)(other)
        return roamlet.tasklet(waits_in)(ch)

    tasklet = contextvars.copy_context().run(start)
    roamlet.schedule()
    with pytest.warns(
        snapshot.LeftOut, match=r"left out of the snapshot: the context variables 'hidden', which"
    ) as told:
        data = snapshot.dumps((tasklet, ch, other))
    assert [each.filename for each in told] == [__file__]  # once, and from where dumps() was called
    with pytest.warns(snapshot.LeftOut):
        pickle.dumps(ch)
    copy, its_channel, its_other = snapshot.loads(data)
    seen = []
    copy.context_run(lambda: seen.append((hidden.get("default"), variable.get())))
    assert seen == [("default", 5)]
    for each in (ch, other, its_channel, its_other):
        each.send(None)


def test_a_variable_that_is_nobodys_attribute_is_refused_where_the_code_itself_has_it():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(lambda ch, hidden: ch.receive())(ch, contextvars.ContextVar("hidden"))
    roamlet.schedule()
    with pytest.raises(snapshot.CannotSave, match="is no module's attribute, by which it would be found again"):
        snapshot.dumps(tasklet)
    tasklet.kill()


class Slotted(roamlet.tasklet):
    __slots__ = ("__dict__", "empty", "kept")


class SlottedChannel(roamlet.channel):
    __slots__ = ("kept",)


def test_attributes_in_slots_are_kept():
    ch = SlottedChannel()
    ch.kept = Slotted(waits_in)(ch)
    ch.kept.kept, ch.kept.plain = [ch], 5
    roamlet.schedule()
    (copy,) = copied(ch)
    assert copy.kept.kept[0] is copy
    assert (copy.kept.plain, hasattr(copy.kept, "empty")) == (5, False)
    for each in (ch, copy):
        each.send(None)
        del each.kept.kept, each.kept


def atomic_levels(ch):
    with roamlet.atomic():
        with roamlet.atomic():
            ch.receive()
            log.append(roamlet.getcurrent().atomic)
        log.append(roamlet.getcurrent().atomic)
    log.append(roamlet.getcurrent().atomic)


def test_the_atomic_depth_comes_along():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(atomic_levels)(ch)
    tasklet.set_atomic(True)
    roamlet.schedule()
    tasklet.set_atomic(False)
    (copy,) = copied(ch)
    copy.send(None)
    assert log == [True, True, False]
    with roamlet.atomic():
        assert roamlet.getcurrent().atomic
    tasklet.kill()


def handles(ch):
    try:
        1 / 0
    except ZeroDivisionError:
        ch.receive()
        log.append(sys.exc_info()[1])
        try:
            raise
        except ZeroDivisionError as error:
            log.append(getattr(error, "__notes__", None))


def test_the_exception_that_is_handled_comes_along_with_its_traceback_as_text():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(handles)(ch)
    roamlet.schedule()
    (copy,) = copied(ch)
    copy.send(None)
    assert repr(log[0]) == "ZeroDivisionError('division by zero')"
    assert "Traceback before it was saved in a snapshot" in log[1][0]
    assert "1 / 0" in log[1][0]
    tasklet.kill()


class Named(roamlet.tasklet):
    """Has an attribute of its own."""


class Labelled(roamlet.channel):
    """Has an attribute of its own."""


def test_subclasses_keep_their_class_and_their_attributes():
    ch = Labelled()
    ch.label = ["label"]
    tasklet = Named(waits_in)(ch)
    tasklet.name = ch.label
    roamlet.schedule()
    copy, its_channel = copied(tasklet, ch)
    assert (type(copy), type(its_channel)) == (Named, Labelled)
    assert copy.name is its_channel.label
    copy.kill()
    tasklet.kill()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_saves_tasklets_and_channels(protocol):
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(waits_in)(ch)
    roamlet.schedule()
    copy = pickle.loads(pickle.dumps(tasklet, protocol))
    assert copy.blocked
    its_channel = pickle.loads(pickle.dumps(ch, protocol))
    its_channel.send(5)
    assert log == [((5,), {})]
    copy.kill()
    tasklet.kill()


def test_pickle_leaves_a_scheduled_tasklet_paused_as_stackless_did():
    tasklet = roamlet.tasklet(goes_round)("x", 2, [])
    roamlet.schedule()
    copy = pickle.loads(pickle.dumps(tasklet))
    assert copy.paused
    roamlet.run()
    copy.insert()
    roamlet.run()
    assert log == ["x"] * 3


def counts(limit, out):
    n = 0
    while n < limit:
        n += 1
    out.append(n)


def test_a_preempted_one_goes_on_between_its_instructions():
    out = []
    tasklet = roamlet.tasklet(counts)(1000, out)
    copies = []
    while tasklet.alive:
        roamlet.run(7)
        if tasklet.alive and len(copies) < 40:
            copies.append(copied(tasklet, out))
            copies.append(copied(*copies[-1]))
        if tasklet.alive:
            tasklet.insert()
    assert out == [1000]
    assert len(copies) == 40
    for copy, its_out in copies:
        assert copy.paused
        copy.insert()
        while copy.alive:
            roamlet.run(11)
            if copy.alive:
                copy.insert()
        assert its_out == [1000]


def test_a_preempted_one_can_be_thrown_at():
    out = []
    tasklet = roamlet.tasklet(guarded)(out)
    roamlet.run(50)
    (copy, its_out) = copied(tasklet, out)
    tasklet.kill()
    copy.throw(KeyError, "now")
    assert its_out == ["KeyError('now')"]


def guarded(out):
    n = 0
    try:
        while True:
            n += 1
    except KeyError as error:
        out.append(repr(error))


forever = 0


def without_variables():
    global forever
    while forever >= 0:
        forever += 1


def test_one_interrupted_with_nothing_in_its_frame_is_refused_and_saved_a_little_later():
    tasklet = roamlet.tasklet(without_variables)()
    said = []
    for budget in range(1, 30):
        tasklet.insert()
        roamlet.run(budget)
        try:
            copy = copied(tasklet)[0]
        except snapshot.CannotSave as error:
            said.append(str(error))
        else:
            said.append("saved")
            copy.kill()
    assert "saved" in said
    refused = [each for each in said if each != "saved"]
    assert refused and all("has neither a variable nor an operand. Let it run on" in each for each in refused)
    tasklet.kill()


class Asking:
    def __init__(self, ch):
        self.ch = ch

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return self.ch.receive()


def left_by_an_error(ch, out):
    with contextlib.suppress(KeyError), Asking(ch), Asking(ch):
        raise KeyError(1)
    out.append("after it")


def numbers_of(tasklet):
    """(number of the slot, value) of the instructions that the handlers of its frames keep."""
    found = []
    for _, _, _, nulls, slots in Captured._make(_native.capture(tasklet, {}, lambda function: function)).records:
        if sys.version_info >= (3, 14):
            found.append([(~mark, slots[~mark]) for mark in nulls if mark < 0] if isinstance(nulls, tuple) else [])
        else:
            found.append([(number, slot) for number, slot in enumerate(slots) if type(slot) is int])
    return found


def test_where_an_error_was_raised_that_a_handler_may_raise_again_is_kept():
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(left_by_an_error)(ch, out)
    roamlet.schedule()
    for answer in (False, True):
        numbers = numbers_of(tasklet)
        assert [len(each) for each in numbers] == [1, 0]
        assert numbers[0][0][1] > 0
        copy, its_channel, its_out = copied(tasklet, ch, out)
        assert numbers_of(copy) == numbers
        while copy.alive:
            its_channel.send(True)
        assert its_out == ["after it"]
        ch.send(answer)
    assert (out, tasklet.alive) == (["after it"], False)
