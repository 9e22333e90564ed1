"""Files of several pieces, as a worker hands them to the broker: no piece but the first and the last waits for the target."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roamlet
from roamlet_ansible.broker.hosts import Hosts
from roamlet_ansible.broker.server import _answered
from roamlet_ansible.broker.session import PIECE, Session
from roamlet_ansible.cores.packed import Keeper

pytestmark = pytest.mark.timeout(120)


class Worker:
    def __init__(self) -> None:
        self.hosts = Hosts(Keeper("/nonexistent"))
        self.session = Session(self.hosts)
        self.target = {"kind": "local", "name": "here", "python": sys.executable, "timeout": 60.0}

    def ask(self, **header: Any) -> tuple[dict[str, Any], list[bytes]]:
        data = header.pop("data", None)
        answer, parts = _answered(self.session, {**header, "target": self.target}, [] if data is None else [data])
        return answer, list(parts)

    def put(self, path: Path, data: bytes) -> dict[str, Any]:
        offset, answer = 0, {}
        while not answer:
            piece = data[offset : offset + PIECE]
            more = len(piece) == PIECE
            answer, _ = self.ask(do="put", path=str(path), mode=0o640, append=offset > 0, more=more, data=piece)
            offset += len(piece)
            if not more:
                break
        return answer

    def get(self, path: Path) -> bytes:
        whole = b""
        while True:
            answer, parts = self.ask(do="get", path=str(path), offset=len(whole))
            assert not answer, answer
            whole += parts[0]
            if len(parts[0]) < PIECE:
                return whole


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    try:
        yield worker
    finally:
        worker.session.close()
        worker.hosts.close()


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 12 * PIECE, 12 * PIECE + 7])
def test_a_file_arrives_and_comes_back_as_it_is(worker, tmp_path, size):
    data = os.urandom(size)
    assert worker.put(tmp_path / "file", data) == {}
    assert (tmp_path / "file").read_bytes() == data
    assert worker.get(tmp_path / "file") == data


def test_a_shorter_file_replaces_a_longer_one(worker, tmp_path):
    worker.put(tmp_path / "file", b"a" * (3 * PIECE))
    worker.put(tmp_path / "file", b"b" * (PIECE + 2))
    assert (tmp_path / "file").read_bytes() == b"b" * (PIECE + 2)


def test_a_piece_that_cannot_be_written_fails_the_file_with_its_own_error(worker, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    first = {"do": "put", "path": str(folder / "file"), "mode": 0o640, "data": b"a" * PIECE}
    assert worker.ask(**first, append=False, more=True)[0] == {}
    (folder / "file").unlink()
    folder.rmdir()
    answer: dict[str, Any] = {}
    for number in range(4):
        if not answer:
            answer, _ = worker.ask(**first, append=True, more=number < 3)
    assert answer["error"] == "failed"
    assert "No such file or directory" in answer["text"]
    assert worker.put(tmp_path / "file", b"b") == {}  # the next file is not concerned


def test_a_file_that_ends_while_it_is_read_is_what_was_there(worker, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a" * (8 * PIECE))
    first = worker.ask(do="get", path=str(path), offset=0)[1][0]
    assert len(first) == PIECE
    os.truncate(path, 6 * PIECE + 5)
    roamlet.sleep(0)
    rest, offset = 0, PIECE
    while True:
        piece = worker.ask(do="get", path=str(path), offset=offset)[1][0]
        rest += len(piece)
        offset += len(piece)
        if len(piece) < PIECE:
            break
    assert PIECE + rest == 6 * PIECE + 5


def test_what_a_worker_does_not_finish_leaves_nothing_behind(worker, tmp_path):
    (tmp_path / "read").write_bytes(b"a" * (8 * PIECE))
    worker.ask(do="get", path=str(tmp_path / "read"), offset=0)
    assert (
        worker.ask(do="put", path=str(tmp_path / "x"), mode=0o640, append=False, more=True, data=b"a" * PIECE)[0] == {}
    )
    assert (
        worker.ask(do="put", path=str(tmp_path / "x"), mode=0o640, append=True, more=True, data=b"a" * PIECE)[0] == {}
    )
    worker.session.close()
    another = Session(worker.hosts)
    assert another.answer({"do": "open", "target": worker.target}, [])[0]["facts"]["pid"] > 0


@pytest.mark.parametrize("at_once", [False, True])
def test_a_context_that_cannot_be_opened_ahead_is_tried_once_for_the_request(worker, monkeypatch, at_once):
    tried = []

    def failing(*args: Any) -> Any:
        tried.append(args)
        raise ConnectionError("there is no way to it")

    monkeypatch.setattr("roamlet_ansible.broker.hosts._open", failing)
    with roamlet.scope() as scope:
        worker.hosts.spawn = scope.service
        worker.session.begin({"target": worker.target, "python": None})
        if not at_once:
            roamlet.schedule()
        answers = [worker.ask(do="open")[0] for _ in range(2)]
    assert [answer["text"] for answer in answers] == ["there is no way to it"] * 2
    assert len(tried) == 2  # the first request has the result of what was tried ahead
