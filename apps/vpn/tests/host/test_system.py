"""What must not leave a server does not, and no file is ever half written."""

import os
import stat

import pytest

from apps.vpn.tests.host.conftest import key
from roamlet_vpn.host import system

SECRET, SHARED, PUBLIC = key("a"), key("shared"), key("public")


@pytest.mark.parametrize(
    ("line", "leaves"),
    [
        (f"PrivateKey = {SECRET}", "PrivateKey = (kept on the server)"),
        (f"  privatekey={SECRET}  # mine", "  privatekey=(kept on the server)  # mine"),
        (f"# PrivateKey = {SECRET}", "# PrivateKey = (kept on the server)"),
        ("PrivateKey = half-a-key", "PrivateKey = (kept on the server)"),
        ("PrivateKey =", "PrivateKey ="),
        (f"PresharedKey = {SHARED}\r", "PresharedKey = (kept on the server)\r"),
        (f"PublicKey = {PUBLIC}", f"PublicKey = {PUBLIC}"),
        (
            f"PostUp = wg set %i private-key <(echo {SECRET})",
            "PostUp = wg set %i private-key <(echo (kept on the server))",
        ),
        (f"PostUp = wg set %i peer {PUBLIC} allowed-ips ::/0", f"PostUp = wg set %i peer {PUBLIC} allowed-ips ::/0"),
        ("Address = 10.8.1.1/24", "Address = 10.8.1.1/24"),
    ],
)
def test_no_key_leaves_in_a_configuration(line, leaves):
    text = f"[Interface]\n{line}\n[Peer]\nPublicKey = {PUBLIC}\n"
    assert system.without_keys(text) == f"[Interface]\n{leaves}\n[Peer]\nPublicKey = {PUBLIC}\n"


def test_what_a_command_says_is_shown_without_keys(server):
    server.program("loud", f"#!/bin/sh\necho 'bad key {SECRET}' >&2\nexit 3\n")
    with pytest.raises(system.CannotDo, match=r"^loud: bad key \(a key\)$"):
        system.must(["loud"])


def test_a_program_that_is_not_there_is_named(server):
    with pytest.raises(system.CannotDo, match="roamlet-none cannot be run here: No such file"):
        system.run(["roamlet-none"])


def test_a_command_that_hangs_is_ended(server):
    with pytest.raises(system.CannotDo, match="sleep 60 did not end within 0 seconds"):
        system.run(["sleep", "60"], timeout=0.05)


def test_a_file_has_its_mode_whatever_the_umask_is(tmp_path):
    before = os.umask(0)
    try:
        system.write(str(tmp_path / "wg0.conf"), b"key", 0o600)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "wg0.conf").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "wg0.conf"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        system.write(str(path), b"new", 0o600)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["wg0.conf"]


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "real.conf").write_text("old")
    (tmp_path / "wg0.conf").symlink_to("real.conf")
    system.write(str(tmp_path / "wg0.conf"), b"new", 0o600)
    assert (tmp_path / "wg0.conf").is_symlink() and (tmp_path / "real.conf").read_text() == "new"


@pytest.mark.parametrize("name", ["", "..", "a/b", "wg0; reboot", "sixteen-letters-", None])
def test_no_other_name_gets_into_a_path_or_a_command(name):
    with pytest.raises(ValueError, match="no name of an interface"):
        system.checked_interface(name)
