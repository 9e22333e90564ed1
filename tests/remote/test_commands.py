"""Commands of `roamlet` over a real ssh: the options that say how to get there reach it."""

import pytest

from roamlet.cli import main


@pytest.fixture
def words(sshd):
    return ["--ssh-config", sshd.ssh_args[1], "-H", sshd.host]


def test_a_command_runs_over_ssh_with_a_configuration_of_its_own(words, sshd, capfd):
    assert main(["run", *words, "-c", "echo ${SSH_CONNECTION:+by ssh}"]) == 0
    assert capfd.readouterr().out == f"{sshd.host}: by ssh\n"


def test_an_option_of_ssh_wins_over_its_configuration(words, capfd):
    assert main(["run", *words, "-o", "Port=1", "-c", "true"]) == 3
    assert "Connection refused" in capfd.readouterr().err


def test_files_go_and_come_over_ssh(words, sshd, tmp_path, capfd):
    (tmp_path / "file").write_text("text")
    assert main(["put", *words, str(tmp_path / "file"), f"{tmp_path}/there/", "--parents"]) == 0
    assert main(["get", *words, "--by-host", f"{tmp_path}/there/file", f"{tmp_path}/back/"]) == 0
    assert (tmp_path / "back" / sshd.host / "file").read_text() == "text"
