"""tools/newcomer.py: which programs a newcomer types in, and that each must print what its page says."""

import json
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, scripts
from tools import newcomer


@pytest.fixture
def installed(tmp_path):
    """A newcomer with roamlet installed: in the environment of this process."""
    (tmp_path / "venv").symlink_to(sys.prefix)
    return newcomer.Newcomer(tmp_path)


def test_the_programs_are_those_of_the_readme_and_of_the_tutorial(tmp_path):
    assert newcomer.main(["collect", str(tmp_path)]) == 0
    told = json.loads((tmp_path / "programs.json").read_text())
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/tutorial").glob("*.md"))]
    assert sorted(each["name"] for each in told) == sorted(script.name for script in scripts(*pages))
    assert len(told) > 15


def test_a_program_must_print_what_its_page_says(installed):
    good = {"name": "page.md:3", "text": "import roamlet\nprint(21 * 2)\n", "prints": "42\n"}
    assert installed.type_in([good, good]) == "2 programs"
    with pytest.raises(newcomer.Stuck, match=r"(?s)page\.md:9: .*script\.py\nstatus 0\n42\n.*the page says:\n43"):
        installed.type_in([good, {**good, "name": "page.md:9", "prints": "43\n"}])
    with pytest.raises(newcomer.Stuck, match="ZeroDivisionError"):
        installed.type_in([{"name": "page.md:1", "text": "1 / 0", "prints": None}])
    with pytest.raises(newcomer.Stuck, match="a warning"):
        installed.type_in([{"name": "p", "text": "import sys; sys.stderr.write('a warning')", "prints": ""}])


def test_a_wheel_that_cannot_be_installed_ends_it(tmp_path, monkeypatch, capsys):
    def install(self, wheel):
        raise newcomer.Stuck(f"$ pip install {wheel}")

    monkeypatch.setattr(newcomer.Newcomer, "install", install)
    newcomer.main(["collect", str(tmp_path)])
    assert newcomer.main(["play", str(tmp_path / "no.whl"), str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith(f"install: FAILED\n$ pip install {tmp_path}/no.whl\n")


def test_all_steps_are_taken_and_their_time_is_compared_with_the_limit(tmp_path, monkeypatch, capsys):
    for name in ("install", "type_in", "demo"):
        monkeypatch.setattr(newcomer.Newcomer, name, lambda self, *words, name=name: f"{name} is done")
    newcomer.main(["collect", str(tmp_path)])
    words = ["play", str(tmp_path / "no.whl"), str(tmp_path)]
    assert newcomer.main(words) == 0
    said = capsys.readouterr().out
    assert said.index("install is done") < said.index("type_in is done") < said.index("demo is done")
    assert newcomer.main([*words, "--within", "0"]) == 1
    assert "more than 0 s: FAILED" in capsys.readouterr().out


def test_without_wheels_the_script_says_what_to_type(tmp_path):
    (tmp_path / "tools").mkdir()
    for name in ("newcomer.sh", "chroot.sh", "rooms.sh"):
        (tmp_path / "tools" / name).symlink_to(ROOT / "tools" / name)
    done = subprocess.run([tmp_path / "tools/newcomer.sh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "there are no wheels in dist/. Type: make wheels\n")
