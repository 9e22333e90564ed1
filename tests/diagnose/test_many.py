"""Tasklets that are made when they are asked for."""

import pytest

from roamlet.diagnose import model, render
from roamlet.diagnose.model import Many, Process, Scheduler, Tasklet, Thread, Wait, groups_of

CHANNEL, OTHER = Wait(model.RECEIVE, "channel", 0x10, since=1.0), Wait(model.RECEIVE, "channel", 0x20, since=2.0)


def members(tasklet):
    return tuple(getattr(tasklet, name) for name in Tasklet.__slots__[1:])


@pytest.fixture
def tasklets():
    """The same as a list, and as Many."""
    made = [Tasklet(1, "main", model.RUNNABLE, main=True)]
    made += [Tasklet(number, "serve", model.BLOCKED, wait=(CHANNEL, OTHER)[number % 2]) for number in range(2, 10)]
    shared = [members(made[0]), members(made[1]), members(made[2])]
    return made, Many(range(1, 10), [shared[0], *[shared[1 + number % 2] for number in range(2, 10)]])


def process_of(tasklets):
    return Process(1, threads=[Thread(5, scheduler=Scheduler(tasklets))])


def test_they_are_the_list_of_them(tasklets):
    plain, lazy = tasklets
    assert lazy == plain
    assert lazy == Many(range(1, 10), list(map(members, plain)))
    assert lazy != plain[1:]
    assert (len(lazy), lazy[3], lazy[-2:], list(lazy)) == (9, plain[3], plain[-2:], plain)
    assert lazy[3] is lazy[3]  # what is changed stays so
    assert repr(lazy) == repr(plain)
    assert process_of(lazy).to_json() == process_of(plain).to_json()
    assert Process.from_json(process_of(lazy).to_json()) == process_of(plain)


def test_groups_have_the_first_of_each_in_order(tasklets):
    plain, lazy = tasklets
    assert [(group.first.id, group.size) for group in groups_of(lazy)] == [(1, 1), (2, 4), (3, 4)]
    assert [(group.first, group.size) for group in groups_of(plain)] == [(each, 1) for each in plain]
    for process in (process_of(lazy), process_of(plain)):
        assert list(map(id, process.waits())) == [id(CHANNEL), id(OTHER)]


def test_a_table_makes_none_of_them(tasklets, monkeypatch):
    plain, lazy = tasklets
    expected = render.table(process_of(plain))
    monkeypatch.setattr(Many, "_all", None)
    assert render.table(process_of(lazy)) == expected
    assert "8  serve  blocked   2.0 s  receive on channel (2 of them)" in expected
