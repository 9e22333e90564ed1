"""Debian's sudo and doas, accounts with passwords, and rules, for programs that run in a mount namespace of their own.

Nothing of the machine is changed: over /etc and /usr of that namespace lie the test's own files and the unpacked packages, read
only. What runs there ends with the test, and so does its namespace. Takes root.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from roamlet import remote
from tools import unpack_debian

REPOSITORY = Path(__file__).parents[3]
UNPACKED = REPOSITORY / ".venv" / "privileges"
PYTHON = "/usr/bin/python3"  # for accounts that may not look into the home of whoever runs the tests
PASSWORD = "correct horse: it's 'battery' $taple"
CALLER, FREE, STRANGER, OTHER = "roamlet-caller", "roamlet-free", "roamlet-stranger", "roamlet-other"
FIRST_NUMBER = 61001
OPEN = {"sudo": remote.sudo, "su": remote.su, "doas": remote.doas}

SUDOERS = f"""\
Defaults timestamp_timeout=0, lecture=never, !fqdn
Defaults:roamlet-tty requiretty
root ALL=(ALL) NOPASSWD: ALL
{CALLER} ALL=(ALL) ALL
{FREE} ALL=(ALL) NOPASSWD: ALL
roamlet-tty ALL=(ALL) ALL
"""
DOAS = f"permit nopass root\npermit {CALLER}\npermit nopass {FREE}\n"
PAM = """\
auth sufficient pam_rootok.so
auth required pam_unix.so nodelay
account required pam_unix.so
session required pam_permit.so
"""
ENTER = """\
#!/bin/sh
exec unshare --mount --propagation private sh -c '
mount -t overlay roamlet -o "lowerdir={etc}:{unpacked}/etc:/etc" /etc &&
mount -t overlay roamlet -o "lowerdir={unpacked}/usr:/usr" /usr || exit 125
user=$1; shift
exec setpriv --reuid="$user" --regid="$user" --init-groups "$@"' sh "$@"
"""


class CannotBeMade(Exception):
    """This machine, or whoever runs the tests, cannot do that; the message says why."""


@dataclass(frozen=True)
class PrivateSystem:
    """`enter USER PROGRAM WORDS...` runs a program in it."""

    folder: Path

    @property
    def enter(self) -> str:
        return str(self.folder / "enter")

    def command(self, program: str, user: str, into: Path) -> None:
        """Put a program of this name into the folder `into`: the real one, called by `user` in the private system."""
        path = into / program
        path.write_text(f'#!/bin/sh\nexec {self.enter} {user} /usr/bin/{program} "$@"\n')
        path.chmod(0o755)


def make(folder: Path) -> PrivateSystem:
    """Unpack what is missing and write the files into `folder`. Raises CannotBeMade."""
    if os.geteuid() != 0:
        raise CannotBeMade("accounts of its own take root")
    for program in ("unshare", "setpriv", "openssl"):
        if shutil.which(program) is None:
            raise CannotBeMade(f"there is no program {program}")
    try:
        unpack_debian.unpack(UNPACKED, ["opendoas", "sudo"])
    except unpack_debian.CannotUnpack as reason:
        raise CannotBeMade(str(reason)) from None
    UNPACKED.chmod(0o700)  # there is a sudo in it
    _write_accounts(folder / "etc")
    enter = folder / "enter"
    enter.write_text(ENTER.format(etc=folder / "etc", unpacked=UNPACKED))
    enter.chmod(0o755)
    tried = subprocess.run([str(enter), "root", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise CannotBeMade(f"no mount namespace with overlays: {tried.stderr.strip()}")
    return PrivateSystem(folder)


def _write_accounts(etc: Path) -> None:
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD + "\n", capture_output=True, text=True, check=True
    ).stdout.strip()
    files = {name: Path("/etc", name).read_text() for name in ("passwd", "group", "shadow")}
    for number, user in enumerate([CALLER, FREE, STRANGER, OTHER, "roamlet-tty", "roamlet-closed"], FIRST_NUMBER):
        shell = "/usr/sbin/nologin" if user == "roamlet-closed" else "/bin/sh"
        files["passwd"] += f"{user}:x:{number}:{number}:a test's:/tmp:{shell}\n"
        files["group"] += f"{user}:x:{number}:\n"
        files["shadow"] += f"{user}:{hashed}:19000:0:99999:7:::\n"
    files |= {"sudoers": SUDOERS, "doas.conf": DOAS, "hosts": Path("/etc/hosts").read_text()}
    files |= {f"pam.d/{program}": PAM for program in ("sudo", "su", "doas")}
    for name, text in files.items():
        path = etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600 if name == "shadow" else 0o440 if name in ("sudoers", "doas.conf") else 0o644)
