"""`make judges`: tests of others with the stock and the patched standard library.

    python -m tools.judges [--python PYTHON]... [--as-is] [--threads=tasklets] [--json FILE] [--jobs N] [MODULE...|SUITE...]

CPython's own test modules, on each Python >= 3.11 found; then suites of libraries (suites.toml), on the first of these alone.
Each runs in a process of its own, in a network namespace that has `lo` alone (Linux, unshare). Prints a table; the
exit status is 1 when a test that passes stock does not pass patched and is not in exceptions.toml, or a suite could not be fetched;
2 when nothing could be judged.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tools.judges import report
from tools.judges.judging import Verdict, judge, run_module
from tools.judges.suites import chosen, prepare, run_suite, suites
from tools.pythons import candidates
from tools.unpack_debian import CannotUnpack

ROOT = Path(__file__).resolve().parents[2]

MODULES = [
    "test_socket",
    "test_ssl",
    "test_select",
    "test_selectors",
    "test_poll",
    "test_epoll",
    "test_threading",
    "test_queue",
    "test_subprocess",
    "test_httplib",
    "test_urllib2_localnet",
    "test_urllib",
    "test_ftplib",
    "test_smtplib",
    "test_poplib",
    "test_imaplib",
    "test_xmlrpc",
    "test_httpservers",
    "test_socketserver",
    "test_logging",
    "test_sched",
    "test_thread",
    "test_threading_local",
    "test_concurrent_futures",
    "test_asyncio",
]

INSIDE = "ROAMLET_JUDGES_INSIDE"

VERSION_OF = """
import importlib.util, sys
assert sys.version_info >= (3, 11) and "t" not in getattr(sys, "abiflags", "") and importlib.util.find_spec("test.test_threading")
print("%d.%d" % sys.version_info[:2])
"""


def found_pythons() -> Iterator[str]:
    """Paths of interpreters that may do: this one first."""
    yield sys.executable
    yield from map(str, candidates())


def version_of(python: str) -> str | None:
    """Its version, "3.12" for instance; None when it is too old, free-threaded or has no tests."""
    done = subprocess.run([python, "-c", VERSION_OF], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def prepared(python: str, version: str) -> str:
    """The Python of an environment in build/ that has roamlet as it is in this clone, built anew."""
    folder = ROOT / "build" / f"judges-{version}"
    inside = str(folder / "bin" / "python")
    if not Path(inside).exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [inside, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "setuptools>=77"], check=True)
    (folder / "build.cfg").write_text(f"[build]\nbuild_base = {folder}/made\n", "utf-8")
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(folder / "build.cfg")}
    subprocess.run([*pip, "--no-build-isolation", "."], cwd=ROOT, env=environment, check=True)
    return inside


def enter_namespace(words: Sequence[str]) -> None:
    """Run this again in a network namespace without a way out; does not return where that is not so yet."""
    if os.environ.get(INSIDE):
        return
    # A namespace of processes as well: whatever the tests have started ends with the judges.
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    again = [
        *unshare,
        "/bin/sh",
        "-c",
        'ip link set lo up && exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "tools.judges",
        *words,
    ]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        sys.exit("make judges: install util-linux and iproute2: the tests run in a network namespace that has lo alone")
    os.chdir(ROOT)
    os.execvpe(again[0], again, {**os.environ, INSIDE: "1"})


def main() -> int:
    """Parse, prepare, judge and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.judges", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="NAME", help="test_threading or redis, for instance; by default all"
    )
    parser.add_argument(
        "--threads",
        choices=("os", "tasklets"),
        default="os",
        help="what threads are in the patched run (default: %(default)s)",
    )
    parser.add_argument("--python", action="append", default=[], help="judge on this one; may be repeated")
    parser.add_argument("--as-is", action="store_true", help="these Pythons have roamlet already: build nothing")
    parser.add_argument("--json", metavar="FILE", help="write all outcomes to this file")
    parser.add_argument("--jobs", type=int, default=1, help="how many modules at a time (default: %(default)s)")
    parser.add_argument("--without", action="append", default=[], help=argparse.SUPPRESS)  # what could not be prepared
    options = parser.parse_args()
    if unknown := {name for name in options.modules if name.partition(".")[0] not in {*MODULES, *suites()}}:
        parser.error(f"not among the modules and suites that are judged: {', '.join(sorted(unknown))}")

    libraries = [suite for suite in chosen(options.modules) if suite.name not in options.without]
    if options.as_is and (unprepared := [suite.name for suite in libraries if not suite.sources.is_dir()]):
        parser.error(f"{', '.join(unprepared)}: not fetched yet. Leave --as-is out once, with a network")

    pythons: dict[str, str] = {}
    for python in map(os.path.abspath, options.python or found_pythons()):
        version = version_of(python)
        if version is not None and version not in pythons:
            pythons[version] = python
    if not pythons:
        print(
            "make judges: no Python >= 3.11 with CPython's own tests was found: name one with --python", file=sys.stderr
        )
        return 2
    modules = [name for name in options.modules or MODULES if name.partition(".")[0] in MODULES]
    if not options.as_is and not os.environ.get(INSIDE):  # there is no index to install from inside the namespace
        for suite in libraries:
            print(f"preparing {suite.name}", file=sys.stderr, flush=True)
            try:
                prepare(suite, next(iter(pythons.values())))
            except (subprocess.CalledProcessError, CannotUnpack) as error:
                hint = " (git's own url.MIRROR.insteadOf names a mirror)" if suite.repository else ""
                print(f"make judges: {suite.name} is left out: {error}{hint}", file=sys.stderr, flush=True)
                options.without.append(suite.name)
        libraries = [suite for suite in libraries if suite.name not in options.without]
        if modules:
            pythons = {version: prepared(python, version) for version, python in pythons.items()}
    words = [
        *options.modules,
        "--as-is",
        "--threads",
        options.threads,
        "--jobs",
        str(options.jobs),
        *(["--json", options.json] if options.json else []),
        *(f"--without={name}" for name in options.without),
    ]
    enter_namespace([*words, *(word for python in pythons.values() for word in ("--python", python))])

    runners = [
        (version, module, partial(run_module, [python], module))
        for version, python in pythons.items()
        for module in modules
    ]
    runners += [(next(iter(pythons)), suite.name, partial(run_suite, suite)) for suite in libraries]
    patch = [f"--threads={options.threads}"]
    tasks = [
        partial(judge, runner, version, name, report.exceptions(version, threads=options.threads), patch=patch)
        for version, name, runner in runners
    ]
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(lambda task: task(), tasks):
            verdicts.append(verdict)
            print(report.table([verdict]).splitlines()[1], flush=True)
    print(f"\n{report.table(verdicts)}\n{report.details(verdicts)}")
    if options.json:
        Path(options.json).write_text(report.as_json(verdicts), "utf-8")
    for name in options.without:
        print(f"{name} was not judged: it could not be prepared")
    return 1 if options.without or any(each.unexpected() for each in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
