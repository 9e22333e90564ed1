"""Code by reference, checked by its fingerprint; by value where that was asked for; what happens where it is another."""

import gc
import subprocess
import sys
import textwrap

import pytest

from roamlet.snapshot.references import code
from tests.snapshot._driving import ROOT

WORK = """
    import sys

    SCALE = 10

    def scaled(value):
        return value * SCALE

    def work(ch, out):
        for number in ch:
            out.append(scaled(number))
"""

SAVE = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import roamlet, job
    from roamlet import snapshot
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(job.work)(ch, out)
    ch.send(1)
    open(sys.argv[2], "wb").write(snapshot.dumps((ch, out), by_value=sys.argv[3:]))
"""

LOAD = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from roamlet import snapshot
    try:
        ch, out = snapshot.loads(open(sys.argv[2], "rb").read())
    except snapshot.BadSnapshot as error:
        print(error)
    else:
        ch.send(2)
        print(out)
"""


@pytest.fixture
def run(tmp_path):
    def run(script, *arguments):
        done = subprocess.run(
            [sys.executable, "-B", "-c", textwrap.dedent(script), *map(str, arguments)],
            capture_output=True, text=True, cwd=ROOT, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def module(tmp_path):
    """Write job.py in a folder of this name; its path."""

    def write(folder, text):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "job.py").write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path / folder

    return write


def test_the_same_code_elsewhere_with_other_comments_and_lines_is_the_same(run, module, tmp_path):
    here, there = module("here", WORK), module("there", "# moved\n\n\n" + textwrap.dedent(WORK))
    run(SAVE, here, tmp_path / "data")
    assert run(LOAD, there, tmp_path / "data") == "[10, 20]"


def test_another_version_of_a_module_is_refused_by_the_name_of_the_function(run, module, tmp_path):
    here, there = module("here", WORK), module("there", WORK.replace("for number in ch", "for number in iter(ch)"))
    run(SAVE, here, tmp_path / "data")
    said = run(LOAD, there, tmp_path / "data")
    assert "job.work is another version here" in said
    assert str(there / "job.py") in said


def test_a_function_that_is_gone_is_named(run, module, tmp_path):
    here, there = module("here", WORK), module("there", "SCALE = 1\n")
    run(SAVE, here, tmp_path / "data")
    assert "job.work does not exist here" in run(LOAD, there, tmp_path / "data")


def test_a_module_that_is_missing_is_named_with_the_way_out(run, module, tmp_path):
    run(SAVE, module("here", WORK), tmp_path / "data")
    said = run(LOAD, tmp_path, tmp_path / "data")
    assert "the snapshot needs the module 'job', for work" in said
    assert "by_value=['job']" in said


def test_a_module_by_value_is_not_needed(run, module, tmp_path):
    run(SAVE, module("here", WORK), tmp_path / "data", "job")
    assert run(LOAD, tmp_path, tmp_path / "data") == "[10, 20]"


def test_main_travels_by_value_with_the_globals_it_uses(run, tmp_path):
    script = """
        import sys, roamlet
        from roamlet import snapshot
        FACTOR = 3
        UNUSED = sys.stdin
        def times(value):
            return value * FACTOR
        def work(ch, out):
            add = lambda value: out.append(times(value))
            for number in ch:
                add(number)
        ch, out = roamlet.channel(), []
        tasklet = roamlet.tasklet(work)(ch, out)
        ch.send(1)
        open(sys.argv[1], "wb").write(snapshot.dumps((ch, out)))
    """
    run(script, tmp_path / "data")
    assert run(LOAD, tmp_path, tmp_path / "data") == "[3, 6]"


def test_fingerprints_do_not_keep_code():
    space = {}
    exec("def function():\n    return 1", space)
    code.fingerprint(space["function"].__code__)
    before = len(code._fingerprints)
    space.clear()
    gc.collect()
    assert len(code._fingerprints) == before - 1


def test_what_code_does_decides_its_fingerprint():
    def of(text):
        space = {}
        exec(text, space)
        return code.fingerprint(space["f"].__code__)

    same = ["def f(a): return a + 1", "\n\n# a comment\ndef f(a):\n    return a + 1"]
    other = ["def f(a): return a + 2", "def f(b): return b + 1", "def f(a): return a + 1.0", "def f(a, b=1): return a + 1",
             "def f(a): return a in {1, 2}", "def f(a): return a in {1, 3}"]  # fmt: skip
    assert len({of(each) for each in same}) == 1
    assert len({of(each) for each in [*same, *other]}) == 1 + len(other)


TWICE = """
    import functools

    def says(tag):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(ch, out):
                for _ in range(2):
                    out.append(tag)
                    function(ch, out)
            return wrapper
        return decorate

    @says("outer")
    @says("inner")
    def work(ch, out):
        out.append(ch.receive())
"""


def test_two_uses_of_one_decorator_are_told_apart(run, tmp_path):
    (tmp_path / "job.py").write_text(textwrap.dedent(TWICE))
    run(SAVE, tmp_path, tmp_path / "saved")
    script = LOAD.replace("ch.send(2)", "[ch.send(number) for number in (2, 3, 4)]")
    out = run(script, tmp_path, tmp_path / "saved")
    assert out == "['outer', 'inner', 1, 'inner', 2, 'outer', 'inner', 3, 'inner', 4]"


def test_another_number_of_uses_is_another_version(run, tmp_path):
    (tmp_path / "job.py").write_text(textwrap.dedent(TWICE))
    run(SAVE, tmp_path, tmp_path / "saved")
    (tmp_path / "job.py").write_text(textwrap.dedent(TWICE).replace('@says("inner")\n', ""))
    said = run(LOAD, tmp_path, tmp_path / "saved")
    assert "job.work was wrapped 2 times by one decorator where it was saved, and is wrapped once here" in said


LAZY = """
    def work(ch, out):
        space = {}
        exec(compile("def work(ch, out):\\n    for number in ch:\\n        out.append(number)\\n", "<made of work>", "exec"), space)
        work.__code__ = space["work"].__code__
        return work(ch, out)
"""


def test_code_that_is_made_at_the_first_call_is_refused_where_it_has_not_been(run, tmp_path):
    (tmp_path / "job.py").write_text(textwrap.dedent(LAZY))
    twice = "ch.close(); roamlet.run(); ch.open(); tasklet = roamlet.tasklet(job.work)(ch, out); ch.send(1)"
    run(SAVE.replace("ch.send(1)", twice), tmp_path, tmp_path / "saved")
    said = run(LOAD, tmp_path, tmp_path / "saved")
    assert said == (
        "job.work had code that was made while the program ran (<made of work>), as libraries do that compile a function when "
        "it is "
        "first called, and has other code here. Call it once in this process, and restore the snapshot then"
    )
    called = LOAD.replace(
        "    try:\n",
        "    import job, roamlet\n    first = roamlet.channel()\n    first.close()\n    job.work(first, [])\n    try:\n",
        1,
    )
    assert run(called, tmp_path, tmp_path / "saved") == "[1, 2]"
