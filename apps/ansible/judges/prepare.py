"""What the judges need before the first one runs: ansible-core's sdist, a virtual environment for it, Debian's packages.

All of it comes from the package registries that pip and apt are set up for, and stays in `build/ansible-judges`. Nothing is
installed on this machine: Debian's packages are installed in a sandbox, and what that changed is kept as an archive.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from apps.ansible.judges import sandbox
from apps.ansible.judges.targets import Core
from tools.pythons import candidates

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "ansible-judges"

# What the targets use on the machine that they change, beside a Debian with Python.
PACKAGES = (
    "acl attr bc bzip2 cron debconf-utils dpkg-dev e2fsprogs equivs file fdisk git gnupg iproute2 iptables locales "
    "openssh-server procps python3 python3-apt python3-debian python3-passlib python3-pexpect python3-pip "
    "python3-setuptools python3-venv python3-yaml rsync sshpass subversion sudo tar unzip util-linux xz-utils zip "
    "zstd"
)

# What they install themselves, or remove and install again. The sandboxes' apt finds it without the network.
DOWNLOADED = "acl at git libuser python3-apt python3-debian rpm unzip zip"

# What the targets use on the controller, beside ansible-core.
CONTROLLER = ("bcrypt", "passlib", "pexpect==4.8.0")

# What targets install into virtual environments of their own; the sandboxes' pip finds it without the network.
WHEELS = ("bcrypt", "passlib==1.7.4", "pexpect==4.8.0", "pexpect==4.9.0", "ptyprocess", "tomli")

INSTALL = """
set -e
# The alternative archives of a machine may lag behind its lists of packages.
apt-get -qq update
apt-get -qq -y install --no-install-recommends {packages} </dev/null
# Images of containers have apt remove what it has downloaded.
rm -f /etc/apt/apt.conf.d/docker-clean
apt-get clean
apt-get -qq -y install --download-only --reinstall {downloaded} </dev/null
/usr/sbin/sshd -V 2>/dev/null || test -x /usr/sbin/sshd
"""


class NotPrepared(RuntimeError):
    """Something that the judges need cannot be had on this machine."""


def _run(words: list[str], what: str) -> None:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPrepared(f"{what} failed with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part + b"\0")
    return digest.hexdigest()


def _is(version: str, python: Path | str) -> bool:
    asked = f"import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
    try:
        return subprocess.run([python, "-I", "-c", asked], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def interpreter(version: str) -> str:
    """The path of a Python `version` ("3.12"): this one, one on the PATH, or one that pyenv has made."""
    for candidate in map(str, (sys.executable, *candidates([version]))):
        if _is(version, candidate):
            return candidate
    raise NotPrepared(f"python{version} with venv is not on the PATH; this line of ansible-core runs on it")


def virtual_environment(core: Core) -> Path:
    """The virtual environment of one core line, with ansible-core in it."""
    folder = BUILD / f"venv-{core.version}"
    stamp = folder / "judges.stamp"
    wanted = _digest([core.version.encode(), *(name.encode() for name in CONTROLLER)])
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return folder
    print(f"Making {folder.relative_to(ROOT)} with Python {core.python} and ansible-core {core.version}", flush=True)
    _run([interpreter(core.python), "-m", "venv", "--clear", str(folder)], "making a virtual environment")
    pip = [str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    _run([*pip, "setuptools>=77", "wheel", f"ansible-core=={core.version}", *CONTROLLER], "installing ansible-core")
    stamp.write_text(wanted, "utf-8")
    return folder


def source(core: Core, venv: Path) -> Path:
    """The folder of ansible-core's sdist, which holds `test/integration/targets`."""
    folder = BUILD / "source" / f"ansible_core-{core.version}"
    if folder.exists():
        return folder
    cache = BUILD / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"ansible_core-{core.version}.tar.gz"
    if not archive.exists():
        print(f"Downloading the sdist of ansible-core {core.version}", flush=True)
        pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps"]
        options = ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(cache)]
        _run([*pip, *options, f"ansible-core=={core.version}"], "downloading the sdist of ansible-core")
    unpacking = folder.parent / f".{folder.name}"
    shutil.rmtree(unpacking, ignore_errors=True)
    unpacking.mkdir(parents=True)
    _run(["tar", "-xzf", str(archive), "--no-same-owner", "-C", str(unpacking)], "unpacking the sdist of ansible-core")
    (unpacking / folder.name).rename(folder)
    return folder


