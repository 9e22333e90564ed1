"""From facts to actions, without a host: what is there already is left alone, and what is taken away is all of it."""

import pytest

from apps.clock.tests.hosts import NOW, FakeHost, facts_of
from roamlet_clock import units
from roamlet_clock.actions import Put, Run, diff
from roamlet_clock.facts import Facts
from roamlet_clock.plan import ASKED_PATHS, ASKED_UNITS, OUR_FILES, Plan, aside, plan_install, plan_remove, wrong

SERVICE = "/etc/systemd/system/roamlet-clock.service"
TIMER = "/etc/systemd/system/roamlet-clock-tick.timer"


def words(plan: Plan) -> list[str]:
    return [action.describe() for action in plan.actions]


def installed(**settings) -> FakeHost:
    host = FakeHost("alpha", **settings)
    host.files = {file.path: (file.text, file.mode) for file in units.installed_files(host.time_set)}
    host.enabled.update(units.ENABLED)
    host.active.update(units.ENABLED)
    host.state.update(installed=NOW, stamp=NOW)
    return host


def test_a_bare_host_gets_everything_and_its_first_stamp_at_the_end():
    assert words(plan_install(facts_of(FakeHost("alpha")))) == [
        "write /usr/local/sbin/roamlet-clock (755)",
        "write /etc/systemd/system/roamlet-clock.service (644)",
        "write /etc/systemd/system/roamlet-clock-tick.service (644)",
        "write /etc/systemd/system/roamlet-clock-tick.timer (644)",
        "have systemd read its units again",
        "enable roamlet-clock.service, roamlet-clock-tick.timer",
        "start roamlet-clock.service, roamlet-clock-tick.timer",
        "run /usr/local/sbin/roamlet-clock begin",
    ]


def test_where_all_is_there_nothing_is_done_and_nothing_is_wrong():
    for host in (installed(), installed(systemd=219, time_set=False)):
        assert plan_install(facts_of(host)) == Plan()
        assert wrong(facts_of(host)) == ()


def test_a_systemd_without_time_set_target_gets_units_without_it():
    for time_set in (True, False):
        plan = plan_install(facts_of(FakeHost("alpha", time_set=time_set)))
        texts = "".join(action.text for action in plan.actions if isinstance(action, Put))
        assert ("Before=time-set.target" in texts) is time_set
        assert ("Before=time-sync.target" in texts) is not time_set


def test_a_timer_that_somebody_has_changed_is_written_again_and_restarted():
    host = installed()
    host.files[TIMER] = (host.files[TIMER][0].replace("15min", "15d"), 0o644)
    plan = plan_install(facts_of(host))
    assert words(plan) == [
        f"rewrite {TIMER} (644)",
        "have systemd read its units again",
        "restart roamlet-clock-tick.timer",
    ]
    assert "-OnUnitActiveSec=15d" in diff(plan.actions[0]) and "+OnUnitActiveSec=15min" in diff(plan.actions[0])
    assert wrong(facts_of(host)) == (f"{TIMER} is not as it is installed",)


def test_a_new_script_needs_no_word_to_systemd():
    host = installed()
    host.files[units.PROGRAM] = ("#!/bin/sh\n", 0o755)
    assert words(plan_install(facts_of(host))) == ["rewrite /usr/local/sbin/roamlet-clock (755)"]


@pytest.mark.parametrize("mode", [0o600, 0o777])
def test_a_script_with_another_mode_is_written_again(mode):
    host = installed()
    host.files[units.PROGRAM] = (host.files[units.PROGRAM][0], mode)
    assert words(plan_install(facts_of(host))) == ["rewrite /usr/local/sbin/roamlet-clock (755)"]


def test_units_that_somebody_has_disabled_and_stopped_are_told_and_come_back():
    host = installed()
    host.enabled.remove("roamlet-clock.service")
    host.active.remove("roamlet-clock-tick.timer")
    assert words(plan_install(facts_of(host))) == ["enable roamlet-clock.service", "start roamlet-clock-tick.timer"]
    assert wrong(facts_of(host)) == ("roamlet-clock.service is not enabled", "roamlet-clock-tick.timer is not active")


def test_a_missing_stamp_is_told_and_made():
    host = installed()
    host.state.clear()
    assert plan_install(facts_of(host)).actions == (Run(units.PROGRAM, "begin"),)
    assert wrong(facts_of(host)) == ("there is no stamp yet",)


def test_remove_stops_first_and_takes_all_files_and_the_stamps():
    assert words(plan_remove(facts_of(installed()))) == [
        "stop roamlet-clock-tick.timer, roamlet-clock-tick.service, roamlet-clock.service",
        "disable roamlet-clock-tick.timer, roamlet-clock.service",
        *(f"remove {path}" for path in OUR_FILES),
        "remove /var/lib/roamlet-clock with the stamps in it",
        "have systemd read its units again",
    ]


