"""What cannot be foreseen takes few questions: each answer brings what earlier questions show to be wanted as well."""

import importlib
import sys
from types import ModuleType

import pytest

from roamlet import remote
from roamlet.remote import modules
from roamlet.remote.modules.companions import companions
from tests.remote.modules.conftest import Make
from tests.wire import interpreters

BARE = getattr(sys, "_base_executable", sys.executable)
KINDS = [f"k{n}" for n in range(8)]
PROVIDERS = {
    "roamlet_words/__init__.py": """
        import os, sys

        def load(name):
            __import__(name)
            return sys.modules[name].VALUE

        def languages(kinds):
            import roamlet_words.kinds
            found = []
            for kind in kinds:
                folder = os.path.dirname(sys.modules["roamlet_words.kinds." + kind].__file__)
                found.append(sorted(name for name in os.listdir(folder) if name[:2] == "l_"))
            return found
        """,
    "roamlet_words/kinds/__init__.py": "from . import " + ", ".join(KINDS) + "\n",
    **{f"roamlet_words/kinds/{kind}/__init__.py": "" for kind in KINDS},
    **{f"roamlet_words/kinds/{kind}/l_{one}.py": f"VALUE = '{kind} {one}'\n" for kind in KINDS for one in ("de", "fr")},
}


@pytest.fixture
def words(make: Make) -> ModuleType:
    make(PROVIDERS)
    importlib.import_module("roamlet_words.kinds")
    return importlib.import_module("roamlet_words")


@pytest.mark.parametrize("version", list(interpreters.found()))
def test_an_import_asks_once_for_all_that_it_lies_in(make: Make, version: str) -> None:
    make(
        {
            "roamlet_asks.py": "import sys\ndef load(name):\n    __import__(name)\n    return sys.modules[name].VALUE\n",
            "roamlet_deep/__init__.py": "",
            "roamlet_deep/a/__init__.py": "",
            "roamlet_deep/a/b.py": "VALUE = 5\n",
        }
    )
    asks = importlib.import_module("roamlet_asks")
    with remote.local(python=interpreters.found()[version]) as context:
        assert context.call(asks.load, ("roamlet_deep.a.b",)) == 5
        assert context.stats.round_trips == 1 or context.facts.python < (3,)
        with pytest.raises(ImportError, match="roamlet_nowhere"):
            context.call(asks.load, ("roamlet_nowhere.deep",))


def test_modules_of_one_name_in_packages_side_by_side_come_with_the_second(words: ModuleType) -> None:
    with remote.local(python=BARE) as context:
        context.call(words.load, ("roamlet_words.kinds.k0.l_de",))
        assert context.call(words.load, ("roamlet_words.kinds.k1.l_de",)) == "k1 de"
        before = context.stats.round_trips
        assert [context.call(words.load, (f"roamlet_words.kinds.{kind}.l_de",)) for kind in KINDS] == [
            f"{kind} de" for kind in KINDS
        ]
        assert context.stats.round_trips == before
        context.call(words.load, ("roamlet_words.kinds.k0.l_fr",))
        assert context.stats.round_trips == before + 1


def test_what_goes_along_is_bounded_and_was_not_sent(words: ModuleType) -> None:
    first, second = "roamlet_words.kinds.k0.l_de", "roamlet_words.kinds.k1.l_de"
    assert companions(second, (), ()).names == ()
    assert set(companions(second, {first}, {first, "roamlet_words.kinds.k2.l_de"}).names) == {
        f"roamlet_words.kinds.k{n}.l_de" for n in range(3, 8)
    }
    assert companions("roamlet_words.kinds.k0.l_fr", {first}, {first}).names == ()
    assert companions("os.path", {"os.x"}, ()).names == ()


def test_what_goes_along_costs_no_more_than_what_was_asked_for(make: Make) -> None:
    texts = {f"roamlet_bulk/m{n}.py": f"VALUE = {n}\n" + "#" * (8990 + n) for n in range(5)}
    small = {
        "roamlet_bulk/a.py": "import roamlet_heavy\n",
        "roamlet_bulk/0001.py": "",
        "roamlet_heavy.py": "#" * 90_000,
    }
    make({"roamlet_bulk/__init__.py": "", **texts, **small})
    importlib.import_module("roamlet_bulk")
    first, second = "roamlet_bulk.m1", "roamlet_bulk.m0"
    bundle = modules.pull(second, {first, "roamlet_bulk"}, (), asked={first})
    # Sources of twice what was asked for before, and no more; nothing that needs a lot.
    assert set(bundle.modules) == {second, "roamlet_bulk.0001", "roamlet_bulk.m2"}  # m3 takes a byte too many


