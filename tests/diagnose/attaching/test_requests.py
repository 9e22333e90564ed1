"""A process is asked for a trace by another one, or by one that is not what it says: both ends of the socket."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from roamlet import diagnose
from roamlet.core import _core
from roamlet.diagnose import dumping
from roamlet.diagnose.attaching import asking, door, encoding, newest, session
from roamlet.diagnose.tracing import Trace
from roamlet.diagnose.tracing.timeline import timeline

EVENTS, HOLD = 1 << 14, 0.01


def is_traced():
    """Whether this process takes a trace."""
    try:
        _core.trace_start("/", 16)
    except RuntimeError:
        return True
    _core.trace_stop()
    return False


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def connected(pid):
    return asking._connected(pid)


def says(connection, **changes):
    request = {"form": asking.FORM, "seconds": 60, "events": EVENTS, "hold": HOLD, **changes}
    connection.sendall(json.dumps(request).encode() + b"\n")


def answer(connection):
    with connection.makefile("rb") as file:
        return json.loads(file.readline())


def test_a_process_is_traced_by_itself(started):
    running = started("works")
    began = []
    parts, forks = asking.ask(running.pid, 0.3, EVENTS, HOLD, lambda: began.append(True))
    (recording,) = encoding.decoded(parts)
    line = timeline(recording)
    assert (began, forks) == ([True], 0)
    assert recording.pid == running.pid
    assert 0.3 <= (recording.stopped - recording.started) / 1e9 < 20
    assert line.messages > 10
    assert {track.name for track in line.tracks.values()} == {"exchange.<locals>.sends", "exchange.<locals>.receives"}
    assert [thread.name for thread in recording.threads] == ["MainThread"]
    assert running.poll() is None


def test_it_may_be_asked_again_and_ends_early_when_told(started):
    running = started("works")
    for _ in range(2):

        def interrupted():
            raise KeyboardInterrupt

        (recording,) = encoding.decoded(asking.ask(running.pid, 3000, EVENTS, HOLD, interrupted)[0])
        assert recording.stopped - recording.started < 100 * 10**9


def test_a_process_that_is_not_prepared_is_left_alone(started):
    running = started("works", "unprepared")
    with pytest.raises(
        RuntimeError, match=rf"process {running.pid} is not prepared for it: start it with ROAMLET_DUMP=1"
    ):
        asking.ask(running.pid, 0.1, EVENTS, HOLD)
    assert running.poll() is None
    assert asking.is_prepared(running.pid) is False


def test_the_environment_prepares_it_too(started):
    running = started("works", "unprepared", ROAMLET_DUMP="1")
    assert encoding.decoded(asking.ask(running.pid, 0.05, EVENTS, HOLD)[0])[0].pid == running.pid


def test_there_is_no_such_process():
    with subprocess.Popen(["true"]) as gone:
        pass
    with pytest.raises(RuntimeError, match=f"there is no process {gone.pid}"):
        asking.ask(gone.pid, 0.1, EVENTS, HOLD)


def test_a_second_asker_is_refused_and_the_first_has_its_trace(prepared):
    with connected(prepared) as first:
        says(first, seconds=2.0)
        file = first.makefile("rb")  # one for all, for lines that come together
        assert json.loads(file.readline()) == {"heard": prepared}
        with pytest.raises(
            RuntimeError, match=f"process {prepared} is being traced already, for process {prepared}: one"
        ):
            asking.ask(prepared, 0.1, EVENTS, HOLD)
        lines = [json.loads(file.readline()) for _ in range(2)]
        parts = [file.read(size) for size in lines[1]["parts"]]
        file.close()
    assert lines[0] == {"began": True}
    assert encoding.decoded(parts)[0].pid == prepared


def test_a_program_that_takes_a_trace_itself_goes_on_with_it(prepared):
    with Trace() as trace:
        with pytest.raises(RuntimeError, match=f"process {prepared}: a trace is being taken already"):
            asking.ask(prepared, 0.1, EVENTS, HOLD)
        assert is_traced()
    assert trace.recordings


def test_the_trace_ends_with_its_asker(prepared):
    with connected(prepared) as connection:
        says(connection)
        until(is_traced)
    until(lambda: not is_traced())
    assert encoding.decoded(asking.ask(prepared, 0.01, EVENTS, HOLD)[0])


def test_an_asker_that_dies_kills_nothing(started):
    running = started("sigpipe_ends_it")
    for _ in range(3):
        connection = connected(running.pid)
        says(connection, seconds=0.001)
        connection.close()
    assert encoding.decoded(asking.ask(running.pid, 0.1, EVENTS, HOLD)[0])
    assert running.poll() is None


def test_an_asker_that_takes_nothing_does_not_keep_it(prepared, monkeypatch):
    monkeypatch.setattr(session, "SLOWEST", 0.05)
    with connected(prepared) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        monkeypatch.setattr(encoding, "encoded", lambda recordings, most: [bytes(1 << 22)])
        says(connection, seconds=0.01)
        monkeypatch.undo()
        until(lambda: _asks(prepared))


def _asks(pid):
    try:
        return asking.ask(pid, 0.01, EVENTS, HOLD)
    except RuntimeError:
        return None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seconds": 0}, "0.0 seconds: a trace takes above 0 and at most 3600"),
        ({"seconds": 1e9}, "at most 3600"),
        ({"seconds": "nan"}, "at most 3600"),
        ({"seconds": None}, "must be a string or a real number"),
        ({"events": 3}, "room for 16 to 16777216 events"),
        ({"events": 1e300}, "room for 16 to 16777216 events"),
        ({"hold": -1}, "a number of seconds from 0.001 to 3600"),
        (
            {"form": "roamlet.trace.99"},
            "runs another version of roamlet, which knows roamlet.trace.1 and not roamlet.trace.99",
        ),
    ],
)
def test_what_it_does_not_do_it_says(prepared, changes, said):
    with connected(prepared) as connection:
        says(connection, **changes)
        with connection.makefile("rb") as file:
            lines = [json.loads(line) for line in file]
    assert said in lines[-1]["refused"]
    assert not is_traced()


def test_garbage_is_refused_and_the_next_one_is_answered(prepared):
    chance = random.Random(22)
    for _ in range(200):
        garbage = chance.randbytes(chance.randrange(40)) + chance.choice(
            [b"", b"\n", b"[" * 3000 + b"\n", b'{"form": 1}\n']
        )
        with connected(prepared) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
    with connected(prepared) as connection, pytest.raises((BrokenPipeError, ConnectionResetError)):
        connection.sendall(bytes(1 << 24))
    assert encoding.decoded(asking.ask(prepared, 0.01, EVENTS, HOLD)[0])


def test_another_user_is_refused(prepared, monkeypatch):
    monkeypatch.setattr(door, "credentials", lambda connection: (1, 12345))
    with pytest.raises(RuntimeError, match=f"process {prepared} answers its own user and root alone"):
        asking.ask(prepared, 0.1, EVENTS, HOLD)


def test_a_socket_of_another_process_is_not_taken_for_its_own(prepared, monkeypatch):
    monkeypatch.setattr(asking.os, "readlink", lambda path: link)
    with open("/proc/self/net/unix") as file:
        found = map(asking.LISTENS.match, map(str.rstrip, file))  # others may listen on this machine
        link = next(f"socket:[{each[1]}]" for each in found if each and f"/{prepared}-" in each[2])
    with subprocess.Popen(["sleep", "100"]) as other:
        with pytest.raises(RuntimeError, match=f"process {other.pid} has it from process {prepared}"):
            asking.ask(other.pid, 0.1, EVENTS, HOLD)
        other.kill()


def test_a_process_that_ends_meanwhile_is_said_so(started):
    running = started("ends_when_told")
    with pytest.raises(RuntimeError, match=f"process {running.pid} has ended meanwhile, or has become another program"):
        asking.ask(running.pid, 60, EVENTS, HOLD, running.is_told)


def test_a_fork_is_counted_and_the_child_has_a_socket_of_its_own(started):
    running = started("forks")
    children = []

    def forks_twice():
        for _ in range(2):
            running.is_told()
            children.extend(facts["pid"] for facts in (running.says(), running.says()) if "child" in facts)
        raise KeyboardInterrupt

    parts, forks = asking.ask(running.pid, 60, EVENTS, HOLD, forks_twice)
    (recording,) = encoding.decoded(parts)
    assert (forks, recording.pid, len(children)) == (2, running.pid, 2)
    assert timeline(recording).messages > 0
    for child in children:
        assert encoding.decoded(asking.ask(child, 0.01, EVENTS, HOLD)[0])[0].pid == child


def test_a_thread_that_keeps_the_gil_is_named(started, monkeypatch):
    monkeypatch.setattr(asking, "ANSWERS", 0.3)
    running = started("keeps_the_gil")
    with pytest.raises(
        RuntimeError, match=r"not answered within 0\.3 seconds: a thread of it keeps the GIL.*`roamlet stacks \d+`"
    ):
        asking.ask(running.pid, 1, EVENTS, HOLD)
    assert running.poll() is None


def test_a_process_that_is_stopped_is_said_to_be(started, monkeypatch):
    monkeypatch.setattr(asking, "ANSWERS", 0.3)
    running = started("works")
    running.send_signal(signal.SIGSTOP)
    while asking._state(running.pid) != "T":  # it could still hear the request until then
        time.sleep(0.001)
    with pytest.raises(RuntimeError, match=r"seconds: it is stopped, and goes on after `kill -CONT \d+`"):
        asking.ask(running.pid, 1, EVENTS, HOLD)
    running.send_signal(signal.SIGCONT)


def test_a_socket_that_lies_in_another_place_is_said_to_be_out_of_reach(prepared, folder):
    (socket_,) = folder.iterdir()
    socket_.rename(folder / "elsewhere")
    with pytest.raises(
        RuntimeError, match=r"cannot be reached: No such file or directory\. If the process is in a container"
    ):
        asking.ask(prepared, 0.1, EVENTS, HOLD)
    (folder / "elsewhere").unlink()


@pytest.mark.parametrize(
    "line",
    [
        *(b"\xff\n", b"[]\n", b"{}\n", b"x" * 100_000, b"[" * 60_000 + b"\n"),
        b'{"heard": 1}\n{"began": 1}\n{"parts": [-1], "forks": 0}\n',
        b'{"heard": 1}\n{"began": 1}\n{"parts": [1e999], "forks": 0}\n',
    ],
)
def test_a_process_that_answers_with_garbage(monkeypatch, line):
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(asking, "_connected", lambda pid: ours)
    with theirs:
        theirs.setblocking(False)
        theirs.sendall(line)
        with pytest.raises(RuntimeError, match="process 4711 has given an answer that makes no sense"):
            asking.ask(4711, 0.1, EVENTS, HOLD)


def test_its_socket_goes_when_it_is_no_longer_prepared(folder):
    diagnose.enable(signal.SIGUSR2)
    assert [re.sub("-.*", "", path.name) for path in folder.iterdir()] == [str(os.getpid())]
    assert folder.stat().st_mode & 0o777 == 0o700
    diagnose.disable(signal.SIGUSR2)
    assert list(folder.iterdir()) == []


def test_sockets_of_processes_that_were_killed_are_swept(started, folder):
    first, second = started("works"), started("works")
    first.kill()
    first.wait()
    (folder / "notes.txt").touch()
    assert len(list(folder.iterdir())) == 3
    third = started("works")
    assert {path.name.partition("-")[0] for path in folder.iterdir()} == {str(second.pid), str(third.pid), "notes.txt"}


def test_a_folder_that_others_may_enter_is_not_used(folder):
    folder.mkdir(0o755)
    folder.chmod(0o755)
    diagnose.enable(signal.SIGUSR2)
    assert list(folder.iterdir()) == []
    assert not asking.is_prepared(os.getpid())
    diagnose.disable(signal.SIGUSR2)


def test_a_long_path_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("x" * 100)))
    assert door._folder() == f"/tmp/roamlet-{os.geteuid()}"


def test_dumps_come_while_a_trace_is_taken(prepared, monkeypatch):
    dumped = threading.Event()
    monkeypatch.setattr(dumping, "dump", lambda file: dumped.set())
    with connected(prepared) as connection:
        says(connection)
        until(is_traced)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert dumped.wait(20)
    until(lambda: not is_traced())


def test_it_is_prepared_by_a_script_where_both_have_remote_exec(folder, monkeypatch):
    def stands_in(pid, path):
        assert pid == os.getpid()
        with open(path) as file:
            exec(file.read(), {})

    monkeypatch.setattr(newest, "remote_exec", stands_in)
    newest.prepare(os.getpid())
    try:
        assert encoding.decoded(asking.ask(os.getpid(), 0.01, EVENTS, HOLD)[0])
    finally:
        dumping._listeners.pop().stop()
    assert not [path for path in folder.parent.iterdir() if path.suffix == ".py"]


@pytest.mark.pythons((3, 14), (3, 99), reason="sys.remote_exec() came with 3.14")
def test_an_unprepared_process_is_prepared_by_the_real_one(started):
    running = started("works", "unprepared")
    newest.prepare(running.pid)
    assert encoding.decoded(asking.ask(running.pid, 0.1, EVENTS, HOLD)[0])[0].pid == running.pid


def test_a_process_that_does_not_run_the_script_is_said_to_hang(folder, monkeypatch):
    monkeypatch.setattr(newest, "remote_exec", lambda pid, path: None)
    monkeypatch.setattr(newest, "PATIENCE", 0.05)
    with pytest.raises(
        RuntimeError, match="has not run what would prepare it within 0.05 seconds: its main thread does not come"
    ):
        newest.prepare(os.getpid())


def test_refusals_of_remote_exec(folder, monkeypatch):
    def refuses(kind, *args):
        def raises(pid, path):
            raise kind(*args)

        return raises

    monkeypatch.setattr(newest, "remote_exec", refuses(PermissionError, 1, "Operation not permitted"))
    with pytest.raises(RuntimeError, match=r"sys\.remote_exec\(\) was refused: Operation not permitted"):
        newest.prepare(os.getpid())
    monkeypatch.setattr(newest, "remote_exec", refuses(RuntimeError, "another version"))
    newest.prepare(os.getpid())
    assert list(folder.parent.iterdir()) == []
