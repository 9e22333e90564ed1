"""How contexts end: closed in order, or dead in the middle of something."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.base import descriptors
from roamlet.remote.base.threads import acquire, release
from roamlet.remote.link import process as link_process
from roamlet.remote.opening import connect
from tests.remote.inside import calls_of, link_of
from tests.remote.raising import raises
from tests.remote.stopping import gone, stop


def test_closing_ends_the_process_on_the_target(target):
    context = target.open()
    pid = context.facts.pid
    context.close()
    assert context.closed
    assert gone(pid)


def test_a_with_block_closes_its_context_when_it_is_left_by_an_error(own_target):
    with raises(ZeroDivisionError):
        with own_target.open() as context:
            1 / 0
    assert context.closed


def test_closing_again_does_nothing(own_target):
    context = own_target.open()
    context.close()
    context.close()
    assert context.closed
    assert "closed" in repr(context)


def test_calls_into_a_closed_context_say_so(own_target):
    context = own_target.open()
    context.close()
    with raises(remote.ContextClosed, match=f"roamlet_sent.add was not sent: '{own_target.name}' is closed") as caught:
        context.call(roamlet_sent.add, (1, 2))
    assert caught.value.context == own_target.name
    assert isinstance(caught.value, ValueError)


def test_calls_in_flight_are_told_when_their_context_is_closed(own_target):
    context = own_target.open()
    errors = []

    def work():
        try:
            context.call(roamlet_sent.wait_for_release)
        except remote.ContextClosed as error:
            errors.append(str(error))

    roamlet.tasklet(work)()
    roamlet.schedule()
    context.close()
    roamlet.run()
    assert len(errors) == 1
    assert "roamlet_sent.wait_for_release" in errors[0] and own_target.name in errors[0]


@pytest.mark.parametrize("function", [roamlet_sent.never_return, roamlet_sent.compute_for_ever])
def test_a_call_that_never_ends_does_not_keep_its_context_from_closing(own_target, function):
    context = own_target.open()
    pid = context.facts.pid
    with raises(remote.CallTimeout):
        context.call(function, timeout=0.1)
    context.close()
    assert gone(pid)


def test_many_tasklets_may_close_the_same_context(own_target, in_tasklets):
    context = own_target.open()
    assert in_tasklets(lambda _: context.close(), list(range(5))) == [None] * 5


def test_a_context_that_is_no_longer_referenced_is_closed_with_a_warning(own_target):
    context = own_target.open()
    process = link_of(context).process
    own_target.opened.clear()
    contexts = [context]
    del context
    with pytest.warns(ResourceWarning, match="was never closed: use `with`, or close"):
        contexts.clear()
    assert process.exited.wait(5)


def test_a_context_that_is_no_longer_referenced_is_closed_where_warnings_are_errors_too(own_target, monkeypatch):
    raised = []
    monkeypatch.setattr("sys.unraisablehook", lambda about: raised.append(about.exc_type))
    context = own_target.open()
    own_target.opened.clear()
    process = link_of(context).process
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        del context
    assert process.exited.wait(10)
    assert raised == [ResourceWarning]


def test_a_tasklet_killed_while_it_closes_leaves_nothing(own_target):
    context = own_target.open()
    own_target.opened.clear()
    process = link_of(context).process
    closing = roamlet.tasklet(context.close)()
    roamlet.schedule()
    assert closing.blocked
    closing.kill()
    assert process.exited.wait(10)


def test_the_collector_may_abandon_a_context_in_the_middle_of_a_post():
    threads = acquire()
    done = threading.Event()

    def post_within_a_post():
        with threads.links._lock:
            threads.links.post(done.set)

    poster = threading.Thread(target=post_within_a_post, daemon=True)
    poster.start()
    assert done.wait(5)
    poster.join(5)
    release(threads)


def test_the_last_context_may_be_closed_in_atomic_code_although_a_thread_of_roamlets_wants_to_be_in_it():
    threads, log, begun = acquire(), [], threading.Event()

    def job():
        begun.set()
        with roamlet.atomic():
            log.append("in atomic code")

    with roamlet.atomic():
        threads.callbacks.post(job)
        begun.wait()
        release(threads)
        assert log == ["in atomic code"]
        assert not threads.callbacks.thread.is_alive()


def test_os_exit_on_the_target_is_context_died_with_host_function_and_code(target):
    context = target.open()
    with raises(
        remote.ContextDied, match=r"died while it ran roamlet_sent\.die_with.*ended with exit code 7.*os\._exit"
    ) as caught:
        context.call(roamlet_sent.die_with, (7,))
    assert (caught.value.context, caught.value.function) == (target.name, "roamlet_sent.die_with")
    assert caught.value.exit_code == 7
    assert target.name in str(caught.value)
    assert isinstance(caught.value, ConnectionError)
    with raises(remote.ContextDied, match=r"roamlet_sent\.add was not sent: .* has died"):
        context.call(roamlet_sent.add, (1, 2))


def test_the_last_lines_of_stderr_stand_in_the_error(target, capsys):
    context = target.open()
    context.call(roamlet_sent.print_lines, ([], ["the disk of this machine is on fire"]))
    with raises(remote.ContextDied, match="the disk of this machine is on fire"):
        context.call(roamlet_sent.die_with, (3,))
    context.close()
    assert "on fire" in capsys.readouterr().err


def test_a_killed_process_on_the_target_fails_each_call_in_flight_by_its_function(target, in_tasklets):
    context = target.open()

    def work(number):
        return context.call(roamlet_sent.wait_for_release if number else roamlet_sent.kill_self, () if number else (9,))

    errors = in_tasklets(work, [1, 2, 0])
    assert [type(error) for error in errors] == [remote.ContextDied] * 3
    assert [error.function for error in errors] == ["roamlet_sent.wait_for_release"] * 2 + ["roamlet_sent.kill_self"]
    if target.way == "local":
        assert errors[0].signal == signal.SIGKILL
        assert "was ended by signal 9 (SIGKILL)" in str(errors[0])
    else:
        # Which of the two depends on the login shell: some stay and report, some are replaced by the command.
        how = r"the connection was lost, or its process was killed|exit code 137; it was killed"
        assert re.search(how, str(errors[0]))


def test_callers_that_wait_for_room_are_told_when_their_context_dies(own_target, in_tasklets):
    context = own_target.open()
    context.call(roamlet_sent.size_of, (b"",))
    data = b"\1" * 300_000

    def work(number):
        if number < 30:
            return context.call(roamlet_sent.size_of, (data,))
        os.kill(context.facts.pid, signal.SIGKILL)
        return None

    stop(context.facts.pid)
    errors = in_tasklets(work, list(range(31)))
    assert [type(error) for error in errors[:30]] == [remote.ContextDied] * 30
    assert all("roamlet_sent.size_of" in str(error) for error in errors[:30])


def test_a_crash_in_c_says_where(own_target):
    context = own_target.open()
    with raises(remote.ContextDied) as caught:
        context.call(roamlet_sent.kill_self, (int(signal.SIGSEGV),))
    if own_target.way == "local":
        assert caught.value.signal == signal.SIGSEGV
    assert "Segmentation fault" in str(caught.value)
    assert "in kill_self" in str(caught.value)


def test_when_one_context_dies_the_others_go_on(own_target, in_tasklets):
    contexts = [own_target.open(name=f"context-{number}") for number in range(3)]

    def work(number):
        if number == 1:
            return contexts[1].call(roamlet_sent.die_with, (1,))
        return [contexts[number].call(roamlet_sent.add, (number, n)) for n in range(50)]

    first, second, third = in_tasklets(work, [0, 1, 2])
    assert (first, third) == (list(range(50)), list(range(2, 52)))
    assert isinstance(second, remote.ContextDied)
    assert "context-1" in str(second)


def test_a_context_that_resists_is_killed(own_target):
    context = own_target.open()
    pid = context.facts.pid
    context.call(roamlet_sent.ignore_the_end)
    with raises(remote.CallTimeout):
        context.call(roamlet_sent.compute_for_ever, timeout=0.1)
    context.close()
    assert gone(pid)


PARENT = """
import sys, threading
sys.path.append({sent!r})
import roamlet_sent
from roamlet import remote
context = remote.{opening}
print(context.facts.pid, flush=True)
context.call(roamlet_sent.{function})
"""


@pytest.mark.parametrize("function", ["never_return", "compute_for_ever"])
def test_a_child_is_gone_within_3_seconds_of_its_parents_sigkill(target, function):
    sent = str(Path(__file__).parent / "sent")
    if target.sshd is None:
        opening = f"local({target.python!r})"
    else:
        opening = f"ssh({target.sshd.host!r}, python={target.python!r}, ssh_args={target.sshd.ssh_args!r})"
    program = PARENT.format(sent=sent, opening=opening, function=function)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
        assert not gone(pid, seconds=0)
        parent.kill()
        parent.wait()
        killed = time.monotonic()
        assert gone(pid)
        assert time.monotonic() - killed < 3
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_the_end_of_the_process_closes_contexts_that_were_left_open(tmp_path):
    sent = str(Path(__file__).parent / "sent")
    program = PARENT.format(sent=sent, opening="local()", function="pid")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert gone(int(done.stdout))
    assert done.stderr == ""


def test_ctrl_c_while_the_end_of_the_process_closes_contexts_is_no_traceback():
    text = """
