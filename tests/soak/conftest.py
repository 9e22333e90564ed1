"""Progress, and what the soak tests of contexts call over there: what the other tests of contexts call."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "remote" / "sent"))


@pytest.fixture
def told(capsys):
    """Progress, past pytest's capture."""

    def say(text):
        with capsys.disabled():
            print(f"\n{text}", end="", flush=True)

    return say
