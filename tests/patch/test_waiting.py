"""The area `signals`: tasklets that wait for signals which another tasklet sends, and handlers that run while tasklets wait."""

import os
import signal
import threading
from contextlib import contextmanager

import pytest

import roamlet
from roamlet import io
from roamlet.patch.areas import waiting
from tests.programs import printed


@pytest.fixture(autouse=True)
def signals_in_place(in_place):
    in_place(waiting)


@pytest.fixture
def blocked():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGRTMIN])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handled(number, handler):
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def send(number):
    """A tasklet that sends it to this thread: one of roamlet's workers does not block it."""
    return roamlet.tasklet(signal.pthread_kill)(threading.get_ident(), number)


def test_a_signal_of_another_tasklet_ends_each_wait(blocked):
    send(signal.SIGUSR1)
    assert signal.sigwait({signal.SIGUSR1}) is signal.SIGUSR1
    send(signal.SIGUSR1)
    assert signal.sigwaitinfo(iter([signal.SIGUSR1])).si_pid == os.getpid()
    send(signal.SIGUSR1)
    assert signal.sigtimedwait([signal.SIGUSR1], 60).si_signo == signal.SIGUSR1
    send(signal.SIGRTMIN)
    assert signal.sigwait([signal.SIGRTMIN]) == signal.SIGRTMIN


def test_time_outs_and_wrong_calls_are_the_originals(blocked):
    assert signal.sigtimedwait([signal.SIGUSR1], 0) is None
    assert signal.sigtimedwait([signal.SIGUSR1], 0.001) is None
    with pytest.raises(ValueError, match="timeout must be non-negative"):
        signal.sigtimedwait([signal.SIGUSR1], -1)
    with pytest.raises(TypeError):
        signal.sigwait(signal.SIGUSR1)
    with pytest.raises(ValueError, match="out of range"):
        signal.sigwait([10_000])


def test_a_wait_for_a_signal_is_killed_and_timed_out(blocked):
    tasklet = roamlet.tasklet(signal.sigwait)([signal.SIGUSR1])
    roamlet.schedule()
    tasklet.kill()
    assert not tasklet.alive
    with pytest.raises(TimeoutError), roamlet.timeout(0.001):
        signal.pause()
    assert signal.set_wakeup_fd(-1) == -1


UNBLOCKED = """
import os, signal, threading, time
import roamlet, roamlet.patch
from roamlet.patch.areas import waiting
roamlet.patch.install()
waiting._AT_ONCE = 60
blocked_now = threading.Event()

def send(number):
    blocked_now.wait()
    # In its wait the kernel has them taken out of those that the thread blocks.
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with open(f"/proc/self/task/{os.getpid()}/status") as status:
            blocked = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
        if not blocked >> number - 1 & 1:
            break
    os.kill(os.getpid(), number)

def thread(number):
    made = threading.Thread(target=send, args=(number,))
    made.start()
    return made

made = thread(signal.SIGTERM)  # which does not block it
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
blocked_now.set()
print(signal.sigwait([signal.SIGTERM]).name)
made.join()
signal.signal(signal.SIGUSR1, lambda *_: print("handler"))
blocked_now.clear()
made = thread(signal.SIGUSR1)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
blocked_now.set()
print(signal.sigtimedwait([signal.SIGUSR1], 60).si_signo == signal.SIGUSR1)
made.join()
waiting._AT_ONCE = 0.01
try:
    with roamlet.timeout(0.01):
        signal.sigwait([signal.SIGUSR1])
except TimeoutError:
    print("too late")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="asks Linux what a thread blocks")
def test_the_only_tasklet_of_a_thread_gets_a_signal_that_another_thread_does_not_block(python, program):
    program(UNBLOCKED)
    assert printed(python("program.py")).split("\n")[:3] == ["SIGTERM", "True", "too late"]


def test_several_tasklets_pause_until_a_handler_has_run():
    log = []
    with handled(signal.SIGUSR1, lambda *_: log.append("handler")):
        for number in range(3):
            roamlet.tasklet(lambda number=number: (signal.pause(), log.append(number)))()
        roamlet.schedule()
        send(signal.SIGUSR1)
        roamlet.run()
    assert (log[0], sorted(log[1:])) == ("handler", [0, 1, 2])


def test_pause_tells_the_descriptor_that_was_told_before():
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    before = signal.set_wakeup_fd(write_fd)
    with handled(signal.SIGUSR1, lambda *_: None):
        send(signal.SIGUSR1)
        signal.pause()
    assert os.read(read_fd, 10) == bytes([signal.SIGUSR1])
    assert signal.set_wakeup_fd(before) == write_fd
    os.close(read_fd)
    os.close(write_fd)


def test_handlers_run_while_tasklets_wait_and_what_they_raise_comes_out():
    read_fd, write_fd = os.pipe()
    seen = []
    with handled(signal.SIGUSR1, lambda *_: (seen.append(roamlet.getcurrent().is_main), os.write(write_fd, b"x"))):
        roamlet.tasklet(os.kill)(os.getpid(), signal.SIGUSR1)
        io.wait_readable(read_fd)
    assert len(seen) == 1
    os.close(read_fd)
    os.close(write_fd)


def test_ctrl_c_ends_what_the_main_tasklet_waits_for(python, program):
    program("""\
        import os, signal, subprocess, threading
        import roamlet, roamlet.patch
        roamlet.patch.install()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        child = subprocess.Popen(["sleep", "1000"])
        child._sigint_wait_secs = 0
        for wait in (threading.Event().wait, child.wait, roamlet.channel().receive, lambda: roamlet.sleep(1000)):
            roamlet.tasklet(lambda: (roamlet.sleep(0.01), os.kill(os.getpid(), signal.SIGINT)))()
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted")
        child.kill()
        print(child.wait())
        """)
    assert printed(python("program.py")).split() == ["interrupted"] * 4 + ["-9"]


IN_HANDLER = """
import os, signal, select, socket, subprocess, time
import roamlet, roamlet.patch
roamlet.patch.install()
seen = []

