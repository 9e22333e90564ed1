"""What a host reports, with folders in place of its own; and that everything it sends is plain and can be checked."""

import json
import os
import sys

import pytest

from apps.clock.tests.host import on_target
from roamlet import remote
from roamlet_clock import units
from roamlet_clock.facts import Facts
from roamlet_clock.host import commands
from roamlet_clock.host import gather as host_gather
from roamlet_clock.host.act import act
from roamlet_clock.host.gather import gather
from roamlet_clock.plan import ASKED_PATHS, ASKED_UNITS
from tests.remote import interpreters

SHOW = """#!/bin/sh
case "$*" in
    --version) echo "systemd 219"; echo "+PAM";;
    *roamlet-clock.service) printf 'LoadState=loaded\\nUnitFileState=enabled\\nActiveState=active\\nResult=success\\n';;
    *) printf 'LoadState=not-found\\nUnitFileState=\\nActiveState=inactive\\nResult=success\\n';;
esac
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The folder that stands for /, on a host that systemd 219 has booted."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    program(tmp_path / "bin/systemctl", SHOW)
    monkeypatch.setattr(commands, "FOLDERS", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def asked(root) -> Facts:
    plain = gather(ASKED_PATHS, ASKED_UNITS, units.PROGRAM, str(root))
    return Facts.from_plain(json.loads(json.dumps(plain)), "here")


def test_a_bare_host(root):
    facts = asked(root)
    assert facts.systemd == 219 and not facts.time_set and facts.status is None
    assert facts.rtc is None and facts.clock_file is None and facts.paths == {} and facts.missing == {}
    assert facts.units["roamlet-clock.service"].active == "active" and not facts.units["soft-hwclock.service"].known
    assert facts.is_root is (os.geteuid() == 0)


def test_a_host_that_no_systemd_has_booted(root):
    (root / "run/systemd/system").rmdir()
    facts = asked(root)
    assert facts.systemd is None and facts.units == {} and facts.missing == {}


def test_files_folders_and_links_are_described(root):
    (root / "usr/local/sbin").mkdir(parents=True)
    program(root / "usr/local/sbin/roamlet-clock", '#!/bin/sh\necho stamp=7\necho "floor_by=a b=c"\n')
    (root / "var/lib/roamlet-clock").mkdir(parents=True)
    (root / "var/lib/roamlet-clock/stamp").touch()
    (root / "etc/systemd/system/sysinit.target.wants").mkdir(parents=True)
    (root / "etc/systemd/system/sysinit.target.wants/roamlet-clock.service").symlink_to("../roamlet-clock.service")
    facts = asked(root)
    assert facts.paths[units.PROGRAM].text.startswith("#!/bin/sh") and facts.paths[units.PROGRAM].mode == 0o755
    assert facts.paths[units.FOLDER].names == ("stamp",)
    link = facts.paths["/etc/systemd/system/sysinit.target.wants/roamlet-clock.service"]
    assert (link.kind, link.text) == ("link", "../roamlet-clock.service")
    assert facts.status == {"stamp": "7", "floor_by": "a b=c"}


def test_a_script_that_fails_and_a_systemctl_that_hangs_are_told(root, monkeypatch):
    monkeypatch.setattr(commands, "PATIENCE", 0.05)
    program(root / "bin/systemctl", "#!/bin/sh\nexec sleep 60\n")
    facts = asked(root)
    assert facts.systemd is None and "systemctl --version did not end within 0 seconds" in facts.missing["systemd"]
    monkeypatch.setattr(commands, "PATIENCE", 20)
    program(root / "bin/systemctl", SHOW)
    program(root / "usr/local/sbin/roamlet-clock", "echo no sha256sum here >&2; exit 1\n")
    assert asked(root).missing["status"].endswith("status: no sha256sum here")


@pytest.mark.parametrize(("text", "epoch"), [("1800000000\n", 1_800_000_000), ("", None), ("-5\n", -5)])
def test_a_hardware_clock(root, text, epoch):
    (root / "sys/class/rtc/rtc0").mkdir(parents=True)
    (root / "sys/class/rtc/rtc0/name").write_text("rtc-ds1307\n")
    (root / "sys/class/rtc/rtc0/since_epoch").write_text(text)
    rtc = asked(root).rtc
    assert (rtc.device, rtc.name, rtc.epoch) == ("rtc0", "rtc-ds1307", epoch)


def test_the_newest_clock_file_and_the_target_are_found(root):
    for path, time in (("systemd/clock", 100), ("systemd/timesync/clock", 200)):
        file = root / "var/lib" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (time, time))
    (root / "lib/systemd/system").mkdir(parents=True)
    (root / "lib/systemd/system/time-set.target").touch()
    facts = asked(root)
    assert (facts.clock_file.path, facts.clock_file.time) == ("/var/lib/systemd/timesync/clock", 200)
    assert facts.time_set


def test_the_kernel_is_asked_and_answers_or_does_not():
    assert host_gather._synchronised() in (True, False, None)


@pytest.mark.parametrize("version", [name for name in ("2.7", "3.6") if name in interpreters.found()] or ["own"])
def test_the_oldest_pythons_gather_and_act_too(version, root):
    """2.7 is all that CentOS 7 has, whose systemd is the oldest that is meant."""
    (root / "var/lib/roamlet-clock").mkdir(parents=True)
    for name in (b"stamp", "\u00fc b".encode()):
        (root / "var/lib/roamlet-clock" / os.fsdecode(name)).touch()
    (root / "etc/systemd/system").mkdir(parents=True)
    (root / "etc/systemd/system/roamlet-clock.service").symlink_to(os.fsdecode(b"no text \xff"))
    program(root / "usr/local/sbin/roamlet-clock", "echo stamp=7; echo 'floor_by=\u00e4 \x1b[0m'\n")
    asking = (list(ASKED_PATHS), list(ASKED_UNITS), units.PROGRAM, str(root))
    folder = str(root / "var/lib/roamlet-clock")
    with remote.local(interpreters.found().get(version, sys.executable)) as context:
        context.call(on_target.use_folders, (f"{root}/bin:/usr/bin:/bin",))
        plain = context.call(gather, asking)
        refused = context.call(act, ([{"do": "remove", "path": folder, "folder": True}],))
        (root / "var/lib/roamlet-clock/\u00fc b").unlink()
        done = context.call(
            act, ([{"do": "systemctl", "words": ["show", "x"]}, {"do": "remove", "path": folder, "folder": True}],)
        )
        hung = context.call(on_target.run_shortly, ("sleep", "60"))
    facts = Facts.from_plain(plain, "oldest")
    assert facts.systemd == 219 and facts.units["roamlet-clock.service"].active == "active" and facts.missing == {}
    assert facts.paths[units.FOLDER].names == ("stamp", "\u00fc b")
    assert facts.paths["/etc/systemd/system/roamlet-clock.service"].text == "no text \ufffd"
    assert facts.status == {"stamp": "7", "floor_by": "\u00e4 ?[0m"}
    assert refused == {"done": 0, "error": f"{folder} holds what is not of roamlet clock: \u00fc b", "said": []}
    assert done == {"done": 2, "error": None, "said": []} and not os.path.exists(folder)
    assert hung == "sleep 60 did not end within 0 seconds"
