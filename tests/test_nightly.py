"""`make nightly` runs each of its parts, whatever fails, and fails when one has failed; rooms for users keep to their user."""

import re
import shutil
import subprocess

import pytest

from tests.docs.blocks import ROOT

PART = """\
#!/bin/sh
echo "$0 $*" >>ran
exit {status}
"""


PARTS = {
    "test_all": "tools/test_all.sh",
    "try_pythons": "tools/try_debian_python.sh",
    "python": ".venv/bin/python",
    "newcomer": "tools/newcomer.sh",
    "cleanroom": "tools/cleanroom.sh",
}


@pytest.mark.parametrize("fails", [(), *((part,) for part in PARTS), ("test_all", "cleanroom"), tuple(PARTS)])
def test_nightly_runs_all_and_fails_when_a_part_fails(fails, tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for part, name in PARTS.items():
        script = tmp_path / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(PART.format(status=int(part in fails)))
        script.chmod(0o755)
    # An environment that is ready: nothing is built.
    for name in ("pyproject.toml", "setup.py", "tools/prepare.sh", ".venv/.packages", ".venv/.core"):
        (tmp_path / name).touch()
    done = subprocess.run(["make", "nightly", "ARGS=-x"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is bool(fails), done.stdout + done.stderr
    first, newer, exhaustive, built, newcomer, judged, second, third = (tmp_path / "ran").read_text().splitlines()
    assert first == "tools/test_all.sh -x"
    assert newer.split() == ["tools/try_debian_python.sh"]
    assert exhaustive.startswith(".venv/bin/python tools/pytest_run.py ") and " -m exhaustive " in exhaustive
    assert built.split() == [".venv/bin/python", "-m", "tools.wheels", "--debian", "--aarch64"]
    assert newcomer.split() == ["tools/newcomer.sh", "bookworm", "forky"]
    assert judged.split() == [".venv/bin/python", "-m", "tools.judges"]
    assert second.startswith(".venv/bin/python -m pytest ") and second.endswith("-m soak tests/diagnose/outside")
    # All rooms but the one that .ci/run makes.
    known = set(re.findall(r"^in_(\w+)\(\)", (ROOT / "tools/cleanroom.sh").read_text(), re.MULTILINE))
    assert third.split()[0] == "tools/cleanroom.sh" and set(third.split()[1:]) == known - {"root"}


def test_what_runs_inside_a_system_changes_no_variable_of_its_caller(tmp_path):
    """A step as root in the room of a user leaves the next steps to the user."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nsomebody:x:1000:1000::/home/somebody:/bin/sh\n")
    script = f"""
        . '{ROOT}/tools/chroot.sh'
        unshare() {{ :; }}
        env() {{ :; }}
        user=somebody root=mine home=mine settings=mine
        inside '{tmp_path}' root 'make demo'
        echo $user $root $home $settings
    """
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["somebody", "mine", "mine", "mine"]
