"""Hosts, brokers and modules that die, and controllers that are interrupted: UNREACHABLE or failed, nothing twice, nothing left."""

import subprocess
import sys

import pytest

from roamlet.testing import wait_until

from .faulty import (
    HOLD,
    NO_MASTER,
    PATIENCE,
    commands,
    end_stopped,
    kill,
    kill_sessions,
    leaving_nothing,
    runs,
    stop_sessions,
    wait_for,
)
from .playing import ROAMLET, STOCK, Playing

pytestmark = pytest.mark.playbook

PLAY = "- hosts: all\n  gather_facts: false\n  tasks:\n"


@pytest.fixture(autouse=True)
def nothing_is_left(playing):
    with leaving_nothing(playing):
        yield


def holding(folder, name):
    """A command that appends a line to the file runs-NAME and waits for the file go-NAME."""
    return HOLD.format(runs=folder / f"runs-{name}", go=folder / f"go-{name}")


def on_controller(folder, name):
    return f"""
  - name: {name}
    shell: "{holding(folder, name)}"
    delegate_to: localhost
    vars: {{ansible_connection: local}}
"""


@pytest.mark.parametrize("task", ["shell", "raw"])
def test_a_host_that_dies_in_a_task_is_unreachable_and_nothing_runs_twice(playing, server, task):
    folder = playing.folder
    running = playing.start(
        f"""{PLAY}
  - {{name: first, ping: }}
{on_controller(folder, "between")}
  - {{name: again, ping: }}
  - {{name: dies, {task}: "{holding(folder, "dies")}", ignore_unreachable: true}}
  - {{name: after, ping: }}
""",
        **NO_MASTER,
    )
    wait_for(folder / "runs-between")
    kill_sessions(server)
    (folder / "go-between").touch()
    wait_for(folder / "runs-dies")
    kill_sessions(server)
    played = running.end()
    assert [played.status(name) for name in ("first", "again", "dies", "after")] == ["ok", "ok", "unreachable", "ok"], (
        played.text
    )
    assert runs(folder / "runs-dies") == 1


def test_a_host_that_falls_silent_is_unreachable_as_soon_as_ssh_gives_it_up(playing, server):
    """A power cut or a cut line: nothing comes any more, not even the end of the connection."""
    folder = playing.folder
    running = playing.start(
        f"""{PLAY}
  - {{name: first, ping: }}
  - {{name: silent, shell: "{holding(folder, "silent")}", ignore_unreachable: true}}
  - {{name: after, ping: }}
""",
        ANSIBLE_SSH_ARGS="-o ControlMaster=no -o ServerAliveInterval=2 -o ServerAliveCountMax=3",
    )
    wait_for(folder / "runs-silent")
    stopped = stop_sessions(server)
    played = running.end()
    end_stopped(stopped)
    assert [played.status(name) for name in ("first", "silent", "after")] == ["ok", "unreachable", "ok"], played.text
    assert runs(folder / "runs-silent") == 1
    (folder / "go-silent").touch()


def test_a_host_that_dies_in_the_middle_of_a_file_is_unreachable(playing, server):
    folder = playing.folder
    with (folder / "large").open("wb") as file:
        file.truncate(1 << 30)
    running = playing.start(
        f"""{PLAY}
  - {{name: first, ping: }}
  - {{name: copy, copy: {{src: large, dest: "{folder}/copied"}}, ignore_unreachable: true}}
  - {{name: after, ping: }}
""",
        ANSIBLE_REMOTE_TMP=str(folder / "remote"),
        **NO_MASTER,
    )
    # Behind the first piece, which is answered before the next one is sent: another connection could go on there.
    wait_until(lambda: any(one.stat().st_size > 8 << 20 for one in folder.glob("remote/*/*source*")), PATIENCE)
    kill_sessions(server)
    played = running.end()
    (folder / "large").unlink()
    for one in folder.glob("remote/*/*"):  # as over ssh: what is there of the file stays
        one.unlink()
    assert [played.status(name) for name in ("first", "copy", "after")] == ["ok", "unreachable", "ok"], played.text
    assert not (folder / "copied").exists()


def test_a_zygote_that_dies_between_tasks_is_replaced_and_one_that_dies_in_a_task_loses_it(playing):
    folder = playing.folder
    running = playing.start(
        f"""{PLAY}
  - {{name: first, command: 'sh -c "echo $PPID"'}}
{on_controller(folder, "between")}
  - {{name: again, ping: }}
  - {{name: dies, shell: "{holding(folder, "dies")}", ignore_unreachable: true}}
  - {{name: after, ping: }}
""",
        **NO_MASTER,
    )
    wait_for(folder / "runs-between")
    kill("ROAMLET-BOOT")
    (folder / "go-between").touch()
    wait_for(folder / "runs-dies")
    kill("ROAMLET-BOOT")
    played = running.end()
    (folder / "go-dies").touch()  # what the module had started goes on, as over ssh when an interpreter is killed
    assert [played.status(name) for name in ("again", "dies", "after")] == ["ok", "unreachable", "ok"], played.text
    assert runs(folder / "runs-dies") == 1


