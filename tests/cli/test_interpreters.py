"""Which interpreters of this machine are found, and what is known about them."""

import os
import sys

from roamlet.cli.programs.interpreters import interpreters


def fake_python(folder, name, *lines):
    path = folder / name
    path.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    path.chmod(0o755)
    return str(path)


def test_this_processes_own_version_is_among_them():
    assert sys.version_info[:3] in [one.version for one in interpreters()]


def test_each_minor_version_is_there_once_and_the_newest_is_first():
    versions = [one.version[:2] for one in interpreters()]
    assert versions == sorted(set(versions), reverse=True)


def test_one_of_path_is_found_and_what_it_has_is_known(tmp_path, monkeypatch):
    fake_python(tmp_path, "python3.7", "/where/it/is", "3.7.9", "CPython", "django")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    found = {one.version: one for one in interpreters(["django", "asgiref"])}[3, 7, 9]
    assert (found.path, found.name, found.has) == ("/where/it/is", "python3.7", frozenset({"django"}))


def test_what_fails_or_is_no_cpython_or_talks_nonsense_is_left_out(tmp_path, monkeypatch):
    fake_python(tmp_path, "python3.6", "/x", "3.6.0", "PyPy", "")
    fake_python(tmp_path, "python3.7", "what?")
    (tmp_path / "python3.8").write_text("no program at all")
    (tmp_path / "python3.8").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "gone"), raising=False)
    assert interpreters() == []


def test_among_several_of_one_version_the_barest_is_taken(tmp_path, monkeypatch):
    fake_python(tmp_path, "python3.6", "/full", "3.6.1", "CPython", "django")
    other = tmp_path / "versions" / "3.6.1" / "bin"
    other.mkdir(parents=True)
    fake_python(other, "python", "/bare", "3.6.1", "CPython", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert "/bare" in [one.path for one in interpreters(["django"])]