from roamlet import remote
from roamlet.remote.calls.engine import Calls

def pressed(calls):
    print("closes")
    raise KeyboardInterrupt

held = remote.local()
Calls.close = pressed
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "closes\n", "")


def test_a_forked_child_is_refused_by_name_and_disturbs_nothing(own_target):
    context = own_target.open()
    assert context.call(roamlet_sent.add, (1, 1)) == 2
    links = {_target_of(fd) for fd in (link_of(context).process.down, link_of(context).process.up)}
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            context.call(roamlet_sent.add, (1, 1))
        except remote.ForkedContext as error:
            os.write(write_end, str(error).encode())
        except BaseException as error:
            os.write(write_end, repr(error).encode())
        context.close()
        left = [fd for fd in os.listdir("/proc/self/fd") if _target_of(fd) in links]
        os.write(write_end, b"|%d" % len(left))
        os._exit(0)
    os.close(write_end)
    with open(read_end) as said:
        text, _, pipes_left = said.read().rpartition("|")
    os.waitpid(pid, 0)
    assert f"{own_target.name!r} belongs to the process that this one was forked from" in text
    assert pipes_left == "0"
    assert context.call(roamlet_sent.add, (2, 2)) == 4


@pytest.mark.parametrize("moment", ["pipes", "process", "hello"])
@pytest.mark.parametrize("password", [None, "secret"], ids=["no terminal", "terminal"])
def test_a_child_that_another_thread_forks_keeps_nothing_of_a_context_that_is_being_opened(
    sshd, monkeypatch, moment, password
):
    children = []

    def fork():
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)

    def fork_in_another_thread():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()

    def start(*args, **options):
        if moment == "pipes":
            fork_in_another_thread()
        process = popen(*args, **options)
        if moment == "process":
            fork_in_another_thread()
        return process

    def greeted(*args):
        if moment == "hello":
            fork_in_another_thread()
        return wait(*args)

    popen, wait = subprocess.Popen, connect._greeted
    monkeypatch.setattr(link_process, "subprocess", SimpleNamespace(Popen=start))
    monkeypatch.setattr(connect, "_greeted", greeted)
    try:
        with remote.ssh(sshd.host, ssh_args=sshd.ssh_args, password=password) as context:
            process = link_of(context).process
            terminal = process.terminal._open if password else ()
            links = {_target_of(fd) for fd in (*process._open, *terminal)}
            (child,) = children
            kept = {os.readlink(path) for path in Path(f"/proc/{child}/fd").iterdir()} & links
            assert len(links) == (5 if password else 3)
            assert not kept
            assert context.call(roamlet_sent.add, (2, 2)) == 4
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_forked_child_is_refused_although_a_thread_was_sending_modules(own_target):
    context = own_target.open()
    read_end, write_end = os.pipe()
    calls_of(context).shipping._order.acquire()
    pid = os.fork()
    if pid == 0:
        try:
            context.call(roamlet_sent.nothing, timeout=5)
        except BaseException as error:
            os.write(write_end, type(error).__name__.encode())
        os._exit(0)
    calls_of(context).shipping._order.release()
    os.close(write_end)
    with open(read_end) as said:
        assert said.read() == "ForkedContext"
    os.waitpid(pid, 0)


