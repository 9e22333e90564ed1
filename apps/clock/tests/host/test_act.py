"""Actions carried out, in a folder: each is right to do twice, and the first that fails ends the row and is told."""

import pytest

from roamlet_clock.actions import Reload, Remove, Run, Systemctl
from roamlet_clock.host import commands
from roamlet_clock.host.act import act


@pytest.fixture
def said(tmp_path, monkeypatch):
    """Reads what systemctl has been told."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(
        f'#!/bin/sh\necho "$*" >>{tmp_path}/said\ncase $2 in bad*) echo "no unit $2" >&2; exit 4;; esac\n'
    )
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setattr(commands, "FOLDERS", f"{tmp_path}/bin:/usr/bin:/bin")
    return lambda: (tmp_path / "said").read_text().splitlines()


def test_files_and_a_folder_are_removed_twice(tmp_path):
    folder = tmp_path / "stamps"
    folder.mkdir()
    for name in ("stamp", ".new.12"):
        (folder / name).touch()
    (tmp_path / "unit").symlink_to("nowhere")
    actions = [Remove(str(tmp_path / "unit")).plain(), Remove(str(folder), folder=True).plain()]
    for _ in range(2):
        assert act(actions) == {"done": 2, "error": None, "said": []}
        assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_folder_in_it_is_somebody_elses(tmp_path):
    (tmp_path / "stamps/inner").mkdir(parents=True)
    done = act([Remove(str(tmp_path / "stamps"), folder=True).plain()])
    assert done["done"] == 0 and done["error"].endswith("stamps holds what is not of roamlet clock: inner")


def test_systemctl_is_told_in_order_and_its_refusal_ends_the_row(said):
    actions = [Reload(), Systemctl("enable", ("a", "b")), Systemctl("start", ("bad.service",)), Reload()]
    done = act([action.plain() for action in actions])
    assert done == {"done": 2, "error": "systemctl start bad.service: no unit bad.service", "said": []}
    assert said() == ["daemon-reload", "enable a b", "start bad.service"]


def test_what_the_script_says_comes_up_and_so_does_its_failure(tmp_path):
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\nprintf "saved\\033[2J\\n" >&2\n[ "$1" = begin ]\n')
    script.chmod(0o755)
    assert act([Run(str(script), "begin").plain()]) == {"done": 1, "error": None, "said": ["saved?[2J"]}
    assert act([Run(str(script), "tick").plain()])["error"] == "tick: saved?[2J"
    done = act([Run(str(tmp_path / "none"), "tick").plain()])
    assert done["error"].endswith("none cannot be run here: No such file or directory")


@pytest.mark.parametrize("action", [{"do": "format"}, "remove", None])
def test_what_is_no_action_is_refused_before_anything_is_done(tmp_path, action):
    (tmp_path / "unit").touch()
    with pytest.raises(ValueError, match="is no action; is it of another version of roamlet"):
        act([Remove(str(tmp_path / "unit")).plain(), action])
    assert (tmp_path / "unit").exists()


def test_a_file_that_is_not_ours_is_left_with_everything_beside_it(tmp_path):
    folder = tmp_path / "stamps"
    folder.mkdir()
    for name in ("stamp", "stamp.1", "notes", "stamp.10\x1b"):
        (folder / name).touch()
    done = act([Remove(str(folder), folder=True).plain()])
    assert done["error"] == f"{folder} holds what is not of roamlet clock: notes, stamp.10?"
    assert sorted(path.name for path in folder.iterdir()) == ["notes", "stamp", "stamp.1", "stamp.10\x1b"]


def test_behind_a_link_in_place_of_the_folder_the_stamps_go_and_the_rest_stays(tmp_path):
    there = tmp_path / "data"
    there.mkdir()
    for name in ("stamp", "installed", "precious"):
        (there / name).touch()
    (tmp_path / "stamps").symlink_to("data")
    action = Remove(str(tmp_path / "stamps"), folder=True).plain()
    for _ in range(2):
        assert act([action]) == {"done": 1, "error": None, "said": []}
        assert [path.name for path in tmp_path.iterdir()] == ["data"]
        assert [path.name for path in there.iterdir()] == ["precious"]
    (tmp_path / "stamps").symlink_to("nowhere")
    assert act([action])["error"] is None
    assert not (tmp_path / "stamps").is_symlink()


def test_a_file_in_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "stamps").touch()
    done = act([Remove(str(tmp_path / "stamps"), folder=True).plain()])
    assert done["done"] == 0 and "Not a directory" in done["error"]
