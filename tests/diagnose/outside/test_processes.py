"""Processes read from outside, beside their own reports: hung, idle and busy ones, and those that cannot be read."""

import ctypes
import os
import platform
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from roamlet.core import backend
from roamlet.diagnose import model, render
from roamlet.diagnose.attaching import asking
from roamlet.diagnose.outside import CannotRead, cycles, read_process, reading
from roamlet.diagnose.outside.errors import Torn
from roamlet.diagnose.outside.following import Followed
from roamlet.diagnose.outside.system import memory
from roamlet.diagnose.outside.system.finding import find_processes
from roamlet.diagnose.outside.system.memory import explained
from roamlet.diagnose.outside.system.stopping import Stopped, activity
from roamlet.diagnose.outside.table import MODULE, NoTable, find_table
from tests.diagnose.outside import conftest
from tests.diagnose.outside.conftest import part_of, state_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")
frames_seen = pytest.mark.backends(
    "native", reason="greenlet's own structs are its own: no frames of suspended tasklets"
)

UNDISTURBED = "undisturbed: none of its threads ran meanwhile"


def rows(process):
    return {tasklet.id: tasklet for _, tasklet in process.tasklets()}


def named(process, name):
    return [tasklet for _, tasklet in process.tasklets() if tasklet.name == name]


def stack_of(tasklet):
    return [[frame.function, frame.file, frame.line] for frame in tasklet.frames]


@pytest.mark.parametrize("how", ["sleep", "re"])
def test_a_process_that_keeps_the_gil_for_ever_shows_all_that_it_shows_itself(started, how):
    running = started("kinds", how)
    if how == "sleep":
        running.sleeps()
    process = read_process(running.pid)
    found = rows(process)
    assert len(running.facts["tasklets"]) == 15
    for number, (text, stack) in running.facts["tasklets"].items():
        tasklet = found.pop(int(number))
        assert f"<roamlet.tasklet {tasklet.name}, " in text or f"Spawned {tasklet.name}, " in text
        if tasklet.state == model.RUNNING:
            assert [frame.function for frame in tasklet.frames][-2:] == ["hang", "kinds.<locals>.stuck"]
        elif backend != "greenlet" and not tasklet.main:
            assert stack_of(tasklet) == stack
    (unborn,) = found.values()
    assert (unborn.id, unborn.name, unborn.state, unborn.frames) == (running.facts["unborn"], "never", model.NEW, ())
    assert (process.how == UNDISTURBED) == (
        how == "sleep"
    )  # what runs in `re` has to be stopped, for some milliseconds
    (thread,) = process.threads
    assert (thread.main, thread.native_id, thread.holds_gil) == (True, running.pid, True)
    assert thread.state == ("sleeping" if how == "sleep" else "running")


def test_what_each_tasklet_waits_for(started):
    running = started("kinds", "sleep")
    found = rows(read_process(running.pid))
    waits = [found[number].wait for number in running.facts["made"]]
    assert [wait.kind for wait in waits] == [
        *(
            model.RECEIVE,
            model.TIMER,
            model.SELECT,
            model.LOCK,
            model.RECEIVE,
            model.LOCK,
            model.SEMAPHORE,
            model.EVENT,
        ),
        *(model.CONDITION, model.SEND, model.READ, model.WAKEUP, model.RECEIVE),
    ]
    assert 900 < waits[1].due <= 1000
    assert len(waits[2].channels) == 2
    assert waits[5].owner == running.facts["made"][4]  # of the RLock
    assert waits[0].address == waits[4].address == waits[12].address
    assert waits[0].others == 2
    assert [wait.buffer for wait in (waits[0], waits[9])] == [0, 1]
    assert waits[9].text.endswith(" (its buffer of 1 is full)")
    assert os.readlink(f"/proc/{running.pid}/fd/{waits[10].descriptor}").startswith("pipe:")
    assert found[running.facts["made"][12]].name == "outer"  # what spawn() was given
    assert [found[number].name for number in running.facts["made"]][3:4] == ["Lock.acquire"]


