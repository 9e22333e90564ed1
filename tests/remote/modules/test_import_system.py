"""The import system of the target is the real one: whatever packages do with it locally works in a context as well."""

import importlib
import os
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from roamlet import remote
from tests.remote.modules.conftest import Make
from tests.wire import interpreters

PYTHONS = list(interpreters.found())

ASK = """
import sys

def value(name, attribute="value"):
    __import__(name)
    return getattr(sys.modules[name], attribute)

def spec(name):
    from importlib.util import find_spec
    before = set(sys.modules)
    found = find_spec(name)
    return found is not None, sorted(one for one in set(sys.modules) - before if one.startswith("odd"))

def reloaded(name):
    try:
        from importlib import reload
    except ImportError:
        from __builtin__ import reload
    __import__(name)
    return reload(sys.modules[name]).value

def error(name):
    try:
        __import__(name)
    except ImportError as error:
        return str(error)
    return None
"""


@pytest.fixture
def ask(make: Make) -> ModuleType:
    make({"odd_ask.py": ASK})
    return importlib.import_module("odd_ask")


def test_portions_of_a_namespace_package_in_several_folders_are_one_package(ask: ModuleType, make: Make) -> None:
    make({"odd_space/one.py": "value = 1", "odd_space/deep/first.py": "value = 'first'"}, folder="here")
    make({"odd_space/two.py": "from odd_space import one\nvalue = one.value + 1"}, folder="there")
    make({"odd_space/deep/second.py": "from .first import value"}, folder="elsewhere")
    make({"odd_asks.py": "import odd_space.one, odd_space.two, odd_space.deep.second\ndef known():\n    return 1"})
    with remote.local() as context:
        names = ("odd_space.one", "odd_space.two", "odd_space.deep.second", "odd_space.deep.first")
        assert [context.call(ask.value, (name,)) for name in names] == [1, 2, "first", "first"]
        assert "No module named" in context.call(ask.error, ("odd_space.three",))


@pytest.mark.parametrize("version", PYTHONS)
def test_packages_that_play_with_sys_modules_and_their_path_play_on(ask: ModuleType, make: Make, version: str) -> None:
    make(
        {
            # as six.moves and py.path do
            "odd_moves.py": "import sys, json\nsys.modules[__name__ + '.moves'] = json\nvalue = 'moved'\n__path__ = []",
            "odd_path/__init__.py": "import sys\nfrom . import real\nreal.value = 'replaced'\nsys.modules[__name__] = real",
            "odd_path/real.py": "",
            # as pkg_resources and old namespace packages do
            "odd_extends/__init__.py": "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\nvalue = 5",
            "odd_extends/part.py": "value = 'part'",
            # as lazy_loader does
            "odd_lazy/__init__.py": (
                "import importlib\n_where = {'value': 'late'}\n"
                "def __getattr__(name):\n    return getattr(importlib.import_module(__name__ + '.' + _where[name]), name)\n"
            ),
            "odd_lazy/late.py": "value = 'lazy'",
            "odd_tries.py": "try:\n    import odd_absent as value\nexcept ImportError:\n    value = 'without'\n",
        }
    )
    with remote.local(python=interpreters.found()[version]) as context:
        assert context.call(ask.value, ("odd_moves",)) == "moved"
        assert context.call(ask.value, ("odd_moves.moves", "__name__")) == "json"
        assert context.call(ask.value, ("odd_path",)) == "replaced"
        assert context.call(ask.value, ("odd_extends",)) == 5
        assert context.call(ask.value, ("odd_extends.part",)) == "part"
        if context.facts.python >= (3, 7):
            assert context.call(ask.value, ("odd_lazy",)) == "lazy"
        assert context.call(ask.value, ("odd_tries",)) == "without"


def test_find_spec_tells_the_truth_and_imports_nothing(ask: ModuleType, make: Make) -> None:
    make({"odd_loud.py": "raise SystemExit", "odd_pack/__init__.py": "", "odd_pack/sub.py": "raise SystemExit"})
    with remote.local() as context:
        assert context.call(ask.spec, ("odd_loud",)) == (True, [])
        assert context.call(ask.spec, ("odd_absent",)) == (False, [])
        assert context.call(ask.spec, ("odd_pack.sub",)) == (
            True,
            ["odd_pack"],
        )  # a parent package is imported, at home too
        assert context.call(ask.spec, ("odd_pack.absent",)) == (False, [])


@pytest.mark.parametrize("version", PYTHONS)
def test_a_reload_takes_the_source_as_it_is_here_now(ask: ModuleType, make: Make, version: str) -> None:
    top = make({"odd_edited.py": "value = 'before'"})
    with remote.local(python=interpreters.found()[version]) as context:
        assert context.call(ask.value, ("odd_edited",)) == "before"
        (top / "odd_edited.py").write_text("value = 'edited'")
        os.utime(top / "odd_edited.py", ns=(1, 1))
        assert context.call(ask.reloaded, ("odd_edited",)) == "edited"
        assert context.call(ask.value, ("odd_edited",)) == "edited"


