"""The scripts of README.md and of the tutorial run as they stand and print what the page says they print."""

import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, Script, scripts

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("tutorial/*.md"))]


@pytest.mark.parametrize("script", scripts(*PAGES), ids=lambda script: script.name)
def test_a_script_of_the_documentation_runs_and_prints_what_the_page_says(script: Script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(script.text)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == script.prints


def test_the_first_script_for_tasklets_and_the_first_for_hosts_are_in_the_readme():
    first, second = scripts(ROOT / "README.md")
    assert "weft.tasklet(" in first.text
    assert "remote.ssh(" in second.text