@pytest.mark.parametrize("task", ["shell", "raw"])
def test_a_broker_that_is_killed_loses_the_task_that_runs_and_no_other(playing, task):
    folder = playing.folder
    running = playing.start(
        f"""{PLAY}
  - {{name: first, ping: }}
{on_controller(folder, "between")}
  - {{name: again, ping: }}
  - {{name: dies, {task}: "{holding(folder, "dies")}", ignore_unreachable: true}}
  - {{name: after, ping: }}
""",
        **NO_MASTER,
    )
    wait_for(folder / "runs-between")
    kill("roamlet_ansible.broker")
    (folder / "go-between").touch()
    wait_for(folder / "runs-dies")
    kill("roamlet_ansible.broker")
    played = running.end()
    assert [played.status(name) for name in ("first", "again", "dies", "after")] == ["ok", "ok", "unreachable", "ok"], (
        played.text
    )
    assert runs(folder / "runs-dies") == 1


@pytest.mark.parametrize("task", ["shell", "raw"])
def test_a_time_out_ends_the_process_group_on_the_target(playing, task):
    folder = playing.folder
    played = playing.play(
        f"""{PLAY}
  - {{name: first, ping: }}
  - {{name: long, {task}: "(sleep 99.25 & wait) & {holding(folder, "long")}", timeout: 2, ignore_errors: true}}
  - {{name: ended, shell: "sleep 0.5; ps -eo args | grep -c '[s]leep 99.25'", failed_when: false}}
  - {{name: after, ping: }}
""",
        **NO_MASTER,
    )
    assert played.code == 0, played.text
    assert played.status("long") == "failed"
    assert "time" in played["long"]["msg"]
    assert played["ended"]["stdout"] == "0"
    assert runs(folder / "runs-long") == 1


@pytest.mark.parametrize("task", ["shell", "raw"])
def test_ctrl_c_ends_the_process_group_on_the_target(playing, task):
    folder = playing.folder
    running = playing.start(
        f"""{PLAY}
  - {{name: first, ping: }}
  - {{name: long, {task}: "(sleep 99.75 & wait) & {holding(folder, "long")}"}}
  - {{name: never, ping: }}
""",
        **NO_MASTER,
    )
    wait_for(folder / "runs-long")
    running.interrupt()
    played = running.end()
    assert played.code not in (0, 2), played.text
    assert "never" not in [name for name, _, _ in played.tasks]
    wait_until(lambda: not commands("sleep 99.75"), PATIENCE)
    assert runs(folder / "runs-long") == 1


MODULES = {
    "daemon.py": """\
#!/usr/bin/python
import os, sys, time
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({'log': {'type': 'path'}})
if os.fork() == 0:  # keeps stdout and stderr
    os.setsid()
    if os.fork() == 0:
        time.sleep(3)
        open(module.params['log'], 'w').close()
    os._exit(0)
module.exit_json(changed=True)
""",
    "closes.py": """\
#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
AnsibleModule({})
os.close(1)
os.close(2)
os._exit(5)
""",
    "large.py": """\
#!/usr/bin/python
import sys
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({})
for number in range(1000):
    sys.stdout.write('x' * 99999 + chr(10))
module.exit_json(changed=False, wrote=100)
""",
    "kills.py": """\
#!/usr/bin/python
import os, sys
from ansible.module_utils.basic import AnsibleModule
AnsibleModule({})
sys.stdout.write('before')
sys.stdout.flush()
os.kill(os.getpid(), 9)
""",
    "imports.py": """\
#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({})
try:
    import freshly_installed
    there = freshly_installed.ANSWER
except ImportError:
    there = None
module.exit_json(changed=False, there=there)
""",
}


@pytest.fixture
def library(playing):
    (playing.folder / "library").mkdir()
    for name, text in MODULES.items():
        (playing.folder / "library" / name).write_text(text)
    return playing


