"""A tasklet that moves through contexts of several kinds by itself, and comes home."""

import os
import sys
from collections.abc import Callable

import move_to_functions
import pytest

import roamlet
from roamlet import remote
from tests.remote.sshd import Sshd
from tests.snapshot.conftest import KNOWN

BARE = getattr(sys, "_base_executable", sys.executable)


@pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")
def test_in_one_loop_through_sudo_ssh_and_a_second_hop_and_home(called_by: Callable[[str], None], sshd: Sshd) -> None:
    called_by("root")
    there = {"python": BARE, "tasklets": True}
    with (
        remote.sudo("root", **there) as root,
        remote.ssh(sshd.host, ssh_args=sshd.ssh_args, name="alpha", **there) as alpha,
        remote.ssh(sshd.host, ssh_args=sshd.ssh_args, via=alpha, name="behind", **there) as behind,
    ):
        root.allow_moves_to(alpha)
        alpha.allow_moves_to(behind)
        behind.allow_moves_to(roamlet.home)
        numbers: roamlet.channel[int] = roamlet.channel()
        visited: roamlet.channel[tuple[int, int]] = roamlet.channel()
        places = [roamlet.home, root, alpha, behind, roamlet.home]
        going = roamlet.spawn(move_to_functions.goes, (places, numbers, visited))
        pids = [os.getpid(), *(context.facts.pid for context in (root, alpha, behind)), os.getpid()]
        for number, pid in enumerate(pids):
            numbers.send(number)
            assert visited.receive() == (pid, sum(range(number + 1)))
        assert going.join() == (10, places)
        assert len(set(pids)) == len(pids) - 1
