"""Public packages imported and used from memory on a target that has none of them: what came of it, and what it cost.

Each package is installed into an environment of its own, imported by a parent there, and used once in a bare interpreter. The
table goes to docs/reference/packages.md with ROAMLET_PACKAGES_TABLE=docs/reference/packages.md; ROAMLET_PACKAGES=boto3,flask limits
the run. What fails to install is left out: that is the index's business.
"""

import json
import os
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
SOURCES = str(Path(roamlet.__file__).parents[1])

PARENT = """
import importlib, json, sys, time, warnings
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
    stats = context.stats
    result.update(round_trips=stats.round_trips, bytes=stats.bytes_down, modules=stats.modules)
try:
    result["locally"] = bool(used.use())
except Exception as error:
    result["locally"] = False
print("RESULT" + json.dumps(result))
"""

HEAD = """\
# Public packages from memory

Each of these packages was installed in an environment of the parent's only, imported by the parent, and used by one call in
a bare interpreter of the same Python on the same machine, which has none of it. `tests/soak/packages.py` says what the call does;
`make soak` runs it again. Round trips are those that the import or the call waited for after it was sent; bytes are all that
went to the target, as compressed sources and extension modules.

"""


def installed(folder: Path, package: Package) -> str | None:
    """The interpreter of an environment that has the package, or None."""
    venv.create(folder, symlinks=True)
    python = str(folder / "bin" / "python")
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
        "--disable-pip-version-check",
    ]
    try:
        done = subprocess.run([*command, *package.install.split()], capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None
    return python if done.returncode == 0 else None


def used_in_memory(folder: Path, package: Package) -> dict[str, object] | None:
    """What came of it; None where the package could not be installed, or the parent itself cannot use it."""
    python = installed(folder, package)
    if python is None:
        return None
    (folder / "used.py").write_text("def use():\n" + textwrap.indent(package.body, "    ") + "\n", encoding="utf-8")
    program = folder / "parent.py"
    program.write_text(PARENT.format(sources=SOURCES, imported=package.imported), encoding="utf-8")
    try:
        done = subprocess.run(
            [python, str(program)], capture_output=True, text=True, timeout=LIMIT, check=False, cwd=folder
        )
    except subprocess.TimeoutExpired:
        return {"outcome": f"no end within {LIMIT} s", "round_trips": 0, "bytes": 0, "modules": 0, "locally": True}
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        return {
            "outcome": done.stderr.strip().splitlines()[-1][:200],
            "round_trips": 0,
            "bytes": 0,
            "modules": 0,
            "locally": True,
        }
    result: dict[str, object] = json.loads(lines[-1][len("RESULT") :])
    return result


def table(rows: list[tuple[str, dict[str, object]]]) -> str:
    lines = ["| Package | Outcome | Round trips | MB | Modules |", "|---|---|---:|---:|---:|"]
    for name, row in rows:
        outcome = str(row["outcome"]).replace("|", "\\|")
        lines.append(
            f"| {name} | {outcome} | {row['round_trips']} | {int(str(row['bytes'])) / 1e6:.2f} | {row['modules']} |"
        )
    works = [row for _, row in rows if row["outcome"] == "works"]
    none = sum(row["round_trips"] == 0 for row in works)
    summary = (
        f"\n{len(works)} of {len(rows)} work, {none} of them without a round trip (CPython "
        f"{sys.version_info.major}.{sys.version_info.minor}, versions of packages as installed on the day of the run).\n"
    )
    return HEAD + "\n".join(lines) + "\n" + summary


def test_public_packages_are_imported_and_used_from_memory(tmp_path, told):
    only = os.environ.get("ROAMLET_PACKAGES", "").split(",")
    packages = [one for one in PACKAGES if only == [""] or one.install.split()[0] in only]
    target = os.environ.get("ROAMLET_PACKAGES_TABLE")
    rows = []
    for number, package in enumerate(packages):
        name = package.install.split()[0]
        row = used_in_memory(tmp_path / str(number), package)
        subprocess.run(["rm", "-rf", str(tmp_path / str(number))], check=True)
        told(f"{name}: {row}")
        if row is not None and row["locally"]:
            rows.append((name, row))
            if target:
                Path(target).write_text(table(rows), encoding="utf-8")
    if not rows:
        pytest.skip("no package could be installed: is there an index that pip can reach?")
    works = sum(row["outcome"] == "works" for _, row in rows)
    assert works >= FEWEST * len(rows), table(rows)