def wheels(core: Core, venv: Path) -> Path:
    """The folder of the packages that targets install."""
    folder = BUILD / f"wheels-{core.python}"
    stamp = folder / "judges.stamp"
    wanted = _digest(name.encode() for name in WHEELS)
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return folder
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps"]
    for name in WHEELS:
        _run([*pip, "--only-binary", ":all:", "--dest", str(folder), name], f"downloading {name}")
    stamp.write_text(wanted, "utf-8")
    return folder


def mount_point() -> Path:
    """The empty folder that sandboxes are mounted on."""
    folder = BUILD / "mount"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def stock_key(core: Core) -> str:
    """What a result of stock depends on. Not this machine's own packages: they change every few days."""
    return f"{core.version} {_digest(name.encode() for name in (*PACKAGES.split(), *DOWNLOADED.split()))[:16]}"


def layer() -> Path:
    """The archive of what Debian's packages add to this machine, made once for its present state."""
    status = Path("/var/lib/dpkg/status")
    if not status.exists() or not shutil.which("apt-get"):
        raise NotPrepared("the judges run on Debian or a relative of it: apt-get is not on the PATH")
    key = _digest([status.read_bytes(), INSTALL.encode(), PACKAGES.encode(), DOWNLOADED.encode()])[:16]
    archive = BUILD / f"packages-{key}.tar"
    if archive.exists():
        return archive
    print("Installing Debian's packages into a sandbox (nothing is installed on this machine)", flush=True)
    proxies = [f"{name}={value}" for name, value in os.environ.items() if name.lower().endswith("_proxy")]
    script = INSTALL.format(packages=PACKAGES, downloaded=DOWNLOADED)
    program = ["env", "DEBIAN_FRONTEND=noninteractive", *proxies, "sh", "-c", script]
    _run(
        sandbox.command(mount_point(), program, keep=archive, network=True),
        "installing Debian's packages into a sandbox",
    )
    for other in BUILD.glob("packages-*.tar"):
        if other != archive:
            other.unlink()
    return archive


def _contents(*folders: Path) -> Iterable[bytes]:
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if path.is_file() and path.suffix not in (".pyc", ".so") and "egg-info" not in str(path):
                yield str(path.relative_to(ROOT)).encode()
                yield path.read_bytes()


def can_judge_roamlet() -> bool:
    """Whether this clone has the package whose plugin is judged."""
    return (ROOT / "apps/ansible/pyproject.toml").exists()


PROJECTS = {
    "roamlet": (ROOT, ("src", "setup.py", "pyproject.toml")),
    "roamlet-ansible": (ROOT / "apps/ansible", ("src", "pyproject.toml")),
}


def _digests() -> dict[str, str]:
    """By project, of the files that are installed."""
    return {
        name: _digest(_contents(*(project / entry for entry in holds))) for name, (project, holds) in PROJECTS.items()
    }


def sources() -> str:
    """A digest of the sources of roamlet and roamlet-ansible, as they are in this clone."""
    return _digest(text.encode() for text in _digests().values())[:16]


def roamlet(venv: Path) -> str:
    """Install roamlet and roamlet-ansible from this clone as users get them; the digest of what was installed."""
    digests = _digests()
    for name, now in digests.items():
        project, _ = PROJECTS[name]
        stamp = venv / f"judges-{name}.stamp"
        if stamp.exists() and stamp.read_text("utf-8") == now:
            continue
        print(f"Installing {name} into {venv.relative_to(ROOT)}", flush=True)
        pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        # A build folder of its own for each: files that the clone no longer has do not come back from an older build.
        shutil.rmtree(project / "build/lib", ignore_errors=True)
        _run([*pip, "--no-build-isolation", "--force-reinstall", "--no-deps", str(project)], f"installing {name}")
        _run([*pip, "--no-build-isolation", str(project)], f"installing what {name} needs")
        stamp.write_text(now, "utf-8")
    return _digest(text.encode() for text in digests.values())[:16]
