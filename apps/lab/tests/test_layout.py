"""Addresses of offices, and the files that follow from them: decided without touching anything."""

import pytest

from roamlet_lab import LabError, Office, layout


def test_each_office_has_networks_of_its_own_and_the_addresses_that_the_documentation_names():
    alpha, beta = layout.places(2)
    assert (alpha.name, str(alpha.lan), str(alpha.wan)) == ("alpha", "192.168.10.0/24", "198.51.100.1")
    assert [str(one) for one in (beta.gateway, beta.client, beta.server)] == [
        "192.168.20.1",
        "192.168.20.50",
        "192.168.20.100",
    ]
    assert str(beta.address6(100)) == "fd00:20::100"
    assert beta.address6(100) in beta.lan6


def test_as_many_offices_as_there_may_be_overlap_nowhere():
    made = layout.places([f"o{number}" for number in range(layout.MOST_OFFICES)])
    lans = [place.lan for place in made]
    assert not any(one.overlaps(other) for one in lans for other in lans if one is not other)
    assert len({place.wan for place in made} | {layout.ADMIN_ADDRESS, layout.ROUTER}) == len(made) + 2


@pytest.mark.parametrize(
    ("offices", "says"),
    [
        (0, "0 offices: a lab has 1 to 24"),
        (99, "99 offices"),
        ([], "0 offices"),
        (["alpha", "alpha"], "two offices are called 'alpha'"),
        (["Alpha"], "'Alpha' is no name for an office"),
        (["admin"], "not 'admin'"),
        (["a-server"], "not ending in -client"),
        (["a b"], "small letters"),
        ([f"o{number}" for number in range(26)], "26 offices: a lab has 1 to 25"),
    ],
)
def test_what_is_no_list_of_offices_is_refused(offices, says):
    with pytest.raises(LabError, match=says):
        layout.places(offices)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"routes": "router"}, "one of gateway, clients, none"), ({"forward": (0,)}, "UDP ports from 1 to 65535")],
)
def test_what_is_no_option_of_an_office_is_refused(options, says):
    with pytest.raises(LabError, match=says):
        Office("alpha", **options)


def test_a_gateway_forwards_what_its_office_says_and_drops_the_unknown_only_when_it_is_stateful():
    plain, strict, closed = layout.places(
        [Office("plain"), Office("strict", stateful=True, forward=(51820, 1194)), Office("closed", forward=())]
    )
    assert "udp dport { 51820 } dnat to 192.168.10.100" in layout.gateway_rules(plain)
    assert "invalid" not in layout.gateway_rules(plain)
    assert "udp dport { 51820, 1194 } dnat to 192.168.20.100" in layout.gateway_rules(strict)
    assert "ct state invalid drop" in layout.gateway_rules(strict)
    assert "udp" not in layout.gateway_rules(closed)
    assert "tcp dport 22 dnat to 192.168.30.100" in layout.gateway_rules(closed)


def test_hosts_name_what_may_change():
    lines = layout.hosts_file(layout.places(2)).splitlines()
    assert "198.51.100.2 beta.example" in lines
    assert "192.168.20.100 beta" in lines
