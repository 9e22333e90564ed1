"""roamlet.celery.TaskPool in a real worker of Celery, with a broker in its memory: its tasks are sent by a thread of the worker."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("celery")

APP = """
import json, os, signal, threading, time
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded, TaskRevokedError
from celery.signals import worker_ready
import roamlet

app = Celery("app", broker="memory://", backend="cache+memory://")
app.conf.update(
    broker_transport_options={"polling_interval": 0.01}, worker_redirect_stdouts=False, worker_hijack_root_logger=False
)
meeting, running, most, events = threading.Barrier(4), 0, 0, []
held, let_go = threading.Event(), threading.Event()


@app.task(bind=True)
def meet(self, number):
    global running, most
    running += 1
    most = max(most, running)
    own = self.request.id
    meeting.wait()
    time.sleep(0.01)
    running -= 1
    return [number, self.request.id == own, threading.get_ident()]


@app.task(bind=True, soft_time_limit=0.05)
def soft(self, catches):
    try:
        time.sleep(60)
    except SoftTimeLimitExceeded:
        if catches:
            return "cleaned up"
        raise


@app.task(time_limit=0.05)
def hard():
    try:
        time.sleep(60)
    finally:
        events.append("hard limit")


@app.task
def hold(name):
    try:
        held.set()
        let_go.wait()
        events.append(name + " went on")
    finally:
        events.append(name + " ended")


@app.task
def wrong():
    raise ValueError("the task is wrong")


@app.task
def starts():
    roamlet.tasklet(wrong)()
    roamlet.sleep(0.001)
    return "it goes on"


@app.task
def thread():
    return threading.get_ident()


def error_of(result):
    try:
        return result.get(timeout=20, interval=0.01)
    except Exception as error:
        return type(error).__name__


def pool_of(worker):
    return worker.controller.pool if hasattr(worker, "controller") else worker.pool


def said(**what):
    print(json.dumps(what), flush=True)


@worker_ready.connect
def ready(sender, **_):
    threading.Thread(target=main, args=(sender,)).start()
"""

SCENARIO = """
def main(worker):
    try:
        met = [each.get(timeout=20, interval=0.01) for each in [meet.delay(number) for number in range(8)]]
        said(numbers=sorted(number for number, _, _ in met), own=all(own for _, own, _ in met), most=most)
        said(threads=len({ident for *_, ident in met} | {thread.apply_async(countdown=0.05).get(timeout=20, interval=0.01)}))
        said(soft=[soft.delay(True).get(timeout=20, interval=0.01), error_of(soft.delay(False))])
        said(hard=error_of(hard.delay()), events=events, wrong=error_of(wrong.delay()))
        said(starts=starts.delay().get(timeout=20, interval=0.01))
        held_task = hold.delay("revoked")
        held.wait()
        app.control.revoke(held_task.id, terminate=True)
        said(revoked=error_of(held_task))
        while "revoked ended" not in events or pool_of(worker).info["running-tasklets"]:
            time.sleep(0.01)
        pool = pool_of(worker)
        pool.grow(4)
        most_before = pool.limit
        pool.shrink(7)
        said(limits=[most_before, pool.limit], events=events, info=pool.info["running-tasklets"])
        blockers = [hold.delay("first"), hold.delay("second")]
        while pool.info["waiting-tasklets"] != 1:
            time.sleep(0.01)
        let_go.set()
        said(both=[each.get(timeout=20, interval=0.01) for each in blockers])
    finally:
        app.control.shutdown()
"""

STOPPED = """
def main(worker):
    global let_go
    hold.delay("task")
    held.wait()
    os.kill(os.getpid(), signal.{signal})
    {then}


import atexit
atexit.register(lambda: said(events=events))
"""


@pytest.fixture
def worker(tmp_path):
    """Run a worker to its end; return what it has printed, and what it has logged."""

    def run(source, *before):
        (tmp_path / "app.py").write_text(APP + source)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            [sys.executable, *before, "-m", "celery", "-A", "app", "worker", "-P", "custom", "-c", "4", "-l", "info"],
            cwd=tmp_path,
            env={**environment, "CELERY_CUSTOM_WORKER_POOL": "roamlet.celery:TaskPool", "ROAMLET_DEADLOCK": "auto"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        said = {}
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                said |= json.loads(line)
        return said, done

    return run


def test_tasks_run_in_tasklets_within_the_limits(worker):
    said, done = worker(SCENARIO)
    assert done.returncode == 0, done.stderr
    assert said == {
        "numbers": list(range(8)),
        "own": True,
        "most": 4,
        "threads": 1,
        "soft": ["cleaned up", "SoftTimeLimitExceeded"],
        "hard": "TimeLimitExceeded",
        "wrong": "ValueError",
        "starts": "it goes on",
        "revoked": "TaskRevokedError",
        "limits": [8, 1],
        "events": ["hard limit", "revoked ended"],
        "info": 0,
        "both": [None, None],
    }, done.stderr
    assert "A tasklet of a task has failed" in done.stderr
    assert "EarlyImport" not in done.stderr
    assert "Soft time limit (0.05s) exceeded" in done.stderr and "Hard time limit (0.05s) exceeded" in done.stderr


def test_kombus_event_loop_is_left_to_other_pools(tmp_path, python):
    (tmp_path / "loops.py").write_text(
        """
import roamlet.celery
from celery import Celery
from kombu.transport.memory import Transport

Transport.implements = Transport.implements.extend(asynchronous=True)
app = Celery("app", broker="memory://", set_as_current=False)
for pool in (roamlet.celery.TaskPool, "custom", "threads"):
    print(app.Worker(pool=pool, optimization="fair").use_eventloop)
