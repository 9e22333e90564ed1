"""Public packages imported and used from memory on a target that has none of them: what came of it, and what it cost.

Each package is installed into an environment of its own, imported by a parent there, and used once in a bare interpreter. The
table goes to docs/reference/packages.md with ROAMLET_PACKAGES_TABLE=docs/reference/packages.md. ROAMLET_PACKAGES=boto3,flask limits
the run, ROAMLET_PACKAGES=missing to those without a row in that table. Rows of packages that a run does not try are kept, so that
the table can be made in slices. What fails to install, or fails in the parent itself, gets no row, and is told.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

import roamlet
from tests.soak.packages import PACKAGES, Package

pytestmark = [pytest.mark.soak, pytest.mark.timeout(6 * 3600)]

LIMIT = 300  # seconds for each step with one package
FEWEST = 0.85  # of the packages that could be installed and used by the parent itself
NOTHING = {"round_trips": 0, "bytes": 0, "modules": 0}
SOURCES = str(Path(roamlet.__file__).parents[1])

PARENT = """
import importlib, json, sys, traceback, warnings
warnings.simplefilter("ignore")
sys.path.append({sources!r})
import used
importlib.import_module({imported!r})
from roamlet import remote
result = {{"outcome": "wrong answer", "round_trips": 0, "bytes": 0, "modules": 0}}
policy = remote.Modules(prefer="parent", bytecode=False, compression="zlib")
with remote.local(python=getattr(sys, "_base_executable", sys.executable), modules=policy) as context:
    try:
        if context.call(used.use):
            result["outcome"] = "works"
    except Exception as error:
        result["outcome"] = type(error).__name__ + ": " + str(error).split("\\n")[0][:300]
        result["told"] = repr(error) + "".join(traceback.format_exception(error))
    stats = context.stats
    result.update(round_trips=stats.round_trips, bytes=stats.bytes_down, modules=stats.modules)
try:
    result["locally"] = bool(used.use())
except Exception as error:
    result["locally"] = False
    result["told"] = "in the parent: " + repr(error)
print("RESULT" + json.dumps(result))
"""

HEAD = """\
# Public packages from memory

Each of these packages was installed in an environment of the parent's only, imported by the parent, and used by one call in
a bare interpreter of the same Python on the same machine, which has none of it. `tests/soak/packages.py` says what the call does;
`make soak` runs it again. Round trips are those that the import or the call waited for after it was sent; bytes are all that
went to the target, as compressed sources and extension modules.

"""


def installed(folder: Path, package: Package) -> str:
    """Make an environment that has the package; return what went wrong, or an empty text."""
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    options = ["--only-binary", ":all:", "--disable-pip-version-check", *package.install.split()]
    try:
        done = subprocess.run([*pip, *options], capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s"
    return "" if done.returncode == 0 else done.stderr.strip()


def used_in_memory(folder: Path, package: Package) -> dict[str, object]:
    """What came of it; "locally" is false where it could not be installed, or the parent itself cannot use it."""
    failed = installed(folder, package)
    if failed:
        return {**NOTHING, "outcome": "not installed", "told": failed, "locally": False}
    (folder / "used.py").write_text("def use():\n" + textwrap.indent(package.body, "    ") + "\n", encoding="utf-8")
    program = folder / "parent.py"
    program.write_text(PARENT.format(sources=SOURCES, imported=package.imported), encoding="utf-8")
    command = [str(folder / "bin" / "python"), str(program)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        return {**NOTHING, "outcome": f"no end within {LIMIT} s", "locally": True}
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        said = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        return {**NOTHING, "outcome": said[-1][:200], "told": done.stderr, "locally": True}
    result: dict[str, object] = json.loads(lines[-1][len("RESULT") :])
    result["outcome"] = re.sub(r"(?<![\w/])(/[^\s/'\":]+)+/", ".../", str(result["outcome"]))  # no path of this machine
    return result


def row_of(name: str, result: dict[str, object]) -> str:
    outcome = str(result["outcome"]).replace("|", "\\|")
    megabytes = int(str(result["bytes"])) / 1e6
    return f"| {name} | {outcome} | {result['round_trips']} | {megabytes:.2f} | {result['modules']} |"


def rows_in(page: Path) -> dict[str, str]:
    """The rows of a table that was made before, by package."""
    names = {package.install.split()[0] for package in PACKAGES}
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    return {name: line for line in lines if line.startswith("| ") and (name := line.split(" | ")[0][2:]) in names}


def page_of(rows: dict[str, str], after: str) -> str:
    """The page with these rows, in the order of the list, and what stood after the table."""
    names = [package.install.split()[0] for package in PACKAGES]
    lines = ["| Package | Outcome | Round trips | MB | Modules |", "|---|---|---:|---:|---:|"]
    lines += [rows[name] for name in names if name in rows]
    works = [row for row in rows.values() if " | works | " in row]
    none = sum(" | works | 0 | " in row for row in works)
    summary = (
        f"\n{len(works)} of {len(rows)} work, {none} of them without a round trip (CPython "
        f"{sys.version_info.major}.{sys.version_info.minor}, versions of packages as installed on the day of the run).\n"
    )
    return HEAD + "\n".join(lines) + "\n" + summary + after


def after_table(page: Path) -> str:
    """What a page says after the summary of its table, by hand."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return text.partition("on the day of the run).\n")[2]


def test_public_packages_are_imported_and_used_from_memory(tmp_path, told):
    page = Path(os.environ.get("ROAMLET_PACKAGES_TABLE") or tmp_path / "packages.md")
    only = os.environ.get("ROAMLET_PACKAGES", "")
    rows = rows_in(page)
    tried = []
    for number, package in enumerate(PACKAGES):
        name = package.install.split()[0]
        if name in rows if only == "missing" else only and name not in only.split(","):
            continue
        folder = tmp_path / str(number)
        result = used_in_memory(folder, package)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        told(f"{name}: {result}")
        if result["locally"]:
            tried.append(result["outcome"] == "works")
            rows[name] = row_of(name, result)
            page.write_text(page_of(rows, after_table(page)), encoding="utf-8")
    if not tried:
        pytest.skip("no package could be installed: is there an index that pip can reach?")
    assert sum(tried) >= FEWEST * len(tried), page.read_text(encoding="utf-8")
