"""Whole allocations of a real Slurm: requested, given back, taken away, and used by executors."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.executor import Executor
from roamlet.remote.calls.engine import opened
from tests.docs.blocks import ROOT, scripts
from tests.remote.raising import raises
from tests.remote.transports.private_system import PYTHON
from tests.soak.slurm import NODE, SECOND

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

TASKS = [NODE, NODE, SECOND]


@pytest.fixture
def login(slurm, tmp_path, monkeypatch):
    """This process is on the login node: Slurm's commands are on PATH. No job is left after the test."""
    slurm.install(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    yield slurm
    wait_until_empty(slurm)


def queue(slurm, *words):
    return slurm.run("/usr/bin/squeue", "--noheader", "--array", "--format=%A %T", *words).stdout.split("\n")[:-1]


def wait_until_empty(slurm):
    end = time.monotonic() + 30
    while jobs := queue(slurm):
        assert time.monotonic() < end, jobs
        roamlet.sleep(0.2)


def test_each_task_gets_a_context_and_the_allocation_is_given_back(login):
    states = []
    with remote.allocation(nodes=2, ntasks=3, time=5, python=PYTHON, progress=states.append) as found:
        assert found.nodes == TASKS
        assert [context.call(os.getenv, ("SLURMD_NODENAME",)) for context in found.contexts] == TASKS
        assert [context.name for context in found.contexts] == [f"{NODE}:0", f"{NODE}:1", SECOND]
        assert {context.call(os.getenv, ("SLURM_JOB_ID",)) for context in found.contexts} == {found.job}
        assert queue(login) == [f"{found.job} RUNNING"]
        with remote.allocation(job=found.job, python=PYTHON) as again:  # which takes nothing away
            assert again.nodes == TASKS
        assert queue(login) == [f"{found.job} RUNNING"]
    wait_until_empty(login)
    assert all(context.closed for context in found.contexts)


def test_each_task_may_have_a_step_of_its_own(login):
    with remote.allocation(ntasks=3, nodes=2, cpus_per_task=1, exact=True, python=PYTHON) as found:
        steps = [context.call(os.getenv, ("SLURM_STEP_ID",)) for context in found.contexts]
        assert len(set(steps)) == 3
        assert [context.call(os.getenv, ("SLURM_CPUS_ON_NODE",)) for context in found.contexts] == ["1"] * 3


def test_an_allocation_is_reached_from_a_login_node(slurm, tmp_path):
    slurm.install(tmp_path)
    script = f"""
import os
os.environ["PATH"] = {str(tmp_path)!r} + os.pathsep + os.environ["PATH"]
"""
    with remote.local(name="login") as login:
        login.call(os.putenv, ("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}"))
        login.call(exec, (script,))
        with remote.allocation(ntasks=2, nodes=2, python=PYTHON, via=login) as found:
            assert [context.name for context in found.contexts] == [f"login/{NODE}", f"login/{SECOND}"]
            assert [context.call(roamlet_sent.add, (1, 2)) for context in found.contexts] == [3, 3]
    wait_until_empty(slurm)


def test_an_executor_and_its_calls_use_all_tasks(login):
    with remote.allocation(ntasks=4, nodes=2, python=PYTHON) as found, Executor(found.contexts) as executor:
        assert sorted(executor.map(abs, range(-50, 0))) == list(range(1, 51))
        nodes = {executor.submit(os.getenv, "SLURMD_NODENAME").result() for _ in range(16)}
        assert nodes == {NODE, SECOND}


INSIDE = """
import os, sys
from roamlet import remote
with remote.allocation(python={python!r}) as found:
    print(",".join(found.nodes), found.job == os.environ["SLURM_JOB_ID"], flush=True)
"""


def test_a_batch_script_finds_its_own_allocation(login, tmp_path):
    out = tmp_path / "out"
    program = tmp_path / "program.py"
    program.write_text(INSIDE.format(python=PYTHON))
    words = ["sbatch", "--wait", "--nodes=2", "--ntasks=3", f"--output={out}", "--chdir=/tmp", "--wrap"]
    script = f"PYTHONPATH={os.pathsep.join(sys.path)} {sys.executable} {program}"
    done = subprocess.run([*words, script], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, out.read_text()) == (0, f"{NODE},{NODE},{SECOND} True\n"), done.stderr


def test_all_running_jobs_of_an_array_are_one_allocation(login):
    done = subprocess.run(
        ["sbatch", "--array=0-3", "--exclusive", "--output=/dev/null", "--chdir=/tmp", "--wrap=sleep 100"],
        capture_output=True,
        text=True,
        check=True,
    )
    number = re.search(r"(\d+)", done.stdout)[1]
    try:
        end = time.monotonic() + 30
        while sum(job.endswith("RUNNING") for job in queue(login)) < 2:
            assert time.monotonic() < end
            roamlet.sleep(0.2)
        with remote.allocation(job=number, python=PYTHON) as found:  # two of four run, as there are two nodes
            assert sorted(found.nodes) == [NODE, SECOND]
            assert len(set(found.jobs)) == 2
            ids = [context.call(os.getenv, ("SLURM_JOB_ID",)) for context in found.contexts]
            assert ids == found.jobs
        with remote.allocation(job=f"{number}_1", python=PYTHON) as one:
            assert len(one.contexts) == 1
        with raises(remote.NoAllocation, match=rf"{number}_3 is pending"):
            remote.allocation(job=f"{number}_3", python=PYTHON)
        with raises(remote.NoAllocation, match="takes no number of an array's job.*remote.allocation"):
            remote.slurm(job=f"{number}_1", python=PYTHON)
    finally:
        login.run("/usr/bin/scancel", number)


@pytest.mark.parametrize(
    "request_",
    [
        {"partition": "nope"},
        {"constraint": "gpu"},
        {"time": "bad"},
        {"salloc_args": ["--gres=gpu:1"]},
        {"salloc_args": ["--nope"]},
    ],
    ids=str,
)
def test_what_slurm_does_not_know_is_refused_at_once(request_, login):
    with raises(remote.RequestRefused, match="Slurm takes no such request.*sinfo"):
        remote.allocation(python=PYTHON, **request_)


def test_a_request_that_waits_too_long_is_taken_back(login):
    states = []
    with raises(remote.NotScheduled, match=r"no allocation within 4 seconds.*Job \d+ is pending \(Partition\w+\)"):
        remote.allocation(nodes=5, queue=4, progress=states.append)
    assert re.fullmatch(r"Job \d+ is pending .*", states[0])
    assert queue(login) == []


def test_a_killed_opener_takes_its_request_back(login):
    opener = roamlet.tasklet(partial(remote.allocation, nodes=5))()
    end = time.monotonic() + 30
    while not queue(login):
        assert time.monotonic() < end
        roamlet.sleep(0.2)
    opener.kill()
    roamlet.run()
    wait_until_empty(login)


ABANDONS = """
import sys, time
from roamlet import remote
found = remote.allocation(nodes=2, python={python!r})
print(found.job, flush=True)
time.sleep(1000)
"""


def test_an_allocation_ends_with_a_killed_parent(login):
    words = [sys.executable, "-c", ABANDONS.format(python=PYTHON)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ) as parent:
        job = parent.stdout.readline().strip()
        assert queue(login) == [f"{job} RUNNING"]
        parent.send_signal(signal.SIGKILL)
    wait_until_empty(login)


def died_by(found, takes_away):
    """The error of a call that runs when the allocation is taken away."""
    call = found.contexts[0].spawn(roamlet_sent.never_return)
    roamlet.sleep(0.5)
    takes_away()
    with raises(remote.ContextDied) as caught:
        call.join()
    return str(caught.value)


def test_a_cancelled_allocation_is_named_so(login):
    with remote.allocation(nodes=1, python=PYTHON) as found:
        said = died_by(found, lambda: login.run("/usr/bin/scancel", found.job))
    assert "its job was cancelled, or has ended" in said


def test_a_time_limit_is_named_so(login):
    with remote.allocation(nodes=1, time=100, python=PYTHON) as found:
        said = died_by(found, lambda: login.run("/usr/bin/scontrol", "update", f"JobId={found.job}", "TimeLimit=0:01"))
    assert "its job has reached its time limit, and Slurm has ended it" in said


def test_a_failed_node_is_named_so(login):
    try:
        with remote.allocation(nodes=1, python=PYTHON) as found:
            node = found.nodes[0]
            said = died_by(
                found, lambda: login.run("/usr/bin/scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
            )
        assert "a node of its job has failed" in said
    finally:
        login.run("/usr/bin/scontrol", "update", f"NodeName={node}", "State=RESUME")


def test_no_context_is_left_where_one_does_not_come_about(login):
    with raises(remote.NoPython, match="the node has no /no/such/python"):
        remote.allocation(ntasks=3, nodes=2, python="/no/such/python")
    assert opened() == []


def test_the_program_of_the_howto_prints_what_the_page_says(login, tmp_path):
    script, _ = scripts(ROOT / "docs/howto/slurm.md")
    program = tmp_path / "program.py"
    program.write_text(script.text)
    words = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(script.prints)  # a busy Slurm may let it wait, which it says first


SUBMITS = """
import sys
sys.path[:0] = {path!r}
import roamlet_batch_sent
from roamlet import remote
print(remote.sbatch(roamlet_batch_sent.work, (7,), array="0-2", output={output!r}, python={python!r}, sbatch_args=["--chdir=/tmp"]))
"""


def test_the_jobs_of_an_array_run_without_the_process_that_submitted_them(login, tmp_path):
    program = SUBMITS.format(path=sys.path, output=str(tmp_path / "out-%a"), python=PYTHON)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().isdigit()
    wait_until_empty(login)
    for number in range(3):
        said = (tmp_path / f"out-{number}").read_text()
        assert f"worked on 7 in task {number} with roamlet_kinds" in said
