"""`roamlet trace`: a program is run as Python would, and what it did is written."""

import json
import os
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


TERMINATED = """\
    import os, signal, sys
    import roamlet

    def kills():
        roamlet.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            pass

    """


def test_a_termination(trace, program, tmp_path):
    waits = "try:\n        roamlet.sleep(100)\n    finally:\n        print('cleaned up')\n"
    done = trace("-q", program(f"{TERMINATED}roamlet.spawn(kills)\n    {waits}"))
    assert (done.returncode, done.stdout, done.stderr) == (143, "cleaned up\n", "")
    assert (tmp_path / "trace.json").exists()


def test_a_termination_that_the_program_handles_itself(trace, program, tmp_path):
    handler = "signal.signal(signal.SIGTERM, lambda number, frame: print('handled') or sys.exit(5))\n"
    done = trace("-q", program(f"{TERMINATED}{handler}    kills()\n"))
    assert (done.returncode, done.stdout, done.stderr) == (5, "handled\n", "")
    done = trace("-q", program(f"{TERMINATED}signal.signal(signal.SIGTERM, signal.SIG_DFL)\n    kills()\n"))
    assert (done.returncode, done.stderr) == (-15, "")


def test_a_second_termination_ends_it_at_once(trace, program, tmp_path):
    again = """\
    import os, signal
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:
        os.kill(os.getpid(), signal.SIGTERM)
    """
    assert trace("-q", program(again)).returncode == -15


def test_forked_children_are_terminated_as_they_would_be(trace, program, tmp_path):
    forks = """\
    import os, signal
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    done = trace("-q", program(forks))
    assert (done.returncode, done.stdout) == (0, "-15\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seconds", "5", "program.py"], "--seconds is for a process that runs: roamlet trace PID --seconds 5"),
        (["4711", "--seconds", "0"], "--seconds 0: a trace takes above 0 and at most 3600 seconds"),
        (["4711", "x"], "too many arguments: leave out x; `roamlet trace --help` shows what it takes"),
        (["4711", "--second", "5"], "there is no option --second; did you mean --seconds?"),
        (["4711", "--seconds", "five"], "argument --seconds: invalid float value: 'five'"),
        (["12345678901"], "'12345678901' is no PID: the number is too large"),
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
def test_without_words_what_is_needed_is_named_and_nothing_else(trace):
    process = trace()
    assert process.returncode == 64
    assert process.stderr.splitlines()[-1].endswith("arguments are required: SCRIPT | PID | HOST:PID")


def test_a_pipe_is_not_waited_for(trace, program, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    done = trace("-o", "pipe.json", program(WORKS))
    assert (done.returncode, done.stdout) == (64, "")
    assert (
        done.stderr == "roamlet trace: pipe.json cannot be written: this is a pipe, and a trace is written to a file\n"
    )


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
