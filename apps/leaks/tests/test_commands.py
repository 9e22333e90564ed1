"""`roamlet leaks SCRIPT`: runs it as python does, says which lines keep exceptions, and ends with 1 when there are any."""

import json
import re

import pytest

BAD = """
import sys
def fail():
    raise ValueError(1)
def catch():
    try:
        fail()
    except ValueError as error:
        result = error
    return result
for _ in range(3):
    catch()
print("done")
"""

GOOD = """
def fail():
    raise ValueError(1)
try:
    fail()
except ValueError as error:
    print("failed", error)
"""


@pytest.fixture
def leaks(python):
    def run(*words, **extra):
        return python("-m", "roamlet", "leaks", *words, **extra)

    return run


def test_a_cycle_is_reported_with_its_line_what_it_keeps_and_the_mend(leaks, program):
    path = program(BAD)
    done = leaks(path)
    assert (done.returncode, done.stdout) == (1, "done\n")
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"{path}:9:9: RL001 result holds an exception") and first.endswith("(3 times)")
    assert rest[0] == "    in catch"
    assert re.fullmatch(r"    keeps \d+ objects, .*B", rest[1])
    assert rest[2:4] == [f"        {path}:13 in <module>", f"        {path}:10 in catch"]
    assert rest[-1] == "    mend: clear it on the way out: try: return result / finally: del result"


def test_only_what_ones_own_files_keep_is_reported_where_that_is_asked(leaks, program, tmp_path):
    path = program(BAD)
    (tmp_path / "mine").mkdir()
    done = leaks("--only", str(tmp_path / "mine"), path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    for place in (path, str(tmp_path)):
        done = leaks("--only", str(tmp_path / "mine"), "--only", place, path)
        assert done.returncode == 1 and f"{path}:9:9: RL001" in done.stderr
    done = leaks("--only", "nowhere", path)
    assert (done.returncode, done.stdout) == (
        64,
        "",
    ) and "--only nowhere: there is no such file or folder" in done.stderr


def test_json_is_one_object_per_line_on_stdout_or_in_a_file(leaks, program, tmp_path):
    path = program(BAD)
    done = leaks("--json", path)
    said, line = done.stdout.splitlines()
    finding = json.loads(line)
    assert (done.returncode, said, done.stderr) == (1, "done", "")
    assert (finding["path"], finding["line"], finding["code"], finding["times"]) == (path, 9, "RL001", 3)
    assert finding["keeps"]["objects"] > 0
    done = leaks("--json", "-o", str(tmp_path / "findings"), path)
    assert (done.returncode, done.stdout) == (1, "done\n")
    assert json.loads((tmp_path / "findings").read_text())["line"] == 9


def test_where_nothing_is_found_nothing_is_said(leaks, program):
    done = leaks(program(GOOD))
    assert (done.returncode, done.stdout, done.stderr) == (0, "failed 1\n", "")


def test_a_global_of_the_script_lingers_at_its_end(leaks, program):
    path = program(
        GOOD.replace('print("failed", error)', "last = error").replace("raise", "data = list(range(9)); raise")
    )
    done = leaks(path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path}:7:5: RL005 last, which lives as long as its module")


def test_the_script_has_its_arguments_input_folder_and_name_as_under_python(python, leaks, program):
    program("VALUE = 5\n", "beside.py")
    path = program("""
        import sys, beside, pickle
        class Own: pass
        print(sys.argv[1:], __name__, __file__, sys.path[0], beside.VALUE, input(), sys.stdin.read())
        print(pickle.loads(pickle.dumps(Own())).__class__, __package__, __spec__)
        """)
    words = [path, "--json", "-o", "x"]
    done = leaks(*words, stdin="one\ntwo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == python(*words, stdin="one\ntwo").stdout


@pytest.mark.parametrize("name", ["package.part", "package"])
def test_a_module_runs_as_under_python(name, python, leaks, program):
    program("VALUE = 5\n", "package/__init__.py")
    for file in ("package/__main__.py", "package/part.py"):
        program("import sys; from . import VALUE; print(VALUE, sys.argv, __name__, __package__, __spec__.name)\n", file)
    done = leaks("-m", name, "-x", "y")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == python("-m", name, "-x", "y").stdout


@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('so')", 1, "so\n"),
        ("raise KeyError(3)", 1, "KeyError: 3\n"),
        ("import threading; threading.Thread(target=print, args=('thread',)).start()", 0, ""),
    ],
)
def test_the_end_of_the_script_is_its_own(end, code, says, python, leaks, program):
    path = program(f"import sys\nprint('out')\n{end}\n")
    done, plain = leaks(path), python(path)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert done.returncode == code and done.stderr.endswith(says)


def test_an_interrupt_ends_it_with_130_and_what_was_found_is_said(leaks, program):
    done = leaks(program(f"{BAD}\nraise KeyboardInterrupt\n"))
    assert done.returncode == 1
    assert "KeyboardInterrupt" in done.stderr and "RL001" in done.stderr
    assert leaks(program("raise KeyboardInterrupt\n")).returncode == 130


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("result = error", "result = error  # roamlet: keep"),
        ("def catch():", "def catch():  # roamlet: keep, it is shown later"),
        ("result = error", "result = (\n            error,  # roamlet: keep\n        )"),
    ],
)
def test_a_line_and_a_function_can_be_accepted(line, accepted, leaks, program):
    path = program(BAD.replace(line, accepted))
    for words in ([path], ["--check", path]):
        done = leaks(*words)
        assert (done.returncode, done.stdout.replace("done\n", ""), done.stderr) == (0, "", "")


