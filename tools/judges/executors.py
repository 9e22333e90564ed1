"""`make judges-executor`: tests of others over roamlet.executor and roamlet.joblib.

    python -m tools.judges.executors [--python PYTHON] [cpython|joblib|scikit-learn...]

CPython's own tests of executors; joblib's of Parallel, with the backend "roamlet"; scikit-learn's of n_jobs, with that backend
as joblib's default. Prints a table, and what does not pass; the status is 1 where that is not in EXCEPTIONS, or where one of them
passes.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from tools.judges.__main__ import found_pythons, prepared, version_of
from tools.judges.judging import Run, run_tests
from tools.judges.suites import INSIDE

PLACE = Path(__file__).parent
SKLEARN = [
    "ensemble.tests.test_forest",
    "ensemble.tests.test_bagging",
    "ensemble.tests.test_voting",
    "tests.test_multioutput",
]
SKLEARN += ["model_selection.tests.test_search", "model_selection.tests.test_validation", "tests.test_multiclass"]
SKLEARN += ["linear_model.tests.test_logistic", "feature_selection.tests.test_rfe"]

SUITES: dict[str, tuple[list[str], dict[str, str]]] = {
    "cpython": ([str(PLACE / "inside_executor.py")], {}),
    "joblib": (["-p", "joblib_backend", "-k", "roamlet", "--pyargs", "joblib.test.test_parallel"], {}),
    "scikit-learn": (
        ["-p", "joblib_backend", "-k", "n_jobs or parallel", "--pyargs", *(f"sklearn.{one}" for one in SKLEARN)],
        {"ROAMLET_DEFAULT": "1"},
    ),
}

# By the end of the test's name: why it need not pass.
EXCEPTIONS = {
    "::TestExecutor::test_free_reference": "its result is an object that no data can be made of; with pickle=True it passes",
    "::test_max_workers_negative": "it wants a message with the word max_workers",
    "test_nested_loop[loky-roamlet]": "a process of loky's does not know a backend that was registered here",
    "test_nested_loop[roamlet-roamlet]": "a context does not know a backend that was registered here: nested calls use threads",
    "test_nested_loop[back_compat_backend-roamlet]": "a process of that backend does not know one that was registered here",
}


def _has_tests(python: str) -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('test.test_concurrent_futures') is None)"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def print_run(name: str, run: Run, exceptions: Collection[str]) -> bool:
    """Print its line of the table, and what does not pass; return whether that is what `exceptions` name, and no less."""
    failed = {test: one for test, one in run.outcomes.items() if one.outcome not in ("passed", "skipped")}
    excepted = [test for test in failed if test.endswith(tuple(exceptions))]
    needless = [test for test in run.passed() if test.endswith(tuple(exceptions))]
    skipped = sum(one.outcome == "skipped" for one in run.outcomes.values())
    counts = f"{len(run.passed()):7} {skipped:8} {len(excepted):9} {len(failed) - len(excepted):11}"
    print(f"{name:14} {counts}  {run.seconds:.0f} s", flush=True)
    for test, one in failed.items():
        if test not in excepted:
            last = (one.text.strip().splitlines() or [""])[-1]
            print(f"  {test} {one.outcome}: {last[:200]}")
    for test in needless:
        print(f"  {test} passes: its exception is needless")
    if run.state != "done" or not run.passed():
        print(f"  was not run to its end: {run.text[-500:]}")
    return len(failed) == len(excepted) and not needless and run.state == "done" and bool(run.passed())


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare, run and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.judges.executors", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; by default all")
    parser.add_argument(
        "--python", help="with this Python, 3.11 or later with CPython's own tests; by default the first found"
    )
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.suites} - {*SUITES}):
        parser.error(f"not among {', '.join(SUITES)}: {', '.join(unknown)}")
    pythons = [options.python] if options.python else list(found_pythons())
    python = next((one for one in pythons if version_of(one) is not None and _has_tests(one)), None)
    if python is None:
        print(
            "make judges-executor: no Python >= 3.11 with test.test_concurrent_futures: name one with --python",
            file=sys.stderr,
        )
        return 2
    inside = prepared(python, str(version_of(python)))
    packages = ["joblib>=1.4", "cloudpickle>=3", "scikit-learn>=1.5", "pytest>=8", "pytest-timeout"]
    subprocess.run([inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True)
    status = 0
    print(f"{'suite':14} {'passed':>7} {'skipped':>8} {'excepted':>9} {'unexpected':>11}")
    for name in options.suites or SUITES:
        words, environment = SUITES[name]
        os.environ.update(environment)
        # pytest would read the configuration of this repository.
        run = run_tests([inside], [str(INSIDE), "-c", os.devnull, *words], patch=None, cwd=Path(inside).parents[1])
        if not print_run(name, run, EXCEPTIONS):
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
