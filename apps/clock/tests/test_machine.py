"""The machine of these tests itself: its busybox on a computer where none is installed."""

import shutil
import subprocess

import pytest

from apps.clock.tests import machine
from tools import unpack_debian

# Says which program it was asked for, by the name that it was started under or by its first word.
STAND_IN = """#!/bin/sh
case ${0##*/} in busybox) ;; *) set -- "${0##*/}" "$@";; esac
case $1 in
    --list) echo env; echo exec; echo sh;;
    *) echo "busybox $*";;
esac
"""


@pytest.fixture(params=[(), ("usr/lib/libbusybox.so.1",)], ids=["alone", "with a library of its own"])
def unpacked(request, tmp_path, monkeypatch):
    """What would be unpacked where nothing is installed: a program, and what it needs."""
    folder = tmp_path / "unpacked"
    for name in ("bin/busybox", ".packages", *request.param):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    monkeypatch.setattr(unpack_debian, "unpack", lambda where, packages: folder)
    installed = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == "busybox" else installed(name, **more))
    return folder


@pytest.mark.usefixtures("unpacked")
@pytest.mark.parametrize("name", ["env", "sh"])
def test_each_program_of_an_unpacked_busybox_is_busybox(name, tmp_path):
    """First on PATH as it is for the script: a wrapper that looks up `env` there would run itself, for ever."""
    made = machine.busybox(tmp_path)
    done = subprocess.run(
        [made / name, "A=1"], env={"PATH": f"{made}:/usr/bin:/bin"}, capture_output=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"busybox {name} A=1\n".encode(), b"")


def test_the_busybox_of_these_tests_has_its_programs_under_their_names(busybox_programs):
    printed = subprocess.run(
        [busybox_programs / "env", "-i", "A=1", busybox_programs / "sh", "-c", "env"],
        env={"PATH": f"{busybox_programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    ).stdout
    assert "A=1" in printed.splitlines()


def test_a_program_that_its_package_lacks_is_refused_by_name(tmp_path):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / ".packages").write_text("busybox\n")
    with pytest.raises(unpack_debian.CannotUnpack, match="there is no program gcc in busybox"):
        unpack_debian.command(folder, "gcc")
