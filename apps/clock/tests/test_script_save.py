"""What `roamlet-clock save`, `tick` and `begin` write, what they leave alone, and what they do where nothing can be written."""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.clock.tests.machine import SCRIPT, Machine, line

DAY = 86400
SAVED = 1800000000  # 2027-01-15
FUTURE = SAVED + 5 * 365 * DAY


def test_a_save_writes_the_time_and_keeps_the_one_before(machine):
    machine.clock = SAVED
    assert machine.fine("save") == "roamlet-clock: the clock is saved: 2027-01-15 08:00:00 UTC\n"
    assert machine.stamped() == {"stamp": line(SAVED)}
    machine.clock = SAVED + 900
    assert machine.fine("tick") == ""
    assert machine.stamped() == {"stamp": line(SAVED + 900), "stamp.1": line(SAVED)}
    machine.clock = SAVED + 1800
    machine.fine("tick")
    assert machine.stamped() == {"stamp": line(SAVED + 1800), "stamp.1": line(SAVED + 900)}
    assert machine.sets == []


def test_everybody_may_read_what_is_saved_whatever_the_umask(machine):
    machine.clock = SAVED
    machine.run("save", around=("sh", "-c", 'umask 077; exec "$0" "$@"'))
    assert machine.stamps.stat().st_mode & 0o777 == 0o755
    assert (machine.stamps / "stamp").stat().st_mode & 0o777 == 0o644


def test_a_clock_that_is_not_synchronised_never_lowers_what_is_known(machine):
    machine.stamp("stamp", SAVED)
    machine.stamp("stamp.1", SAVED - 900)
    before = machine.stamped()
    for clock in (SAVED - 1, SAVED - 900, SAVED - 901, SAVED - 365 * DAY, 100, -5):
        machine.clock = clock
        for command in ("save", "tick"):
            assert "and is not synchronised: what was saved stays" in machine.fine(command)
        assert machine.stamped() == before


def test_a_damaged_stamp_is_replaced_by_the_newest_that_is_known(machine):
    machine.clock = SAVED - 900
    machine.stamp("stamp", "corrupt")
    machine.stamp("stamp.1", SAVED)
    said = machine.fine("tick")
    assert "stamp is damaged" in said
    assert machine.stamped() == {"stamp": line(SAVED), "stamp.1": line(SAVED)}


def test_everything_that_is_damaged_is_whole_after_two_saves(machine):
    for name in ("stamp", "stamp.1", "installed"):
        machine.stamp(name, "corrupt")
    machine.clock = SAVED
    assert machine.fine("tick").count("is damaged; it is left out, and replaced") == 3
    machine.clock = SAVED + 900
    machine.fine("tick")
    assert machine.stamped() == {"stamp": line(SAVED + 900), "stamp.1": line(SAVED), "installed": line(SAVED)}
    assert machine.fine("tick") == ""


def test_a_stamp_is_saved_and_synced_although_something_beside_it_cannot_be_put_right(machine):
    machine.clock = SAVED
    (machine.stamps / "installed").mkdir(parents=True)
    machine.program("sync", f'#!/bin/sh\necho "$1" >>{machine.folder}/synced\n')
    ran = machine.run("save")
    assert ran.status == 1
    assert "installed is a folder" in ran.said
    assert (machine.stamps / "stamp").read_text() == line(SAVED)
    assert (machine.folder / "synced").read_text().splitlines()[-1] == str(machine.stamps)


@pytest.mark.parametrize("name", ["stamp", "stamp.1", "installed"])
def test_a_synchronised_clock_is_followed_down_and_a_stamp_from_the_future_heals(machine, name):
    machine.clock = SAVED
    for each in ("stamp", "stamp.1", "installed"):
        machine.stamp(each, SAVED - 900)
    machine.stamp(name, FUTURE)
    assert "is not synchronised" in machine.fine("tick")
    assert machine.run("floor").printed == f"{FUTURE}\n"
    machine.synchronised()
    assert "lay in the future of a synchronised clock; it is 2027-01-15 08:00:00 UTC now" in machine.fine("tick")
    assert machine.run("floor").printed == f"{SAVED}\n"
    assert line(FUTURE) not in machine.stamped().values()
    assert machine.stamped()["stamp"] == line(SAVED)
    assert machine.stamped()["stamp.1"] == line(SAVED - 900)


