"""What runs in the sandbox: an sshd on the loopback device, the inventory, and one integration target.

Standard library only, because it runs by path, with the Python of the harness. Its argument is a description in JSON; the
result is written as JSON to the descriptor that the description names, and all output is the target's log.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SSHD = """\
Port 22
PermitRootLogin yes
UsePAM yes
PasswordAuthentication yes
KbdInteractiveAuthentication no
LogLevel VERBOSE
Subsystem sftp /usr/lib/openssh/sftp-server
MaxStartups 100
MaxSessions 100
AcceptEnv LANG LC_*
"""
SSHD_LOG = Path("/run/judge-sshd.log")
INVENTORY = """\
[testgroup]
testhost ansible_host=127.0.0.1 ansible_user=root ansible_python_interpreter=/usr/bin/python3 {variables}
"""
PIP = "[global]\nno-index = true\nfind-links = {wheels}\n[install]\nbreak-system-packages = true\n"

# What ansible-test sets for its own runs of the targets: they rely on it.
SETTINGS = {
    "ANSIBLE_CONFIG": "{source}/test/lib/ansible_test/_data/ansible.cfg",
    "ANSIBLE_COLLECTIONS_PATH": "{source}/test/support/integration/collections",
    "ANSIBLE_LIBRARY": "{source}/test/support/integration/plugins/modules",
    "ANSIBLE_DEPRECATION_WARNINGS": "false",
    "ANSIBLE_DEVEL_WARNING": "false",
    "ANSIBLE_FORCE_COLOR": "false",
    "ANSIBLE_FORCE_HANDLERS": "true",
    "ANSIBLE_HOST_KEY_CHECKING": "false",
    "ANSIBLE_HOST_PATTERN_MISMATCH": "error",
    "ANSIBLE_INVENTORY": "/dev/null",
    "ANSIBLE_PYTHON_INTERPRETER": "/set/ansible_python_interpreter/in/inventory",
    "ANSIBLE_PYTHON_MODULE_RLIMIT_NOFILE": "1024",
    "ANSIBLE_RETRY_FILES_ENABLED": "false",
    "ANSIBLE_TIMEOUT": "60",
    "ANSIBLE_WORKER_SHUTDOWN_POLL_COUNT": "100",
    "ANSIBLE_WORKER_SHUTDOWN_POLL_DELAY": "0.1",
    "ANSIBLE_TEST_ANSIBLE_VERSION": "{version}",
    "ANSIBLE_TEST_CI": "local",
    "ANSIBLE_TEST_COVERAGE": "",
    "ANSIBLE_TEST_PYTHON_INTERPRETER": "{python}",
    "ANSIBLE_TEST_PYTHON_VERSION": "3",
    "ANSIBLE_TEST_REMOTE_INTERPRETER": "",
    "INVENTORY_PATH": "{source}/test/integration/inventory",
    "OUTPUT_DIR": "{output}",
    "PAGER": "/bin/cat",
    "PYTHONPATH": "/run/judge-python",
}

# Inventories and plays of targets that name the plugin under test themselves.
NAMED = re.compile(r"""(ansible_connection["']?\s*[=:]\s*["']?)(?:ansible\.builtin\.)?ssh(?![\w.-])""")


def aliases(target: Path) -> list[str]:
    """The words of a target's `aliases` file, without comments."""
    try:
        lines = (target / "aliases").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [word for line in lines if (word := line.partition("#")[0].strip())]


def start_sshd() -> None:
    """Let root log in with a fresh key, on the loopback device alone."""
    home = Path("/root/.ssh")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "id_ed25519")], check=True)
    shutil.copy(home / "id_ed25519.pub", home / "authorized_keys")
    (home / "config").write_text("Host *\n    StrictHostKeyChecking no\n", "utf-8")
    subprocess.run(["ssh-keygen", "-A"], check=True, stdout=subprocess.DEVNULL)
    Path("/run/sshd").mkdir(exist_ok=True)
    Path("/run/judge-sshd.cfg").write_text(SSHD, "utf-8")
    subprocess.run(["/usr/sbin/sshd", "-f", "/run/judge-sshd.cfg", "-E", str(SSHD_LOG)], check=True)
    for _ in range(50):
        tried = subprocess.run(["ssh", "-o", "BatchMode=yes", "127.0.0.1", "true"], capture_output=True, check=False)
        if tried.returncode == 0:
            return
        time.sleep(0.1)
    raise SystemExit(f"the sandbox's sshd cannot be reached: {tried.stderr.decode(errors='replace')}")


def settle(venv: Path, wheels: Path) -> None:
    """What else the targets expect of the machine that they change, which is the controller's too."""
    for path in sorted((venv / "bin").glob("ansible*")):
        link = Path("/usr/local/bin", path.name)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    # Some targets call the controller's Python by this name; ansible-test's own script for it gets its first line there.
    python = Path("/usr/local/bin/python.py")
    python.write_text(f'#!/bin/sh\nexec {venv}/bin/python "$@"\n', "utf-8")
    python.chmod(0o755)
    for name in (".bashrc", ".profile", ".bash_profile"):
        Path("/root", name).unlink(missing_ok=True)
    # The controller's Python may be below /root, and other accounts run it too.
    Path("/root").chmod(0o755)
    Path("/etc/pip.conf").write_text(PIP.format(wheels=wheels), "utf-8")


