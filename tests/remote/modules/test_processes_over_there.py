"""Processes that multiprocessing starts in a context: their modules come from memory too, and nothing waits for ever."""

import importlib
import os
import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from roamlet import remote
from tests.remote import interpreters
from tests.remote.modules.conftest import Make

METHODS = {version: ("fork", "spawn", "forkserver") for version in interpreters.found() if version != "2.7"}


@pytest.fixture
def processes(make: Make) -> ModuleType:
    make(
        {
            "roamlet_processes_helper.py": "def doubled(value):\n    return 2 * value\n",
            "roamlet_processes_lazy.py": "value = 'lazy'\n",
            "roamlet_never_sent.py": "",
        }
    )
    return importlib.import_module("roamlet_processes")


@pytest.mark.parametrize("version", METHODS)
def test_processes_find_what_came_and_are_told_at_once_what_did_not(processes: ModuleType, version: str) -> None:
    with remote.local(python=interpreters.found()[version]) as context:
        for method in METHODS[version]:
            values, problem = context.call(processes.mapped, (method, [1, 2]), timeout=60)
            assert values == [(2, "lazy", True), (4, "lazy", True)]
            assert "only what had come" in problem


def test_an_executor_of_processes_works(processes: ModuleType) -> None:
    with remote.local() as context:
        assert context.call(processes.executed, ([1, 2, 3],), timeout=60) == [2, 4, 6]


@pytest.mark.parametrize("version", METHODS)
def test_a_python_that_is_executed_finds_what_came(processes: ModuleType, version: str) -> None:
    with remote.local(python=interpreters.found()[version]) as context:
        printed = context.call(processes.executed_program, timeout=60)
    if version == "3.6":  # which has no file in memory to hand over
        assert "No module named 'roamlet_processes'" in printed
    else:
        assert printed == "42 ['a']\n"


EXECUTE = (
    "print(subprocess.run([sys.executable, '-c', 'import roamlet_processes_lazy as one; print(one.value)']).returncode)"
)
EXECUTED = {
    "subprocess_first": f"import subprocess, sys\nimport roamlet_processes_helper\n{EXECUTE}",
    "nothing_of_ours": f"import subprocess, sys\n{EXECUTE}",
}
HANDS_ON = [version for version in METHODS if version not in ("3.6", "3.7")]


@pytest.mark.parametrize("version", HANDS_ON)
@pytest.mark.parametrize("code", EXECUTED.values(), ids=EXECUTED)
def test_a_python_that_an_executed_one_executes_finds_what_came(processes: ModuleType, version: str, code: str) -> None:
    with remote.local(python=interpreters.found()[version]) as context:
        code_of_exit, printed = context.call(processes.executed_with, (["-uc", code],), timeout=60)
    assert (code_of_exit, printed) == (0, "lazy\n0\n")


THREADS = """
import _imp, sys, threading
class Between:  # another thread gets the importer while this one looks on
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "roamlet_processes_lazy":
            _imp.release_lock()
            other = threading.Thread(target=__import__, args=("roamlet_processes_helper",))
            other.start()
            other.join()
            _imp.acquire_lock()
sys.meta_path.insert(-1, Between)
import roamlet_processes_lazy
print(roamlet_processes_lazy.value, sys.modules["roamlet_processes_helper"].doubled(2))
"""


def test_threads_of_an_executed_python_that_import_at_once_all_find_it(processes: ModuleType) -> None:
    with remote.local() as context:
        assert context.call(processes.executed_with, (["-c", THREADS],), timeout=60) == (0, "lazy 4\n")


def test_an_executed_python_that_has_closed_what_it_inherits_goes_on(processes: ModuleType) -> None:
    closes = "import os\nos.closerange(3, 300)\n"
    fills = "files = [open(os.devnull) for _ in range(200)]\n"  # with the same numbers
    absent = "try:\n    import roamlet_processes_lazy\nexcept ImportError as error:\n    print(error)"
    said = (0, "No module named 'roamlet_processes_lazy'\n")
    with remote.local() as context:
        assert context.call(processes.executed_with, (["-c", closes + absent],), timeout=60) == said
        assert context.call(processes.executed_with, (["-c", closes + fills + absent],), timeout=60) == said
        assert context.call(processes.executed_with, (["-c", absent],), {"closed": True}, timeout=60) == said


def test_a_program_of_almost_as_many_bytes_as_a_word_may_have_is_executed_as_it_is(processes: ModuleType) -> None:
    with remote.local() as context:
        code = "print('%s'[:3])" % ("a" * ((1 << 17) - 20))
        assert context.call(processes.executed_with, (["-c", code],), timeout=60) == (0, "aaa\n")


SCRIPT = """
import os, pickle, sys, threading
class Own: pass
def late():
    threading.main_thread().join()
    print(type(pickle.loads(pickle.dumps(Own()))) is Own)
threading.Thread(target=late).start()
print(__file__, __spec__ and __spec__.name, type(__loader__).__name__, sys.argv, sys.path[0])
"""


@pytest.mark.parametrize("version", HANDS_ON)
def test_a_script_is_executed_as_the_interpreter_does_it(processes: ModuleType, version: str, tmp_path: Path) -> None:
    python = interpreters.found()[version]
    (tmp_path / "one.py").write_text(SCRIPT)
    (tmp_path / "skips.py").write_text("not Python\n" + SCRIPT)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(SCRIPT)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as file:
        file.writestr("__main__.py", SCRIPT)
    relative = os.path.relpath(tmp_path / "one.py")
    words = [[relative, "a"], ["-I", relative], ["-x", str(tmp_path / "skips.py")], [str(tmp_path / "absent.py")]]
    words += [[str(tmp_path / "folder")], [str(tmp_path / "app.zip"), "-c"], ["-B", str(tmp_path)]]
    with remote.local(python=python) as context:
        words.append(["./" + relative])
        for each in words:
            done = subprocess.run(
                [context.facts.executable, *each], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            assert context.call(processes.executed_with, (each,), timeout=60) == (done.returncode, done.stdout.decode())


def test_a_process_forked_while_a_thread_executes_a_python_can_execute_one(processes: ModuleType) -> None:
    with remote.local() as context:
        assert context.call(processes.executed_after_a_fork, timeout=60) == 7
