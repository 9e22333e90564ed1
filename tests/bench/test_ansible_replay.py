"""The connection plugins of the benchmark that keep what ssh answers, and give it again."""

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bench.ansible.peers import CONNECTIONS


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """(the class that records, the class that replays), in a new home folder."""
    monkeypatch.syspath_prepend(str(CONNECTIONS))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BENCH_ANSWERS", str(tmp_path / "answers"))
    made = [importlib.import_module(name).Connection for name in ("bench_record", "bench_replay")]
    yield made
    for name in ("bench_record", "bench_replay"):
        del sys.modules[name]


def connection(kind: Any, host: str, account: str = "admin") -> Any:
    made = object.__new__(kind)
    made._play_context = SimpleNamespace(remote_addr=host, remote_user=account)
    return made


def test_each_host_gives_its_answers_in_their_order_and_from_the_start_in_a_new_home(plugins, monkeypatch, tmp_path):
    recording, replaying = plugins
    answers = iter([(0, b"a1", b""), (1, b"b1", b"no"), (0, b"a2", b""), (2, b"c1", b"")])
    monkeypatch.setattr(recording.__bases__[0], "exec_command", lambda *given, **options: next(answers))
    for host, account in (("a", "admin"), ("b", "admin"), ("a", "admin"), ("a", "other")):
        connection(recording, host, account).exec_command("x", in_data=b"y")
    given = [connection(replaying, *host).exec_command("x") for host in (("b",), ("a",), ("a",), ("a", "other"))]
    assert given == [(1, b"b1", b"no"), (0, b"a1", b""), (0, b"a2", b""), (2, b"c1", b"")]
    with pytest.raises(EOFError):
        connection(replaying, "a").exec_command("x")
    home = tmp_path / "new"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert connection(replaying, "a").exec_command("x") == (0, b"a1", b"")
