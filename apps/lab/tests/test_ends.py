"""However a lab ends, nothing of it is left: no process, namespace, mount, device, folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roamlet.cli import main
from roamlet_lab import Lab, LabError, running
from roamlet_lab.spaces import BASE, cgroups_of, sweep

pytestmark = pytest.mark.lab

PATIENCE = 20  # seconds that the kernel has to clear away


def traces(lab):
    """What the lab is made of now: processes, by number and time of start, and what they hold."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.read_text().split(" (", 1)
        except OSError:
            continue
        fields = rest.rsplit(") ", 1)[1].split()
        parents[int(pid)] = (int(fields[1]), fields[19])
    found = {(lab._keeper.janitor, parents[lab._keeper.janitor][1])}
    grown = {lab._keeper.pid}
    while grown:
        found |= {(pid, parents[pid][1]) for pid in grown}
        grown = {pid for pid, (parent, _) in parents.items() if parent in grown}
    return found


def exists(pid, started):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[19] == started
    except OSError:
        return False


def assert_nothing_is_left(name, processes, devices):
    deadline = time.monotonic() + PATIENCE
    while any(exists(*one) for one in processes) and time.monotonic() < deadline:
        os.sched_yield()
    assert [one for one in processes if exists(*one)] == []
    assert not (BASE / name).exists()
    assert not any(path.exists() for path in cgroups_of(name))
    assert f"roamlet-lab/{name}/" not in Path("/proc/self/mountinfo").read_text()
    assert set(os.listdir("/sys/class/net")) == devices


@pytest.fixture
def devices():
    return set(os.listdir("/sys/class/net"))


def test_down_leaves_nothing(devices):
    with Lab(["alpha"], rtt=0) as lab:
        processes = traces(lab)
        assert len(processes) > 5
        assert lab.office("alpha").client.ping(lab.office("alpha").place.wan)
    assert_nothing_is_left(lab.name, processes, devices)


def test_two_labs_do_not_see_each_other_though_their_addresses_are_the_same():
    with Lab(["alpha"], rtt=0) as one, Lab(["alpha"], rtt=0) as other:
        one.internet.cut("alpha")
        assert not one.admin.ping("198.51.100.1", timeout=0.5)
        assert other.admin.ping("198.51.100.1")


def test_a_lab_ends_with_whoever_built_it_even_by_kill_9(devices):
    program = """
import sys
from roamlet_lab import Lab
lab = Lab(["alpha"], rtt=0).up()
print(lab.name, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as owner:
        name = owner.stdout.readline().strip()
        processes = traces(running(name))
        owner.kill()
    assert_nothing_is_left(name, processes, devices)


def test_a_lab_whose_first_process_is_killed_is_cleared_away(devices):
    lab = Lab(["alpha"], rtt=0).up()
    try:
        processes = traces(lab)
        os.kill(lab._keeper.pid, signal.SIGKILL)
        assert_nothing_is_left(lab.name, processes, devices)
    finally:
        lab.down()


def test_a_lab_whose_janitor_is_killed_ends_too_and_the_next_one_sweeps_its_folder(devices):
    lab = Lab(["alpha"], rtt=0).up()
    try:
        processes = traces(lab)
        os.kill(lab._keeper.janitor, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while any(exists(*one) for one in processes) and time.monotonic() < deadline:
            os.sched_yield()
        sweep()
        assert_nothing_is_left(lab.name, processes, devices)
    finally:
        lab.down()


def test_what_fails_while_a_lab_is_built_is_taken_down(monkeypatch, devices):
    processes = set()

    def fails(self):
        processes.update(traces(self))
        raise OSError("on purpose")

    monkeypatch.setattr(Lab, "_set_up_networks", fails)
    lab = Lab(["alpha"])
    with pytest.raises(OSError, match="on purpose"):
        lab.up()
    assert len(processes) > 5
    assert_nothing_is_left(lab.name, processes, devices)


def test_the_commands_build_a_lab_that_stays_show_it_and_take_it_down(capfd, devices):
    name = f"test-{os.getpid()}"
    assert (
        main(
            [
                "lab",
                "up",
                "--name",
                name,
                "--offices",
                "alpha,beta",
                "--stateful",
                "beta",
                "--rtt",
                "4ms",
                "--loss",
                "0%",
            ]
        )
        == 0
    )
    try:
        said = capfd.readouterr().out
        assert f"lab {name}: 4 ms from office to office and back, 0 % loss, no limit of rate" in said
        assert f"ssh -F /run/roamlet-lab/{name}/ssh_config alpha" in said
        lab = running(name)
        processes = traces(lab)
        assert main(["lab", "up", "--name", name]) == 1
        assert (
            f"there is a lab '{name}' already; take it down first: roamlet lab down --name {name}"
            in capfd.readouterr().err
        )
        shell = [sys.executable, "-m", "roamlet", "lab", "shell", "--name", name]
        for machine, host in (("alpha", "alpha"), ("beta-client", "beta-client"), ("admin", "admin")):
            done = subprocess.run([*shell, machine, "hostname"], stdout=-1, text=True, check=False)
            assert (done.stdout, done.returncode) == (f"{host}\n", 0)
        assert subprocess.run([*shell, "alpha", "sh", "-c", "exit 9"], check=False).returncode == 9
        assert (
            main(["lab", "set", "--name", name, "--rtt", "8ms", "--mtu", "1400", "--office", "beta", "--cut", "alpha"])
            == 0
        )
        capfd.readouterr()
        assert main(["lab", "status", "--name", name, "--json"]) == 0
        status = json.loads(capfd.readouterr().out)
        assert status["internet"]["rtt"] == pytest.approx(0.008)
        alpha, beta = status["offices"]
        assert (alpha["line"]["up"], alpha["line"]["mtu"], alpha["stateful"]) == (False, 1500, False)
        assert (beta["line"]["up"], beta["line"]["mtu"], beta["stateful"]) == (True, 1400, True)
        assert main(["lab", "set", "--name", name, "--renumber", "alpha", "--mend", "alpha"]) == 0
        assert "198.51.100.101" in capfd.readouterr().out
        assert str(running(name).office("alpha").place.wan) == "198.51.100.101"
    finally:
        assert main(["lab", "down", "--name", name]) == 0
    assert_nothing_is_left(name, processes, devices)
    assert main(["lab", "down", "--name", name]) == 1
    assert "no lab" in capfd.readouterr().err
    with pytest.raises(LabError, match="not up"):
        Lab(1, name=name).release()
