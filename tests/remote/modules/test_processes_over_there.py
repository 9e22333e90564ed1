"""Processes that multiprocessing starts in a context: their modules come from memory too, and nothing waits for ever."""

import importlib
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
