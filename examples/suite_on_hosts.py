"""The tests of a project, shared out among hosts where it is not installed.

    python examples/suite_on_hosts.py FOLDER [HOST...]

Each module `test_*.py` of FOLDER, written for unittest, runs on the host that is free; it travels with what it imports. A host is
a name for ssh; without one, two interpreters of this machine run the tests. The exit code is 1 when a test failed or a module did
not run. For a suite of pytest's: `pytest -d --tx '4*roamlet//ssh=alpha'`.
"""

import contextlib
import io
import sys
import unittest
from pathlib import Path

from roamlet import remote


def run(module):
    """Runs on a host: how many tests the module has, and what was said of those that failed."""
    said = io.StringIO()
    result = unittest.TextTestRunner(stream=said).run(unittest.defaultTestLoader.loadTestsFromName(module))
    return result.testsRun, [f"{test}\n{text}" for test, text in result.failures + result.errors]


def main():
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_dir():
        print("usage: suite_on_hosts.py FOLDER [HOST...]", file=sys.stderr)
        return 2
    folder, *hosts = sys.argv[1:]
    sys.path.insert(0, folder)  # contexts import from where this process does
    modules = sorted(path.stem for path in Path(folder).glob("test_*.py"))
    opened = remote.open_all(hosts or [remote.local, remote.local])
    for result in opened.failed:
        print(f"{result.host}: {result.error}", file=sys.stderr)
    tests = failed = 0
    with contextlib.ExitStack() as stack:
        contexts = [stack.enter_context(context) for context in opened.contexts]
        for result in remote.map(run, modules, over=contexts, timeout=600) if contexts else []:
            if result.error is not None:
                failed += 1
                print(f"{result.item}: did not run on {result.host}: {result.error}")
                continue
            count, failures = result.value
            tests, failed = tests + count, failed + len(failures)
            print(
                f"{result.item}: {count} tests on {result.host}, {len(failures)} failed, {result.seconds:.1f} s",
                flush=True,
            )
            for text in failures:
                print(text)
    print(f"{tests} tests of {len(modules)} modules on {len(contexts)} hosts, {failed} failed")
    return 1 if failed or opened.failed or not contexts else 0


if __name__ == "__main__":
    sys.exit(main())
