"""tools/wheels and what it stands on: what is refused, what is compared, and that extensions take older versions of functions."""

import ast
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import untyped_stubs
from tools.commands import ROOT, Failed, call
from tools.wheels import building, crossing, judging
from tools.wheels.interpreters import Interpreter, interpreters


def test_a_python_that_is_not_found_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(Failed, match=r"no CPython 3\.12 with headers and venv.*python3\.X-dev"):
        interpreters(["3.12"])
    (tmp_path / "python3.12").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.12").chmod(0o755)
    with pytest.raises(Failed, match=r"no CPython 3\.12"):
        interpreters(["3.12"])


def test_the_python_that_runs_this_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    version = "{}.{}".format(*sys.version_info)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("this Python has no headers")
    (tmp_path / f"python{version}").symlink_to(base)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreters([version]) == [Interpreter(version, tmp_path / f"python{version}")]


def test_two_builds_that_differ_are_named_and_kept(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "same.whl").write_bytes(b"same")
    judging.compare(one, other)
    (one / "changed.whl").write_bytes(b"1")
    (other / "changed.whl").write_bytes(b"2")
    (other / "more.whl").write_bytes(b"")
    with pytest.raises(Failed, match=r"these differ: changed\.whl, more\.whl"):
        judging.compare(one, other)
    assert judging.sums(one)["same.whl"] == "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"


def test_the_copy_has_what_git_knows_of_and_nothing_else(tmp_path: Path) -> None:
    copy = building.clean_copy(tmp_path / "copy")
    assert (copy / "setup.py").read_bytes() == (ROOT / "setup.py").read_bytes()
    assert not (copy / ".git").exists()
    assert not (copy / ".venv").exists()
    assert not list(copy.glob("src/roamlet/core/*.so"))


def test_sdists_that_differ_in_times_and_owners_become_the_same(tmp_path: Path) -> None:
    found = []
    for name, when, names in (("one", 1_000_000_000.5, ("a", "b")), ("other", 1_700_000_000, ("b", "a"))):
        sdist = tmp_path / name / "roamlet-0.tar.gz"
        sdist.parent.mkdir()
        with tarfile.open(sdist, "w:gz") as archive:
            for member in names:
                info = tarfile.TarInfo(f"roamlet-0/{member}")
                info.size, info.mtime, info.uname, info.uid = 1, when, name, len(name)  # type: ignore[assignment]
                info.mode = 0o700 if member == "a" else 0o660
                archive.addfile(info, io.BytesIO(member.encode()))
        building.settle(sdist, 1_234_567_890)
        found.append(sdist)
    assert judging.sums(found[0].parent) == judging.sums(found[1].parent)
    with tarfile.open(found[0]) as archive:
        told = [(each.name, each.mtime, oct(each.mode), each.uname) for each in archive.getmembers()]
        assert told == [("roamlet-0/a", 1_234_567_890, "0o755", ""), ("roamlet-0/b", 1_234_567_890, "0o644", "")]
        assert archive.extractfile("roamlet-0/b").read() == b"b"  # type: ignore[union-attr]


def test_modules_without_annotations_get_stubs_that_name_what_they_have(tmp_path: Path) -> None:
    package = tmp_path / "roamlet"
    for name in untyped_stubs.UNTYPED:
        source = ROOT / "src/roamlet" / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        copy(source, package / name)
    written = untyped_stubs.write(package)
    assert len(written) > 40
    empty = {path for path in package.rglob("*.py") if not path.with_suffix(".pyi").exists()}
    assert {path.name for path in empty} == {"__init__.py"}
    assert len({stub.read_text() for stub in written}) == len(written)
    for stub in written:
        names = {each.name for each in ast.walk(ast.parse(stub.read_text())) if isinstance(each, ast.FunctionDef)}
        tree = ast.parse(stub.with_suffix(".py").read_text())
        public = {
            each.name for each in tree.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
        }
        assert public <= names, stub


