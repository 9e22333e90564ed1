"""What is packed while the first task runs: the modules of a play, and nothing where it is not certain that they will run."""

import json
import subprocess
import sys
from typing import Any

import pytest

from apps.ansible.tests import packing_ahead
from roamlet_ansible.cores.packed import AHEAD, OF_RUN, withdraw

pytestmark = pytest.mark.timeout(120)

TASKS: list[dict[str, Any]] = [
    {"ping": None},
    {"ansible.builtin.copy": {"content": "a", "dest": "/a"}},
    {"block": [{"shell": "true"}], "rescue": [{"getent": {"database": "passwd"}}]},
    {"debug": {"msg": "no module"}},
]


def packed(folder, tasks, *words, facts=False):
    """(how many processes were started, the names of the modules that are packed when they have ended)."""
    play = json.dumps({"hosts": "all", "gather_facts": facts, "tasks": tasks})
    done = subprocess.run(
        [sys.executable, packing_ahead.__file__, str(folder), play, *words], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["left"] == []
    return found["started"], found["packed"]


def test_modules_of_all_tasks_but_the_first_are_packed(tmp_path):
    assert packed(tmp_path, TASKS) == (1, ["command", "copy", "file", "getent", "stat"])


def test_facts_are_the_first_task_where_they_are_gathered(tmp_path):
    assert packed(tmp_path, [{"setup": {}}, {"ping": None}], facts=True) == (1, ["ping"])


def test_nothing_is_started_for_one_task_or_for_what_is_packed(tmp_path):
    assert packed(tmp_path, TASKS[:1]) == (0, [])
    assert packed(tmp_path, TASKS)[0] == 1
    assert packed(tmp_path, TASKS)[0] == 0


def test_tasks_with_a_condition_are_left_to_their_workers(tmp_path):
    conditional = {"when": "a is defined"}
    tasks = [
        {"ping": None},
        {"stat": {"path": "/"}, **conditional},
        {"block": [{"setup": {}}], **conditional},
        {"getent": {"database": "passwd"}},
    ]
    assert packed(tmp_path, tasks) == (1, ["getent"])


def test_modules_that_are_not_cores_are_left_to_their_workers(tmp_path):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "stat.py").write_text("from ansible.module_utils.basic import AnsibleModule\n")
    tasks = [{"ping": None}, {"stat": {"path": "/"}}, {"getent": {"database": "passwd"}}]
    assert packed(tmp_path, tasks) == (1, ["getent"])


@pytest.mark.parametrize("word", ["tags", "memory"])
def test_nothing_is_packed_where_it_is_not_known_what_will_run_or_is_packed_elsewhere(tmp_path, word):
    assert packed(tmp_path, TASKS, word) == (0, [])


def test_nothing_is_packed_where_module_utils_may_come(tmp_path):
    assert packed(tmp_path, [*TASKS, {"include_tasks": "more.yml"}]) == (0, [])
    (tmp_path / "roles" / "own" / "module_utils").mkdir(parents=True)
    (tmp_path / "roles" / "own" / "module_utils" / "basic.py").write_text("")
    assert packed(tmp_path, [*TASKS, {"import_role": {"name": "own"}}]) == (0, [])


@pytest.mark.parametrize(("when", "left"), [("early", []), ("late", ["stat"])])
def test_what_no_task_has_used_is_taken_back_where_module_utils_have_come(tmp_path, when, left):
    (tmp_path / "module_utils").mkdir()
    assert packed(tmp_path, TASKS, when) == (1, left)


def test_module_utils_are_found_below_a_folder_with_a_colon(tmp_path):
    folder = tmp_path / "a:b"
    (folder / "module_utils").mkdir(parents=True)
    (folder / "module_utils" / "mine.py").write_text("")
    assert packed(folder, TASKS) == (0, [])


def test_a_process_that_has_the_number_of_one_that_packed_is_left_alone(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / AHEAD).write_text(f"{other.pid} 1 ansible.modules.ping\n")
        (tmp_path / OF_RUN).mkdir()
        (tmp_path / OF_RUN / "ansible.modules.ping-ZIP_DEFLATED").write_text("")
        withdraw(str(tmp_path))
        assert other.poll() is None
        other.kill()
    assert list((tmp_path / OF_RUN).iterdir()) == []


def test_what_core_says_while_it_packs_is_left_to_workers(tmp_path, monkeypatch):
    (tmp_path / "ansible.cfg").write_text("[defaults]\nmodule_compression = ZIP_BOGUS\n")  # it warns
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    play = json.dumps({"hosts": "all", "gather_facts": False, "tasks": TASKS})
    done = subprocess.run(
        [sys.executable, packing_ahead.__file__, str(tmp_path), play], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["packed"]
    assert "ZIP_BOGUS" not in done.stdout + done.stderr


def test_it_ends_with_the_run(tmp_path):
    started, names = packed(tmp_path, TASKS, "ended")
    assert started == 1
    assert len(names) < 5