def test_files_in_the_folder_that_a_target_starts_in_shadow_nothing(
    ask: ModuleType, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make({"odd_shadowed.py": "value = 'the right one'"})
    (tmp_path / "login").mkdir()
    for name in ("odd_shadowed", "json", "zlib", "threading"):
        (tmp_path / "login" / f"{name}.py").write_text("value = 'a stray file'\nraise SystemExit")
    monkeypatch.chdir(tmp_path / "login")
    with remote.local() as context:
        assert context.call(ask.value, ("odd_shadowed",)) == "the right one"
        assert context.call(ask.value, ("json", "__name__")) == "json"


def test_modules_in_a_zip_archive_on_the_parents_path_travel(
    ask: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        archive.writestr("odd_zipped.py", "from odd_zippack.inner import value")
        archive.writestr("odd_zippack/__init__.py", "")
        archive.writestr("odd_zippack/inner.py", "value = 'from a zip'")
    monkeypatch.syspath_prepend(str(tmp_path / "odd.zip"))
    with remote.local() as context:
        assert context.call(ask.value, ("odd_zipped",)) == "from a zip"
        assert context.stats.round_trips == 1
        assert "No module named" in context.call(ask.error, ("odd_zippack.other",))
        assert context.stats.round_trips == 1


RENAMES = """
import importlib.abc, importlib.util, sys

class Loader(importlib.abc.Loader):
    def create_module(self, spec):
        module = importlib.import_module("odd_tools._hidden")
        module.__name__ = "odd_renamed"
        return module

    def exec_module(self, module):
        pass

class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, Loader()) if name == "odd_renamed" else None

sys.meta_path.insert(0, Finder())
try:
    import odd_renamed
finally:
    del sys.meta_path[0]
from odd_renamed.core import value
import odd_renamed.core
loader = odd_renamed.core.__loader__
source = loader.get_source("odd_renamed.core"), loader.is_package("odd_renamed.core")
"""


@pytest.mark.parametrize("loaded", [True, False])
def test_a_package_that_code_gives_another_name_is_found_by_both(ask: ModuleType, make: Make, *, loaded: bool) -> None:
    files = {"odd_tools/__init__.py": RENAMES, "odd_tools/_hidden/__init__.py": "", "odd_tools/_hidden/core.py": HIDDEN}
    make(files)
    if loaded:
        assert importlib.import_module("odd_tools").value == "hidden"
        assert importlib.import_module("odd_tools._hidden").__spec__.name == "odd_renamed"
    with remote.local() as context:
        assert context.call(ask.value, ("odd_tools",)) == "hidden"
        assert context.call(ask.value, ("odd_tools", "source")) == (HIDDEN, False)


HIDDEN = "value = 'hidden'\n"
ADDS = """
import os, sys
sys.path.append(os.path.join(os.path.dirname(__file__), {place!r}))
from odd_vendored import value
"""


@pytest.mark.parametrize("loaded", [True, False])
def test_packages_in_a_folder_that_a_package_adds_to_the_path_are_found(
    ask: ModuleType, make: Make, *, loaded: bool
) -> None:
    make({"odd_adds/__init__.py": ADDS.format(place="_vendor"), "odd_adds/_vendor/odd_vendored/__init__.py": HIDDEN})
    if loaded:
        importlib.import_module("odd_adds")
    with remote.local() as context:
        assert context.call(ask.value, ("odd_adds",)) == "hidden"


def test_a_package_in_a_folder_that_only_an_import_would_show_is_refused_with_the_reason(
    ask: ModuleType, make: Make
) -> None:
    make({"odd_adds/__init__.py": ADDS.format(place="../elsewhere"), "elsewhere/odd_vendored/__init__.py": HIDDEN})
    with remote.local() as context:
        assert context.call(ask.error, ("odd_adds",)) == (
            "No module named odd_vendored: odd_adds adds to sys.path while it is imported. Import odd_adds in the parent before "
            "the call, so that what it finds there can be sent"
        )


@pytest.mark.parametrize("loaded", [True, False])
def test_a_module_that_puts_another_one_in_its_own_place_is_sent_with_it(
    ask: ModuleType, make: Make, loaded: bool
) -> None:
    make(
        {
            # as polars._plr and gevent._hub_local do
            "odd_swap/__init__.py": "from odd_swap._plain import value",
            "odd_swap/_plain.py": """
                import importlib, sys
                sys.modules[__name__] = importlib.import_module("_odd_" + "swapped.core")
                """,
            "_odd_swapped/__init__.py": "",
            "_odd_swapped/core.py": "value = 'swapped'",
        }
    )
    if loaded:
        importlib.import_module("odd_swap")
    with remote.local() as context:
        assert context.call(ask.value, ("odd_swap",)) == "swapped"
        assert context.call(ask.value, ("odd_swap._plain", "__name__")) == "_odd_swapped.core"
        assert context.stats.round_trips == 1
