"""ssh that asks: passwords, passphrases, jump hosts and host keys, against a real sshd that knows accounts with passwords."""

import getpass
import os
import subprocess
import tempfile

import pytest
import roamlet_sent

from roamlet import remote
from tests.remote.raising import raises
from tests.remote.sshd import running_sshd, server_environment
from tests.remote.transports.private_system import CALLER, PASSWORD, PYTHON
from tools.unpack_debian import CannotUnpack

PASSPHRASE = "open sesame, 'please'"


@pytest.fixture(scope="module")
def server(private_system, tmp_path_factory):
    """An sshd that takes passwords."""
    try:
        server_environment()
    except CannotUnpack as reason:
        pytest.skip(f"no sshd: {reason}")
    folder = tmp_path_factory.mktemp("password-sshd")
    with running_sshd(folder, [private_system.enter, "root"], ["PasswordAuthentication yes"]) as server:
        (server.folder / "with_passwords").write_text(_configuration(server))
        yield server


def _configuration(server):
    common = {
        "Port": server.port,
        "User": CALLER,
        "HostName": "127.0.0.1",
        "IdentityFile": "none",
        "IdentityAgent": "none",
        "PreferredAuthentications": "password",
        "UserKnownHostsFile": server.folder / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": server.host,
        "StrictHostKeyChecking": "ask",
    }
    hosts = {
        "target": {},
        "jump": {"HostKeyAlias": "roamlet-second-name"},
        "behind": {"ProxyJump": "jump"},
        "unknown": {"UserKnownHostsFile": server.folder / "known_hosts_empty"},
        "with-key": {
            "User": server.user,
            "IdentityFile": server.folder / "locked_key",
            "IdentitiesOnly": "yes",
            "PreferredAuthentications": "publickey",
        },
    }
    lines = []
    for name, different in hosts.items():
        lines += [f"Host {name}", *(f"    {option} {value}" for option, value in {**common, **different}.items())]
    return "\n".join(lines) + "\n"


@pytest.fixture
def ssh(server):
    """`ssh(host, password, *more)`: open a context with the private configuration."""

    def ssh(host, password=None, *more, **options):
        return remote.ssh(
            host, password=password, ssh_args=("-F", str(server.folder / "with_passwords"), *more), **options
        )

    return ssh


def test_the_password_that_was_given_is_typed(ssh):
    with ssh("target", PASSWORD, python=PYTHON) as context:
        assert context.call(getpass.getuser) == CALLER
        assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_password_in_the_environment_counts(ssh, monkeypatch):
    monkeypatch.setenv("ROAMLET_SSH_PASSWORD", PASSWORD)
    with ssh("target", python=PYTHON) as context:
        assert context.call(getpass.getuser) == CALLER


def test_without_a_password_no_prompt_is_shown_and_the_error_says_how_to_give_one(ssh):
    with raises(remote.AuthenticationFailed, match="does not let this user in.*or give a password="):
        ssh("target")


def test_a_wrong_password_is_an_error_and_is_typed_once(ssh):
    asked = []

    def password(prompt, who):
        asked.append((prompt, who))
        return "wrong-" + PASSWORD

    with raises(
        remote.AuthenticationFailed, match="does not take the password; it accepts .*password.*typed once"
    ) as caught:
        ssh("target", password)
    assert asked == [(f"{CALLER}@roamlet-loopback's password:", "ssh to 'target'")]
    assert PASSWORD not in str(caught.value)


def test_a_jump_host_does_not_get_the_password_of_the_host_behind_it(ssh):
    with raises(
        remote.AuthenticationFailed,
        match=f'it asks "{CALLER}@roamlet-second-name\'s password:", and the password .* not for that',
    ):
        ssh("behind", PASSWORD)


def test_a_function_is_asked_for_the_jump_host_and_for_the_host_behind_it(ssh):
    asked = []

    def password(prompt, who):
        asked.append(prompt)
        return PASSWORD

    with ssh("behind", password, python=PYTHON) as context:
        assert context.call(getpass.getuser) == CALLER
    assert asked == [f"{CALLER}@roamlet-second-name's password:", f"{CALLER}@roamlet-loopback's password:"]


def test_whether_a_host_key_is_the_right_one_is_not_answered_for_the_user(ssh):
    with raises(remote.HostKeyUnknown, match="ssh to 'unknown' was refused: no host key is known"):
        ssh("unknown", PASSWORD)


def test_a_connection_that_is_shared_asks_once(ssh):
    asked = []

    def password(prompt, who):
        asked.append(prompt)
        return PASSWORD

    with tempfile.TemporaryDirectory(prefix="roamlet-") as folder:  # its path leaves room for the name of a socket
        shared = ("-oControlMaster=auto", f"-oControlPath={folder}/s", "-oControlPersist=60")
        try:
            with (
                ssh("target", password, *shared, python=PYTHON),
                ssh("target", password, *shared, python=PYTHON) as second,
            ):
                assert second.call(roamlet_sent.add, (1, 2)) == 3
            assert len(asked) == 1
        finally:
            subprocess.run(["ssh", "-O", "exit", "-F", "none", *shared, "target"], capture_output=True, check=False)


@pytest.fixture
def locked_key(server):
    """A key with a passphrase, which lets in whoever runs the tests."""
    path = server.folder / "locked_key"
    if not path.exists():
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", PASSPHRASE, "-C", "roamlet-test", "-f", str(path)]
        subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
        with (server.folder / "authorized_keys").open("a") as keys:
            keys.write(path.with_suffix(".pub").read_text())
    return path


def test_the_passphrase_of_a_key_is_typed(ssh, locked_key):
    with ssh("with-key", PASSPHRASE, python=PYTHON) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_a_wrong_passphrase_is_an_authentication_failure(ssh, locked_key):
    with raises(remote.AuthenticationFailed, match="does not take the password; it accepts"):
        ssh("with-key", "wrong-" + PASSPHRASE)


def test_a_key_of_the_agent_needs_no_passphrase(ssh, locked_key, server, monkeypatch):
    with tempfile.TemporaryDirectory(prefix="roamlet-") as folder:
        socket = f"{folder}/agent"
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE, text=True)
        try:
            agent.stdout.readline()  # it has made its socket
            monkeypatch.setenv("SSH_AUTH_SOCK", socket)
            subprocess.run(["ssh-add", "-q", str(server.folder / "user_key")], check=True, capture_output=True)
            with ssh("with-key", None, f"-oIdentityAgent={socket}", "-oIdentitiesOnly=no", python=PYTHON) as context:
                assert context.call(os.getuid) == os.getuid()
        finally:
            agent.terminate()
            agent.wait(10)
            agent.stdout.close()