def _target_of(fd: int | str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def test_a_forked_child_may_open_contexts_of_its_own(own_target):
    context = own_target.open()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with own_target.open() as mine:
                os.write(write_end, b"%d" % mine.call(roamlet_sent.add, (20, 22)))
        except BaseException as error:
            os.write(write_end, repr(error).encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end) as said:
        assert said.read() == "42"
    os.waitpid(pid, 0)
    assert context.call(roamlet_sent.add, (2, 2)) == 4


def test_a_forked_child_may_open_contexts_although_the_program_has_closed_a_descriptor_of_ours():
    read_end, write_end = os.pipe()
    closed = os.open(os.devnull, os.O_RDONLY)
    os.close(closed)
    descriptors._ours.add(closed)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # its other threads waited for ever
        with remote.local() as mine:
            answer = mine.call(roamlet_sent.add, (20, 22))
        os.write(write_end, b"%d" % answer)
        os._exit(0)
    descriptors._ours.discard(closed)
    os.close(write_end)
    with open(read_end) as said:
        assert said.read() == "42"
    os.waitpid(pid, 0)


INTERRUPTED = """
import sys, threading, time
sys.path.append({sent!r})
import roamlet_sent
from roamlet import remote
with remote.local() as context:
    print(context.facts.pid, flush=True)
    context.call(roamlet_sent.never_return)
"""


def test_ctrl_c_ends_a_call_and_with_it_the_context():
    program = INTERRUPTED.format(sent=str(Path(__file__).parent / "sent"))
    words = [sys.executable, "-c", program]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=20)
    assert parent.returncode != 0
    assert "KeyboardInterrupt" in said
    assert gone(pid)


def test_threads_that_work_while_a_context_is_closed_get_answers_or_a_clear_error(own_target):
    context = own_target.open()
    unexpected = []
    started = threading.Barrier(5)

    def work():
        started.wait()
        try:
            while True:
                context.call(roamlet_sent.nothing)
        except remote.ContextClosed:
            pass
        except BaseException as error:
            unexpected.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    context.close()
    for thread in threads:
        thread.join(30)
    assert unexpected == []
