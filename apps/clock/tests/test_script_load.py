"""What `roamlet-clock load` does at a boot: which time it goes by, and that nothing makes it set a clock back or to nonsense."""

import os
import subprocess
import time

import pytest

from apps.clock.tests import harmless
from apps.clock.tests.machine import SCRIPT, Machine, line, tool
from tools import unpack_debian

DAY = 86400
RELEASED = 1735689600  # 2025-01-01, in the script
BUILT = 1780000000  # 2026-05-28
SAVED = 1800000000  # 2027-01-15
SPAN = 631152000  # 20 years

NONSENSE = {
    "empty": (b"", "is empty"),
    "a newline": (b"\n", "is empty"),
    "a word": (b"corrupt\n", "is damaged"),
    "bytes": (bytes(range(256)), "is damaged"),
    "zeros": (b"\0" * 89, "is damaged"),
    "zeros behind": (line(SAVED + DAY)[:-1].encode() + b"\0" * 20, "is damaged"),
    "torn": (line(SAVED + DAY)[:40].encode(), "is damaged"),
    "torn in the number": (b"roamlet-clock 1 18000", "is damaged"),
    "no number": (b"roamlet-clock 1 ", "is damaged"),
    "no checksum": (f"roamlet-clock 1 {SAVED + DAY}\n".encode(), "is damaged"),
    "wrong checksum": (line(SAVED + DAY).replace("18000", "18001", 1).encode(), "is damaged"),
    "two lines": (line(SAVED + DAY).encode() * 2, "is damaged"),
    "a space behind": (line(SAVED + DAY)[:-1].encode() + b" \n", "is damaged"),
    "octal": (line("0" + str(SAVED + DAY)).encode(), "is damaged"),
    "negative": (line(-SAVED).encode(), "is damaged"),
    "a fraction": (line(f"{SAVED + DAY}.5").encode(), "is damaged"),
    "a sum": (line(f"{SAVED}+{DAY}").encode(), "is damaged"),
    "a command": (b"roamlet-clock 1 $(reboot) `reboot` *\n", "is damaged"),
    "text of the time": (b"2027-01-15 09:00:00\n", "is damaged"),
    "a later version": (line(SAVED + DAY, version=2).encode(), "was written by another version"),
    "huge number": (line(10**30).encode(), "is damaged"),
    "64 bits": (line(2**63).encode(), "lies beyond"),
    "huge file": (b"roamlet-clock 1 1", "is damaged"),  # and a terabyte of zeros
}


def built(machine: Machine, at: int = BUILT) -> None:
    machine.under_root("/usr/lib/systemd/systemd", changed=at)


def test_a_clock_that_is_behind_is_set_to_the_stamp(machine):
    machine.clock = 100
    machine.stamp("stamp", SAVED)
    said = machine.fine("load")
    assert machine.sets == [SAVED]
    assert said == (
        "roamlet-clock: the clock is set from 1970-01-01 00:01:40 UTC to 2027-01-15 08:00:00 UTC, "
        f"by {machine.stamps}/stamp\n"
    )


@pytest.mark.parametrize("ahead", [0, 1, 3600, 10 * 365 * DAY])
def test_a_clock_is_never_set_back(machine, ahead):
    machine.clock = SAVED + ahead
    machine.stamp("stamp", SAVED)
    assert "is left as it is" in machine.fine("load")
    assert machine.sets == []


def test_a_second_behind_is_behind(machine):
    machine.clock = SAVED - 1
    machine.stamp("stamp", SAVED)
    machine.fine("load")
    assert machine.sets == [SAVED]


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_in_the_stamp_leaves_the_one_before(machine, kind):
    content, why = NONSENSE[kind]
    machine.clock = 100
    path = machine.stamp("stamp", content)
    if kind == "huge file":
        os.truncate(path, 1 << 40)
    machine.stamp("stamp.1", SAVED)
    said = machine.fine("load")
    assert machine.sets == [SAVED]
    assert f"{machine.stamps}/stamp {why}" in said
    assert "left out, and replaced" in said


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_everywhere_leaves_the_age_of_the_system(one_machine, kind):
    one_machine.clock = 100
    built(one_machine)
    for name in ("stamp", "stamp.1", "installed"):
        one_machine.stamp(name, NONSENSE[kind][0])
    said = one_machine.fine("load")
    assert one_machine.sets == [BUILT]
    assert said.count(NONSENSE[kind][1]) == 3


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing", "link to /dev/zero"])
def test_what_is_no_file_is_not_read(machine, kind):
    """A pipe would be waited for without end, /dev/zero read without end."""
    machine.clock = 100
    machine.stamp("stamp.1", SAVED)
    stamp = machine.stamps / "stamp"
    match kind:
        case "folder":
            stamp.mkdir()
        case "pipe":
            os.mkfifo(stamp)
        case "link to nothing":
            stamp.symlink_to("/nowhere/at/all")
        case _:
            stamp.symlink_to("/dev/zero")
    assert "stamp is no plain file" in machine.fine("load")
    assert machine.sets == [SAVED]


