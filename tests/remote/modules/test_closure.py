"""Which modules travel for an import, in which order, and which names are told to be nowhere."""

import importlib
import importlib.util
import sys
import zipfile
from collections.abc import Collection
from types import ModuleType

import pytest

from roamlet.remote import modules
from roamlet.remote.errors import CannotTravel, RemoteModuleNotFound
from roamlet.wire.modules import bundle as wire_bundle
from tests.remote.modules import bare_interpreter
from tests.remote.modules.conftest import Make


def planned(name: str, has: Collection[str], sent: Collection[str] = ()) -> modules.Bundle:
    bundle = modules.plan(name, sent, has)
    assert bundle is not None
    return bundle


def loaded_plan(name: str, has: Collection[str], sent: Collection[str] = ()) -> modules.Bundle:
    importlib.import_module(name)
    return planned(name, has, sent)


def complete_of(bundle: modules.Bundle) -> dict[str, list[str]]:
    return dict(wire_bundle.unpack(bundle.data)[3])


def reasons_of(bundle: modules.Bundle) -> dict[str, str]:
    return dict(wire_bundle.unpack(bundle.data)[2])


@pytest.mark.parametrize("import_first", [True, False])
def test_every_form_of_import_at_module_level_is_followed(make: Make, bare: frozenset[str], import_first: bool) -> None:
    make(
        {
            "app/__init__.py": "",
            "app/main.py": """
                import app.plain
                import app.deep.inner as short
                from . import sibling
                from .deep import upward
            """,
            "app/plain.py": "",
            "app/sibling.py": "from .named import value",
            "app/named.py": "value = 1",
            "app/deep/__init__.py": "",
            "app/deep/inner.py": "class Body:\n    import app.in_class",
            "app/in_class.py": "",
            "app/deep/upward.py": "from .. import above\nfrom ..deep2 import *",
            "app/above.py": "",
            "app/deep2/__init__.py": "__all__ = ['starred']",
            "app/deep2/starred.py": "",
            "app/unused.py": "",
        }
    )
    if import_first:
        importlib.import_module("app.main")
    bundle = planned("app.main", bare)
    assert set(bundle.modules) == {
        *("app", "app.main", "app.plain", "app.sibling", "app.named", "app.deep", "app.deep.inner", "app.in_class"),
        *("app.deep.upward", "app.above", "app.deep2", "app.deep2.starred"),
    }
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import app.main")
    assert (outcome.problem, outcome.asked) == (None, [])
    assert ("app.main" in sys.modules) == import_first


def test_dependencies_come_before_the_modules_that_need_them(make: Make, bare: frozenset[str]) -> None:
    make({"top.py": "import middle", "middle.py": "import low.part", "low/__init__.py": "", "low/part.py": ""})
    assert loaded_plan("top", bare).modules == ("low", "low.part", "middle", "top")


def test_modules_that_import_each_other_stand_together_behind_what_they_need(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "ring/__init__.py": "from ring import a",
            "ring/a.py": "from ring import b",
            "ring/b.py": "import ring.a, below",
            "below.py": "",
            "over.py": "import ring.b",
        }
    )
    assert loaded_plan("over", bare).modules == ("below", "ring", "ring.a", "ring.b", "over")


def test_a_long_chain_of_imports_does_not_exhaust_the_stack(make: Make, bare: frozenset[str]) -> None:
    length = sys.getrecursionlimit() + 100
    make({f"chain{i}.py": f"import chain{i + 1}" if i + 1 < length else "" for i in range(length)})
    assert planned("chain0", bare).modules == tuple(f"chain{i}" for i in reversed(range(length)))


def test_imports_inside_functions_come_with_the_second_wave(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "lazy.py": """
                def later():
                    import heavy
                class Kind:
                    def method(self):
                        from heavy import more
                        return lambda: __import__("heaviest")
            """,
            "heavy/__init__.py": "def deeper():\n    import deepest",
            "heavy/more.py": "",
            "heaviest.py": "",
            "deepest.py": "",
            "never.py": "",
        }
    )
    for name in ("lazy", "heavy.more", "heaviest", "deepest"):
        importlib.import_module(name)
    first = planned("lazy", bare)
    second = first.second_wave(first.names)
    assert first.modules == ("lazy",)
    assert second is not None
    assert set(second.modules) == {"heavy", "heavy.more", "heaviest", "deepest"}


