"""A process as text: equal rows are counted, narrow terminals are kept to, nothing in a name reaches the terminal."""

import pytest

from roamlet.diagnose import render
from roamlet.diagnose.model import (
    BLOCKED,
    LOCK,
    NEW,
    READ,
    RECEIVE,
    RUNNING,
    TIMER,
    Cycle,
    Frame,
    Process,
    Scheduler,
    Step,
    Tasklet,
    Thread,
    Wait,
    Waker,
)

WORK = (Frame("worker", "/srv/app/a/long/way/down/server.py", 34), Frame("serve", "/srv/server.py", 90))


def process(*tasklets, **fields):
    main = Tasklet(0x1000, "main", RUNNING, main=True, frames=(Frame("serve", "/srv/server.py", 12),))
    scheduler = Scheduler([main, *tasklets], current=0x1000, runnable=1)
    return Process(7, "python server.py", threads=[Thread(0x99, "MainThread", 7, scheduler=scheduler)], **fields)


def workers(count, channels=1):
    return [
        Tasklet(
            0x2000 + n, "worker", BLOCKED, wait=Wait(RECEIVE, address=0x50 + n % channels, since=float(n)), frames=WORK
        )
        for n in range(count)
    ]


def test_equal_tasklets_are_one_row_with_a_count():
    text = render.table(process(*workers(1000)))
    rows = [line for line in text.splitlines() if "worker" in line]
    assert len(rows) == 1
    assert rows[0].split() == [
        *("0x2000", "1,000", "worker", "blocked", "16.6", "min", "receive", "on", "channel", "0x50"),
        *("worker()", "at", "/srv/app/a/long/way/down/server.py:34"),
    ]
    assert len([line for line in render.table(process(*workers(50)), each=True).splitlines() if "worker" in line]) == 50


def test_where_a_tasklet_is_is_said_in_the_program_and_not_in_roamlet():
    folder = "/usr/lib/python3/roamlet/"
    own = Frame("join", folder + "sync/_spawn.py", 7)
    joins = Tasklet(0x2000, "joins", BLOCKED, wait=Wait(TIMER), frames=(own, *WORK))
    begins = Tasklet(0x3000, "begins", BLOCKED, wait=Wait(TIMER), frames=(own,))
    looked = process(joins, begins, folder=folder)
    for text in (render.table(looked), render.tree(looked)):
        (inner,) = (line for line in text.splitlines() if "joins" in line)
        (outer,) = (line for line in text.splitlines() if "begins" in line)
        assert inner.endswith("worker() at /srv/app/a/long/way/down/server.py:34")
        assert outer.endswith("join() at /usr/lib/python3/roamlet/sync/_spawn.py:7")  # there is nothing else
    assert render.stacks(looked).count("    join  /usr/lib/python3/roamlet/sync/_spawn.py:7\n") == 2


def test_tasklets_at_different_channels_are_counted_with_their_channels():
    text = render.table(process(*workers(100, channels=10)))
    assert "receive on channel (10 of them)" in text


def test_locks_of_several_holders_are_not_said_to_have_one():
    waiting = [
        Tasklet(0x2000 + n, "worker", BLOCKED, wait=Wait(LOCK, "sync.Lock", 0x50 + n, owner=0x3000 + n), frames=WORK)
        for n in range(3)
    ]
    assert "sync.Lock (3 of them), held by 3 tasklets" in render.stacks(process(*waiting))
    assert "sync.Lock 0x51, held by 0x3001" in render.table(process(*waiting))


@pytest.mark.parametrize("width", [1, 40, 60, 80, 132])
def test_no_row_and_no_branch_is_wider_than_the_terminal(width):
    found = process(
        *workers(3, channels=3), Tasklet(0x3000, "n" * 200, BLOCKED, wait=Wait(READ, descriptor=3), frames=WORK)
    )
    for text in (render.table(found, width=width), render.tree(found, width=width)):
        assert max(map(len, text.splitlines()[1:])) <= max(width, render.NARROWEST)
        if width >= 80:
            assert "server.py:34" in text


def test_a_narrow_terminal_has_waits_and_places_below_their_rows():
    text = render.table(process(*workers(3)), width=60)
    assert "WAITS FOR" not in text and " AT" not in text
    row = next(n for n, line in enumerate(text.splitlines()) if "worker" in line)
    assert [line.strip() for line in text.splitlines()[row + 1 : row + 3]] == [
        "waits for receive on channel 0x50",
        f"in {render.place(WORK[0])}",
    ]


def test_a_narrow_terminal_keeps_what_a_thread_does():
    found = process(*workers(3))
    found.threads[0].native_id, found.threads[0].state = 4711, "sleeping"
    for text in (render.table(found, width=50), render.tree(found, width=50)):
        assert "thread MainThread (4711): sleeping, " in text
    assert f"{found.threads[0].id:#x}" in render.table(found, width=200)


