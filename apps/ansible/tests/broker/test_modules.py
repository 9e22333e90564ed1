"""A module and the start of its zygote in one turn: once, whatever the start has asked for."""

import base64
import io
import json
import shlex
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.ansible.tests.host.driver import payload
from roamlet_ansible.broker import session
from roamlet_ansible.broker.hosts import Hosts
from roamlet_ansible.broker.server import _answered
from roamlet_ansible.broker.session import Session
from roamlet_ansible.broker.zygotes import Payload, Zygote, request_of
from roamlet_ansible.cores import packed
from roamlet_ansible.cores.ansiballz import packed_files
from roamlet_ansible.cores.packed import Keeper
from roamlet_ansible.host import bootstrap

pytestmark = pytest.mark.timeout(120)

MODULE = """
from ansible.module_utils import basic
with open(basic.params()["path"], "a") as file:
    file.write("ran ")
basic.leave()
"""


def payload_of(module: str) -> Payload:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, source in payload(module).items():
            archive.writestr(path, source)
    return Payload(packed_files(base64.b64encode(packed.getvalue())))


class Worker:
    """Asks for one module, in a zygote that is started by a shell."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ran"
        self.hosts = Hosts(Keeper("/nonexistent"))
        self.session = Session(self.hosts)
        self.target = {"kind": "local", "name": "here", "python": sys.executable, "timeout": 60.0}
        self.hosts.payloads["p"] = payload_of(MODULE)
        self._nonce = 0

    def ask(self, *blobs: bytes, **header: Any) -> tuple[dict[str, Any], list[bytes]]:
        answer, parts = _answered(self.session, {**header, "target": self.target, "count": True}, list(blobs))
        return answer, list(parts)

    def run(self, first: str = "", key: str = "key", **header: Any) -> dict[str, Any]:
        """Have it run in the zygote `key`. `first`: shell commands before its interpreter, if that is started."""
        self._nonce += 1
        nonce = f"n{self._nonce}"
        words = {"fqn": "ansible.modules.probe", "name": "probe", "profile": None, "shape": "2.16"}
        python = shlex.join([sys.executable, "-c", bootstrap(nonce)])
        answer, _ = self.ask(
            b'{"path": "%s"}' % str(self.file).encode(),
            do="module",
            python=sys.executable,
            zygote=key,
            environment={},
            tty=False,
            nonce=nonce,
            start=f"{first} exec {python}",
            run={"payload": "p", "rlimit_nofile": 0, "date_time": None, **words},
            **header,
        )
        return answer

    def count(self) -> int:
        return len(self.file.read_text().split()) if self.file.exists() else 0


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    try:
        yield worker
    finally:
        worker.session.close()
        worker.hosts.close()


ASKING = "printf 'Password: ' >&2; read word;"


def test_the_start_of_a_zygote_and_the_module_take_one_turn(worker):
    assert worker.ask(do="open")[0]["facts"]
    first = worker.run()
    assert (first["rc"], first["cost"][0]) == (0, 1)
    again = worker.run()
    assert (again["rc"], again["cost"][0]) == (0, 1)
    assert again["cost"][1] < first["cost"][1] / 2  # what the zygote has is not sent again
    assert worker.count() == 2


def test_a_start_that_will_ask_gets_the_module_after_it(worker):
    worker.ask(do="open")
    first = worker.run(asks=True)
    assert (first["rc"], first["cost"][0]) == (0, 2)


def test_a_module_that_was_sent_with_a_start_that_asks_runs_once(worker):
    answer = worker.run(ASKING)
    assert answer["rc"] is None
    assert worker.count() == 0
    assert worker.ask(b"word\n", do="resume", zygote="key", token=answer["asks"])[0].keys() == {"cost"}
    assert worker.count() == 0
    assert worker.run()["rc"] == 0
    assert worker.count() == 1


def test_it_does_not_run_in_an_older_zygote_that_is_still_there(worker):
    assert worker.run()["rc"] == 0
    worker.hosts.host(worker.target).zygote("key").forget()
    answer = worker.run(ASKING)
    assert answer["rc"] is None
    assert worker.count() == 1
    worker.ask(b"word\n", do="resume", zygote="key", token=answer["asks"])
    assert worker.run()["rc"] == 0
    assert worker.count() == 2


def test_a_start_that_ends_says_so_and_nothing_runs(worker):
    answer = worker.run("echo no >&2; exit 7;")
    assert answer["rc"] == 7
    assert worker.count() == 0
    assert worker.run()["rc"] == 0
    assert worker.count() == 1


@pytest.fixture
def compiled(worker, monkeypatch, tmp_path):
    """How many files were compiled, or looked for, each time that a zygote or a module could get code."""
    monkeypatch.setenv(packed.PLACE, str(tmp_path / "kept"))
    counts: list[int] = []
    of = worker.hosts.bytecode.of

    def counted(facts, sources):
        counts.append(len(sources))
        return of(facts, sources)

    monkeypatch.setattr(worker.hosts.bytecode, "of", counted)
    return counts


def test_the_first_zygote_waits_for_no_compiler_and_a_later_one_gets_code(worker, compiled):
    assert worker.run()["rc"] == 0
    assert compiled == []
    assert worker.run(key="other")["rc"] == 0
    assert compiled == [1, len(worker.hosts.payloads["p"].files)]  # the zygote, and the module's files
    assert worker.count() == 2


def test_the_first_zygote_gets_code_for_a_module_with_many_files(worker, compiled, monkeypatch):
    monkeypatch.setattr(session, "FEW", 0)
    assert worker.run()["rc"] == 0
    assert compiled == [1, len(worker.hosts.payloads["p"].files)]


def no_code(facts, sources):
    return {}


def test_a_module_that_may_see_a_fork_is_named():
    """Its zygote forks for the programs that it starts, as stock's Python does."""
    for module, named in ((MODULE, False), (MODULE + "import os\nos.register_at_fork(before=print)\n", True)):
        header = {"run": {"payload": "p"}, "environment": {}}
        request, _ = request_of(Zygote(), payload_of(module), header, b"", None, no_code)
        assert json.loads(request).get("hooks", False) is named
