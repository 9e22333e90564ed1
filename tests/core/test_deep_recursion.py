"""Recursion without end, in Python and in C: in a tasklet it ends as it does on a plain thread, also on a small one.

How deep one may go depends on the stack that CPython takes for granted. On a thread with 256 kB CPython itself crashes in
most kinds of recursion in C before 3.14; there a tasklet must be no worse, and one with a stack of its own fares better.

From 3.14 on CPython measures the stack, and a tasklet may have less of it than its thread. So what just fits on the thread may end
in an error in a tasklet.
"""

import re
import sys
from functools import cache

import pytest

from roamlet import core
from tests.core._scripts import output_of, run_script

KINDS = {
    "python": """
        def recurse(depth):
            return recurse(depth + 1)
        body = lambda: recurse(0)
    """,
    "python beyond the usual limit": """
        sys.setrecursionlimit(50_000)
        def recurse(depth):
            return recurse(depth + 1)
        body = lambda: recurse(0)
    """,
    "map": """
        def recurse(depth):
            list(map(recurse, (depth + 1,)))
        body = lambda: recurse(0)
    """,
    "sort keys": """
        class K:
            def __init__(self, depth):
                sorted([1, 2], key=lambda x: K(depth + 1) and x)
        body = lambda: K(0)
    """,
    "attributes": """
        class A:
            def __getattr__(self, name):
                return getattr(self, name)
        body = lambda: A().name
    """,
    "comparison": """
        class A:
            def __eq__(self, other):
                return A() == other
            __hash__ = None
        body = lambda: A() == 3
    """,
    "repr": """
        value = nested_list()
        body = lambda: repr(value)
    """,
    "lists compared": """
        one, other = nested_list(), nested_list()
        body = lambda: one == other
    """,
    "json written": """
        import json
        value = nested_list()
        body = lambda: json.dumps(value)
    """,
    "json read": """
        import json
        body = lambda: json.loads("[" * 100_000 + "]" * 100_000)
    """,
    "pickle": """
        import pickle
        value = nested_list()
        body = lambda: pickle.dumps(value)
    """,
    "copy": """
        import copy
        value = nested_list()
        body = lambda: copy.deepcopy(value)
    """,
    "parentheses parsed": """
        import ast
        body = lambda: ast.parse("(" * 190 + "1" + ")" * 190)
    """,
    "fewer parentheses parsed": """
        import ast
        body = lambda: ast.parse("(" * 100 + "1" + ")" * 100)
    """,
    "operators parsed": """
        import ast
        body = lambda: ast.parse("-" * 100_000 + "1")
    """,
    "attributes compiled": """
        body = lambda: compile("a" + ".b" * 100_000, "x", "eval")
    """,
    "pattern compiled": """
        import re
        body = lambda: re.compile("(" * 5000 + ")" * 5000)
    """,
    "list dropped": """
        value = [nested_list() for _ in range(3)]
        body = lambda: value.pop()
    """,
}

# Three times in a row, with switches in between, and beside others that do the same: what one leaves behind, the next meets.
SCRIPT = """
import resource, sys, textwrap, threading
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def nested_list():
    value = []
    for _ in range(100_000):
        value = [value]
    return value

names = {{"sys": sys, "nested_list": nested_list}}
exec(textwrap.dedent({kind!r}), names)
body, ended = names["body"], []

def once():
    try:
        body()
        ended.append("no error")
    except (RecursionError, MemoryError, SyntaxError) as error:
        ended.append(type(error).__name__)

def plain():
    for _ in range(3):
        once()

def tasklets():
    import roamlet
    def function():
        roamlet.schedule()
        once()
        roamlet.schedule()
    for _ in range(3):
        roamlet.tasklet(function)()
    roamlet.run()

def run_on_thread(function, size):
    threading.stack_size(size)
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()

if {size}:
    run_on_thread({way}, {size})
else:
    {way}()
print(len(ended), *sorted(set(ended)))
"""

SMALL_THREAD = 262_144
OWN_STACK = 8_192  # bytes of its thread's stack that roamlet's own frames may take, below those of the tasklet


@cache
def outcome(kind, way, size):
    """How the three ended, or None when the process crashed."""
    done = run_script(SCRIPT.format(kind=KINDS[kind], way=way, size=size))
    if done.returncode < 0:
        return None
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def allowed(expected):
    """How a tasklet may end what ends so on its thread."""
    less_stack = (
        {"3 RecursionError", "3 MemoryError"} if sys.version_info >= (3, 14) and expected == "3 no error" else set()
    )
    return {expected, *less_stack}


@pytest.mark.parametrize("kind", KINDS)
def test_recursion_ends_as_it_does_without_tasklets(kind):
    found = outcome(kind, "tasklets", 0)
    assert re.fullmatch(r"3( no error)?( \w+Error)*", found or "crashed")
    assert found in allowed(outcome(kind, "plain", 0))


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_small_thread_tasklets_are_no_worse_than_the_thread(kind):
    found, expected = outcome(kind, "tasklets", SMALL_THREAD), outcome(kind, "plain", SMALL_THREAD)
    if core.backend == "native":
        assert found in allowed(outcome(kind, "plain", 0))
    elif None in (expected, outcome(kind, "plain", SMALL_THREAD - OWN_STACK)):
        # CPython itself crashes here: a tasklet may too, or end as it does with more stack
        assert found is None or re.fullmatch(r"3( no error)?( \w+Error)*", found)
    else:
        assert found in allowed(expected)


@pytest.mark.parametrize("size", [0, SMALL_THREAD])
def test_tasklets_suspended_deep_below_c_calls_go_on(size):
    """Each switches on every level of its way down and up; on the small thread within what its stack holds."""
    printed = output_of(f"""
        import threading, roamlet
        def recurse(depth, log):
            roamlet.schedule()
            if depth:
                next(map(lambda _: recurse(depth - 1, log), (1,)))
            roamlet.schedule()
            log.append(depth)
        def body():
            logs = [[] for _ in range(10)]
            for number, log in enumerate(logs):
                roamlet.tasklet(recurse)(20 + number * 5, log)
            roamlet.run()
            print([log == list(range(21 + number * 5)) for number, log in enumerate(logs)])
        threading.stack_size({size})
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    """)
    assert printed == str([True] * 10)