def test_modules_that_leave_daemons_close_their_output_write_much_or_kill_themselves(library):
    text = f"""{PLAY}
  - {{name: daemon, daemon: {{log: "{library.folder}/daemon"}}}}
  - {{name: closes, closes: , ignore_errors: true}}
  - {{name: kills, kills: , ignore_errors: true}}
  - {{name: at once, command: test ! -e "{library.folder}/daemon"}}
"""
    stock = library.play(text.rpartition("  - ")[0], STOCK, **NO_MASTER)
    wait_for(library.folder / "daemon")
    (library.folder / "daemon").unlink()
    text += "  - {name: large, large: }\n  - {name: after, ping: }\n"
    ours = library.play(text, **NO_MASTER)
    assert ours.code == 0, ours.text
    for name in ("daemon", "closes", "kills"):
        assert ours.status(name) == stock.status(name)
        for key in ("rc", "changed", "module_stdout", "msg"):
            assert ours[name].get(key) == stock[name].get(key), (name, key)
    assert ours["large"]["wrote"] == 100
    wait_for(library.folder / "daemon")


def test_a_package_that_was_installed_is_seen_by_the_next_module(library, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "own")], check=True)
    (site,) = (tmp_path / "own" / "lib").glob("*/site-packages")
    library.variables["ansible_python_interpreter"] = str(tmp_path / "own/bin/python")
    played = library.play(
        f"""{PLAY}
  - {{name: before, imports: }}
  - {{name: install, copy: {{content: "ANSWER = 42\\n", dest: "{site}/freshly_installed.py"}}}}
  - {{name: after, imports: }}
  - {{name: remove, file: {{path: "{site}/freshly_installed.py", state: absent}}}}
  - {{name: removed, imports: }}
""",
        **NO_MASTER,
    )
    assert played.code == 0, played.text
    assert [played[name]["there"] for name in ("before", "after", "removed")] == [None, 42, None]


def test_two_controllers_at_once_have_brokers_of_their_own(playing, server, tmp_path):
    other = Playing(tmp_path / "other", playing.control, server.host, server.folder / "ssh_config", "")
    other.folder.mkdir()
    other.variables = playing.variables
    both = [playing, other]
    started = [
        one.start(
            f"{PLAY}  - {{name: held, shell: '{holding(one.folder, 'held')}'}}\n  - {{name: after, ping: }}\n",
            **NO_MASTER,
        )
        for one in both
    ]
    for one in both:
        wait_for(one.folder / "runs-held")
    assert len(commands("roamlet_ansible.broker")) == 2
    (playing.folder / "go-held").touch()
    assert started[0].end().code == 0
    wait_until(lambda: len(commands("roamlet_ansible.broker")) == 1, PATIENCE)
    (other.folder / "go-held").touch()
    played = started[1].end()
    assert played.code == 0, played.text
    assert list((other.folder / "ansible" / "tmp").iterdir()) == []


def test_no_secret_comes_into_the_log_of_the_broker(playing, server):
    folder = playing.folder
    running = playing.start(
        f"""{PLAY}
  - {{name: first, ping: {{data: hidden-one}}, no_log: true}}
  - {{name: fails, command: "sh -c 'echo hidden-two; exit 1'", no_log: true, ignore_errors: true}}
  - {{name: cannot, copy: {{content: hidden-three, dest: /no/such/folder/x}}, no_log: true, ignore_errors: true}}
  - name: dies
    shell: "{holding(folder, "dies")}; echo hidden-four"
    environment: {{SECRET: hidden-five}}
    no_log: true
    ignore_unreachable: true
""",
        ROAMLET_ANSIBLE_LOG=str(folder / "log"),
        **NO_MASTER,
    )
    wait_for(folder / "runs-dies")
    kill_sessions(server)
    played = running.end()
    assert played.status("dies") == "unreachable", played.text
    assert "hidden-" not in (folder / "log").read_text()
    assert "hidden-" not in played.text


def test_a_core_that_no_reader_knows_runs_everything_as_it_is(library):
    """Its modules are slower, and give the same."""
    (library.folder / "sitecustomize.py").write_text(
        "from roamlet_ansible.cores import wrappers\nwrappers.KNOWN.clear()\n"
    )
    text = f"""{PLAY}
  - {{name: ping, ping: {{data: "it's ä \\\\ $HOME"}}}}
  - {{name: environment, shell: 'echo "$COLOUR $LC_ALL"', environment: {{COLOUR: "a 'b' $c", LC_ALL: C.UTF-8}}}}
  - {{name: copy, copy: {{content: "x\\n", dest: "{library.folder}/x"}}, diff: true, check_mode: true}}
  - {{name: kills, kills: , ignore_errors: true}}
"""
    given = []
    for connection in (STOCK, ROAMLET):
        played = library.play(text, connection, "-vvv", PYTHONPATH=str(library.folder), **NO_MASTER)
        assert played.code == 0, played.text
        assert " BY ROAMLET" in played.text or connection == STOCK
        assert "> MODULE" not in played.text
        given.append(
            [
                (name, status, {key: result.get(key) for key in ("rc", "stdout", "stderr", "ping", "changed", "diff")})
                for name, status, result in played.tasks
            ]
        )
    assert given[1] == given[0]
