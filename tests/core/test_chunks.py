"""Memory for the Python frames of suspended tasklets: a tasklet starts with as much as those of its function have needed."""

import sys

import pytest

from tests.core._scripts import output_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/statm is Linux's")

MAPPED = """
import resource, roamlet

SOURCE = '''
def deep(self, depth=12):
    if depth:
        deep(self, depth - 1)
    else:
        roamlet.schedule_remove()
'''


def fresh():
    "A function of its own, whose tasklets are suspended with a dozen frames."
    names = {"roamlet": roamlet}
    exec(SOURCE, names)
    return names["deep"]


def mapped(start):
    "How many kB of address space 400 of them take, when some have been seen before."
    def some(count):
        tasklets = []
        for _ in range(count):
            tasklets.append(start())
            roamlet.schedule()
        return tasklets

    def size():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize() // 1024

    kept = some(100)  # CPython's own chunks are kept for others, at most 64 of them
    before = size()
    kept += some(400)
    taken = size() - before
    for each in kept:
        each.kill()
    return taken

"""


@pytest.mark.parametrize(
    "start",
    [
        "function = fresh(); start = lambda: roamlet.spawn(function, (1,))",
        "function = fresh(); start = lambda: roamlet.tasklet(function.__get__(object()))()",
        "function = fresh(); start = lambda: roamlet.spawn(function.__get__(object()))",
    ],
    ids=["spawn", "bound", "spawn_bound"],
)
def test_tasklets_that_run_the_same_function_by_other_callables_start_with_as_much_memory(start: str) -> None:
    plain, other = map(
        int,
        output_of(
            f"{MAPPED}\nfunction_of_plain = fresh()\n"
            "plain = mapped(lambda: roamlet.tasklet(function_of_plain)(1))\n"
            f"{start}\nprint(plain, mapped(start))"
        ).split(),
    )
    assert other < plain + 2000  # a chunk of CPython's for each would be 6,400


def test_the_slot_of_another_class_is_not_read() -> None:
    """The class of the callable has that class's descriptor as its attribute `function`, and its objects end before the slot."""
    printed = output_of(
        """
import roamlet
class Large:
    __slots__ = (*"abcdefgh", "function")
class Small:
    __slots__ = ()
    function = Large.function
    def __call__(self):
        pass
for _ in range(1000):
    roamlet.tasklet(Small())()
roamlet.run()
print("ended")
"""
    )
    assert printed == "ended"
