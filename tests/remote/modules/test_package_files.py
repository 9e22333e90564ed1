"""The files beside the parent's modules, on the target: listed, read, walked and refused, with and without importlib.resources."""

import importlib
import os
import shutil
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from roamlet import remote
from roamlet.remote import modules
from roamlet.remote.modules.finding import data
from roamlet.wire import codec
from tests.remote.modules.conftest import Make
from tests.wire import interpreters

PYTHONS = list(interpreters.found())

BESIDE = r"""
import glob, io, os, pkgutil, sys

HERE = os.path.dirname(os.path.abspath(__file__))

def by_paths():
    with open(os.path.join(HERE, "templates", "x.html")) as file:
        text = file.read()
    with io.open(os.path.join(HERE, "templates", "..", "templates", "x.html"), "rb") as file:
        again = file.read().decode("utf-8")
    tree = [(folder[len(HERE):], sorted(folders), sorted(files)) for folder, folders, files in os.walk(HERE)]
    names = ("nothing", "templates", "templates/deep/y.txt", "__init__.py")
    return {
        "text": [text, again],
        "listed": sorted(os.listdir(HERE)),
        "tree": tree,
        "exist": [os.path.exists(os.path.join(HERE, name)) for name in names],
        "files": [os.path.isfile(os.path.join(HERE, name)) for name in names],
        "glob": sorted(os.path.basename(path) for path in glob.glob(os.path.join(HERE, "templates", "*"))),
        "size": os.path.getsize(os.path.join(HERE, "templates", "x.html")),
    }

def by_pathlib():
    import pathlib
    here = pathlib.Path(__file__).resolve().parent
    return [(here / "templates" / "x.html").read_text(), sorted(path.name for path in here.iterdir()), here.is_dir()]

def walked():
    names = [module[1:3] for module in pkgutil.walk_packages(sys.modules["beside"].__path__, "beside.")]
    return sorted([name, bool(is_package)] for name, is_package in names)

def modules_of():
    return sorted(module[1] for module in pkgutil.iter_modules(sys.modules["beside"].__path__))

def problem(name, mode="r"):
    try:
        open(os.path.join(HERE, name), mode)
    except EnvironmentError as error:
        return str(error)

def by_resources():
    from importlib import resources
    root = resources.files("beside")
    folder = root / "templates"
    found = [sorted(one.name for one in root.iterdir()), sorted(one.name for one in folder.iterdir())]
    found += [folder.is_dir(), folder.joinpath("deep/y.txt").read_text(), root.joinpath("templates", "x.html").is_file()]
    with resources.as_file(folder) as path:
        found.append(sorted(os.listdir(str(path))))
    return found
"""

FILES = {
    "beside/__init__.py": BESIDE,
    "beside/plain.py": "",
    "beside/inner/__init__.py": "",
    "beside/inner/leaf.py": "",
    "beside/templates/x.html": "hello x",
    "beside/templates/deep/y.txt": "why",
}


@pytest.fixture
def beside(make: Make) -> ModuleType:
    make(FILES)
    return importlib.import_module("beside")


def check_paths(context: remote.Context, beside: ModuleType) -> None:
    found = context.call(beside.by_paths)
    assert found["text"] == ["hello x", "hello x"]
    assert found["listed"] == ["__init__.py", "inner", "plain.py", "templates"]
    assert found["tree"] == [
        ("", ["inner", "templates"], ["__init__.py", "plain.py"]),
        ("/inner", [], ["__init__.py", "leaf.py"]),
        ("/templates", ["deep"], ["x.html"]),
        ("/templates/deep", [], ["y.txt"]),
    ]
    assert found["exist"] == [False, True, True, True]
    assert found["files"] == [False, False, True, True]
    assert found["glob"] == ["deep", "x.html"]
    assert found["size"] == 7


