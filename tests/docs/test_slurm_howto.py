"""The program of docs/howto/slurm.md, on a login node whose Slurm is a stand-in; tests/soak runs it on a real one."""

import os
import subprocess
import sys

from tests.docs.blocks import ROOT, scripts
from tests.remote.transports.slurm_standin import Slurm

SCRIPT, BATCH = scripts(ROOT / "docs/howto/slurm.md")


def run(script, folder):
    """Run it with the stand-in; return that one, and how it ended."""
    commands = folder / "commands"
    commands.mkdir()
    slurm = Slurm(commands)
    program = folder / "program.py"
    program.write_text(script.text)
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("SLURM_JOB_ID", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return slurm, (done.returncode, done.stdout, done.stderr)


def test_the_program_prints_what_the_page_says(tmp_path):
    slurm, done = run(SCRIPT, tmp_path)
    assert done == (0, SCRIPT.prints, "")
    (request,) = slurm.calls("salloc")
    assert request[:2] == ["--ntasks=3", "--time=0:10:00"]
    assert slurm.given_back


def test_the_batch_job_runs_without_the_program(tmp_path):
    slurm, done = run(BATCH, tmp_path)
    assert done == (0, BATCH.prints, "")
    (request,) = slurm.calls("sbatch")
    assert request[-2:] == ["--array=0-2", "--output=seeds-%a.out"]
    output = tmp_path / "seeds-1.out"
    with output.open("w") as file:
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "1"}
        subprocess.run(["/bin/sh", str(slurm.script)], stdout=file, env=environment, cwd="/", check=True, timeout=60)
    assert output.read_text() == f"seed 5 gives {pow(5, 1000, 97)}\n"
