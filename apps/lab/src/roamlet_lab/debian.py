"""The Debian that every machine of a lab runs: built once with debootstrap, kept in the cache, never written to afterwards.

Nothing is installed on this machine but debootstrap, where that is missing and this is root on Debian.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from roamlet_lab.errors import NotPossible

SUITE = "bookworm"
PACKAGES = (
    *("systemd", "systemd-sysv", "systemd-container", "dbus", "sudo", "kmod", "procps"),
    *("openssh-server", "openssh-client", "python3", "netcat-openbsd"),
    *("iproute2", "net-tools", "iptables", "nftables", "conntrack", "ethtool", "iputils-ping", "tcpdump", "iperf3"),
    *("wireguard-tools", "openresolv"),
)
# wireguard-go of 2023-12 and later hands the kernel many packets at once, and is 5 to 9 times as fast as the suite's own.
NEWER_SUITE = "trixie"
NEWER = "wireguard-go"

# What every machine of a lab has alike. The keys of the ssh servers are made for each lab.
SETTINGS = """\
rm -f /etc/ssh/ssh_host_* /etc/machine-id /var/lib/dbus/machine-id
: >/etc/machine-id
printf '127.0.0.1 localhost\\n' >/etc/hosts
: >/etc/resolv.conf
mkdir -p /dev/net /etc/wireguard
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
chmod 666 /dev/net/tun
chmod 700 /etc/wireguard
useradd --create-home --shell /bin/bash admin
echo 'admin ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/admin
chmod 440 /etc/sudoers.d/admin
cat >/etc/ssh/sshd_config.d/lab.conf <<'END'
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
PermitRootLogin prohibit-password
PermitTunnel yes
UseDNS no
MaxStartups 200
END
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
    rm -f /etc/systemd/system/*.wants/$unit
done
systemctl mask -q getty@.service console-getty.service container-getty@.service systemd-logind.service || true
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
"""


def system(cache: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder with the system; it is built if this cache does not hold it yet, which takes some minutes and the network.

    `say` is told what is being waited for. Needs root. Two processes may ask at once: one builds. Raises NotPossible with what is
    missing or went wrong.
    """
    folder = cache / f"debian-{_key()}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / ".building", say):
        if not folder.is_dir():
            for remains in cache.glob(".debian-*"):  # of a build that was killed
                shutil.rmtree(remains, ignore_errors=True)
            _need_debootstrap(say)
            say(f"building a Debian {SUITE} in {folder}, once; this takes some minutes")
            with tempfile.TemporaryDirectory(dir=cache, prefix=".debian-", ignore_cleanup_errors=True) as scratch:
                _build(Path(scratch), cache / "debian.log").rename(folder)
    return folder


def _key() -> str:
    recipe = "\n".join((SUITE, NEWER_SUITE, NEWER, *PACKAGES, SETTINGS, platform.machine()))
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


@contextmanager
def _alone(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Let one process at a time through."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that builds the same Debian")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _need_debootstrap(say: Callable[[str], None]) -> None:
    if shutil.which("debootstrap"):
        return
    advice = "Type: sudo apt-get update && sudo apt-get install -y debootstrap"
    if shutil.which("apt-get") is None:
        raise NotPossible(
            f"debootstrap is missing, which makes the Debian that a lab runs. On Debian and Ubuntu: {advice}"
        )
    say("installing debootstrap, which is missing here")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "debootstrap"]):
        subprocess.run(["apt-get", *words], check=False, env=environment, **quiet)  # type: ignore[call-overload]
    if shutil.which("debootstrap") is None:
        raise NotPossible(f"debootstrap is missing, and could not be installed. {advice}")


def _mirror() -> str:
    """Where packages come from: ROAMLET_LAB_MIRROR, or what apt uses here for the suite, or for its first source."""
    if mirror := os.environ.get("ROAMLET_LAB_MIRROR"):
        return mirror
    for further in ([f"Codename: {SUITE}"], []):
        done = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", *further],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.stdout.strip():
            return done.stdout.split()[0]
    raise NotPossible(
        "no Debian mirror is known here: name one in ROAMLET_LAB_MIRROR, as it is written in apt's sources"
    )


def _build(scratch: Path, log: Path) -> Path:
    """Make the system in `scratch`; returns its folder."""
    root = scratch / "root"
    mirror = _mirror()
    scratch.chmod(0o755)
    with log.open("wb") as stream:

        def run(*argv: str) -> None:
            # In namespaces of their own: what a package's installation mounts or starts ends with it, even by kill -9.
            alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
            done = subprocess.run(
                [*alone, *argv],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                check=False,
                cwd=scratch,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
            )
            if done.returncode:
                raise NotPossible(
                    f"the Debian for labs could not be built: `{' '.join(argv)[:200]}` ended with {done.returncode}. "
                    f"{_end_of(log)}\n    All it said is in {log}. If a mirror could not be reached, name another in "
                    "ROAMLET_LAB_MIRROR."
                )

        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root), mirror)
        _add_newer(run, scratch, root, mirror)
        run("chroot", str(root), "sh", "-euc", SETTINGS)
    return root


def _add_newer(run: Callable[..., None], scratch: Path, root: Path, mirror: str) -> None:
    """Unpack the one package that is taken from a newer suite; it needs nothing that the suite has not."""
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f" [signed-by={keyring}]" if keyring.exists() else ""
    sources = scratch / "sources.list"
    sources.write_text(f"deb{signed} {mirror} {NEWER_SUITE} main\n")
    (scratch / "lists" / "partial").mkdir(parents=True)
    settings = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch,
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    run("apt-get", *options, "update", "-q")
    run("apt-get", *options, "download", "-q", NEWER)
    (package,) = scratch.glob(f"{NEWER}_*.deb")
    run("dpkg-deb", "-x", str(package), str(root))


def _end_of(log: Path) -> str:
    lines = [line for line in re.split(r"[\r\n]+", log.read_text(errors="replace")) if line.strip()]
    return "It said last: " + " / ".join(lines[-3:]) if lines else ""