@pytest.mark.parametrize("version", PYTHONS)
def test_files_beside_a_module_are_found_by_every_road(beside: ModuleType, version: str) -> None:
    policy = remote.Modules(bytecode=False)  # else one Python of them asks for the source, too
    with remote.local(python=interpreters.found()[version], modules=policy) as context:
        check_paths(context, beside)
        assert context.stats.round_trips == 1  # with the file came the listing of the whole package
        assert context.call(beside.walked) == [
            ["beside.inner", True],
            ["beside.inner.leaf", False],
            ["beside.plain", False],
        ]
        assert context.call(beside.modules_of) == ["inner", "plain"]
        if context.facts.python >= (3, 6):
            names = ["__init__.py", "inner", "plain.py", "templates"]
            assert context.call(beside.by_pathlib) == ["hello x", names, True]
        if context.facts.python >= (3, 9):
            assert context.call(beside.by_resources) == [
                names,
                ["deep", "x.html"],
                True,
                "why",
                True,
                ["deep", "x.html"],
            ]
        said = context.call(beside.problem, ("nothing.txt",))
        assert "beside/nothing.txt is not here: the parent's package beside has no such file" in said
        said = context.call(beside.problem, ("../elsewhere.txt",))
        assert "only those inside of packages can be read, by importlib.resources or by a path beside __file__" in said
        assert "cannot be written" in context.call(beside.problem, ("new.txt", "w"))


def test_a_package_in_a_zip_archive_is_as_good_as_one_in_a_folder(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = make(
        FILES | {"beside/words.txt": "", "beside/named.py": "from importlib import resources\nname = 'words.txt'"}
    )
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in FILES:
            packed.write(top / name, name)
        packed.writestr("beside/named.py", "from importlib import resources\nname = 'words.txt'")
        packed.writestr("beside/words.txt", "warp")
    shutil.rmtree(top)
    monkeypatch.setattr(sys, "path", [str(archive), *(path for path in sys.path if path != str(top))])
    importlib.invalidate_caches()
    beside = importlib.import_module("beside")
    assert str(archive) in str(beside.__file__)
    bundle = modules.plan("beside.named", (), frozenset(sys.stdlib_module_names))
    assert bundle is not None
    assert "beside/words.txt" in bundle.files
    with remote.local() as context:
        found = context.call(beside.by_resources)
        assert found[1:] == [["deep", "x.html"], True, "why", True, ["deep", "x.html"]]
        assert ["beside.inner.leaf", False] in context.call(beside.walked)
        assert context.call(beside.by_paths)["text"] == ["hello x", "hello x"]


@pytest.mark.parametrize(
    "name",
    [
        "beside/../secret",
        "beside/templates/../../secret",
        "beside//etc/passwd",
        "beside/./x",
        "beside/",
        "/",
        "//",
        "beside/\0",
    ],
)
def test_no_question_leads_out_of_a_package(make: Make, tmp_path: Path, name: str) -> None:
    make(FILES)
    (tmp_path / "src" / "secret").write_text("secret")
    answer = data.data_of(name, (), remote.Modules())
    assert answer is None or (name == "beside/" and b"secret" not in answer)


def test_what_the_parent_has_not_imported_is_no_namespace_package_to_read_from(make: Make) -> None:
    make({"home/notes.txt": "private", "home/.hidden": "", "home/part.py": ""})
    assert data.data_of("home/notes.txt", (), remote.Modules()) is None
    assert data.data_of("home/", (), remote.Modules()) is None
    importlib.import_module("home.part")
    assert data.data_of("home/notes.txt", (), remote.Modules()) == b"private"
    assert data.data_of("home/.hidden", (), remote.Modules()) is None


def test_a_policy_holds_for_files_as_for_modules(make: Make) -> None:
    make(FILES)
    assert data.data_of("beside/templates/x.html", (), remote.Modules()) == b"hello x"
    assert data.data_of("beside/templates/x.html", (), remote.Modules(deny=["beside"])) is None
    assert data.data_of("beside/templates/x.html", ("beside",), remote.Modules()) is None


def test_a_file_beyond_the_limit_is_not_given(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make(FILES)
    monkeypatch.setattr(data, "LARGEST", 5)
    assert data.data_of("beside/templates/x.html", (), remote.Modules()) is None
    assert data.data_of("beside/templates/deep/y.txt", (), remote.Modules()) == b"why"


def test_a_large_tree_is_told_about_in_pieces(beside: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_ENTRIES", 4)
    listing = data.data_of("beside/", (), remote.Modules())
    assert listing is not None
    assert codec.loads(listing)[2] == ["inner/", "templates/"]
    with remote.local() as context:
        check_paths(context, beside)


def test_links_that_lead_back_do_not_make_a_listing_endless(make: Make) -> None:
    top = make(FILES)
    os.symlink(top / "beside", top / "beside" / "again")
    listing = data.data_of("beside/", (), remote.Modules())
    assert listing is not None
    assert len(codec.loads(listing)[0]) <= data.MOST_ENTRIES + 100
