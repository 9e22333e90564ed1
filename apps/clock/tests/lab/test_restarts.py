"""The real units on hosts that systemd boots: from the moment of installation, over a restart without a clock, to nothing left.

No machine of a lab may set the clock, which is this machine's own: there the script is given another one, a file in /run, which a
restart loses as a machine loses the time.
"""

import json
import time
from collections.abc import Iterator

import pytest

import roamlet_lab
from apps.clock.tests.harmless import held
from roamlet.cli import main
from roamlet_clock import units
from roamlet_lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LOST = 1_500_000_000  # what the clock shows when the power comes back: 2017
# What a host keeps over a restart; logs, the folders of services that run alone, and what sudo notes come and go.
FILES = """
    cd /; find etc usr/local var root \\
        \\( -path '*/systemd-private-*' -o -path var/log -o -path var/cache -o -path var/tmp \\) -prune -o \\
        ! -type d -printf '%p %m %s %l\\n' -o ! -empty -print | sort
"""
CLOCK = "[Service]\nEnvironment=ROAMLET_CLOCK_NOW=/opt/clock/now ROAMLET_CLOCK_SET=/opt/clock/set\n"
AT_WG = "[Service]\nExecStartPre=/bin/sh -c 'cat /run/clock >/run/clock-at-wg'\n"
WG = """\
[Interface]
PrivateKey = {private}
Address = {address}/24
ListenPort = 51820
[Peer]
PublicKey = {public}
AllowedIPs = 10.8.1.0/24
Endpoint = {endpoint}:51820
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if reason := roamlet_lab.why_not():
        pytest.skip(reason)
    with Lab(["alpha", "beta"], rtt=0.004, systemd=True) as made:
        for office in made.offices:
            office.server.run(["systemctl", "is-system-running", "--wait"], check=False)
        yield made


@pytest.fixture
def roamlet(lab, capsys):
    """Runs `roamlet clock`; returns its exit code and what it has printed."""

    def run(*words):
        code = main(["clock", *words, "--ssh-config", lab.ssh_config])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def until(question, what):
    """Return when the question is answered with yes. Fails after a minute."""
    deadline = time.monotonic() + 60
    while not question():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_no_machine_of_the_lab_can_set_the_clock(lab):
    for office in lab.offices:
        status = office.server.read("/proc/1/status")
        assert not any(held(status).values()), status
        done = office.server.run(["sh", "-c", 'date -u -s "@$(date +%s)"'], check=False)
        assert done.returncode and "Operation not permitted" in done.stderr


def test_it_runs_when_it_is_installed_and_is_gone_when_it_is_removed(lab, roamlet):
    alpha = lab.office("alpha").server
    before = alpha.shell(FILES)
    code, said = roamlet("install", "alpha", "beta", "--dry-run")
    assert code == 2 and alpha.shell(FILES) == before, said
    assert roamlet("install", "alpha-admin", "--yes")[0] == 1  # a user without root there
    code, said = roamlet("install", "alpha-admin", "beta-admin", "--sudo", "--yes")
    assert code == 0 and "alpha-admin: done\n    roamlet-clock: the clock is saved: " in said, said
    ended = ["systemctl", "show", "-p", "ExecMainStatus,ExecMainExitTimestampMonotonic", "roamlet-clock-tick.service"]
    until(lambda: "Monotonic=0\n" not in alpha.run(ended).stdout, "the timer has not run")
    assert "ExecMainStatus=0\n" in alpha.run(ended).stdout
    said = alpha.shell("systemd-analyze verify /etc/systemd/system/roamlet-clock* 2>&1")
    assert "roamlet-clock" not in said, said
    code, said = roamlet("status", "alpha", "beta", "--json")
    states = json.loads(said)["hosts"]
    assert code == 0 and [one["well"] for one in states] == [True, True], said
    for one in states:
        assert one["next_boot"] >= one["stamp"] >= one["installed_at"] > 1_700_000_000
        assert one["units"] == dict.fromkeys(units.ENABLED, "enabled, active")
        assert one["rtc"] is None
    ours = alpha.shell(f"stat -c '%n %i %Y' {units.PROGRAM} /etc/systemd/system/roamlet-clock*")
    assert roamlet("install", "alpha", "beta", "--yes") == (0, "alpha  as it should be\nbeta  as it should be\n")
    assert alpha.shell(f"stat -c '%n %i %Y' {units.PROGRAM} /etc/systemd/system/roamlet-clock*") == ours
    assert roamlet("tick", "alpha", "beta")[0] == 0
    assert roamlet("remove", "alpha", "beta", "--yes")[0] == 0
    assert alpha.shell(FILES).splitlines() == before.splitlines()
    assert "roamlet-clock" not in alpha.shell("systemctl list-units --all --plain; systemctl list-unit-files; ls /run")
    assert roamlet("remove", "alpha", "--yes") == (0, "alpha  nothing of it is there\n")


def test_a_host_without_systemd_is_refused_and_left_as_it_is(capsys):
    with Lab(["plain"], rtt=0) as lab:
        server = lab.office("plain").server
        before = server.shell(FILES)
        assert main(["clock", "install", "plain", "--yes", "--ssh-config", lab.ssh_config]) == 1
        said = capsys.readouterr().out
        assert "! systemd does not run this host" in said and "@reboot root /usr/local/sbin/roamlet-clock load" in said
        assert server.shell(FILES) == before


@pytest.fixture(scope="module")
def tunnel(lab) -> None:
    """Between the two, made by hand; wg-quick@ brings it up at each boot."""
    ends = []
    for number, office in enumerate(lab.offices, 1):
        private = office.server.shell("wg genkey").strip()
        public = office.server.run(["wg", "pubkey"], data=private + "\n").stdout.strip()
        ends.append((office, f"10.8.1.{number}", private, public))
    for (office, address, private, _), (other, _, _, public) in (ends, ends[::-1]):
        text = WG.format(private=private, address=address, public=public, endpoint=other.place.wan)
        office.server.write("/etc/wireguard/wg0.conf", text, 0o600)
        office.server.run(["systemctl", "enable", "--now", "-q", "wg-quick@wg0"])
    assert reaches(lab)


def reaches(lab: Lab) -> bool:
    return any(lab.office("alpha").server.ping("10.8.1.2", timeout=2) for _ in range(15))


def give_another_clock(server: roamlet_lab.Machine, epoch: int) -> None:
    """From now on the script of this host reads and sets the file /run/clock, which shows `epoch` now, and LOST at each boot."""
    server.shell("mkdir -p /opt/clock /etc/systemd/system/wg-quick@.service.d")
    server.write("/opt/clock/now", f"#!/bin/sh\ncat /run/clock 2>/dev/null || echo {LOST}\n", 0o755)
    server.write("/opt/clock/set", '#!/bin/sh\necho "$1" >/run/clock\n', 0o755)
    for name in ("roamlet-clock", "roamlet-clock-tick"):
        server.shell(f"mkdir -p /etc/systemd/system/{name}.service.d")
        server.write(f"/etc/systemd/system/{name}.service.d/test.conf", CLOCK)
    server.write("/etc/systemd/system/wg-quick@.service.d/test.conf", AT_WG)
    server.shell(f"systemctl daemon-reload; echo {epoch} >/run/clock")


@pytest.fixture
def alpha(lab, tunnel, roamlet):
    """A host with a soft clock, another clock to keep, and a tunnel to beta."""
    server = lab.office("alpha").server
    assert roamlet("install", "alpha", "--yes")[0] == 0
    yield server
    server.shell("rm -rf /opt/clock /etc/systemd/system/*.service.d/test.conf")
    assert roamlet("remove", "alpha", "--yes")[0] == 0


def test_after_a_reboot_the_clock_and_the_tunnel_are_there(lab, alpha, roamlet):
    epoch = int(time.time()) + 1_000_000
    give_another_clock(alpha, epoch)
    lab.office("alpha").restart_server()
    until(lambda: "starting" not in alpha.run(["systemctl", "is-system-running"], check=False).stdout, "it boots")
    assert alpha.read("/run/clock") == f"{epoch}\n"  # as it was saved when the host went down
    assert alpha.read("/run/clock-at-wg") == f"{epoch}\n"
    assert reaches(lab)
    said = alpha.shell("journalctl -b -u roamlet-clock.service -o cat --no-pager")
    assert "the clock is set from 2017-07-14 02:40:00 UTC to" in said and "by /var/lib/roamlet-clock/stamp" in said
    assert alpha.shell(
        "systemctl is-active time-set.target roamlet-clock.service roamlet-clock-tick.timer"
    ).split() == [
        "active",
        "active",
        "active",
    ]
    assert roamlet("status", "alpha")[0] == 0


def test_after_a_power_cut_it_is_what_the_timer_has_saved_even_if_the_last_stamp_is_torn(lab, alpha):
    epoch = int(time.time()) + 1_000_000
    give_another_clock(alpha, epoch)
    alpha.shell("systemctl stop roamlet-clock-tick.timer")  # nothing repairs the stamp between its damage and the cut
    for later in (0, 900):
        alpha.shell(f"echo {epoch + later} >/run/clock; systemctl start roamlet-clock-tick.service")
    alpha.shell(f"truncate -s 30 {units.FOLDER}/stamp; sync")
    lab.office("alpha").restart_server(abrupt=True)
    until(lambda: "starting" not in alpha.run(["systemctl", "is-system-running"], check=False).stdout, "it boots")
    assert alpha.read("/run/clock") == alpha.read("/run/clock-at-wg") == f"{epoch}\n"
    said = alpha.shell("journalctl -b -u roamlet-clock.service -o cat --no-pager")
    assert (
        "/var/lib/roamlet-clock/stamp is damaged; it is left out" in said
        and "by /var/lib/roamlet-clock/stamp.1" in said
    )
    assert reaches(lab)
