"""A program: has the installed ansible-core make scripts and command lines, and prints them, and what is read of them, as JSON.

Run in a process of its own, because core makes folders and locks that stay until its process ends.
"""

import base64
import itertools
import json
import pathlib
import shlex
import sys
from typing import Any

from ansible import constants
from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import become_loader, get_shell_plugin, init_plugin_loader, module_loader
from ansible.release import __version__
from ansible.template import Templar

from roamlet_ansible.cores import commands

ODD = {"data": 'pöng\'s "x" %s %(a)s {{ x }} \\n \x85\u2028\U0001f600 \x7f\x1b\n' + "'" * 3 + '"' * 3}
ODD_VARIABLES = {
    "A": 'it\'s "x" $HOME `id` \\ %s',
    "EMPTY": "",
    "LINES": "a\nb\tc\n",
    "WORDS": "é \U0001f600",
    "LANG": "C.UTF-8",
}
PROGRAM = 'import os;print("%s"%(1,))'
SOURCE = "#!/usr/bin/python -tt\nfrom ansible.module_utils.basic import AnsibleModule\nAnsibleModule({}).exit_json()\n"


def scripts(folder: pathlib.Path) -> list[dict[str, Any]]:
    in_role = folder / "my-mod.py"
    in_collection = folder / "ansible_collections" / "a" / "b" / "plugins" / "modules" / "mod.py"
    in_collection.parent.mkdir(parents=True)
    in_role.write_text(SOURCE)
    in_collection.write_text(SOURCE)
    limit = {"ansible_python_module_rlimit_nofile": 4096}
    return [
        script("ping", {}),
        script("ping", ODD),
        script("ansible.legacy.ping", {}, ansible_python_interpreter="/opt/a b/python"),
        script(
            "ansible.builtin.setup",
            {"gather_subset": ["!all"]},
            compression="ZIP_STORED",
            ansible_python_interpreter="python3",
        ),
        script("ping", ODD, **limit),
        script("my-mod", {}, in_role),
        script("a.b.mod", ODD, in_collection, ansible_python_interpreter="/usr/bin/env python3"),
    ]


def script(
    name: str,
    arguments: dict[str, Any],
    path: pathlib.Path | None = None,
    compression: str = "ZIP_DEFLATED",
    **variables: Any,
) -> dict[str, Any]:
    given = {**arguments, "_ansible_check_mode": False, "_ansible_tmpdir": None}
    made = modify_module(
        module_name=name,
        module_path=str(path or module_loader.find_plugin(name)),
        module_args=given,
        templar=Templar(loader=DataLoader()),
        task_vars={"ansible_python_interpreter": "/usr/bin/python3", "ansible_facts": {}, **variables},
        module_compression=compression,
    )
    data = made[0] if isinstance(made, tuple) else made.b_module_data
    return {
        "name": name,
        "arguments": given,
        "limit": variables.get("ansible_python_module_rlimit_nofile", 0),
        "script": base64.b64encode(data).decode(),
    }


def command_lines() -> list[dict[str, Any]]:
    flags = (None, "", "-H -S", "-n -E --preserve-env=A,B", "-nH")
    users = ("root", "a.b-c_d@x", "DOM\\user", "#1000")
    exes = (None, "/opt/x/sudo", "sudo -u x sudo")
    found = [command_line(None, {}, "/bin/sh", variables) for variables in ({}, ODD_VARIABLES)]
    for name, flag, user, exe, password in itertools.product(("sudo", "su"), flags, users, exes, (None, "s'e\"c$")):
        options = {"become_user": user, "become_pass": password, "become_exe": exe, "become_flags": flag}
        options = {option: value for option, value in options.items() if value is not None}
        found += [command_line(name, options, shell, ODD_VARIABLES) for shell in ("/bin/sh", "/bin/bash")]
    return found


def command_line(
    name: str | None, options: dict[str, str], executable: str, variables: dict[str, str]
) -> dict[str, Any]:
    shell = get_shell_plugin("sh", executable)
    become = None if name is None else become_loader.get(name)
    if become is not None:
        become.set_options(direct=options)
    cmd = shell.build_module_command(shell.env_prefix(**variables), "#!/usr/bin/python3", "").strip()
    text = wrapped(cmd if become is None else become.build_become_command(cmd, shell), shell, executable)
    state = None if become is None else repr(vars(become))
    command = commands.recognise(text, shell, become)
    row: dict[str, Any] = {"become": name, "options": options, "text": text, "read": command is not None}
    if command is not None:
        row["left"] = state == (None if become is None else repr(vars(become)))
        row["environment"] = command.environment == variables
        row["interpreter"] = command.interpreter
        row["account"] = command.account
        row["zygote"] = commands.zygote_command(command, PROGRAM)
        early = {key: variables[key] for key in ("LANG",) if key in variables}
        inner = f"{shell.env_prefix(**early)} /usr/bin/python3 -c {shlex.quote(PROGRAM)}".strip()
        if become is not None:
            identity = become._id
            inner = become.build_become_command(inner, shell).replace(become._id, identity)
        row["expected"] = f"{executable} -c {shlex.quote(inner)}"
    return row


def wrapped(cmd: str, shell: Any, executable: str) -> str:
    return f"{executable} -c {shlex.quote(shell.append_command(cmd, 'sleep 0'))}"


def main() -> None:
    init_plugin_loader([])
    constants.DEFAULT_LOCAL_TMP = sys.argv[1]
    found: dict[str, Any] = {"version": __version__}
    if "scripts" in sys.argv[2:]:
        found["scripts"] = scripts(pathlib.Path(sys.argv[1]))
    if "commands" in sys.argv[2:]:
        found["commands"] = command_lines()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