def test_the_newest_of_all_that_is_known_wins(machine):
    times = {"stamp": SAVED, "stamp.1": SAVED + 1, "installed": SAVED + 2}
    for name in times:
        machine.stamp(name, SAVED)
    built(machine)
    for name, seconds in times.items():
        machine.clock = 100
        machine.stamp(name, seconds)
        assert f"by {machine.stamps}/{name}" in machine.fine("load") or seconds == SAVED
    built(machine, SAVED + 3)
    machine.clock = 100
    assert "by /usr/lib/systemd/systemd" in machine.fine("load")
    assert machine.sets == [SAVED, SAVED + 1, SAVED + 2, SAVED + 3]


def test_a_stamp_from_before_the_system_was_built_is_of_no_use(machine):
    machine.clock = 100
    machine.stamp("stamp", BUILT - 300 * DAY)
    built(machine)
    assert machine.fine("load").endswith("by /usr/lib/systemd/systemd\n")
    assert machine.sets == [BUILT]


def test_without_a_folder_the_age_of_the_system_is_the_floor_and_nobody_complains(machine):
    machine.clock = 100
    built(machine)
    assert "left out" not in machine.fine("load")
    assert machine.sets == [BUILT]
    assert not machine.stamps.exists()


def test_systemds_own_epoch_goes_before_the_age_of_its_program(machine):
    machine.clock = 100
    built(machine)
    machine.under_root("/usr/lib/clock-epoch", changed=BUILT - DAY)
    machine.under_root("/etc/os-release", changed=BUILT + DAY)
    assert "by /usr/lib/clock-epoch" in machine.fine("load")
    assert machine.sets == [BUILT - DAY]


@pytest.mark.parametrize("changed", [0, 1, 4200000000], ids=["1970", "a second later", "2103"])
def test_a_file_of_no_sensible_age_says_nothing_of_the_system(machine, changed):
    """Images that are built alike each time have files of 1970."""
    machine.clock = 100
    built(machine, changed)
    machine.under_root("/etc/os-release", changed=BUILT)
    machine.fine("load")
    assert machine.sets == [max(RELEASED, BUILT if changed != 1 else 1)]


def test_nothing_at_all_leaves_the_age_of_the_script(machine):
    machine.clock = 0
    assert "by the age of roamlet-clock" in machine.fine("load")
    assert machine.sets == [RELEASED]


@pytest.mark.parametrize("beyond", [1, 40 * 365 * DAY, 7_000_000_000])
def test_a_stamp_from_a_future_that_cannot_be_is_not_believed(machine, beyond):
    machine.clock = 100
    built(machine)
    machine.stamp("stamp.1", SAVED)
    machine.stamp("stamp", BUILT + SPAN + beyond)
    assert "lies beyond 2046-05-28 20:26:40 UTC, the last time that is believed" in machine.fine("load")
    assert machine.sets == [SAVED]
    machine.clock = 100
    machine.stamp("stamp", BUILT + SPAN)
    machine.fine("load")
    assert machine.sets[1:] == [BUILT + SPAN]


def date_of_32_bits(machine: Machine) -> None:
    """In place of a `date` whose seconds end in January 2038."""
    machine.program(
        "date",
        f'#!/bin/sh\nPATH={":".join(machine.path)}\nfor word; do case $word in @*) [ "${{word#@}}" -le 2147483647 ] || '
        '{ echo "date: invalid date" >&2; exit 1; };; esac; done\nexec date "$@"\n',
    )


def test_a_stamp_beyond_32_bits_is_not_believed_where_time_has_no_more(machine):
    machine.clock = 100
    built(machine)
    machine.stamp("stamp", 2145916801)
    machine.stamp("stamp.1", SAVED)
    assert "lies beyond" not in machine.fine("load")
    date_of_32_bits(machine)
    machine.clock = 100
    assert "lies beyond 2038-01-01 00:00:00 UTC" in machine.fine("load")
    assert machine.sets == [2145916801, SAVED]


