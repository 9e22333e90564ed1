"""`make check`: everything that can be said about the sources without running the tests.

Each check prints one line; a failed one prints its output. All of them run, whatever fails: the status is 1 if any did.
Names as arguments run those checks alone, for example: python tools/check.py lint types
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sys.executable).parent
C_FOLDER = Path("src/roamlet/core/c")

# Extension modules beside the core, which use it through C_FOLDER/api.h: each with the folder of its sources.
NATIVE_MODULES = {f"roamlet.{part}._native": Path(f"src/roamlet/{part}/c") for part in ("sync", "io", "snapshot")}

# tools/stubtest-allowlist.txt gives its reasons. typing knows no way yet to say @disjoint_base that 3.11 would understand.
STUBTEST = ("--ignore-disjoint-bases", "--allowlist", "tools/stubtest-allowlist.txt")

# In wire/, but run by the parent: they make the payload.
WIRE_OF_THE_PARENT = {"build.py"}

# The apps whose host/ is for targets of 2.7 too.
ON_ANY_PYTHON = {"roamlet_ansible", "roamlet_clock"}

# What only one of 2.7 and 3.6 has, used in wire/ behind a check of which of them runs it.
CHECKED_WHEN_RUN = (
    *("sys.exc_clear", "str.decode", "thread", "imp", "__builtin__", "unicode", "long"),
    *(
        "_thread",
        "faulthandler",
        "sys.implementation",
        "importlib.util.decode_source",
        "int.from_bytes",
        "int.to_bytes",
    ),
    *("importlib.resources", "importlib.resources.as_file", "os.memfd_create", "pathlib", "linecache.lazycache"),
    *("lzma", "compression", "compression.zstd"),
    *("os.fsencode", "os.fsdecode", "os.symlink(dir_fd)", "os.utime(ns)", "os.pread"),
    *("os.MFD_ALLOW_SEALING", "os.MFD_CLOEXEC", "os.register_at_fork"),
    *("array.array.frombytes", "datetime.timezone", "enum", "enum.Flag", "types.SimpleNamespace", "types.CellType"),
)
PYTHON_SOURCES = [
    name
    for name in ("src", "apps", "tests", "tools", "bench", "examples", "prototypes", "docs", "setup.py")
    if (ROOT / name).exists()
]

Command = tuple[list[str], dict[str, str]]


def command(*words: str, **environment: str) -> Command:
    return list(words), environment


def module(name: str, *words: str) -> Command:
    return command(sys.executable, "-m", name, *words)


def formatting() -> Iterator[Command]:
    yield module("ruff", "format", "--check", *PYTHON_SOURCES)


def lint() -> Iterator[Command]:
    yield module("ruff", "check", *PYTHON_SOURCES)


def types() -> Iterator[Command]:
    yield module("mypy", "--strict")


def stubs() -> Iterator[Command]:
    """The stubs of the C core say what is there, and nothing else."""
    for backend in ("native", "greenlet"):
        modules = (f"roamlet.core._{backend}", "roamlet.core._core", *NATIVE_MODULES)
        words, environment = module("mypy.stubtest", *modules, "--concise", *STUBTEST)
        yield words, {**environment, "ROAMLET_SWITCH": backend, "MYPYPATH": "src"}


def layers() -> Iterator[Command]:
    yield command(str(SCRIPTS / "lint-imports"), "--no-cache")


def leaks() -> Iterator[Command]:
    """Places that keep exceptions alive; tests are left out, because they show such places."""
    yield module("roamlet_leaks", "--check", "src", *sorted(map(str, Path("apps").glob("*/src"))), "tools")


def wire_syntax() -> Iterator[Command]:
    """Payload sources in the common syntax of 2.7 and 3.6, with nothing newer than either has."""
    payload = sorted(
        str(path) for path in Path("src/roamlet/wire").rglob("*.py") if path.name not in WIRE_OF_THE_PARENT
    )
    excluded = [word for name in CHECKED_WHEN_RUN for word in ("--exclude", name)]
    yield command(str(SCRIPTS / "vermin"), "-q", "-t=2.7-", "-t=3.6-", "--violations", *excluded, *payload)


def host_syntax() -> Iterator[Command]:
    """What an app sends to servers, in the syntax of 3.6 and with nothing newer, some of it in that of 2.7 as well."""
    for app in sorted(Path("apps").glob("*/src/*/host")):
        oldest = ["-t=2.7-"] if app.parent.name in ON_ANY_PYTHON else []
        yield command(
            str(SCRIPTS / "vermin"), "-q", *oldest, "-t=3.6-", "--violations", *sorted(map(str, app.glob("*.py")))
        )


def c_warnings() -> Iterator[Command]:
    """All backends without a single warning, as users build them and with asserts. Compiled, not installed."""
    for asserts in ("", "1"):
        with tempfile.TemporaryDirectory(prefix="roamlet-check-") as folder:
            yield command(
                *(sys.executable, "setup.py", "-q", "build_ext", "--force"),
                *("--build-temp", f"{folder}/objects", "--build-lib", f"{folder}/library"),
                ROAMLET_WERROR="1",
                ROAMLET_ASSERTS=asserts,
            )


def c_tidy() -> Iterator[Command]:
    """clang-tidy, where it is installed; .clang-tidy says what it looks for."""
    if shutil.which("clang-tidy"):
        for macro in ("ROAMLET_SWITCH_NATIVE", "ROAMLET_SWITCH_GREENLET"):
            yield command(
                *("clang-tidy", "--quiet", str(C_FOLDER / "module.c"), "--"),
                *(f"-D{macro}=1", "-std=gnu11", f"-I{C_FOLDER}", f"-isystem{sysconfig.get_path('include')}"),
            )
        for folder in NATIVE_MODULES.values():
            yield command(
                *("clang-tidy", "--quiet", str(folder / "module.c"), "--"),
                *("-std=gnu11", f"-I{C_FOLDER}", f"-isystem{sysconfig.get_path('include')}"),
            )


def documentation() -> Iterator[Command]:
    if (ROOT / "mkdocs.yml").exists():
        yield module("mkdocs", "build", "--quiet", "--strict", "--site-dir", str(ROOT / "build/docs"))


def architecture_map() -> Iterator[Command]:
    """The maps and tables of docs/design/architecture.md are what the imports say."""
    yield module("tools.architecture_map")


def signatures() -> Iterator[Command]:
    """The signatures and contracts in docs/reference are those of the code."""
    yield module("tools.signatures")


def vocabulary() -> Iterator[Command]:
    """No new word beside those of the glossary, and no new habit that makes text hard to read."""
    yield module("tools.vocabulary")


CHECKS: dict[str, Callable[[], Iterator[Command]]] = {
    "format": formatting,
    "lint": lint,
    "types": types,
    "stubs": stubs,
    "layers": layers,
    "leaks": leaks,
    "wire-syntax": wire_syntax,
    "host-syntax": host_syntax,
    "c-warnings": c_warnings,
    "c-tidy": c_tidy,
    "docs": documentation,
    "map": architecture_map,
    "signatures": signatures,
    "words": vocabulary,
}


def run(name: str) -> bool:
    """Run one check and print how it went."""
    started = time.monotonic()
    outputs: list[str] = []
    commands = 0
    for words, environment in CHECKS[name]():
        commands += 1
        done = subprocess.run(
            words,
            cwd=ROOT,
            env={**os.environ, "NO_COLOR": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        if done.returncode:
            outputs.append(f"$ {' '.join(words)}\n{done.stdout}")
    verdict = "FAILED" if outputs else "ok" if commands else "nothing to check here"
    print(f"{name:12} {verdict}  ({time.monotonic() - started:.1f} s)", flush=True)
    for output in outputs:
        print(output, flush=True)
    return not outputs


def main(names: list[str]) -> int:
    """Run the named checks, or all of them."""
    unknown = set(names) - set(CHECKS)
    if unknown:
        print(f"No such check: {', '.join(sorted(unknown))}. There are: {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    failed = [name for name in names or CHECKS if not run(name)]
    if failed:
        print(f"make check failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
