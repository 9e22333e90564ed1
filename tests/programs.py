"""Running programs in Python processes of their own: fixtures of the tests of our runners."""

import os
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def python(tmp_path):
    """Run Python with these arguments in the test's own folder; nothing of ours is on PYTHONPATH yet."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*words, stdin="", **extra):
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**environment, **extra},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


@pytest.fixture
def program(tmp_path):
    """Write the program, by default its script; return its path."""

    def write(source, name="program.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return str(path)

    return write


def printed(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
