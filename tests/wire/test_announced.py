"""What is missed while a bundle is announced waits for it, and is asked for only when it was not in it."""

import threading

import pytest

from roamlet.wire import codec
from roamlet.wire.modules import bundle, importer, resources

DONE = bundle.pack([(bundle.DONE, bundle.DATA, b"1", "")])
ANNOUNCED = bundle.pack([(bundle.ANNOUNCED, bundle.DATA, b"1", "")])


class Link:
    """Takes questions down; `then` answers them."""

    def __init__(self):
        self.asked = []

    def send(self, kind, number, body):
        self.asked.append(codec.loads(body))
        self.importer.receive(bundle.pack([], [self.asked[-1]]), number)


@pytest.fixture
def made():
    link = Link()
    link.importer = importer.Importer(link, set())
    return link.importer, link


def arrives_while_waiting(monkeypatch, target, bodies):
    class Event(threading.Event):
        def wait(self, timeout=None):
            while bodies:
                target.receive(bodies.pop(0))
            return super().wait(timeout)

    monkeypatch.setattr(importer.threading, "Event", Event)


def test_what_the_announced_bundle_brings_is_not_asked_for(made, monkeypatch):
    target, link = made
    target.receive(bundle.pack([("pack", bundle.PACKAGE, b"", "")]))
    target.receive(ANNOUNCED)
    brings = bundle.pack([("pack/x.txt", bundle.DATA, b"x", "")], ["pack.absent"])
    arrives_while_waiting(monkeypatch, target, [brings, DONE])
    assert target.fetch("pack/x.txt") == b"x"
    assert target.find_spec("pack.absent") is None
    assert link.asked == []


def test_what_the_announced_bundle_does_not_bring_is_asked_for_then(made, monkeypatch):
    target, link = made
    target.receive(bundle.pack([("pack", bundle.PACKAGE, b"", "")]))
    target.receive(ANNOUNCED)
    arrives_while_waiting(monkeypatch, target, [DONE])
    assert target.fetch("pack/y.txt") is None
    assert link.asked == ["pack/y.txt"]


def test_two_announced_bundles_are_waited_for(made, monkeypatch):
    target, link = made
    target.receive(bundle.pack([("pack", bundle.PACKAGE, b"", "")]))
    target.receive(ANNOUNCED)
    target.receive(bundle.pack([(bundle.ANNOUNCED, bundle.DATA, b"2", "")]))
    brings = bundle.pack([("pack/x.txt", bundle.DATA, b"x", "")])
    second = bundle.pack([(bundle.DONE, bundle.DATA, b"2", "")])
    arrives_while_waiting(monkeypatch, target, [DONE, brings, second])
    assert target.fetch("pack/x.txt") == b"x"
    assert link.asked == []


def test_who_waits_for_an_announced_bundle_is_told_that_the_link_is_lost(made, monkeypatch):
    target, _ = made
    target.receive(ANNOUNCED)

    class Event(threading.Event):
        def wait(self, timeout=None):
            target.lose("gone")
            return super().wait(timeout)

    monkeypatch.setattr(importer.threading, "Event", Event)
    with pytest.raises(OSError, match="gone"):
        target.fetch("pack/x.txt")


def test_a_silent_parent_is_asked_in_the_end(made, monkeypatch):
    target, link = made
    target.receive(ANNOUNCED)
    monkeypatch.setattr(importer.threading.Event, "wait", lambda self, timeout=None: self.is_set())
    assert target.fetch("pack/x.txt") is None
    assert link.asked == ["pack/x.txt"]
    assert target.fetch("pack/y.txt") is None
    assert link.asked == ["pack/x.txt", "pack/y.txt"]


def test_a_bundle_that_comes_too_late_leaves_nothing_to_wait_for(made, monkeypatch):
    target, _link = made
    target.receive(ANNOUNCED)
    waited = []
    monkeypatch.setattr(
        importer.threading.Event, "wait", lambda self, timeout=None: waited.append(self) or self.is_set()
    )
    assert target.fetch("pack/x.txt") is None
    target.receive(DONE)
    before = len(waited)
    assert target.fetch("pack/y.txt") is None
    assert len(waited) == before + 1  # for the answer alone


def test_a_bundle_that_was_not_announced_is_not_taken_for_another_one(made, monkeypatch):
    target, link = made
    target.receive(bundle.pack([("pack", bundle.PACKAGE, b"", "")]))
    target.receive(ANNOUNCED)
    target.receive(bundle.pack([(bundle.DONE, bundle.DATA, b"7", "")]))
    arrives_while_waiting(monkeypatch, target, [bundle.pack([("pack/x.txt", bundle.DATA, b"x", "")]), DONE])
    assert target.fetch("pack/x.txt") == b"x"
    assert link.asked == []


def test_the_files_of_a_package_are_indexed_once(made):
    target, link = made
    names = (
        ["data/"] + [f"data/{number}/" for number in range(500)] + [f"data/{number}/x.json" for number in range(500)]
    )
    listing = codec.dumps((names, [len(name) for name in names], []))
    target.receive(bundle.pack([("pack", bundle.PACKAGE, b"", ""), ("pack/", bundle.DATA, listing, "")]))
    folder = resources.folder_of(target, "pack", "data/7")
    assert folder == {"data/7/x.json": len("data/7/x.json")}
    assert resources.folder_of(target, "pack", "data/7") is folder  # no look at the thousand others
    assert len(resources.folder_of(target, "pack", "data")) == 500
    assert resources.folder_of(target, "pack", "data/7/x.json") is None
    assert resources.folder_of(target, "pack", "nothing") is None
    assert link.asked == []


def test_nothing_is_known_of_what_lies_below_an_absent_name(made):
    target, link = made
    target.receive(bundle.pack([("pack", bundle.PACKAGE, b"", "")], complete={"pack": ["one"]}))
    assert target.find_spec("pack.moves.winreg") is None
    assert link.asked == []
