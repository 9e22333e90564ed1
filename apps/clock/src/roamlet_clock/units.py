"""What roamlet clock puts on a host, and where: a script for sh, two services and a timer. Pure: nothing here touches a host."""

from dataclasses import dataclass
from importlib import resources

PROGRAM = "/usr/local/sbin/roamlet-clock"
FOLDER = "/var/lib/roamlet-clock"
"""Where the script keeps its stamps; it makes the folder itself."""

UNIT_FOLDER = "/etc/systemd/system"
UNITS = ("roamlet-clock.service", "roamlet-clock-tick.service", "roamlet-clock-tick.timer")
ENABLED = ("roamlet-clock.service", "roamlet-clock-tick.timer")
"""Those to enable and to start, in this order: systemd 219 knows no `enable --now`."""

CRON_LINES = (f"@reboot root {PROGRAM} load", f"*/15 * * * * root {PROGRAM} tick")
"""For /etc/crontab of a host that systemd has not booted. There nothing saves at a shutdown but the last quarter of an hour."""


@dataclass(frozen=True)
class InstalledFile:
    """A file on a host, owned by root."""

    path: str
    mode: int
    text: str


def installed_files(time_set: bool) -> tuple[InstalledFile, ...]:
    """All files for a host; `time_set` says whether its systemd knows time-set.target, as those since 242 do.

    An older one has time-sync.target alone. The clock is set before it, but it is not asked for: that would claim a clock that
    was compared with others.
    """
    files = [InstalledFile(PROGRAM, 0o755, _text("roamlet-clock"))]
    for name in UNITS:
        text = _text(name)
        if not time_set:
            text = text.replace("Wants=time-set.target\n", "").replace("time-set.target", "time-sync.target")
        files.append(InstalledFile(f"{UNIT_FOLDER}/{name}", 0o644, text))
    return tuple(files)


def _text(name: str) -> str:
    return (resources.files("roamlet_clock") / "files" / name).read_text(encoding="ascii")
