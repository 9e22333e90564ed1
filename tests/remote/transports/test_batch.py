"""Functions as batch jobs: the scripts really run, on each interpreter; sbatch is a stand-in, and the real one in tests/soak."""

import importlib
import os
import random
import subprocess
import sys

import pytest
import roamlet_batch_sent

import roamlet
from roamlet import remote
from roamlet.remote import batch
from tests.remote import interpreters
from tests.remote.raising import raises
from tests.remote.transports.slurm_standin import Slurm


@pytest.fixture
def slurm(commands, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return Slurm(commands)


def run(slurm, **variables):
    """Run what was submitted as a node does, on which no parent is; return the exit code and what Slurm's output file has."""
    output = slurm.folder / "slurm-42.out"
    with output.open("w") as file:
        done = subprocess.run(
            ["/bin/sh", str(slurm.script)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={"PATH": os.defpath, **variables},
            cwd="/",
            timeout=60,
            check=False,
        )
    return done.returncode, output.read_text()


@pytest.mark.parametrize("version", interpreters.found())
def test_a_script_has_all_that_its_function_needs(version, slurm, tmp_path):
    path = tmp_path / "done"
    job = remote.sbatch(roamlet_batch_sent.work, (7,), {"path": str(path)}, python=interpreters.found()[version])
    assert job == "42"
    assert not path.exists()  # nothing runs before its turn
    code, said = run(slurm, SLURM_ARRAY_TASK_ID="3")
    assert (code, sorted(said.splitlines())) == (0, ["and said so", "worked on 7 in task 3 with roamlet_kinds"])
    assert path.read_text() == "7"


def test_an_error_makes_the_job_fail_and_is_in_its_output(slurm):
    remote.sbatch(roamlet_batch_sent.fail, ("no such luck",), python=sys.executable)
    code, said = run(slurm)
    assert code == 1
    assert said.splitlines()[0] == "Traceback (most recent call last):"
    assert "raise ValueError(text)" in said
    assert said.splitlines()[-1] == "ValueError: no such luck"
    remote.sbatch(roamlet_batch_sent.leave, (5,), python=sys.executable)
    assert run(slurm) == (5, "")


def test_more_than_a_pipe_holds_arrives(slurm):
    data = random.Random(1).randbytes(1_500_000)
    remote.sbatch(roamlet_batch_sent.size_of, (data,), python=sys.executable)
    assert run(slurm) == (0, "1500000\n")


def test_a_closure_can_be_a_job(slurm):
    word = "deep"

    def say():
        print(word)

    remote.sbatch(say, python=sys.executable)
    assert run(slurm) == (0, "deep\n")


def test_what_sbatch_is_asked_for(slurm):
    job = remote.sbatch(
        roamlet_batch_sent.work,
        (1,),
        array="0-9%4",
        output="/scratch/%A-%a.out",
        ntasks=2,
        time="1:00:00",
        partition="gpu",
        sbatch_args=["--clusters=all"],
        python=sys.executable,
    )
    assert job == "42"
    (words,) = slurm.calls("sbatch")
    assert words == [
        "--parsable",
        "--job-name=work",
        "--ntasks=2",
        "--time=1:00:00",
        "--partition=gpu",
        "--array=0-9%4",
        "--output=/scratch/%A-%a.out",
        "--clusters=all",
    ]


def test_a_script_says_which_pythons_it_has_not_found(slurm):
    remote.sbatch(roamlet_batch_sent.work, (1,), python=sys.executable)
    text = slurm.script.read_text().replace(sys.executable, "/no/such/python")
    slurm.script.write_text(text)
    assert run(slurm) == (127, "no Python of these names is here: /no/such/python\n")


def test_what_is_too_large_for_a_script_is_refused(slurm):
    with raises(remote.RequestRefused, match=r"size_of would take 4\.\d MB.*Slurm takes 4 MB.*/shared/venv"):
        remote.sbatch(roamlet_batch_sent.size_of, (random.Random(1).randbytes(3_300_000),), python=sys.executable)
    assert slurm.calls("sbatch") == []


def test_channels_do_not_travel_into_a_job(slurm):
    with raises(remote.CannotTravel, match="ends with the process that has made it"):
        remote.sbatch(roamlet_batch_sent.work, (roamlet.channel(),), python=sys.executable)
    assert slurm.calls("sbatch") == []


@pytest.mark.parametrize(
    ("said", "error", "says"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name specified\n", remote.RequestRefused, "sinfo --long"),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
         remote.HostUnreachable, "scontrol ping"),
        ("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy\n", remote.NotAllowed, "sacctmgr"),
        ("sbatch: error: something else\n", remote.ConnectError,
         "exit code 1 and gave no number of a job; .*is not known; see squeue --me --name=work\n.*something else.*by hand: sbatch"),
    ],
)  # fmt: skip
def test_what_sbatch_says_becomes_a_named_error(said, error, says, slurm):
    slurm.says("sbatch", 1, errors=said)
    with raises(remote.ConnectError, match=says) as caught:
        remote.sbatch(roamlet_batch_sent.work, (1,), python=sys.executable)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "Submitted batch job 42\n"),
        (0, "Welcome.\nSubmitted batch job 42 on cluster west\n"),
        (3, "42\n"),  # --wait: the exit code is the job's
    ],
)
def test_a_number_says_that_a_job_was_submitted(code, said, slurm):
    slurm.says("sbatch", code, said)
    assert remote.sbatch(roamlet_batch_sent.work, (1,), python=sys.executable) == "42"