def test_what_is_at_the_other_end_of_descriptors(started):
    running = started("descriptors")
    try:
        found = rows(read_process(running.pid))
        waits = {name: found[number].wait for name, number in running.facts["ends"].items()}
        port = running.facts["port"]
        assert {wait.kind for wait in waits.values()} == {model.READ}
        assert waits["listener"].peer == f"connections to 127.0.0.1:{port}"
        assert waits["client"].peer == f"127.0.0.1:{port}"
        assert waits["pair"].peer == "a socket without a name"
        assert waits["pipe"].peer.startswith("pipe ")
        assert waits["process"].process == running.facts["child"]
    finally:
        os.kill(running.facts["child"], 9)


def test_names_that_are_no_text_hide_nothing(started, tmp_path):
    running = started("strange_names", str(tmp_path))
    running.sleeps()
    assert running.pid in find_processes()
    process = read_process(running.pid)
    (wait,) = (tasklet.wait for _, tasklet in process.tasklets() if not tasklet.main)
    assert wait.peer == "a socket without a name"
    assert process.threads[0].name == "MainThread"
    assert activity(running.pid) is not None
    assert not asking.is_prepared(running.pid)
    assert "\n" not in render.summary(process)


def test_many_blocked_tasklets_are_all_there(started):
    running = started("blocked", "20000")
    running.sleeps()
    process = read_process(running.pid)
    outer = named(process, "outer")
    assert len(outer) == 20_000
    assert len({tasklet.id for tasklet in outer}) == 20_000
    assert len({tasklet.frames for tasklet in outer}) == 1
    if backend != "greenlet":
        assert [frame.function for frame in outer[0].frames] == ["inner", "middle", "outer"]
    assert {tasklet.wait.others for tasklet in outer} == {19_999}
    assert process.threads[0].scheduler.idle
    assert process.how == UNDISTURBED


def test_tasklets_that_are_alike_have_times_of_their_own(started):
    running = started("sleepers")
    process = read_process(running.pid)
    found = rows(process)
    assert len(running.facts["began"]) == 5
    for number, (began, seconds) in running.facts["began"].items():
        wait = found[int(number)].wait
        waited = process.moment - began
        assert wait.kind == model.TIMER
        assert wait.due == pytest.approx(seconds - waited, abs=0.02)
        assert wait.since == pytest.approx(waited, abs=0.02)
    (main,) = named(process, "main")
    assert (main.state, main.wait) == (model.IN_RUN, None)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the number of a system call is needed")
def test_a_thread_that_was_in_the_kernel_goes_on_when_it_comes_back(started):
    running = started("in_the_kernel")

    def states():
        return {state_of(running.pid, int(tid)) for tid in os.listdir(f"/proc/{running.pid}/task")}

    while "D" not in states():
        time.sleep(0.001)
    for _ in range(2):
        assert "from one moment" in read_process(running.pid).how
    assert "D" in states()
    end = time.monotonic() + 20
    while "D" in states():
        assert time.monotonic() < end
        time.sleep(0.001)
    assert "t" not in states()
    read_process(running.pid)


@frames_seen
def test_what_could_end_a_wait_is_found_once_for_all_that_wait_alike(started, monkeypatch):
    running = started("blocked", "300")
    running.sleeps()
    asked = []
    alike = cycles._waits_alike
    monkeypatch.setattr(cycles, "_waits_alike", lambda other, wait: asked.append(other) or alike(other, wait))
    assert len(named(read_process(running.pid), "outer")) == 300
    assert 300 <= len(asked) <= 301


def test_an_idle_process_is_never_stopped(started, monkeypatch):
    running = started("blocked", "10")
    running.sleeps()

    def refused(self):
        raise AssertionError("it was stopped")

    monkeypatch.setattr(Stopped, "__enter__", refused)
    for _ in range(50):
        assert read_process(running.pid).how == UNDISTURBED


