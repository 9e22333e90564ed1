"""The programs in examples/ run, and do what they say."""

import os
import subprocess
import sys
import time

import pytest

from tests.docs.blocks import ROOT
from tests.snapshot.conftest import KNOWN


@pytest.mark.skipif(not KNOWN, reason="tasklets are not saved on this version or backend")
def test_resume_goes_on_after_a_kill_by_itself_and_with_the_command(tmp_path):
    words = [sys.executable, "-W", "error", str(ROOT / "examples/resume.py"), "100000000"]
    file = tmp_path / "perfect.roamlet"
    for _ in range(2):
        inode = file.stat().st_ino if file.exists() else None
        running = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        with running:
            deadline = time.monotonic() + 60
            while not (file.exists() and file.stat().st_ino != inode) and time.monotonic() < deadline:
                os.sched_yield()
            running.kill()
            said = running.stderr.read()
        assert file.stat().st_ino != inode
        assert ("went on behind" in said) == (inode is not None)
    small = [sys.executable, "-W", "error", str(ROOT / "examples/resume.py"), "500"]
    file.unlink()
    done = subprocess.run(small, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "perfect: 6 28 496\n", "")
    assert not file.exists()
