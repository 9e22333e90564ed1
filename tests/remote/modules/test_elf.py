"""The reader of ELF files: what it finds in real ones and in made ones, and how it reports other files."""

import random
import re
from pathlib import Path

import pytest

from roamlet.remote.modules.native import elf
from roamlet.sync import _native
from tests.remote.modules.elf_files import shared_object

SEED = 20
CHANGED = 3000


def write(folder: Path, data: bytes) -> str:
    path = folder / "one.so"
    path.write_bytes(data)
    return str(path)


def test_a_real_extension_module_needs_libc() -> None:
    found = elf.read(_native.__file__)
    assert "libc.so.6" in found.needed or any("musl" in one for one in found.needed)
    assert all(library in found.needed for library, _ in found.versions)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bits", [32, 64])
def test_all_that_is_asked_for_is_found_in_each_layout(tmp_path: Path, bits: int, order: str) -> None:
    data = shared_object(
        ("libdeep.so.1", "libc.so.6"),
        "libmiddle.so",
        "$ORIGIN/../x.libs::/opt/lib",
        (("libc.so.6", ("GLIBC_2.2.5", "GLIBC_2.34")), ("libdeep.so.1", ("DEEP_1",))),
        bits=bits,
        order=order,
    )
    assert elf.read(write(tmp_path, data)) == elf.SharedObject(
        "x86_64",
        "libmiddle.so",
        ("libdeep.so.1", "libc.so.6"),
        ("$ORIGIN/../x.libs", "/opt/lib"),
        (("libc.so.6", "GLIBC_2.2.5"), ("libc.so.6", "GLIBC_2.34"), ("libdeep.so.1", "DEEP_1")),
    )


def test_an_older_rpath_counts_and_an_unknown_machine_has_its_number(tmp_path: Path) -> None:
    found = elf.read(write(tmp_path, shared_object(search="$ORIGIN", machine=9999, tag_of_search=15)))
    assert (found.search, found.machine, found.soname, found.needed) == (("$ORIGIN",), "machine 9999", "", ())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "20 bytes at 0 lie outside of its 0 bytes; is it cut off?"),
        (b"#!/bin/sh\n" + bytes(100), "it does not begin as one"),
        (shared_object()[:16] + b"\x02" + shared_object()[17:], r"its type is 2, not 3 \(shared object\)"),
        (shared_object()[:100], "lie outside of its 100 bytes"),
        (shared_object()[:56] + b"\0\0" + shared_object()[58:], "it has 0 program headers of 56 bytes"),
        (shared_object()[:120] + b"\3" + shared_object()[121:], "it has no dynamic section"),
        (shared_object(("libc.so.6",))[:-2], "lie outside of its"),
    ],
)
def test_what_is_no_shared_object_is_named_with_the_reason(tmp_path: Path, data: bytes, problem: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(
        elf.BadObject, match=f"^{re.escape(path)} is no shared object that could be loaded: .*{problem}"
    ):
        elf.read(path)


def test_whatever_is_changed_in_a_file_it_is_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    good = shared_object(
        ("liba.so", "libb.so"), "libc.so", "$ORIGIN", (("liba.so", ("A_1", "A_2")), ("libb.so", ("B_1",)))
    )
    chance = random.Random(SEED)
    refused = 0
    for _ in range(CHANGED):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        path = write(tmp_path, bytes(data[: chance.choice((len(data), chance.randrange(len(data)), len(data)))]))
        try:
            elf.read(path)
        except elf.BadObject:
            refused += 1
    assert CHANGED // 4 < refused < CHANGED
