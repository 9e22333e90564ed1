"""The oldest core with the oldest Pythons on targets, and the newest core with a new one: results are those over ssh."""

import re

import pytest

from bench.ansible import peers
from roamlet_lab import NotPossible
from tests.remote import interpreters

from .playing import ROAMLET, STOCK
from .test_playbooks import PLAIN, prepare, results

pytestmark = [pytest.mark.playbook, pytest.mark.timeout(900)]

FACTS = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: ping, ping: }
  - {name: facts, setup: {gather_subset: [min]}}
"""


@pytest.fixture
def to(playing):
    """`playing`, with the Python of a version, or the system's own, on the target."""

    def to(version):
        path = interpreters.found().get(version)
        if path is None:
            pytest.skip(f"there is no Python {version} here to be a target")
        playing.variables["ansible_python_interpreter"] = path
        prepare(playing.folder)
        return playing

    return to


@pytest.fixture(scope="session")
def newest():
    """Where the programs of the newest core are; to install it takes two minutes, once."""
    try:
        return peers.installed(print) / "bin"
    except NotPossible as error:
        pytest.skip(str(error))


def unlike_stock(playing):
    """The results of PLAIN that are not those over ssh."""
    given = []
    for connection in (STOCK, ROAMLET):
        place = playing.folder / f"over-{connection}"
        place.mkdir()
        played = playing.play(PLAIN, connection, "-e", f"place={place}")
        assert played.code == 0, played.text
        given.append(results(played, place))
    stock, ours = given
    assert [task[:2] for task in ours] == [task[:2] for task in stock]
    return [(found, expected) for expected, found in zip(stock, ours, strict=True) if found != expected]


def version_of_warm_python(playing):
    """What the facts say, when all modules went to the warm Python."""
    played = playing.play(FACTS, ROAMLET, "-vvv")
    assert played.code == 0, played.text
    assert played.text.count("MODULE ansible.modules.") == 2, played.text
    return played["facts"]["ansible_facts"]["ansible_python_version"]


@pytest.mark.parametrize("version", ["2.7", "3.6"])
def test_old_pythons_on_the_target(to, version):
    playing = to(version)
    assert unlike_stock(playing) == []
    assert version_of_warm_python(playing).startswith(version + ".")


@pytest.mark.parametrize("version", ["debian", "3.13"])
def test_the_newest_core(to, newest, version):
    playing = to(version)
    playing.programs = newest
    assert unlike_stock(playing) == []
    assert version_of_warm_python(playing).startswith("3.")


AHEAD = """
- hosts: all
  gather_facts: false
  tasks:
  - {name: long, command: sleep 3}
  - {name: later, stat: {path: /}}
  - {name: last, getent: {database: passwd, key: root}}
"""


@pytest.fixture
def ahead(to, newest, tmp_path):
    """Plays AHEAD with the newest core and the callback that packs: what was played, and the folder of temporary folders."""
    runs = tmp_path / "runs"
    runs.mkdir()
    playing = to("debian")
    playing.programs = newest

    def ahead(*options):
        environment = {
            "ANSIBLE_CALLBACKS_ENABLED": "task_results,roamlet.remote.preload",
            "ANSIBLE_LOCAL_TEMP": str(runs),
            "ANSIBLE_DEBUG": "1",
            "ROAMLET_ANSIBLE_CACHE": "",
        }
        return playing.play(AHEAD, ROAMLET, *options, **environment), runs

    return ahead


def test_the_newest_core_takes_modules_that_were_packed_ahead(ahead):
    played, runs = ahead()
    assert played.code == 0, played.text
    assert [(name, status) for name, status, _ in played.tasks] == [("long", "ok"), ("later", "ok"), ("last", "ok")]
    for module in ("stat", "getent"):
        assert re.search(f"using cached module: {runs}/.*/ansible.modules.{module}-", played.text), played.text
    assert list(runs.iterdir()) == []  # the folder of the run is gone


def test_packing_ends_with_a_run_that_fails_at_once(ahead):
    played, runs = ahead("-e", "ansible_become_exe=/nonexistent", "--become")
    assert played.code == 2, played.text
    assert list(runs.iterdir()) == []
