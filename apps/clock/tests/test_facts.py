"""What a host reports is untrusted: what is not in the agreed shape is refused, with its name and the place."""

import re

import pytest

from apps.clock.tests.hosts import FakeHost, facts_of
from roamlet_clock import units
from roamlet_clock.facts import Facts
from roamlet_clock.plan import ASKED_PATHS, ASKED_UNITS
from roamlet_clock.untrusted import FactsError


def plain(**changes):
    return {**FakeHost("alpha").facts(ASKED_PATHS, ASKED_UNITS, units.PROGRAM), **changes}


def test_the_facts_of_a_bare_host():
    facts = facts_of(FakeHost("alpha"))
    assert facts.systemd == 252 and facts.paths == {} and facts.status is None
    assert not facts.units["roamlet-clock.service"].known


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "the facts of alpha have version 2, and this is 1"),
        ({"time": "now"}, "the facts of alpha, time: 'now' is no number"),
        ({"time": 1e30}, "is no number"),
        ({"systemd": True}, "the facts of alpha, systemd: True is no whole number"),
        ({"is_root": 1}, "is_root: 1 is no true or false"),
        ({"rtc": {"device": "rtc0"}}, "the facts of alpha, rtc: there is no 'epoch'"),
        ({"paths": {"/x": {"kind": "socket", "mode": 0, "uid": 0, "text": ""}}}, "kind: 'socket' is no kind of file"),
        ({"paths": {"/x": {"kind": "file", "mode": -1, "uid": 0, "text": ""}}}, "mode: -1 is no whole number"),
        ({"units": {"a": ["enabled"]}}, "units, a: there is no 'load'"),
        ({"status": ["stamp=1"]}, "status: ['stamp=1'] is no mapping"),
        ({"missing": {str(number): "" for number in range(1001)}}, "is no mapping of at most 1000 entries"),
        ({"hostname": "a" * 200_000}, "is no text"),
    ],
)
def test_what_is_not_in_shape_is_refused(changes, message):
    with pytest.raises(FactsError, match=re.escape(message)):
        Facts.from_plain(plain(**changes), "alpha")


@pytest.mark.parametrize("sent", [None, [], "facts", {}])
def test_what_are_no_facts_at_all_are_refused(sent):
    with pytest.raises(FactsError, match="the facts of alpha: there is no 'version'"):
        Facts.from_plain(sent, "alpha")


def test_nothing_that_a_terminal_obeys_gets_through():
    facts = Facts.from_plain(plain(hostname="a\x1b[2J", status={"stamp_why": "\x07is damaged"}), "alpha")
    assert facts.hostname == r"a\x1b[2J" and facts.status == {"stamp_why": r"\x07is damaged"}