@pytest.mark.parametrize("shown", ["-86400", "0", "-9223372036854775808"])
def test_a_clock_from_before_1970_is_behind(machine, shown):
    (machine.folder / "clock").write_text(f"{shown}\n")
    machine.stamp("stamp", SAVED)
    machine.fine("load")
    assert machine.sets == [SAVED]


@pytest.mark.parametrize("shown", [9_000_000_000, 10**11, 2**62, 10**25])
def test_a_clock_from_an_impossible_future_is_told_and_left(machine, shown):
    machine.clock = shown
    machine.stamp("stamp", SAVED)
    said = machine.fine("load")
    assert "beyond" in said
    assert "hwclock --systohc" in said
    assert machine.sets == []


@pytest.mark.parametrize(
    "command", ["false", "echo", "echo noon", "echo 12:00", "echo 1 2", "echo 1.5", "no-such-command"]
)
def test_a_clock_that_cannot_be_read_is_not_set(machine, command):
    machine.environment["ROAMLET_CLOCK_NOW"] = command
    machine.stamp("stamp", SAVED)
    ran = machine.run("load")
    assert ran.status == 1
    assert f"the time cannot be read: `{command}` prints no seconds" in ran.said
    assert machine.sets == []


def test_a_clock_that_cannot_be_set_is_told(machine):
    machine.clock = 100
    machine.stamp("stamp", SAVED)
    machine.environment["ROAMLET_CLOCK_SET"] = str(
        machine.program("refuse", "#!/bin/sh\necho 'date: cannot set date: Operation not permitted' >&2\nexit 1\n")
    )
    ran = machine.run("load")
    assert ran.status == 1
    assert "cannot be set to 2027-01-15 08:00:00 UTC (Operation not permitted). Only root" in ran.said


