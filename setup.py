"""The C extensions; everything else about the package is declared in pyproject.toml.

All backends come from the same single source (module.c includes the rest), so that the compiler sees the whole core at
once and so that they can never drift apart. The other extensions are independent of the backend and use whichever is
loaded, through core/c/api.h.

Environment, for our own checks only:
    ROAMLET_WERROR=1   -Wall -Wextra -Werror; not by default, because a user's newer compiler must not break the build
    ROAMLET_ASSERTS=1  keep C asserts
    ROAMLET_PORTABLE=1 take functions of glibc by their older versions: for wheels, see core/c/portable.h and tools/wheels
    ROAMLET_DEFINES    words NAME or NAME=VALUE for the C preprocessor; docs/design/core.md lists what they force
"""

import os
import runpy
import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

C_DIR = "src/roamlet/core/c"

if sys.platform == "win32":
    raise SystemExit(
        "roamlet cannot be built for Windows, and would not run there: it needs Linux on x86-64 or aarch64, or macOS. "
        "On this machine, install it in the Linux of WSL (`wsl --install`), or in a container"
    )

if "t" in getattr(sys, "abiflags", ""):
    raise SystemExit(
        "roamlet cannot be built for a free-threaded build of CPython, and would not run on one: use the usual build of the "
        "same version. What would have to change is in docs/design/free-threading.md"
    )

# Of what is built, which is not this machine's where _PYTHON_HOST_PLATFORM names another one, as for cross-compiled wheels.
MACHINE = sysconfig.get_platform().rpartition("-")[2]

# Where roamlet's own switching is known to work. Elsewhere it refuses to compile and greenlet serves.
NATIVE_IS_KNOWN = (
    sys.platform == "linux" and MACHINE in ("x86_64", "aarch64") and (3, 11) <= sys.version_info[:2] <= (3, 15)
)

FORCED = [
    (name, value or "1")
    for name, _, value in (word.partition("=") for word in os.environ.get("ROAMLET_DEFINES", "").split())
]


def extension(
    name: str, folder: str, *flags: str, macros: tuple[tuple[str, str], ...] = (), optional: bool = False
) -> Extension:
    """The module `name` from folder/module.c, which includes the folder's other files."""
    flags = ("-O3", "-std=gnu11", *flags)
    if os.environ.get("ROAMLET_WERROR"):
        flags += ("-Wall", "-Wextra", "-Werror")
    if os.environ.get("ROAMLET_ASSERTS"):
        flags += ("-UNDEBUG",)
    if os.environ.get("ROAMLET_PORTABLE"):
        # Without debug information: it has the path of a folder that was made for one build.
        flags += ("-DROAMLET_PORTABLE", "-g0")
    included = [
        path
        for each in {folder, C_DIR}
        for ending in ("c", "h")
        for path in glob(f"{each}/**/*.{ending}", recursive=True)
    ]
    return Extension(
        name,
        sources=[f"{folder}/module.c"],
        include_dirs=[C_DIR],
        define_macros=[*macros, *FORCED],
        depends=sorted(included),
        extra_compile_args=list(flags),
        optional=optional,
    )


def backend(name: str, macro: str, *, optional: bool) -> Extension:
    flags = []
    if name == "_native" and MACHINE == "x86_64":
        flags += ["-mno-red-zone"]  # what lies below the stack pointer is not saved with a slice: switch/x86_64.h
    return extension(f"roamlet.core.{name}", C_DIR, *flags, macros=((macro, "1"),), optional=optional)


class BuildWithStubs(build_py):
    """Writes stubs of the modules that can have no annotations into what is built, and none into the sources."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            stubs = runpy.run_path(str(Path(__file__).parent / "tools/untyped_stubs.py"))
            stubs["write"](Path(self.build_lib) / "roamlet")


setup(
    cmdclass={"build_py": BuildWithStubs},
    ext_modules=[
        backend("_native", "ROAMLET_SWITCH_NATIVE", optional=not NATIVE_IS_KNOWN),
        backend("_greenlet", "ROAMLET_SWITCH_GREENLET", optional=False),
        extension("roamlet.sync._native", "src/roamlet/sync/c"),
        extension("roamlet.io._native", "src/roamlet/io/c"),
        extension("roamlet.snapshot._native", "src/roamlet/snapshot/c"),
    ],
)
