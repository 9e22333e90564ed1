"""The playbooks, as data: JSON is YAML. Each task is one that people write; paths are below the home folder of the account."""

import json
from typing import Any

FOLDER = "~/bench"

TEMPLATE = """\
# {{ inventory_hostname }}
number = {{ number }}
{% for option in range(20) %}
option {{ option }} = {{ option * number }}
{% endfor %}
"""


def pings(count: int) -> str:
    return _play([{"ping": {}}] * count, facts=False)


def mixed(rounds: int) -> str:
    """Facts, `rounds` times seven tasks of everyday, a loop, and as root three more for each three rounds: 83 tasks for 10."""
    tasks: list[dict[str, Any]] = [_folder(FOLDER)]
    for number in range(rounds):
        copied, template = f"{FOLDER}/copied{number}", f"{FOLDER}/template{number}"
        tasks += [
            {"ping": {}},
            {"command": "/bin/true"},
            {"copy": {"content": f"line 0 of file {number}\n", "dest": copied}},
            {"template": {"src": "template.j2", "dest": template}, "vars": {"number": number}},
            {"file": {"path": f"{FOLDER}/touched{number}", "state": "touch", "mode": "0640"}},
            {"stat": {"path": template}},
            {"lineinfile": {"path": copied, "line": f"added {number}"}},
        ]
    tasks += [
        {**_folder(FOLDER + "/folder{{ item }}"), "loop": list(range(2 * rounds))},
        {"shell": "echo $HOME | tr a-z A-Z"},
        {"setup": {}},
    ]
    for number in range(max(1, rounds // 3)):
        content = f"{number} of " + "{{ inventory_hostname }}\n"
        tasks += [
            {"command": "id -u", "become": True, "register": f"user{number}"},
            {
                "copy": {"content": content, "dest": "/root/bench-{{ inventory_hostname }}", "mode": "0600"},
                "become": True,
            },
            {"getent": {"database": "passwd", "key": "root"}, "become": True},
        ]
    return _play(tasks, facts=True)


def files(count: int) -> str:
    """A loop that copies so many files of 1 kB."""
    copy = {
        "copy": {"src": "small/{{ item }}", "dest": f"{FOLDER}/"},
        "loop": [f"{number:04}" for number in range(count)],
    }
    return _play([_folder(FOLDER), copy], facts=False)


def large() -> str:
    return _play([_folder(FOLDER), {"copy": {"src": "large", "dest": f"{FOLDER}/large"}}], facts=False)


def _folder(path: str) -> dict[str, Any]:
    return {"file": {"path": path, "state": "directory"}}


def _play(tasks: list[dict[str, Any]], *, facts: bool) -> str:
    return json.dumps([{"hosts": "all", "gather_facts": facts, "tasks": tasks}], indent=1)