def test_an_answer_without_a_number_is_no_claim_and_is_shown_in_part(slurm):
    slurm.says("sbatch", 0, "Thanks. " * 10_000 + "\n" + "a line\n" * 10_000)
    with raises(
        remote.ConnectError, match="ended with exit code 0.*submitted is not known; see squeue --me\n"
    ) as caught:
        remote.sbatch(roamlet_batch_sent.work, (1,), python=sys.executable, sbatch_args=["--job-name=own"])
    assert len(str(caught.value)) < 1500


def test_whether_a_job_is_there_is_not_known_when_sbatch_takes_too_long(slurm, monkeypatch):
    monkeypatch.setattr(batch, "script", lambda *args: b"")
    (slurm.folder / "sbatch").write_text("#!/bin/sh\ncat >/dev/null\necho 42\nexec sleep 100\n")
    with raises(
        remote.ConnectTimeout, match="42.*Whether a job was submitted is not known; see squeue --me --name=work"
    ):
        remote.sbatch(roamlet_batch_sent.work, (1,), python=sys.executable, timeout=2, sbatch_args=["--wait"])


def test_a_script_that_takes_all_the_time_is_not_submitted(slurm, monkeypatch):
    monkeypatch.setattr(batch, "script", lambda *args: roamlet.sleep(0.1) or b"")
    with raises(remote.ConnectTimeout, match=r"all of the 0\.05 seconds, so no job was submitted"):
        remote.sbatch(roamlet_batch_sent.work, (1,), timeout=0.05)
    assert slurm.calls("sbatch") == []


def test_a_module_that_ends_its_interpreter_is_noticed_at_once(slurm, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "roamlet_ends.py").write_text(  # by its end all that is sent has come
        f"import os, time\nif os.getpid() != {os.getpid()}:\n    time.sleep(1)\n    os._exit(3)\ndef work():\n    pass\n"
    )
    roamlet_ends = importlib.import_module("roamlet_ends")
    try:
        with raises(remote.ContextDied, match="exit code 3"):
            remote.sbatch(roamlet_ends.work, python=sys.executable, timeout=20)
    finally:
        del sys.modules["roamlet_ends"]


def test_a_job_is_submitted_in_the_place_of_via(slurm):
    with remote.local(name="login") as login:
        assert remote.sbatch(roamlet_batch_sent.work, (7,), python=sys.executable, via=login) == "42"
    assert run(slurm)[0] == 0


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"array": "0-9; id"}, ValueError, "array must be numbers"),
        ({"output": ""}, ValueError, "output must be the path"),
        ({"timeout": 0}, ValueError, "timeout must be a number of seconds"),
        ({"via": "login"}, TypeError, "via= takes a context on a login node"),
        ({"modules": "all"}, TypeError, "modules= takes a remote.Modules"),
        ({"python": "-c"}, ValueError, "cannot be an interpreter"),
        ({"ntasks": 0}, ValueError, "ntasks=0 cannot be one"),
        ({"sbatch_args": "--hold"}, TypeError, "sbatch_args takes a list"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_anything_is_started(options, error, says, slurm):
    with raises(error, match=says):
        remote.sbatch(roamlet_batch_sent.work, (1,), **options)
    assert not (slurm.folder / "calls").exists()
