"""Files on their way to a context: each once, what is asked for first, and calls before all of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import roamlet
from roamlet import remote
from roamlet.remote import modules
from roamlet.remote.errors import ContextDied
from roamlet.remote.modules import Extension
from roamlet.remote.modules.native import shared
from roamlet.remote.shipping.shared_objects import SharedObjectSender
from roamlet.wire import protocol
from tests.remote.fakes import hostile
from tests.remote.inside import link_of

LARGE = 1 << 20


class FakeLink:
    """Takes frames, and dies when it was told to."""

    identifier = 7
    is_near = False
    trunk = None

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.output = SimpleNamespace(say=lambda level, text: None)
        self.dies_after = 1000

    def send_when_quiet(self, data: bytes) -> None:
        if len(self.sent) == self.dies_after:
            raise ContextDied("dead")
        for _, _, number, kind, body in protocol.FrameReader().feed(data):
            assert kind == protocol.PIECE
            self.sent.append((number, body))

    def send_piece(self, number: int, piece: modules.Piece) -> None:
        self.send_when_quiet(protocol.frame(self.identifier, 0, number, protocol.PIECE, b"+" + piece.data()))


class FakeThread:
    """Keeps the jobs that were posted; `run` does them."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def post(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def run(self) -> None:
        while self.jobs:
            self.jobs.pop(0)()


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def thread() -> FakeThread:
    return FakeThread()


@pytest.fixture
def pieces(link: Any, thread: Any) -> SharedObjectSender:
    return SharedObjectSender(link, thread)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    modules.trim()


def extension(folder: Path, *names: str) -> Extension:
    files = []
    for name in names:
        path = folder / name
        if not path.exists():
            path.write_bytes(name.encode() * 10)
        files.append(shared.shared_file(str(path)))
    return Extension("native", False, tuple(files))


def numbers(link: FakeLink) -> list[int]:
    return list(dict.fromkeys(number for number, _ in link.sent))


def test_each_file_goes_once_however_often_it_is_pushed_and_asked_for(
    pieces: SharedObjectSender, link: FakeLink, thread: FakeThread, tmp_path: Path
) -> None:
    first, second = extension(tmp_path, "lib.so", "a.so"), extension(tmp_path, "lib.so", "b.so")
    library = first.files[0].number
    assert second.files[0].number == library
    pieces.announce([first, second], [])
    pieces.push([first])
    pieces.push([first, second])
    pieces.answer(library)
    thread.run()
    pieces.push([second])
    thread.run()
    ends = [number for number, body in link.sent if len(body) > 1]
    assert ends.count(library) == len(ends) / 3
    assert sorted(numbers(link)) == sorted({one.number for one in (*first.files, *second.files)})


def test_what_an_import_waits_for_goes_first(
    pieces: SharedObjectSender, link: FakeLink, thread: FakeThread, tmp_path: Path
) -> None:
    pushed, asked = extension(tmp_path, "a.so", "b.so"), extension(tmp_path, "c.so")
    pieces.announce([pushed, asked], [pushed])
    pieces.push([pushed])
    pieces.answer(asked.files[0].number)
    pieces.answer(pushed.files[1].number)
    thread.run()
    assert numbers(link) == [pushed.files[1].number, asked.files[0].number, pushed.files[0].number]


def test_small_files_of_the_same_package_go_along_with_one_that_is_asked_for(
    pieces: SharedObjectSender, link: FakeLink, thread: FakeThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamlet.remote.shipping.shared_objects.SMALL", 100)
    (tmp_path / "large.so").write_bytes(bytes(101))
    in_package = [extension(tmp_path, name)._replace(name=f"p.q.{name[:-3]}") for name in ("a.so", "large.so", "b.so")]
    elsewhere = extension(tmp_path, "c.so")._replace(name="p.c")
    pieces.announce([*in_package, elsewhere], [])
    asked, along = in_package[0].files[0].number, in_package[2].files[0].number
    pieces.answer(asked)
    thread.run()
    assert link.sent[0] == (along, b"+")
    assert [number for number, _ in link.sent[1:]] == [asked, asked, along, along]


def test_what_is_certain_is_said_to_be_on_its_way(pieces: SharedObjectSender, tmp_path: Path) -> None:
    certain, lazy = extension(tmp_path, "lib.so", "a.so"), extension(tmp_path, "lib.so", "b.so")
    said = protocol.FrameReader().feed(pieces.announce([certain, lazy], [certain]))
    assert [(frame[2], frame[4]) for frame in said] == [(file.number, b"+") for file in certain.files]


def test_a_file_that_was_changed_or_removed_is_refused_with_the_reason(
    pieces: SharedObjectSender, link: FakeLink, thread: FakeThread, tmp_path: Path
) -> None:
    one, other = extension(tmp_path, "a.so"), extension(tmp_path, "b.so")
    (tmp_path / "a.so").write_bytes(b"something longer than before " * 10)
    (tmp_path / "b.so").unlink()
    pieces.announce([one, other], [])
    pieces.push([one, other])
    thread.run()
    texts = {number: body for number, body in link.sent if body[:1] == b"!"}
    assert b"a.so was changed while it was sent" in texts[one.files[0].number]
    assert b"No such file or directory" in texts[other.files[0].number]


def test_the_end_of_the_link_ends_the_sending(
    pieces: SharedObjectSender, link: FakeLink, thread: FakeThread, tmp_path: Path
) -> None:
    one = extension(tmp_path, "a.so", "b.so", "c.so")
    link.dies_after = 1
    pieces.announce([one], [])
    pieces.push([one])
    thread.run()
    assert len(numbers(link)) == 1


def test_what_was_not_announced_is_not_asked_for(
    pieces: SharedObjectSender, thread: FakeThread, tmp_path: Path
) -> None:
    one = extension(tmp_path, "a.so")
    with pytest.raises(ValueError, match=f"a PIECE message for the file {one.files[0].number}, which no module"):
        pieces.answer(one.files[0].number)
    assert not thread.jobs


def test_nothing_is_asked_for_twice(
    pieces: SharedObjectSender, link: FakeLink, thread: FakeThread, tmp_path: Path
) -> None:
    one = extension(tmp_path, "a.so")
    number = one.files[0].number
    pieces.announce([one], [])
    pieces.answer(number)
    with pytest.raises(ValueError, match=f"a second PIECE message for the file {number}"):
        pieces.answer(number)
    thread.run()
    assert numbers(link) == [number]


def test_calls_overtake_the_pieces_that_wait(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    body = f"""
        hello()
        open({str(gate)!r}).read()
        order, call = [], None
        while len(order) < 3:
            number, kind, body = receive()
            if kind == protocol.CALL:
                call = number
            if kind in (protocol.CALL, protocol.PIECE):
                order.append(number if kind == protocol.PIECE else "call")
        send(protocol.RESULT, codec.dumps(order), call)
    """
    with remote.local(hostile(tmp_path, body), name="hostile", timeout=20) as context:
        link, results = link_of(context), roamlet.channel()

        def piece(number: int) -> None:
            link.send_when_quiet(protocol.frame(link.identifier, 0, number, protocol.PIECE, b"+" + bytes(LARGE)))

        piece(1)  # more than the pipe takes
        roamlet.tasklet(piece)(2)
        roamlet.schedule()
        roamlet.tasklet(lambda: results.send(context.call(os.getpid)))()
        roamlet.schedule()
        gate.write_text("go")
        assert results.receive() == [1, "call", 2]
