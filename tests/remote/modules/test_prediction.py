"""What goes behind a call because it is likely to be needed: files, lazy modules, plug-ins; and what does not go."""

import importlib
import json
import sys
from types import ModuleType

import pytest

from roamlet import remote
from roamlet.remote import modules
from roamlet.remote.modules.finding import data
from roamlet.remote.modules.imports import prediction, walk
from tests.remote.modules.conftest import Make

BARE = getattr(sys, "_base_executable", sys.executable)
STYLES = {f"roamlet_shop/styles/{name}.style": f"style {name}" for name in ("plain", "dark", "light")}
SERVICES = {
    f"roamlet_shop/data/{name}/2020/{file}.json": json.dumps({"name": name})
    for name in ("queue", "mail", "disk", "clock")
    for file in ("service-2", "paginators-1")
}
SHOP = {
    "roamlet_shop/__init__.py": """
        import os
        PLACE = os.path.dirname(__file__)

        def __getattr__(name):
            if name in _TABLE:
                from importlib import import_module
                return getattr(import_module(_TABLE[name], __name__), name)
            raise AttributeError(name)

        _TABLE = {"Basket": ".baskets", "Till": ".tills"}

        def styles():
            folder = os.path.join(PLACE, "styles")
            texts = []
            for name in sorted(name for name in os.listdir(folder) if name[0] != "."):
                with open(os.path.join(folder, name)) as file:
                    texts.append(file.read())
            return texts

        def client(name):
            with open(os.path.join(PLACE, "data", name, "2020", "service-2.json")) as file:
                return file.read()
        """,
    "roamlet_shop/baskets.py": "class Basket:\n    size = 3\n",
    "roamlet_shop/tills.py": "class Till:\n    pass\n",
    "roamlet_shop/sums.py": "def add(a, b):\n    return a + b\n",
    "roamlet_shop/backends.py": """
        from importlib import import_module
        TABLE = {
            'a0': 'roamlet_shop.transports.a0:T', 'a1': 'roamlet_shop.transports.a1:T', 'a2': 'roamlet_shop.transports.a2:T',
            'a3': 'roamlet_shop.transports.a3:T', 'a4': 'roamlet_shop.transports.a4:T', 'a5': 'roamlet_shop.transports.a5:T',
            'a6': 'roamlet_shop.transports.a6:T', 'a7': 'roamlet_shop.transports.a7:T', 'a8': 'roamlet_shop.transports.a8:T',
            'memory': 'roamlet_shop.transports.memory:T',
        }

        def backend(name):
            return import_module(f"roamlet_shop.engines._{name}").NAME

        def transport(url):
            return import_module(TABLE[url.partition(":")[0]].partition(":")[0]).NAME
        """,
    "roamlet_shop/engines/__init__.py": "",
    "roamlet_shop/engines/_fast.py": "NAME = 'fast'\n",
    "roamlet_shop/transports/__init__.py": "",
    **{f"roamlet_shop/transports/{name}.py": f"NAME = '{name}'\n" for name in (*(f"a{n}" for n in range(9)), "memory")},
    "roamlet_shop/styles/.secret": "hidden",
    **STYLES,
    **SERVICES,
    "roamlet_shop-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: roamlet-shop\nVersion: 1\n",
    "roamlet_shop-1.dist-info/entry_points.txt": (
        "[roamlet.shop.plugins]\n" + "".join(f"p{n} = roamlet_shop_plugins.p{n}:entry\n" for n in range(6))
    ),
    "roamlet_shop-1.dist-info/RECORD": "roamlet_shop/__init__.py,,\nroamlet_shop_plugins/__init__.py,,\n",
    "roamlet_shop_plugins/__init__.py": "",
    **{f"roamlet_shop_plugins/p{n}.py": f"def entry():\n    return {n}\n" for n in range(6)},
    "roamlet_uses_shop.py": """
        def styles():
            import roamlet_shop
            return roamlet_shop.styles()

        def lazy():
            import roamlet_shop
            return roamlet_shop.Basket.size

        def submodule():
            import roamlet_shop.sums as sums
            return sums.add(1, 2)

        def client():
            import roamlet_shop
            return roamlet_shop.client("queue")

        def backend():
            import roamlet_shop.backends
            return roamlet_shop.backends.backend("fast")

        def transport():
            import roamlet_shop.backends
            return roamlet_shop.backends.transport("memory://")

        def plugins():
            from importlib.metadata import entry_points
            found = entry_points()
            found = found.select(group="roamlet.shop.plugins")
            return sorted(one.load()() for one in found)
        """,
}