def test_the_comment_of_another_function_accepts_nothing(leaks, program):
    path = program(BAD.replace("def fail():", "def fail():  # roamlet: keep"))
    assert (leaks(path).returncode, leaks("--check", path).returncode) == (1, 1)


def test_frames_at_one_line_are_named_once(leaks, program):
    frames = [line for line in leaks(program(BAD)).stderr.splitlines() if line.startswith("        ")]
    assert [frame.rpartition(" ")[2] for frame in frames] == ["<module>", "catch", "fail"]


def test_a_script_named_by_a_relative_path_is_found_after_it_has_changed_the_folder(python, leaks, program):
    program("import os, sys\nprint(sys.argv[0], __file__)\nos.chdir('/')\n1 / 0\n", "below/program.py")
    done, plain = leaks("below/program.py"), python("below/program.py")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert "    1 / 0\n" in done.stderr


def test_with_the_collector_on_what_it_frees_is_not_seen(leaks, program):
    collecting = f"{BAD}\nimport gc\nassert gc.isenabled()\ngc.collect()\n"
    assert leaks("--collector", program(collecting)).returncode == 0


def test_check_reads_and_runs_nothing(leaks, program, tmp_path):
    path = program(BAD)
    program(GOOD, "folder/good.py")
    done = leaks("--check", path, str(tmp_path / "folder"))
    assert (done.returncode, done.stderr) == (1, "")
    place, function, mend = done.stdout.splitlines()
    assert place.startswith(f"{path}:9:9: RL001 result holds an exception")
    assert (function, mend.partition(":")[0]) == ("    in catch", "    mend")
    done = leaks("--check", str(tmp_path / "folder"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_check_as_json_is_an_object_a_line(leaks, program, tmp_path):
    path = program(BAD)
    (line,) = leaks("--json", "--check", path).stdout.splitlines()
    finding = json.loads(line)
    assert (finding["path"], finding["line"], finding["column"], finding["code"]) == (path, 9, 9, "RL001")
    leaks("--json", "-o", "findings", "--check", path)
    assert (tmp_path / "findings").read_text() == f"{line}\n"


def test_check_goes_on_behind_what_it_cannot_read_and_ends_with_2(leaks, program):
    path = program(BAD)
    program("def\n", "broken.py")
    done = leaks("--check", "no-such.py", "broken.py", path)
    assert done.returncode == 2
    assert done.stdout.startswith(f"{path}:9:9: RL001")
    missing, broken = done.stderr.splitlines()
    assert missing == "no-such.py:1:1: it cannot be read: No such file or directory"
    assert broken.startswith("broken.py:1:1: this Python cannot parse it: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "roamlet leaks: name what to look at: `roamlet leaks SCRIPT`"),
        (["no-such.py"], "roamlet leaks: no-such.py: No such file or directory; give the path of a Python script"),
        (["-m", "no_such_module"], "roamlet leaks: -m no_such_module: there is no such module"),
        (["-m", "no.such"], "roamlet leaks: -m no.such: No module named 'no'"),
        (["-o", "no/such/file", "program.py"], "roamlet leaks: -o no/such/file: No such file or directory"),
        (["broken.py"], "SyntaxError"),
        (["--jsn", "program.py"], "there is no option --jsn"),
    ],
)
def test_a_wrong_command_line_runs_nothing(words, says, leaks, program):
    program("print('ran')\n")
    program("def\n", "broken.py")
    done = leaks(*words)
    assert (done.returncode, done.stdout) == (64, "")
    assert says in done.stderr


@pytest.mark.parametrize("stream", ["io.StringIO()", "None", "open(os.devnull, 'w')"])
def test_what_the_script_does_to_its_streams_hides_nothing(stream, leaks, program):
    path = program(f"{BAD}\nimport io, os\nsys.stdout = sys.stderr = {stream}\n")
    assert "RL001 result" in leaks(path).stderr
    done = leaks("--json", path)
    assert json.loads(done.stdout.splitlines()[-1])["code"] == "RL001"


def test_a_script_that_closes_its_output_has_its_findings_on_stderr(leaks, program):
    end = "sys.stdout.close()"
    done = leaks("--json", program(f"{BAD}\n{end}\n"))
    assert done.returncode == 1 and json.loads(done.stderr)["code"] == "RL001"
    done = leaks(program(f"import sys\n{end}\n"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["two\nlines.py", "\x1b[2J.py", "\udcff.py"], ids=["lines", "escape", "bytes"])
def test_a_name_of_a_file_is_one_line_that_no_terminal_obeys(name, leaks, tmp_path):
    (tmp_path / name).write_text(BAD)
    done = leaks("--check", name)
    assert done.returncode == 1 and done.stdout.isascii() and "\x1b" not in done.stdout
    assert done.stdout.splitlines()[0].startswith(f"{ascii(name)[1:-1]}:9:9: RL001")
    (line,) = leaks("--json", "--check", name).stdout.splitlines()
    assert json.loads(line)["path"] == name
    done = leaks("--check", f"no{name}")
    assert done.returncode == 2 and done.stderr.startswith(f"no{ascii(name)[1:-1]}:1:1: it cannot be read")


def test_letters_that_the_output_cannot_take_are_escaped(leaks, program):
    path = program(BAD.replace("result", "r\xe9sultat"))
    done = leaks("--check", path, PYTHONIOENCODING="ascii")
    assert done.returncode == 1 and "RL001 r\\xe9sultat holds" in done.stdout
    done = leaks("--json", path, PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout.splitlines()[-1])["name"] == "r\xe9sultat"
