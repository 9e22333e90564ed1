"""Sources or bytecode, zlib or xz: in whatever form modules travel, they look alike on the target."""

import importlib
import sys
import traceback
from types import ModuleType

import pytest

from roamlet import remote
from roamlet.remote import modules
from roamlet.wire.modules import bundle as wire_bundle
from tests.remote import interpreters
from tests.remote.modules.conftest import Make

VERSIONS = [version for version in interpreters.found() if version != "2.7"]
MAGIC = importlib.util.MAGIC_NUMBER
STANDARD = frozenset({*sys.stdlib_module_names} - {"_zstd"})


@pytest.fixture
def sent(make: Make) -> ModuleType:
    make({})
    return importlib.import_module("roamlet_source")


def check_looks(context: remote.Context, sent: ModuleType) -> None:
    shown = context.call(sent.shown)
    assert 'raise ValueError("a thread broke")  # the line that tracebacks show' in shown
    assert f'File "roamlet:{sent.__file__}", line' in shown
    text, file = context.call(sent.source)
    assert text == 'def fails():\n    raise ValueError("a thread broke")  # the line that tracebacks show\n'
    assert file == f"roamlet:{sent.__file__}"
    assert "the line that warnings show" in context.call(sent.warned)
    assert context.call(sent.tested) == (0, 1)
    assert context.call(sent.pickled).startswith("[Thread('roamlet'), <function fails at")
    try:
        context.call(sent.fails)
    except ValueError as error:
        shown = "".join(traceback.format_exception(error))
    assert "the line that tracebacks show" in shown
    assert f'File "roamlet:{sent.__file__}", line' in shown


@pytest.mark.parametrize("version", VERSIONS)
def test_sources_look_as_at_home(sent: ModuleType, version: str) -> None:
    with remote.local(python=interpreters.found()[version], modules=remote.Modules(bytecode=False)) as context:
        assert context.call(sent.form)[0] == wire_bundle.MODULE
        check_looks(context, sent)
        assert context.stats.round_trips == 0


def test_bytecode_looks_as_at_home_and_the_source_comes_when_it_is_read(sent: ModuleType) -> None:
    with remote.local() as context:
        assert context.call(sent.form)[0] == wire_bundle.MODULE | wire_bundle.CODE
        assert context.stats.round_trips <= 1  # os.path.exists(__file__)
        check_looks(context, sent)
        assert context.call(sent.form)[0] == wire_bundle.MODULE
        assert context.stats.round_trips == 1


@pytest.mark.parametrize(
    ("wanted", "magic", "implementation", "is_near", "expected"),
    [
        (None, MAGIC, "cpython", True, True),
        (None, MAGIC, "cpython", False, False),
        (True, MAGIC, "cpython", False, True),
        (False, MAGIC, "cpython", True, False),
        (True, b"\x03\xf3\r\n", "cpython", True, False),
        (True, MAGIC, "pypy", True, False),
    ],
)
def test_bytecode_goes_to_the_same_python_where_it_pays(
    wanted: bool | None, magic: bytes, implementation: str, is_near: bool, expected: bool
) -> None:
    policy = remote.Modules(bytecode=wanted).settled(magic, implementation, STANDARD, is_near=is_near)
    assert policy.bytecode is expected


@pytest.mark.parametrize(
    ("wanted", "has", "expected"),
    [
        ("xz", STANDARD, "xz"),
        ("xz", STANDARD - {"_lzma"}, "zlib"),
        ("zstd", STANDARD, "zlib"),
        (None, STANDARD, "zlib"),
        ("zlib", STANDARD, "zlib"),
    ],
)
def test_what_the_target_cannot_unpack_is_not_used(wanted: str | None, has: frozenset[str], expected: str) -> None:
    assert remote.Modules(compression=wanted).settled(MAGIC, "cpython", has, is_near=False).compression == expected


def test_each_form_of_a_bundle_is_built_once_and_holds_the_same(make: Make, bare: frozenset[str]) -> None:
    make({"wide/__init__.py": "import wide.part\n", "wide/part.py": "value = 1\n" * 1000, "wide/broken.py": "def :"})
    importlib.import_module("wide")
    forms = {
        "plain": remote.Modules(),
        "xz": remote.Modules(compression="xz"),
        "code": remote.Modules(bytecode=True),
    }
    bundles = {name: modules.plan("wide", (), bare, None, policy) for name, policy in forms.items()}
    again = modules.plan("wide", (), bare, None, remote.Modules(compression="xz"))
    assert again is not None
    found = {}
    for name, bundle in bundles.items():
        assert bundle is not None
        found[name] = wire_bundle.unpack(bundle.data)
    assert bundles["xz"] is not None and again.data is bundles["xz"].data
    assert found["xz"] == found["plain"]
    assert bundles["xz"].data[:6] == b"\xfd7zXZ\x00"
    kinds = {name: kind for name, kind, *_ in found["code"][0]}
    assert kinds == {"wide": wire_bundle.PACKAGE | wire_bundle.CODE, "wide.part": wire_bundle.MODULE | wire_bundle.CODE}


def test_a_source_that_does_not_compile_travels_as_it_is(make: Make, bare: frozenset[str]) -> None:
    make({"broken.py": "print 'for another Python'\n"})
    bundle = modules.pull("broken", (), bare, remote.Modules(bytecode=True))
    assert wire_bundle.unpack(bundle.data)[0][0][:3] == ("broken", wire_bundle.MODULE, b"print 'for another Python'\n")


def test_xz_is_unpacked_on_the_target(sent: ModuleType) -> None:
    with remote.local(modules=remote.Modules(compression="xz", bytecode=False)) as context:
        assert context.call(sent.form)[0] == wire_bundle.MODULE
