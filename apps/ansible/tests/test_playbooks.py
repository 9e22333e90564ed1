"""Playbooks give the same results over roamlet as over core's own ssh plugin, task by task."""

import os
import re

import pytest

from roamlet.testing import wait_until

from .faulty import NO_MASTER, target
from .playing import ROAMLET, STOCK

# What differs from one run to the next, whatever the connection.
VOLATILE = re.compile(
    r"^(SSH_CLIENT|SSH_CONNECTION|start|end|delta|warnings|deprecations|ansible_job_id|results_file|started_at|_ansible_.*|.*pid)$"
)
TEMPORARY = r"ansible[-_.]\w*tmp-[\d.-]+|ansible_[\w.]+_payload_\w+|ansible-local-\w+|ansible\.\w{6}\w*|tmp\w{6,10}"
# ssh says the first when a terminal's session ends, the shell around stock's interpreter the second.
SHARED = r"(Shared )?[Cc]onnection to \S+ closed\."
PLAIN = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: ping, ping: }
  - {name: ping data, ping: {data: "ä 'quoted' \\"twice\\" 100% $HOME `x` \\\\n"}}
  - {name: command, command: "sh -c 'echo out; echo err >&2; exit 3'", ignore_errors: true}
  - {name: chdir, command: pwd, args: {chdir: /usr}}
  - {name: shell, shell: "echo $HOME | tr a-z A-Z; umask; pwd; ulimit -n"}
  - {name: environment, shell: 'echo "$COLOUR $LC_ALL"', environment: {COLOUR: "a 'b' $c", LC_ALL: C.UTF-8}}
  - {name: raw, raw: "echo raw; echo more >&2; exit 4", ignore_errors: true}
  - {name: raw terminal, raw: "test -t 0 && test -t 1 && echo terminal"}
  - {name: script, script: "s.sh one 'two three'"}
  - {name: folder, file: {path: "{{ place }}/d", state: directory, mode: "0750"}}
  - {name: copy, copy: {content: "line\\n", dest: "{{ place }}/d/c", mode: "0640"}}
  - {name: copy again, copy: {content: "line\\n", dest: "{{ place }}/d/c", mode: "0640"}}
  - {name: copy file, copy: {src: big, dest: "{{ place }}/d/big"}, diff: true}
  - {name: template, template: {src: t.j2, dest: "{{ place }}/d/t"}, vars: {number: 3}, diff: true}
  - {name: check, copy: {content: "other\\n", dest: "{{ place }}/d/c"}, check_mode: true, diff: true}
  - {name: lineinfile, lineinfile: {path: "{{ place }}/d/c", line: added}}
  - {name: stat, stat: {path: "{{ place }}/d/c"}}
  - {name: find, find: {paths: "{{ place }}/d"}}
  - {name: slurp, slurp: {src: "{{ place }}/d/c"}}
  - {name: fetch, fetch: {src: "{{ place }}/d/big", dest: "{{ place }}/fetched/", flat: true}}
  - {name: fetch nothing, fetch: {src: "{{ place }}/nothing", dest: "{{ place }}/fetched/", flat: true}, ignore_errors: true}
  - {name: loop, command: "echo {{ item }}", loop: [1, two, "th ree"]}
  - {name: getent, getent: {database: passwd, key: root}}
  - {name: tempfile, tempfile: {state: directory}, register: made}
  - {name: absent, file: {path: "{{ made.path }}", state: absent}}
  - {name: fails, file: {path: "{{ place }}/no/such/folder/file", state: touch}, ignore_errors: true}
  - {name: wrong arguments, file: {path: /, colour: red}, ignore_errors: true}
  - {name: old, old: {}}
  - {name: want json, want_json: {word: given}}
  - {name: raises, raises: {}, ignore_errors: true}
  - {name: exits, exits: {code: 7}, ignore_errors: true}
  - {name: kills itself, exits: {code: -9}, ignore_errors: true}
  - {name: silent, exits: {code: 0}, ignore_errors: true}
  - {name: secret, command: echo secret, no_log: true}
  - {name: later, command: "echo later", async: 20, poll: 1}
  - {name: facts, setup: {gather_subset: [min]}}