def test_packages_below_one_package_are_listed_by_one_answer(words: ModuleType) -> None:
    with remote.local(python=BARE) as context:
        assert context.call(words.languages, (KINDS,)) == [["l_de.py", "l_fr.py"]] * len(KINDS)
        assert context.stats.round_trips <= 2


ZONES = {
    "roamlet_zones/__init__.py": """
        import os
        def read(*path):
            with open(os.path.join(os.path.dirname(__file__), *path)) as file:
                return file.read()
        """,
    **{f"roamlet_zones/data/c{n}/t{m}": "x" * 3000 for n in range(8) for m in range(8)},
}


def test_files_in_many_folders_come_with_the_second_question(make: Make) -> None:
    make(ZONES)
    zones = importlib.import_module("roamlet_zones")
    with remote.local(python=BARE) as context:
        for number in range(8):
            assert len(context.call(zones.read, ("data", f"c{number}", "t3"))) == 3000
        assert context.stats.round_trips == 2


def test_all_files_of_a_small_package_come_with_the_first_question(make: Make) -> None:
    make({name: text.replace("x" * 3000, "x") for name, text in ZONES.items()})
    zones = importlib.import_module("roamlet_zones")
    with remote.local(python=BARE) as context:
        for number in range(8):
            assert context.call(zones.read, ("data", f"c{number}", "t3")) == "x"
        assert context.stats.round_trips == 1


STAR = {
    "roamlet_arrays/__init__.py": """
        def __getattr__(name):
            if name in ("waves", "chance"):
                import importlib
                return importlib.import_module(__name__ + "." + name)
            raise AttributeError(name)
        __all__ = sorted({"waves"} | {"chance"} | {"number"})
        number = 4
        """,
    "roamlet_arrays/waves.py": "",
    "roamlet_arrays/chance.py": "",
    "roamlet_arrays/other.py": "",
    "roamlet_science/__init__.py": "import roamlet_arrays\n",
    "roamlet_science/_clone.py": """
        import importlib
        def clone(name):
            found = {}
            exec(f"from {importlib.import_module(name).__name__} import *", found)
            return sorted(one for one in found if one[:1] != "_")
        """,
    "roamlet_science/arrays.py": "from ._clone import clone\nNAMES = clone('roamlet_arrays')\n",
    "roamlet_uses_science.py": """
        def names():
            import roamlet_science.arrays
            return roamlet_science.arrays.NAMES
        def star():
            import roamlet_takes
            return sorted(roamlet_takes.__dict__.keys() & {"waves", "chance", "number"})
        """,
    "roamlet_takes.py": "from roamlet_arrays import *\n",
}


@pytest.mark.parametrize("name", ["names", "star"])
def test_what_a_star_takes_of_a_lazy_package_is_foreseen(make: Make, name: str) -> None:
    make(STAR)
    importlib.import_module("roamlet_science")
    uses = importlib.import_module("roamlet_uses_science")
    with remote.local(python=BARE) as context:
        assert context.call(getattr(uses, name)) == ["chance", "number", "waves"]
        assert context.stats.round_trips == 0


def test_the_files_of_a_small_package_that_walks_through_them_are_foreseen(make: Make) -> None:
    make(
        {
            "roamlet_schemas/__init__.py": """
                from importlib.resources import files

                def walk(folder=None):
                    found = []
                    for one in sorted((folder or files(__name__)).iterdir(), key=str):
                        if one.is_dir():
                            found += walk(one)
                        elif one.name.endswith(".schema"):
                            found.append(one.read_text())
                    return found
                """,
            **{f"roamlet_schemas/d{n}/meta.schema": str(n) for n in range(4)},
            "roamlet_schemas-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: roamlet-schemas\nVersion: 1\n",
            "roamlet_schemas-1.dist-info/RECORD": "roamlet_schemas/__init__.py,,\n",
        }
    )
    schemas = importlib.import_module("roamlet_schemas")
    with remote.local(python=BARE) as context:
        assert context.call(schemas.walk) == ["0", "1", "2", "3"]
        assert context.stats.round_trips == 0
