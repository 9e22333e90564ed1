"""`roamlet-leaks`, the command of its own: the same reports where nothing but the standard library is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src"

BAD = """
def catch():
    try:
        raise ValueError(1)
    except ValueError as error:
        result = error
    return result
catch()
"""


@pytest.fixture
def alone(tmp_path):
    """Runs an interpreter without site-packages that finds roamlet_leaks, and not roamlet."""

    def run(*words):
        return subprocess.run(
            [sys.executable, "-S", *words],
            env={"PYTHONPATH": str(SOURCES)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert "No module named 'roamlet'" in run("-c", "import roamlet").stderr
    return run


@pytest.mark.parametrize("words", [("--check",), ()], ids=["check", "run"])
def test_sources_and_programs_are_looked_at_without_roamlet(words, alone, tmp_path):
    (tmp_path / "program.py").write_text(BAD)
    done = alone("-m", "roamlet_leaks", *words, "program.py")
    assert done.returncode == 1
    assert "program.py:6:9: RL001 result holds an exception" in done.stdout + done.stderr


def test_the_library_is_used_without_roamlet(alone):
    done = alone(
        "-c",
        "from roamlet_leaks.running import watch\n"
        "from roamlet_leaks.check import check_source\n"
        f"source = {BAD!r}\n"
        "with watch() as seen:\n"
        "    exec(compile(source, 'program.py', 'exec'), {})\n"
        "print([(one.code, one.line) for one in seen.findings], [(one.code, one.line) for one in check_source(source)])",
    )
    assert (done.stdout, done.stderr) == ("[('RL001', 6)] [('RL001', 6)]\n", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "roamlet-leaks: name what to look at: `roamlet-leaks SCRIPT`"),
        (["no-such.py"], "roamlet-leaks: no-such.py: No such file or directory"),
        (["--chek", "program.py"], "roamlet-leaks: error: unrecognized arguments: --chek"),
    ],
)
def test_a_wrong_command_line_is_named_and_ends_with_64(words, says, alone):
    done = alone("-m", "roamlet_leaks", *words)
    assert (done.returncode, done.stdout) == (64, "")
    assert says in done.stderr


def test_the_plugin_of_pytest_does_not_import_roamlet():
    program = "import sys, roamlet_leaks.pytest_plugin; print('roamlet' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
