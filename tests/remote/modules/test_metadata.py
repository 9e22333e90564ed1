"""importlib.metadata over there, about distributions whose modules came from here."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.remote.modules.conftest import Make
from tests.wire import interpreters
from weft import remote
from weft.remote import modules
from weft.remote.modules import distributions

PYTHONS = [version for version in interpreters.found() if version not in ("2.7", "3.6", "3.7")]

FILES = {
    "weft_dist_one/__init__.py": "value = 1\ndef entry():\n    return 'entered'\n",
    "weft_dist_one/asks.py": (
        "from importlib import metadata\nversion = metadata.version('weft-dist.one')\ndef told():\n    return version\n"
    ),
    "weft_dist_one/data.txt": "some data",
    "Weft_Dist.One-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: Weft_Dist.One\nVersion: 1.5\nSummary: a test\n",
    "Weft_Dist.One-1.5.dist-info/entry_points.txt": "[weft.tests]\none = weft_dist_one:entry\n",
    "Weft_Dist.One-1.5.dist-info/RECORD": (
        "weft_dist_one/__init__.py,,\nweft_dist_one/asks.py,,\nweft_dist_one/data.txt,,\nWeft_Dist.One-1.5.dist-info/METADATA,,\n"
    ),
    "weft_dist_two.py": "",
    "weft_dist_two-2.dist-info/METADATA": "Metadata-Version: 2.1\nName: weft-dist-two\nVersion: 2\n",
    "weft_dist_two-2.dist-info/RECORD": "weft_dist_two.py,,\n",
}


@pytest.fixture
def asking(make: Make, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    make(FILES)
    return importlib.import_module("weft_metadata")


def opened(version: str, **options: Any) -> remote.Context:
    return remote.local(python=interpreters.found()[version], modules=remote.Modules(**options))


@pytest.mark.parametrize("version", PYTHONS)
def test_versions_entry_points_and_files_are_told(asking: ModuleType, version: str) -> None:
    with opened(version) as context:
        assert context.call(asking.version, ("weft-dist-one",)) == "1.5"
        assert context.call(asking.version, ("Weft_Dist.ONE",)) == "1.5"
        assert context.call(asking.version, ("weft-no-such",)).startswith("PackageNotFoundError")
        before = context.stats.round_trips
        assert context.call(asking.entry_points, ("weft.tests",)) == [("one", "weft_dist_one:entry", "entered")]
        assert context.stats.round_trips == before + 1
        names, text, summary = context.call(asking.files, ("weft-dist-one",))
        assert "weft_dist_one/__init__.py" in names
        assert "Weft_Dist.One-1.5.dist-info/METADATA" in names
        assert (text, summary) == ("some data", "a test")


def test_a_package_that_asks_for_its_own_version_waits_for_nobody(asking: ModuleType) -> None:
    asks = importlib.import_module("weft_dist_one.asks")
    with remote.local() as context:
        assert context.call(asks.told) == "1.5"
        assert context.stats.round_trips == 0


def test_metadata_travel_ahead_for_who_asks_while_he_is_imported(asking: ModuleType, make: Make) -> None:
    make(
        {
            "weft_dist_two.py": "from importlib.metadata import version\ndef later():\n    return version('x')\n",
            "weft_finds.py": "from importlib import metadata\ndef later():\n    return metadata.entry_points()\n",
        }
    )
    bare = frozenset(sys.stdlib_module_names)
    for name, expected in (("weft_dist_one.asks", True), ("weft_dist_two", False), ("weft_finds", False)):
        bundle = modules.plan(name, (), bare)
        assert bundle is not None
        assert any(one.endswith("/METADATA") for one in bundle.files) is expected
        assert ("@" in bundle.files) is (name == "weft_finds")


def test_what_does_not_travel_is_not_told_about(asking: ModuleType) -> None:
    own = "{}.{}".format(*sys.version_info)
    another = [version for version in PYTHONS if version != own]  # all packages of this one are there
    if not another:
        pytest.skip("it takes a target of 3.8 or later and of another version than this Python")
    with opened(another[-1], deny=["weft_dist_two"]) as context:
        assert context.call(asking.version, ("weft-dist-two",)).startswith("PackageNotFoundError")
        names = context.call(asking.names)
        assert "Weft_Dist.One" in names
        assert "weft-dist-two" not in names
        assert "weft" not in names


@pytest.mark.parametrize(
    "name",
    [
        "@../x/METADATA",
        "@weft-dist-one/../../secret",
        "@weft-dist-one//etc/passwd",
        "@no-such/METADATA",
        "@/",
        "@@",
        "@weft-dist-one/direct_url.json",
    ],
)
def test_no_question_leads_out_of_the_metadata(asking: ModuleType, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "src" / "Weft_Dist.One-1.5.dist-info" / "direct_url.json").write_text("secret")
    assert distributions.answer(name, frozenset(sys.stdlib_module_names), remote.Modules()) is None
