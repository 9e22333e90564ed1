"""The callback plugin `recap`, and the record of a run that it, the workers and the broker make."""

import json
import re

import pytest

from roamlet_ansible import tally

pytestmark = pytest.mark.playbook

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: slow, command: sleep 1}
  - {name: said, debug: {msg: only on the controller}}
  - {name: as it is, raw: echo secret-of-a-command}
  - {name: file, copy: {content: "secret of a file", dest: "{{ place }}"}}
"""
ENABLED = "task_results,roamlet.remote.recap"


def test_the_recap_has_the_time_the_turnarounds_and_the_way_of_each_task_slowest_first(playing):
    record = playing.folder / "record"
    played = playing.play(
        PLAY,
        "roamlet.remote.ssh",
        *("-e", f"place={playing.folder / 'made'}"),
        ANSIBLE_CALLBACKS_ENABLED=ENABLED,
        ROAMLET_ANSIBLE_LOG=str(record),
    )
    assert played.code == 0, played.text
    assert played.text.index("PLAY RECAP") < played.text.index("ROAMLET RECAP")
    rows = played.text[played.text.index("ROAMLET RECAP") :].splitlines()[1:]
    assert rows[0].split() == ["seconds", "turnarounds", "kB", "down", "kB", "up", "task", "way"]
    assert re.fullmatch(r" *[1-9]\d*\.\d\d +\d+ +\d+\.\d +\d+\.\d  slow +warm Python", rows[1])
    assert any(re.search(r"  as it is +command$", row) for row in rows)
    assert any(re.search(r"  file +warm Python$", row) for row in rows)
    assert not any("said" in row for row in rows)
    assert "all 3 tasks" in rows[4]
    tasks = {task.name: task for task in tally.read(record.read_text().splitlines())}
    assert tasks["slow"].seconds >= 1
    assert tasks["slow"].modules == ["ansible.modules.command"]
    assert tasks["slow"].down > 10_000  # the files of the module went there, once
    assert tasks["as it is"].turnarounds == 1
    assert record.stat().st_mode & 0o777 == 0o600
    assert "secret" not in record.read_text()


def test_a_module_that_runs_as_a_command_says_why_and_hosts_have_their_names(playing):
    record = playing.folder / "record"
    played = playing.play(
        """
- hosts: all
  gather_facts: false
  tasks:
  - {name: job, command: echo words, async: 20, poll: 1}
  - {name: copied, ping: , vars: {ansible_pipelining: false}}
  - {name: warm, ping: }
""",
        "roamlet.remote.ssh",
        "-vvv",
        ANSIBLE_CALLBACKS_ENABLED=ENABLED,
        ROAMLET_ANSIBLE_LOG=str(record),
    )
    assert played.code == 0, played.text
    assert played.text.count("SSH: EXEC") == 1  # in the task that has opened the connection
    tasks = {task.name: task for task in tally.read(record.read_text().splitlines())}
    assert tasks["job"].reasons == ["async: the job outlives its task"]
    assert tasks["copied"].way.startswith("command") and "pipelining is off" in tasks["copied"].way
    assert tasks["warm"].reasons == []
    assert {host for task in tasks.values() for host in task.hosts} == {"t0"}


def test_the_recap_needs_no_file_of_the_user_and_leaves_none(playing):
    played = playing.play(
        PLAY, "roamlet.remote.ssh", "--check", "-e", "place=/nowhere", ANSIBLE_CALLBACKS_ENABLED=ENABLED
    )
    assert "ROAMLET RECAP" in played.text
    assert list((playing.folder / "ansible" / "tmp").iterdir()) == []


def test_a_run_over_another_connection_has_no_recap(playing):
    played = playing.play(
        "- hosts: all\n  gather_facts: false\n  tasks: [{name: said, debug: }]\n", ANSIBLE_CALLBACKS_ENABLED=ENABLED
    )
    assert played.code == 0, played.text
    assert "ROAMLET RECAP" not in played.text


def lines(*given):
    return [json.dumps(one) for one in given]


def test_the_reason_why_a_module_ran_as_a_command_is_said():
    (task,) = tally.read(
        lines(
            {"task": "u", "name": "install", "begins": 10.0},
            {"task": "u", "host": "a", "way": "command", "why": "not known", "module": "", "interpreter": ""},
            {"task": "u", "host": "b", "way": "module", "why": "", "module": "ansible.modules.apt", "interpreter": "p"},
            {
                "task": "u",
                "host": "b",
                "request": "module",
                "seconds": 1,
                "turnarounds": 2,
                "down": 30,
                "up": 4,
                "error": "",
            },
            {"task": "u", "ends": 12.5, "status": "ok"},
        )
    )
    assert task.way == "warm Python (1), command (1): not known"
    assert (task.seconds, task.turnarounds, task.down, task.up, task.hosts) == (2.5, 2, 30, 4, ["a", "b"])


def test_a_record_without_the_callback_names_modules_and_adds_up_requests():
    request = {
        "task": "u",
        "host": "a",
        "request": "module",
        "seconds": 0.5,
        "turnarounds": 1,
        "down": 1,
        "up": 1,
        "error": "",
    }
    way = {"task": "u", "host": "a", "way": "module", "why": "", "module": "ansible.modules.stat", "interpreter": "p"}
    (task,) = tally.read(lines(way, request, request))
    assert (task.label, task.seconds, task.turnarounds) == ("ansible.modules.stat", 1.0, 2)


@pytest.mark.parametrize(
    "text", ["", "2026-01-01 roamlet_ansible.broker: request", "{", "[]", '{"task": 5}', '{"task": "u", "ends": "x"}']
)
def test_lines_that_are_no_record_are_passed_over(text):
    assert [task for task in tally.read([text]) if task.ways or task.turnarounds] == []


def test_the_table_says_how_many_tasks_it_leaves_out():
    tasks = [tally.Task(str(number), name=f"n{number}", seconds=1.0) for number in range(5)]
    table = tally.table(tasks, 2)
    assert [row.split()[4] for row in table[1:3]] == ["n0", "n1"]
    assert table[3].split(maxsplit=4)[0::4] == ["5.00", "all 5 tasks, 3 of them not shown"]
