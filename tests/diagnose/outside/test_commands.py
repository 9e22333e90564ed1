"""`roamlet ps`, `pstree` and `stacks`: real processes of this machine, core files, and the same through a context."""

import json
import os
import platform
import re
import subprocess
import sys

import pytest

import roamlet
from roamlet.cli import main
from roamlet.core import backend
from roamlet.diagnose.model import Process
from roamlet.diagnose.outside import on_target, travelling
from tests.diagnose.outside.images import write_core

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")

UNDISTURBED = "read undisturbed: none of its threads ran meanwhile\n"


def test_a_line_for_each_group_of_tasklets(started, capsys):
    running = started("blocked", "1000")
    running.sleeps()
    assert main(["ps", str(running.pid)]) == 0
    said, problems = capsys.readouterr()
    assert problems == UNDISTURBED
    assert said.startswith(f"process {running.pid} (")
    assert f", Python {platform.python_version()}, roamlet {roamlet.__version__} on {backend}, 1 thread, " in said
    (line,) = (line for line in said.splitlines() if " outer " in line)
    assert re.search(r"  1,000  outer  blocked +[\d.]+ (ms|s)  receive on channel 0x", line)
    assert backend == "greenlet" or re.search(r"inner\(\) at .*program\.py:\d+$", line)
    assert " 1,001 tasklets" in said


def test_each_tasklet_by_itself(started, capsys):
    running = started("blocked", "12")
    assert main(["ps", "--each", str(running.pid)]) == 0
    assert len(re.findall(r"0x\w+ +outer +blocked", capsys.readouterr().out)) == 12


def test_a_tree_by_scopes(started, capsys):
    running = started("scopes")
    running.sleeps()
    assert main(["pstree", str(running.pid)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"scopes\.<locals>\.parent \(0x\w+\) \[roamlet\.scope\].*\n +└─ 2 × scopes\.<locals>\.child", said)


@pytest.mark.backends("native", reason="greenlet's own structs are its own: no frames of suspended tasklets")
def test_the_stack_of_one_tasklet_with_its_variables(started, capsys):
    running = started("with_locals")
    running.sleeps()
    assert main(["ps", "--json", str(running.pid)]) == 0
    process = Process.from_json(json.loads(capsys.readouterr().out))
    (tasklet,) = (tasklet for _, tasklet in process.tasklets() if not tasklet.main)
    assert main(["stacks", "--tasklet", hex(tasklet.id), "--locals", str(running.pid)]) == 0
    said = capsys.readouterr().out
    assert "        text = 'secret'" in said
    assert "main" not in said.split("\n\n", 2)[2]
    assert main(["stacks", str(running.pid)]) == 0
    assert "secret" not in capsys.readouterr().out
    assert main(["stacks", "--tasklet", "0x10", str(running.pid)]) == 64
    assert "has no tasklet 0x10" in capsys.readouterr().err


def test_a_core_file(started, tmp_path, capsys):
    running = started("blocked", "5")
    running.sleeps()
    path = str(tmp_path / "core")
    write_core(running.pid, path)
    assert main(["ps", "--core", path, "--exe", os.path.realpath(f"/proc/{running.pid}/exe")]) == 0
    said, problems = capsys.readouterr()
    assert "5  outer  blocked" in said
    assert problems == f"read core file {path}\n"


def test_processes_by_name_and_those_that_cannot_be_read(started, capsys):
    running = started("blocked", "5")
    assert main(["ps", "--json", "--name", "program.py blocked 5"]) == 0
    assert [json.loads(line)["pid"] for line in capsys.readouterr().out.splitlines()] == [running.pid]
    assert main(["ps", "--name", "no such program, surely"]) == 1
    assert capsys.readouterr().err == (
        "roamlet ps: no process of this machine that may be looked at uses roamlet with 'no such program, surely' in "
        "its command line\n"
    )
    with subprocess.Popen(["sleep", "100"]) as other:
        try:
            while "sleep" not in os.readlink(f"/proc/{other.pid}/exe"):
                pass
            assert main(["ps", str(other.pid)]) == 1
        finally:
            other.kill()
    assert capsys.readouterr().err == (
        f"roamlet ps: process {other.pid}: it has not loaded roamlet: `roamlet ps` without a PID lists the processes that "
        "have\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ps", "worker"], "'worker' is no PID: give its number, or HOST:PID; `--name worker` looks for it"),
        (["ps", "12345678901"], "'12345678901' is no PID: the number is too large"),
        (["ps", "1", "--core", "x"], "give one of PID, --core and --name"),
        (["ps", "--exe", "x"], "--exe is the Python of a core file: give --core FILE too"),
        (
            ["ps", "-H", "a,b", "12"],
            "-H looks on all of its hosts: leave out the PID, or give HOST:PID without -H",
        ),
        (["ps", "12", "--name", "x"], "give one of PID and --name"),
        (["top", "worker"], "'worker' is no PID: give its number, or HOST:PID; `--name worker` looks for it"),
        (
            ["top", "--interval", "0"],
            "--interval 0: give a number of seconds from 0.1 to 3600, for example --interval 2",
        ),
        (
            ["top", "-H", "a,b", "--at-once", "1"],
            "2 hosts are more than are looked at at a time: give --at-once 2, or fewer hosts",
        ),
        (["stacks"], "name a process: roamlet stacks PID; `roamlet ps` lists those that use roamlet"),
        (
            ["stacks", "--tasklet", "0x10", "--name", "x"],
            "--tasklet N is of one process: give its PID too, or --core FILE",
        ),
        (
            ["stacks", "--tasklet", "0x10", "--json", "1"],
            "--tasklet is for text: --json has all tasklets, each with its id",
        ),
        (
            ["stacks", "--tasklet", "x", "1"],
            "--tasklet x: give its number as `roamlet ps` shows it, for example 0x7f1234567890",
        ),
    ],
)
def test_wrong_command_lines(words, message, capsys):
    assert main(words) == 64
    assert capsys.readouterr().err == f"roamlet {words[0]}: {message}\n"


