"""What holds for every test: it runs with the cyclic collector off and leaves nothing behind.

After each test there is one runnable tasklet, and no thread, file descriptor, child process or uncollected object of
roamlet that was not there before. A test that must leave something says what and why:
    @pytest.mark.leaves("fds", reason="the descriptor belongs to a target that is being killed")

A test that does not pass is not judged so, but nothing that it or its fixtures started goes on running: its report names its
tasklets, which are ended, and processes end by tools/supervised.py.
"""

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from roamlet import io
from roamlet.core import backend, mark_service_signal, set_clock, set_deadlock_mode
from tests.certificates import certificates  # noqa: F401 - a fixture for all folders
from tests.leftovers import KINDS, Inventory
from tests.programs import program, python  # noqa: F401 - fixtures for all folders
from tests.tracing import strace  # noqa: F401 - a fixture for all folders
from tools import supervised

BACKENDS = {"native", "greenlet"}

# With "all", those run too that repeat what others show: tools/test_all.sh and `make test-exhaustive` set it.
EVERY_TEST = os.environ.get("ROAMLET_TESTS") == "all"

# The one that is loaded where ROAMLET_SWITCH names none.
USUAL = "native" if importlib.util.find_spec("roamlet.core._native") else "greenlet"

DID_NOT_PASS = pytest.StashKey[bool]()
EXISTED_BEFORE = pytest.StashKey[Inventory]()
RAN_BEFORE = pytest.StashKey[frozenset[supervised.Process]]()

# Processes of fixtures that serve several tests: they outlive one that fails.
of_fixtures: set[supervised.Process] = set()


def _allowed_leftovers(item: pytest.Item) -> frozenset[str]:
    """The kinds of leftovers that the test's `leaves` markers allow; a marker without a reason or kind is an error."""
    allowed: set[str] = set()
    for marker in item.iter_markers("leaves"):
        if not str(marker.kwargs.get("reason", "")).strip() or set(marker.kwargs) != {"reason"}:
            raise pytest.UsageError(f"{item.nodeid}: leaves(...) needs reason='why this cannot be cleaned up'")
        unknown = set(marker.args) - set(KINDS)
        if unknown or not marker.args:
            raise pytest.UsageError(f"{item.nodeid}: leaves{marker.args} must name one or more of {', '.join(KINDS)}")
        allowed.update(marker.args)
    return frozenset(allowed)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check the markers, and leave out what is about other backends and Pythons, and what repeats: they have runs of their own.

    Where nothing would be left, as in one file that is named, the tests are skipped instead, and say why.
    """
    others: dict[pytest.Item, str] = {}
    for item in items:
        _allowed_leftovers(item)
        for marker in item.iter_markers("backends"):
            if set(marker.kwargs) != {"reason"} or not set(marker.args) < BACKENDS or not marker.args:
                raise pytest.UsageError(
                    f"{item.nodeid}: backends{marker.args} must name some of {BACKENDS}, and reason="
                )
            if backend not in marker.args:
                others[item] = f"about {' and '.join(marker.args)} alone: {marker.kwargs['reason']}"
        for name in ("once", "exhaustive"):
            for marker in item.iter_markers(name):
                if set(marker.kwargs) != {"reason"} or marker.args:
                    raise pytest.UsageError(f"{item.nodeid}: {name}() takes reason= alone: what shows the same")
        repeated = item.get_closest_marker("exhaustive") or (backend != USUAL and item.get_closest_marker("once"))
        if repeated and not EVERY_TEST:
            others[item] = f"runs where ROAMLET_TESTS=all: {repeated.kwargs['reason']}"
        for marker in item.iter_markers("pythons"):
            first, last = marker.args  # TypeError or ValueError where it is anything else
            if not marker.kwargs["reason"] or not first <= sys.version_info[:2] <= last:
                others[item] = f"about CPython {first[0]}.{first[1]} to {last[0]}.{last[1]}: {marker.kwargs['reason']}"
    if others and len(others) == len(items):
        for item, reason in others.items():
            item.add_marker(pytest.mark.skip(reason=reason))
    elif others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


def pytest_configure(config: pytest.Config) -> None:
    if sys.version_info >= (3, 15):  # which counts threads of C's, too: pytest's faulthandler has one
        config.addinivalue_line(
            "filterwarnings", "ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"
        )


def pytest_sessionstart() -> None:
    gc.disable()
    # A thread of C's (of pytest's faulthandler, say) is no reason to hang where a test expects a Deadlock; nor in our children.
    os.environ["ROAMLET_DEADLOCK"] = "raise"
    set_deadlock_mode("raise")
    os.environ["ROAMLET_CACHE"] = ""  # nothing of the tests stays in anybody's home
    mark_service_signal(
        signal.SIGALRM
    )  # pytest-timeout's handler ends a test that hangs; it wakes nobody in a deadlock
    # Whoever starts us in the background of a shell has these ignored, and our children would inherit that.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def hub_of_the_main_thread() -> None:
    """The hub's own descriptors stay for the life of the thread: make it before anybody counts."""
    read_end, write_end = os.pipe()
    with pytest.raises(TimeoutError):
        io.wait_readable(read_end, timeout=0)
    os.close(read_end)
    os.close(write_end)


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare what exists before the test and after the tear-down of its own fixtures; fail on what is new.

    Fixtures of a wider scope that the test uses are set up before this one, so what they hold is no leftover.
    """
    allowed = _allowed_leftovers(request.node)
    before = request.node.stash[EXISTED_BEFORE] = Inventory.taken()
    set_clock()  # the calls that let others run now and then count from here, whatever was called before
    yield
    # The traceback of a failed or skipped test keeps its frames, and with them whatever it had: only who passed is judged.
    if request.node.stash.get(DID_NOT_PASS, False):
        before.end_tasklets()
        return
    problems = [text for kind, text in before.what_is_left() if kind not in allowed]
    if problems:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(problems), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main() -> None:
    """Nothing but plugins has been loaded yet."""
    supervised.supervise()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not report.passed:
        item.stash[DID_NOT_PASS] = True
        if EXISTED_BEFORE in item.stash and (tasklets := item.stash[EXISTED_BEFORE].tasklets_since()):
            report.sections.append(("Tasklets that had not ended", "\n".join(map(repr, tasklets))))
    if call.excinfo is not None and str(call.excinfo.value).startswith("Timeout (>"):
        end_what_it_started(item)  # before its fixtures wait for the same processes that it has waited for
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    before = supervised.running()
    value = yield
    of_fixtures.update(supervised.running() - before)
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[RAN_BEFORE] = supervised.running()
    done = yield
    if item.stash.get(DID_NOT_PASS, False):
        end_what_it_started(item)
        if EXISTED_BEFORE in item.stash:
            item.stash[EXISTED_BEFORE].reap_children()
    return done


def end_what_it_started(item: pytest.Item) -> None:
    supervised.end(lambda: supervised.running() - item.stash[RAN_BEFORE] - of_fixtures)


def pytest_report_header() -> list[str]:
    chosen = os.environ.get("ROAMLET_SWITCH") or f"{backend}, the loader's choice"
    return [f"roamlet: switching backend: {chosen}; {sys.executable}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Repeat how the runs beside this one ended (tools/run_tests.py), so that one look at the end shows all of them."""
    if others := os.environ.get("ROAMLET_OTHER_RUNS"):
        for line in Path(others).read_text().splitlines():
            terminalreporter.write_line(line)