@pytest.mark.parametrize("kind", ["RLock", pytest.param("Lock", marks=frames_seen)])
def test_a_deadlock_among_three_while_others_go_on(started, kind):
    running = started("deadlock", kind)
    process = read_process(running.pid)
    found = rows(process)
    made = running.facts["made"]
    owners = [found[number].wait.owner for number in made]
    assert owners == [made[index] for index in (1, 2, 0)]
    (cycle,) = process.cycles
    assert cycle.sure
    assert {step.tasklet: step.next for step in cycle.steps} == dict(zip(made, owners, strict=True))
    assert "which deadlock.<locals>.transfer holds" in cycle.text
    assert len(named(process, "deadlock.<locals>.ticker")) == 1


def test_threads_with_and_without_tasklets(started):
    running = started("threads")
    running.sleeps()
    process = read_process(running.pid)
    assert [len(thread.scheduler.tasklets) if thread.scheduler else None for thread in process.threads] == [2, 2, None]
    assert [thread.main for thread in process.threads] == [True, False, False]
    assert process.threads[2].frames[0].function == "threads.<locals>.without"
    assert {thread.native_id for thread in process.threads} == {
        int(tid) for tid in os.listdir(f"/proc/{running.pid}/task")
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="making a PID namespace takes root")
def test_threads_of_a_container_are_found_by_the_numbers_that_they_have_outside(started, monkeypatch):
    monkeypatch.setattr(conftest, "PYTHON", ["unshare", "--pid", "--fork", "--kill-child", sys.executable])
    running = started("threads")
    with open(f"/proc/{running.pid}/task/{running.pid}/children") as children:
        pid = int(children.read())
    process = read_process(pid)
    assert [thread.main for thread in process.threads] == [True, False, False]
    assert {thread.native_id for thread in process.threads} == {int(tid) for tid in os.listdir(f"/proc/{pid}/task")}
    assert {thread.state for thread in process.threads} <= {"sleeping", "running"}
    assert next(thread.native_id for thread in Followed(pid).counters().threads) == pid


def test_tasklets_are_below_the_one_whose_scope_they_were_spawned_in(started):
    running = started("scopes")
    children = named(read_process(running.pid), "scopes.<locals>.child")
    assert [child.parent for child in children] == [running.facts["parent"]] * 2


@frames_seen
def test_local_variables_only_where_they_are_asked_for(started):
    running = started("with_locals")
    running.sleeps()
    (tasklet,) = named(read_process(running.pid), "with_locals.<locals>.variables")
    assert tasklet.frames[0].locals is None
    (tasklet,) = named(read_process(running.pid, with_locals=True), "with_locals.<locals>.variables")
    found = dict(tasklet.frames[0].locals)
    assert found["text"] == "'secret'"
    assert found["number"] == str(-(2**70))
    assert [found[name] for name in ("flag", "nothing", "real", "data")] == ["True", "None", "1.5", "b'bytes'"]
    assert found["several"] == "[1, 'two', (...), None, ... of 6]"
    assert (found["few"], found["mapping"], found["captured"]) == ("(1,)", "<dict of 1>", "12")
    assert found["inside"] == "<function with_locals.<locals>.variables.<locals>.inside>"


# ---- processes that run ----


def wrong_rows(process):
    """What cannot be of tasklets of the program `busy`."""
    for _, tasklet in process.tasklets():
        names = [frame.function for frame in tasklet.frames]
        last = {"outer": "outer", "busy.<locals>.born": "busy.<locals>.born", "main": "<module>"}.get(tasklet.name)
        if tasklet.state == model.NEW:
            if names:
                yield f"frames of one that has not run: {tasklet}"
        elif last is None:
            yield f"no name of the program's: {tasklet}"
        elif backend != "greenlet" and (not names or names[-1] != last):
            yield f"the stack of another one: {tasklet}"
        elif tasklet.state == model.PAUSED or (
            tasklet.state == model.BLOCKED and tasklet.wait.kind not in (model.RECEIVE, model.SEND)
        ):
            yield f"a state that none has: {tasklet}"
        elif (
            backend != "greenlet"
            and tasklet.name == "outer"
            and tasklet.state == model.BLOCKED
            and names != ["inner", "middle", "outer"]
        ):
            yield f"the stack of outer: {tasklet}"


