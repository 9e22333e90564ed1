"""`python -m roamlet.stackless`: an old program runs as it always did, in Python processes that it starts as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import roamlet
from roamlet.stackless.__main__ import FOLDER
from tests.programs import printed

HERE = ("-m", "roamlet.stackless")

SHOW = "import stackless, sys; print(stackless.__name__, stackless.main is stackless.current, sys.argv[1:])\n"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("program.py", "a", "-b"), id="a script"),
        pytest.param(("-c", SHOW, "a", "-b"), id="code"),
        pytest.param(("-m", "program", "a", "-b"), id="a module"),
        pytest.param(("-m", "package", "a", "-b"), id="a package"),
        pytest.param(("-", "a", "-b"), id="standard input"),
        pytest.param(("-W", "error", "-Bu", "-X", "dev", "program.py", "a", "-b"), id="options of Python"),
    ],
)
def test_import_stackless_finds_the_module_however_the_program_is_given(python, program, words):
    program(SHOW)
    program(SHOW, "package/__main__.py")
    assert printed(python(*HERE, *words, stdin=SHOW)) == "roamlet.stackless True ['a', '-b']\n"


def test_the_program_is_what_it_is_under_python_itself(python, program):
    program("""\
        import sys, __main__
        names = sorted(name for name in vars(__main__) if name.startswith("__"))
        print(__name__, __file__, __spec__, names, sys.argv, sys.path[0], sys._getframe().f_back, sys.flags.dev_mode)
        """)
    words = ("-X", "dev", "program.py", "one")
    assert printed(python("-X", "dev", *HERE, *words[2:])) == printed(python(*HERE, *words)) == printed(python(*words))


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("", 0),
        ("sys.exit(7)", 7),
        ("sys.exit('why it ended')", 1),
        ("raise SystemExit", 0),
        ("{}['missing']", 1),
        ("os._exit(9)", 9),
        ("os.kill(os.getpid(), 15)", -15),
        ("raise KeyboardInterrupt", -2),
        ("def (", 1),
    ],
)
def test_the_program_ends_as_it_does_under_python_itself(python, program, ending, status):
    program(f"import os, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{ending}\n")
    plain, ours = python("program.py"), python(*HERE, "program.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert ours.returncode == status


def test_an_error_of_a_tasklet_shows_the_programs_frames_and_no_runner(python, program):
    program("""\
        import stackless
        def fails():
            raise LookupError("of the tasklet")
        stackless.tasklet(fails)()
        stackless.run()
        """)
    done = python(*HERE, "program.py")
    assert done.returncode == 1
    assert done.stderr.endswith('    raise LookupError("of the tasklet")\nLookupError: of the tasklet\n')
    assert "runpy" not in done.stderr and "__main__.py" not in done.stderr


def test_tasklets_that_are_blocked_at_the_end_are_ended_with_their_finally_blocks(python, program):
    program("""\
        import stackless
        def waits(name):
            try:
                stackless.channel().receive()
            finally:
                print("ended", name)
        for name in "ab":
            stackless.tasklet(waits)(name)
        stackless.run()
        print("last line")
        """)
    assert printed(python(*HERE, "program.py")) == "last line\nended a\nended b\n"


def test_a_missing_script_is_an_error_with_status_2(python):
    done = python(*HERE, "missing.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "can't open file" in done.stderr and "missing.py" in done.stderr


def test_without_a_program_it_is_the_interactive_interpreter(python):
    assert printed(python(*HERE, stdin="import stackless; print(stackless.runcount)")) == "1\n"


def test_processes_that_the_program_starts_find_the_module(python, program):
    program("""\
        import subprocess, sys
        code = "import stackless; print('the child has', stackless.__name__)"
        subprocess.run([sys.executable, "-c", code], check=True)
        """)
    assert printed(python(*HERE, "program.py")) == "the child has roamlet.stackless\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_of_multiprocessing_find_the_module(python, program, method):
    program(f"""\
        import multiprocessing
        import stackless

        def doubled(value):
            results = stackless.channel()
            stackless.tasklet(lambda: results.send(2 * value))()
            return results.receive()

        if __name__ == "__main__":
            with multiprocessing.get_context("{method}").Pool(1) as pool:
                print(pool.map(doubled, [1, 2, 3]))
        """)
    assert printed(python(*HERE, "program.py")) == "[2, 4, 6]\n"


def test_a_module_of_that_name_beside_the_script_comes_first_as_it_always_did(python, program):
    program("print(__import__('stackless').origin)")
    program("origin = 'beside the script'", "stackless.py")
    assert printed(python(*HERE, "program.py")) == "beside the script\n"


def test_pythonpath_is_kept_and_the_folder_is_there_once(python, program, tmp_path):
    program("import os, subprocess, sys; print(os.environ['PYTHONPATH'], flush=True); import elsewhere")
    program("print('found')", "folder/elsewhere.py")
    own = str(tmp_path / "folder")
    found = f"{FOLDER}{os.pathsep}{own}\nfound\n"
    assert printed(python(*HERE, "program.py", PYTHONPATH=own)) == found
    assert printed(python(*HERE, *HERE, "program.py", PYTHONPATH=own)) == found


def test_the_folder_serves_any_other_way_to_start_python(python):
    folder = printed(python(*HERE, "--path")).strip()
    assert os.listdir(folder)
    assert printed(python("-c", SHOW, PYTHONPATH=folder)) == "roamlet.stackless True []\n"


def test_roamlet_is_found_though_it_lies_in_the_working_directory_alone(tmp_path):
    # -S: no site-packages, through which roamlet is found otherwise. Only `-m` looks in the working directory.
    source = Path(roamlet.__file__).parents[1]
    (tmp_path / "program.py").write_text(SHOW)
    greenlet = [f for f in sys.path if f.endswith("site-packages")]
    words = [sys.executable, "-S", *HERE, str(tmp_path / "program.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(greenlet)}
    done = subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert printed(done) == "roamlet.stackless True []\n"


@pytest.mark.parametrize("words", [("-E", *HERE, "-c", SHOW), (*HERE, "-E", "-c", SHOW), (*HERE, "-bI", "program.py")])
def test_options_that_hide_the_module_are_refused(python, words):
    done = python(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "which -E and -I make Python ignore" in done.stderr and "stackless.pth" in done.stderr


@pytest.mark.parametrize(
    "words", [("-c", SHOW, "-E"), ("-W", "ignore::ImportWarning", "-c", SHOW), ("-XE", "-c", SHOW)]
)
def test_letters_that_are_no_such_option_are_not_taken_for_it(python, words):
    assert printed(python(*HERE, *words)).startswith("roamlet.stackless True")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_says_how_to_run_a_program(python, option):
    assert printed(python(*HERE, option)).startswith("usage: python -m roamlet.stackless ")


def test_a_profiler_that_runs_the_runner_profiles_the_program(python, program):
    program("def function_of_the_program(): pass\nfunction_of_the_program()\n")
    assert "(function_of_the_program)" in printed(python("-m", "cProfile", *HERE, "program.py"))


@pytest.mark.parametrize("words", [("--deadlock", "warn"), ("--deadlock=warn",)])
def test_the_mode_for_deadlocks_is_set_for_the_program_and_those_it_starts(python, program, words):
    program("""\
        import subprocess, sys, roamlet
        print(roamlet.set_deadlock_mode("raise"), sys.argv[1:], flush=True)
        subprocess.run([sys.executable, "-c", "import roamlet; print(roamlet.set_deadlock_mode('raise'))"], check=True)
        """)
    assert printed(python(*HERE, *words, "-W", "error", "program.py", "--deadlock")) == "warn ['--deadlock']\nwarn\n"


@pytest.mark.parametrize("words", [("--deadlock", "never", "program.py"), ("--deadlock=",), ("--deadlock",)])
def test_a_mode_that_does_not_exist_is_refused(python, program, words):
    program("print('runs')")
    done = python(*HERE, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--deadlock is one of auto, raise, warn, off, not " in done.stderr