def test_what_functions_import_stays_here_until_it_is_loaded_unless_the_call_may_reach_it(
    make: Make, bare: frozenset[str]
) -> None:
    make(
        {
            "mine.py": """
                import functools, other
                def call():
                    import at_once
                    return [Helper, cached]
                class Helper:
                    @staticmethod
                    def method():
                        import of_helper
                @functools.cache
                def cached():
                    return behind()
                def behind():
                    from behind_it import part
                def unrelated():
                    import huge
            """,
            "other.py": "def rarely():\n    import huge",
            "huge.py": "",
            "at_once.py": "",
            "of_helper.py": "",
            "behind_it/__init__.py": "",
            "behind_it/part.py": "",
        }
    )
    call = importlib.import_module("mine").call
    first = modules.plan("mine", (), bare, modules.code_of(call))
    assert first is not None
    second = first.second_wave(first.names)
    assert second is not None
    assert set(first.modules) == {"mine", "other", "at_once"}
    assert set(second.modules) == {"of_helper", "behind_it", "behind_it.part"}


def test_what_the_called_function_itself_imports_travels_with_the_first_bundle(
    make: Make, bare: frozenset[str]
) -> None:
    make({"job.py": "def run():\n    from tool import part\ndef other():\n    import more", "tool/__init__.py": ""})
    make({"tool/part.py": "", "more.py": ""})
    run = importlib.import_module("job").run
    bundle = modules.plan("job", (), bare, modules.code_of(run))
    assert bundle is not None
    assert set(bundle.modules) == {"job", "tool", "tool.part"}


def test_functions_that_run_while_their_module_is_imported_count_as_module_level(
    make: Make, bare: frozenset[str]
) -> None:
    make(
        {
            "eager.py": """
                def _choose():
                    return _really()
                def _really():
                    import chosen
                    return chosen
                def later():
                    import unchosen
                backend = _choose()
            """,
            "chosen.py": "",
            "unchosen.py": "",
        }
    )
    importlib.import_module("unchosen")
    assert set(loaded_plan("eager", bare).modules) == {"eager", "chosen"}


def test_what_is_imported_by_a_string_is_followed_when_the_parent_has_loaded_it(
    make: Make, bare: frozenset[str]
) -> None:
    make(
        {
            "pick.py": """
                import importlib
                def _first():
                    for name in ("not_installed_anywhere", "installed"):
                        try:
                            return importlib.import_module(name)
                        except ImportError:
                            pass
                found = _first()
            """,
            "installed.py": "",
        }
    )
    bundle = loaded_plan("pick", bare)
    assert set(bundle.modules) == {"pick", "installed"}
    assert "not_installed_anywhere" in bundle.absent


def test_what_a_module_loads_by_computed_names_comes_with_the_second_wave(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "plug/__init__.py": "",
            "plug/loader.py": "from importlib import import_module\ndef get(kind):\n    return import_module('plug.' + kind)",
            "plug/used.py": "",
            "plug/unused.py": "",
        }
    )
    importlib.import_module("plug.loader").get("used")
    first = planned("plug.loader", bare)
    second = first.second_wave(first.names)
    assert first.modules == ("plug", "plug.loader")
    assert second is not None
    assert second.modules == ("plug.used",)


def test_what_neither_side_has_is_told_to_be_absent(make: Make, bare: frozenset[str]) -> None:
    make(
        {"hopeful.py": "try:\n    import simplejson_missing_one.decoder as json\nexcept ImportError:\n    import json"}
    )
    bundle = loaded_plan("hopeful", bare)
    assert bundle.modules == ("hopeful",)
    assert "simplejson_missing_one" in bundle.absent
    assert "json" not in bundle.absent


def test_what_the_target_has_neither_travels_nor_counts_as_absent(make: Make, bare: frozenset[str]) -> None:
    make({"uses.py": "import common.part, own\ntry:\n    import theirs\nexcept ImportError: pass"})
    make({"common/__init__.py": "", "common/part.py": "", "own.py": ""})
    bundle = loaded_plan("uses", bare | {"common", "theirs"})
    assert set(bundle.modules) == {"uses", "own"}
    assert not {"common", "theirs"} & set(bundle.absent)


def test_only_the_branch_that_the_parent_took_is_followed(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "branch.py": "import sys\nif sys.platform == 'nowhere':\n    import taken_nowhere\nelse:\n    import taken_here",
            "taken_nowhere.py": "",
            "taken_here.py": "",
        }
    )
    assert set(loaded_plan("branch", bare).modules) == {"branch", "taken_here"}


