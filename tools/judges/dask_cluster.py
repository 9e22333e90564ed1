"""`make judges-dask`: the tests of distributed's own clusters over roamlet.dask.

    python -m tools.judges.dask_cluster [--python PYTHON]

What they call Worker and Nanny is a worker in a context, and LocalCluster a Cluster of roamlet's (dask_workers.py). Prints a table,
and what does not pass; the status is 1 where that is not in EXCEPTIONS, or where one of them passes. The tests are in no
distribution: git clones them.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.judges.executors import print_run
from tools.judges.judging import run_tests
from tools.judges.suites import INSIDE, Suite, prepare

PLACE = Path(__file__).parent
VERSION = "2026.7.1"
FILES = [f"distributed/deploy/tests/test_{name}.py" for name in ("spec_cluster", "cluster", "adaptive")]

SUITE = Suite(
    name="dask",
    source=f"distributed=={VERSION}",
    repository=f"https://github.com/dask/distributed@{VERSION}",
    needs=("pytest-timeout", "cryptography>=42", "flaky"),
    arguments=("-p", "dask_workers", "-o", "addopts=", "-o", "filterwarnings=", "-p", "no:asyncio", *FILES),
)

# By the end of the test's name: why it need not pass.
EXCEPTIONS = {
    "test_spec_cluster.py::test_restart": "a SpecCluster of Dask's replaces no worker without a Nanny; roamlet's Cluster does",
    "test_spec_cluster.py::test_MultiWorker": "its class derives from distributed.Worker, and makes several in one process",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare, run and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.judges.dask_cluster", description=__doc__)
    parser.add_argument(
        "tests", nargs="*", metavar="TEST", help="names of tests, as `pytest -k` takes them; by default all"
    )
    parser.add_argument("--python", default=sys.executable, help="with this Python, 3.11 or later")
    options = parser.parse_args(arguments)
    prepare(SUITE, options.python)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SUITE.sources), str(PLACE)])
    chosen = ["-k", " or ".join(options.tests)] if options.tests else []
    run = run_tests([SUITE.python], [str(INSIDE), *SUITE.arguments, *chosen], patch=None, cwd=SUITE.sources)
    print(f"{'suite':14} {'passed':>7} {'skipped':>8} {'excepted':>9} {'unexpected':>11}")
    return int(not print_run("dask", run, EXCEPTIONS))


if __name__ == "__main__":
    sys.exit(main())
