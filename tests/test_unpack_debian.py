"""Debian packages that tests unpack privately: what is downloaded, and what is kept for the next time."""

import os

import pytest

from tools import unpack_debian

APT_GET = """\
#!/bin/sh
case "$*" in
    *--simulate*) echo 'Inst thing (1 Debian:12 [all])' ;;
    *--print-uris*) [ -e thing_1_all.deb ] || echo "'http://mirror/pool/thing_1_all.deb' thing_1_all.deb 4 SHA256:0" ;;
    *) [ -e thing_1_all.deb ] || { echo new >thing_1_all.deb; echo thing >>"$FETCHED"; } ;;
esac
"""

DPKG_DEB = """\
#!/bin/sh
mkdir -p "$3/usr/bin" && cp "$2" "$3/usr/bin/"
"""


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """apt-get and dpkg-deb know one package, which a mirror has; returns the file that names what was fetched, one a line."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FETCHED", str(tmp_path / "fetched"))
    monkeypatch.delenv("ROAMLET_ARCHIVES", raising=False)
    return tmp_path / "fetched"


def unpacked_in(folder):
    return [path.name for path in (unpack_debian.unpack(folder, ["thing"]) / "usr/bin").iterdir()]


def test_what_is_unpacked_already_is_not_fetched(fetched, tmp_path):
    for _ in range(2):
        assert unpacked_in(tmp_path / "one") == ["thing_1_all.deb"]
    assert unpacked_in(tmp_path / "two") == ["thing_1_all.deb"]
    assert fetched.read_text() == "thing\nthing\n"


def test_an_archive_that_is_kept_is_fetched_once_and_others_beside_it_are_not_unpacked(fetched, tmp_path, monkeypatch):
    archives = tmp_path / "kept" / "debian"
    monkeypatch.setenv("ROAMLET_ARCHIVES", str(archives))
    assert unpacked_in(tmp_path / "one") == ["thing_1_all.deb"]
    (archives / "other_1_all.deb").write_text("other")
    assert unpacked_in(tmp_path / "two") == ["thing_1_all.deb"]
    assert fetched.read_text() == "thing\n"