def test_a_module_that_failed_to_import_here_travels_so_that_it_fails_there_without_a_question(
    make: Make, bare: frozenset[str]
) -> None:
    make(
        {
            "cautious/__init__.py": "try:\n    from . import fast\nexcept ImportError:\n    from . import slow",
            "cautious/fast.py": "import compiled_by_nobody",
            "cautious/slow.py": "",
        }
    )
    bundle = loaded_plan("cautious", bare)
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import cautious; cautious.slow")
    assert (outcome.problem, outcome.asked) == (None, [])
    assert "compiled_by_nobody" in bundle.absent


@pytest.mark.parametrize(
    "guard", ["from typing import TYPE_CHECKING\nif TYPE_CHECKING:", "import typing as t\nif t.TYPE_CHECKING:"]
)
@pytest.mark.parametrize("import_first", [True, False])
def test_what_only_type_checkers_import_stays_here(
    make: Make, bare: frozenset[str], guard: str, import_first: bool
) -> None:
    make({"typed.py": f"{guard}\n    import hints\nelse:\n    import real\nimport also", "hints.py": ""})
    make({"real.py": "", "also.py": ""})
    if import_first:
        importlib.import_module("hints")
        importlib.import_module("typed")
    assert set(planned("typed", bare).modules) == {"typed", "real", "also"}


def test_what_stands_under_the_main_guard_stays_here(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "script.py": """
                import used
                def main():
                    import of_main
                if __name__ == "__main__":
                    import under_guard
                    main()
                if "__main__" != __name__:
                    import under_the_opposite
            """,
            "used.py": "",
            "of_main.py": "",
            "under_guard.py": "",
            "under_the_opposite.py": "",
        }
    )
    assert set(planned("script", bare).modules) == {"script", "used", "under_the_opposite"}


def test_an_attribute_of_a_package_wins_over_a_submodule_of_the_same_name(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "shadow/__init__.py": "part = 'a plain attribute'",
            "shadow/part.py": "",
            "asks.py": "from shadow import part",
        }
    )
    assert set(loaded_plan("asks", bare).modules) == {"shadow", "asks"}


def test_a_package_is_complete_so_that_any_other_submodule_is_known_to_be_absent(
    make: Make, bare: frozenset[str]
) -> None:
    make({"pack/__init__.py": "import os", "pack/used.py": "", "pack/unused.py": "", "pack/data/x.txt": ""})
    bundle = loaded_plan("pack.used", bare)
    assert complete_of(bundle) == {"pack": ["data", "unused", "used"]}
    outcome = bare_interpreter.imports_from(
        sys.executable, [bundle.data], "import pack.used\ntry:\n    import pack.os\nexcept ImportError: pass"
    )
    assert outcome.asked == []


@pytest.mark.parametrize("python", bare_interpreter.pythons("2.7"))
def test_implicit_relative_imports_of_python_2_cost_no_question(make: Make, python: str) -> None:
    make(
        {
            "old/__init__.py": "import os, json\nfrom old import sub",
            "old/sub/__init__.py": "import re, logging.handlers\nfrom old.sub import leaf",
            "old/sub/leaf.py": "import struct, xml.dom\nimport datetime as when",
        }
    )
    bundle = loaded_plan("old", bare_interpreter.has_of(python))
    outcome = bare_interpreter.imports_from(python, [bundle.data], "import old.sub.leaf; assert old.sub.leaf.when")
    assert outcome == bare_interpreter.Outcome([], None, ["old", "old.sub", "old.sub.leaf"])


def test_a_namespace_package_travels_without_source_and_with_all_its_parts(make: Make, bare: frozenset[str]) -> None:
    make({"space/one.py": "import space.two"}, folder="first")
    make({"space/two.py": "", "space/three/four.py": ""}, folder="second")
    bundle = loaded_plan("space.one", bare)
    kinds = {name: kind for name, kind, _, _ in wire_bundle.unpack(bundle.data)[0]}
    assert kinds == {
        "space": wire_bundle.NAMESPACE,
        "space.one": wire_bundle.MODULE,
        "space.two": wire_bundle.MODULE,
    }
    assert complete_of(bundle) == {"space": ["one", "three", "two"]}
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import space.one")
    assert (outcome.problem, outcome.asked) == (None, [])


