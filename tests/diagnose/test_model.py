"""The data of a look at a process: to JSON and back, and what damaged JSON does."""

import copy
import json
import random

import pytest

from roamlet.diagnose.model import (
    BLOCKED,
    CALL,
    FORMAT,
    LOCK,
    PROCESS,
    READ,
    RECEIVE,
    SELECT,
    SEND,
    TIMER,
    Call,
    Context,
    Cycle,
    Frame,
    Process,
    Scheduler,
    Step,
    Task,
    Tasklet,
    Thread,
    Wait,
    Waker,
)

STACK = (Frame("worker", "/srv/server.py", 34), Frame("main", "/srv/server.py", None, (("x", "1"),)))


def example():
    wait = Wait(
        LOCK, "sync.Lock", 0x55, since=2.5, due=3.0, owner=0x1000, wakers=(Waker("tasklet", "holds it", 0x1000),)
    )
    blocked = Tasklet(0x2000, "worker", BLOCKED, wait=wait, parent=0x1000, scope="roamlet.scope", frames=STACK)
    main = Tasklet(0x1000, "main", BLOCKED, main=True, wait=Wait(SELECT, channels=(1, 2)), frames=STACK)
    main.tasks = (Task("Task-1", "serve", BLOCKED, STACK[:1], "a future"),)
    scheduler = Scheduler([main, blocked], idle=True, timers=1, next_timer=3.0)
    return Process(
        7,
        "python x.py",
        threads=[Thread(0x99, "MainThread", 7, main=True, scheduler=scheduler), Thread(0x98, frames=STACK)],
        contexts=[Context("ssh:alpha", host="alpha", calls=[Call("f", 1.0, 0x1000)])],
        cycles=[Cycle([Step(0x1000, "main", "itself", 0x1000)])],
        problems=["a stack"],
    )


def test_a_process_goes_through_json_unchanged():
    process = example()
    assert Process.from_json(json.loads(json.dumps(process.to_json()))) == process


def test_equal_stacks_are_listed_once():
    made = example().to_json()
    assert made["format"] == FORMAT
    tasklets = made["threads"][0]["scheduler"]["tasklets"]
    assert tasklets[0]["frames"] == tasklets[1]["frames"]
    assert len(made["stacks"]) == 3  # two calls, one call, none


@pytest.mark.parametrize(
    "data", [None, [], {}, {"format": FORMAT + 1}, {"format": FORMAT}, {"format": FORMAT, "stacks": 3}]
)
def test_what_is_no_tree_is_refused(data):
    with pytest.raises(ValueError, match="tree of format|list|Process"):
        Process.from_json(data)


def damaged(value, chance):
    """The same with one part replaced, left out or exchanged."""
    value = copy.deepcopy(value)
    places = []

    def walk(part):
        for key in part if isinstance(part, dict) else range(len(part)):
            places.append((part, key))
            if isinstance(part[key], dict | list):
                walk(part[key])

    walk(value)
    part, key = chance.choice(places)
    numbers = [-1, 10**30, 10**5000, 1.5, float("inf"), float("nan")]
    junk = chance.choice([None, *numbers, "\x1b[2J", [], {}, [[]], {"a": 1}, True, "drop"])
    if junk == "drop":
        del part[key]
    else:
        part[key] = junk
    return value


def test_damaged_json_is_read_or_refused_with_a_value_error():
    from roamlet.diagnose import render

    whole, chance, refused = json.loads(json.dumps(example().to_json())), random.Random(5), 0
    for _ in range(3000):
        try:
            process = Process.from_json(damaged(whole, chance))
        except ValueError:
            refused += 1
        else:
            for text in (render.table(process, width=80), render.tree(process, width=80), render.stacks(process)):
                assert "\x1b" not in text
    assert 500 < refused < 2900


def test_a_cycle_is_told_in_words():
    first = Step(0x10, "pay", "lock 0x1, which the next one holds", 0x20, "pay() at bank.py:3")
    cycle = Cycle([first, Step(0x20, "refund", "lock 0x2, which the next one holds", 0x10)])
    assert cycle.text.splitlines() == [
        "2 tasklets wait for each other and never go on:",
        "  pay (0x10) in pay() at bank.py:3 waits for lock 0x1, which the next one holds",
        "  refund (0x20) waits for lock 0x2, which the next one holds",
    ]
    cycle.sure = False
    assert "go on only if other code wakes one of them" in cycle.text


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (Wait(RECEIVE, address=0x77), "receive on channel 0x77"),
        (Wait(RECEIVE, address=0x77, buffer=5), "receive on channel 0x77 (its buffer of 5 is empty)"),
        (Wait(SEND, address=0x77, buffer=1), "send on channel 0x77 (its buffer of 1 is full)"),
        (Wait(READ, descriptor=7, peer="10.0.0.7:5432"), "read descriptor 7 from 10.0.0.7:5432"),
        (Wait(LOCK, "sync.Lock", 0x5), "sync.Lock 0x5"),
        (Wait(LOCK, "Mutex", 0x5), "lock: Mutex 0x5"),
        (Wait(CALL, function="platform.node", host="alpha"), "call of platform.node on alpha"),
        (Wait(SELECT, channels=(1, 2, 3)), "select of 3 channels"),
        (Wait(PROCESS, process=99), "end of process 99"),
        (Wait(TIMER, due=3.0), "timer"),
    ],
)
def test_a_wait_in_words(wait, text):
    assert wait.text == text
