"""Folders of a transfer of files, where two transfers make the same one."""

import os

from roamlet.wire.files import folders


def test_a_folder_that_another_transfer_makes_meanwhile_is_taken(tmp_path, monkeypatch):
    place = os.fsencode(tmp_path / "found")
    first_missing = folders._first_missing

    def made_meanwhile(path):
        missing = first_missing(path)
        os.mkdir(missing)
        return missing

    monkeypatch.setattr(folders, "_first_missing", made_meanwhile)
    with folders.opened_parent(os.path.join(place, b"app.conf"), make=True) as folder:
        assert folder.path == place