@pytest.mark.parametrize("import_first", [True, False])
def test_modules_in_a_zip_archive_travel(
    make: Make, bare: frozenset[str], monkeypatch: pytest.MonkeyPatch, import_first: bool
) -> None:
    archive = make({}) / "library.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as library:
        library.writestr("zipped/__init__.py", "from . import inner")
        library.writestr("zipped/inner.py", "word = 'caf\u00e9'")
        library.writestr("zipped/unused.py", "")
        library.writestr("zipped/space/leaf.py", "")
    monkeypatch.syspath_prepend(str(archive))
    if import_first:
        importlib.import_module("zipped")
    bundle = planned("zipped", bare)
    assert set(bundle.modules) == {"zipped", "zipped.inner"}
    assert complete_of(bundle) == {"zipped": ["inner", "space", "unused"]}
    statement = "import zipped; assert zipped.inner.word == 'caf\\u00e9'"
    assert bare_interpreter.imports_from(sys.executable, [bundle.data], statement).problem is None


def test_an_alias_in_sys_modules_is_followed_to_the_module_behind_it(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "front/__init__.py": "import sys, hidden.real\nsys.modules['front.alias'] = hidden.real",
            "hidden/__init__.py": "",
            "hidden/real.py": "value = 7",
            "through.py": "import front.alias\nfrom front.alias import value",
        }
    )
    bundle = loaded_plan("through", bare)
    assert set(bundle.modules) == {"front", "hidden", "hidden.real", "through"}
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import through")
    assert (outcome.problem, outcome.asked) == (None, [])


def test_a_module_that_replaces_itself_by_an_object_still_travels(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "magic/__init__.py": """
                import sys
                class Magic:
                    def __getattr__(self, name):
                        raise RuntimeError(name)
                sys.modules[__name__] = Magic()
            """,
            "conjures.py": "import magic",
        }
    )
    bundle = loaded_plan("conjures", bare)
    assert set(bundle.modules) == {"magic", "conjures"}
    assert bare_interpreter.imports_from(sys.executable, [bundle.data], "import conjures").problem is None


def test_modules_that_only_code_can_make_are_left_to_the_code(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "six_like.py": """
                import sys, types
                moves = sys.modules[__name__ + '.moves'] = types.ModuleType(__name__ + '.moves')
                moves.urllib = 1
                __path__ = []
            """,
            "old_style.py": "import six_like\nfrom six_like.moves import urllib",
        }
    )
    bundle = loaded_plan("old_style", bare)
    assert set(bundle.modules) == {"six_like", "old_style"}
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import old_style")
    assert (outcome.problem, outcome.asked) == (None, [])


def test_an_extension_module_stays_here_and_the_reason_says_what_to_do(make: Make, bare: frozenset[str]) -> None:
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    make({"fast/__init__.py": "try:\n    from . import _core\nexcept ImportError: pass", f"fast/_core{suffix}": ""})
    bundle = loaded_plan("fast", bare)
    assert bundle.modules == ("fast",)
    assert reasons_of(bundle)["fast._core"] == (
        f"fast._core is an extension module (_core{suffix}), which cannot be sent: it is built for one machine. "
        "Install fast on the target"
    )


def test_the_python_twin_of_a_compiled_module_travels_in_its_place(make: Make, bare: frozenset[str]) -> None:
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    make(
        {
            "both/__init__.py": "",
            f"both/quick{suffix}": "",
            "both/quick.py": "slow = True",
            "asks.py": "import both.quick",
        }
    )
    assert set(planned("asks", bare).modules) == {"both", "both.quick", "asks"}


