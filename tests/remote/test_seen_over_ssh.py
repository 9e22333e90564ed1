"""`roamlet ps HOST:PID` and `-H` of a real sshd on loopback, to which the process is one of another machine."""

import json
import shlex
import sys

import pytest

from roamlet.cli import main
from roamlet.diagnose.model import Process
from tests.diagnose.outside.conftest import started  # noqa: F401 - a fixture

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are read by way of /proc")


@pytest.fixture
def hosts(sshd, tmp_path):
    """An inventory whose one host is that server."""
    path = tmp_path / "hosts.ini"
    arguments = shlex.join(sshd.ssh_args)
    path.write_text(f'{sshd.host} ansible_python_interpreter={sys.executable} ansible_ssh_common_args="{arguments}"\n')
    return str(path)


def test_ps_of_a_process_over_ssh(sshd, hosts, started, capsys):  # noqa: F811
    running = started("blocked", "5")
    running.sleeps()
    assert main(["ps", "-i", hosts, f"{sshd.host}:{running.pid}"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(sshd.host)
    assert f"process {running.pid} (" in said
    assert "5  outer  blocked" in said


def test_ps_of_hosts_over_ssh(sshd, hosts, started, capsys):  # noqa: F811
    running = started("blocked", "5")
    running.sleeps()
    name = "program.py blocked 5"
    assert main(["ps", "-i", hosts, "-H", sshd.host, "--name", name, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = {each["pid"]: Process.from_json(each["tree"]) for each in json.loads(line)["processes"]}
    assert len(list(found[running.pid].tasklets())) == 6
    assert found[running.pid].how.startswith("undisturbed")
