"""What bundles bring is used by a real target: every version, over a pipe."""

import importlib
from types import ModuleType

import pytest

import roamlet
from roamlet import remote
from tests.remote.modules.conftest import Make
from tests.wire import interpreters

PYTHONS = list(interpreters.found())

WITH_DATA = """
def by_pkgutil():
    import pkgutil
    return pkgutil.get_data("with_data", "words.txt").decode("utf-8")

def by_traversable():
    from importlib import resources
    folder = resources.files("with_data")
    file = folder / "words.txt"
    return file.read_text(), file.is_file(), [one.name for one in folder.iterdir()], (folder / "none.txt").is_file()

def by_old_functions():
    from importlib import resources
    return resources.read_text("with_data", "words.txt"), resources.is_resource("with_data", "words.txt")

def by_path():
    from importlib import resources
    with resources.as_file(resources.files("with_data") / "words.txt") as path:
        with open(str(path)) as file:
            return str(path), file.read()

def by_old_path():
    from importlib import resources
    with resources.path("with_data", "words.txt") as path:
        with open(str(path)) as file:
            return str(path), file.read()

def by_name(name):
    import pkgutil
    return pkgutil.get_data("with_data", name)
"""


@pytest.fixture
def with_data(make: Make) -> ModuleType:
    make({"with_data/__init__.py": WITH_DATA, "with_data/words.txt": "wool and linen", "with_data/other.txt": "unused"})
    return importlib.import_module("with_data")


@pytest.mark.parametrize("version", PYTHONS)
def test_data_files_that_the_code_names_are_there_and_the_others_are_fetched(
    with_data: ModuleType, version: str
) -> None:
    with remote.local(python=interpreters.found()[version]) as context:
        assert context.call(with_data.by_pkgutil) == "wool and linen"
        theirs = context.facts.python[:2]
        if theirs >= (3, 9):
            names = ["__init__.py", "other.txt", "words.txt"]
            assert context.call(with_data.by_traversable) == ("wool and linen", True, names, False)
            assert context.stats.round_trips == 1
        if theirs >= (3, 7):
            assert context.call(with_data.by_old_functions) == ("wool and linen", True)
        before = context.stats.round_trips
        assert context.call(with_data.by_name, ("other.txt",)) in (b"unused", "unused")
        assert context.call(with_data.by_name, ("other.txt",)) in (b"unused", "unused")
        assert context.stats.round_trips == before + 1
        with pytest.raises(
            (OSError, remote.RemoteError), match=r"with_data/none.txt is not here: the parent's package with"
        ):
            context.call(with_data.by_name, ("none.txt",))


LATER = {
    "later_first.py": "from later_second import work\ndef nothing():\n    return None\ndef run():\n    return work()\n",
    "later_second.py": "def work():\n    import later_third\n    return later_third.value\n",
    "later_third.py": "value = 'third'\n",
}


@pytest.mark.parametrize("version", PYTHONS)
def test_what_functions_import_when_they_are_called_is_there_before_they_are(make: Make, version: str) -> None:
    make(LATER)
    first = importlib.import_module("later_first")
    importlib.import_module("later_third")  # loaded here: likely to be needed there
    with remote.local(python=interpreters.found()[version]) as context:
        context.call(first.nothing)
        while context.stats.modules < 3:  # the third follows after the call
            roamlet.sleep(0.001)
        assert context.call(first.run) == "third"
        assert context.stats.round_trips == 0


@pytest.mark.parametrize("version", PYTHONS)
def test_a_path_to_a_data_file_leads_into_memory(with_data: ModuleType, version: str) -> None:
    with remote.local(python=interpreters.found()[version]) as context:
        theirs = context.facts.python[:2]
        for least, function in (((3, 9), with_data.by_path), ((3, 8), with_data.by_old_path)):
            if theirs >= least:
                path, text = context.call(function)
                assert path.startswith("/proc/")
                assert text == "wool and linen"
        assert context.stats.round_trips == 0
