"""Packed modules that an earlier run has left: core takes them, and not where a role has module_utils of its own."""

import base64
import hashlib
import io
import pickle
import time
import zipfile

import pytest

pytestmark = pytest.mark.playbook

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: first, ping: {}}
  - {name: other, stat: {path: /}}
"""
WITH_ROLE = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: first, ping: {}}
  - {name: load, include_role: {name: own}}
  - {name: other, stat: {path: /}}
"""
PATIENCE = 60
MARK = (
    b"# of the cache\nimport sys\nprint('"
    + b'{"changed": false, "ping": "of the cache", "stat": {}}'
    + b"'); sys.exit(0)\n"
)


def kept(playing):
    """The kept files, by the names of their modules; the broker writes them when the playbook has ended."""
    until = time.monotonic() + PATIENCE
    while len(found := _kept(playing)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _kept(playing):
    return {file.name.split("-")[0].rpartition(".")[2]: file for file in (playing.folder / "cache").glob("*/*")}


def mark(file):
    """Have the packed module of a kept file say where it comes from: no core packs such a one."""
    data = file.read_bytes()[32:]
    packed = data if data[:2] != b"\x80\x04" and not data.startswith(b"\x80") else pickle.loads(data)
    zip_data = packed if isinstance(packed, bytes) else packed.zip_data
    changed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(base64.b64decode(zip_data))) as old,
        zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            ours = name.startswith("ansible/modules/") and not name.endswith("__init__.py")
            new.writestr(name, MARK if ours else old.read(name))
    made = base64.b64encode(changed.getvalue())
    if not isinstance(packed, bytes):
        import dataclasses

        made = pickle.dumps(dataclasses.replace(packed, zip_data=made))
    file.write_bytes(hashlib.sha256(made).digest() + made)


@pytest.mark.parametrize("callbacks", ["task_results", "task_results,roamlet.remote.preload"])
def test_the_next_run_takes_what_was_kept(playing, callbacks):
    first = playing.play(PLAY, ANSIBLE_CALLBACKS_ENABLED=callbacks)
    assert first["first"]["ping"] == "pong", first.text
    assert kept(playing).keys() == {"ping", "stat"}

    mark(kept(playing)["ping"])
    again = playing.play(PLAY, ANSIBLE_CALLBACKS_ENABLED=callbacks)
    assert again["first"]["ping"] == "of the cache", again.text
    assert again["other"]["stat"]["isdir"]


def test_core_packs_again_what_is_damaged(playing):
    playing.play(PLAY)
    file = kept(playing)["ping"]
    mark(file)
    file.write_bytes(file.read_bytes()[:-1])
    assert playing.play(PLAY)["first"]["ping"] == "pong"


def test_nothing_is_taken_beside_module_utils_of_a_role_that_are_loaded_later(playing):
    own = playing.folder / "roles" / "own"
    (own / "tasks").mkdir(parents=True)
    (own / "tasks" / "main.yml").write_text("- {name: of the role, ping: {}}\n")
    (own / "module_utils").mkdir()
    (own / "module_utils" / "anything.py").write_text("")
    playing.play(PLAY)
    for file in kept(playing).values():
        mark(file)
    played = playing.play(WITH_ROLE)
    # What a task has used stays for the run, as what core has packed does.
    assert played["first"]["ping"] == "of the cache", played.text
    assert played["own : of the role"]["ping"] == "of the cache"
    assert played["other"]["stat"]["isdir"], "core packs what no task has used yet"


def test_nothing_is_taken_beside_module_utils_of_the_playbook(playing):
    playing.play(PLAY)
    mark(kept(playing)["ping"])
    (playing.folder / "module_utils").mkdir()
    (playing.folder / "module_utils" / "anything.py").write_text("")
    assert playing.play(PLAY)["first"]["ping"] == "pong"
