"""`roamlet show`: the stack of a checkpoint as a traceback, or as JSON."""

import json

import pytest

import roamlet
from roamlet.cli import main
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are not saved on this version or backend")


def job(path):
    answer = [42]
    roamlet.checkpoint(path)
    return answer


JOB = job.__code__.co_firstlineno + 2  # where it is saved


@pytest.fixture
def file(tmp_path):
    path = str(tmp_path / "job.roamlet")
    roamlet.tasklet(job)(path)
    roamlet.run()
    return path


def test_a_traceback_with_variables(file, capsys):
    assert main(["show", file]) == 0
    said, problems = capsys.readouterr()
    assert problems == ""
    assert said.startswith(f"{file}: a checkpoint, written 20")
    assert f'  File "{__file__}", line {JOB}, in job\n    roamlet.checkpoint(path)\n      path   = ' in said
    assert "\n      answer = [42]  (" in said


def test_json_for_programs(file, capsys):
    assert main(["show", "--json", file]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    what = json.loads(line)
    assert (what["file"], what["checkpoint"], what["holds"]) == (file, file, "<tasklet 1>")
    assert what["tasklets"][0]["frames"][0]["line"] == JOB


def test_a_folder_is_no_checkpoint(tmp_path, capsys):
    assert main(["show", str(tmp_path)]) == 64
    assert capsys.readouterr().err == f"roamlet show: {tmp_path}: Is a directory\n"