@pytest.fixture
def uses(make: Make) -> ModuleType:
    """A parent that has imported the package and called nothing of it."""
    make(SHOP)
    importlib.import_module("roamlet_shop.backends")
    return importlib.import_module("roamlet_uses_shop")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("styles", ["style dark", "style light", "style plain"]),
        ("lazy", 3),
        ("submodule", 3),
        ("client", '{"name": "queue"}'),
        ("backend", "fast"),
        ("transport", "memory"),
        ("plugins", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_first_call_waits_for_no_question(uses: ModuleType, name: str, expected: object) -> None:
    with remote.local(python=BARE) as context:
        assert context.call(getattr(uses, name)) == expected
        assert context.stats.round_trips == 0


def sent_for(uses: ModuleType, name: str) -> set[str]:
    bundle = modules.plan(uses.__name__, (), frozenset(sys.stdlib_module_names), getattr(uses, name).__code__)
    assert bundle is not None
    second = bundle.second_wave(bundle.names)
    assert second is not None
    return {*bundle.names, *second.names}


def test_what_the_function_does_not_name_stays_here(uses: ModuleType) -> None:
    names = sent_for(uses, "client")
    assert "roamlet_shop/data/queue/2020/service-2.json" in names
    assert not any("data/mail" in name or ".secret" in name for name in names)
    names = sent_for(uses, "transport")
    assert "roamlet_shop.transports.memory" in names
    assert "roamlet_shop.transports.a1" not in names


def test_files_of_what_is_not_installed_are_not_guessed(make: Make) -> None:
    make({name: text for name, text in SHOP.items() if "dist-info" not in name})
    importlib.import_module("roamlet_shop.backends")
    uses = importlib.import_module("roamlet_uses_shop")
    assert not any("/" in name for name in sent_for(uses, "styles"))


def test_what_a_policy_keeps_back_is_not_guessed(uses: ModuleType) -> None:
    code = uses.backend.__code__
    policy = remote.Modules(deny=["roamlet_shop.engines"])
    bundle = modules.plan(uses.__name__, (), frozenset(sys.stdlib_module_names), code, policy)
    assert bundle is not None
    second = bundle.second_wave(bundle.names)
    assert second is not None
    assert "roamlet_shop.engines._fast" not in (*bundle.modules, *second.modules)


FOLDER = {
    "roamlet_folder/__init__.py": """
        import os
        def texts(names):
            place = os.path.dirname(__file__)
            found = []
            for name in names:
                with open(os.path.join(place, *["tem" + "plates", name])) as file:
                    found.append(file.read())
            return found
        """,
    "roamlet_folder/templates/.env": "secret",
    "roamlet_folder/templates/code.py": "",
    **{f"roamlet_folder/templates/{name}.html": name for name in "abcde"},
}


def test_a_folder_of_which_nothing_was_foreseen_takes_one_round_trip(make: Make) -> None:
    make(FOLDER)
    folder = importlib.import_module("roamlet_folder")
    with remote.local(python=BARE) as context:
        assert context.call(folder.texts, ([f"{name}.html" for name in "abcde"],)) == list("abcde")
        assert context.stats.round_trips == 1


def test_what_goes_along_with_a_file_is_bounded_and_never_hidden_nor_code(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(FOLDER)
    importlib.import_module("roamlet_folder")
    name = "roamlet_folder/templates/a.html"
    policy = remote.Modules()
    found = dict(data.beside(name, (), (), policy))
    assert sorted(found) == ["roamlet_folder/", *(f"roamlet_folder/templates/{one}.html" for one in "bcde")]
    assert data.beside(name, (), (), remote.Modules(deny=["roamlet_folder"])) == []
    assert data.beside("roamlet_folder/templates/code.py", (), (), policy) == []
    sent = {"roamlet_folder/", "roamlet_folder/templates/b.html"}
    monkeypatch.setattr(data, "FIRST_FOLDER", 1)
    assert len(data.beside(name, {"roamlet_folder/"}, (), policy)) == 1
    assert len(data.beside(name, sent, (), policy)) == 2  # the folder was asked about again: more of it


def test_what_only_code_puts_below_an_absent_name_is_not_asked_for(make: Make) -> None:
    make(
        {
            "roamlet_moves/__init__.py": """
                import sys, types
                moves = sys.modules["roamlet_moves.moves"] = types.ModuleType("roamlet_moves.moves")
                moves.__path__ = []

                def has_deep():
                    try:
                        from roamlet_moves.moves import winreg
                    except ImportError:
                        return False
                    return True
                """,
        }
    )
    package = importlib.import_module("roamlet_moves")
    assert package.has_deep() is False
    with remote.local(python=BARE) as context:
        assert context.call(package.has_deep) is False
        assert context.stats.round_trips == 0


def test_modules_that_cost_too_much_are_not_followed_to_the_end(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a guess would cost is asked of each candidate, by a walk of its own: 140,000 steps for scipy, if none is given up."""
    lazy = "".join(f"def f{n}():\n    import roamlet_wide.lazy{n}\n" for n in range(20))
    chain = {f"roamlet_wide/c{n}.py": f"import roamlet_wide.c{n + 1}\n" + "#" * 20_000 for n in range(200)}
    make(
        {
            "roamlet_wide/__init__.py": lazy,
            "roamlet_wide/c200.py": "",
            **{f"roamlet_wide/lazy{n}.py": "import roamlet_wide.c0\n" for n in range(20)},
            **chain,
            "roamlet_uses_wide.py": "import roamlet_wide\ndef use():\n    return roamlet_wide.f0()\n",
        }
    )
    uses = importlib.import_module("roamlet_uses_wide")
    calls = []
    needs = walk.Walk.needs
    monkeypatch.setattr(
        walk.Walk, "needs", lambda self, name, imports: calls.append(name) or needs(self, name, imports)
    )
    bundle = modules.plan(uses.__name__, (), frozenset(sys.stdlib_module_names), uses.use.__code__)
    assert bundle is not None
    second = bundle.second_wave(bundle.names)
    assert second is None or "roamlet_wide.c199" not in second.modules
    assert len(calls) < 1000


def test_a_candidate_that_many_modules_make_names_of_is_parsed_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = """
        import importlib
        def pick(name):
            return importlib.import_module("roamlet_many.engines._" + name)
        """
    make(
        {
            "roamlet_many/__init__.py": "".join(f"from . import u{n}\n" for n in range(5)),
            **{f"roamlet_many/u{n}.py": user for n in range(5)},
            "roamlet_many/engines/__init__.py": "",
            **{f"roamlet_many/engines/_e{n}.py": "import json\n" for n in range(3)},
            "roamlet_uses_many.py": "import roamlet_many\ndef use():\n    return roamlet_many.u0.pick('e0')\n",
        }
    )
    uses = importlib.import_module("roamlet_uses_many")
    parsed = []
    certain = prediction.scan_certain
    monkeypatch.setattr(prediction, "scan_certain", lambda one: parsed.append(one.name) or certain(one))
    bundle = modules.plan(uses.__name__, (), frozenset(sys.stdlib_module_names), uses.use.__code__)
    assert bundle is not None
    second = bundle.second_wave(bundle.names)
    assert second is not None
    assert "roamlet_many.engines._e0" in second.modules
    assert sorted(parsed) == [f"roamlet_many.engines._e{n}" for n in range(3)]
