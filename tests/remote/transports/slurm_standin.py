"""Stand-ins for Slurm's commands, with as much of their behaviour as roamlet relies on."""

import json
import sys
from pathlib import Path

# One program under the names of Slurm's commands. What salloc starts ends the allocation with its end.
SLURM = """\
#!{python} -IS
import json, os, subprocess, sys
folder, name = os.path.split(sys.argv[0])
words = sys.argv[1:]

def say(text, code=0):
    sys.stdout.write(text)
    sys.exit(code)

with open(folder + "/calls", "a") as calls:
    calls.write(json.dumps([name] + words) + "\\n")
answer = folder + "/" + name + ".says"
if os.path.exists(answer):
    code, text, errors = json.load(open(answer))
    sys.stderr.write(errors)
    say(text, code)
if os.path.exists(folder + "/gone") and "--jobid=" + open(folder + "/gone").read() in words:
    sys.stderr.write("srun: error: Unable to confirm allocation for job: Invalid job id specified\\n")
    sys.exit(1)
behind = words[words.index("--") + 1:] if "--" in words else []
if name == "salloc":
    sys.stderr.write("salloc: Granted job allocation 42\\n")
    code = subprocess.call(behind, env=dict(os.environ, SLURM_JOB_ID="42"))
    open(folder + "/given-back", "w").close()
    sys.exit(code)
if name == "srun" and "--label" in words:
    say("2: node-8\\n0: node-7\\n1: node-7\\n")
if name == "srun":
    os.execvp(behind[0], behind)
if name == "scontrol":
    say("JobId=42 NumNodes=2 NumCPUs=8 NumTasks=3 CPUs/Task=1\\n")
if name == "sbatch":
    with open(folder + "/script", "wb") as script:
        script.write(sys.stdin.buffer.read())
    say("42;cluster\\n" if "--clusters=all" in words else "42\\n")
if name == "squeue":
    say("42|RUNNING|None|42\\n")
"""


class Slurm:
    """Slurm's commands in `folder`, for an allocation 42 with three tasks on two nodes. Contexts run on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("salloc", "srun", "scontrol", "squeue", "scancel", "sbatch"):
            path = folder / name
            path.write_text(SLURM.replace("{python}", sys.executable))
            path.chmod(0o755)

    def says(self, name: str, code: int, text: str = "", errors: str = "") -> None:
        """From now on the command says this, and ends with this exit code."""
        (self.folder / f"{name}.says").write_text(json.dumps([code, text, errors]))

    def has_no_more(self, job: str) -> None:
        """From now on srun finds no such job."""
        (self.folder / "gone").write_text(job)

    def calls(self, name: str) -> list[list[str]]:
        """The words of each call of a command so far."""
        path = self.folder / "calls"
        calls = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [words[1:] for words in calls if words[0] == name]

    @property
    def script(self) -> Path:
        """What was last submitted to sbatch."""
        return self.folder / "script"

    @property
    def given_back(self) -> bool:
        """Whether what salloc had started has ended."""
        return (self.folder / "given-back").exists()
