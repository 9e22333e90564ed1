"""What can be set on a tasklet and read of it, but for tempval: traps, its thread, its context, its trace functions."""

import contextvars
import sys
import threading

import pytest

import roamlet
from roamlet import core
from tests.core._objects import nothing
from tests.core._threads import in_thread

native = pytest.mark.parametrize("native", [core.backend != "greenlet"])


# ---- block_trap ----


def test_a_block_trap_turns_blocking_calls_into_errors_and_nothing_else():
    channel, log = roamlet.channel(), []

    def function():
        me = roamlet.getcurrent()
        assert me.block_trap is False
        me.block_trap = True
        for call in (channel.receive, lambda: channel.send(1), lambda: roamlet.sleep(0), core.Waiter().wait):
            with pytest.raises(RuntimeError, match="this tasklet does not like to be blocked"):
                call()
            assert channel.balance == 0
        roamlet.schedule()
        log.append("scheduled")
        me.block_trap = False
        log.append(channel.receive())

    roamlet.tasklet(function)()
    roamlet.run()
    channel.send("received")
    assert log == ["scheduled", "received"]


def test_a_block_trap_lets_a_meeting_happen():
    channel, log = roamlet.channel(), []
    roamlet.tasklet(lambda: log.append(channel.receive()))()
    roamlet.run()
    roamlet.getcurrent().block_trap = True
    channel.send(1)
    roamlet.getcurrent().block_trap = False
    assert log == [1]


@pytest.mark.parametrize("wrong", ["yes", None, 1.5])
def test_block_trap_takes_a_flag(wrong):
    with pytest.raises(TypeError, match="block_trap needs exactly one bool or integer"):
        roamlet.getcurrent().block_trap = wrong
    with pytest.raises(TypeError, match="block_trap needs"):
        del roamlet.getcurrent().block_trap


def test_set_ignore_nesting_returns_what_was_set_before():
    tasklet = roamlet.tasklet(nothing)
    assert tasklet.ignore_nesting is False
    assert tasklet.set_ignore_nesting(True) is False
    assert tasklet.set_ignore_nesting(0) is True
    with pytest.raises(TypeError, match="set_ignore_nesting needs"):
        tasklet.set_ignore_nesting("yes")


# ---- threads ----


def test_a_new_tasklet_can_be_given_to_another_thread():
    ready, go = threading.Event(), threading.Event()
    log = []

    def other():
        roamlet.getcurrent()
        ready.set()
        go.wait()
        roamlet.run()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    tasklet = roamlet.tasklet().bind(lambda: log.append(threading.get_ident()), ())
    tasklet.bind_thread(thread.ident)
    assert tasklet.thread_id == thread.ident
    tasklet.insert()
    go.set()
    thread.join()
    assert log == [thread.ident]


def test_a_tasklet_of_a_thread_that_has_ended_can_be_fetched():
    log = []
    tasklet = in_thread(lambda: roamlet.tasklet().bind(log.append, ("ran",)))
    with pytest.raises(RuntimeError, match="has ended"):
        tasklet.insert()
    tasklet.bind_thread()
    tasklet.insert()
    roamlet.run()
    assert log == ["ran"]


def test_binding_to_a_thread_is_refused_where_it_makes_no_sense():
    tasklet = roamlet.tasklet(roamlet.schedule_remove)()

    def elsewhere(candidate, error, message):
        with pytest.raises(error, match=message):
            candidate.bind_thread()

    in_thread(elsewhere, tasklet, RuntimeError, r"can't \(re\)bind a runnable tasklet")
    in_thread(elsewhere, roamlet.getmain(), RuntimeError, r"can't \(re\)bind a runnable tasklet")
    roamlet.run()
    in_thread(elsewhere, tasklet, RuntimeError, "tasklet has C state on its stack")
    tasklet.kill()
    for wrong, error in ((2**64 - 5, ValueError), (-7, OverflowError), (1, ValueError), ("x", TypeError)):
        with pytest.raises(error, match="thread"):
            tasklet.bind_thread(wrong)
    assert tasklet.bind_thread() is None and tasklet.bind_thread(-1) is None
    assert tasklet.thread_id == threading.get_ident()


