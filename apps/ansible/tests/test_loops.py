"""One connection plugin serves the items of a loop, while it is what a new one would be, and each gives what it gives over ssh."""

import json
import sys
from pathlib import Path

import pytest

from .faulty import NO_MASTER
from .playing import ROAMLET, STOCK
from .test_playbooks import results

pytestmark = pytest.mark.playbook

LOOPS = """
- hosts: all
  gather_facts: false
  ignore_errors: true
  ignore_unreachable: true
  tasks:
  - {name: folder, file: {path: "{{ place }}/{{ item }}", state: directory, mode: "0755"}, loop: [a, b, c]}
  - {name: files, copy: {content: "{{ item }}\\n", dest: "{{ place }}/{{ item }}/f"}, loop: [a, b, c]}
  - {name: again, copy: {content: "a\\n", dest: "{{ place }}/{{ item }}/f"}, loop: [a, b, missing, c]}
  - {name: large, copy: {src: large, dest: "{{ place }}/{{ item }}/l"}, loop: [a, missing, c]}
  - {name: fetched, fetch: {src: "{{ place }}/{{ item }}/f", dest: "{{ place }}/fetched"}, loop: [a, none, c]}
  - {name: fails, command: "sh -c 'exit {{ item }}'", loop: [0, 3, 0]}
  - {name: variables, command: "sh -c 'echo $MARK'", environment: {MARK: "{{ item }}"}, loop: [x, y]}
  - {name: become, command: id -un, become: true, become_user: "{{ item }}", loop: [root, daemon, no-such-account, root]}
  - {name: sometimes, command: id -un, become: "{{ item }}", become_user: daemon, loop: [false, true, false]}
  - {name: accounts, command: id -un, vars: {ansible_user: "{{ item }}"}, loop: ["{{ own }}", no-such-account, "{{ own }}"]}
  - {name: ports, command: id -un, vars: {ansible_port: "{{ item }}"}, loop: ["{{ port }}", 1, "{{ port }}"]}
  - {name: shells, raw: "echo $0", vars: {ansible_shell_executable: "{{ item }}"}, loop: [/bin/sh, /bin/bash, /bin/sh]}
  - {name: types, command: echo word, vars: {ansible_shell_type: "{{ item }}"}, loop: [sh, csh, sh]}
  - {name: pipelining, ping: {data: "{{ item }}"}, vars: {ansible_pipelining: "{{ item }}"}, loop: [true, false, true]}
  - {name: other ssh, ping: {data: "{{ item }}"}, vars: {ansible_ssh_executable: "{{ item }}"}, loop: [ssh, "{{ other }}", ssh]}
  - name: interpreters
    setup: {gather_subset: ["!all", python], filter: ansible_python}
    vars: {ansible_python_interpreter: "{{ item }}"}
    loop: ["{{ python }}", /usr/bin/python3, /nonexistent, "{{ python }}"]
  - {name: jobs, command: "echo {{ item }}", async: 20, poll: 1, loop: [x, y]}
  - {name: delegated, command: "echo {{ item }}", delegate_to: "{{ item }}", loop: [t0, localhost, t0]}
  - {name: until, command: "sh -c 'echo >> {{ place }}/n; test $(wc -l <{{ place }}/n) -ge {{ item }}'", loop: [2, 3],
     until: it is succeeded, retries: 3, delay: 0, register: it}
  - {name: time, command: "sleep {{ item }}", timeout: 2, loop: [0, 30, 0]}
  - {name: script, script: "s.sh {{ item }}", loop: [x, y]}
  - {name: template, template: {src: t.j2, dest: "{{ place }}/{{ item }}/t"}, vars: {number: "{{ item }}"}, loop: [a, b]}
"""


@pytest.fixture
def prepared(playing):
    (playing.folder / "s.sh").write_text('#!/bin/sh\necho "$# $1"\n')
    (playing.folder / "t.j2").write_text("number {{ number }}\n")
    (playing.folder / "large").write_bytes(bytes(range(256)) * 1000)
    other = playing.folder / "other-ssh"
    other.write_text('#!/bin/sh\nexec ssh "$@"\n')
    other.chmod(0o755)
    return playing


def without_words_of_ssh(value):
    """Of what is unreachable, that it is: the text is of ssh on one side, and of roamlet on the other."""
    if isinstance(value, (list, tuple)):
        return [without_words_of_ssh(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("unreachable"):
        return {"unreachable": True}
    return {name: without_words_of_ssh(one) for name, one in value.items()}


def test_each_item_gives_what_it_gives_over_ssh(prepared):
    given = []
    config = Path(prepared.variables["ansible_ssh_common_args"].split()[-1]).read_text().splitlines()
    words = dict(line.split(None, 1) for line in map(str.strip, config) if " " in line)
    for connection in (STOCK, ROAMLET):
        place = prepared.folder / f"over-{connection}"
        place.mkdir()
        more = {
            "place": str(place),
            "own": words.get("User", "root"),
            "port": words["Port"],
            "other": str(prepared.folder / "other-ssh"),
            "python": sys.executable,
        }
        played = prepared.play(LOOPS, connection, "-e", json.dumps(more), **NO_MASTER)
        given.append(results(played, place))
    stock, ours = (
        [(*task[:2], without_words_of_ssh(task[2].get("results", [task[2]]))) for task in one] for one in given
    )
    assert [task[:2] for task in ours] == [task[:2] for task in stock]
    assert [(found, expected) for expected, found in zip(stock, ours, strict=True) if found != expected] == []
