"""What status reports about tunnels, from facts of one and of two moments, and its exit codes."""

from dataclasses import replace

from apps.vpn.tests.measuring import all_facts, key, peer, well, with_peers
from roamlet_vpn.check import status
from roamlet_vpn.commands.checking import BROKEN, OUT_OF_REACH, status_code


def test_numbers_are_those_of_the_interface():
    network = well(2)
    facts = all_facts(network)
    (one,) = status.status(network, facts, {})[0].peers
    there = facts["alpha"].interface.peers[0]
    assert (one.peer, one.state, one.endpoint) == ("beta", "up", "198.51.100.2:51820")
    assert (one.public_key, one.handshake_age, one.rx, one.tx) == (
        there.public_key,
        there.handshake_age,
        there.rx,
        there.tx,
    )
    plain = status.plain(status.status(network, facts, {}))
    assert plain["well"] and plain["sites"]["alpha"]["peers"][0]["allowed_ips"] == ["10.8.1.2/32", "192.168.20.0/24"]


def test_rates_are_those_between_two_looks_by_the_servers_own_clock():
    network = well(2)
    before = all_facts(network)
    facts = dict(before)
    facts["alpha"] = replace(with_peers(before["alpha"], peer(network, "alpha", "beta", rx=5000, tx=3000)), time=2.0)
    (one,) = status.status(network, facts, {}, before)[0].peers
    assert (one.rx_rate, one.tx_rate) == (2000.0, 1000.0)


def test_a_counter_that_began_anew_gives_no_rate():
    network = well(2)
    before = all_facts(network)
    facts = dict(before)
    facts["alpha"] = replace(with_peers(before["alpha"], peer(network, "alpha", "beta", rx=10, tx=10)), time=2.0)
    assert status.status(network, facts, {}, before)[0].peers[0].rx_rate is None


def test_states_of_a_tunnel():
    network = well(2)
    for age, keepalive, state in ((10, 25, "up"), (400, 25, "down"), (400, None, "idle"), (None, None, "down")):
        facts = all_facts(network)
        facts["alpha"] = with_peers(
            facts["alpha"], peer(network, "alpha", "beta", handshake_age=age, keepalive=keepalive)
        )
        assert status.status(network, facts, {})[0].peers[0].state == state


def test_a_key_that_is_no_sites_is_shown_as_such():
    network = well(2)
    facts = all_facts(network)
    facts["alpha"] = with_peers(facts["alpha"], peer(network, "alpha", "beta", public_key=key("stranger")))
    assert status.status(network, facts, {})[0].peers[0].peer is None


def test_the_peer_that_cannot_be_asked_is_known_by_its_address_in_the_tunnel():
    network = well(3)
    facts = all_facts(network)
    del facts["gamma"]
    beta, gamma = status.status(network, facts, {"gamma": "no route"})[0].peers
    assert (beta.peer, gamma.peer) == ("beta", "gamma")


def test_exit_codes():
    network = well(2)
    facts = all_facts(network)
    assert status_code(status.status(network, facts, {})) == 0
    broken = dict(facts)
    broken["alpha"] = with_peers(facts["alpha"], peer(network, "alpha", "beta", handshake_age=None))
    assert status_code(status.status(network, broken, {})) == BROKEN
    del facts["beta"]
    found = status.status(network, facts, {"beta": "no route"})
    assert found[1].error == "no route" and status_code(found) == OUT_OF_REACH
    facts["alpha"] = replace(facts["alpha"], interface=None)
    assert status_code(status.status(network, facts, {})) == BROKEN