def read_whatever_traces(running):
    """Read it, again and again as long as a tracer that is not ours has it: `roamlet ps` without a PID looks at all processes."""
    while True:
        try:
            return read_process(running.pid)
        except CannotRead as error:
            if "traces it already" not in str(error):
                raise


def read_many(running, count):
    for _ in range(count):
        process = read_whatever_traces(running)
        assert list(wrong_rows(process)) == []
        assert process.problems == ([] if backend != "greenlet" else process.problems[:1])
        running_ones = [tasklet for _, tasklet in process.tasklets() if tasklet.state == model.RUNNING]
        assert len(running_ones) == 1
        assert len(named(process, "outer")) in (19, 20, 21)  # one ends now and then, and another one is made
        yield process


def test_no_row_of_a_busy_process_is_torn(started):
    running = started("busy", "20")
    for process in read_many(running, 150):
        assert process.how.startswith("from one moment, for which it was stopped: ")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_row_in_ten_thousand_reads_is_torn(started):
    running = started("busy", "20", "100000")
    torn, reads, wanted = 0, 0, len(part_of(range(10_000)))
    for process in read_many(running, wanted):
        torn += bool(list(wrong_rows(process)))
        reads += 1
    assert (torn, reads) == (0, wanted)


def test_a_paused_tasklet_of_a_busy_process_is_paused(started):
    running = started("paused")
    for _ in range(5):
        process = read_process(running.pid)
        assert rows(process)[running.facts["made"]].state == model.PAUSED
        assert len([tasklet for tasklet in rows(process).values() if tasklet.state == model.PAUSED]) == 1


def test_a_busy_process_goes_on_unharmed(started):
    running = started("busy", "20", "4")
    for _ in range(5):
        read_process(running.pid)
    assert running.says()["rounds"] > 0
    assert running.wait(30) == 0


def test_a_signal_that_comes_while_it_stands_is_not_lost(started):
    running = started("busy", "0", "30")
    with Stopped(running.pid):
        os.kill(running.pid, 15)
    assert running.wait(30) == -15


def test_a_stopped_process_is_read_and_stays_stopped(started):
    running = started("busy", "20")
    os.kill(running.pid, 19)
    while activity(running.pid) is None:
        pass
    assert read_process(running.pid).threads[0].state == "stopped"
    with open(f"/proc/{running.pid}/stat") as file:
        assert file.read().rpartition(")")[2].split()[0] == "T"


# ---- what cannot be read ----


def tracer_of(pid):
    with open(f"/proc/{pid}/status") as lines:
        return int(next(line for line in lines if line.startswith("TracerPid:")).split()[1])


def refusal(pid):
    try:
        read_process(pid)
    except CannotRead as error:  # kept in no variable: its traceback has what was read
        return str(error)
    return "it was read"


def test_no_such_process():
    with open("/proc/sys/kernel/pid_max") as file:
        pid = int(file.read()) + 1
    assert refusal(pid) == f"there is no process {pid}, or it has ended meanwhile"


def test_a_process_without_roamlet():
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert refusal(process.pid) in (
                "it has not loaded roamlet: `roamlet ps` without a PID lists the processes that have",
                f"there is no process {process.pid}, or it has ended meanwhile",
            )
        finally:
            process.kill()