def test_stamps_that_all_lie_in_the_future_heal_in_one_save(machine):
    machine.clock = SAVED
    for name in ("stamp", "stamp.1", "installed"):
        machine.stamp(name, FUTURE)
    machine.synchronised()
    machine.fine("save")
    assert set(machine.stamped().values()) == {line(SAVED)}


def test_a_machine_that_was_in_the_future_comes_back(machine):
    """The whole of it: a wrong clock is saved, loaded at the next boot, put right by a time server, and gone at the boot after."""
    machine.clock = FUTURE
    machine.fine("save")
    machine.clock = 100
    machine.fine("load")
    assert machine.clock == FUTURE
    machine.clock = SAVED  # a time server
    machine.synchronised()
    machine.fine("save")
    machine.clock = 100
    (machine.root / "run/systemd/timesync/synchronized").unlink()
    machine.fine("load")
    assert machine.sets == [FUTURE, SAVED]


def readings(machine: Machine, *seconds: int) -> None:
    """A clock that is stepped between one look at it and the next."""
    (machine.folder / "readings").write_text("".join(f"{one}\n" for one in seconds))
    path = machine.folder / "readings"
    command = machine.program("read-clock", f"#!/bin/sh\nhead -n 1 {path}\nsed -i 1d {path}\n")
    machine.environment["ROAMLET_CLOCK_NOW"] = str(command)


@pytest.mark.parametrize("synchronised", [False, True])
def test_a_clock_that_steps_back_while_it_is_saved_is_saved_once(machine, synchronised):
    """The stamp is a time that the clock has shown, and nothing lower than what was saved before, unless that is wrong."""
    machine.stamp("stamp", SAVED)
    if synchronised:
        machine.synchronised()
    readings(machine, SAVED + 10, 100, 50, 20, 10)
    machine.fine("save")
    assert machine.stamped() == {"stamp": line(SAVED + 10), "stamp.1": line(SAVED)}


def test_a_clock_that_is_put_right_while_it_is_saved_is_read_again(machine):
    """It was behind when it was read, and synchronised when that was asked: what was read is of no use."""
    machine.stamp("stamp", SAVED)
    machine.synchronised()
    readings(machine, SAVED - 100 * DAY, SAVED + 60, 10)
    machine.fine("save")
    assert machine.stamped() == {"stamp": line(SAVED + 60), "stamp.1": line(SAVED)}


def test_a_clock_beyond_the_ceiling_is_not_saved(machine):
    machine.clock = 2_500_000_000
    machine.stamp("stamp", SAVED)
    for setting in ("", "synchronised"):
        if setting:
            machine.synchronised()
        ran = machine.run("save")
        assert ran.status == 1
        assert "beyond 2045-01-01 00:00:00 UTC, the last time that is believed" in ran.said
    assert machine.stamped() == {"stamp": line(SAVED)}


@pytest.mark.parametrize("synchronised", [False, True])
def test_a_clock_from_before_the_system_was_built_is_not_saved(machine, synchronised):
    """A receiver of GPS whose weeks have rolled over is synchronised, too, and 19 years behind."""
    machine.clock = SAVED - 1
    machine.under_root("/usr/lib/systemd/systemd", changed=SAVED)
    if synchronised:
        machine.synchronised()
    assert "before the system was built (/usr/lib/systemd/systemd: 2027-01-15 08:00:00 UTC)" in machine.fine("save")
    assert machine.stamped() == {}


