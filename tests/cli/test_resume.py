"""`roamlet resume`: the job goes on as in its script, and what became of it is the exit code."""

import sys

import pytest

from roamlet.cli import main
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are not saved on this version or backend")

SCRIPT = """
    import sys, roamlet

    counted = 10

    class Thing:
        number = 7

    def job(how):
        global counted
        counted += 1
        thing = globals()["Thing"]() if how == "class" else None  # else nothing mentions it
        resumed = roamlet.checkpoint("job.roamlet")
        if not resumed:
            return
        counted += 1
        if how == "raise":
            raise LookupError("of the job")
        if how == "exit":
            sys.exit(7)
        if how == "words":
            sys.exit("in words")
        if how == "wait":
            roamlet.channel().receive()
        if how == "interrupt":
            raise KeyboardInterrupt
        print(resumed, counted, sys.argv[1:], __name__, thing and (thing.number, type(thing) is globals()["Thing"]))

    if __name__ == "__main__":
        roamlet.tasklet(job)(sys.argv[1])
        roamlet.run()
        print("the script itself")
"""


@pytest.fixture
def saved(program, python):
    """Run the script so, and return the checkpoint's name."""

    def run(how):
        done = python(program(SCRIPT, "elsewhere/job.py"), how, "more")
        assert (done.returncode, done.stdout, done.stderr) == (0, "the script itself\n", "")
        return "job.roamlet"

    return run


def resumed(python, *words):
    done = python("-m", "roamlet", "resume", *words)
    return done.returncode, done.stdout, done.stderr


def test_a_job_goes_on_with_its_globals_its_arguments_and_a_main_of_its_own(saved, python, tmp_path):
    file = saved("function")
    (tmp_path / "elsewhere/job.py").unlink()  # it needs none of it
    assert resumed(python, file) == (0, "True 12 ['function', 'more'] __main__ None\n", "")


def test_classes_are_those_of_the_script_which_is_imported_behind_its_guard(saved, python, tmp_path):
    file = saved("class")
    said = "True 12 ['class', 'more'] __main__ (7, True)\n"
    assert resumed(python, file) == (0, said, "")
    (tmp_path / "elsewhere/job.py").rename(tmp_path / "moved.py")
    code, out, problem = resumed(python, file)
    assert (code, out) == (64, "")
    assert "/job.roamlet: the job needs Thing of its script '" in problem
    assert "which cannot be imported here: FileNotFoundError" in problem
    assert problem.endswith("Name the one to import with --script\n") and problem.count("\n") == 1
    assert resumed(python, "--script", "moved.py", file) == (0, said, "")


@pytest.mark.parametrize(
    ("how", "code", "problem"),
    [
        ("raise", 1, "LookupError: of the job\n"),
        ("exit", 7, ""),
        ("words", 1, "in words\n"),
        ("wait", 1, "waits, and nothing is left that could wake it\n"),
        ("interrupt", 130, "roamlet resume: interrupted\n"),
    ],
)
def test_what_becomes_of_the_job_is_the_exit_code(saved, python, how, code, problem):
    found, out, said = resumed(python, saved(how))
    assert (found, out) == (code, "")
    assert said.endswith(problem) if problem else said == ""
    if how == "raise":
        assert 'elsewhere/job.py", line 18, in job' in said


def test_the_error_of_a_job_that_was_spawned_is_not_lost(program, python):
    script = program("""
        import sys, roamlet
        def job():
            if roamlet.checkpoint("job.roamlet") and sys.argv[1] == "bad":
                raise LookupError("of the job")
        if __name__ == "__main__":
            roamlet.spawn(job).join()
    """)
    assert python(script, "good").returncode == 0
    assert resumed(python, "job.roamlet") == (0, "", "")
    assert python(script, "bad").returncode == 0
    code, _, problem = resumed(python, "job.roamlet")
    assert code == 1 and problem.endswith("LookupError: of the job\n")


def test_a_script_without_a_guard_is_refused_by_name(program, python):
    script = program("""
        import roamlet
        class Thing:
            pass
        def job():
            thing = Thing()
            print("resumed", roamlet.checkpoint("job.roamlet"))
        roamlet.tasklet(job)()
        roamlet.run()
    """)
    assert python(script).stdout == "resumed False\n"
    code, out, problem = resumed(python, "job.roamlet")
    assert (code, out) == (64, "")
    assert 'let it begin under if __name__ == "__main__":' in problem


def test_a_module_that_was_run_with_m_is_found_again(program, python, tmp_path):
    program("""
        import roamlet
        from . import other
        class Thing:
            pass
        def job(thing):
            print(roamlet.checkpoint("job.roamlet"), type(thing) is Thing, other.word)
        if __name__ == "__main__":
            roamlet.tasklet(job)(Thing())
            roamlet.run()
    """, "package/work.py")  # fmt: skip
    program("", "package/__init__.py")
    program("word = 'relative'", "package/other.py")
    assert python("-m", "package.work").stdout == "False True relative\n"
    (tmp_path / "away").mkdir()
    (tmp_path / "job.roamlet").rename(tmp_path / "away/job.roamlet")
    assert resumed(python, "away/job.roamlet") == (0, "True True relative\n", "")


@pytest.mark.parametrize(
    "content", [None, b"", b"foreign\n", b"\x93roamlet\x01\x03"], ids=["none", "empty", "foreign", "cut"]
)
def test_what_is_no_checkpoint_is_said_in_a_line_and_nothing_runs(tmp_path, capsys, content):
    path = tmp_path / "it"
    if content is not None:
        path.write_bytes(content)
    for command in ("resume", "show"):
        assert main([command, str(path)]) == 64
        out, problem = capsys.readouterr()
        assert out == ""
        assert problem.startswith(f"roamlet {command}: {path}: ")
        assert problem.count("\n") == 1


def test_this_process_is_as_it_was_afterwards(saved, tmp_path, capsys, monkeypatch):
    file = saved("function")
    monkeypatch.chdir(tmp_path)
    before = sys.modules["__main__"], sys.argv, sys.path[:]
    assert main(["resume", file]) == 0
    assert (sys.modules["__main__"], sys.argv, sys.path) == before
    assert capsys.readouterr().out == "True 12 ['function', 'more'] __main__ None\n"
