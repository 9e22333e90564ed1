"""`roamlet trace`: a program is run as Python would, and what it did is written."""

import json
import sys

import pytest

WORKS = """\
    import roamlet, sys

    def sender():
        channel.send(sys.argv[1])

    channel = roamlet.channel()
    roamlet.tasklet(sender)()
    print(__name__, channel.receive(), sys.modules["__main__"].channel is channel)
    """


@pytest.fixture
def trace(python, tmp_path):
    def run(*words):
        return python("-c", "import sys; from roamlet.cli import main; sys.exit(main())", "trace", *words)

    return run


def test_a_script_is_run_and_its_trace_written(trace, program, tmp_path):
    done = trace(program(WORKS), "hello")
    assert (done.returncode, done.stdout) == (0, "__main__ hello True\n")
    assert done.stderr.startswith("this process: ")
    assert done.stderr.endswith("written: trace.json\n")
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"]["messages"] == 1


def test_options_after_the_script_are_the_script_s(trace, program, tmp_path):
    done = trace("-q", "--html", program(WORKS), "-o", "elsewhere.json", "--html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "__main__ -o True\n", "")
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".py"] == ["trace.html"]


def test_several_forms(trace, program, tmp_path):
    done = trace("-q", "-o", "a.json", "-o", "b.speedscope.json", "--html", program(WORKS), "x")
    assert done.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"program.py", "a.json", "b.speedscope.json", "a.html"}


def test_a_module(trace, program, tmp_path):
    program(WORKS, "package/work.py")
    program("", "package/__init__.py")
    done = trace("-q", "-m", "package.work", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "__main__ hello True\n", "")
    assert (tmp_path / "trace.json").exists()


def test_a_script_that_fails(trace, program, tmp_path):
    path = program("def fails():\n    1 // 0\n\nfails()\n")
    done = trace("-q", path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n" + f'  File "{path}", line 4, in <module>\n')
    assert (tmp_path / "trace.json").exists()


@pytest.mark.parametrize(
    ("call", "code", "said"), [("sys.exit()", 0, ""), ("sys.exit(7)", 7, ""), ("sys.exit('no')", 1, "no\n")]
)
def test_a_script_that_exits(trace, program, tmp_path, call, code, said):
    done = trace("-q", program(f"import sys\n{call}\n"))
    assert (done.returncode, done.stderr) == (code, said)
    assert (tmp_path / "trace.json").exists()


def test_an_interrupt(trace, program, tmp_path):
    done = trace("-q", program("raise KeyboardInterrupt\n"))
    assert (done.returncode, done.stderr) == (130, "roamlet trace: interrupted\n")
    assert (tmp_path / "trace.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "trace.txt", "program.py"], "trace.txt: the name of a trace ends in one of .json"),
        (["-o", "absent/trace.json", "program.py"], "absent/trace.json cannot be written: No such file or directory"),
        (["--events", "3", "program.py"], "16 to 16777216 events"),
        (["--hold", "0", "program.py"], "from 0.001 to 3600"),
        (["absent.py"], "absent.py: No such file or directory"),
        (["-m", "absent"], "-m absent: No module named absent"),
        (["broken.py"], "broken.py: invalid syntax"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(trace, program, tmp_path, words, said):
    program("print('it runs')")
    program("1 +", "broken.py")
    done = trace(*words)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("roamlet trace: ")
    assert said in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"program.py", "broken.py"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no /dev/full")
def test_a_trace_that_can_no_longer_be_written(trace, program, tmp_path):
    (tmp_path / "full.json").symlink_to("/dev/full")
    done = trace("-q", "-o", "full.json", program(WORKS), "x")
    assert (done.returncode, done.stdout) == (1, "__main__ x True\n")
    assert done.stderr == "roamlet trace: full.json cannot be written: No space left on device\n"


def test_what_was_dropped_is_said(trace, program):
    done = trace(
        "--events", "16", program("import roamlet\nfor _ in range(40):\n    roamlet.tasklet(int)()\nroamlet.run()\n")
    )
    assert "  dropped, because the buffer was full: " in done.stderr
