"""Modules of ansible-core in a zygote, compared with the wrapper that this ansible-core makes for them."""

import ast
import base64
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from apps.ansible.tests.host.driver import Zygote, comparable
from tests.exhaustive import telling
from tests.wire import interpreters

pytest.importorskip("ansible.executor.module_common", reason="compares with an installed ansible-core")

LOADED = ["ansible.module_utils.basic", "ansible.modules", "ansible.module_utils._internal._ansiballz._loader"]
OF_LINE = {name: path for name, path in interpreters.found().items() if tuple(map(int, name.split("."))) >= (3, 9)}
ENDS = {*list(OF_LINE)[:1], *list(OF_LINE)[-1:]}


def wrapper(module: str, arguments: str, folder: Path) -> Path:
    """The script that core sends for a task, which it leaves behind on this machine when it is asked to."""
    environment = {
        **os.environ,
        "ANSIBLE_KEEP_REMOTE_FILES": "1",
        "ANSIBLE_REMOTE_TMP": str(folder),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LIBRARY": str(folder / "library"),
    }
    command = [
        sys.executable,
        "-m",
        "ansible",
        "adhoc",
        "all",
        "-i",
        "localhost,",
        "-c",
        "local",
        "-m",
        module,
        "-a",
        arguments,
    ]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    found = list(folder.glob(f"ansible-tmp-*/AnsiballZ_{module}.py"))
    assert found, done.stdout + done.stderr
    return found[0]


def read(path: Path) -> dict[str, Any]:
    text = path.read_text()
    if "\n    _ansiballz_main(\n" in text:
        call = ast.parse(text[text.rindex("\n    _ansiballz_main(\n") + 5 :]).body[0].value
        values = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
        return {
            "zip": values["zip_data"], "params": values["params"], "fqn": values["module_fqn"], "profile": values["profile"],
            "shape": "2.19",
        }  # fmt: skip
    return {
        "zip": ast.literal_eval(re.search(r'ZIPDATA = (""".*?"""|\'.*?\')\n', text, re.DOTALL)[1]),
        "params": ast.literal_eval(re.search(r"ANSIBALLZ_PARAMS = (.*)", text)[1]),
        "fqn": re.search(r"mod_name='([^']*)'", text)[1],
        "profile": None,
        "shape": "2.16",
    }


MODULES = {
    "ping": "data=words",
    "command": "echo words",
    "stat": "path=/etc/passwd",
    "file": "path={folder}/made state=directory mode=0750",
    "setup": "gather_subset=!all,!min,user,python",
    "broken": "",
    "unended": "",
}
LIBRARY = {
    "broken": "from ansible.module_utils.basic import AnsibleModule\nAnsibleModule({})\nraise ValueError('broken')\n",
    "unended": "from ansible.module_utils.basic import AnsibleModule\nAnsibleModule({})\n",
}
CHANGING = re.compile(
    rb'"(start|end|delta|atime|changed|diff|before|state|mode)": ("[^"]*"|[0-9.]+|true|false|\{[^}]*\})'
)


def lasting(out: bytes) -> Any:
    """A module's result without times, random names and what the first run of two changes."""
    out = re.sub(rb"payload_\w{8}", b"payload_X", CHANGING.sub(b'"gone": 0', out))
    try:
        return json.loads(out)
    except ValueError:
        return out


@pytest.mark.timeout(300)
@pytest.mark.parametrize("versions", telling(["ends", "between"], "ends".__eq__))
@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_core_gives_what_it_gives_under_its_own_wrapper(module, versions, tmp_path):
    (tmp_path / "library").mkdir()
    for name, source in LIBRARY.items():
        (tmp_path / "library" / f"{name}.py").write_text(f"#!/usr/bin/python\n{source}")
    script = wrapper(module, MODULES[module].format(folder=tmp_path), tmp_path)
    run = read(script)
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(run["zip"]))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for python in [path for name, path in OF_LINE.items() if (name in ENDS) is (versions == "ends")]:
        with script.open("rb") as source:
            done = subprocess.run(
                ["/bin/sh", "-c", f"{python} && sleep 0"], stdin=source, capture_output=True, check=False
            )
        expected = comparable((done.returncode, done.stdout, done.stderr))
        with Zygote(python) as zygote:
            for _ in range(2):
                words = {key: run[key] for key in ("fqn", "profile", "shape")}
                result = zygote.run(files, params=json.loads(run["params"]), name=module, preload=LOADED, **words)
                result = comparable(result)
                assert result[0] == expected[0]
                assert lasting(result[1]) == lasting(expected[1])
                assert result[2].splitlines()[-1:] == expected[2].splitlines()[-1:]