def test_what_only_the_python_twin_imports_travels_although_the_parent_runs_the_compiled_module(
    make: Make, bare: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    files = {
        "both/__init__.py": "",
        "both/quick.py": "import instead",
        "instead.py": "",
        "asks.py": "import both.quick",
    }
    place = make({**files, f"both/quick{suffix}": ""})
    spec = importlib.util.spec_from_file_location("both.quick", place / "both" / f"quick{suffix}")
    assert spec is not None
    compiled = ModuleType("both.quick")
    compiled.__spec__ = spec
    monkeypatch.setitem(sys.modules, "both.quick", compiled)
    assert set(loaded_plan("asks", bare).modules) == {"both", "both.quick", "instead", "asks"}


def test_a_standard_module_that_the_target_lacks_is_explained(make: Make, bare: frozenset[str]) -> None:
    make({"modern.py": "import tomllib"})
    bundle = loaded_plan("modern", bare - {"tomllib"})
    assert bundle.modules == ("modern",)
    assert reasons_of(bundle)["tomllib"] == (
        "tomllib is a standard module, which is never sent, and is new in Python 3.11"
    )


def test_roamlet_itself_never_travels(make: Make, bare: frozenset[str]) -> None:
    make({"weaving.py": "import roamlet\nfrom roamlet import remote\nfrom roamlet.remote import modules"})
    bundle = loaded_plan("weaving", bare)
    assert bundle.modules == ("weaving",)
    assert not [name for name in bundle.absent if name.startswith("roamlet")]


def test_a_source_that_this_python_cannot_compile_travels_all_the_same(make: Make, bare: frozenset[str]) -> None:
    make({"two/__init__.py": "", "two/old.py": "print 'only Python 2'", "asks.py": "import two.old"})
    assert set(planned("asks", bare).modules) == {"two", "two.old", "asks"}


def test_the_source_travels_byte_by_byte_with_its_coding_line(make: Make, bare: frozenset[str]) -> None:
    source = "# -*- coding: latin-1 -*-\r\nword = 'caf\u00e9'\r\n".encode("latin-1")
    (make({"other.py": ""}) / "coded.py").write_bytes(source)
    bundle = loaded_plan("coded", bare)
    assert [sent for _, _, sent, _ in wire_bundle.unpack(bundle.data)[0]] == [source]


def test_a_module_that_was_made_by_code_is_refused_before_anything_is_sent(bare: frozenset[str]) -> None:
    with pytest.raises(RemoteModuleNotFound, match="the module missing_one is neither on the target nor here"):
        modules.plan("missing_one", (), bare)


def test_a_function_of_an_extension_module_is_refused_with_the_reason(make: Make, bare: frozenset[str]) -> None:
    make({f"native{importlib.machinery.EXTENSION_SUFFIXES[0]}": ""})
    with pytest.raises(CannotTravel, match="native is an extension module .* Install native on the target"):
        modules.plan("native", (), bare)


def test_a_module_that_the_target_has_needs_nothing(bare: frozenset[str]) -> None:
    assert modules.plan("json", (), bare) is not None  # the names that its own standard modules try in vain
    assert planned("json", bare).modules == ()
    assert modules.plan("json", planned("json", bare).names, bare) is None


NATIVE = importlib.machinery.EXTENSION_SUFFIXES[0]


def test_a_module_that_is_certain_to_fail_on_the_target_is_refused_in_terms_of_what_it_imports(
    make: Make, bare: frozenset[str]
) -> None:
    make(
        {
            "numbers_of_mine.py": "import array_like",
            "array_like/__init__.py": "from array_like import core",
            "array_like/core.py": "from . import _engine",
            f"array_like/_engine{NATIVE}": "",
        }
    )
    message = (
        rf"the module numbers_of_mine cannot be imported on the target: "
        rf"numbers_of_mine imports array_like, which needs array_like._engine; "
        rf"array_like._engine is an extension module \(_engine{NATIVE}\), which cannot be sent: it is built for one machine. "
        "Install array_like on the target, or import it only inside of the functions that need it"
    )
    with pytest.raises(CannotTravel, match=message):
        modules.plan("numbers_of_mine", (), bare)
    assert modules.plan("numbers_of_mine", (), bare | {"array_like"}) is not None


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import array_like\nexcept ImportError:\n    array_like = None",
        "import sys\nif sys.version_info < (3, 0):\n    import array_like",
        "def work():\n    import array_like",
        "for name in []:\n    import array_like",
        "try:\n    import json\nexcept ImportError:\n    import array_like",
        "try:\n    import missing_one\nexcept ImportError:\n    pass\nelse:\n    import array_like",
    ],
)
def test_what_can_do_without_the_extension_travels_without_those_that_cannot(
    make: Make, bare: frozenset[str], source: str
) -> None:
    make(
        {
            "careful.py": source,
            "array_like/__init__.py": "from array_like import core",
            "array_like/core.py": "from . import _engine, only_for_core",
            "array_like/only_for_core.py": "",
            f"array_like/_engine{NATIVE}": "",
        }
    )
    bundle = planned("careful", bare)
    assert bundle.modules == ("careful",)
    if not source.startswith("def"):
        assert reasons_of(bundle)["array_like"].startswith(
            "array_like imports array_like.core, which needs array_like._engine; array_like._engine is an ext"
        )
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import careful")
    assert (outcome.problem, outcome.asked) == (None, [])


def test_a_package_that_guards_its_extension_travels(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "quick/__init__.py": "from . import api\ntry:\n    from . import wrapper\nexcept ImportError:\n    pass",
            "quick/api.py": "",
            "quick/wrapper.py": "from quick._speedups import escape",
            f"quick/_speedups{NATIVE}": "",
        }
    )
    bundle = planned("quick", bare)
    assert set(bundle.modules) == {"quick", "quick.api"}
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import quick.api")
    assert (outcome.problem, outcome.asked) == (None, [])
