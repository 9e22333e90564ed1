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
            timeout=100,
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
