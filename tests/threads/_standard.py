"""Run tests of the standard library's own, named by the arguments, in this process: started under `python -m roamlet.threads`.

Exit status 77: this Python's package `test` is without these tests.
"""

import importlib
import sys
import threading
import unittest

from roamlet import sync

# Tests that do not pass on our classes, each for a reason that docs/reference/threads.md gives.
EXCLUDED = {
    "test.test_threading.EventTests.test_at_fork_reinit",
    "test.test_threading.MiscTestCase.test__all__",
    "test.test_threading.ThreadTests.test_disallow_instantiation",
    "test.test_threading.CRLockTests.test_signature",
}


def selected(suite: unittest.TestSuite) -> unittest.TestSuite:
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(selected(test))
        elif test.id() not in EXCLUDED:
            kept.addTest(test)
    return kept


def main(names: list[str]) -> int:
    assert threading.Lock is sync.Lock, "this runs under python -m roamlet.threads"
    try:
        for name in names:
            importlib.import_module(".".join(name.split(".")[:2]))
    except ModuleNotFoundError as error:
        print(f"this Python has no {error.name}")
        return 77
    suite = selected(unittest.defaultTestLoader.loadTestsFromNames(names))
    result = unittest.TextTestRunner(sys.stdout, verbosity=0).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