@pytest.mark.parametrize(("without", "expected"), [(2, "it was read"), (1000, "its roamlet is older than")])
def test_a_process_that_is_loading_roamlet_just_now_is_read_a_moment_later(started, monkeypatch, without, expected):
    running = started("blocked", "5")
    found, looks = reading.find_table, []

    def loading(memory):
        looks.append(memory)
        if len(looks) <= without:
            raise NoTable("its roamlet is older than `roamlet ps`")
        return found(memory)

    monkeypatch.setattr(reading, "find_table", loading)
    assert refusal(running.pid).startswith(expected)
    assert len(looks) > 2


def test_a_python_whose_frames_are_unknown_is_read_without_stacks(started, monkeypatch):
    """As roamlet is built for a version that it does not know: on greenlet, with what the public headers say."""

    def without_frames(memory):
        table = find_table(memory)
        table.python, table.backend = 0x031000F0, "greenlet"
        private = (
            "frame.",
            "cframe.",
            "coroutine.",
            "keys.",
            "chunk.",
            "tstate.chunk",
            "tstate.gil",
            "tstate.tasks",
            "task.c",
        )
        table.numbers = {name: number for name, number in table.numbers.items() if not name.startswith(private)}
        for name in ("task.frame", "tstate.frame", "tstate.cframe", "code.first_traceable"):
            table.numbers.pop(name, None)
        return table

    monkeypatch.setattr(reading, "find_table", without_frames)
    running = started("kinds", "sleep")
    running.sleeps()
    process = read_process(running.pid)
    assert (process.python, process.backend) == ("3.16.0", "greenlet")
    assert process.problems == [
        "the layout of frames of Python 3.16.0 is unknown to its roamlet: where threads and tasklets are is not known"
    ]
    assert len(rows(process)) == 16
    assert model.BLOCKED in {tasklet.state for tasklet in rows(process).values()}
    assert not any(tasklet.frames for tasklet in rows(process).values())


def test_roamlet_without_tasklets(started):
    running = started("unused")
    process = read_process(running.pid)
    assert process.threads == []
    assert process.problems == ["it has loaded roamlet, but no thread of it has used a tasklet yet"]


def test_a_process_that_has_ended(started):
    running = started("blocked", "1")
    running.kill()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
    assert refusal(running.pid) == f"process {running.pid} has no memory: it has ended, or is a part of the kernel"


def test_a_process_that_ends_in_the_middle(started, monkeypatch):
    running = started("busy", "20")
    entered = Stopped.__enter__

    def ends(self):
        running.kill()
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
        return entered(self)

    monkeypatch.setattr(Stopped, "__enter__", ends)
    assert f"process {running.pid}" in refusal(running.pid)


def test_a_layout_that_is_not_known(started):
    running = started("changed", "roamlet.layout.1", "roamlet.layout.9")
    assert refusal(running.pid) == (
        "its roamlet describes itself as 'roamlet.layout.9', which this version cannot read: use "
        "`roamlet ps` of the version that it runs"
    )


def test_a_layout_that_lacks_something(started):
    running = started("changed", "task.waiting_on", "task.wanting_on")
    assert refusal(running.pid) == (
        "its roamlet does not say where 'task.waiting_on' is, which this version needs: use "
        "`roamlet ps` of the version that it runs"
    )


def test_messages_about_permissions_say_what_helps(monkeypatch):
    own = explained(PermissionError(1, "no"), os.getpid())
    assert str(own).startswith(f"process {os.getpid()} may not be read: ")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    other = explained(PermissionError(13, "no"), os.getpid())
    assert f"of another user (number {os.getuid()}). Run this as that user, or with sudo" in str(other)


