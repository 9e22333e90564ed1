"""What the tests let contexts start: processes that import this module, which only memory has."""

import multiprocessing
import os

from roamlet_processes_helper import doubled


def work(value):
    import roamlet_processes_lazy

    return doubled(value), roamlet_processes_lazy.value, os.getpid() != os.getppid()


def absent(name):
    try:
        __import__(name)
    except ImportError as error:
        return str(error)
    return None


def mapped(method, values):
    import roamlet_processes_lazy  # noqa: F401 - what is imported here is there

    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(work, values), pool.apply(absent, ("roamlet_never_sent",))


def executed(values):
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return list(executor.map(doubled, values))


def executed_program():
    import subprocess
    import sys

    code = "import roamlet_processes, sys; print(roamlet_processes.doubled(21), sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", code, "a"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.decode()


def executed_with(words, closed=False):
    """The exit code of this Python with these words, and what it prints. `closed`: nothing that it inherits stays open."""
    import subprocess
    import sys

    import roamlet_processes_lazy  # noqa: F401 - what is imported here is there

    more = {"preexec_fn": lambda: os.closerange(3, 300)} if closed else {}
    done = subprocess.run([sys.executable] + words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    return done.returncode, done.stdout.decode()


def executed_after_a_fork():
    """The status of a process that was forked off while another thread made what executed Pythons inherit, and executes one."""
    import signal
    import sys

    executed_with(["-c", "pass"])
    with sys.modules["roamlet.wire.modules.children"]._lock:
        child = os.fork()
        if not child:
            signal.alarm(20)
            executed_with(["-c", "pass"])
            os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
