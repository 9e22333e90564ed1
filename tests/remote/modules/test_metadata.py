"""importlib.metadata on the target, about distributions whose modules came from here."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from roamlet import remote
from roamlet.remote import modules
from roamlet.remote.modules.finding import distributions
from tests.remote.modules.conftest import Make
from tests.wire import interpreters

PYTHONS = [version for version in interpreters.found() if version not in ("2.7", "3.6", "3.7")]

FILES = {
    "roamlet_dist_one/__init__.py": "value = 1\ndef entry():\n    return 'entered'\n",
    "roamlet_dist_one/asks.py": (
        "from importlib import metadata\nversion = metadata.version('roamlet-dist.one')\ndef told():\n    return version\n"
    ),
    "roamlet_dist_one/data.txt": "some data",
    "Roamlet_Dist.One-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: Roamlet_Dist.One\nVersion: 1.5\nSummary: a test\n",
    "Roamlet_Dist.One-1.5.dist-info/entry_points.txt": "[roamlet.tests]\none = roamlet_dist_one:entry\n",
    "Roamlet_Dist.One-1.5.dist-info/RECORD": (
        "roamlet_dist_one/__init__.py,,\nroamlet_dist_one/asks.py,,\nroamlet_dist_one/data.txt,,\nRoamlet_Dist.One-1.5.dist-info/METADATA,,\n"
    ),
    "roamlet_dist_two.py": "",
    "roamlet_dist_two-2.dist-info/METADATA": "Metadata-Version: 2.1\nName: roamlet-dist-two\nVersion: 2\n",
    "roamlet_dist_two-2.dist-info/RECORD": "roamlet_dist_two.py,,\n",
}


@pytest.fixture
def asking(make: Make, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    make(FILES)
    return importlib.import_module("roamlet_metadata")


def opened(version: str, **options: Any) -> remote.Context:
    return remote.local(python=interpreters.found()[version], modules=remote.Modules(**options))


@pytest.mark.parametrize("version", PYTHONS)
def test_versions_entry_points_and_files_are_told(asking: ModuleType, version: str) -> None:
    with opened(version) as context:
        assert context.call(asking.version, ("roamlet-dist-one",)) == "1.5"
        assert context.call(asking.version, ("Roamlet_Dist.ONE",)) == "1.5"
        assert context.call(asking.version, ("roamlet-no-such",)).startswith("PackageNotFoundError")
        before = context.stats.round_trips
        assert context.call(asking.entry_points, ("roamlet.tests",)) == [("one", "roamlet_dist_one:entry", "entered")]
        assert context.stats.round_trips == before  # the function asks for entry points, so they went with it
        names, text, summary = context.call(asking.files, ("roamlet-dist-one",))
        assert "roamlet_dist_one/__init__.py" in names
        assert "Roamlet_Dist.One-1.5.dist-info/METADATA" in names
        assert (text, summary) == ("some data", "a test")


def test_a_package_that_asks_for_its_own_version_needs_no_round_trip(asking: ModuleType) -> None:
    asks = importlib.import_module("roamlet_dist_one.asks")
    with remote.local() as context:
        assert context.call(asks.told) == "1.5"
        assert context.stats.round_trips == 0


def test_metadata_travel_ahead_for_modules_that_ask_while_they_are_imported(asking: ModuleType, make: Make) -> None:
    make(
        {
            "roamlet_dist_two.py": "from importlib.metadata import version\ndef later():\n    return version('x')\n",
            "roamlet_finds.py": "from importlib import metadata\ndef later():\n    return metadata.entry_points()\n",
        }
    )
    bare = frozenset(sys.stdlib_module_names)
    for name, expected in (("roamlet_dist_one.asks", True), ("roamlet_dist_two", False), ("roamlet_finds", False)):
        bundle = modules.plan(name, (), bare)
        assert bundle is not None
        assert any(one.endswith("/METADATA") for one in bundle.files) is expected
        assert ("@" in bundle.files) is (name == "roamlet_finds")


def test_what_does_not_travel_is_not_told_about(asking: ModuleType) -> None:
    own = "{}.{}".format(*sys.version_info)
    another = [version for version in PYTHONS if version != own]  # all packages of this one are there
    if not another:
        pytest.skip("it takes a target of 3.8 or later and of another version than this Python")
    with opened(another[-1], deny=["roamlet_dist_two"]) as context:
        assert context.call(asking.version, ("roamlet-dist-two",)).startswith("PackageNotFoundError")
        names = context.call(asking.names)
        assert "Roamlet_Dist.One" in names
        assert "roamlet-dist-two" not in names
        assert "roamlet" not in names


@pytest.mark.parametrize(
    "name",
    [
        "@../x/METADATA",
        "@roamlet-dist-one/../../secret",
        "@roamlet-dist-one//etc/passwd",
        "@no-such/METADATA",
        "@/",
        "@@",
        "@roamlet-dist-one/direct_url.json",
    ],
)
def test_no_question_leads_out_of_the_metadata(asking: ModuleType, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "src" / "Roamlet_Dist.One-1.5.dist-info" / "direct_url.json").write_text("secret")
    assert distributions.answer(name, frozenset(sys.stdlib_module_names), remote.Modules()) is None


@pytest.mark.parametrize("name", ["roamlet_dist_one.renames", "roamlet_dist_one.called"])
def test_a_version_that_is_asked_for_by_another_name_or_in_a_function_is_there(
    asking: ModuleType, make: Make, name: str
) -> None:
    make(
        {
            # as tabulate and redis do
            "roamlet_dist_one/renames.py": (
                "from importlib.metadata import version as _version\nVERSION = _version('roamlet-dist.one')\n"
            ),
            "roamlet_dist_one/asks_later.py": (
                "from importlib import metadata\ndef asked():\n    return metadata.version('roamlet-dist.one')\n"
            ),
            "roamlet_dist_one/called.py": "from roamlet_dist_one.asks_later import asked\nVERSION = asked()\n",
            "roamlet_dist_uses.py": f"def use():\n    import {name}\n    return {name}.VERSION\n",
        },
        folder="src",
    )
    uses = importlib.import_module("roamlet_dist_uses")
    with opened("{}.{}".format(*sys.version_info), prefer="parent") as context:
        assert context.call(uses.use) == "1.5"
        assert context.stats.round_trips == 0


def test_code_that_walks_through_all_distributions_asks_for_two(asking: ModuleType, make: Make) -> None:
    make(
        {
            name: text
            for n in range(6)
            for name, text in (
                (f"roamlet_walked{n}.py", ""),
                (
                    f"roamlet_walked{n}-1.dist-info/METADATA",
                    f"Metadata-Version: 2.1\nName: roamlet-walked{n}\nVersion: 1.{n}\n",
                ),
                (f"roamlet_walked{n}-1.dist-info/RECORD", f"roamlet_walked{n}.py,,\n"),
            )
        }
    )
    with opened("{}.{}".format(*sys.version_info), prefer="parent") as context:
        assert context.call(asking.version, ("roamlet-walked0",)) == "1.0"
        assert context.call(asking.version, ("roamlet-walked1",)) == "1.1"
        before = context.stats.round_trips
        versions = [context.call(asking.version, (f"roamlet-walked{n}",)) for n in range(6)]
        assert versions == [f"1.{n}" for n in range(6)]
        assert context.stats.round_trips == before
    keeps = remote.Modules(prefer="parent", deny=["roamlet_walked3"])
    name, asked = "@roamlet-walked1/METADATA", {"@roamlet-walked0/METADATA"}
    found = dict(distributions.beside(name, asked, (), keeps, asked))
    assert "@roamlet-walked2/METADATA" in found
    assert not found.keys() & {name, "@roamlet-walked0/METADATA", "@roamlet-walked3/METADATA"}
    assert distributions.beside(name, (), (), keeps, ()) == []
