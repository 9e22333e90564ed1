"""Build the extension module `pinned` beside this file, for the Python that runs this.

Words are given to the compiler, for example: python build.py -UNDEBUG -DPINNED_HIDE_FRAMES
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = HERE.parent.parent / "src/roamlet/core/c"


def build(words: list[str]) -> Path:
    """Compile module.c, which includes the other files and roamlet's own switch. Returns the module's path."""
    include = Path(sysconfig.get_path("include"))
    module = HERE / f"pinned{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = str(sysconfig.get_config_var("CC")).split()
    flags = ["-O2", "-g", "-std=gnu11", "-fPIC", "-shared", "-DNDEBUG"]
    warnings = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-function",
        "-Wno-missing-field-initializers",
        "-Wno-cast-function-type",
    ]
    paths = [
        f"-I{CORE}",
        f"-isystem{include}",
        f"-isystem{include / 'internal'}",
        f"-isystem{include / 'internal/mimalloc'}",
    ]
    subprocess.run(
        [*compiler, *flags, *warnings, *paths, *words, "-o", str(module), str(HERE / "module.c")], check=True
    )
    return module


if __name__ == "__main__":
    print(build(sys.argv[1:]))