def test_begin_writes_down_when_it_was_installed_once(machine):
    machine.clock = SAVED
    machine.fine("begin")
    assert machine.stamped() == {"installed": line(SAVED), "stamp": line(SAVED)}
    machine.clock = SAVED + 60
    machine.fine("begin")
    assert machine.stamped() == {"installed": line(SAVED), "stamp": line(SAVED + 60), "stamp.1": line(SAVED)}
    machine.stamp("installed", "corrupt")
    machine.fine("begin")
    assert machine.stamped()["installed"] == line(SAVED + 60)


def test_begin_with_a_clock_in_the_past_says_so_and_writes_nothing(machine):
    machine.clock = 100
    assert "is not saved: it shows 1970" in machine.fine("begin")
    assert machine.stamped() == {}


def test_the_same_second_is_not_written_twice(machine):
    machine.clock = SAVED
    machine.stamp("stamp", SAVED)
    machine.stamp("stamp.1", SAVED - 900)
    machine.fine("save")
    assert machine.stamped() == {"stamp": line(SAVED), "stamp.1": line(SAVED - 900)}


# ---- what keeps the clock right

NO_SHOW = '#!/bin/sh\n[ "$1" = status ] || exit 1\necho "     {}: {}"\n'
TRACKING = "#!/bin/sh\necho 'Reference ID    : C0A80001'\necho 'Leap status     : {}'\n"
KEEPERS = {
    "timedatectl": ("run/dbus/system_bus_socket", "timedatectl", "#!/bin/sh\necho {}\n", "yes", "no", "the kernel"),
    "timedatectl 219": (
        "run/dbus/system_bus_socket",
        "timedatectl",
        NO_SHOW.replace("{}", "NTP synchronized", 1),
        "yes",
        "no",
        "the kernel",
    ),
    "timedatectl 238": (
        "run/dbus/system_bus_socket",
        "timedatectl",
        NO_SHOW.replace("{}", "System clock synchronized", 1),
        "yes",
        "no",
        "the kernel",
    ),
    "adjtimex": (
        "run/x",
        "adjtimex",
        "#!/bin/sh\necho '    status:       {}'\n",
        "8193 (PLL)",
        "64 (UNSYNC)",
        "the kernel",
    ),
    "chronyd": ("run/chrony/chronyd.sock", "chronyc", TRACKING, "Normal", "Not synchronised", "chronyd"),
    "chronyd 7": ("run/chronyd.pid", "chronyc", TRACKING, "Insert second", "Not synchronised", "chronyd"),
    "ntpd": (
        "run/ntpd.pid",
        "ntpq",
        "#!/bin/sh\necho 'associd=0 status=0615 {}, 1 event, clock_sync,'\n",
        "leap_none, sync_ntp",
        "leap_alarm, sync_unspec",
        "ntpd",
    ),
}


@pytest.mark.parametrize("kind", KEEPERS)
def test_it_knows_who_keeps_the_clock_right(machine, kind):
    there, program, text, yes, no, keeper = KEEPERS[kind]
    machine.clock = SAVED
    machine.under_root(there)
    for answer, word in ((yes, "yes"), (no, "no")):
        machine.program(program, text.replace("{}", answer))
        status = machine.status()
        assert (status["synchronised"], status["synchronised_by"]) == (word, keeper if word == "yes" else "")
    machine.program(program, "#!/bin/sh\nexit 1\n")
    assert machine.status()["synchronised"] == "no"


def test_what_the_kernel_says_no_to_is_not_asked_of_an_old_file(machine):
    """timesyncd's file says that the clock was right some time since the boot; the kernel, whether it still is."""
    machine.clock = SAVED
    machine.synchronised()
    assert machine.status()["synchronised"] == "yes"
    machine.under_root("run/dbus/system_bus_socket")
    machine.program("timedatectl", "#!/bin/sh\necho no\n")
    assert machine.status()["synchronised"] == "no"