def test_the_real_date_is_asked_in_the_form_that_it_knows(machine):
    """Without the right to set the clock; and what it would be set to is the time that it is, to the second or two."""
    assert not harmless.can_set_the_clock()
    now = int(time.time())
    machine.stamp("stamp", now)
    machine.clock = now - 1
    del (around := dict(machine.around))["ROAMLET_CLOCK_SET"]
    ran = subprocess.run([*machine.shell, str(SCRIPT), "load"], env=around, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "(Operation not permitted)" in ran.stderr


ZONES = ["UTC", "America/Los_Angeles", "Asia/Tokyo", "Pacific/Kiritimati", "Europe/Berlin", "Australia/Lord_Howe"]
MOMENTS = {
    "winter": SAVED,
    "a second before the leap into summer": 1806195599,  # 2027-03-28 00:59:59 UTC, in Berlin
    "at the leap into summer": 1806195600,
    "in the hour that is not there": 1806197400,
    "in the hour that is there twice": 1824943800,  # 2027-10-31 00:50 UTC
    "again in that hour": 1824947400,
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_time_zones_and_daylight_saving_change_nothing(one_machine, moment):
    """Saved in one zone, loaded in the next a second behind and a second ahead, with the real `date` reading the time of a file."""
    machine = one_machine
    now = machine.under_root("/now")
    set_file = machine.program("set-file", f'#!/bin/sh\necho "$1" >>{machine.folder}/sets\ntouch -d "@$1" {now}\n')
    machine.environment = {"ROAMLET_CLOCK_NOW": f"date -u -r {now} +%s", "ROAMLET_CLOCK_SET": str(set_file)}
    for saved_in, loaded_in in zip(ZONES, [*ZONES[1:], ZONES[0]], strict=True):
        os.utime(now, (moment, moment))
        machine.environment["TZ"] = saved_in
        machine.fine("save")
        assert machine.stamped()["stamp"] == line(moment)
        machine.environment["TZ"] = loaded_in
        for behind in (1, -1):
            os.utime(now, (moment - behind, moment - behind))
            machine.fine("load")
    assert machine.sets == [moment] * len(ZONES)


def rtc(machine: Machine, seconds: int | str, used: int, name: str = "rtc0") -> None:
    machine.under_root(f"/sys/class/rtc/{name}/since_epoch", f"{seconds}\n")
    machine.under_root(f"/sys/class/rtc/{name}/hctosys", f"{used}\n")


def test_it_steps_aside_for_a_real_time_clock_and_says_so(machine):
    machine.clock = SAVED + DAY
    machine.stamp("stamp", SAVED)
    rtc(machine, SAVED + DAY, used=1)
    assert machine.fine("load").endswith("2027-01-16 08:00:00 UTC: rtc0 knows a better time than the stamps\n")
    assert machine.sets == []
    status = machine.status()
    assert (status["rtc"], status["rtc_time"], status["rtc_used"]) == ("rtc0", str(SAVED + DAY), "yes")
    assert (status["next_boot"], status["next_boot_by"]) == (str(SAVED + DAY), "rtc0")


def test_it_steps_aside_for_the_clock_file_of_timesyncd_and_says_so(machine):
    machine.clock = SAVED + DAY
    machine.stamp("stamp", SAVED)
    machine.under_root("/var/lib/systemd/timesync/clock", changed=SAVED + DAY - 60)
    assert "timesyncd's clock file knows a better time than the stamps" in machine.fine("load")
    assert machine.sets == []
    assert machine.status()["next_boot_by"] == "timesyncd's clock file"


@pytest.mark.parametrize("seconds", ["", "946684800", "-5", "nonsense", str(10**12)])
def test_a_real_time_clock_with_an_empty_battery_is_not_better(machine, seconds):
    machine.clock = 946684801
    machine.stamp("stamp", SAVED)
    rtc(machine, seconds, used=1)
    assert "rtc0" not in machine.fine("load")
    assert machine.sets == [SAVED]


def test_a_better_time_that_nobody_has_set_keeps_nobody_from_the_floor(machine):
    """Stepping aside for a clock that is not read would leave the machine in 1970; a later reading goes on forward."""
    machine.clock = 100
    machine.stamp("stamp", SAVED)
    rtc(machine, SAVED - 5, used=1)
    rtc(machine, SAVED + DAY, used=0, name="rtc1")
    assert machine.fine("load").endswith("rtc1 shows 2027-01-16 08:00:00 UTC, and has not set it\n")
    assert machine.sets == [SAVED]


def test_a_synchronised_clock_is_not_set_whatever_is_saved(machine):
    machine.clock = BUILT
    machine.stamp("stamp", SAVED)
    machine.synchronised()
    assert "systemd-timesyncd says that it is synchronised" in machine.fine("load")
    assert machine.sets == []


def test_a_dry_run_says_what_would_be_done(machine):
    machine.clock = 100
    machine.stamp("stamp", SAVED)
    assert "would set the clock from 1970-01-01 00:01:40 UTC to 2027-01-15" in machine.fine("load", "--dry-run")
    assert machine.sets == []
    assert machine.run("floor").printed == f"{SAVED}\n"


def test_load_and_status_write_nothing(machine):
    machine.clock = 100
    machine.stamp("stamp", "corrupt")
    machine.stamp("stamp.1", SAVED)
    before = machine.stamped()
    machine.fine("load")
    machine.status()
    assert machine.stamped() == before


def test_a_shell_that_counts_in_32_bits_is_refused(one_machine):
    try:
        one_machine.shell = tool("mksh", "mksh")
    except unpack_debian.CannotUnpack as reason:
        pytest.skip(f"there is no mksh, which counts so: {reason}")
    one_machine.clock = 9_000_000_000  # which it takes for a time in 1982
    one_machine.stamp("stamp", SAVED)
    for command in ("load", "save"):
        ran = one_machine.run(command)
        assert ran.status == 1
        assert "nothing is done: this shell counts in 32 bits" in ran.said
    assert one_machine.sets == []
    assert one_machine.stamped() == {"stamp": line(SAVED)}


@pytest.mark.parametrize("words", [(), ("lod",), ("load", "now"), ("save", "--dry-run"), ("status", "x")])
def test_wrong_words_are_answered_with_the_right_ones(machine, words):
    ran = machine.run(*words)
    assert ran.status == 64
    assert "roamlet-clock load [--dry-run]" in ran.said
    assert machine.run("--help").printed == ran.said


def test_what_it_says_has_a_priority_in_the_journal_alone(machine):
    """systemd says in the environment which file the journal is; a shell that a service started may write elsewhere."""
    machine.clock = 100
    machine.stamp("stamp", SAVED)
    journal = machine.folder / "journal"
    with journal.open("w") as file:
        about = os.fstat(file.fileno())
        machine.environment["JOURNAL_STREAM"] = f"{about.st_dev}:{about.st_ino}"
        subprocess.run([*machine.shell, str(SCRIPT), "load"], env=machine.around, stderr=file, check=True)
    assert journal.read_text().startswith("<5>the clock is set from")
    assert machine.fine("load").startswith("roamlet-clock: the clock is left")


def test_messages_may_go_to_a_command(machine):
    machine.clock = SAVED
    heard = machine.program("hear", f'#!/bin/sh\necho "$1" >>{machine.folder}/heard\n')
    machine.environment["ROAMLET_CLOCK_LOG"] = str(heard)
    assert machine.fine("load") == ""
    assert (machine.folder / "heard").read_text().startswith("roamlet-clock: the clock is left as it is")
