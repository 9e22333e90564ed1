import sys
import tempfile
from pathlib import Path

import pytest

from tests.remote.sshd import running_sshd

from .playing import Playing


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def playing(server, tmp_path):
    pytest.importorskip("ansible", reason="ansible-core is not installed for this Python")
    with tempfile.TemporaryDirectory(prefix="cp-") as control:
        yield Playing(tmp_path, Path(control), server.host, server.folder / "ssh_config", sys.executable)


def pytest_collection_modifyitems(items):
    """A playbook takes as long as ssh and ansible do on a busy machine."""
    for item in items:
        if item.get_closest_marker("playbook") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))
