"""The callback plugin `preload`: what is loaded before the first worker is forked; results of tasks stay the same."""

import json

import pytest

pytestmark = pytest.mark.playbook

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: file, copy: {content: "text", dest: "{{ place }}"}}
  - {name: again, copy: {content: "text", dest: "{{ place }}"}}
"""
OURS = "ansible_collections.roamlet.remote.plugins.connection.ssh"
COPY = "ansible.plugins.action.copy"


def played_with(playing, *callbacks, connection="roamlet.remote.ssh"):
    """(what was played, what the controller had loaded before the first worker)."""
    state = playing.folder / "state"
    place = playing.folder / "made"
    place.unlink(missing_ok=True)
    enabled = ",".join(("task_results", *callbacks, "controller_state"))
    played = playing.play(
        PLAY, connection, "-e", f"place={place}", ANSIBLE_CALLBACKS_ENABLED=enabled, CONTROLLER_STATE=str(state)
    )
    assert place.exists(), played.text
    assert place.read_text() == "text"
    return played, json.loads(state.read_text())


@pytest.mark.parametrize("callback", ["roamlet.remote.preload", "roamlet.remote.recap"])
def test_plugins_are_loaded_and_the_broker_is_started_before_the_first_worker(playing, callback):
    played, state = played_with(playing, callback)
    assert [(name, status) for name, status, _ in played.tasks] == [
        ("file", "ok"),
        ("again", "ok"),
    ]
    assert (played["file"]["changed"], played["again"]["changed"]) == (True, False)
    assert OURS in state["plugins"]
    assert COPY in state["plugins"]
    assert state["broker"]
    assert ("ROAMLET RECAP" in played.text) == callback.endswith("recap")


def test_without_it_the_first_worker_does_both(playing):
    _, state = played_with(playing)
    assert OURS not in state["plugins"]
    assert not state["broker"]


def test_no_broker_is_started_for_a_run_over_another_connection(playing):
    _, state = played_with(playing, "roamlet.remote.preload", connection="ansible.builtin.ssh")
    assert not state["broker"]
