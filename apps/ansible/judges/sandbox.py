"""A sandbox for one judge: an overlay of `/` in memory, with mounts, network, process ids, host name and IPC of its own.

Run as a script it makes the sandbox it is described and starts a program in it as a child of process 1, which reaps. Standard
library only, because it runs by path. What is run inside is no business of this file.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

NEEDED = ("unshare", "setpriv", "mount", "tar", "ip")

# Set for everything inside. What this process has in its environment is the user's own affair and not part of the judgement.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
}


def why_not(where: Path) -> str:
    """Why no sandbox can be made on this machine; empty when one can. Makes one to find out."""
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)}: not found on the PATH"
    if os.geteuid() != 0:
        return "a sandbox is made of mounts and namespaces, which takes root"
    tried = subprocess.run(command(where, ["true"]), capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"a sandbox could not be made: {tried.stderr.strip()[-300:]}"


def command(
    where: Path, program: list[str], *, layer: Path | None = None, keep: Path | None = None, network: bool = False
) -> list[str]:
    """What to type for running `program` in a sandbox mounted on `where`; its exit code is the program's.

    `where` is an empty folder. Only the sandbox sees what is mounted on it, so any number of them can use the same one.
    `layer` is a tar archive that is laid over `/` first. With `keep`, what the program changed is written there as such an
    archive when it succeeds. Without `network` the sandbox has a loopback device and nothing else.
    The sandbox ends when its starter ends, with every process in it.
    """
    spec = {
        "where": str(where),
        "program": program,
        "layer": str(layer) if layer else None,
        "keep": str(keep) if keep else None,
        "network": network,
    }
    namespaces = ["--mount", "--pid", "--uts", "--ipc", *([] if network else ["--net"])]
    starter = ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "--fork", "--kill-child", "--"]
    return [*starter, sys.executable, "-I", str(Path(__file__).resolve()), json.dumps(spec)]


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def _mount(spec: dict) -> Path:
    where = Path(spec["where"])
    _run("mount", "--make-rprivate", "/")
    _run("mount", "-t", "tmpfs", "tmpfs", str(where))
    upper, work, root = where / "upper", where / "work", where / "root"
    for folder in (upper, work, root):
        folder.mkdir()
    if spec["layer"]:
        _run("tar", "--extract", "--xattrs", "--xattrs-include=*", "--file", spec["layer"], "--directory", str(upper))
    _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", str(root))
    _run("mount", "--rbind", "/dev", str(root / "dev"))
    _run("mount", "--rbind", "/sys", str(root / "sys"))
    for folder, mode in (("dev/shm", "1777"), ("tmp", "1777"), ("run", "755")):
        _run("mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", str(root / folder))
    return root


def _pack(upper: Path, archive: str) -> None:
    leave = [f"--exclude=./{name}" for name in ("tmp", "run", "var/cache/apt/*.bin", "var/log")]
    options = ["--create", "--xattrs", "--xattrs-include=*", *leave]
    _run("tar", *options, "--file", f"{archive}.new", "--directory", str(upper), ".")
    os.replace(f"{archive}.new", archive)


def _as_process_1(program: list[str], root: Path) -> int:
    """Run `program` below `root` and reap whatever else ends until it does."""
    child = os.fork()
    if child == 0:
        try:
            os.chroot(root)
            os.chdir("/")
            _run("mount", "-t", "proc", "proc", "/proc")
            os.execvpe(program[0], program, ENVIRONMENT)
        except BaseException as error:  # whatever it is: this is a forked child, and must not go on as its parent
            os.write(2, f"sandbox: {program[0]}: {error!r}\n".encode())
        os._exit(127)
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main(words: list[str]) -> int:
    spec = json.loads(words[0])
    root = _mount(spec)
    if not spec["network"]:
        _run("ip", "link", "set", "lo", "up")
    code = _as_process_1(spec["program"], root)
    if code == 0 and spec["keep"]:
        _pack(Path(spec["where"]) / "upper", spec["keep"])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
