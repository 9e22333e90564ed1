"""What looks tell together: rates, places, and the tasklet that keeps its thread."""

import pytest

import roamlet
from roamlet import diagnose
from roamlet.diagnose.model import (
    BLOCKED,
    LOCK,
    READ,
    RECEIVE,
    RUNNING,
    Call,
    Context,
    Cycle,
    Frame,
    Process,
    Scheduler,
    Step,
    Tasklet,
    Thread,
    Wait,
)
from roamlet.diagnose.rates import History, places_of

SERVE = (Frame("wait", "/lib/roamlet/io/_socket.py", 3), Frame("serve", "/srv/server.py", 12))
COUNT = (Frame("count", "/srv/server.py", 40),)


def process(moment, *, switches=0, messages=0, current=1, processor=0.0, tasklets=(), **more):
    scheduler = Scheduler(list(tasklets), current, timers=2, switches=switches, messages=messages, runnable=1)
    thread = Thread(7, "MainThread", 70, main=True, state="running", processor=processor, scheduler=scheduler)
    return Process(70, moment=moment, folder="/lib/roamlet/", processor=processor, threads=[thread], **more)


def blocked(number, kind=RECEIVE, frames=SERVE, **more):
    return Tasklet(number, f"serve{number % 2}", BLOCKED, wait=Wait(kind, **more), frames=frames)


COUNTER = Tasklet(1, "count", RUNNING, frames=COUNT)


def test_rates_are_of_the_time_between_two_looks_and_none_before():
    history = History("web01")
    first = history.add(process(100.0, switches=500, messages=10, processor=3.0), process(100.0, tasklets=[COUNTER]))
    assert (first.host, first.pid, first.seconds, first.switches, first.messages) == ("web01", 70, None, None, None)
    second = history.add(process(102.0, switches=2500, messages=40, processor=3.5, memory=4096))
    assert (second.seconds, second.switches, second.messages, second.processor) == (2.0, 1000.0, 15.0, 25.0)
    assert (second.memory, second.tasklets, second.runnable, second.timers) == (4096, 1, 1, 2)
    (thread,) = second.threads
    assert (thread.switches, thread.messages, thread.processor, thread.state) == (1000.0, 15.0, 25.0, "running")
    third = history.add(process(102.0, switches=2500))
    assert (third.seconds, third.switches) == (None, None)
    assert history.add(process(103.0, switches=0)).switches == 0.0  # another process with its number, say


def test_counters_that_a_roamlet_does_not_have():
    history = History()
    history.add(process(1.0, switches=None, messages=None))
    made = history.add(process(2.0, switches=None, messages=None))
    assert (made.switches, made.messages, made.keeps) == (None, None, None)


def test_tasklets_by_place_leave_out_frames_of_roamlets_own():
    tasklets = [COUNTER, *(blocked(n, address=n % 3 + 16, on="channel") for n in range(2, 12))]
    tasklets += [blocked(n, READ, descriptor=n, peer="10.0.0.7:5432", address=n) for n in range(20, 24)]
    tasklets.append(blocked(30, LOCK, COUNT, on="sync.Lock", address=99, since=4.5))
    receiving, reading, counting, locked = places_of(process(1.0, tasklets=tasklets))
    assert (receiving.at, receiving.count) == ("serve() at /srv/server.py:12", 10)
    assert (receiving.waits, receiving.names) == ("receive on channel (3 of them)", ("serve0", "serve1"))
    assert [each.id for each in receiving.members] == list(range(2, 12))
    assert (reading.waits, reading.count) == ("read (4 descriptors)", 4)
    assert (counting.state, counting.waits, counting.at) == (RUNNING, "", "count() at /srv/server.py:40")
    assert (locked.waits, locked.longest) == ("sync.Lock", 4.5)


def test_how_places_have_grown():
    history = History()
    few, more = ([blocked(n, on="channel", address=8) for n in range(count)] for count in (3, 5))
    assert history.add(process(1.0), process(1.0, tasklets=few)).places[0].grown is None
    made = history.add(process(2.0), process(2.0, tasklets=[*more, COUNTER]))
    assert [(place.count, place.grown) for place in made.places] == [(5, 2), (1, 1)]
    assert made.age == 0.0
    assert history.add(process(5.0)).age == 3.0


def test_the_tasklet_that_keeps_its_thread():
    history = History()
    full = process(1.0, tasklets=[COUNTER, blocked(2)])
    assert history.add(process(1.0, switches=5), full).keeps is None
    keeps = history.add(process(3.5, switches=5)).keeps
    assert keeps is not None
    assert (keeps.tasklet, keeps.name, keeps.seconds, keeps.thread) == (1, "count", 2.5, "MainThread")
    assert keeps.at == "count() at /srv/server.py:40"
    assert history.add(process(4.0, switches=6)).keeps is None  # it let others run
    assert history.add(process(5.0, switches=6, current=2)).keeps is None  # another one runs
    assert history.add(process(6.0, switches=6, current=2)).keeps.seconds == 1.0


def test_one_that_keeps_no_other_from_running_is_left_out():
    history = History()
    history.add(process(1.0, switches=5), process(1.0, tasklets=[COUNTER]))
    assert history.add(process(9.0, switches=5)).keeps is None


def test_contexts():
    def looked(moment, made, down, calls):
        context = Context("ssh:web", host="web", process=5, state="open", made=made, bytes_down=down, bytes_up=0)
        context.calls, context.round_trips = calls, made
        return process(moment, contexts=[context], tasklets=[COUNTER])

    history = History()
    history.add(process(1.0), looked(1.0, 10, 100, []))
    (context,) = history.add(process(3.0), looked(3.0, 30, 1100, [Call("f", 1.5), Call("g", 0.5)])).contexts
    assert (context.name, context.calls, context.round_trips, context.down, context.up) == ("ssh:web", 10, 10, 500, 0)
    assert (context.in_flight, context.longest) == (2, 1.5)


def test_as_json():
    history = History()
    tasklets = [COUNTER, *(blocked(n, on="channel") for n in range(2, 12))]
    full = process(1.0, tasklets=tasklets, cycles=[Cycle([Step(2, "a", "itself", 2)])], problems=["the rest"])
    history.add(process(1.0, switches=5), full)
    made = history.add(process(2.0, switches=5)).to_json()
    assert made["places"][0]["tasklets"] == [2, 3, 4, 5, 6]
    assert "members" not in made["places"][0] and "frames" not in made["keeps"]
    assert (made["keeps"]["seconds"], made["threads"][0]["name"]) == (1.0, "MainThread")
    assert made["cycles"][0].startswith("1 tasklet waits for itself") and made["problems"] == ["the rest"]


def test_of_this_process():
    channel = roamlet.channel()
    tasklets = [roamlet.tasklet(channel.receive)() for _ in range(4)]
    roamlet.schedule()
    history = History()
    before = diagnose.tree()
    history.add(before, before)
    for _ in range(2):
        channel.send(1)
    after = diagnose.tree()
    made = history.add(after, after)
    assert made.messages == pytest.approx(2 / (after.moment - before.moment))
    assert made.switches > 0 and made.memory > 1 << 20 and made.seconds > 0
    assert [place.count for place in made.places if place.waits == "receive on channel"] == [2]
    for _ in tasklets[2:]:
        channel.send(1)
