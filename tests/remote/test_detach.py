"""Functions that go on without their context and without the parent, and what prevents that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import roamlet_detach_sent as sent
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.opening import detach
from roamlet.sync._outcome import TaskletKilled
from tests.remote import interpreters
from tests.remote.inside import calls_of
from tests.remote.raising import raises
from tests.remote.stopping import gone

SENT = str(Path(__file__).parent / "sent")
OLDEST = next(iter(interpreters.found().values()))
EVERYWHERE = [f"local-{name}" for name in interpreters.found()] + [f"ssh-{next(iter(interpreters.found()))}"]


@pytest.fixture
def fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture(scope="module")
def context():
    with remote.local() as context:
        yield context


def write_a_word(fifo):
    """Let the process go on that waits to read this."""
    while True:
        try:
            fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:  # the reader has not opened it yet
            roamlet.sleep(0.005)
    os.write(fd, b"go\n")
    os.close(fd)


def ended(pid):
    return gone(pid, seconds=30)


@pytest.mark.parametrize("target", EVERYWHERE, indirect=True)
def test_it_goes_on_without_its_context(target, fifo, tmp_path):
    result = tmp_path / "result"
    with target.open() as context:
        pid = context.detach(sent.wait_and_write, (str(fifo), str(result)))
        hop = context.facts.pid
        assert context.call(roamlet_sent.children) == []  # no process has to wait for it
        assert context.call(sent.streams_of_router) == (0, 0)
    assert gone(hop)
    assert not gone(pid, seconds=0)
    write_a_word(fifo)
    assert ended(pid)
    word, its_pid, leads_session, thread, files, late, interruptible = result.read_text().split("\n")
    assert (word, its_pid, leads_session, thread) == ("go", str(pid), "True", "MainThread")
    assert files == "anon_inode pipe pipe pipe"  # what its threads have waited with
    assert (late, interruptible) == ("roamlet_kinds", "True")


PARENT = """
import sys
sys.path.append({sent!r})
import roamlet_detach_sent as sent
from roamlet import remote
context = remote.{opening}
print(context.detach(sent.wait_and_write, ({fifo!r}, {result!r})), flush=True)
sys.stdin.read()
"""


def test_it_goes_on_when_its_parent_is_killed(own_target, fifo, tmp_path):
    opening = "local()"
    if own_target.sshd is not None:
        opening = f"ssh({own_target.sshd.host!r}, ssh_args={own_target.sshd.ssh_args!r}, python={sys.executable!r})"
    result = tmp_path / "result"
    program = PARENT.format(sent=SENT, opening=opening, fifo=str(fifo), result=str(result))
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        parent.stdin.close()
    assert not gone(pid, seconds=0)
    write_a_word(fifo)
    assert ended(pid)
    assert result.read_text().startswith(f"go\n{pid}\n")


@pytest.mark.parametrize("python", [None, OLDEST], ids=["own", "oldest"])
def test_what_it_prints_and_raises_is_appended_to_the_output(python, tmp_path):
    output = tmp_path / "out put"
    output.write_text("before\n")
    with remote.local(python) as context:
        assert ended(context.detach(sent.print_and_raise, ("printed caf\xe9",), output=output))
        lines = output.read_text("utf-8").split("\n")
        assert lines[:4] == ["before", "printed caf\xe9", "to stderr", "Traceback (most recent call last):"]
        assert 'raise ValueError("no good")' in lines[5]
        assert "roamlet_detach_sent.py" in lines[4]
        assert lines[-2:] == ["ValueError: no good", ""]
        assert "detached" not in "".join(lines[4:])  # no frame of ours
        output.unlink()
        assert ended(context.detach(sent.log_and_exit, ("said at the end",), output=str(output)))
        assert output.read_text() == "WARNING logged\nby a program\nsaid at the end\n"


def test_threads_and_exit_handlers_are_those_of_any_program(context, tmp_path):
    assert ended(context.detach(sent.outlive_by_thread, (str(tmp_path / "result"),)))
    assert (tmp_path / "result").read_text() == "'MainThread'"
    assert (tmp_path / "result.exit").read_text() == "'exit'"


def test_its_children_may_fork_in_turn(context, tmp_path):
    output = tmp_path / "output"
    assert ended(context.detach(sent.fork_twice, (str(tmp_path / "result"),), output=output))
    assert output.read_text() == ""
    assert [file.read_text() for file in tmp_path.glob("result*")] == ["x"] * 8
    with remote.local(via=context):  # neither do those of an intermediary close what is not theirs
        context.call(sent.fork_twice, (str(tmp_path / "second"),))
        assert [file.read_text() for file in tmp_path.glob("second*")] == ["x"] * 8


def test_extension_modules_go_along_though_they_are_imported_later(tmp_path):
    numpy = pytest.importorskip("numpy")
    result, output = tmp_path / "result", tmp_path / "output"
    with remote.local(getattr(sys, "_base_executable", sys.executable)) as context:
        if "numpy" in context.facts.packages:
            pytest.skip("the interpreter has a numpy of its own")
        assert ended(context.detach(sent.solve, (str(result),), output=output))
    assert output.read_text() == ""
    assert result.read_text() == f"[2.0, 3.0] roamlet:{numpy.__file__}"


def test_what_did_not_come_along_is_an_error_that_says_so(context, tmp_path):
    output = tmp_path / "output"
    assert ended(context.detach(sent.import_by_name, ("roamlet_stays",), output=output))
    assert "this process was detached, and only what had come by then is here" in output.read_text()
    assert "roamlet_stays" in output.read_text()


def test_values_of_all_kinds_go_along(context, tmp_path):
    word = "a closure"

    def write(result):
        with open(result, "w") as out:
            out.write(word)

    result = tmp_path / "result"
    assert ended(context.detach(write, (str(result),)))
    assert result.read_text() == "a closure"
    assert ended(context.detach(sent.Point([1, 2]).write, kwargs={"result": str(result)}))
    assert result.read_text() == "[1, 2]"
    assert ended(context.detach(sent.write, (str(result), bytearray(20 << 20))))
    assert result.stat().st_size > 20 << 20


def test_behind_another_context_and_where_calls_are_tasklets(fifo, tmp_path):
    result = tmp_path / "result"
    with remote.local() as hop, remote.local(via=hop, tasklets=True) as context:
        pid = context.detach(sent.wait_and_write, (str(fifo), str(result)))
        assert hop.call(sent.streams_of_router) == (1, 1)  # of the context
    write_a_word(fifo)
    assert ended(pid)
    assert result.read_text().startswith(f"go\n{pid}\n")


def test_channels_and_contexts_are_refused_by_name_before_anything_starts(context):
    began = context.stats.calls
    for channel in (roamlet.channel(), roamlet.channel(1)):
        with raises(
            remote.CannotTravel,
            match=r"roamlet_sent.echo was not detached from 'local': args\[0\]\['jobs'\] is a channel, and channels end with their "
            "context",
        ) as caught:
            context.detach(roamlet_sent.echo, ({"jobs": channel},))
        assert caught.value.path == "args[0]['jobs']"
    with raises(remote.CannotTravel, match=r"args\[0\] cannot travel: it is a Context; contexts stay"):
        context.detach(roamlet_sent.echo, (context,))
    with raises(TypeError, match="args must be a tuple or a list"):
        context.detach(roamlet_sent.echo, "text")
    with raises(TypeError, match="expected str, bytes or os.PathLike"):
        context.detach(roamlet_sent.nothing, output=3)
    for output in ("", "a\0b", b"bytes"):
        with raises(ValueError, match="output must be the path of a file on the target, or None, not"):
            context.detach(roamlet_sent.nothing, output=output)
    for timeout in (0, -1, None, "10", True, float("nan")):
        with raises(ValueError, match="timeout must be a number of seconds above 0, not"):
            context.detach(roamlet_sent.nothing, timeout=timeout)
    assert context.stats.calls == began
    assert context.call(roamlet_sent.children) == []


@pytest.mark.parametrize("python", [None, OLDEST], ids=["own", "oldest"])
def test_an_output_that_cannot_be_written_is_told_and_nothing_runs(python, fifo, tmp_path):
    result = str(tmp_path / "result")
    with remote.local(python) as context:
        with raises(FileNotFoundError, match="no_folder"):
            context.detach(sent.write, (result, 1), output=tmp_path / "no_folder" / "file")
        with raises(IsADirectoryError):
            context.detach(sent.write, (result, 1), output=tmp_path)
        with raises(OSError, match="No such device or address"):  # a pipe without a reader
            context.detach(sent.write, (result, 1), output=fifo)
        assert context.call(roamlet_sent.children) == []
    assert not os.path.exists(result)


def test_a_module_that_fails_there_is_told_and_nothing_is_left(context, monkeypatch, tmp_path):
    monkeypatch.setenv("ROAMLET_TEST_IMPORTS_HERE", "1")
    import roamlet_fails_when_imported

    monkeypatch.delenv("ROAMLET_TEST_IMPORTS_HERE")
    with remote.local() as context:  # with the environment of now
        with raises(RuntimeError, match="cannot be imported"):
            context.detach(roamlet_fails_when_imported.work, output=tmp_path / "output")
        assert context.call(roamlet_sent.children) == []
    assert not (tmp_path / "output").exists()


def test_a_link_that_breaks_after_the_order_leaves_the_outcome_unknown(context, monkeypatch):
    monkeypatch.setattr(detach.detached, "let_go", sent.die)
    with raises(remote.ContextDied, match="exit code 7") as caught:
        context.detach(roamlet_sent.nothing)
    assert "Whether it goes on there, as process" in caught.value.__notes__[0]
    assert context.call(roamlet_sent.children) == []


def test_a_tasklet_that_is_killed_before_the_order_leaves_nothing(context, monkeypatch):
    started = []

    def connect(*args, **options):
        started.append(_connect(*args, **options))
        return started[0]

    _connect = detach.connect
    monkeypatch.setattr(detach, "connect", connect)
    monkeypatch.setattr("roamlet.remote.shipping.shipping.Shipping.settle", lambda self, deadline: roamlet.sleep(1000))
    detaching = roamlet.spawn(context.detach, (roamlet_sent.never_return,))
    while not started or not started[0].link.calls:
        roamlet.sleep(0.005)
    detaching.kill()
    with raises(TaskletKilled):
        detaching.join()
    assert gone(started[0].facts.pid)
    assert context.call(roamlet_sent.children) == []


def test_a_context_that_has_ended_detaches_nothing():
    with remote.local() as context:
        pass
    with raises(remote.ContextClosed, match=r"detach\(\) of roamlet_sent.nothing was not sent"):
        context.detach(roamlet_sent.nothing)


def test_an_interpreter_that_is_gone_is_told(monkeypatch):
    with remote.local() as context:
        monkeypatch.setattr(calls_of(context), "facts", roamlet_sent_facts(context.facts))
        with raises(remote.NoPython, match="no interpreter '/no/python' on 'local'"):
            context.detach(roamlet_sent.nothing)


def roamlet_sent_facts(facts):
    from dataclasses import replace

    return replace(facts, executable="/no/python")
