"""Large real packages: one bundle, and a bare interpreter asks for nothing more."""

import importlib
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from roamlet.remote import modules
from roamlet.wire.modules import bundle as wire_bundle
from tests.remote.modules import bare_interpreter

PACKAGES = ["django.db.models", "requests", "rich.progress"]  # the last of these imports nearly all of its package
NEWER = [sys.executable, *bare_interpreter.pythons("3.13")]


def data_folders() -> dict[str, str]:
    certifi = pytest.importorskip("certifi")
    return {"certifi": str(Path(certifi.__file__).parent)}


@pytest.mark.parametrize("python", NEWER)
@pytest.mark.parametrize("name", PACKAGES)
def test_a_bare_interpreter_asks_for_nothing_when_the_parent_has_imported_the_package(name: str, python: str) -> None:
    pytest.importorskip(name)
    bundle = modules.plan(name, (), bare_interpreter.has_of(python))
    assert bundle is not None
    outcome = bare_interpreter.imports_from(python, [bundle.data], f"import {name}", data_folders())
    assert outcome.problem is None
    assert outcome.asked == []


PLAN_WITHOUT_IMPORTING = """
import sys
from roamlet.remote import modules
bundle = modules.plan({name!r}, (), frozenset({has!r}))
assert {name!r}.partition(".")[0] not in sys.modules, "planning has imported what it plans"
sys.stdout.buffer.write(bundle.data)
"""


@pytest.mark.parametrize("name", PACKAGES)
def test_a_bare_interpreter_asks_for_nothing_when_the_parent_has_not_imported_the_package(name: str) -> None:
    pytest.importorskip(name)
    has = bare_interpreter.has_of(sys.executable)
    program = PLAN_WITHOUT_IMPORTING.format(name=name, has=sorted(has))
    planned = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=120)
    outcome = bare_interpreter.imports_from(sys.executable, [planned.stdout], f"import {name}", data_folders())
    assert outcome.problem is None
    assert outcome.asked == []


def test_requests_fits_into_a_third_of_a_megabyte_with_its_certificates() -> None:
    pytest.importorskip("requests")
    bundle = modules.plan("requests", (), frozenset(sys.stdlib_module_names))
    assert bundle is not None
    assert "certifi/cacert.pem" in bundle.files
    assert len(bundle.data) <= 350_000


def test_djangos_models_fit_into_half_a_megabyte() -> None:
    pytest.importorskip("django.db.models")
    bundle = modules.plan("django.db.models", (), frozenset(sys.stdlib_module_names))
    assert bundle is not None
    assert len(bundle.data) <= 485_000
    assert sum(len(source) for _, _, source, _ in wire_bundle.unpack(bundle.data)[0]) > 1_500_000


def test_nearly_all_that_travels_for_djangos_models_is_imported_there() -> None:
    pytest.importorskip("django.db.models")
    bundle = modules.plan("django.db.models", (), bare_interpreter.has_of(sys.executable))
    assert bundle is not None
    outcome = bare_interpreter.imports_from(sys.executable, [bundle.data], "import django.db.models")
    assert set(bundle.modules) - set(outcome.imported) == set()


def test_a_plan_that_was_made_before_is_not_scanned_or_compressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("django.db.models")
    has = frozenset(sys.stdlib_module_names)
    first = modules.plan("django.db.models", (), has)
    monkeypatch.setattr(zlib, "compressobj", None)
    start = time.perf_counter()
    again = modules.plan("django.db.models", (), has)
    took = time.perf_counter() - start
    assert again is not None and first is not None
    assert again.data is first.data
    assert took < 0.1  # some 0.5 ms on a quiet machine


def test_the_second_wave_holds_what_functions_import_and_nothing_twice() -> None:
    pytest.importorskip("django.db.models")
    importlib.import_module("django.db.backends.sqlite3.base")
    has = frozenset(sys.stdlib_module_names)
    first = modules.plan("django.db.models", (), has)
    assert first is not None
    second = first.second_wave(first.names)
    assert second is not None
    assert second.modules
    assert set(first.modules).isdisjoint(second.modules)
    third = second.second_wave((*first.names, *second.names))
    assert third is None


def test_dependencies_come_first_unless_modules_import_each_other() -> None:
    requests = pytest.importorskip("requests")
    bundle = modules.plan(requests.__name__, (), frozenset(sys.stdlib_module_names))
    assert bundle is not None
    order = [name for name, *_ in wire_bundle.unpack(bundle.data)[0]]
    assert order == ["roamlet.wire.modules.resources", *bundle.modules, "certifi/cacert.pem"]
    assert order.index("certifi.core") < order.index("requests.certs")
    assert order.index("urllib3") < order.index("requests.adapters")
    for name in bundle.modules:
        if "." in name:
            assert order.index(name.rpartition(".")[0]) < order.index(name)
