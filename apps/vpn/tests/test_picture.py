"""The drawing is well-formed, says what is known, and keeps its cards apart."""

import itertools
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from apps.vpn.tests.measuring import site, well
from roamlet_vpn.check.picture import COLOURS, WIDTH, Tunnel, picture
from roamlet_vpn.model.diagnosis import Diagnosis
from roamlet_vpn.model.network import Network

SVG = "{http://www.w3.org/2000/svg}"


def drawn(text):
    return ElementTree.fromstring(text)


def words(tree):
    return [text for element in tree.iter(f"{SVG}text") for text in element.itertext()]


def many(count):
    return Network(sites=tuple(replace(site("alpha"), name=f"site{number}") for number in range(count)))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 9, 20])
def test_cards_do_not_overlap_and_lie_inside(count):
    tree = drawn(picture(many(count)))
    cards = [
        {name: float(element.get(name)) for name in ("x", "y", "width", "height")}
        for element in tree.iter(f"{SVG}rect")
        if element.get("width") == str(WIDTH)
    ]
    assert len(cards) == count
    for one, other in itertools.combinations(cards, 2):
        assert (
            one["x"] + one["width"] <= other["x"]
            or other["x"] + other["width"] <= one["x"]
            or one["y"] + one["height"] <= other["y"]
            or other["y"] + other["height"] <= one["y"]
        )
    for one in cards:
        assert one["x"] >= 0 and one["x"] + one["width"] <= float(tree.get("width"))
        assert one["y"] >= 0 and one["y"] + one["height"] <= float(tree.get("height"))


def test_what_is_known_stands_in_it():
    tunnels = [Tunnel("alpha", "beta", "up", 0.0804, (2.5e7, 1e7)), Tunnel("gamma", "alpha", "down")]
    fault = Diagnosis("stateful-gateway", "error", "beta", None, "", "", ())
    text = picture(well(3), tunnels, [fault, fault])
    said = words(drawn(text))
    for word in (
        "alpha",
        "192.168.20.0/24",
        "10.8.1.3",
        "198.51.100.1:51820",
        "80.4 ms",
        "200 / 80 Mbit/s",
        "down",
        "not looked at",
    ):
        assert word in said
    assert said.count("✗ stateful-gateway") == 1
    assert all(COLOURS[state] in text for state in ("up", "down", "unknown")) and COLOURS["idle"] not in text


def test_a_hub_is_drawn_with_its_spokes_alone():
    tree = drawn(picture(well(3, topology="hub", hub="beta")))
    assert "beta (hub)" in words(tree)
    assert (
        sum(element.get("stroke-width") == "3" for element in tree.iter(f"{SVG}line")) == 2 + 1
    )  # and one of the legend


def test_names_cannot_break_out_of_the_drawing():
    network = Network(sites=(replace(site("alpha"), name='<script>"&', lans=()),))
    assert '<script>"&' in words(drawn(picture(network)))
