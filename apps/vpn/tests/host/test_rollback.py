"""The process that brings a server back: alive before anything is changed, and the only one who decides."""

import json
import os
import signal
import stat
import threading
import time

import pytest

from roamlet_vpn.host import rollback, system

TOKEN, OTHER = "0123456789abcdef", "fedcba9876543210"
NONE = "roamlet-none0"  # an interface that no machine has


@pytest.fixture
def files(server):
    """A file that is there and one that is not, and what a change makes of them."""
    there, missing = server.folder / "there", server.folder / "missing"
    there.write_text("old")
    there.chmod(0o640)
    return there, missing


def armed(files, seconds=30.0, token=TOKEN):
    rollback.arm(token, NONE, seconds, [str(path) for path in files])
    for path in files:
        path.write_text("new")
    return token


def as_before(files):
    there, missing = files
    return there.read_text() == "old" and not missing.exists() and stat.S_IMODE(there.stat().st_mode) == 0o640


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in 20 seconds"
        time.sleep(0.02)


def process_of(token):
    """The number of its process, whose words name its folder."""
    words = f"{rollback.FOLDER}/{token}".encode()
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                if words in file.read().split(b"\0"):
                    return int(number)
        except OSError:
            continue
    return None


def test_it_comes_by_itself_when_nobody_confirms(files):
    token = armed(files, 1.0)
    assert rollback.armed()["token"] == token
    until(lambda: rollback.armed() is None and os.listdir(f"{rollback.FOLDER}/{token}") and as_before(files))
    assert rollback.disarm(token) == rollback.ROLLED_BACK  # too late, and the caller is told
    assert as_before(files)


def test_what_was_confirmed_stays_and_nothing_is_left_that_held_a_key(files):
    token = armed(files)
    assert process_of(token) is not None
    assert rollback.disarm(token) == rollback.DISARMED == rollback.disarm(token)
    assert [path.read_text() for path in files] == ["new", "new"]
    assert set(os.listdir(f"{rollback.FOLDER}/{token}")) == {"outcome", "alive"}
    assert rollback.roll_back(token)["outcome"] == rollback.DISARMED
    until(lambda: process_of(token) is None)


def test_it_can_be_told_to_come_now(files):
    token = armed(files)
    outcome = rollback.roll_back(token)
    assert outcome["outcome"] == rollback.ROLLED_BACK and as_before(files)
    assert rollback.roll_back(token) == outcome


def test_it_is_a_process_of_its_own_that_needs_nobody(files):
    token = armed(files)
    number = process_of(token)
    with open(f"/proc/{number}/stat") as file:
        _, parent, _, session = file.read().rpartition(")")[2].split()[:4]
    assert int(parent) != os.getpid() and int(session) != os.getsid(0)
    assert all(os.readlink(f"/proc/{number}/fd/{end}") == "/dev/null" for end in (0, 1, 2))
    rollback.disarm(token)


def test_who_asks_does_it_when_the_process_was_killed(files):
    token = armed(files)
    os.kill(process_of(token), signal.SIGKILL)
    until(lambda: rollback.armed() is None)
    assert rollback.roll_back(token)["outcome"] == rollback.ROLLED_BACK and as_before(files)


def test_what_was_interrupted_in_the_middle_is_done_again(files):
    token = armed(files)
    os.kill(process_of(token), signal.SIGKILL)
    until(lambda: rollback.armed() is None)
    folder = f"{rollback.FOLDER}/{token}"
    os.rename(f"{folder}/armed", f"{folder}/rolling")  # as one leaves it that dies here
    assert rollback.roll_back(token)["outcome"] == rollback.ROLLED_BACK and as_before(files)


def test_it_waits_for_a_change_under_way_and_lets_no_other_begin(files):
    there, _ = files
    token = armed(files)
    ended = []
    with rollback.turn(token):
        asking = threading.Thread(target=lambda: ended.append(rollback.roll_back(token)))
        asking.start()
        until(lambda: os.path.exists(f"{rollback.FOLDER}/{token}/rolling"))
        there.write_text("newer")  # a moment longer, and it would be lost
        assert not ended
    asking.join(20)
    assert ended[0]["outcome"] == rollback.ROLLED_BACK and as_before(files)
    with pytest.raises(system.CannotDo, match="this server has rolled back by itself"):
        with rollback.turn(token):
            there.write_text("too late")
    assert as_before(files)


