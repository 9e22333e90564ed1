"""The command line of ssh, and the options for which roamlet leaves the host to core's own ssh plugin."""

import shutil

import pytest

pytest.importorskip("ansible", reason="ansible-core is not installed for this Python")

from roamlet_ansible.connection.arguments import only_cores, shown

OLD = {"ssh_executable": "ssh", "pkcs11_provider": "", "sshpass_prompt": "", "password": None}
NEW = {**OLD, "private_key": None, "verbosity": 0, "password_mechanism": "ssh_askpass"}


class Plugin:
    def __init__(self, **options):
        self._options = options

    def get_option(self, name):
        return self._options[name]


@pytest.mark.parametrize("options", [OLD, NEW], ids=["2.16", "2.21"])
@pytest.mark.parametrize(
    "given", [{}, {"password": "secret"}, {"sshpass_prompt": "PIN:"}, {"ssh_executable": shutil.which("ssh") or "ssh"}]
)
def test_usual_options_are_roamlets(options, given):
    assert not only_cores(Plugin(**{**options, **given}))


@pytest.mark.parametrize("options", [OLD, NEW], ids=["2.16", "2.21"])
@pytest.mark.parametrize(
    "given",
    [
        {"ssh_executable": "/usr/bin/env"},
        {"ssh_executable": "bin/ssh"},
        {"ssh_executable": "/nonexistent/ssh"},
        {"pkcs11_provider": "/usr/lib/provider.so"},
        {"password": "secret", "sshpass_prompt": "PIN:"},
    ],
)
def test_options_of_all_cores_that_roamlet_does_not_have(options, given):
    assert only_cores(Plugin(**{**options, **given}))


@pytest.mark.parametrize(
    "given",
    [{"private_key": "key"}, {"verbosity": 1}, {"password_mechanism": "sshpass"}, {"password_mechanism": "disable"}],
)
def test_options_of_newer_cores_that_roamlet_does_not_have(given):
    assert only_cores(Plugin(**{**NEW, **given}))


def test_what_is_shown_can_be_typed_and_has_no_password():
    target = {
        "kind": "ssh",
        "name": "web1",
        "host": "10.0.0.1",
        "arguments": ["-o", 'User="a b"'],
        "password": "secret",
    }
    assert shown(target) == """SSH: EXEC ssh -o 'User="a b"' 10.0.0.1 (ONCE FOR ALL TASKS)"""
    through = {**target, "via": {"kind": "ssh", "name": "bastion"}}
    assert shown(through).endswith("10.0.0.1 ON bastion (ONCE FOR ALL TASKS)")
