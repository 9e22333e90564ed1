"""The program of docs/howto/slurm.md, on a login node whose Slurm is a stand-in; tests/soak runs it on a real one."""

import os
import subprocess
import sys

from tests.docs.blocks import ROOT, scripts
from tests.remote.transports.slurm_standin import Slurm

(SCRIPT,) = scripts(ROOT / "docs/howto/slurm.md")


def test_the_program_prints_what_the_page_says(tmp_path):
    folder = tmp_path / "commands"
    folder.mkdir()
    slurm = Slurm(folder)
    program = tmp_path / "program.py"
    program.write_text(SCRIPT.text)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("SLURM_JOB_ID", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, SCRIPT.prints, "")
    (request,) = slurm.calls("salloc")
    assert request[2:4] == ["--ntasks=3", "--time=0:10:00"]
    assert slurm.given_back