def test_nobody_is_asked_where_the_answer_changes_nothing(machine):
    """A tick that finds the clock ahead of the stamp starts no service on the bus, 96 times a day."""
    machine.clock = SAVED
    machine.under_root("run/dbus/system_bus_socket")
    machine.program("timedatectl", f"#!/bin/sh\ntouch {machine.folder}/asked\necho yes\n")
    machine.fine("tick")
    assert not (machine.folder / "asked").exists()
    machine.clock = SAVED - 1
    machine.fine("tick")
    assert (machine.folder / "asked").exists()


# ---- where nothing can be written

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system of its own, which needs root")


def mounted(machine: Machine, options: str, then: str = "") -> Path:
    """What runs a command with the machine's folder of stamps on a small file system of its own, which ends with it."""
    machine.stamps.mkdir(exist_ok=True)
    kept = machine.folder / "kept"
    kept.mkdir(exist_ok=True)
    at = machine.stamps
    return machine.program(
        "mounted",
        f"""#!/bin/sh -eu
cp -a {at}/. {kept}
mount -t tmpfs -o {options} none {at}
cp -a {kept}/. {at}
{then or ":"}
"$@" && result=0 || result=$?
rm -rf {kept}/* {kept}/.new.*
cp -a {at}/. {kept}
exit $result
""",
    )


def around(machine: Machine, options: str, then: str = "") -> tuple[str, ...]:
    return ("unshare", "--mount", "--propagation", "private", str(mounted(machine, options, then)))


@needs_root
def test_a_full_disk_leaves_what_was_saved(machine):
    machine.clock = SAVED + 900
    machine.stamp("stamp", SAVED)
    machine.stamp("stamp.1", SAVED - 900)
    before = machine.stamped()
    fill = f"dd if=/dev/zero of={machine.stamps}/fill bs=1k count=100 2>/dev/null || :"
    ran = machine.run("save", around=around(machine, "size=32k", fill))
    assert ran.status == 1
    assert f"the clock is not saved: {machine.stamps}/.new." in ran.said
    assert "The stamps stay as they were; is the disk full, or mounted read-only?" in ran.said
    kept = {path.name: path.read_text() for path in (machine.folder / "kept").iterdir() if path.name != "fill"}
    assert kept == before


@needs_root
def test_a_file_system_without_a_file_to_spare_leaves_what_was_saved(machine):
    machine.clock = SAVED + 900
    machine.stamp("stamp", SAVED)
    ran = machine.run("save", around=around(machine, "nr_inodes=2"))
    assert ran.status == 1
    assert "No space left on device" in ran.said or "cannot be written" in ran.said
    assert [path.name for path in (machine.folder / "kept").iterdir()] == ["stamp"]


@needs_root
def test_a_read_only_root_is_told(machine):
    machine.clock = SAVED + 900
    machine.stamp("stamp", SAVED)
    read_only = f"mount -o remount,ro {machine.stamps}"
    for command in ("save", "tick", "begin"):
        ran = machine.run(command, around=around(machine, "size=64k", read_only))
        assert ran.status == 1, ran
        assert "mounted read-only?" in ran.said
    machine.clock = 100
    assert machine.run("load", around=around(machine, "size=64k", read_only)).status == 0
    assert machine.sets == [SAVED]


@needs_root
def test_a_read_only_root_without_the_folder_is_told(machine):
    machine.clock = SAVED
    machine.environment["ROAMLET_CLOCK_DIR"] = f"{machine.stamps}/var/lib/roamlet-clock"
    read_only = f"mount -o remount,ro {machine.stamps}"
    ran = machine.run("save", around=around(machine, "size=64k", read_only))
    assert ran.status == 1
    assert "roamlet-clock cannot be made (Read-only file system)" in ran.said


def test_a_missing_folder_is_made(machine):
    machine.clock = SAVED
    machine.environment["ROAMLET_CLOCK_DIR"] = f"{machine.folder}/var/lib/roamlet-clock"
    machine.fine("save")
    assert (machine.folder / "var/lib/roamlet-clock/stamp").read_text() == line(SAVED)


