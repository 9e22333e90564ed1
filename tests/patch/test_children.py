"""The area `subprocess`: a child ends, or says something, only when a tasklet of the waiting thread has done its part."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

import pytest

import roamlet
from roamlet.patch.areas import children

# Taken before the area is in place: subprocess.Popen stays the class that it is.
EarlyPopen = Popen


@pytest.fixture(autouse=True)
def children_in_place(in_place):
    in_place(children)


@pytest.fixture
def held_child():
    """Start children that end with the status 3 when `release()` is called."""
    read_fd, write_fd = os.pipe()
    numbers = []

    def start():
        words = ["sh", "-c", "read line; exit 3"]
        numbers.append(os.posix_spawn("/bin/sh", words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, read_fd, 0)]))
        return numbers[-1]

    def release():
        os.write(write_fd, b"\n" * len(numbers))

    start.release = release
    yield start
    os.close(read_fd)
    os.close(write_fd)


def by_pidfd(pid):
    fd = os.pidfd_open(pid)
    try:
        return os.waitid(os.P_PIDFD, fd, os.WEXITED)
    finally:
        os.close(fd)


WAITS = {
    "waitpid": lambda pid: os.waitpid(pid, 0),
    "waitpid of any": lambda pid: os.waitpid(-1, 0),
    "waitpid of the group": lambda pid: os.waitpid(0, 0),
    "waitpid, stopped too": lambda pid: os.waitpid(pid, os.WUNTRACED),
    "wait": lambda pid: os.wait(),
    "wait3": lambda pid: os.wait3(0)[:2],
    "wait4": lambda pid: os.wait4(pid, 0)[:2],
    "wait4 by names": lambda pid: os.wait4(pid=pid, options=0)[:2],
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_functions_of_os_wait_for_a_child_that_a_tasklet_ends(held_child, wait):
    pid = held_child()
    roamlet.tasklet(held_child.release)()
    assert wait(pid) == (pid, 3 << 8)


WAITIDS = {
    "one": lambda pid: os.waitid(os.P_PID, pid, os.WEXITED),
    "any": lambda pid: os.waitid(os.P_ALL, 0, os.WEXITED),
    "a descriptor": by_pidfd,
}


@pytest.mark.parametrize("wait", WAITIDS.values(), ids=WAITIDS)
def test_waitid_waits_for_a_child_that_a_tasklet_ends(held_child, wait):
    pid = held_child()
    roamlet.tasklet(held_child.release)()
    found = wait(pid)
    assert (found.si_pid, found.si_code, found.si_status) == (pid, os.CLD_EXITED, 3)


def test_a_child_that_stops_is_noticed(held_child):
    pid = held_child()
    roamlet.tasklet(os.kill)(pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    roamlet.tasklet(os.kill)(pid, signal.SIGCONT)
    assert os.WIFCONTINUED(os.waitpid(pid, os.WCONTINUED)[1])
    held_child.release()
    assert os.waitpid(pid, 0)[0] == pid


def test_waits_that_do_not_wait_and_wrong_calls_are_the_originals(held_child):
    pid = held_child()
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is None
    held_child.release()
    os.waitpid(pid, 0)
    for call in (
        lambda: os.waitpid(pid, 0),
        os.wait,
        lambda: os.wait3(0),
        lambda: os.waitid(os.P_PID, pid, os.WEXITED),
    ):
        with pytest.raises(ChildProcessError):
            call()
    for wrong in (
        lambda: os.waitpid("1", 0),
        lambda: os.waitpid(1),
        lambda: os.waitpid(pid=pid, options=0),
        lambda: os.waitpid(pid, options=0),
        lambda: os.wait3(0, options=0),
        lambda: os.wait4(pid, 0, other=0),
        lambda: os.wait3("x"),
        lambda: os.waitid(0, 0, "x"),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_system_returns_the_wait_status(tmp_path):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    both = os.open(fifo, os.O_RDWR)
    roamlet.tasklet(os.write)(both, b"\n")
    assert os.system(f"read line < '{fifo}'; exit 3") == 3 << 8
    assert os.system(b"kill -9 $$") == signal.SIGKILL
    os.close(both)
    with pytest.raises(TypeError):
        os.system(None)
    with pytest.raises(ValueError, match="null"):
        os.system("a\0b")


def test_system_kills_its_shell_with_its_tasklet():
    waiting = roamlet.tasklet(os.system)("exec sleep 1000")
    roamlet.schedule()
    waiting.kill()
    assert not waiting.alive


def test_system_has_waited_for_its_shell_when_a_signal_handler_raises(tmp_path):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    both = os.open(fifo, os.O_RDWR)

    def raises(*_):
        raise LookupError("of the handler")

    before = signal.signal(signal.SIGUSR1, raises)
    try:
        roamlet.tasklet(os.write)(both, b"\n")
        with pytest.raises(LookupError, match="of the handler"):
            os.system(f"kill -USR1 $PPID; read line < '{fifo}'")
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(both)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_popen_of_os_reads_and_closes(tmp_path):
    with os.popen("echo line; exit 2") as pipe:
        assert pipe.read() == "line\n"
    assert os.waitstatus_to_exitcode(os.popen("exit 2").close()) == 2


# ---- subprocess ----


@pytest.mark.parametrize("kind", [EarlyPopen, type("Derived", (Popen,), {})])
def test_every_popen_waits_for_its_tasklet_alone(kind):
    with kind(["cat"], stdin=PIPE, stdout=DEVNULL) as child:
        roamlet.tasklet(child.stdin.close)()
        assert child.wait() == 0


def test_a_pipe_is_read_while_a_tasklet_makes_the_child_write():
    with Popen(["cat"], stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as child:
        roamlet.tasklet(child.stdin.write)("line\n")
        assert child.stdout.readline() == "line\n"
        roamlet.tasklet(child.stdin.close)()
        assert child.stdout.read() == ""


@pytest.mark.parametrize("bufsize", [-1, 0, 100])
def test_a_full_pipe_is_written_while_a_tasklet_reads_the_other(bufsize):
    data, heard = bytes(range(256)) * 4000, []
    with Popen(["cat"], stdin=PIPE, stdout=PIPE, bufsize=bufsize) as child:
        reading = roamlet.tasklet(lambda: heard.append(child.stdout.read()))()
        child.stdin.write(data)
        child.stdin.close()
        while reading.alive:
            roamlet.sleep(0.001)
    assert heard == [data]


def test_communicate_moves_more_than_the_pipes_hold():
    data = b"0123456789" * 100_000
    done = subprocess.run(["sh", "-c", "tee /dev/stderr"], input=data, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (data, data)
    assert subprocess.check_output(["cat"], input="é\n", encoding="utf-8") == "é\n"


def test_the_files_are_those_of_io_and_keep_their_descriptors_blocking():
    with Popen(["cat"], stdin=PIPE, stdout=PIPE) as child:
        assert (type(child.stdin), type(child.stdout)) == (io.BufferedWriter, io.BufferedReader)
        assert os.get_blocking(child.stdin.fileno()) and os.get_blocking(child.stdout.fileno())
        assert isinstance(child.stdout.raw, io.FileIO) and child.stdout.name == child.stdout.fileno()
    with Popen(["cat"], stdin=PIPE, stdout=PIPE, bufsize=0) as child:
        assert isinstance(child.stdin, io.RawIOBase)
        os.set_blocking(child.stdout.fileno(), False)
        assert child.stdout.read(1) is None
        assert child.stdin.write(b"") == 0
        with pytest.raises(io.UnsupportedOperation):
            child.stdin.read(1)
    with pytest.raises(ValueError, match="closed"):
        child.stdin.write(b"x")


def test_one_childs_output_is_anothers_input():
    with Popen(["echo", "through"], stdout=PIPE) as first, Popen(["cat"], stdin=first.stdout, stdout=PIPE) as second:
        first.stdout.close()
        assert second.communicate() == (b"through\n", None)


def test_closing_a_pipe_ends_the_wait_for_it():
    with Popen(["cat"], stdin=PIPE, stdout=PIPE, bufsize=0) as child:
        errors = []

        def reads():
            try:
                child.stdout.read(1)
            except OSError as error:
                errors.append(error.args[0])

        reading = roamlet.tasklet(reads)()
        roamlet.schedule()
        child.stdout.close()
        while reading.alive:
            roamlet.schedule()
    assert errors == [9]


def test_a_pipe_that_is_never_closed_is_warned_about():
    child = Popen(["true"], stdout=PIPE)
    child.wait()
    with pytest.warns(ResourceWarning, match="unclosed file"):
        child.stdout = None


def test_time_outs_are_the_standard_librarys(held_child):
    with Popen(["sleep", "1000"]) as child:
        with pytest.raises(TimeoutExpired) as caught:
            child.wait(0.001)
        assert (caught.value.cmd, caught.value.timeout) == (["sleep", "1000"], 0.001)
        del caught  # it refers to this frame
        for timeout in (0, -1):
            with pytest.raises(TimeoutExpired):
                child.wait(timeout)
        child.kill()
        assert child.wait(100) == -signal.SIGKILL
    with pytest.raises(TimeoutExpired):
        subprocess.run(["sleep", "1000"], timeout=0.01, check=False)


def test_two_tasklets_wait_for_one_child():
    codes = []
    with Popen(["cat"], stdin=PIPE) as child:
        for _ in range(2):
            roamlet.tasklet(lambda: codes.append(child.wait()))()
        roamlet.schedule()
        child.stdin.close()
        child.wait()
        while len(codes) < 2:
            roamlet.schedule()
    assert codes == [0, 0]


def test_what_ends_the_tasklet_in_run_ends_the_child():
    made = []

    class Noted(Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    def runs():
        with Noted(["sleep", "1000"], stdout=PIPE) as child:
            child.communicate()

    running = roamlet.tasklet(runs)()
    roamlet.schedule()
    running.kill()
    while running.alive:  # it reaps the child
        roamlet.schedule()
    with contextlib.suppress(TimeoutError), roamlet.timeout(0.001):
        runs()
    assert [child.returncode for child in made] == [-signal.SIGKILL] * 2
    made.clear()  # the class is a cycle that knows the list


def test_a_child_waits_in_its_preexec_fn_for_a_tasklet():
    read_fd, write_fd = os.pipe()
    roamlet.tasklet(os.write)(write_fd, b"x")
    done = subprocess.run(["true"], preexec_fn=lambda: os.read(read_fd, 1), check=False)
    assert done.returncode == 0
    killed = roamlet.tasklet(Popen)(["true"], preexec_fn=lambda: os.read(read_fd, 1))
    roamlet.schedule()
    killed.kill()
    assert not killed.alive
    with pytest.raises(subprocess.SubprocessError, match="Exception occurred in preexec_fn"):
        subprocess.run(["true"], preexec_fn=lambda: 1 / 0, check=False)
    os.close(read_fd)
    os.close(write_fd)


def test_a_child_that_nobody_can_wait_for_has_ended():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert Popen(["true"]).wait() == 0
        assert os.system("true") == -1
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_programs_that_cannot_be_started_leave_nothing():
    with pytest.raises(FileNotFoundError):
        Popen(["/does/not/exist"], stdin=PIPE, stdout=PIPE)
    with pytest.raises(PermissionError):
        Popen([os.path.dirname(sys.executable)])
