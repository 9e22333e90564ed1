"""Which extension modules may go to which platform, and with which libraries: decided from files alone."""

import importlib.machinery
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roamlet.remote.modules.finding.sources import Location, Missing
from roamlet.remote.modules.imports.closure import closure
from roamlet.remote.modules.native import extensions, platforms
from tests.remote.modules.elf_files import shared_object

HERE = platforms.here()
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
MACHINE = {"x86_64": 62, "aarch64": 183}.get(HERE.triplet.partition("-")[0], 62)
BUILT = f"it is built for {HERE.implementation} {HERE.python[0]}.{HERE.python[1]} "

pytestmark = pytest.mark.skipif(not HERE.triplet, reason="no Linux: the endings of extension modules name no platform")

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write("pkg/one" + SUFFIX, needed=..., ...) makes a file and gives its path."""

    def one(name: str, **fields: Any) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(shared_object(**{"machine": MACHINE, **fields}))
        return str(path)

    return one


def fitting(path: str, **different: Any) -> Location | Missing:
    found = Missing("pkg.one", "it is native", True, path)
    return extensions.fitting(found, HERE._replace(libc="glibc 2.31", **different))


def names(found: Location | Missing) -> list[str]:
    assert isinstance(found, Location), found
    assert found.native is not None
    return [Path(one.path).name for one in found.native.files]


def reason(found: Location | Missing) -> str:
    assert isinstance(found, Missing)
    assert found.is_certain
    return found.reason


def test_libraries_beside_it_go_first_in_the_order_in_which_the_linker_searches_them(write: Write) -> None:
    write("pkg.libs/libdeep.so.1")
    write("pkg.libs/liba.so", needed=("libc.so.6", "libdeep.so.1"), search="$ORIGIN")
    write("pkg.libs/libb.so", needed=("libdeep.so.1", "liba.so"), search="${ORIGIN}/../pkg.libs")
    path = write(
        f"pkg/one{SUFFIX}", needed=("libb.so", "liba.so", "libstdc++.so.6", "libc.so.6"), search="$ORIGIN/../pkg.libs"
    )
    assert names(fitting(path)) == ["libb.so", "liba.so", "libdeep.so.1", f"one{SUFFIX}"]


def test_libraries_that_need_each_other_end(write: Write) -> None:
    write("pkg/liba.so", needed=("libb.so",), search="$ORIGIN")
    write("pkg/libb.so", needed=("liba.so",), search="$ORIGIN")
    assert names(fitting(write(f"pkg/one{SUFFIX}", needed=("liba.so",), search="$ORIGIN"))) == [
        "liba.so",
        "libb.so",
        f"one{SUFFIX}",
    ]


def test_the_c_library_and_pythons_own_never_go_and_nothing_from_a_relative_place(write: Write) -> None:
    for name in ("libc.so.6", "libpython3.12.so.1.0", "ld-linux-x86-64.so.2", "libother.so"):
        write(f"pkg/{name}")
    needed = ("libc.so.6", "libpython3.12.so.1.0", "ld-linux-x86-64.so.2", "../pkg/libother.so")
    assert names(fitting(write(f"pkg/one{SUFFIX}", needed=needed, search="$ORIGIN:pkg"))) == [f"one{SUFFIX}"]


@pytest.mark.parametrize(
    ("different", "said"),
    [
        ({"python": (3, 6), "suffixes": (".cpython-36m-x86_64-linux-gnu.so", ".abi3.so", ".so")}, "cpython 3.6"),
        ({"suffixes": ()}, "and the target is"),
        ({"implementation": "pypy"}, "the target is pypy"),
        ({"system": "freebsd14"}, "on freebsd14"),
        ({"suffixes": (SUFFIX.replace(HERE.triplet, "sparc64-linux-gnu"), SUFFIX, ".abi3.so")}, "sparc64-linux-gnu"),
    ],
)
def test_another_python_or_platform_is_refused_and_both_are_named(
    write: Write, different: dict[str, Any], said: str
) -> None:
    text = reason(fitting(write(f"pkg/one{SUFFIX}"), **different))
    assert text.startswith(f"pkg.one is an extension module (one{SUFFIX}), which cannot be sent: {BUILT}")
    assert said in text
    assert text.endswith(". Install pkg on the target")


@pytest.mark.parametrize(
    ("libc", "fits"), [("glibc 2.28", True), ("glibc 2.27", False), ("musl 1.2", False), ("", False)]
)
def test_the_newest_symbol_of_all_files_decides_which_glibc_will_do(write: Write, libc: str, fits: bool) -> None:
    write("pkg/liba.so", versions=(("libm.so.6", ("GLIBC_2.28", "GLIBC_2.3.4")),))
    needs = (("libc.so.6", ("GLIBC_2.2.5", "GLIBC_PRIVATE")), ("libstdc++.so.6", ("GLIBCXX_3.4.29",)))
    path = write(f"pkg/one{SUFFIX}", needed=("liba.so",), search="$ORIGIN", versions=needs)
    found = extensions.fitting(Missing("pkg.one", "", True, path), HERE._replace(libc=libc))
    assert isinstance(found, Location) is fits
    if not fits:
        assert "with glibc 2.28 or later, and the target is" in reason(found)


def test_abi3_goes_to_other_versions_and_no_ending_to_the_same_only(write: Write) -> None:
    newer = {"python": (3, 99), "suffixes": (SUFFIX.replace("-3", "-9"), ".abi3.so", ".so")}
    assert names(fitting(write("pkg/one.abi3.so"), **newer)) == ["one.abi3.so"]
    assert "cannot be sent" in reason(fitting(write("pkg/two.so"), **newer))
    assert names(fitting(write("pkg/two.so"))) == ["two.so"]


@pytest.mark.parametrize(
    ("tags", "fits"), [("cp310-abi3", False), ("cp39-abi3", True), ("cp310-abi3 cp38-abi3", True), ("", True)]
)
def test_the_tag_of_its_wheel_tells_the_oldest_python_of_an_abi3_module(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tags: str, fits: bool
) -> None:
    path = write("tagged/one.abi3.so")
    about = tmp_path / "tagged-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tagged\nVersion: 1.0\n")
    (about / "RECORD").write_text("tagged/one.abi3.so,,\n")
    (about / "WHEEL").write_text("".join(f"Tag: {tag}-manylinux_2_17_x86_64\n" for tag in tags.split()))
    monkeypatch.syspath_prepend(str(tmp_path))
    older = HERE._replace(libc="glibc 2.31", python=(3, 9), suffixes=(SUFFIX.replace("-3", "-9"), ".abi3.so", ".so"))
    found = extensions.fitting(Missing("tagged.one", "", True, path), older)
    assert isinstance(found, Location) is fits
    if not fits:
        text = f"it is built for {HERE.implementation} 3.10 or later (abi3) on linux "
        assert text in reason(found)
        assert "and the target is" in reason(found)


def test_a_file_for_another_processor_is_refused_whatever_its_name_says(write: Write) -> None:
    assert "on linux s390x" in reason(fitting(write(f"pkg/one{SUFFIX}", machine=22)))


def test_what_cannot_be_read_is_refused_with_the_reason(write: Write, tmp_path: Path) -> None:
    path = tmp_path / f"one{SUFFIX}"
    path.write_bytes(b"no ELF")
    assert f"cannot be sent: {path} is no shared object that could be loaded" in reason(fitting(str(path)))
    path.unlink()
    assert "cannot be sent: [Errno 2] No such file" in reason(fitting(str(path)))


def test_too_much_for_the_memory_of_the_target_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "LARGEST", 100)
    assert "with its libraries it has more than" in reason(fitting(write(f"pkg/one{SUFFIX}")))


def test_modules_of_its_own_package_that_it_names_go_with_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"named/one{SUFFIX}", needed=("named._helper", "named.nothing", "other.module"), soname="named.one")
    (tmp_path / "named" / "__init__.py").write_text("from . import one")
    for name in ("_helper", "_stranger"):
        (tmp_path / "named" / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = closure(("named",), frozenset(), platform=HERE)
    assert {one.name for one in found.modules} == {"named", "named.one", "named._helper"}
    assert "named.nothing" not in found.absent
    without = closure(("named",), frozenset())
    assert without.modules == []
    assert without.unimportable == {"named": "named.one"}


def test_one_file_by_two_names_is_one_file(write: Write, tmp_path: Path) -> None:
    path = write(f"pkg/one{SUFFIX}")
    other = tmp_path / f"two{SUFFIX}"
    other.hardlink_to(path)
    one, two = fitting(path), fitting(str(other))
    assert isinstance(one, Location) and one.native is not None
    assert isinstance(two, Location) and two.native is not None
    assert one.native.files[0].number == two.native.files[0].number
