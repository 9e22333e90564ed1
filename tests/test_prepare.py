"""tools/prepare.sh on machines where something is missing: what it says, and in what order it would install."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT

# What the script itself calls, besides what it looks for.
NEEDED = ["sh", "dirname", "cat", "sed", "tr", "head", "touch"]


class Machine:
    """A PATH of its own, with the given user and programs; apt-get only writes down what it was asked for."""

    def __init__(self, folder, user_id):
        self.folder = folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.calls = folder / "calls"
        for name in NEEDED:
            (self.programs / name).symlink_to(shutil.which(name))
        self.program("id", f"echo {user_id}")

    def program(self, name, *lines):
        path = self.programs / name
        path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
        path.chmod(0o755)

    def prepare(self, **environment):
        return subprocess.run(
            ["sh", str(ROOT / "tools/prepare.sh"), str(self.folder / "venv")],
            env={"PATH": str(self.programs), "HOME": str(self.folder), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def machine(tmp_path):
    def make(user_id):
        made = Machine(tmp_path, user_id)
        made.program("apt-get", f'echo "$1" "$*" >> {made.calls}')
        return made

    return make


def test_a_user_without_root_gets_the_one_line_and_nothing_is_made(machine, tmp_path):
    bare = machine(user_id=1000)
    done = bare.prepare()
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "sudo apt-get update && sudo apt-get install -y python3 python3-venv python3-dev gcc libc6-dev openssh-client"
    )
    assert not (tmp_path / "venv").exists()
    assert not bare.calls.exists()


def test_only_what_is_missing_is_named(machine):
    bare = machine(user_id=1000)
    bare.program("python3", f'exec {sys.executable} "$@"')
    bare.program("ssh")
    bare.program("ssh-keygen")
    done = bare.prepare()
    assert done.stderr.splitlines()[-1] == "sudo apt-get update && sudo apt-get install -y gcc libc6-dev"


def test_root_has_the_lists_updated_before_anything_is_installed(machine):
    bare = machine(user_id=0)
    done = bare.prepare()
    asked = [line.split()[0] for line in bare.calls.read_text().splitlines()]
    assert asked == ["update", "install"]
    # This apt-get installs nothing, so that the check behind it has something to say.
    assert done.returncode == 1
    assert "Still missing after installing" in done.stderr


def test_where_there_is_no_apt_the_message_names_what_is_missing(machine):
    bare = machine(user_id=0)
    (bare.programs / "apt-get").unlink()
    done = bare.prepare()
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "roamlet needs CPython >= 3.11 with venv and headers, a C compiler and ssh; missing here: python compiler ssh."
    )


def test_an_interpreter_that_was_asked_for_and_will_not_do_is_refused_by_name(machine):
    bare = machine(user_id=0)
    bare.program("old-python", "exit 1")
    done = bare.prepare(PYTHON="old-python")
    assert done.returncode == 1
    assert done.stderr.startswith("roamlet cannot be built with PYTHON=old-python: missing: python")
    assert not bare.calls.exists()


def test_a_python_older_than_what_roamlet_needs_does_not_count(machine):
    bare = machine(user_id=1000)
    bare.program("python3", 'case "$*" in *version_info*) exit 1;; esac')
    assert "python3 python3-venv python3-dev" in bare.prepare().stderr


def test_the_script_runs_from_any_folder(machine, tmp_path):
    bare = machine(user_id=1000)
    before = os.listdir(tmp_path)
    assert bare.prepare().returncode == 1
    assert os.listdir(tmp_path) == before
