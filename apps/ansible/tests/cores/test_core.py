"""What the installed ansible-core itself makes is read, and read right."""

import ast
import base64
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("ansible", reason="ansible-core is not installed for this Python")

from roamlet_ansible.cores import ansiballz, installed, wrappers

MAKING = pathlib.Path(__file__).with_name("making.py")


def made_by_core(folder, *kinds, **variables):
    environment = {**os.environ, "ANSIBLE_HOME": str(folder / "home"), "PYTHONWARNINGS": "ignore", **variables}
    output = subprocess.run(
        [sys.executable, str(MAKING), str(folder), *kinds],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=100,
    ).stdout
    return json.loads(output)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_by_core(tmp_path_factory.mktemp("made"), "scripts", "commands")


@pytest.fixture(scope="module")
def made_with_comments(tmp_path_factory):
    return made_by_core(tmp_path_factory.mktemp("made"), "scripts", ANSIBLE_KEEP_REMOTE_FILES="1")


@pytest.fixture(params=["made", "made_with_comments"])
def scripts(request):
    return [(row, base64.b64decode(row["script"])) for row in request.getfixturevalue(request.param)["scripts"]]


def test_each_script_is_read(scripts):
    for row, script in scripts:
        run = ansiballz.read(script)
        assert run is not None, row["name"]
        assert (run.name, run.rlimit_nofile) == (row["name"], row["limit"])
        assert json.loads(run.params) == {"ANSIBLE_MODULE_ARGS": row["arguments"]}


def test_each_script_is_read_as_pythons_own_parser_reads_it(scripts):
    for row, script in scripts:
        run = ansiballz.read(script)
        constants = [node.value for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Constant)]
        for value in (run.fqn, run.params, run.zip_data, *([run.profile] if run.profile else [])):
            assert value in constants
        # In a template the name is between two other words.
        assert any(isinstance(one, str) and run.name in one for one in constants)
        assert set(run.date_time) <= set(constants)
        assert row["limit"] in constants or not row["limit"]


def test_the_files_are_those_that_the_wrapper_would_import(scripts):
    for _, script in scripts:
        run = ansiballz.read(script)
        files = ansiballz.files(run.zip_data)
        assert {run.fqn.replace(".", "/") + ".py", "ansible/__init__.py", "ansible/module_utils/basic.py"} <= set(files)
        assert b"AnsibleModule" in files[run.fqn.replace(".", "/") + ".py"]


def test_a_script_with_one_byte_changed_outside_its_values_is_not_read(scripts):
    _, script = scripts[0]
    cut = wrappers.cut(script)
    values = [value for found in cut.values.values() for value in found]
    place = 0
    while place < len(script):
        changed = script[:place] + bytes([script[place] ^ 1]) + script[place + 1 :]
        found = wrappers.cut(changed)
        if found is not None and found.digest == cut.digest:
            assert [value for texts in found.values.values() for value in texts] != values
        place += (
            97 if b"\n" in script[place : place + 97] else 9_973
        )  # lines of code closely, the long ones of data here and there


BEFORE_219 = (
    {"_ANSIBLE_COVERAGE_CONFIG": "/x/coveragerc", "_ANSIBLE_COVERAGE_OUTPUT": "/x/coverage"},
    {"_ANSIBLE_COVERAGE_CONFIG": "/x/coveragerc", "_ANSIBLE_COVERAGE_OUTPUT": ""},
)
SINCE_219 = (
    {"_ANSIBLE_ANSIBALLZ_COVERAGE_CONFIG": '{"config": "/x/coveragerc", "output": "/x/coverage"}'},
    {"_ANSIBLE_ANSIBALLZ_DEBUGPY_CONFIG": "{}", "_ANSIBLE_ANSIBALLZ_DEBUGGER_CONFIG": "{}"},
)


def test_coverage_and_debuggers_are_not_read(made, tmp_path):
    before = made["version"].split(".")[:2] in (["2", "16"], ["2", "17"], ["2", "18"])
    for number, variables in enumerate(BEFORE_219 if before else SINCE_219):
        (folder := tmp_path / str(number)).mkdir()
        rows = made_by_core(folder, "scripts", **variables)["scripts"]
        assert [ansiballz.read(base64.b64decode(row["script"])) for row in rows] == [None] * len(rows)


def test_each_command_line_is_read_and_made_again_for_a_zygote(made):
    rows = made["commands"]
    assert len(rows) > 200
    for row in rows:
        if "#1000" in row["options"].values():
            # A sign that may begin a comment: sudo takes such a user, and the command runs as it is.
            assert not row["read"]
        else:
            assert row["read"], row
            assert row["left"] and row["environment"] and row["interpreter"] == "/usr/bin/python3"
            assert row["zygote"] == row["expected"]
            assert (row["account"] is None) == (row["become"] is None)


def test_accounts_depend_on_the_options_and_not_on_the_password(made):
    accounts = {}
    for row in made["commands"]:
        if row["read"] and row["become"]:
            options = tuple(sorted(item for item in row["options"].items() if item[0] != "become_pass"))
            accounts.setdefault((row["become"], options, row["text"].split()[0]), set()).add(row["account"])
            assert "s'e" not in row["account"]
    for (become, *_), found in accounts.items():
        assert len(found) == (1 if become == "su" else 2)  # sudo is told another prompt when there is a password


def test_cores_own_files_are_told_from_others_of_the_same_name(made):
    files = ansiballz.files(ansiballz.read(base64.b64decode(made["scripts"][0]["script"])).zip_data)
    for path, source in files.items():
        # The packages that lead to the module are made, of nothing; only what lies below module_utils matters.
        if path.startswith("ansible/module_utils/") or path == "ansible/__init__.py":
            assert installed.core_file(path, source), path
            assert not installed.core_file(path, source + b"\n"), path
    assert not installed.core_file("ansible/__init__.py", files["ansible/__init__.py"].replace(b"2.", b"3.", 1))
    assert not installed.core_file("ansible/__init__.py", b"")
    for path in (
        "ansible_collections/a.py",
        "ansible/module_utils/../module_utils/basic.py",
        "/etc/passwd",
        "ansible/no.py",
        "os.py",
        "",
    ):
        assert not installed.core_file(path, files["ansible/module_utils/basic.py"])


def test_a_file_of_core_that_changes_is_read_again(tmp_path, monkeypatch):
    package = tmp_path / "ansible"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "x.py").write_bytes(b"1")
    monkeypatch.setattr(installed, "root", lambda: str(package))
    monkeypatch.setattr(installed, "_digests", {})
    assert installed.core_file("ansible/x.py", b"1")
    (package / "x.py").write_bytes(b"22")
    assert installed.core_file("ansible/x.py", b"22") and not installed.core_file("ansible/x.py", b"1")
    (package / "x.py").unlink()
    assert not installed.core_file("ansible/x.py", b"22")
    assert not installed.core_file("ansible/__init__.py", b"")  # core makes that one


def test_without_a_core_no_file_is_its_own(monkeypatch):
    installed.root.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    try:
        assert not installed.core_file("ansible/module_utils/basic.py", b"")
    finally:
        installed.root.cache_clear()
