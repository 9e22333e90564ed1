"""Many tasks of one host at once, and what Ansible does with connections: async, delegation, resets, strategies."""

import json

import pytest

from .faulty import NO_MASTER, leaving_nothing
from .playing import ROAMLET, STOCK

pytestmark = pytest.mark.playbook

HEAD = "- hosts: all\n  gather_facts: false\n"
PLAY = HEAD + "  tasks:\n"
FORKS = {"ANSIBLE_FORKS": "8", **NO_MASTER}


@pytest.fixture(autouse=True)
def nothing_is_left(playing):
    with leaving_nothing(playing):
        yield


def meeting(folder, name, count):
    """A command that ends when `count` of it have run at the same time; it fails after ten seconds."""
    return (
        f"mkdir -p {folder}/{name}; echo > {folder}/{name}/$$;"
        f" for i in $(seq 200); do [ $(ls {folder}/{name} | wc -l) -lt {count} ] || exit 0; sleep 0.05; done; exit 1"
    )


def alone(folder, name):
    """A command that fails when another one of it runs."""
    return f"mkdir {folder}/{name} && sleep 0.1 && rmdir {folder}/{name}"


def test_tasks_of_all_forks_run_at_once_on_one_host_and_throttle_limits_them(playing):
    folder = playing.folder
    played = playing.play(
        f"""{PLAY}
  - {{name: module, shell: "{meeting(folder, "m", 6)}"}}
  - {{name: raw, raw: "{meeting(folder, "r", 6)}"}}
  - {{name: delegated, shell: "{meeting(folder, "d", 6)}", delegate_to: t0}}
  - {{name: throttled, shell: "{alone(folder, "a")}", delegate_to: t0, throttle: 1}}
  - {{name: once, shell: "echo x >> {folder}/once", run_once: true}}
  - {{name: who, shell: "cut -d' ' -f4 /proc/$PPID/stat", delegate_to: t0}}
""",
        hosts=6,
        **FORKS,
    )
    assert played.code == 0, played.text
    assert (folder / "once").read_text() == "x\n"
    assert len({one["stdout"] for name, _, one in played.tasks if name == "who"}) == 1


def test_serial_and_the_free_strategy(playing):
    folder = playing.folder
    played = playing.play(
        f"""{HEAD}  serial: 2
  tasks:
  - {{name: first, shell: "{meeting(folder, "s-{{ ansible_play_batch | first }}", 2)}"}}
- hosts: all
  gather_facts: false
  strategy: free
  tasks:
  - {{name: one, shell: "sleep 0.{{{{ inventory_hostname[1:] }}}}; echo {{{{ inventory_hostname }}}}"}}
  - {{name: two, command: "echo {{{{ inventory_hostname }}}}"}}
""",
        hosts=4,
        **FORKS,
    )
    assert played.code == 0, played.text
    assert sorted(one["stdout"] for name, _, one in played.tasks if name == "two") == ["t0", "t1", "t2", "t3"]


def test_async_reset_and_waiting_for_a_connection(playing):
    # Not "sleep 1": core's run_command() looks once a second whether a silent process has ended, and may then miss its last words.
    played = playing.play(
        f"""{PLAY}
  - {{name: before, shell: "cut -d' ' -f4 /proc/$PPID/stat"}}
  - {{name: polled, command: echo polled, async: 20, poll: 1}}
  - {{name: started, shell: "sleep 1.5; echo late", async: 20, poll: 0, register: started}}
  - {{name: meanwhile, shell: "cut -d' ' -f4 /proc/$PPID/stat"}}
  - meta: reset_connection
  - {{name: waits, wait_for_connection: {{timeout: 20}}}}
  - {{name: reset, shell: "cut -d' ' -f4 /proc/$PPID/stat"}}
  - {{name: status, async_status: {{jid: "{{{{ started.ansible_job_id }}}}"}}, register: s, until: s.finished, retries: 40}}
  - {{name: forgotten, async_status: {{jid: "{{{{ started.ansible_job_id }}}}", mode: cleanup}}}}
  - {{name: too long, command: sleep 30, async: 1, poll: 1, ignore_errors: true}}
""",
        **NO_MASTER,
    )
    assert played.code == 0, played.text
    assert played["polled"]["stdout"] == "polled"
    assert played["before"]["stdout"] == played["meanwhile"]["stdout"] != played["reset"]["stdout"]
    (last,) = [one for name, status, one in played.tasks if name == "status" and one.get("finished")]
    assert last["stdout"] == "late"
    assert played.status("too long") == "failed"


def test_a_reset_connection_disturbs_no_task_that_another_host_has_there(playing):
    """As over ssh, whose master process goes on to serve the sessions that it has."""
    folder = playing.folder
    played = playing.play(
        f"""{HEAD}  strategy: free
  tasks:
  - {{name: long, shell: "touch {folder}/begun; while [ ! -e {folder}/reset ]; do sleep 0.1; done", delegate_to: t0,
     when: inventory_hostname != 't0'}}
  - {{name: begun, wait_for: {{path: "{folder}/begun"}}, when: inventory_hostname == 't0'}}
  - meta: reset_connection
  - {{name: reset, shell: "touch {folder}/reset"}}
""",
        hosts=2,
        **FORKS,
    )
    assert played.code == 0, played.text


ENVIRONMENT = f"""{PLAY}
  - {{name: locale, shell: 'locale 2>/dev/null | grep LC_ALL; locale charmap', environment: {{LC_ALL: C.UTF-8}}}}
  - {{name: other, shell: 'locale 2>/dev/null | grep LC_ALL', environment: {{LC_ALL: POSIX}}}}
  - {{name: none, shell: 'locale 2>/dev/null | grep LC_ALL'}}
  - {{name: path, command: own-program, environment: {{PATH: "{{{{ place }}}}:/usr/bin:/bin"}}}}
  - {{name: without, command: own-program, ignore_errors: true}}
  - {{name: zone, shell: 'date +%Z', environment: {{TZ: Asia/Tokyo}}}}
  - {{name: home, shell: 'echo ~ $HOME', environment: {{HOME: /usr}}}}
  - {{name: empty, shell: 'echo "<$EMPTY>"; env | grep -c ^EMPTY=', environment: {{EMPTY: ""}}}}
  - {{name: odd, shell: 'echo "$ODD"', environment: {{ODD: "a\\nb 'c' $HOME `id`"}}}}
  - {{name: check, copy: {{content: "x\\n", dest: "{{{{ place }}}}/check"}}, check_mode: true, diff: true}}
  - {{name: checked, command: touch never, check_mode: true}}
  - {{name: diff, blockinfile: {{path: "{{{{ place }}}}/own-program", block: "# more"}}, check_mode: true, diff: true}}
"""


def test_variables_of_the_environment_check_mode_and_differences_are_as_over_ssh(playing):
    program = playing.folder / "own-program"
    program.write_text("#!/bin/sh\necho own\n")
    program.chmod(0o755)
    given = []
    for connection in (STOCK, ROAMLET):
        played = playing.play(ENVIRONMENT, connection, "-e", f"place={playing.folder}", **NO_MASTER)
        assert played.code == 0, played.text
        keys = ("rc", "stdout", "stderr", "msg", "changed", "diff", "skipped")
        given.append([(name, status, {key: one.get(key) for key in keys}) for name, status, one in played.tasks])
        for _, _, one in given[-1]:
            for diff in one["diff"] if isinstance(one["diff"], list) else [one["diff"] or {}]:
                diff.pop("after_header", None), diff.pop("before_header", None)
    assert json.dumps(given[1]) == json.dumps(given[0])
    assert played["path"]["stdout"] == "own"
