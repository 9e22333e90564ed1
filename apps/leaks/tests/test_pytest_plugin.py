"""`pytest --roamlet-leaks`: a test that leaves an exception behind fails and its line is named; the others are what they were."""

import pytest

TESTS = """
import logging
import pytest

kept = []

class Payload:
    pass

def fail():
    payload = Payload()
    raise ValueError(payload)

def catch():
    try:
        fail()
    except ValueError as error:
        result = error
    return result

@pytest.fixture
def an_error():
    yield catch()

"""

LEAVING = {
    "a_cycle": ("def test_it():\n    catch()\n", "result = error", "RL001 result"),
    "a_global": (
        "def test_it():\n    try:\n        fail()\n    except ValueError as error:\n        kept.append(error)\n",
        "kept.append(error)",
        "RL005 kept",
    ),
    "a_local_of_the_test": (
        "def test_it():\n    with pytest.raises(ValueError) as caught:\n        fail()\n    error = caught.value\n",
        "error = caught.value",
        "RL001 error",
    ),
}

HARMLESS = """
def test_nothing():
    try:
        fail()
    except ValueError:
        pass

def test_raises():
    with pytest.raises(ValueError) as caught:
        fail()
    assert caught.value

def test_of_a_fixture(an_error):
    assert an_error

def test_logs(caplog):
    try:
        fail()
    except ValueError:
        logging.exception("it failed")
    assert caplog.records

def test_skips():
    pytest.skip("not here")

@pytest.mark.xfail
def test_is_expected_to_fail():
    error = catch()
    assert not error

@pytest.mark.parametrize("error", [ValueError(1)])
def test_is_given_one(error):
    with pytest.raises(ValueError):
        raise error

@pytest.mark.roamlet_keeps(reason="it is what is tested")
def test_may():
    catch()

def test_kept_by_a_comment():
    try:
        fail()
    except ValueError as error:
        mine = error  # roamlet: keep
"""


@pytest.fixture
def run(python, program):
    def run(source, *words):
        path = program("")
        with open(path, "w") as file:
            file.write(TESTS + source)
        plugin = ("-p", "roamlet_leaks.pytest_plugin", "-p", "no:cacheprovider")
        return path, python("-m", "pytest", "-q", "--strict-markers", *plugin, *words, path)

    return run


@pytest.mark.parametrize("name", LEAVING)
def test_a_test_that_leaves_an_exception_fails_and_the_line_is_named(name, run):
    source, line, says = LEAVING[name]
    path, done = run(source, "--roamlet-leaks")
    number = (TESTS + source).splitlines().index(next(one for one in (TESTS + source).splitlines() if line in one)) + 1
    assert done.returncode == 1
    assert f"{path}:{number}:" in done.stdout and says in done.stdout
    assert "the test left exceptions behind" in done.stdout
    assert "1 passed, 1 error" in done.stdout
    path, done = run(source)
    assert done.returncode == 0


def test_what_pytest_keeps_itself_and_what_was_accepted_is_no_failure(run):
    _, done = run(HARMLESS, "--roamlet-leaks")
    assert (done.returncode, done.stdout.splitlines()[-1].split(" in ")[0]) == (0, "7 passed, 1 skipped, 1 xfailed"), (
        done.stdout
    )


def test_a_test_that_fails_is_not_blamed_for_what_pytest_keeps_of_it_and_neither_is_the_next(run):
    _, done = run("def test_fails():\n    error = catch()\n    assert not error\n" + HARMLESS, "--roamlet-leaks")
    assert done.stdout.splitlines()[-1].startswith("1 failed, 7 passed, 1 skipped, 1 xfailed in"), done.stdout


def test_the_collector_is_as_before_between_tests(run):
    source = "import gc, atexit\n"
    source += (
        "atexit.register(lambda: print('enabled:', gc.isenabled()))\ndef test_it():\n    assert not gc.isenabled()\n"
    )
    _, done = run(source, "--roamlet-leaks")
    assert done.returncode == 0 and "enabled: True" in done.stdout


def test_a_mark_without_a_reason_is_refused(run):
    _, done = run("@pytest.mark.roamlet_keeps\ndef test_it():\n    pass\n", "--roamlet-leaks")
    assert done.returncode != 0
    assert "roamlet_keeps needs reason='why the exception is kept'" in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 error in"), done.stdout