def describe(source: Path, connection: str, variables: dict[str, str]) -> None:
    """The files that targets read about the run: how the target is reached, and no settings."""
    integration = source / "test/integration"
    variables = {"ansible_connection": connection} | variables
    (integration / "inventory").write_text(
        INVENTORY.format(variables=" ".join(f"{name}={value}" for name, value in variables.items())),
        "utf-8",
    )
    (integration / "integration_config.yml").write_text("{}\n", "utf-8")


def rename_connection(folder: Path, connection: str) -> list[str]:
    """Where a target's own files ask for core's ssh plugin by name, ask for `connection`; says which files those are."""
    changed = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 200_000:
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        renamed = NAMED.sub(rf"\g<1>{connection}", text)
        if renamed != text:
            path.write_text(renamed, "utf-8")
            changed.append(str(path.relative_to(folder)))
    return changed


def adjust(folder: Path, changes: list[list[str]]) -> None:
    """Replace texts in a target's files: file, text, new text. What a release does not have is left as it is."""
    for name, old, new in changes:
        path = folder / name
        if path.exists():
            path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def command_of(target: Path, integration: Path, output: Path) -> tuple[list[str], Path, dict[str, str]]:
    """How a target is run: the words, the folder and the variables that its kind (script or role) asks for."""
    if (target / "runme.sh").exists():
        return ["./runme.sh"], target, {"ANSIBLE_PLAYBOOK_DIR": str(target)}
    words = aliases(target)
    play = {
        "hosts": "testhost",
        "gather_facts": "gather_facts/no" not in words,
        "vars_files": ["integration_config.yml"],
        "vars": {"output_dir": str(output)},
        "roles": [target.name],
    }
    playbook = integration / f"{target.name}-judge.yml"
    playbook.write_text(json.dumps([play]), "utf-8")
    variables = {"ANSIBLE_PLAYBOOK_DIR": str(integration), "ANSIBLE_ROLES_PATH": str(target.parent)}
    return ["ansible-playbook", "-i", "inventory", playbook.name], integration, variables


def processes() -> list[str]:
    """The sandbox's processes, a line each: number, parent, state, words. From /proc: Debian's smallest root has no ps."""
    lines = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            state, parent = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            words = (folder / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
        except OSError:
            continue  # it has ended
        lines.append(f"{folder.name:>7} {parent:>7} {state} {words[:180]}")
    return lines


def run_one(
    target: Path, source: Path, environment: dict[str, str], seconds: float, output: Path
) -> tuple[int | None, float]:
    """Run one target; its exit code, None when it took longer than `seconds`, and the time that it took."""
    output.mkdir(parents=True, exist_ok=True)
    words, folder, variables = command_of(target, source / "test/integration", output)
    for alias in aliases(target):
        if alias.startswith("env/set/"):
            name, _, value = alias.removeprefix("env/set/").partition("/")
            variables[name] = value
    started = time.monotonic()
    process = subprocess.Popen(
        words, cwd=folder, env=environment | variables, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"judges: no end after {seconds:.0f} s; its processes:", *processes(), sep="\n", flush=True)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = None
    return code, time.monotonic() - started


def sessions() -> int:
    """How many sessions the sshd has opened, the harness' own first one not counted."""
    try:
        return max(0, SSHD_LOG.read_text("utf-8", "replace").count("Starting session: ") - 1)
    except FileNotFoundError:
        return 0


def run(spec: dict) -> dict:
    """Prepare, run the targets that this one wants to have run before, then the target itself."""
    source = Path(spec["source"])
    targets = source / "test/integration/targets"
    target = targets / spec["target"]
    output = Path(spec["output"])
    describe(source, spec["connection"], spec["variables"])
    renamed = rename_connection(target, spec["connection"]) if spec["connection"] != "ssh" else []
    adjust(target, spec.get("adjust", []))
    environment = dict(os.environ)
    tools = source / "test/lib/ansible_test/_util/target/injector"
    environment["PATH"] = f"{spec['venv']}/bin:{environment['PATH']}:{tools}"
    python = f"{spec['venv']}/bin/python"
    for name, value in SETTINGS.items():
        environment[name] = value.format(source=source, version=spec["version"], output=output, python=python)
    for alias in aliases(target):
        for kind in ("setup/once/", "setup/always/"):
            if alias.startswith(kind):
                name = alias.removeprefix(kind)
                run_one(targets / name, source, environment, spec["timeout"], output)
    before = sessions()
    code, took = run_one(target, source, environment, spec["timeout"], output)
    return {
        "code": code,
        "seconds": round(took, 1),
        "sessions": sessions() - before,
        "renamed": renamed,
    }


def main(words: list[str]) -> int:
    spec = json.loads(words[0])
    # The limit that ansible-test gives to the controller, for the target too.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    start_sshd()
    settle(Path(spec["venv"]), Path(spec["wheels"]))
    result = run(spec)
    with open(spec["result"], "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