def test_the_tasklet_on_whose_stack_a_thread_sleeps_is_not_given_away():
    """The one that ended last sleeps on behalf of all."""
    channel = roamlet.channel()
    ended = []

    def other():
        ended.append(roamlet.tasklet(nothing)())
        channel.receive()

    thread = threading.Thread(target=other)
    thread.start()
    while channel.balance == 0 or ended[0].alive:
        roamlet.schedule()
    try:
        with pytest.raises(RuntimeError, match=r"can't \(re\)bind the tasklet that ended last in its thread"):
            ended[0].bind_thread()
        with pytest.raises(RuntimeError, match=r"can't \(re\)bind the current tasklet"):
            ended[0].bind(nothing, ())
    finally:
        channel.send(None)
        thread.join()
    ended[0].bind_thread()
    ended[0].bind(nothing, ())
    ended[0].run()
    assert not ended[0].alive


def test_a_schedule_callback_cannot_give_away_the_tasklet_that_ends():
    refused = []

    def callback(previous, following):
        if not previous.alive:
            try:
                previous.bind_thread(thread.ident)
            except RuntimeError as error:
                refused.append(str(error))

    ready, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (roamlet.getcurrent(), ready.set(), go.wait()))
    thread.start()
    ready.wait()
    roamlet.tasklet(nothing)()
    roamlet.set_schedule_callback(callback)
    try:
        roamlet.run()
    finally:
        roamlet.set_schedule_callback(None)
        go.set()
        thread.join()
    assert len(refused) == 1 and "ended last" in refused[0]


def test_a_tasklet_of_another_thread_starts_in_a_copy_of_the_context_of_who_sets_it_up():
    variable = contextvars.ContextVar("variable", default="default")
    ready, go = threading.Event(), threading.Event()
    log = []

    def other():
        roamlet.getcurrent()
        ready.set()
        go.wait()
        roamlet.run()

    def creator():
        variable.set("the creator's")
        tasklet = roamlet.tasklet(lambda: log.append(variable.get()))
        tasklet.bind_thread(thread.ident)
        tasklet()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    contextvars.Context().run(creator)
    go.set()
    thread.join()
    assert log == ["the creator's"]


def test_a_thread_that_has_not_used_roamlet_gets_no_tasklets():
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    try:
        with pytest.raises(ValueError, match=r"has not used roamlet yet: call roamlet\.getcurrent\(\) in it first"):
            roamlet.tasklet(nothing).bind_thread(thread.ident)
        assert roamlet.get_thread_info(thread.ident) == (None, None, 0)
    finally:
        go.set()
        thread.join()


def test_get_thread_info_tells_of_this_thread_and_of_others():
    main = roamlet.getmain()
    assert roamlet.get_thread_info() == roamlet.get_thread_info(threading.get_ident()) == (main, main, 1)
    tasklet = roamlet.tasklet(nothing)()
    assert roamlet.get_thread_info(thread_id=None, flags=0) == (main, main, 2)
    seen = []
    tasklet.kill()
    inside = roamlet.tasklet(lambda: seen.append(roamlet.get_thread_info()))()
    inside.run()
    assert seen == [(main, inside, 2)]
    assert in_thread(roamlet.get_thread_info, threading.get_ident()) == (main, main, 1)
    with pytest.raises(RuntimeError, match="Thread id not found"):
        roamlet.get_thread_info(1)
    with pytest.raises(TypeError, match="a thread id is an int"):
        roamlet.get_thread_info("x")
    seen.clear()


def test_threads_lists_them_all_the_oldest_first():
    assert core.threads()[0] == threading.main_thread().ident
    assert in_thread(lambda: threading.get_ident() in core.threads())


def test_current_ids_tell_tasklets_apart():
    ids = {roamlet.getcurrentid(), in_thread(roamlet.getcurrentid)}
    for _ in range(3):
        roamlet.tasklet(lambda: ids.add(roamlet.getcurrentid()) or roamlet.schedule())()
    roamlet.schedule()
    assert len(ids) == 5 and roamlet.getcurrentid() == threading.get_ident()
    roamlet.run()