"""
MODULES = {
    "old.py": "#!/usr/bin/python\nprint('{\"changed\": true}')\n",
    "want_json.py": (
        "#!/usr/bin/python\n# WANT_JSON\nimport json, sys\n"
        "print(json.dumps({'word': json.load(open(sys.argv[1]))['word'], 'changed': False}))\n"
    ),
    "raises.py": (
        "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\n"
        "def main():\n    AnsibleModule({})\n    raise RuntimeError('on purpose')\nmain()\n"
    ),
    "exits.py": (
        "#!/usr/bin/python\nimport os, sys\nfrom ansible.module_utils.basic import AnsibleModule\n"
        "code = AnsibleModule({'code': {'type': 'int'}}).params['code']\nprint('some words')\n"
        "if code < 0:\n    sys.stdout.flush()\n    os.kill(os.getpid(), -code)\nsys.exit(code)\n"
    ),
}


def prepare(folder):
    (folder / "library").mkdir()
    for name, text in MODULES.items():
        (folder / "library" / name).write_text(text)
    (folder / "s.sh").write_text('#!/bin/sh\necho "$# $1 $2"\n')
    (folder / "t.j2").write_text("number {{ number }}\n")
    (folder / "big").write_bytes(bytes(range(256)) * 10_000)


def comparable(value, place):
    """A result without what is different in each run, and with a word in place of the folder of the run."""
    if isinstance(value, dict):
        return {key: comparable(one, place) for key, one in value.items() if not VOLATILE.match(key)}
    if isinstance(value, list):
        return [comparable(one, place) for one in value if not re.fullmatch(SHARED, str(one))]
    if not isinstance(value, str):
        return value
    text = value.replace(place, "PLACE")
    text = re.sub(TEMPORARY, "TEMPORARY", text)
    text = re.sub(r"\d{9,}\.\d+(-\d+)*|source-?\S*|j\d+\.\d+", "NUMBER", text)
    text = re.sub(r'"<stdin>", line \d+', "of the wrapper", text)
    return re.sub(SHARED + r"\r?\n|^Killed\n", "", text)


TIMES = ("version", "atime", "mtime", "ctime", "inode", "date_time", "ansible_date_time", "src", "gid_time")


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def prepared(playing):
    prepare(playing.folder)
    return playing


def results(played, place):
    return [(name, status, without_times(comparable(result, str(place)))) for name, status, result in played.tasks]


@pytest.mark.playbook
def test_each_task_gives_what_it_gives_over_ssh(prepared):
    given = []
    for connection in (STOCK, "roamlet.remote.ssh"):
        place = prepared.folder / f"over-{connection}"
        place.mkdir()
        played = prepared.play(PLAIN, connection, "-e", f"place={place}")
        assert played.code == 0, played.text
        given.append(results(played, place))
    stock, ours = given
    assert [task[:2] for task in ours] == [task[:2] for task in stock]
    assert [(found, expected) for expected, found in zip(stock, ours, strict=True) if found != expected] == []


@pytest.mark.playbook
def test_on_the_controller_everything_starts_in_the_folder_of_the_playbook(playing):
    (playing.folder / "in$ner").mkdir()
    tasks = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: module, command: pwd}
  - {name: shell, shell: pwd}
  - {name: job, command: pwd, async: 20, poll: 1}
"""
    (playing.folder / "in$ner/inner.yml").write_text(tasks.replace("name: ", "name: inner "))
    text = f"{tasks}\n- import_playbook: in$ner/inner.yml\n"
    given = []
    for connection in ("local", "roamlet.remote.local"):
        played = playing.play(text, connection, "-vvv")
        assert played.code == 0, played.text
        given.append([(name, result["stdout"]) for name, _, result in played.tasks])
    assert given[1] == given[0]
    assert given[0][0] == ("module", str(playing.folder))
    assert "BY ROAMLET" in played.text


def test_modules_go_to_the_warm_python_and_the_rest_runs_as_it_is(prepared):
    place = prepared.folder / "ours"
    place.mkdir()
    played = prepared.play(PLAIN, "roamlet.remote.ssh", "-e", f"place={place}", "-vvv")
    ways = re.findall(r"> (MODULE|EXEC) (\S+)", played.text)
    assert ("MODULE", "ansible.modules.ping") in ways
    assert ("MODULE", "ansible.modules.stat") in ways
    assert sum(way == "EXEC" and "AnsiballZ" in text for way, text in ways) == 0
    assert "NO PYTHON" not in played.text
    (common, host) = (prepared.variables[name] for name in ("ansible_ssh_common_args", "ansible_host"))
    shown = re.findall(r"> SSH: (EXEC ssh .*)", played.text)
    assert shown and all(f" {common} " in one and one.endswith(f" {host} (ONCE FOR ALL TASKS)") for one in shown)


