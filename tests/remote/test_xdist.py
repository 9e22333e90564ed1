"""pytest-xdist's `--tx roamlet//...`: the tests of a project run where neither it nor pytest is installed."""

import errno
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from roamlet.testing.xdist import Project, harmless
from roamlet.wire.files import private
from tests.docs.blocks import ROOT
from tests.remote.sshd import Sshd

BASE = getattr(sys, "_base_executable", sys.executable)

TESTS = """
import os
import signal
import subprocess
import sys
import threading
import warnings

import helpers
import pytest
import requests
import shipped


@pytest.mark.parametrize("number", range(6))
def test_passes(number, five, tmp_path):
    assert (five, helpers.three(), shipped.data) == (5, 3, "data beside the module")
    assert threading.current_thread() is threading.main_thread()
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    tmp_path.joinpath("file").write_text("here")
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    assert here.startswith("/dev/shm/roamlet-")
    assert all(os.path.abspath(path).startswith(here) for path in (shipped.__file__, helpers.__file__, tmp_path))


def test_fails():
    assert os.getcwd() == "elsewhere"


def test_executes_a_python_that_has_the_project():
    program = "import shipped; print(shipped.data)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (said.stderr, said.stdout) == ("", "data beside the module\\n")


def test_warns():
    warnings.warn(UserWarning("of the project"))


def test_dies():
    if os.environ.get("DIES"):
        os._exit(3)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in {
        "pytest.ini": "[pytest]\npythonpath = src\nroamlet_patch = strict\nfilterwarnings = error::pytest.PytestConfigWarning\n",
        "src/shipped/__init__.py": "import os\n\ndata = open(os.path.join(os.path.dirname(__file__), 'data.txt')).read()\n",
        "src/shipped/data.txt": "data beside the module",
        "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef five():\n    return 5\n",
        "tests/helpers.py": "def three():\n    return 3\n",
        "tests/test_it.py": TESTS,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """The specification of an interpreter in which nothing is installed."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(BASE)} -S "$@"\n')
    path.chmod(0o755)
    return f"roamlet//local//python={path}"


def run(folder: Path, *words: str) -> "tuple[int, list[str]]":
    """Run pytest in a folder; return its status and what it printed. No folder in memory stays."""
    before = _in_memory()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dist", "load", *words]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False
    )
    limit = time.monotonic() + 20
    while _in_memory() - before and time.monotonic() < limit:  # the guard of the folder is a process of its own
        time.sleep(0.05)
    assert not _in_memory() - before
    return done.returncode, done.stdout.splitlines()


def _in_memory() -> set[str]:
    """The folders of projects; other tests may have some at the same time, which are named otherwise."""
    place = Path(private.MEMORY)
    return {path.name for path in place.glob("roamlet-*") if (path / "project").exists()}


def last(lines: "list[str]") -> str:
    return " ".join(lines[-1].strip("= ").split()[:-2])


def test_a_suite_runs_on_hosts_over_ssh_where_nothing_is_installed(project: Path, sshd: Sshd, bare: str) -> None:
    """Two workers behind one ssh, and one behind another name of the host."""
    ssh = f"ssh_config={sshd.ssh_args[1]}//python={bare.rpartition('=')[2]}"
    status, said = run(
        project, "--tx", f"2*roamlet//ssh={sshd.host}//{ssh}", "--tx", f"roamlet//ssh=roamlet-second-name//{ssh}"
    )
    assert (status, last(said)) == (1, "1 failed, 9 passed, 1 warning"), "\n".join(said)
    assert any(line.startswith("FAILED tests/test_it.py::test_fails - AssertionError") for line in said)
    assert any("UserWarning: of the project" in line for line in said)
    assert (
        sum(line.startswith("roamlet: ") and "goes to roamlet-loopback, roamlet-second-name" in line for line in said)
        == 1
    )