def test_remove_finds_nothing_to_do_on_a_bare_host():
    assert plan_remove(facts_of(FakeHost("alpha"))) == Plan()
    assert plan_remove(facts_of(FakeHost("alpha", systemd=None))) == Plan()


def test_remove_takes_links_of_units_whose_files_are_gone():
    host = installed()
    del host.files[SERVICE]
    assert "remove /etc/systemd/system/sysinit.target.wants/roamlet-clock.service" in words(plan_remove(facts_of(host)))


def test_remove_without_systemd_takes_the_script_and_the_stamps():
    host = installed(systemd=None)
    host.files = {units.PROGRAM: host.files[units.PROGRAM]}
    host.enabled.clear()
    assert words(plan_remove(facts_of(host))) == [
        "remove /usr/local/sbin/roamlet-clock",
        "remove /var/lib/roamlet-clock with the stamps in it",
    ]
    assert wrong(facts_of(host)) == ()


def test_a_host_without_systemd_is_refused_with_the_lines_for_cron():
    refusal = plan_install(facts_of(FakeHost("alpha", systemd=None))).refusal
    assert "@reboot root /usr/local/sbin/roamlet-clock load" in refusal
    assert "*/15 * * * * root /usr/local/sbin/roamlet-clock tick" in refusal
    assert "roamlet clock script" in refusal


def test_a_systemd_that_is_too_old_is_refused():
    assert plan_install(facts_of(FakeHost("alpha", systemd=208))).refusal == (
        "its systemd is 208, and roamlet clock knows 219 and later"
    )


@pytest.mark.parametrize("planned", [plan_install, plan_remove])
def test_who_is_not_root_is_told_how_to_become_it(planned):
    plan = planned(facts_of(installed(is_root=False)))
    assert plan == Plan(refusal="root is needed there: name it as root@HOST, or give --sudo")


@pytest.mark.parametrize(
    ("epoch", "says"),
    [
        (NOW, "rtc0 (rtc-pcf8563): where it sets a later time than the stamps, that one stays"),
        (77, "shows 1970-01-01 00:01:17 UTC; is its battery empty? The time is taken from the stamps"),
        (None, "shows no time; is its battery empty? The time is taken from the stamps"),
    ],
)
def test_a_hardware_clock_is_told_of_and_does_not_hinder(epoch, says):
    host = FakeHost("alpha", rtc={"device": "rtc0", "name": "rtc-pcf8563", "epoch": epoch})
    plan = plan_install(facts_of(host))
    assert len(plan.actions) == 8 and plan.notes[0].endswith(says)


def test_the_clock_file_of_timesyncd_is_told_of():
    host = FakeHost("alpha", clock_file={"path": "/var/lib/systemd/timesync/clock", "time": 1.0})
    assert aside(facts_of(host))[0].startswith(
        "systemd-timesyncd keeps /var/lib/systemd/timesync/clock, of 1970-01-01 00:00:01 UTC: where it sets a later time"
    )


def test_other_software_for_the_same_is_told_of():
    host = FakeHost("alpha", files={"/etc/systemd/system/fake-hwclock.service": ("", 0o644)})
    host.enabled.add("fake-hwclock.service")
    assert plan_install(facts_of(host)).notes == (
        "fake-hwclock.service does the same and stays as it is; `systemctl disable --now fake-hwclock.service` takes it out",
    )


def test_a_link_in_place_of_the_folder_is_looked_through():
    plain = installed().facts(ASKED_PATHS, ASKED_UNITS, units.PROGRAM)
    plain["paths"][units.FOLDER] = {"kind": "link", "mode": 0o777, "uid": 0, "text": "/data/roamlet-clock"}
    facts = Facts.from_plain(plain, "alpha")
    assert plan_install(facts) == Plan()
    assert wrong(facts) == ()


@pytest.mark.parametrize(
    ("uid", "mode", "says"),
    [(1000, 0o755, "belongs to user 1000"), (0, 0o777, "has mode 777"), (0, 0o775, "has mode 775")],
)
def test_a_folder_that_others_than_root_may_write_is_told(uid, mode, says):
    plain = installed().facts(ASKED_PATHS, ASKED_UNITS, units.PROGRAM)
    plain["paths"][units.FOLDER].update(uid=uid, mode=mode)
    facts = Facts.from_plain(plain, "alpha")
    (told,) = wrong(facts)
    assert told.startswith(f"{units.FOLDER} {says}: others than root may set the clock")
    assert plan_install(facts) == Plan(notes=(told,))
