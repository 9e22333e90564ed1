"""Bytecode that is made on the controller: for the target's version, by a program of this machine, and kept for later runs."""

import hashlib
import importlib.util
import marshal
import os
import stat
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from roamlet.remote import Facts
from roamlet_ansible.broker.bytecode import Bytecode
from roamlet_ansible.cores import packed
from tests.wire import interpreters

SOURCES = {hashlib.sha256(text).hexdigest(): text for text in (b"a = 1\n", b"def f(:\n", b"\0", b"", b"b = 'c'\n")}
GOOD = {digest for digest, text in SOURCES.items() if text in (b"a = 1\n", b"", b"b = 'c'\n")}
OWN = Facts(
    python=sys.version_info[:3],
    implementation="cpython",
    platform="linux",
    machine="x86_64",
    pid=1,
    executable=sys.executable,
    packages=frozenset(),
    magic=importlib.util.MAGIC_NUMBER,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "kept"
    monkeypatch.setenv(packed.PLACE, str(place))
    return place


def made(facts=OWN, sources=SOURCES):
    bytecode = Bytecode()
    try:
        return bytecode.of(facts, sources)
    finally:
        bytecode.close()


def executed(code):
    names = {}
    exec(marshal.loads(zlib.decompress(code)), names)
    return {name: value for name, value in names.items() if name != "__builtins__"}


def test_what_can_be_compiled_is_compiled(folder):
    codes = made()
    assert codes.keys() == GOOD
    assert executed(codes[hashlib.sha256(b"a = 1\n").hexdigest()]) == {"a": 1}


def test_what_is_known_is_what_was_compiled_before(folder):
    bytecode = Bytecode()
    try:
        assert bytecode.known(OWN, SOURCES) == {}
        codes = bytecode.of(OWN, SOURCES)
        assert bytecode.known(OWN, SOURCES) == codes
    finally:
        bytecode.close()
    again = Bytecode()
    try:
        assert again.known(OWN, SOURCES) == codes  # from the folder
    finally:
        again.close()


def test_another_version_that_is_here_compiles_for_targets_of_its_version(folder, monkeypatch):
    found = {
        name: python
        for name, python in interpreters.found().items()
        if name.startswith("3.") and python != sys.executable
    }
    name, python = next((name, python) for name, python in found.items() if name != f"3.{sys.version_info[1]}")
    code = "import sys, _frozen_importlib_external as e; print(sys.executable, e.MAGIC_NUMBER.hex())"
    where, magic = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    folders = folder.parent / "bin"
    folders.mkdir()
    (folders / f"python{name}").symlink_to(os.path.realpath(where))
    monkeypatch.setenv("PATH", str(folders))
    facts = replace(OWN, python=(*map(int, name.split(".")), 0), magic=bytes.fromhex(magic))
    assert made(facts).keys() == GOOD
    digest = hashlib.sha256(b"a = 1\n").hexdigest()
    load = "import marshal, sys, zlib; exec(marshal.loads(zlib.decompress(sys.stdin.buffer.read()))); print(a)"
    done = subprocess.run([python, "-c", load], input=made(facts)[digest], capture_output=True, check=True)
    assert done.stdout.split() == [b"1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"magic": b"\0\0\r\n"},
        {"magic": b""},
        {"implementation": "pypy"},
        {"python": (2, 7, 18)},
    ],
)
def test_there_is_nothing_for_a_python_that_is_not_here(folder, changes):
    assert made(replace(OWN, **changes)) == {}
    assert not folder.exists()


def test_a_script_of_that_name_is_not_started(folder, tmp_path, monkeypatch):
    script = tmp_path / "python3.77"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert made(replace(OWN, python=(3, 77, 0), magic=b"\1\2\r\n")) == {}
    assert not (tmp_path / "started").exists()


def test_it_is_kept_for_this_user_alone_and_used_again(folder):
    codes = made()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    before = file.stat().st_mtime_ns, file.stat().st_ino
    bytecode = Bytecode()
    assert bytecode.of(OWN, SOURCES) == codes
    (maker,) = bytecode._makers.values()
    assert maker._process is None  # nothing had to be compiled
    bytecode.close()
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before


def spoil_contents(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_contents,
        lambda file: file.write_bytes(file.read_bytes()[:40]),
        lambda file: file.chmod(0o622),
        lambda file: file.parent.chmod(0o755),
    ],
)
def test_what_was_damaged_or_could_be_written_by_others_is_not_used(folder, spoil):
    text = b"a = 1\n"
    digest = hashlib.sha256(text).hexdigest()
    codes = made(sources={digest: b"a = 2\n"})  # under another one's digest
    assert made(sources={digest: text}) == codes  # it is taken from the file
    (file,) = folder.iterdir()
    spoil(file)
    assert executed(made(sources={digest: text})[digest]) == {"a": 1}


def test_nothing_is_kept_where_the_user_wants_nothing_kept(tmp_path, monkeypatch):
    monkeypatch.setenv(packed.PLACE, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert made().keys() == GOOD
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_is_killed_is_not_asked_again(folder):
    bytecode = Bytecode()
    try:
        assert bytecode.of(OWN, SOURCES).keys() == GOOD
        (maker,) = bytecode._makers.values()
        maker._process.kill()
        others = {hashlib.sha256(b"d = 4\n").hexdigest(): b"d = 4\n"}
        assert bytecode.of(OWN, others) == {}
        assert bytecode.of(OWN, SOURCES | others).keys() == GOOD
    finally:
        bytecode.close()
