"""The process that a zygote forks before there is a request for it: who gets it, and that a module sees no difference."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.ansible.tests.host.driver import Zygote, digest, payload
from apps.ansible.tests.host.test_zygote_requests import LEAVE, PYTHONS, SOME, elsewhere, gone  # noqa: F401 - a fixture
from roamlet_ansible import host

LOOK = """
import os, sys
from ansible.module_utils import basic
given = basic.params()
sys.stdin.read()
basic.leave(
    pid=os.getpid(), leads=os.getsid(0) == os.getpid(), open=sorted(os.listdir('/proc/self/fd'))[:-1], mark=os.environ.get('MARK'),
    cwd=os.getcwd(), given=len(given.get('text', '')), argv=len(sys.argv), first=sys.path[0][:5],
)
"""
KNOWN = {"definition": None, "send": {}}
SEEN = ("leads", "open", "mark", "cwd", "given", "argv", "first")


def children(zygote):
    pid = zygote.facts["pid"]
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def spare(zygote):
    """The process that waits for a request; there must be one soon."""
    until = time.monotonic() + 20
    while not children(zygote):
        assert time.monotonic() < until, "no process was forked ahead"
        time.sleep(0.01)
    (pid,) = children(zygote)
    return pid


def look(zygote, text="", **more):
    rc, out, err = zygote.run(payload(LOOK), params={"text": text}, **more)
    assert (rc, err) == (0, b"")
    return json.loads(out)


@pytest.fixture(params=SOME)
def zygote(request):
    with Zygote(PYTHONS[request.param]) as zygote:
        yield zygote


@pytest.fixture
def settled(zygote):
    """A zygote that has run one module three times."""
    zygote.first = look(zygote)
    for _ in range(2):
        look(zygote, **KNOWN)
    return zygote


def test_a_module_that_runs_again_gets_a_process_that_waits_for_it(settled):
    for _ in range(3):
        waits = spare(settled)
        assert look(settled, **KNOWN)["pid"] == waits


def test_the_module_sees_no_difference(settled):
    spare(settled)
    ahead = look(settled, **KNOWN)
    assert [ahead[one] for one in SEEN] == [settled.first[one] for one in SEEN]


def test_variables_and_parameters_are_those_of_the_request(settled):
    spare(settled)
    found = look(settled, text="ä" * 300_000, environment={"MARK": "m"}, **KNOWN)
    assert (found["given"], found["mark"]) == (300_000, "m")


def test_another_payload_gets_a_process_that_has_it(settled):
    waits = spare(settled)
    files = payload("import extra\nfrom ansible.module_utils import basic\nbasic.leave(number=extra.NUMBER)\n", "other")
    files["extra.py"] = b"NUMBER = 7\n"
    assert settled.run(files, name="other")[:2] == (0, b'{"number": 7}\n')
    assert gone(waits)
    assert look(settled, **KNOWN)["pid"] != waits


def test_a_waiting_process_that_was_killed_is_replaced(settled):
    waits = spare(settled)
    os.kill(waits, signal.SIGKILL)
    assert gone(waits)
    assert look(settled, **KNOWN)["pid"] != waits
    look(settled, **KNOWN)
    assert spare(settled) != waits


def test_a_waiting_process_that_cannot_wait_is_not_forked_for_ever(monkeypatch, tmp_path):
    note = f"    os.write(os.open({str(tmp_path / 'forked')!r}, os.O_CREAT | os.O_APPEND | os.O_WRONLY), b'x')\n    os._exit(1)\n"
    text = host.zygote_text().replace(b"    sizes = exactly(3, 8)\n", note.encode())
    monkeypatch.setattr(host, "zygote_text", lambda: text)
    with Zygote(sys.executable, source=host.zygote_source()) as zygote:
        look(zygote)
        for _ in range(6):
            look(zygote, **KNOWN)
        for _ in range(20):
            zygote.answer(zygote.send({"do": "ping"}))
    assert 1 <= len((tmp_path / "forked").read_bytes()) <= 6


def test_a_zygote_ends_after_a_waiting_process_that_it_has_told_to_end(settled):
    waits = spare(settled)
    os.kill(waits, signal.SIGSTOP)
    try:
        number = settled.start(payload("import sys\nsys.exit(4)", "other"), name="other")
        assert settled.answer(number)[0]["rc"] == 4
        settled.send({"do": "end"})
        with pytest.raises(subprocess.TimeoutExpired):
            settled.process.wait(0.5)
    finally:
        os.kill(waits, signal.SIGCONT)
    settled.process.wait(20)
    assert not Path(f"/proc/{waits}").exists()


def test_a_waiting_process_ends_before_its_zygote_does(settled):
    waits = spare(settled)
    settled.send({"do": "end"})
    settled.process.wait(20)
    assert not Path(f"/proc/{waits}").exists()  # userdel refuses an account that has a process


def test_a_waiting_process_ends_after_a_zygote_that_was_killed(settled):
    waits = spare(settled)
    os.kill(settled.facts["pid"], signal.SIGKILL)
    assert gone(waits)


def test_a_waiting_process_that_is_killed_with_a_request_that_it_has_not_taken_is_replaced(settled):
    waits = spare(settled)
    os.kill(waits, signal.SIGSTOP)
    number = settled.start(payload(LOOK), **KNOWN)
    settled.answer(settled.send({"do": "ping"}))  # it has handed over the request
    os.kill(waits, signal.SIGKILL)
    rc, out, _ = settled.result(number)
    assert rc == 0
    assert json.loads(out)["pid"] != waits


def test_a_zygote_without_descriptors_says_so_and_leaves_none_open(settled):
    spare(settled)
    pid = settled.facts["pid"]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert look(settled, environment={"MARK": "1"}, **KNOWN)["mark"] == "1"
    os.kill(spare(settled), signal.SIGKILL)
    look(settled, **KNOWN)  # no process waits after this one
    before = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(before) + 3, limits[1]))
    for _ in range(3):
        assert "Too many open files" in settled.answer(settled.start(payload(LOOK), **KNOWN))[0]["refused"]
    assert {int(name) for name in os.listdir(f"/proc/{pid}/fd")} == before
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert look(settled, **KNOWN)["given"] == 0


def test_modules_that_run_at_once_have_a_process_each(settled, tmp_path):
    spare(settled)
    text = f"import time, os\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n" + LEAVE
    slow = settled.start(payload(text, "slow"), name="slow")
    pids = {look(settled, **KNOWN)["pid"] for _ in range(4)}
    assert len(pids) == 4
    (tmp_path / "go").touch()
    assert settled.answer(slow)[0]["rc"] == 0


def test_a_request_that_lacks_something_is_answered_by_the_zygote(settled):
    waits = spare(settled)
    header, _ = settled.answer(settled.start(payload(LOOK), definition=None, send={}, payload="0" * 64))
    assert header["missing"] == ["definition"]
    assert gone(waits)
    header, _ = settled.answer(settled.start(payload(LOOK), environment={"PYTHONPATH": "/x"}, **KNOWN))
    assert "PYTHONPATH" in header["refused"]
    assert look(settled, **KNOWN)["given"] == 0


@pytest.mark.parametrize(
    ("more", "answer"),
    [({"environment": 3}, "refused"), ({"payload": 3}, "missing"), ({"shape": 3}, "rc")],
    ids=["environment", "payload", "shape"],
)
def test_a_request_that_makes_no_sense_is_answered_as_without_a_waiting_process(settled, more, answer):
    spare(settled)
    header, _ = settled.answer(settled.start(payload(LOOK), **{**KNOWN, **more}))
    assert header.get(answer)
    assert look(settled, **KNOWN)["given"] == 0


def test_parameters_end_where_the_request_says(settled):
    waits = spare(settled)
    files = payload(LOOK)
    definition = sorted((path, digest(data)) for path, data in files.items())
    header = {
        "do": "run",
        "payload": digest(repr(definition).encode()),
        "fqn": "ansible.modules.probe",
        "name": "probe",
    }
    rc, out, _ = settled.result(
        settled.send({**header, "shape": "2.16", "params": 12}, b'{"text": ""}{"text": "more"}')
    )
    assert (rc, json.loads(out)["given"]) == (0, 0)
    assert gone(waits)


def test_a_request_that_was_given_back_can_be_cancelled_before(settled):
    """The waiting process has said that the request is not for it, and the zygote learns of both at once."""
    waits = spare(settled)
    os.kill(settled.facts["pid"], signal.SIGSTOP)
    try:
        number = settled.start(payload(LOOK), environment={"PYTHONPATH": "/x"}, **KNOWN)
        settled.send({"do": "cancel", "n": number})
    finally:
        os.kill(settled.facts["pid"], signal.SIGCONT)
    assert settled.answer(number)[0]["rc"] == 137
    assert gone(waits)


def test_a_change_that_is_none_of_this_account_costs_one_waiting_process(elsewhere):  # noqa: F811 - the fixture
    with Zygote(sys.executable) as zygote:
        look(zygote)
        for _ in range(2):
            look(zygote, **KNOWN)
        waits = spare(zygote)
        (elsewhere / "passwd").write_text("new:x:1:1::/:/bin/sh\n")
        assert look(zygote, **KNOWN)["pid"] != waits
        waits = spare(zygote)
        assert look(zygote, **KNOWN)["pid"] == waits


def test_a_change_of_the_account_counts_for_a_waiting_process(elsewhere):  # noqa: F811 - the fixture
    with Zygote(sys.executable) as zygote:
        look(zygote)
        for _ in range(2):
            look(zygote, **KNOWN)
        spare(zygote)
        (elsewhere / "environment").write_text("MARK=1\n")
        header, _ = zygote.answer(zygote.start(payload(LOOK), **KNOWN))
        assert header.get("stale") == "account"
