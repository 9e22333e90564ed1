"""The script of the documentation runs as it stands and prints what the page says; every public name stands there."""

import re
import subprocess
import sys

import pytest

import roamlet_lab
from tests.docs.blocks import ROOT, scripts

PAGE = ROOT / "docs/howto/lab.md"


@pytest.mark.lab
def test_the_script_of_the_page_prints_what_the_page_says(tmp_path):
    (script,) = scripts(PAGE)
    (tmp_path / "script.py").write_text(script.text)
    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, script.prints, "")


def test_every_public_name_stands_in_the_documentation():
    text = PAGE.read_text(encoding="utf-8") + (ROOT / "apps/lab/README.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text))
    assert [name for name in roamlet_lab.__all__ if name not in words] == []
