"""A server for the tests of what runs there: its folders are in a temporary one, its `wg` is a stand-in that needs no root."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from roamlet_vpn.host import forward, live, rollback, system
from tools import unpack_debian

UNPACKED = Path(__file__).parents[4] / ".venv" / "iproute2"

# Its arguments are kept in `said`, its input in `synced`.
WG = """#!/bin/sh
echo "wg $*" >> {folder}/said
case $1 in
    genkey) head -c 32 /dev/urandom | base64;;
    syncconf) cat > {folder}/synced;;
    show) cat {folder}/dump;;
esac
"""


def key(word: str) -> str:
    """A private key."""
    return base64.b64encode(hashlib.sha256(b"private " + word.encode()).digest()).decode()


def public(private: str) -> str:
    """In place of `wg pubkey`, which takes as long as all the rest: any function that leaves no way back will do."""
    return base64.b64encode(hashlib.sha256(private.encode()).digest()).decode()


@dataclass
class Server:
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "wireguard" / "wg0.conf"

    @property
    def waiting(self) -> Path:
        return self.folder / "wireguard" / "wg0.key"

    @property
    def said(self) -> str:
        path = self.folder / "said"
        return path.read_text() if path.exists() else ""

    @property
    def synced(self) -> str | None:
        path = self.folder / "synced"
        return path.read_text() if path.exists() else None

    def program(self, name: str, script: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(script.replace("{folder}", str(self.folder)))
        path.chmod(0o755)


@pytest.fixture
def iproute2(monkeypatch: pytest.MonkeyPatch) -> None:
    """ip, ss and tc: those of this machine, or unpacked into a private folder."""
    if system.found("ip"):
        return
    try:
        around = unpack_debian.environment(unpack_debian.unpack(UNPACKED, ["iproute2"]))
    except unpack_debian.CannotUnpack as error:
        pytest.skip(f"there is no ip: {error}")
    for name, value in around.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "wireguard").mkdir(mode=0o700)
    made.program("wg", WG)
    monkeypatch.setattr(system, "_MORE_FOLDERS", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(system, "public_key", lambda private: public(private) if system.is_key(private) else None)
    monkeypatch.setattr(system, "FOLDER", str(tmp_path / "wireguard"))
    monkeypatch.setattr(rollback, "FOLDER", str(tmp_path / "rollbacks"))
    monkeypatch.setattr(forward, "SYSCTL_FILE", str(tmp_path / "sysctl.d" / "99-roamlet-vpn.conf"))
    monkeypatch.setattr(live, "has_systemd", lambda: False)
    return made
