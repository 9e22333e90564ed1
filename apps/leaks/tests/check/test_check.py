"""The check of whole files: modules and classes, what is accepted by a comment, where a finding points, what cannot be read."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from roamlet_leaks import CASES
from roamlet_leaks.check import Unreadable, check_paths, check_source

KEEPS = """
def job(work):
    try:
        return work()
    except ValueError as error:
        result = error
    return result
"""


def codes(text):
    return [(finding.code, finding.name) for finding in check_source(textwrap.dedent(text))]


def test_a_finding_points_at_the_statement_and_names_the_mend():
    (finding,) = check_source(KEEPS, "job.py")
    assert str(finding) == f"job.py:6:9: RL001 {CASES['RL001'].message('result')}"
    assert (finding.kind, finding.function, finding.name, finding.keeps) == ("risk", "job", "result", None)
    assert "del result" in finding.mend


@pytest.mark.parametrize("line", ["def job(work):", "        result = error"])
def test_a_comment_accepts_a_finding_where_it_is_and_at_its_function(line):
    assert check_source(KEEPS.replace(line, f"{line}  # roamlet: keep, it is shown later")) == []


@pytest.mark.parametrize("line", ["        return work()", "    return result"])
def test_a_comment_elsewhere_accepts_nothing(line):
    assert len(check_source(KEEPS.replace(line, f"{line}  # roamlet: keep"))) == 1


def test_text_that_looks_like_the_comment_is_none():
    assert len(check_source(KEEPS.replace("result = error", 'result = (error, "# roamlet: keep")'))) == 1


def test_what_a_module_or_a_class_keeps_lives_as_long_as_it():
    assert codes(
        """
        try:
            import fast
        except ImportError as error:
            problem = error

        class Settings:
            try:
                import fast
            except ImportError as error:
                problem = error
        """
    ) == [("RL005", "problem"), ("RL005", "problem")]


def test_text_in_a_module_keeps_nothing():
    assert codes("try:\n    import fast\nexcept ImportError as error:\n    problem = str(error)\n") == []


GLOBAL = """
LAST = None
ALL = []

def job(work):
    global LAST
    try:
        work()
    except ValueError as error:
        LAST = error
        ALL.append(error)
"""


def test_globals_keep_what_a_function_stores():
    assert codes(GLOBAL) == [("RL005", "LAST"), ("RL005", "ALL")]


def test_globals_that_another_function_empties_are_trusted_to_it():
    assert codes(GLOBAL + "\ndef shown():\n    global LAST\n    LAST = None\n    ALL.clear()\n") == []


STORED = """
class Job:
    def __init__(self):
        self.error = None

    def run(self, work):
        try:
            work()
        except ValueError as error:
            self.error = error
