"""CPython's own tests of futures, from the interpreter's test package, run on roamlet.sync.futures. A script.

Its modules are imported with roamlet's Future in place of the standard one, and given roamlet's functions and a sleep and an Event
that block the tasklet only. Prints how many tests ran.
"""

import concurrent.futures._base
import importlib
import sys
import time
import types
import unittest

import roamlet
from roamlet import core
from roamlet.sync import futures
from roamlet.sync._native import Event

# What is not run, and why.
EXCLUDED = {
    "test_default_workers": "a TaskletExecutor has no limit unless it is given one",
    "test_idle_thread_reuse": "about threads of a pool",
    "test_saturation": "about threads of a pool",
    "test_hang_global_shutdown_lock": "about threads of a pool",
    "test_executor_map_current_future_cancel": "blocks on a lock of threading's that the test has made",
    "test_pending_calls_race": "about threads that race",
    "test_no_stale_references": "blocks the thread in which the call would run",
    "test_swallows_falsey_exceptions": "about the pools of threads and processes",
}

NAMES = ("util", "executor", "test_future", "test_wait", "test_as_completed")


def modules() -> list[types.ModuleType]:
    """CPython's modules; from 3.12 on a package, before that one module."""
    standard = concurrent.futures._base.Future
    concurrent.futures._base.Future = futures.Future
    try:
        package = importlib.import_module("test.test_concurrent_futures")
        if not hasattr(package, "__path__"):
            return [package]
        return [importlib.import_module(f"test.test_concurrent_futures.{name}") for name in NAMES]
    finally:
        concurrent.futures._base.Future = standard


def adapted(found: list[types.ModuleType]) -> dict[str, type]:
    """All classes of the modules, whose functions wait as roamlet does from here on, on a virtual clock: no time passes."""
    now = [1000.0]

    def advance(seconds: float) -> None:
        now[0] += seconds

    core.set_clock(lambda: now[0], advance)
    clock = types.SimpleNamespace(**{**vars(time), "sleep": roamlet.sleep, "monotonic": lambda: now[0]})
    classes: dict[str, type] = {}
    for module in found:
        module.futures = futures
        module.time = clock
        if hasattr(module, "threading"):
            module.threading = types.SimpleNamespace(**{**vars(module.threading), "Event": Event})
        classes.update({name: thing for name, thing in vars(module).items() if isinstance(thing, type)})
    return classes


def suite(classes: dict[str, type]) -> unittest.TestSuite:
    own = {"executor_type": futures.TaskletExecutor, "create_event": lambda self: Event()}
    mixin = type("TaskletMixin", (classes["ExecutorMixin"],), own)
    cases = [classes["FutureTests"]]
    for name in ("WaitTests", "AsCompletedTests", "ExecutorTest"):
        cases.append(type(f"Tasklet{name}", (mixin, classes[name], classes["BaseTestCase"]), {}))
    tests = unittest.TestSuite()
    for case in cases:
        for name in unittest.TestLoader().getTestCaseNames(case):
            if name not in EXCLUDED:
                tests.addTest(case(name))
    return tests


def main() -> None:
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite(adapted(modules())))
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