# ---- depth ----


def test_recursion_depth_counts_the_calls_of_each_tasklet():
    def down(depth):
        if depth:
            down(depth - 1)
        else:
            log.append(roamlet.getcurrent().recursion_depth)
            roamlet.schedule_remove()

    log = []
    tasklet = roamlet.tasklet(down)(10)
    assert tasklet.recursion_depth == 0
    roamlet.run()
    suspended = tasklet.recursion_depth
    tasklet.kill()
    assert 11 <= log[0] <= suspended <= 13  # 3.11 counts the C call that suspends it too
    assert tasklet.recursion_depth == 0
    assert roamlet.getcurrent().recursion_depth > 0


@native
def test_nesting_level_counts_c_calls_between_frames(native):
    def plain(_=None):
        seen.append(roamlet.getcurrent().nesting_level)
        roamlet.schedule_remove()
        return 0

    def inside_map():
        list(map(plain, [1]))

    def inside_two():
        sorted([1], key=lambda _: list(map(plain, [1])) and 0)

    seen = []
    expected = [0, 1, 2]
    for function, level in zip((plain, inside_map, inside_two), expected, strict=True):
        tasklet = roamlet.tasklet(function)()
        assert tasklet.nesting_level == 0 and tasklet.restorable
        roamlet.run()
        assert tasklet.nesting_level == (level if native else None)
        assert tasklet.restorable is (native and level == 0)
        assert tasklet.frame.f_code is plain.__code__  # whose links lead around the C calls
        assert tasklet.nesting_level == (level if native else None)
        tasklet.kill()
        assert tasklet.nesting_level == 0
    assert seen == (expected if native else [None] * 3)


# ---- contexts ----


def test_a_tasklet_can_be_given_a_context_before_it_starts_and_while_it_is_suspended():
    variable = contextvars.ContextVar("variable", default="none")
    contexts = [contextvars.Context() for _ in range(2)]
    for number, context in enumerate(contexts):
        context.run(variable.set, number)
    log = []

    def function():
        log.append(variable.get())
        roamlet.schedule_remove()
        log.append(variable.get())

    tasklet = roamlet.tasklet(function)()
    assert tasklet.set_context(contexts[0]) is tasklet
    roamlet.run()
    tasklet.set_context(contexts[1])
    tasklet.insert()
    roamlet.run()
    assert log == [0, 1]
    assert variable.get() == "none"


def test_the_current_tasklet_may_exchange_its_own_context():
    variable = contextvars.ContextVar("variable", default="none")
    context = contextvars.Context()
    context.run(variable.set, "other")

    def function():
        roamlet.getcurrent().set_context(context)
        return variable.get()

    log = []
    roamlet.tasklet(lambda: log.append(function()))()
    roamlet.run()
    assert log == ["other"]


def test_a_context_is_not_exchanged_under_context_run():
    def function():
        contextvars.Context().run(roamlet.schedule_remove)

    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    with pytest.raises(RuntimeError, match=r"inside Context\.run\(\), which must end first"):
        tasklet.set_context(contextvars.Context())
    tasklet.kill()
    with pytest.raises(TypeError, match=r"set_context\(\) takes a contextvars\.Context, not \{\}"):
        tasklet.set_context({})


def test_context_run_calls_with_the_variables_of_the_tasklet():
    variable = contextvars.ContextVar("variable", default="none")

    def function():
        variable.set("the tasklet's")
        roamlet.schedule_remove()
        log.append(variable.get())

    log = []
    tasklet = roamlet.tasklet(function)()
    roamlet.run()
    assert tasklet.context_run(variable.get) == "the tasklet's"
    tasklet.context_run(lambda *, value: variable.set(value), value="changed")
    assert variable.get() == "none"
    with pytest.raises(LookupError):
        tasklet.context_run({}.__getitem__, 1)
    assert variable.get() == "none"
    tasklet.insert()
    roamlet.run()
    assert log == ["changed"]
    with pytest.raises(TypeError, match=r"context_run\(\) takes a callable"):
        tasklet.context_run()


