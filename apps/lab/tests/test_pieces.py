"""What needs no root: units, archives, the folders of dead labs, and what is said where something is missing."""

import fcntl
import io
import os
import runpy
import shutil
import tarfile
from pathlib import Path

import pytest

from roamlet.cli import main
from roamlet_lab import Lab, LabError, NotPossible, compiled, debian, running, spaces, units, why_not
from roamlet_lab.machine import packed

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("text", "value"), [("80ms", 0.08), ("0.5s", 0.5), ("500us", 0.0005), ("2s", 2)])
def test_times_are_read(text, value):
    assert units.seconds(text) == pytest.approx(value)


@pytest.mark.parametrize(("text", "value"), [("1%", 0.01), ("0.25", 0.25), ("100%", 1), ("0", 0)])
def test_shares_are_read(text, value):
    assert units.share(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up", "--rtt", "80"], "'80' is no time; give a number and us, ms or s, for example 80ms"),
        (["up", "--loss", "120%"], "'120%' is no share"),
        (["shell"], "the following arguments are required: MACHINE\n"),
        (["build"], "invalid choice: 'build'"),
        (["up", "--office", "3"], "there is no option --office; did you mean --offices?"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_touched(words, says, capsys):
    assert main(["lab", *words]) == 64
    assert says in capsys.readouterr().err


def test_without_root_every_command_says_so(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "behind sudo" in why_not()
    for words in (["up"], ["status"], ["down"], ["shell", "alpha"], ["set", "--rtt", "1ms"]):
        assert main(["lab", *words]) == 1
        assert capsys.readouterr().err.startswith("roamlet lab: a lab takes root")
    with pytest.raises(NotPossible, match="takes root"):
        Lab(1).up()


def test_where_the_kernel_makes_no_namespaces_the_reason_is_told(monkeypatch, tmp_path):
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    assert "does not let root make any" in why_not()


def test_without_a_compiler_the_line_to_type_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotPossible, match="sudo apt-get install -y gcc"):
        compiled.programs(tmp_path)


def test_programs_are_compiled_once(tmp_path, monkeypatch):
    folder = compiled.programs(tmp_path / "cache")
    assert sorted(path.name for path in folder.iterdir()) == ["hold", "relay"]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert compiled.programs(tmp_path / "cache") == folder
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [folder.name]


def test_what_the_compiler_says_of_a_mistake_is_told(monkeypatch, tmp_path):
    sources = tmp_path / "c"
    sources.mkdir()
    (sources / "hold.c").write_text("int main(void) { return nothing_of_that_name; }")
    monkeypatch.setattr(compiled, "SOURCES", sources)
    with pytest.raises(NotPossible, match="nothing_of_that_name"):
        compiled.programs(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_debootstrap_and_apt_the_line_to_type_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotPossible, match="sudo apt-get update && sudo apt-get install -y debootstrap"):
        debian.system(tmp_path)


def test_a_system_that_cannot_be_built_says_what_went_wrong_and_where_the_rest_stands(monkeypatch, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "debootstrap").write_text("#!/bin/sh\necho I: Retrieving Release; echo E: no such mirror; exit 3\n")
    (programs / "unshare").write_text('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("ROAMLET_LAB_MIRROR", "http://nowhere.invalid/debian")
    with pytest.raises(NotPossible, match="ended with 3. It said last: I: Retrieving Release / E: no such mirror"):
        debian.system(tmp_path / "cache")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [".building", "debian.log"]


def test_an_archive_has_owners_modes_and_private_folders():
    raw = packed([("m/upper/root/.ssh/key", "secret", 0o600), ("m/upper/etc/name", "n", 0o644)])
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        modes = {entry.name: (oct(entry.mode), entry.uid) for entry in archive}
    assert modes["m/upper/root/.ssh/key"] == ("0o600", 0)
    assert modes["m/upper/root/.ssh"] == modes["m/upper/root"] == ("0o700", 0)
    assert modes["m/upper/etc"] == ("0o755", 0)


def test_what_a_dead_lab_has_left_is_swept_and_a_live_one_stays(monkeypatch, tmp_path):
    base, groups = tmp_path / "labs", tmp_path / "groups"
    monkeypatch.setattr(spaces, "BASE", base)
    monkeypatch.setattr(spaces, "CGROUPS", groups)
    (groups / "systemd" / "roamlet-lab-dead" / "alpha" / "init.scope").mkdir(parents=True)
    for name in ("dead", "live"):
        (base / name / "inside").mkdir(parents=True)
    held = os.open(base / "live", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        spaces.sweep()
        assert [path.name for path in base.iterdir()] == ["live"]
        assert list((groups / "systemd").iterdir()) == []
        assert spaces.is_alive(base / "live")
    finally:
        os.close(held)
    spaces.sweep()
    assert not base.exists()


def test_a_lab_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("roamlet_lab.lab.BASE", tmp_path)
    with pytest.raises(LabError, match="no lab 'lab' is up; build one with: roamlet lab up"):
        running("lab")
    with pytest.raises(LabError, match="lab-[0-9a-f]{8} is not up"):
        Lab(1).internet.stats()
    with pytest.raises(LabError, match="'../x' is no name for a lab"):
        Lab(1, name="../x")


def test_the_demo_asks_for_root_before_it_touches_its_folder(monkeypatch, capsys):
    demo = runpy.run_path(str(ROOT / "examples/three_offices.py"))
    monkeypatch.setitem(demo["main"].__globals__, "FOLDER", None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert demo["main"]() == 1
    assert capsys.readouterr().err.startswith("lab-demo: a lab takes root")