"""
    )
    done = python("-m", "roamlet.patch", "--local", "loops.py", CELERY_CUSTOM_WORKER_POOL="roamlet.celery:TaskPool")
    assert (done.returncode, done.stdout.split()) == (0, ["False", "False", "True"]), done.stderr


def test_a_warm_shutdown_waits_for_the_tasks_that_run(worker):
    stopped = STOPPED.format(signal="SIGTERM", then="time.sleep(0.3); let_go.set()")
    said, done = worker(stopped, "-m", "roamlet.patch", "--local")
    assert (done.returncode, said) == (0, {"events": ["task went on", "task ended"]}), done.stderr


def test_a_cold_shutdown_kills_them(worker):
    said, done = worker(STOPPED.format(signal="SIGQUIT", then=""))
    assert said == {"events": ["task ended"]}, done.stderr


POOL = """
import roamlet.celery
import gc, os, sys
import celery
import roamlet

def pool_of(limit):
    pool = roamlet.celery.TaskPool(limit, app=celery.Celery("app", broker="memory://", set_as_current=False))
    pool.start()
    return pool

def wait_for_all(pool):
    while pool.info["running-tasklets"] or pool.info["waiting-tasklets"]:
        roamlet.sleep(0.001)
"""


@pytest.fixture
def pool(tmp_path, python):
    """Run a program that has the pool without a worker; return the numbers that it prints."""

    def run(source):
        (tmp_path / "pool.py").write_text(POOL + source)
        done = python("-m", "roamlet.patch", "--local", "pool.py")
        assert done.returncode == 0, done.stderr
        return [int(each) for each in done.stdout.split()]

    return run


def test_the_end_of_a_task_wakes_one_that_waits(pool):
    switches, most = pool("""
switches = running = most = 0

def count(before, after):
    global switches
    switches += 1

def target():
    global running, most
    running += 1
    most = max(most, running)
    roamlet.schedule()
    running -= 1

one = pool_of(2)
roamlet.set_schedule_callback(count)
for _ in range(300):
    one.apply_async(target)
wait_for_all(one)
roamlet.set_schedule_callback(None)
print(switches, most)
""")
    assert most == 2 and switches < 300 * 10  # each end woke all: 45,000


def test_the_limit_changes_from_any_thread_while_tasks_wait(pool):
    assert pool("""
import threading

running, let_go = 0, roamlet.channel()

def target():
    global running
    running += 1
    let_go.receive()
    running -= 1

one = pool_of(4)
for _ in range(20):
    one.apply_async(target)

def see():
    for _ in range(50):
        roamlet.schedule()
    print(running, one.limit)

def change(how, n):
    thread = threading.Thread(target=how, args=(n,))
    thread.start()
    thread.join()

see()
change(one.grow, 3)
see()
change(one.shrink, 5)
see()
for _ in range(6):
    let_go.send(None)
see()
change(one.grow, 2)
see()
one.shrink(10)
for _ in range(4):
    let_go.send(None)
see()
one.grow(30)
one.shrink(10)  # free ones count at once
see()
for _ in range(10):
    let_go.send(None)
wait_for_all(one)
for _ in range(30):
    one.apply_async(target)
see()
for _ in range(30):
    let_go.send(None)
wait_for_all(one)
see()
""") == [4, 4, 7, 7, 7, 2, 2, 2, 4, 4, 0, 0, 10, 20, 20, 20, 0, 20]


def test_tasks_leave_no_memory_behind(pool):
    """Of 10,000 tasks, of which each tenth fails and each seventh is killed."""
    blocks, kilobytes, jobs = pool("""
def target(number):
    if number % 10 == 0:
        raise ValueError(number)
    roamlet.sleep(60 if number % 7 == 0 else 0)

def some(count):
    for _ in range(count // 100):
        started = [one.apply_async(target, (number,), soft_timeout=100, timeout=100) for number in range(100)]
        while any(not each.accepted for each in started):
            for number, job in enumerate(started):
                if job.accepted and number % 7 == 0 and number % 10:
                    one.terminate_job(job.pid)
            roamlet.sleep(0)
        for number, job in enumerate(started):
            if number % 7 == 0:
                one.terminate_job(job.pid)
        wait_for_all(one)
    del started, job
    gc.collect()
    with open("/proc/self/statm") as file:
        return sys.getallocatedblocks(), int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

one = pool_of(20)
some(1000)
before = some(1000)
after = some(10_000)
print(after[0] - before[0], after[1] - before[1], len(one._jobs))
""")
    assert blocks < 500 and kilobytes < 1000 and jobs == 0


MEMORY = """
import gc
app.conf.task_ignore_result = True
left, done = 0, threading.Event()


@app.task
def plain(number):
    global left
    try:
        if number % 10 == 0:
            raise ValueError(number)
        time.sleep(0)
    finally:
        left -= 1
        if not left:
            done.set()


def some(count):
    global left
    for _ in range(count // 500):
        left = 500
        done.clear()
        for number in range(500):
            plain.delay(number)
        done.wait()
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(worker):
    try:
        some(10_000)  # what Celery keeps itself of the last ten thousand
        before = some(1000)
        said(grown=some(10_000) - before, jobs=len(pool_of(worker)._jobs))
    finally:
        app.control.shutdown()
"""


@pytest.mark.soak
def test_ten_thousand_tasks_of_a_worker_leave_no_memory_behind(worker):
    said, done = worker(MEMORY)
    assert said["jobs"] == 0 and said["grown"] < 1_000_000, done.stderr
