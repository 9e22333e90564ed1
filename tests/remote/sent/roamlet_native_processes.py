"""What the tests let contexts start: processes that import extension modules, which only memory has."""

import multiprocessing
import os


def work(name):
    module = __import__(name, None, None, ["answer"])
    return module.answer(), os.getpid()


def where(name):
    return __import__(name, None, None, ["answer"]).__spec__.origin


def problem(name):
    try:
        work(name)
    except ImportError as error:
        return str(error)
    return None


def load(names):
    return [work(name)[0] for name in names]


def pooled(method, function, names):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return [pool.apply(globals()[function], (name,)) for name in names]


def closed_there(name):
    """The problem of a process whose parent has closed what it had."""
    for number in os.listdir("/proc/self/fd"):
        place = "/proc/self/fd/" + number
        if os.path.islink(place) and "memfd:roamlet-" in os.readlink(place):
            os.close(int(number))
    return pooled("spawn", "problem", [name])[0]


PROGRAM = """
import sys
from native import chained
from package_in_c import plain
print(chained.answer(), plain.value, sys.argv[1:], __name__, sorted(set(globals()) - {"__annotations__", "__cached__"}))
"""


def executed(words, **options):
    """What this Python prints when it is executed with these words."""
    import subprocess
    import sys

    from native import chained
    from package_in_c import plain

    assert (chained.answer(), plain.value) == (47, 45)
    done = subprocess.run(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, input=b"print(6 * 7)", **options
    )
    return done.stdout.decode()


def executed_often(number):
    """How many files in memory that takes, and whether one that was closed by the program is made anew."""
    from native import chained

    assert chained.answer() == 47
    code = "import package_in_c; print(package_in_c.answer())"
    printed = [executed(["-c", code]) for _ in range(number)]
    ours = [one for one in os.listdir("/proc/self/fd") if is_state(one)]
    with open("/dev/null") as taken:
        for one in ours:
            os.dup2(taken.fileno(), int(one))
    try:
        return {*printed, executed(["-c", code])}, len(ours)
    finally:
        for one in ours:
            os.close(int(one))


def is_state(number):
    try:
        return "memfd:roamlet-modules" in os.readlink("/proc/self/fd/" + number)
    except OSError:
        return False


def executed_twice():
    """A program that executes another one."""
    code = "import roamlet_native_processes as one; print(one.executed(['-c', one.PROGRAM, 'inner']), end='')"
    return executed(["-c", code])


def says_what_it_is():
    from native import chained

    print(chained.answer(), __name__)


if __name__ == "__main__":
    import sys

    says_what_it_is()
    print(sys.argv[1:])
