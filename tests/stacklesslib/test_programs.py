"""stacklesslib for old programs: its modules do what programs expect of them, on roamlet's own locks, time-outs and workers."""

import subprocess
import sys
import textwrap

import pytest

from roamlet.stackless._path.stacklesslib import app, base, errors, events, futures, locks, main, threadpool, util, wait


def test_an_old_program_runs_with_its_main_loop_locks_and_threads(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import stackless
            import stacklesslib.app, stacklesslib.events, stacklesslib.main, stacklesslib.wait
            from stacklesslib.app import sleep
            from stacklesslib.futures import tasklet_executor
            from stacklesslib.locks import Condition, Event, Lock
            from stacklesslib.main import mainloop
            from stacklesslib.threadpool import call_on_thread
            from stacklesslib.util import atomic, call_async, tasklet_call, timeout

            lock, ready = Lock(), Event()

            def first():
                with lock:
                    sleep(0.01)
                    print("first", call_on_thread(lambda: 6 * 7))
                ready.set()

            def second():
                with lock:
                    print("second", call_async(lambda: "asynchronous"))
                ready.wait()
                try:
                    with timeout(0.001):
                        stackless.channel().receive()
                except stacklesslib.errors.TimeoutError as error:
                    print(error)
                print(tasklet_executor.submit(max, 1, 2).result())
                mainloop.stop()

            def failing():
                raise ZeroDivisionError("told, and the others go on")

            stacklesslib.app.install_stackless()
            for function in first, second, failing:
                stackless.tasklet(function)()
            mainloop.run()
            """
        )
    )
    command = [sys.executable, "-W", "error", "-m", "roamlet.stackless", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["first 42", "second asynchronous", "timed out after 0.001s", "2"]
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: told, and the others go on"


@pytest.mark.parametrize("module", [app, base, errors, events, futures, locks, main, threadpool, util, wait])
def test_every_name_that_a_module_lists_is_there(module):
    names = getattr(module, "__all__", [])
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("name", ["ValueEvent", "call_on_thread", "released"])
def test_names_are_still_where_older_versions_had_them(name):
    assert getattr(util, name) in (locks.ValueEvent, threadpool.call_on_thread, locks.released)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = util.nonsense
