"""That processes end with the test that started them when it does not pass, and with the run in any case."""

import functools
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.docs.blocks import ROOT

# Detached: a child of its own session, whose parent has ended. Its number is read, so it runs when the function returns.
HELPERS = """
import os, pathlib, signal, subprocess, sys
import pytest

DETACHED = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
STAYING = "import os, signal; print(os.getpid(), flush=True); signal.pause()"

def detached(name):
    with subprocess.Popen([sys.executable, "-c", DETACHED, STAYING], stdout=subprocess.PIPE, text=True) as parent:
        pid = parent.stdout.readline().strip()
        parent.stdout.close()
    pathlib.Path(name).write_text(pid)
    assert runs(name)

def runs(name):
    try:
        return " Z " not in pathlib.Path(f"/proc/{pathlib.Path(name).read_text()}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # gone before the file was opened, or before it was read
        return False
"""


@pytest.fixture
def inner(tmp_path):
    """Start pytest in a process of its own on these tests, in their folder, with what the house does for every test."""

    def start(tests):
        (tmp_path / "test_inner.py").write_text(HELPERS + textwrap.dedent(tests))
        words = ["-p", "tests.conftest", "--timeout=100", "-p", "no:cacheprovider", "-q", "--rootdir", str(tmp_path)]
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *words, "test_inner.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=functools.partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # whatever nohup has set
        )

    return start


def ended(process):
    printed, _ = process.communicate(timeout=60)
    return process.returncode, printed


def still_runs(folder, name="pid"):
    return os.path.exists(f"/proc/{(folder / name).read_text()}")


def test_a_test_that_its_time_limit_ends_leaves_nothing_that_runs(inner, tmp_path):
    """Its detached grandchild is gone before the next test begins."""
    status, printed = ended(
        inner("""
            def test_that_hangs():
                detached("pid")
                signal.setitimer(signal.ITIMER_REAL, 0.001)  # pytest-timeout's own timer, which would take longer
                while True:
                    signal.pause()

            def test_next():
                assert not runs("pid")
        """)
    )
    assert (status, "Timeout (>100.0s) from pytest-timeout" in printed) == (1, True), printed
    assert "1 failed, 1 passed" in printed
    assert not still_runs(tmp_path)


def test_a_child_of_a_test_that_fails_is_waited_for(inner):
    status, printed = ended(
        inner("""
            def test_that_fails():
                process = subprocess.Popen([sys.executable, "-c", STAYING], stdout=subprocess.PIPE)
                assert not process.stdout.readline()

            def test_next():
                with pytest.raises(ChildProcessError):
                    os.wait()
        """)
    )
    assert (status, "1 failed, 1 passed" in printed) == (1, True), printed


def test_a_fixture_that_waits_for_what_hangs_is_not_waited_for(inner, tmp_path):
    status, printed = ended(
        inner("""
            @pytest.fixture
            def server():
                with subprocess.Popen([sys.executable, "-c", STAYING], stdout=subprocess.PIPE) as process:
                    yield process  # and closing it waits

            def test_that_hangs(server):
                server.stdout.readline()
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                server.wait()
        """)
    )
    assert (status, "1 failed in" in printed) == (1, True), printed


@pytest.mark.parametrize("scope", ["function", "module", "session"])
def test_a_fixture_that_fails_leaves_nothing_that_runs(inner, tmp_path, scope):
    status, printed = ended(
        inner(f"""
            @pytest.fixture(scope="{scope}")
            def server():
                detached("pid")
                raise OSError("no such machine")

            def test_that_uses_it(server):
                pass

            def test_next():
                assert not runs("pid")
        """)
    )
    assert (status, "1 passed, 1 error" in printed) == (1, True), printed


def test_tasklets_of_a_test_that_fails_are_named_and_do_not_meet_the_next(inner, tmp_path):
    status, printed = ended(
        inner("""
            import roamlet
            from roamlet import core, sync

            def consumer_of_the_failed():
                sync.Queue().get()

            def test_that_fails():
                begun = roamlet.tasklet(consumer_of_the_failed)()
                begun.run()
                roamlet.tasklet(print)("never")
                assert False

            def test_next():
                assert core.started() == []
                assert roamlet.getruncount() == 1
        """)
    )
    assert (status, "1 failed, 1 passed" in printed) == (1, True), printed
    _, _, after = printed.partition("Tasklets that had not ended")
    assert "consumer_of_the_failed" in after and "print" in after, printed
    assert "never" not in printed.replace('("never")', "")


def test_a_server_of_several_tests_outlives_one_that_fails_and_ends_with_the_run(inner, tmp_path):
    status, printed = ended(
        inner("""
            @pytest.fixture(scope="module")
            def server():
                detached("pid")

            def test_that_fails(server):
                detached("mine")
                assert False

            def test_next(server):
                assert runs("pid") and not runs("mine")
        """)
    )
    assert (status, "1 failed, 1 passed" in printed) == (1, True), printed
    assert not still_runs(tmp_path)


def test_pytest_that_ends_at_once_leaves_nothing_that_runs(inner, tmp_path):
    """As faulthandler does where no signal gets through. Its status is the status of the whole."""
    status, printed = ended(
        inner("""
            def test_it():
                detached("pid")
                os._exit(3)
        """)
    )
    assert (status, still_runs(tmp_path)) == (3, False), printed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_from_outside_leaves_nothing_that_runs(inner, tmp_path, number):
    process = inner("""
        def test_it(capsys):
            detached("pid")
            with capsys.disabled():
                print("begun", flush=True)
            signal.pause()
    """)
    while "begun" not in process.stdout.readline():
        pass
    process.send_signal(number)
    assert ended(process)[0] == -number
    assert not still_runs(tmp_path)


def test_what_tidies_up_when_its_parent_has_ended_has_time_for_it(tmp_path):
    """The process that removes a folder when the kernel closes the pipe of the one that made it."""
    (tmp_path / "folder").mkdir()
    program = f"""
        import os, subprocess, sys
        sys.path.insert(0, {str(ROOT)!r})
        from tools.supervised import supervise
        supervise()
        source, target = os.pipe()
        subprocess.Popen(["sh", "-c", 'read end; sleep 0.2; rm -r "$1"', "sh", {str(tmp_path / "folder")!r}], stdin=source)
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], timeout=60, check=False)
    assert done.returncode == 0
    assert not (tmp_path / "folder").exists()