def test_on_a_host(started, tmp_path, capsys):
    running = started("blocked", "5")
    running.sleeps()
    hosts = tmp_path / "hosts.ini"
    hosts.write_text(f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n")
    assert main(["ps", "-i", str(hosts), f"here:{running.pid}"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("here")
    assert "5  outer  blocked" in said
    assert main(["ps", "-i", str(hosts), "-H", "here", "--name", "program.py blocked 5", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (found,) = json.loads(line)["processes"]
    process = Process.from_json(found["tree"])
    assert (found["pid"], process.pid, process.how) == (running.pid, running.pid, UNDISTURBED[5:-1])
    assert len(list(process.tasklets())) == 6
    assert main(["ps", "-i", str(hosts), "here:1"]) in (0, 1)
    capsys.readouterr()
    with open("/proc/sys/kernel/pid_max") as file:
        absent = int(file.read()) + 1
    assert main(["ps", "-i", str(hosts), f"here:{absent}"]) == 1
    said = capsys.readouterr().out
    assert re.fullmatch(rf"here +[0-9.]+ s  FAILED  there is no process {absent}, or it has ended meanwhile\n", said)
    assert main(["ps", "-i", str(hosts), "-H", "here", "--name", "no such program, surely"]) == 1
    assert "no such process that may be looked at uses roamlet" in capsys.readouterr().out


def test_a_python_that_is_too_old_says_which_one_to_give(monkeypatch):
    monkeypatch.setattr(on_target.sys, "version_info", (3, 6, 15))
    with pytest.raises(RuntimeError, match=r"of this context is 3\.6, .*: give --python .*, which process \d+ runs$"):
        on_target.look([], {"pid": os.getpid(), "name": None, "locals": False})


def test_all_modules_of_the_reader_travel():
    names = {name.rpartition(".")[2] for name, _ in travelling.sources()}
    files = {path.stem for path in travelling.HERE.glob("*.py")}
    assert files - {"__init__", "on_target", "travelling"} <= names