@pytest.mark.parametrize("where", ["environment", "variable"])
def test_pipelining_that_was_switched_off_stays_off(prepared, where):
    if where == "variable":
        prepared.variables |= {"ansible_pipelining": False}
    played = prepared.play(
        "- hosts: all\n  gather_facts: false\n  tasks:\n  - {name: ping, ping: }\n",
        ROAMLET,
        "-vvv",
        **({"ANSIBLE_PIPELINING": "0"} if where == "environment" else {}),
    )
    assert played["ping"]["ping"] == "pong"
    assert re.search(r"> EXEC .*AnsiballZ_ping.py", played.text)


EARLY = """
- hosts: all
  gather_facts: false
  ignore_errors: true
  tasks:
  - {name: raw, raw: "env | grep -v -E '^(SSH_|_=)' | sort"}
  - {name: empty, raw: ""}
  - {name: raw again, raw: "env | grep -v -E '^(SSH_|_=)' | sort"}
"""


@pytest.mark.playbook
@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces take root")
def test_raw_has_the_environment_of_its_session_where_python3_is_a_script(prepared):
    """The context runs by the interpreter of the modules from the first task on, and not by a shim that sets variables."""
    shims = prepared.folder / "shims"
    shims.mkdir()
    (shims / "python3").write_text('#!/bin/sh\nSHIM=yes PATH=/shim:$PATH exec /usr/bin/python3 "$@"\n')
    (shims / "python3").chmod(0o755)
    prepared.variables["ansible_python_interpreter"] = "/usr/bin/python3"
    with target(prepared, "mount -t tmpfs none /root", [f"SetEnv PATH={shims}:/usr/bin:/bin"]) as changed:
        stock, ours = [changed.play(EARLY, connection, TERM="vt220", **NO_MASTER) for connection in (STOCK, ROAMLET)]
    assert "shims" in ours["raw"]["stdout"] and "TERM=vt220" in ours["raw"]["stdout"]
    for name in ("raw", "empty", "raw again"):
        assert (ours[name]["rc"], ours[name]["stdout"]) == (stock[name]["rc"], stock[name]["stdout"]), name


def test_nothing_is_left_when_the_playbook_has_ended(prepared):
    played = prepared.play("- hosts: all\n  tasks:\n  - {name: pid, command: 'sh -c \"echo $PPID\"'}\n")
    assert played.code == 0, played.text
    zygote = int(played["pid"]["stdout"])
    wait_until(lambda: not os.path.exists(f"/proc/{zygote}"), 20)
    assert list((prepared.folder / "ansible" / "tmp").iterdir()) == []


FOLDERS = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: home, copy: {content: "1", dest: "~/.roamlet-ansible-test"}, register: copied}
  - {name: home of, copy: {content: "1", dest: "~root/.roamlet-ansible-test"}, check_mode: true, ignore_errors: true}
  - {name: home of an unknown user, copy: {content: "1", dest: "~no-such-user/x"}, check_mode: true, ignore_errors: true}
  - {name: gone, file: {path: "{{ copied.dest }}", state: absent}}
  - {name: loop, copy: {content: "{{ item }}", dest: "{{ place }}/{{ item }}"}, loop: [a, b, c],
     vars: &tmp {ansible_remote_tmp: "{{ place }}/tmp"}}
  - {name: left, find: {paths: "{{ place }}/tmp", file_type: any}, vars: *tmp}
  - {name: file in the way, copy: {content: "1", dest: "{{ place }}/never"}, vars: {ansible_remote_tmp: "{{ place }}/a/tmp"},
     ignore_errors: true, ignore_unreachable: true}
  - {name: never, stat: {path: "{{ place }}/never"}}
"""


@pytest.mark.playbook
def test_work_on_temporary_folders_succeeds_and_fails_as_over_ssh(prepared):
    given = []
    for connection in (STOCK, "roamlet.remote.ssh"):
        place = prepared.folder / f"over-{connection}"
        place.mkdir()
        played = prepared.play(FOLDERS, connection, "-e", f"place={place}")
        assert played.code == 0, played.text
        assert (place / "c").read_text() == "c"
        assert list((place / "tmp").iterdir()) == []
        given.append(results(played, place))
    stock, ours = given
    assert ("file in the way", "unreachable") in [task[:2] for task in stock]
    assert [(found, expected) for expected, found in zip(stock, ours, strict=True) if found != expected] == []