def test_two_who_change_a_server_at_once_are_told_apart(files):
    token = armed(files)
    with pytest.raises(
        system.CannotDo, match=r"another change of this server waits .* Is another change being applied"
    ):
        rollback.arm(OTHER, NONE, 30, [])
    rollback.disarm(token)
    rollback.arm(OTHER, NONE, 30, [])
    assert rollback.disarm(OTHER) == rollback.DISARMED


def test_a_token_that_nobody_knows_here_is_unknown(server):
    assert rollback.roll_back(TOKEN) == {"outcome": rollback.UNKNOWN, "errors": []}
    assert rollback.disarm(TOKEN) == rollback.UNKNOWN
    with pytest.raises(ValueError, match="is no token of a rollback"):
        rollback.disarm("../../etc")


def test_what_is_kept_is_roots_alone(files):
    token = armed(files)
    assert stat.S_IMODE(os.stat(rollback.FOLDER).st_mode) == 0o700
    folder = f"{rollback.FOLDER}/{token}"
    for name in ("state.json", "0"):
        assert stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode) == 0o600
    assert json.loads(system.read(f"{folder}/state.json"))["interface"] == NONE
    rollback.disarm(token)


def test_a_folder_that_is_open_to_others_is_not_used(server):
    os.mkdir(rollback.FOLDER)
    os.chmod(rollback.FOLDER, 0o755)
    with pytest.raises(system.CannotDo, match="belongs to another user or is open to others"):
        rollback.arm(TOKEN, NONE, 30, [])


@pytest.mark.parametrize("seconds", [0, -1, 4000, True, "60", float("nan")])
def test_how_long_it_waits_has_limits(server, seconds):
    with pytest.raises(ValueError, match="a rollback can wait from 1 to 3600 seconds"):
        rollback.arm(TOKEN, NONE, seconds, [])


def test_what_cannot_be_restored_is_named_and_the_rest_is(files, server):
    there, missing = files
    folder = server.folder / "gone"
    folder.mkdir()
    (folder / "file").write_text("x")
    rollback.arm(TOKEN, NONE, 30, [str(there), str(missing), str(folder / "file")])
    there.write_text("new")
    (folder / "file").unlink()
    folder.rmdir()
    outcome = rollback.roll_back(TOKEN)
    assert any(f"{folder}/file: " in error for error in outcome["errors"])
    assert as_before(files)


def test_a_route_by_another_device_that_was_replaced_comes_back(server, files):
    """A route into the tunnel takes the place of one to the same network, which stood beside the interface."""
    server.program(
        "ip",
        """#!/bin/sh
        echo "ip $*" >> {folder}/said
        case "$*" in *show*exact*) cat {folder}/routes;; *rule*) exit 2;; esac
    """,
    )
    table = server.folder / "routes"
    table.write_text(
        "192.168.20.0/24 via 10.1.1.1 dev eth1 proto static \n192.168.20.0/24 dev roamlet-none0 scope link metric 5\n"
    )
    rollback.arm(TOKEN, NONE, 30, [], (), ["192.168.20.0/24"])
    table.write_text("192.168.20.0/24 dev roamlet-none0 scope link\n")
    assert rollback.roll_back(TOKEN) == {"outcome": rollback.ROLLED_BACK, "errors": []}
    assert "ip -4 route replace 192.168.20.0/24 via 10.1.1.1 dev eth1 proto static\n" in server.said
    assert server.said.count("replace") == 1


def test_a_route_that_is_still_there_is_left_alone(server):
    server.program(
        "ip",
        """#!/bin/sh
        echo "ip $*" >> {folder}/said
        case "$*" in *show*exact*) echo "fd00:20::/64 \\\\ nexthop via fe80::1 dev eth1 weight 1 ";; *rule*) exit 2;; esac
    """,
    )
    rollback.arm(TOKEN, NONE, 30, [], (), ["fd00:20::/64"])
    assert rollback.roll_back(TOKEN) == {"outcome": rollback.ROLLED_BACK, "errors": []}
    assert "ip -o -6 route show table main exact fd00:20::/64\n" in server.said and "replace" not in server.said


def test_the_owner_of_a_file_comes_back_too(files):
    there, _ = files
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(there, 1, 2)
    armed(files)
    rollback.roll_back(TOKEN)
    assert as_before(files) and (there.stat().st_uid, there.stat().st_gid) == (1, 2)