def handler(number, frame):
    time.sleep(0.01)
    seen.append(subprocess.run(["sh", "-c", "sleep 0.02; echo out; exit 3"], capture_output=True).stdout)
    seen.append(subprocess.run(["true"]).returncode)
    seen.append(os.waitstatus_to_exitcode(os.system("exit 4")))
    seen.append(os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1])
    seen.append(signal.sigtimedwait([signal.SIGUSR1], 0.01))
    try:
        subprocess.run(["sleep", "60"], timeout=0.02)
    except subprocess.TimeoutExpired:
        seen.append("too late")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            select.select([ours], [], [], 0.01)
        except RuntimeError as error:
            seen.append("signal handler while all tasklets wait" in str(error))

signal.signal(signal.SIGALRM, handler)
others = [roamlet.spawn(roamlet.sleep, (0.3,)) for _ in range(3)]
signal.setitimer(signal.ITIMER_REAL, 0.05)
for each in others:
    each.join()
print(seen)
"""


def test_a_handler_may_sleep_and_run_children_while_all_tasklets_wait(python, program):
    program(IN_HANDLER)
    assert printed(python("program.py")) == "[b'out\\n', 0, 4, 0, None, 'too late', True]\n"


STARTS_THREADS = """
import roamlet.patch
roamlet.patch.install(threads="THREADS")
import os, signal, threading, time
from concurrent.futures import ThreadPoolExecutor
import roamlet

def handler(number, frame):
    seen.append(roamlet.getcurrent().blocked)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    seen.append(thread.ident is not None and threading.active_count())
    seen.append(thread.is_alive() and thread in threading.enumerate())
    others.append(thread)
    futures.append(pool.submit(os.getpid))

def work():
    over.wait()
    seen.append(threading.current_thread() is others[-1])

seen, others, futures, over, pool = [], [], [], threading.Event(), ThreadPoolExecutor(2)
signal.signal(signal.SIGALRM, handler)
for wait in (lambda: time.sleep(0.1), lambda: roamlet.spawn(roamlet.sleep, (0.1,)).join()):
    over.clear()
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    wait()
    over.set()
    others[-1].join()
    print(seen, others[-1].is_alive(), futures[-1].result() == os.getpid())
    seen.clear()
"""


@pytest.mark.parametrize("threads", ["os", "tasklets"])
def test_a_handler_may_start_threads_while_all_tasklets_wait(python, program, threads):
    program(STARTS_THREADS.replace("THREADS", threads))
    first, second = printed(python("program.py")).splitlines()
    assert first == "[True, 2, True, True] False True"
    assert second == "[True, 3, True, True] False True"  # and a thread of the pool
