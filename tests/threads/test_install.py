"""roamlet.threads: the classes of roamlet.sync under other names, and in threading and queue while they are installed."""

import queue
import threading

import pytest

from roamlet import sync, threads
from roamlet.threads._install import NAMES
from tests.core._scripts import output_of


def test_each_class_is_the_one_of_roamlet_sync():
    for name in threads.__all__:
        if name not in ("install", "uninstall"):
            assert getattr(threads, name) is getattr(sync, name)
    # Threads of the operating system have a threading.local of their own.
    assert set(sync.__all__) - set(threads.__all__) <= {"critical_section", "local"} | {
        name for name in sync.__all__ if not hasattr(threading, name) and not hasattr(queue, name)
    }


@pytest.fixture
def installed():
    threads.install()
    yield
    threads.uninstall()


def test_install_replaces_what_is_listed_and_uninstall_puts_it_back():
    before = {(module, name): getattr(module, name) for module, names in NAMES.items() for name in names}
    threads.install()
    threads.install()
    try:
        for module, name in before:
            assert getattr(module, name) is getattr(threads, name)
    finally:
        threads.uninstall()
    threads.uninstall()
    assert before == {(module, name): getattr(module, name) for module, name in before}


def test_threads_and_timers_of_threading_use_ours_while_they_are_installed(installed):
    log = []
    thread = threading.Thread(target=lambda: log.append(threading.current_thread().name), name="ours")
    assert type(thread._started) is sync.Event
    thread.start()
    thread.join()
    timer = threading.Timer(0, log.append, ["timer"])
    timer.start()
    timer.join()
    assert log == ["ours", "timer"]
    barrier = threading.Barrier(1)
    assert (barrier.wait(), queue.Queue().qsize(), threading.Condition().acquire()) == (0, 0, True)


def test_a_wait_without_a_time_out_is_no_deadlock_while_they_are_installed():
    # Ctrl-C ends it, as it ends any program that waits so; without install() it is a Deadlock.
    assert output_of("""
        import os, signal, subprocess, sys, threading, time
        import roamlet.threads
        try:
            roamlet.threads.Event().wait()
        except roamlet.Deadlock:
            print("deadlock")
        roamlet.threads.install()
        own = os.getpid()
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -INT {own}"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("interrupted")
        killer.wait()
    """).splitlines() == ["deadlock", "interrupted"]