def test_a_folder_that_cannot_be_made_is_told(machine):
    machine.clock = SAVED
    (machine.folder / "var").write_text("a file")
    machine.environment["ROAMLET_CLOCK_DIR"] = f"{machine.folder}/var/roamlet-clock"
    ran = machine.run("save")
    assert ran.status == 1
    assert f"{machine.folder}/var/roamlet-clock cannot be made" in ran.said


def test_a_folder_in_place_of_the_stamp_is_told(machine):
    """mv would put the stamp into it, and be content."""
    machine.clock = SAVED
    (machine.stamps / "stamp").mkdir(parents=True)
    ran = machine.run("save")
    assert ran.status == 1
    assert "stamp is a folder" in ran.said
    assert list((machine.stamps / "stamp").iterdir()) == []
    assert [path.name for path in machine.stamps.iterdir()] == ["stamp"]


@pytest.mark.parametrize("program", ["sha256sum", "sync", "mv"])
def test_a_program_that_fails_leaves_what_was_saved(machine, program):
    machine.clock = SAVED + 900
    machine.stamp("stamp", SAVED)
    machine.stamp("stamp.1", SAVED - 900)
    machine.program(program, f"#!/bin/sh\necho '{program}: Input/output error' >&2\nexit 1\n")
    ran = machine.run("save")
    assert ran.status == 1
    assert "the clock is not saved: " in ran.said
    assert machine.stamped() == {"stamp": line(SAVED), "stamp.1": line(SAVED - 900)}


def test_what_is_not_what_was_written_is_not_given_the_name(machine):
    """A disk that swallows what is written to it."""
    machine.clock = SAVED + 900
    machine.stamp("stamp", SAVED)
    real = subprocess.run(["sh", "-c", "command -v cat"], capture_output=True, text=True, check=True).stdout.strip()
    machine.program("cat", f'#!/bin/sh\ncase "$1" in *.new.*) echo broken;; *) exec {real} "$@";; esac\n')
    ran = machine.run("save")
    assert ran.status == 1
    assert "is not what was written" in ran.said
    assert machine.stamped() == {"stamp": line(SAVED)}


@pytest.mark.parametrize("name", ["readable", "nowhere"])
def test_nothing_is_written_through_a_link_that_somebody_else_has_put_there(machine, name):
    """Where others may write into the folder: the name that is written to can be guessed."""
    machine.clock = SAVED
    machine.stamps.mkdir()
    (machine.folder / "readable").write_text("as it was")
    link = f'ln -s {machine.folder}/{name} {machine.stamps}/.new.$$; exec "$0" "$@"'
    assert machine.run("save", around=("sh", "-c", link)).status == 0
    assert (machine.folder / "readable").read_text() == "as it was"
    assert not (machine.folder / "nowhere").exists()
    assert machine.stamped() == {"stamp": line(SAVED)}
    assert not (machine.stamps / "stamp").is_symlink()


def test_a_link_that_comes_back_is_not_followed_either(machine):
    machine.clock = SAVED
    machine.stamps.mkdir()
    (machine.folder / "readable").write_text("as it was")
    machine.program("rm", f'#!/bin/sh\nln -sf {machine.folder}/readable "$2" 2>/dev/null\n')
    ran = machine.run("save")
    assert ran.status == 1 and ".new." in ran.said and "cannot be written" in ran.said
    assert (machine.folder / "readable").read_text() == "as it was"


# ---- ended in the middle, and two at once


def endless_sync(machine: Machine) -> None:
    """A `sync` that says it has begun, and waits for what never comes."""
    pipe = machine.folder / "never"
    os.mkfifo(pipe)
    machine.program("sync", f"#!/bin/sh\ntouch {machine.folder}/syncing\nread -r word <{pipe}\n")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} has not come"
        time.sleep(0.005)