def test_what_a_package_of_this_interpreter_imports_of_the_project_is_the_copy_too(
    project: Path, bare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin for the project, say, which is installed here: what it imports is sent along with it."""
    outside = project.parent / "installed"
    outside.mkdir()
    (outside / "of_shipped.py").write_text("import shipped\n")
    monkeypatch.setenv("PYTHONPATH", str(outside))
    (project / "tests/test_it.py").write_text(
        "import of_shipped\n\n\ndef test_where():\n"
        "    assert of_shipped.shipped.__file__.startswith('/dev/shm/roamlet-')\n"
        "    assert not of_shipped.__file__.startswith('/dev/shm/roamlet-')\n"
    )
    status, said = run(project, "--tx", bare)
    assert (status, last(said)) == (0, "1 passed"), "\n".join(said)


HOSTILE = """
import warnings


def pytest_sessionstart(session):
    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            data = dict.fromkeys(warnings.WarningMessage._WARNING_DETAILS)
            data.update(
                message_module="os", message_class_name="mkdir", message_args=(PLACE,), message_str="of a worker",
                category_module="builtins", category_class_name="UserWarning", lineno=1, filename="x.py",
            )
            event = {"warning_message_data": data, "when": "config", "nodeid": "", "location": None}
            plugin.channel.send(KIND(("warning_recorded", event)))
"""


@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_a_worker_that_names_a_function_in_a_warning_has_it_called_nowhere(project: Path, bare: str, kind: str) -> None:
    place = project.parent / "made by a worker"
    (project / "conftest.py").write_text(HOSTILE.replace("PLACE", repr(str(place))).replace("KIND", kind))
    status, said = run(project, "--tx", bare, "-k", "warns")
    assert status == 0, "\n".join(said)
    assert any("of a worker" in line for line in said)
    assert not place.exists()


def test_paths_of_the_command_line_name_the_copy(project: Path, bare: str) -> None:
    for folder, words in (
        (project / "tests", ["test_it.py::test_passes"]),
        (project, ["tests/test_it.py::test_passes[0]", str(project / "tests/test_it.py") + "::test_passes[3]"]),
        (
            project.parent,
            [f"--rootdir={project}", "-c", str(project / "pytest.ini"), str(project / "tests"), "-k", "passes"],
        ),
    ):
        status, said = run(folder, "--tx", bare, *words)
        assert status == 0, "\n".join(said)
        assert last(said) == f"{2 if '[0]' in words[0] else 6} passed"


def test_without_dist_the_header_says_that_all_tests_run_here(project: Path) -> None:
    status, said = run(project, "--dist", "no", "--tx", "roamlet//ssh=roamlet-no-such-host", "-k", "warns")
    assert (status, last(said)) == (0, "1 passed, 9 deselected, 1 warning"), "\n".join(said)
    assert "roamlet: all tests run here, as --tx says nothing without -d or --dist" in said


def test_beside_workers_of_this_machine(project: Path, bare: str) -> None:
    status, said = run(project, "--tx", bare, "--tx", "popen", "-k", "fails or warns")
    assert status == 1
    assert last(said) == "1 failed, 1 passed, 1 warning", "\n".join(said)


def test_a_worker_that_dies_is_named_with_its_test_and_another_takes_its_place(project: Path, bare: str) -> None:
    status, said = run(project, "--tx", f"{bare}//env:DIES=yes", "-k", "dies or passes")
    assert status == 1
    assert last(said) == "1 failed, 6 passed", "\n".join(said)
    assert any("worker 'gw0' crashed while running 'tests/test_it.py::test_dies'" in line for line in said)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tx", "roamlet"], "ERROR: --tx: 'roamlet' names no place: one of local, ssh,"),
        (["--tx", "roamlet//ssh=roamlet-no-such-host"], "ERROR: --tx: ssh to 'roamlet-no-such-host' failed"),
        (["--tx", "roamlet//local//chdir=/tmp"], "workers are in the copy of the project, which chdir= cannot be"),
        (["--tx", "roamlet//local", "--roamlet-patch"], "the small module roamlet, which has no patch"),
        (["--tx", "roamlet//local", "--px", "popen//id=proxy"], "--px is for gateways of execnet's own"),
        (["--tx", "roamlet//local", "--rootdir", "/", "/no-such-tests.py"], "no such file|/ would travel"),
        (["--tx", "roamlet//local", sys.executable], "is outside of"),
    ],
)
def test_what_makes_no_sense_is_said_before_a_test_runs(project: Path, words: "list[str]", says: str) -> None:
    status, said = run(project, *words)
    assert status == 4, "\n".join(said)
    assert any(any(part in line for part in says.split("|")) for line in said), "\n".join(said)
    assert "INTERNALERROR" not in "\n".join(said)


def test_a_worker_that_cannot_be_made_ends_the_run_with_an_error_and_no_traceback(project: Path, bare: str) -> None:
    """In a folder that does not travel, for instance."""
    folder = project / "node_modules"
    folder.mkdir()
    status, said = run(folder, "--tx", bare, str(project / "tests"))
    assert status == 4, "\n".join(said)
    assert any(line.startswith("ERROR: --tx: ") and "node_modules" in line for line in said), "\n".join(said)
    assert "INTERNALERROR" not in "\n".join(said)


def config(root: Path, **more: Any) -> Any:
    return SimpleNamespace(
        invocation_params=SimpleNamespace(dir=more.get("dir", root)),
        rootpath=root,
        getini=lambda name: more.get(name, []),
        option=SimpleNamespace(rsyncignore=[], file_or_dir=more.get("file_or_dir", [])),
    )


def test_environments_caches_and_what_the_settings_leave_out_stay_here(project: Path) -> None:
    for name in (
        ".git/HEAD",
        "venv/pyvenv.cfg",
        "venv/lib/x.py",
        "src/__pycache__/x.pyc",
        ".mypy_cache/x",
        "big/data.bin",
        "x.pyc",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    (project / "link").symlink_to("tests/helpers.py")
    (project / "dangling").symlink_to("/nowhere")
    (project / "folder").symlink_to("tests")
    os.mkfifo(project / "pipe")
    with Project(config(project, rsyncignore=["big"]), []).archive() as file:
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            names = archive.getnames()
            assert archive.getmember("link").issym()
            assert all((each.uid, each.gid, each.uname) == (0, 0, "") for each in archive.getmembers())
    kept = "src src/shipped src/shipped/__init__.py src/shipped/data.txt tests tests/conftest.py tests/helpers.py tests/test_it.py"
    assert sorted(names) == sorted([*kept.split(), "pytest.ini", "link", "dangling", "folder"])


def names_in(made: Project) -> "list[str]":
    with made.archive() as file:
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            return sorted(archive.getnames())


def test_a_project_in_a_virtual_environment_travels_without_its_packages(project: Path) -> None:
    """As `python -m venv .` makes it, or with the environment's folder around it, or beside one of conda."""
    before = names_in(Project(config(project), []))
    for name in ("project/conda/conda-meta/history", "pyvenv.cfg"):
        (project.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (project.parent / name).write_text("")
    assert names_in(Project(config(project), [])) == before
    packages = project / "lib/python3/site-packages"
    packages.mkdir(parents=True)
    (project / "pyvenv.cfg").write_text("")
    assert names_in(Project(config(project), [])) == sorted([*before, "lib", "pyvenv.cfg"])
    paths = [str(packages), str(project / "src"), str(project / "conda/lib")]
    assert Project(config(project), paths).paths == ["src"]


def test_a_link_with_an_absolute_target_in_the_project_leads_into_the_copy(project: Path) -> None:
    other = project.parent / "other"
    other.symlink_to(project)
    (project / "tests/data").symlink_to(project / "src/shipped")
    (project / "tests/again").symlink_to(other / "pytest.ini")
    (project / "outside").symlink_to(project.parent)
    made = Project(config(other), [str(other / "src"), str(project / "src")])
    assert made.paths == ["src"]
    with made.archive() as file:
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            links = {each.name: each.linkname for each in archive.getmembers() if each.issym()}
    assert links == {"tests/data": "../src/shipped", "tests/again": "../pytest.ini", "outside": str(project.parent)}


def test_what_cannot_be_read_is_named_and_what_is_removed_meanwhile_is_left_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Project(config(project), [])
    expected = names_in(made)
    add = tarfile.TarFile.add

    def removed(archive: tarfile.TarFile, path: str, *more: Any, **named: Any) -> None:
        if path.endswith("removed"):
            os.remove(path)
        if path.endswith("secret"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        add(archive, path, *more, **named)

    (project / "removed").write_text("")
    monkeypatch.setattr(tarfile.TarFile, "add", removed)
    assert names_in(made) == expected
    (project / "secret").write_text("")
    with pytest.raises(
        pytest.UsageError, match=r"secret cannot travel to the hosts: Permission denied\n .* rsyncignore"
    ):
        made.archive()


def test_words_of_other_options_stay_as_they_are(project: Path, tmp_path: Path) -> None:
    """Names of folders in expressions, and files outside of the project that an earlier run has written."""
    report = tmp_path / "report.xml"
    report.write_text("")
    words = ["-k", "tests", "-m", "src", "--junitxml", str(report), f"--junitxml={report}", "-c", "pytest.ini"]
    test = "tests/test_it.py::test_passes[a::b=../c]"
    made = Project(config(project, file_or_dir=[test]), [])
    assert made.words([*words, test, "--ignore", "src"], "/copy")[2:] == [*words, f"/copy/{test}", "--ignore", "src"]
    inside = [
        str(project / "tests/test_it.py") + "::test_passes[a::b]",
        f"--ignore={project}/src",
        "--rootdir",
        str(project),
    ]
    made = Project(config(project, file_or_dir=inside[:1]), [])
    assert made.words(inside, "/copy")[2:] == [
        "/copy/tests/test_it.py::test_passes[a::b]",
        "--ignore=/copy/src",
        "--rootdir",
        "/copy/.",
    ]
    for outside in (str(report), "../report.xml"):
        with pytest.raises(pytest.UsageError, match="is outside of"):
            Project(config(project, file_or_dir=[outside]), []).words([outside], "/copy")


def test_folders_of_the_module_search_path_that_are_in_the_project_are_searched_in_the_copy(project: Path) -> None:
    paths = [str(project / "src"), "/usr/lib/python3", str(project / "venv/lib"), str(project)]
    (project / "venv").mkdir()
    (project / "venv/pyvenv.cfg").write_text("")
    assert Project(config(project), paths).paths == ["src", "."]


@pytest.mark.parametrize("root", [Path("/"), Path.home(), Path("/tmp").resolve()])
def test_a_folder_that_is_no_project_does_not_travel(root: Path) -> None:
    with pytest.raises(pytest.UsageError, match="would travel to the hosts"):
        Project(config(root), [])


def test_a_worker_cannot_name_what_is_called_here() -> None:
    """xdist imports the module and calls the class that a worker names for a warning."""
    from xdist.workermanage import unserialize_warning_message

    called: list[str] = []
    tried = ModuleType("roamlet_tried")
    tried.__dict__.update(call=called.append, Mine=type("Mine", (UserWarning,), {}), __getattr__=called.append)
    sys.modules["roamlet_tried"] = tried
    try:
        for module, name, expected in (
            ("roamlet_tried", "call", Warning),
            ("roamlet_tried", "loaded_when_asked_for", Warning),
            ("roamlet_never_imported", "call", Warning),
            ("builtins", "UserWarning", UserWarning),
            ("roamlet_tried", "Mine", tried.__dict__["Mine"]),
        ):
            for sequence in (tuple, list):
                event = ["warning_recorded", {"when": "runtest", "warning_message_data": warning(module, name)}]
                _, about = harmless(sequence(event))
                made = unserialize_warning_message(about["warning_message_data"])
                assert type(made.message) is expected
                assert "text" in str(made.message)
                assert made.category in (None, expected)
    finally:
        del sys.modules["roamlet_tried"]
    assert called == []
    assert harmless(("testreport", {"data": 1})) == ("testreport", {"data": 1})
    assert harmless("anything") == "anything"


def warning(module: str, name: str) -> dict[str, Any]:
    import warnings

    data: dict[str, Any] = dict.fromkeys(cast(Any, warnings.WarningMessage)._WARNING_DETAILS)
    data |= {"message_module": module, "message_class_name": name, "message_args": ("text",), "message_str": "text"}
    return data | {"category_module": module, "category_class_name": name, "lineno": 1, "filename": "x.py"}


def test_the_command_of_the_how_to_runs_its_tests(tmp_path: Path, bare: str) -> None:
    """With this machine in place of one host, and an interpreter without packages in that of the other."""
    page = (ROOT / "docs/howto/test-suite-on-many-hosts.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"^pytest (.*)$", page, re.MULTILINE)
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_squares.py").write_text(source)
    words = shlex.split(
        command.replace("4*roamlet//ssh=alpha", "2*roamlet//local").replace("4*roamlet//ssh=beta", bare)
    )
    status, said = run(project, *words)
    assert (status, last(said)) == (0, "101 passed"), "\n".join(said)
