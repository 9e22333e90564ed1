"""A first apply that is killed leaves fresh servers as they were, at whichever step it was; the next one makes up for it."""

import pytest

from apps.vpn.tests.lab.killing import NAMES, killed, killed_while_acting, settled

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_the_tool_is_killed_while_it_makes_the_first_keys_and_configurations(offices):
    bare = offices.states()
    assert not any("600 root" in state or "mtu" in state for state in bare.values())
    assert all(state.endswith("\n0\n") for state in bare.values())  # forwarding
    for step in (
        "making keys",
        "make_key after one",
        "make_key after all",
        "changing",
        "shake_hands after all",
        "confirming",
    ):
        killed(offices, step)
        settled(offices)
        assert offices.states() == bare, step
    for first in (0, 3):
        killed_while_acting(offices, first)
        settled(offices)
        assert offices.states() == bare, first
    keys = {name: offices.server(name).shell("wg pubkey </etc/wireguard/wg0.key") for name in NAMES}
    report = offices.apply(offices.network)
    assert report.exit_code == 0, report.lines()
    for name in NAMES:
        server = offices.server(name)
        assert server.run(["wg", "show", "wg0", "public-key"]).stdout == keys[name]
        assert server.shell("stat -c '%a %n' /etc/wireguard/*") == "600 /etc/wireguard/wg0.conf\n"
    assert all(offices.reaches(one, another) for one in NAMES for another in NAMES if one != another)
