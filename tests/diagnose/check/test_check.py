"""The check of whole files: modules and classes, what is accepted by a comment, where a finding points, what cannot be read."""

import textwrap

import pytest

from weft.diagnose import CASES
from weft.diagnose.check import Unreadable, check_paths, check_source

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
    assert str(finding) == f"job.py:6:9: WL001 {CASES['WL001'].message('result')}"
    assert (finding.kind, finding.function, finding.name, finding.keeps) == ("risk", "job", "result", None)
    assert "del result" in finding.mend


@pytest.mark.parametrize("line", ["def job(work):", "        result = error"])
def test_a_comment_accepts_a_finding_where_it_is_and_at_its_function(line):
    assert check_source(KEEPS.replace(line, f"{line}  # weft: keep, it is shown later")) == []


@pytest.mark.parametrize("line", ["        return work()", "    return result"])
def test_a_comment_elsewhere_accepts_nothing(line):
    assert len(check_source(KEEPS.replace(line, f"{line}  # weft: keep"))) == 1


def test_text_that_looks_like_the_comment_is_none():
    assert len(check_source(KEEPS.replace("result = error", 'result = (error, "# weft: keep")'))) == 1


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
    ) == [("WL005", "problem"), ("WL005", "problem")]


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
    assert codes(GLOBAL) == [("WL005", "LAST"), ("WL005", "ALL")]


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
    assert codes(STORED) == [("WL004", "self.error")]


@pytest.mark.parametrize(
    "statement",
    ["self.error = None", "del self.error", "said, self.error = self.error, None", "self.error.__traceback__ = None"],
)
def test_an_attribute_that_another_method_empties_is_trusted_to_it(statement):
    assert codes(f"{STORED}\n    def taken(self):\n        {statement}\n") == []


def test_an_attribute_that_the_same_method_empties_first_keeps_the_exception_until_the_next_call():
    assert codes(STORED.replace("        try:", "        self.error = None\n        try:")) == [("WL004", "self.error")]


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
    assert codes(text) == [("WL010", "CLOSED")]


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
    assert codes(text) == [("WL009", "error, made")]


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
