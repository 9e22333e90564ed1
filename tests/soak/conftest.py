"""Progress, and what the soak tests of contexts call over there: what the other tests of contexts call."""

import sys
from pathlib import Path

import pytest

from tests.soak.slurm import CannotBeMade, running_slurm

sys.path.append(str(Path(__file__).parents[1] / "remote" / "sent"))


@pytest.fixture
def told(capsys):
    """Progress, past pytest's capture."""

    def say(text):
        with capsys.disabled():
            print(f"\n{text}", end="", flush=True)

    return say


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A cluster of two nodes; see slurm.py."""
    try:
        with running_slurm(tmp_path_factory.mktemp("slurm")) as slurm:
            yield slurm
    except CannotBeMade as reason:
        pytest.skip(f"no Slurm: {reason}")