def test_context_run_of_a_tasklet_without_a_context_makes_it_one():
    variable = contextvars.ContextVar("variable", default="none")

    def work():
        tasklet = roamlet.tasklet(lambda: log.append(variable.get()))()
        tasklet.context_run(variable.set, "set before it starts")
        roamlet.run()

    log = []
    in_thread(work)
    assert log == ["set before it starts"]


def test_context_run_may_switch():
    variable = contextvars.ContextVar("variable", default="none")
    tasklet = roamlet.tasklet(lambda: variable.set("the tasklet's") and roamlet.schedule_remove())()
    roamlet.run()
    seen = []
    roamlet.tasklet(lambda: seen.append(variable.get()))()

    def switches():
        roamlet.schedule()
        return variable.get()

    assert tasklet.context_run(switches) == "the tasklet's"
    assert seen == ["none"] and variable.get() == "none"
    tasklet.kill()


# ---- trace functions ----


def test_a_tasklet_follows_its_threads_trace_function_until_it_is_given_its_own():
    lines = []

    def own(frame, event, argument):
        if frame.f_code.co_name == "traced":
            lines.append(event)
        return own

    def traced():
        return 1

    def function():
        roamlet.schedule()
        traced()
        roamlet.schedule()
        traced()

    before = sys.gettrace()
    tasklet, other = roamlet.tasklet(function)(), roamlet.tasklet(function)()
    assert tasklet.trace_function is before
    tasklet.trace_function = own
    assert tasklet.trace_function is own and sys.gettrace() is before
    roamlet.schedule()
    assert sys.gettrace() is before and other.trace_function is before
    roamlet.run()
    assert lines.count("call") == 2 and lines.count("return") == 2
    assert sys.gettrace() is before


def test_a_tasklet_traced_on_its_own_while_it_runs_and_no_longer():
    seen = []

    def own(frame, event, argument):
        return None

    def function():
        me = roamlet.getcurrent()
        me.trace_function = own
        seen.append(sys.gettrace())
        roamlet.schedule()
        seen.append(sys.gettrace())
        del me.trace_function
        seen.append(sys.gettrace())
        roamlet.schedule()
        seen.append(sys.gettrace())

    before = sys.gettrace()
    roamlet.tasklet(function)()
    roamlet.tasklet(lambda: seen.append(sys.gettrace()))()
    roamlet.run()
    assert seen == [own, before, own, before, before]


def test_a_profile_function_of_its_own():
    calls = []

    def profile(frame, event, argument):
        calls.append(event)

    tasklet = roamlet.tasklet(lambda: [nothing(), roamlet.schedule(), nothing()])()
    tasklet.profile_function = profile
    assert tasklet.profile_function is profile and roamlet.getcurrent().profile_function is sys.getprofile()
    roamlet.run()
    assert calls.count("call") >= 2 and sys.getprofile() is None


def test_settrace_inside_a_tasklet_with_its_own_stays_its_own():
    def first(*_):
        return None

    def second(*_):
        return None

    def function():
        sys.settrace(second)
        roamlet.schedule_remove()

    before = sys.gettrace()
    tasklet = roamlet.tasklet(function)()
    tasklet.trace_function = first
    roamlet.run()
    assert tasklet.trace_function is second and sys.gettrace() is before
    tasklet.kill()
    assert sys.gettrace() is before


def test_trace_functions_of_the_wrong_kind_or_tasklet_are_refused():
    tasklet = roamlet.tasklet(nothing)
    with pytest.raises(TypeError, match="a trace function is a callable or None, not 1"):
        tasklet.trace_function = 1
    with pytest.raises(RuntimeError, match="tasklet is not alive"):
        tasklet.profile_function = print
    main = roamlet.getcurrent()

    def elsewhere():
        with pytest.raises(RuntimeError, match="of the current tasklet of another thread"):
            main.trace_function = print

    in_thread(elsewhere)
