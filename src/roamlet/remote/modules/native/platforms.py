"""What machine code has to agree on with the Python that loads it: system, processor, libc, version and ABI."""

import functools
import importlib.machinery
import os
import platform
import re
import sys
from typing import NamedTuple

_SUFFIX = re.compile(r"\.(\w+)-(\d+)([a-z]*)-([\w-]+)\.so")


class Platform(NamedTuple):
    """One Python on one machine. `libc` is "glibc 2.36", or empty where there is no libc or another one.

    `suffixes` are the endings of the file names of extension modules that this Python takes, its own first.
    """

    system: str
    machine: str
    libc: str
    implementation: str
    python: tuple[int, int]
    suffixes: tuple[str, ...]

    @property
    def abi(self) -> str:
        """Such as cpython-312-x86_64-linux-gnu; empty where files of extension modules have no such ending (2.7)."""
        found = _SUFFIX.fullmatch(self.suffixes[0]) if self.suffixes else None
        return "" if found is None else found.group()[1:-3]

    @property
    def triplet(self) -> str:
        """The last part of `abi`, which is that of abi3 as well: "x86_64-linux-gnu"."""
        found = _SUFFIX.fullmatch(self.suffixes[0]) if self.suffixes else None
        return "" if found is None else found.group(4)

    @property
    def glibc(self) -> tuple[int, int] | None:
        """The version of glibc; None for another libc."""
        found = re.fullmatch(r"glibc (\d{1,4})\.(\d{1,4})(\.\d+)*", self.libc)
        return None if found is None else (int(found.group(1)), int(found.group(2)))

    def __str__(self) -> str:
        return f"{said_python(self)} on {self.system} {self.machine} with {self.libc or 'a libc that is not known to be glibc'}"


def said_python(one: Platform) -> str:
    """The Python for messages: "cpython 3.12 (cpython-312-x86_64-linux-gnu)"."""
    abi = f" ({one.abi})" if one.abi else ""
    return f"{one.implementation} {one.python[0]}.{one.python[1]}{abi}"


@functools.cache
def here() -> Platform:
    """That of this process."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        libc = ""
    return Platform(
        sys.platform,
        platform.machine(),
        libc,
        sys.implementation.name,
        (sys.version_info[0], sys.version_info[1]),
        tuple(importlib.machinery.EXTENSION_SUFFIXES),
    )