TRACER = """\
import ctypes, sys, time
ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None)  # PTRACE_SEIZE
print(flush=True)
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def tracing(pid, seconds):
    """Another process that traces this one for so long, as a debugger does."""
    words = [sys.executable, "-I", "-S", "-c", TRACER, str(pid), str(seconds)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tracer:
        try:
            tracer.stdout.readline()
            assert tracer_of(pid) == tracer.pid
            yield tracer
        finally:
            tracer.kill()


def test_a_tracer_that_goes_away_is_waited_for(started):
    running = started("busy", "20")
    with tracing(running.pid, seconds=0.2) as tracer:
        process = read_process(running.pid)
        tracer.wait(10)
    assert process.problems == ([] if backend != "greenlet" else process.problems[:1])


def test_two_that_read_one_process_do_not_hinder_each_other(started):
    running = started("busy", "20")
    program = (
        "import sys\n"
        "from roamlet.diagnose.outside import read_process\n"
        "for _ in range(100): read_process(int(sys.argv[1]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(running.pid)]) as other:
        while other.poll() is None:
            assert refusal(running.pid) == "it was read"
    assert other.returncode == 0


def test_one_that_is_traced_already_says_by_whom(started):
    running = started("busy", "0")
    with tracing(running.pid, seconds=100) as tracer:
        assert f"process {tracer.pid} traces it already" in refusal(running.pid)


@pytest.mark.parametrize(
    ("shift", "walks", "expected"),
    [
        (reading.SMALL_SHIFT, [3, 0, 1, 0], 4),  # of a process with few tasklets two have to meet nothing new
        (reading.SMALL_SHIFT, [3, None, 0, None, 0], 5),  # None: one that contradicts itself
        (reading.SMALL_SHIFT, [1] * 10, reading.LEARNING),
        (reading.LARGE_SHIFT, [3, 0], 2),
    ],
)
def test_all_is_known_that_is_of_interest_before_a_process_is_stopped(shift, walks, expected):
    class Walks:
        late, walked, copied = 0, 0, 0

        def __init__(self):
            self.memory, self.shift = self, shift

        def look(self):
            pass

        def refreshed(self):
            def copy():
                self.copied += 1

            return copy

        def walk(self):
            new = walks[self.walked]
            self.walked += 1
            if new is None:
                raise Torn("it has changed")
            self.late += new

    fake = Walks()
    reading._learn(fake, fake)
    assert (fake.walked, fake.copied) == (expected, expected)


@pytest.mark.parametrize("at_most", [0, 3])
def test_a_stop_in_the_midst_of_the_core_is_given_up_before_anything_is_copied(started, monkeypatch, at_most):
    running = started("busy", "20")
    core = next(each.start for each in memory.ProcessSource(running.pid).mappings if MODULE.search(each.path))
    looks, copies = [], []

    class InTheCore(Stopped):
        def look(self):
            super().look()
            looks.append(len(copies))
            self.instructions = dict.fromkeys(self.seized, core)

    class Source(memory.ProcessSource):
        def plan(self, buffers, places=None):
            fill = super().plan(buffers, places)

            def counted():
                copies.append(len(buffers))
                fill()

            return counted

    monkeypatch.setattr(reading, "Stopped", InTheCore)
    monkeypatch.setattr(reading, "ProcessSource", Source)
    monkeypatch.setattr(reading, "PASSED", at_most)
    monkeypatch.setattr(reading, "_learn", lambda *_: None)
    assert refusal(running.pid) == "it was read"
    assert len(looks) > at_most
    assert looks[: at_most + 1] == looks[:1] * (at_most + 1)  # nothing was copied between these


def test_small_pieces_are_gathered_by_several_threads_in_order(monkeypatch):
    monkeypatch.setattr(memory, "IOVECS", 4)
    monkeypatch.setattr(memory, "CALLS_FOR_A_THREAD", 1)
    source, mine = memory.ProcessSource(os.getpid()), (ctypes.c_uint64 * 50)(*range(50))
    places = [ctypes.addressof(mine) + 8 * index for index in range(50)][::-1]
    found = source.gathered(places, 8)
    assert memoryview(found).cast("Q").tolist() == list(range(50))[::-1]
    assert source.gathered([*places, 8], 8) is None  # nothing is mapped there
