"""The script under bash, the /bin/sh of CentOS and its like: one long way through it. What each step does has tests of its own."""

import shutil

import pytest

from apps.clock.tests.machine import Machine, line

SAVED = 1800000000  # 2027-01-15


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("words", [["bash", "--posix"], ["bash"]], ids=["as_sh", "as_bash"])
def test_from_the_installation_to_a_damaged_stamp_and_back(tmp_path, words):
    machine = Machine(tmp_path, words, ["/usr/bin", "/bin", "/usr/sbin"])
    try:
        machine.clock = SAVED
        machine.fine("begin")
        assert machine.stamped() == {"installed": line(SAVED), "stamp": line(SAVED)}
        machine.clock = SAVED + 900
        assert machine.fine("tick") == ""
        machine.clock = 100
        assert "and is not synchronised: what was saved stays" in machine.fine("save")
        machine.stamp("stamp", b"roamlet-clock 1 \0\xff\n")
        assert "stamp is damaged; it is left out" in machine.fine("load")
        assert machine.sets == [SAVED]
        machine.synchronised()
        machine.clock = SAVED - 900
        assert "lay in the future of a synchronised clock" in machine.fine("save")
        assert set(machine.stamped().values()) == {line(SAVED - 900)}
        status = machine.status()
        assert (status["stamp"], status["synchronised"], status["floor"]) == (str(SAVED - 900), "yes", str(SAVED - 900))
        (machine.stamps / "stamp").unlink()
        (machine.stamps / "stamp").mkdir()
        ran = machine.run("save")
        assert ran.status == 1 and "stamp is a folder" in ran.said
    finally:
        machine.end()