def test_what_a_killed_save_left_is_swept_away_by_the_next(machine):
    machine.clock = SAVED
    machine.stamps.mkdir()
    endless_sync(machine)
    process = machine.start("save")
    wait_for(machine.folder / "syncing")
    left = [path.name for path in machine.stamps.iterdir()]
    assert left == [f".new.{process.pid}"]
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    (machine.programs / "sync").unlink()
    machine.clock = SAVED + 5
    machine.fine("save")
    assert machine.stamped() == {"stamp": line(SAVED + 5)}


def test_a_save_that_is_told_to_end_leaves_nothing(machine):
    """As systemd does at a shutdown with a tick that is under way."""
    machine.clock = SAVED + 900
    machine.stamp("stamp", SAVED)
    endless_sync(machine)
    process = machine.start("tick")
    wait_for(machine.folder / "syncing")
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)
    assert machine.stamped() == {"stamp": line(SAVED)}


def test_a_save_sweeps_away_nothing_of_one_that_still_runs(machine):
    """Where no lock keeps them apart."""
    without_flock(machine)
    go_on = machine.folder / "go-on"
    os.mkfifo(go_on)
    first = f"mkdir {machine.folder}/first 2>/dev/null && read -r word <{go_on}"
    machine.program("sync", f"#!/bin/sh\n{first}\nexit 0\n")
    machine.stamp("stamp", SAVED - 900)
    machine.clock = SAVED
    slow = machine.start("save")
    wait_for(machine.folder / "first")
    machine.clock = SAVED + 5
    machine.fine("save")
    go_on.write_text("\n")
    said = slow.communicate(timeout=30)[1]
    assert slow.returncode == 0, said
    assert machine.stamped() == {"stamp": line(SAVED), "stamp.1": line(SAVED + 5)}


@pytest.mark.parametrize("lock", ["flock", "no flock"])
def test_two_saves_at_once(machine, lock):
    """Six, and again: whoever looks always finds a whole stamp, and in the end it is theirs."""
    if lock == "no flock":
        without_flock(machine)
    machine.stamp("stamp", SAVED)
    machine.stamp("stamp.1", SAVED - 900)
    machine.program("tell", f"#!/bin/sh\nexec date -u +%s -d @$(({SAVED} + $$ % 1000))\n")
    machine.environment["ROAMLET_CLOCK_NOW"] = f"{machine.programs}/tell"
    for _ in range(2):
        saves = [machine.start("save") for _ in range(6)]
        while any(save.poll() is None for save in saves):
            floor = int(machine.run("floor").printed)
            assert SAVED <= floor < SAVED + 1000
        for save in saves:
            said = save.communicate()[1]
            assert save.returncode == 0, said
    stamped = machine.stamped()
    assert set(stamped) == {"stamp", "stamp.1"}
    times = [int(text.split()[2]) for text in stamped.values()]
    assert [line(seconds) for seconds in times] == list(stamped.values())


def without_flock(machine: Machine) -> None:
    """Programs as before, less flock. The script adds the standard folders to its path, so it is run without them."""
    programs = machine.folder / "without"
    programs.mkdir()
    for folder in reversed(machine.path):
        for path in Path(folder).iterdir():
            if path.name != "flock":
                (programs / path.name).unlink(missing_ok=True)
                (programs / path.name).symlink_to(path)
    script = machine.folder / "roamlet-clock"
    script.write_text(
        SCRIPT.read_text().replace(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", "\n")
    )
    machine.path = [str(programs)]
    machine.script = script


def test_a_save_that_hangs_is_not_waited_for_without_end(machine):
    """With the seconds taken out of the time limit."""
    machine.clock = SAVED
    machine.stamps.mkdir()
    lock = shutil.which("flock")
    asked = f"{machine.folder}/asked"
    machine.program("flock", f'#!/bin/sh\necho "$*" >>{asked}\n[ "$1" = -n ] || set -- -w 0 9\nexec {lock} "$@"\n')
    with locked(machine.stamps):
        said = machine.fine("save")
    assert "another save does not end; this one goes on without waiting for it" in said
    assert Path(asked).read_text() == "-n 9\n-w 10 9\n"
    assert machine.stamped() == {"stamp": line(SAVED)}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
