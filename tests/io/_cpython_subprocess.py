"""CPython's own tests of subprocess, from the interpreter's test package, run on roamlet.io.subprocess. A script.

Prints how many tests ran.
"""

import contextlib
import subprocess
import sys
import types
import unittest

import roamlet.io

# What is not run, and why.
EXCLUDED = {
    "test__use_vfork": "replaces a private function of the standard module's",
    "test_preexec_errpipe_does_not_double_close_pipes": "replaces a private method of the standard module's",
    "test_communicate_BrokenPipeError_stdin_close": "puts a mock in place of a pipe",
    "test_communicate_BrokenPipeError_stdin_close_with_timeout": "puts a mock in place of a pipe",
    "test_communicate_BrokenPipeError_stdin_write": "puts a mock in place of a pipe",
    "test_stopped": "replaces os.waitpid",
    "test_wait_timeout": "about how the standard module waits",
}
CASES = ("ProcessTestCase", "RunFuncTestCase", "POSIXProcessTestCase", "ContextManagerTests")


def main() -> None:
    import test.test_subprocess as tests  # not at the top: it is large, and `test` may be another one then

    ours = types.ModuleType("subprocess")
    vars(ours).update(vars(subprocess))
    vars(ours).update({name: getattr(roamlet.io.subprocess, name) for name in roamlet.io.subprocess.__all__})
    tests.subprocess = ours
    # Some tests close descriptors by number behind everybody's back: the hub's must not be made where one of those was.
    reader, writer = roamlet.io.pipe()
    with reader, writer, contextlib.suppress(TimeoutError):
        roamlet.io.wait_readable(reader.fileno(), 0.001)
    suite = unittest.TestSuite()
    for case in (getattr(tests, name) for name in CASES):
        for name in unittest.TestLoader().getTestCaseNames(case):
            if name not in EXCLUDED:
                suite.addTest(case(name))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