"""


def test_an_attribute_that_is_empty_at_birth_is_not_emptied_later():
    assert codes(STORED) == [("RL004", "self.error")]


@pytest.mark.parametrize(
    "statement",
    ["self.error = None", "del self.error", "said, self.error = self.error, None", "self.error.__traceback__ = None"],
)
def test_an_attribute_that_another_method_empties_is_trusted_to_it(statement):
    assert codes(f"{STORED}\n    def taken(self):\n        {statement}\n") == []


def test_an_attribute_that_the_same_method_empties_first_keeps_the_exception_until_the_next_call():
    assert codes(STORED.replace("        try:", "        self.error = None\n        try:")) == [("RL004", "self.error")]


def test_an_exception_that_is_made_once_gathers_frames():
    text = """
    CLOSED = ConnectionError("closed")
    Class = make_class("Error")

    def send():
        raise CLOSED

    def receive():
        raise CLOSED.with_traceback(None)

    def close():
        raise Class
    """
    assert codes(text) == [("RL010", "CLOSED")]


@pytest.mark.parametrize(
    "parameter",
    ["error_class", "exc_type", "tp", "Error", "error: type[Exception]", "error=ValueError", "error=socket.error"],
)
def test_a_parameter_that_is_a_class_holds_no_traceback(parameter):
    name = parameter.partition(":")[0].partition("=")[0]
    assert codes(f"def refuse({parameter}):\n    raise {name}\n") == []


@pytest.mark.parametrize(
    "use", ["raise error('no')", "assert issubclass(error, OSError)", "assert isinstance(error, type)"]
)
def test_a_parameter_that_is_used_as_a_class_is_one(use):
    assert codes(f"def refuse(error, why):\n    if why:\n        {use}\n    raise error\n") == []


def test_two_names_of_one_exception_are_one_finding():
    text = "def refuse(make):\n    made = make()\n    error = made\n    raise error\n"
    assert codes(text) == [("RL009", "error, made")]


def test_files_are_read_in_their_own_encoding_and_what_cannot_be_read_is_said(tmp_path):
    (tmp_path / "a.py").write_bytes(b"# coding: latin-1\nname = '\xe4'\n" + KEEPS.encode())
    (tmp_path / "b.py").write_text("def f(:\n")
    (tmp_path / "c.py").write_bytes(b"name = '\xe4'\n")
    (tmp_path / "d.py").write_bytes(b"\0")
    (tmp_path / "e.txt").write_text(KEEPS)
    for folder in (".git", "__pycache__", "site-packages", "venv", "inside"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f.py").write_text(KEEPS)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    found = list(check_paths([str(tmp_path), str(tmp_path / "e.txt"), str(tmp_path / "none.py")]))
    places = [(item.path.removeprefix(f"{tmp_path}/"), item.line) for item in found]
    assert places == [
        ("a.py", 8),
        ("b.py", 1),
        ("c.py", 1),
        ("d.py", 1),
        ("inside/f.py", 6),
        ("e.txt", 6),
        ("none.py", 1),
    ]
    unreadable = [item for item in found if isinstance(item, Unreadable)]
    assert [item.path.rpartition("/")[2] for item in unreadable] == ["b.py", "c.py", "d.py", "none.py"]
    assert (
        str(unreadable[0])
        == f"{tmp_path}/b.py:1:1: this Python cannot parse it: {unreadable[0].why.partition(': ')[2]}"
    )
    assert unreadable[-1].why == "it cannot be read: No such file or directory"


def test_what_is_nested_too_deeply_is_said(tmp_path):
    deep = tmp_path / "deep.py"
    deep.write_text("x = " + "-" * 50_000 + "1\n")
    (found,) = check_paths([str(deep)])
    assert isinstance(found, Unreadable)
    assert found.line == 1


def test_long_chains_of_conditions_are_followed():
    chain = "".join(f"    elif kind == {number}:\n        return None\n" for number in range(800))
    text = KEEPS.replace("    return result", f"    if kind == -1:\n        result = None\n{chain}    return result")
    assert [finding.line for finding in check_source(text)] == [6]


def test_a_file_without_any_function_has_no_findings():
    assert check_source("") == []


def test_a_codec_that_is_no_encoding_is_said(tmp_path):
    (tmp_path / "a.py").write_text("# coding: rot13\nk = 1\n")
    (found,) = check_paths([str(tmp_path)])
    assert isinstance(found, Unreadable)
    assert str(found).startswith(f"{tmp_path}/a.py:1:1: this Python cannot parse it: 'rot13' is not a text encoding")


def test_links_that_lead_round_in_a_circle_are_followed_once(tmp_path):
    (tmp_path / "job.py").write_text(KEEPS)
    (tmp_path / "inner").mkdir()
    for name in ("round", "round_too", "inner/out"):
        (tmp_path / name).symlink_to(tmp_path)
    (tmp_path / "inner" / "itself").symlink_to("itself")
    assert [found.path for found in check_paths([str(tmp_path)])] == [f"{tmp_path}/job.py"]


def test_pipes_and_the_locks_of_editors_are_no_sources_and_a_link_to_nowhere_is_said(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / ".#job.py").symlink_to("somebody@somewhere.1234")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (found,) = check_paths([str(tmp_path)])
    assert str(found) == f"{tmp_path}/gone.py:1:1: it cannot be read: No such file or directory"


def test_a_folder_that_cannot_be_read_is_said_and_the_others_are_read(tmp_path, monkeypatch):
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.py").write_text(KEEPS)
    listed = Path.iterdir

    def iterdir(path):
        if path.name == "closed":  # root may read every folder
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    closed, found = check_paths([str(tmp_path)])
    assert isinstance(closed, Unreadable) and closed.path == f"{tmp_path}/closed"
    assert found.path == f"{tmp_path}/open/job.py"


def test_more_ways_than_anybody_waits_for_are_said(tmp_path):
    lines = ["def job():"]
    for depth in range(1, 20):
        space = " " * depth
        lines += [f"{space}try:", f"{space} if a: raise A(a)", f"{space} if b: raise B(b)", f"{space}except X as e:"]
    (tmp_path / "deep.py").write_text("\n".join([*lines, " " * 20 + "pass\n"]))
    (found,) = check_paths([str(tmp_path)])
    assert isinstance(found, Unreadable) and found.why == "it is nested too deeply to be followed"


def test_ends_of_lines_are_those_of_the_compiler():
    text = KEEPS.replace("result = error", "result = error  # roamlet: keep")
    assert check_source(text.replace("\n", "\r")) == check_source(text.replace("\n", "\r\n")) == []
    assert len(check_source(KEEPS.replace("\n", "\r"))) == 1


STORES_IT = "        try:\n            go()\n        except ValueError as error:\n            kept = error\n"


@pytest.mark.parametrize(
    "dead",
    [
        "sys.version_info < (3,)",
        "sys.version_info[0] == 2",
        "sys.version_info[:2] < (3, 0)",
        "not sys.version_info >= (3, 3)",
        "sys.version_info.major < 3",
        "six.PY2",
        "PY2",
        "not PY3",
    ],
)
def test_branches_for_other_versions_of_python_are_not_read(dead):
    function = "def work():\n    import sys\n    if {}:\n" + STORES_IT + "    else:\n        go()\n"
    assert check_source(function.format(dead)) == []
    assert [finding.code for finding in check_source(function.format(f"not ({dead})"))] == ["RL001"]
    module = "if {}:\n    def work():\n" + STORES_IT + "else:\n    work = None\n"
    assert check_source(module.format(dead)) == []
    assert len(check_source(module.format(f"not ({dead})"))) == 1


@pytest.mark.parametrize(
    "test", ["sys.version_info < limit", "sys.version_info < 'x'", "version", "sys.platform == 'win32'"]
)
def test_branches_that_may_be_taken_are_read(test):
    assert len(check_source(f"def work(limit):\n    if {test}:\n{STORES_IT}")) == 1


@pytest.mark.parametrize("stored", ["exc", "exc[1]"])
def test_what_exit_gets_as_a_tuple_is_what_it_gets(stored):
    text = "class Job:\n    def __exit__(self, {}*exc):\n        self.error = {}\n"
    assert [finding.code for finding in check_source(text.format("", stored))] == ["RL004"]
    assert [finding.code for finding in check_source(text.format("kind, ", "exc[0]"))] == ["RL004"]
    assert check_source(text.format("kind, value, traceback, ", "exc")) == []


def many(folder, count=130):
    """Files with a finding each, but for every tenth, which cannot be parsed."""
    for number in range(count):
        (folder / f"file{number:03}.py").write_text("def (" if number % 10 == 9 else KEEPS)
    return folder


def test_many_files_are_read_by_several_processes_and_reported_in_their_order(tmp_path):
    alone = list(check_paths([str(many(tmp_path))]))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom roamlet_leaks.check import check_paths\n"
            "if __name__ == '__main__':\n    for each in check_paths([sys.argv[1]], processes=2): print(each)\n"
            "    import multiprocessing\n    assert not multiprocessing.active_children()\n",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(f"{each}\n" for each in alone) and len(alone) == 130


def test_progress_is_the_number_of_files(tmp_path):
    seen = []
    assert len(list(check_paths([str(many(tmp_path, 12))], progress=seen.append))) == 12
    assert seen == list(range(1, 13))


def test_progress_is_shown_on_a_terminal_alone_and_goes_before_findings(tmp_path):
    many(tmp_path, 3)
    terminal, end = os.openpty()
    command = [sys.executable, "-m", "roamlet", "leaks", "--check", str(tmp_path)]
    quiet = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, text=True, check=False)
    os.close(end)
    said = os.read(terminal, 10_000).decode()
    os.close(terminal)
    assert quiet.stderr == "" and quiet.stdout == shown.stdout and quiet.stdout.count("RL001") == 3
    assert said.startswith("\r1 files\r\x1b[K") and said.endswith("\r3 files\r\x1b[K")
