"""Each public name stands in the reference documentation of its module."""

import importlib
import re

import pytest

from tests.docs.blocks import ROOT

PUBLIC = [
    "roamlet",
    "roamlet.dask",
    "roamlet.diagnose",
    "roamlet.execnet",
    "roamlet.gunicorn",
    "roamlet.io",
    "roamlet.joblib",
    "roamlet.remote",
    "roamlet.snapshot",
    "roamlet.stackless",
    "roamlet.sync",
    "roamlet.sync.futures",
    "roamlet.testing",
    "roamlet.testing.links",
    "roamlet.threads",
    "roamlet_leaks",
    "roamlet_leaks.check",
    "roamlet_leaks.running",
]


def imported(module_name):
    if module_name == "roamlet.dask":
        pytest.importorskip("distributed", reason="roamlet.dask takes Dask")
    return importlib.import_module(module_name)


@pytest.mark.parametrize("module_name", PUBLIC)
def test_every_public_name_stands_in_the_reference_of_its_module(module_name):
    public = imported(module_name).__all__
    name = re.split(r"roamlet[._]", module_name)[-1].split(".")[0]
    pages = [*(ROOT / "docs/reference").glob(f"{name}.md"), *(ROOT / "docs/reference").glob(f"{name}-*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    # Inside code: `name`, `name(...)`, `roamlet.name(...)` or `thing.name`.
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", text))))
    assert sorted(name for name in public if name not in words) == []


@pytest.mark.parametrize("module_name", PUBLIC)
def test_every_public_name_exists_and_is_listed_once(module_name):
    module = imported(module_name)
    assert len(module.__all__) == len(set(module.__all__))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
