"""What is put on a host: that checkers of shell and of units find nothing in it, and that it runs when it should."""

import os
import subprocess
from pathlib import Path

import pytest

from apps.clock.tests.machine import SCRIPT, UNPACKED, tool
from roamlet_clock import units
from tools import unpack_debian

BOTH = pytest.mark.parametrize("time_set", [True, False], ids=["systemd of today", "systemd 219"])


def text(name: str, time_set: bool = True) -> str:
    (found,) = [file.text for file in units.installed_files(time_set) if file.path.endswith(f"/{name}")]
    return found


def values(name: str, key: str, time_set: bool = True) -> list[str]:
    """All words of a setting, in order."""
    rows = [row.partition("=") for row in text(name, time_set).splitlines()]
    return [word for found, _, value in rows if found == key for word in value.split()]


@BOTH
def test_each_file_has_its_place_and_the_script_may_be_run(time_set):
    files = units.installed_files(time_set)
    assert [(file.path, file.mode) for file in files] == [
        ("/usr/local/sbin/roamlet-clock", 0o755),
        ("/etc/systemd/system/roamlet-clock.service", 0o644),
        ("/etc/systemd/system/roamlet-clock-tick.service", 0o644),
        ("/etc/systemd/system/roamlet-clock-tick.timer", 0o644),
    ]
    assert tuple(Path(file.path).name for file in files[1:]) == units.UNITS
    assert set(units.ENABLED) < set(units.UNITS)
    assert files[0].text == SCRIPT.read_text()
    assert all(file.text.isascii() and file.text.endswith("\n") for file in files)
    for name in units.UNITS:
        assert ("[Install]" in text(name, time_set)) == (name in units.ENABLED)


def test_no_setting_of_the_tests_is_set_by_what_is_installed():
    for name in units.UNITS:
        assert "ROAMLET_CLOCK" not in text(name)
        assert "Environment" not in text(name)


def test_it_is_loaded_before_everything_that_needs_the_time():
    """wg-quick@ and every other ordinary service start after sysinit.target, so no instance has to be named."""
    assert values("roamlet-clock.service", "Before") == ["time-set.target", "sysinit.target", "shutdown.target"]
    assert values("roamlet-clock.service", "Wants") == ["time-set.target"]
    assert values("roamlet-clock.service", "WantedBy") == ["sysinit.target"]
    assert values("roamlet-clock.service", "DefaultDependencies") == ["no"]
    assert "systemd-timesyncd.service" in values("roamlet-clock.service", "After")


def test_an_old_systemd_is_not_told_that_the_clock_is_synchronised():
    """Before time-sync.target, without a wish for it: a unit that wants it claims that the clock was compared with others."""
    assert values("roamlet-clock.service", "Before", False) == ["time-sync.target", "sysinit.target", "shutdown.target"]
    assert values("roamlet-clock.service", "Wants", False) == []
    assert "time-set" not in text("roamlet-clock.service", False)
    for time_set in (True, False):
        assert "Wants=time-sync.target" not in text("roamlet-clock.service", time_set)


def test_no_fault_keeps_a_boot_from_going_on_or_the_time_from_being_saved():
    assert values("roamlet-clock.service", "ExecStart") == ["-/usr/local/sbin/roamlet-clock", "load"]
    assert values("roamlet-clock.service", "ExecStop") == ["/usr/local/sbin/roamlet-clock", "save"]
    assert values("roamlet-clock.service", "RemainAfterExit") == ["yes"]
    assert values("roamlet-clock.service", "Conflicts") == ["shutdown.target"]
    assert values("roamlet-clock.service", "TimeoutSec") == ["30"]
    assert values("roamlet-clock.service", "Requires") == []


def test_the_timer_runs_from_the_moment_of_installation_and_by_a_clock_that_nobody_sets():
    assert values("roamlet-clock-tick.timer", "OnActiveSec") == ["1s"]
    assert values("roamlet-clock-tick.timer", "OnUnitActiveSec") == ["15min"]
    assert "OnCalendar" not in text("roamlet-clock-tick.timer")
    assert values("roamlet-clock-tick.service", "ExecStart") == ["/usr/local/sbin/roamlet-clock", "tick"]


def test_nothing_is_redirected_by_a_line_that_no_shell_reads():
    for name in units.UNITS:
        assert ">" not in "".join(row for row in text(name).splitlines() if row.startswith("Exec"))


def test_the_cron_lines_name_the_script():
    assert units.CRON_LINES == (
        "@reboot root /usr/local/sbin/roamlet-clock load",
        "*/15 * * * * root /usr/local/sbin/roamlet-clock tick",
    )


def checked(name: str, package: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a checker, which is fetched where it is not installed. Skips where it can be had from nowhere."""
    try:
        command = tool(name, package)
    except unpack_debian.CannotUnpack as reason:
        pytest.skip(f"there is no {name}: {reason}")
    # An unpacked systemd-analyze looks for the units that ours name beside itself.
    path = f"{UNPACKED / package / 'lib/systemd/system'}:"
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": path} if len(command) > 1 else None
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("shell", ["sh", "dash", "busybox"])
def test_shellcheck_finds_nothing(shell):
    done = checked("shellcheck", "shellcheck", "-s", "sh" if shell == "busybox" else shell, "-S", "style", str(SCRIPT))
    assert (done.returncode, done.stdout) == (0, "")


def test_shellcheck_would_find_something(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\nx=(1)\n[[ $1 ]]\n")
    assert checked("shellcheck", "shellcheck", "-s", "sh", str(tmp_path / "script")).returncode


def verified(folder: Path, time_set: bool, change: tuple[str, str] = ("", "")) -> str:
    """What systemd-analyze reports about the units, whose script is in the folder."""
    for file in units.installed_files(time_set):
        path = folder / Path(file.path).name
        path.write_text(file.text.replace(units.PROGRAM, str(folder / "roamlet-clock")).replace(*change))
        path.chmod(file.mode)
    done = checked("systemd-analyze", "systemd", "verify", *(str(folder / name) for name in units.UNITS))
    ours = [row for row in done.stderr.splitlines() if "roamlet-clock" in row]
    return "\n".join(ours) if ours or not done.returncode else done.stderr


@BOTH
def test_systemd_analyze_finds_nothing(tmp_path, time_set):
    assert verified(tmp_path, time_set) == ""


@pytest.mark.parametrize("change", [("Before=time-set", "Befor=time-set"), ("=30", "=never")])
def test_systemd_analyze_would_find_something(tmp_path, change):
    assert "roamlet-clock.service" in verified(tmp_path, True, change)
