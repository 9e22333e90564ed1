"""MODULE:FUNCTION and ARGs of a command line: what is found, what is refused, and with which words."""

import platform
import shutil
import sys

import pytest

from roamlet.cli._errors import UsageError
from roamlet.cli.programs.named_function import arguments_from, function_named


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """A folder to write modules into, current and on the path; they are forgotten afterwards."""
    known = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_function_is_found_by_module_and_name():
    assert function_named("platform:python_version") is platform.python_version


def test_a_dotted_function_is_found_in_its_class():
    assert function_named("pathlib:Path.cwd").__name__ == "cwd"


def test_a_module_of_the_current_folder_is_found(own_modules):
    (own_modules / "checks_of_mine.py").write_text("def ok():\n    return 1\n")
    assert function_named("checks_of_mine:ok")() == 1


@pytest.mark.parametrize(
    "name", ["platform", "platform:", ":platform", "a b:c", "a:b:c", "os..path:join", "../x:f", ""]
)
def test_a_name_of_another_form_is_refused_with_an_example(name):
    with pytest.raises(UsageError, match=r"is not of the form MODULE:FUNCTION, for example platform:platform"):
        function_named(name)


def test_a_module_that_is_nowhere_is_named():
    with pytest.raises(UsageError, match=r"there is no module 'nowhere_at_all' here"):
        function_named("nowhere_at_all:f")


def test_a_submodule_that_is_nowhere_is_named():
    with pytest.raises(UsageError, match=r"there is no module 'json.nothing' here"):
        function_named("json.nothing:f")


def test_a_module_that_lacks_what_it_imports_says_what_it_lacks(own_modules):
    (own_modules / "needs_more.py").write_text("import not_there_either\n")
    with pytest.raises(UsageError, match=r"needs_more cannot be imported here: it needs 'not_there_either'"):
        function_named("needs_more:f")


def test_a_module_that_fails_while_it_is_imported_says_how(own_modules):
    (own_modules / "broken_one.py").write_text("1 / 0\n")
    with pytest.raises(UsageError, match=r"broken_one cannot be imported here: ZeroDivisionError: division by zero"):
        function_named("broken_one:f")


def test_a_function_that_is_not_there_brings_a_suggestion():
    with pytest.raises(UsageError, match=r"there is no 'disk_usag' in shutil; did you mean disk_usage"):
        function_named("shutil:disk_usag")
    assert function_named("shutil:disk_usage") is shutil.disk_usage


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(UsageError, match=r"sys:path is list and cannot be called"):
        function_named("sys:path")


def test_arguments_are_json_where_they_are_json_and_text_elsewhere():
    words = ["3", "2.5", "true", "null", "[1, 2]", '{"a": 1}', '"3"', "/var/log", "007", "NaN", "Infinity", "", "-"]
    expected = (3, 2.5, True, None, [1, 2], {"a": 1}, "3", "/var/log", "007", "NaN", "Infinity", "", "-")
    assert arguments_from(words) == expected


def test_arguments_stay_text_when_asked():
    assert arguments_from(["3", "true"], as_text=True) == ("3", "true")


def test_json_nested_too_deeply_is_text_and_no_crash():
    word = "[" * 100_000
    assert arguments_from([word]) == (word,)