def test_a_stub_says_any_of_what_has_no_annotation() -> None:
    told = untyped_stubs.of(
        "from roamlet.wire.codec import CodecError\n"
        "import other\n"
        "LIMIT, _hidden = 1, 2\n"
        "def ask(pid, seconds=1, *rest, **more): pass\n"
        "def _own(): pass\n"
        "try:\n    import fast\nexcept ImportError:\n    def late(): pass\n"
        "class Lost(CodecError, ValueError):\n"
        "    def __init__(self, why):\n        self.why = why\n        self._why = why\n"
        "    @property\n    def text(self): return self.why\n"
        "class Kept(other.Base):\n    __slots__ = ()\n"
    )
    assert told.splitlines() == [
        "from roamlet.wire.codec import CodecError as CodecError",
        "from typing import Any",
        "",
        "def __getattr__(name: str) -> Any: ...",
        "LIMIT: Any",
        "def ask(pid: Any, seconds: Any = ..., *rest: Any, **more: Any) -> Any: ...",
        "def late() -> Any: ...",
        "class Lost(CodecError, ValueError):",
        "    def __init__(self, why: Any) -> None: ...",
        "    @property",
        "    def text(self) -> Any: ...",
        "    why: Any",
        "class Kept:",
        "    def __getattr__(self, name: str) -> Any: ...",
    ]


def test_a_wheel_with_sources_in_c_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "one.whl", "w") as archive:
        archive.writestr("roamlet/core/c/module.c", "")
    with pytest.raises(Failed, match=r"one\.whl has sources in C: roamlet/core/c/module\.c"):
        judging.check(tmp_path / "no-programs", tmp_path)


@pytest.mark.parametrize(
    ("system", "machine", "version", "needs"),
    [
        ("linux", "x86_64", "3.11", False),
        ("linux", "aarch64", "3.15", False),
        ("linux", "riscv64", "3.12", True),
        ("linux", "x86_64", "3.16", True),
        ("darwin", "arm64", "3.13", True),
        ("darwin", "x86_64", "3.13", True),
    ],
)
def test_greenlet_is_required_where_there_is_no_native_backend(
    system: str, machine: str, version: str, needs: bool
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    environment = {"sys_platform": system, "platform_machine": machine, "python_version": version}
    wanted = [Requirement(text) for text in project["dependencies"]]
    assert [each.name for each in wanted if each.marker is None or each.marker.evaluate(environment)] == (
        ["greenlet"] if needs else []
    )


@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc", reason="where wheels are crossed"
)
def test_a_python_takes_itself_for_one_on_aarch64(tmp_path: Path) -> None:
    asked = "import sysconfig; print(sysconfig.get_platform(), sysconfig.get_config_var('EXT_SUFFIX'))"
    told = call([sys.executable, "-c", asked], **crossing.pretend(Path(sys.executable), tmp_path)).split()
    assert told == ["linux-aarch64", f".cpython-{sys.version_info[0]}{sys.version_info[1]}-aarch64-linux-gnu.so"]


def test_a_command_of_another_system_gets_its_folder_its_settings_and_its_words(tmp_path: Path) -> None:
    enter = tmp_path / "enter"
    enter.write_text('#!/bin/sh\n[ "$1" = somewhere ] && exec sh -c "$2"\n')
    enter.chmod(0o755)
    there = Interpreter("3.14", Path("/usr/bin/python3.14"), (str(enter), "somewhere"))
    told = there.call(["sh", "-c", 'pwd; echo "$WORD" "$0"', "a 'b'"], tmp_path, WORD="two words")
    assert told.splitlines() == [str(tmp_path), "two words a 'b'"]
    assert there.tag == "cp314"


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    with pytest.raises(Failed, match=r"(?s)\$ .*sys\.exit.*the reason"):
        call([sys.executable, "-c", "import sys; sys.exit('the reason')"])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="versions of functions are glibc's")
def test_extensions_of_wheels_need_no_newer_glibc_than_their_name_says(tmp_path: Path) -> None:
    if shutil.which("gcc") is None or shutil.which("objdump") is None:
        pytest.skip("it takes gcc and objdump")
    built = tmp_path / "built.so"
    flags = ["-O0", "-std=gnu11", "-fPIC", "-shared", "-DNDEBUG", "-DROAMLET_PORTABLE", "-DROAMLET_SWITCH_GREENLET=1"]
    if platform.machine() == "x86_64":
        flags.append("-mno-red-zone")
    folder = ROOT / "src/roamlet/core/c"
    include = [f"-I{folder}", f"-I{sysconfig.get_path('include')}"]
    subprocess.run(["gcc", *flags, *include, str(folder / "module.c"), "-o", str(built)], check=True, cwd=ROOT)
    said = subprocess.run(
        ["objdump", "-T", str(built)], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
    ).stdout
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([0-9.]+)", said)}
    assert "pthread_create" in said
    assert max(versions) <= (2, 17)