def test_the_tree_has_children_below_the_owner_of_their_scope():
    parent = Tasklet(0x3000, "parent", BLOCKED, wait=Wait("join"), frames=WORK)
    children = workers(2)
    for child in children:
        child.parent = 0x3000
    lines = render.tree(process(*children, parent)).splitlines()
    at = next(n for n, line in enumerate(lines) if "parent" in line)
    assert lines[at].startswith("   └─ parent (0x3000)")
    assert lines[at + 1].startswith(
        "      └─ 2 × worker (0x2000): blocked for 1.0 s, receive on channel 0x50 in worker()"
    )


def test_parents_in_a_circle_and_deep_ones_are_shown():
    one, two = workers(2)
    one.parent, two.parent = two.id, one.id
    assert render.tree(process(one, two)).count("worker (0x200") == 2
    deep = workers(3000)
    for child, parent in zip(deep[1:], deep, strict=False):
        child.parent = parent.id
    assert render.tree(process(*deep), each=True).count("worker (0x") == 3000


def test_stacks_are_counted_and_have_the_innermost_call_first():
    text = render.stacks(process(*workers(7)))
    assert "7 × worker: blocked for 6.0 s, receive on channel 0x50\n" in text
    assert "  tasklets 0x2000, 0x2001, 0x2002, 0x2003, 0x2004 and 2 more\n" in text
    assert text.index("/server.py:34") < text.index("/srv/server.py:90")


def test_one_tasklet_by_its_id():
    wanted = workers(3)
    wanted[1].wait.wakers = (Waker("tasklet", "feeder (0x1000) refers to the channel", 0x1000),)
    text = render.stacks(process(*wanted), tasklet=0x2001)
    assert "worker (0x2001): blocked" in text and "0x2002" not in text
    assert "could be woken by:\n    feeder (0x1000) refers to the channel" in text
    with pytest.raises(LookupError, match="no tasklet 0x9999"):
        render.stacks(process(), tasklet=0x9999)


def test_cycles_and_what_could_not_be_read_are_in_every_text():
    cycle = Cycle([Step(0x1, "a", "lock 0x5, which the next one holds", 0x2), Step(0x2, "b", "lock 0x6", 0x1)])
    found = process(cycles=[cycle], problems=["the stack of 0x77"])
    for text in (render.table(found, width=50), render.tree(found, width=50), render.stacks(found)):
        assert text.splitlines()[1] == "DEADLOCK: 2 tasklets wait for each other and never go on:"
        assert "  a (0x1) waits for lock 0x5, which the next one holds\n" in text
        assert text.endswith("not read: the stack of 0x77\n")


def test_names_cannot_write_to_the_terminal():
    evil = Tasklet(0x2000, "\x1b[2Jname", NEW, frames=(Frame("f", "\x1b]0;title\x07.py", 1, (("x", "'\n'"),)),))
    for text in (render.table(process(evil)), render.tree(process(evil)), render.stacks(process(evil))):
        assert "\x1b" not in text and "\x07" not in text and "\\x1b" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.0, "0 ms"),
        (0.35, "350 ms"),
        (12.34, "12.3 s"),
        (300, "5.0 min"),
        (7560, "2.1 h"),
        (302400, "3.5 d"),
    ],
)
def test_durations(seconds, text):
    assert render.duration(seconds) == text


@pytest.mark.parametrize("show", [render.table, render.tree, render.stacks])
def test_a_call_that_sleeps_with_the_gil_comes_first(show):
    held = process(*workers(3))
    held.threads[0].holds_gil, held.threads[0].state = True, "sleeping"
    words = (
        "HELD UP: a call in C sleeps with the GIL, and no Python code of the process runs until it ends: main (0x1000)"
    )
    assert show(held).splitlines()[1].startswith(words)
    held.threads[0].state = "running"
    assert "HELD UP" not in show(held)


def test_timers_that_are_long_due_are_said_to_be():
    waits = [Wait(TIMER, due=due) for due in (-30.0, -0.01, 2.0)]
    sleeping = [Tasklet(0x2000 + n, f"t{n}", BLOCKED, wait=wait, frames=WORK) for n, wait in enumerate(waits)]
    late = process(*sleeping)
    scheduler = late.threads[0].scheduler
    scheduler.timers, scheduler.next_timer = 3, -30.0
    text = render.table(late, each=True)
    assert "3 timers, the next overdue for 30.0 s" in text
    assert [word in text for word in ("timer, overdue for 30.0 s", "timer in 0 ms", "timer in 2.0 s")] == [True] * 3
    assert "timer, the first overdue for 30.0 s" in render.table(
        process(*(Tasklet(0x2000 + n, "t", BLOCKED, wait=wait, frames=WORK) for n, wait in enumerate(waits)))
    )


def test_tasklets_of_roamlets_own_threads_are_shown_where_each_one_is():
    own = Tasklet(0x7000, "main", RUNNING, main=True, frames=(Frame("attend", "/srv/roamlet/background.py", 1),))
    both = process()
    both.threads.append(Thread(0xA0, service=True, scheduler=Scheduler([own], current=0x7000, runnable=1)))
    assert "of roamlet's own" in render.table(both)
    assert "attend()" not in render.table(both)
    assert "attend()" in render.table(both, each=True)
