"""`python -m apps.ansible.judges mitogen`: Mitogen's own playbooks on hosts of a lab, with stock ssh and with roamlet.

Mitogen for Ansible is tested by playbooks that state what modules, files, become and connections do. Those that look into Mitogen
are left out, and the others are told that it is absent. Results of all tasks are compared. The playbooks are fetched when it runs.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from apps.ansible.judges import prepare, role_sources
from apps.ansible.judges.roles import SIDES, Ran, compared
from bench.ansible import peers
from bench.ansible.runs import CALLBACKS
from roamlet_lab import Lab, LabError, NotPossible, why_not

SOURCE = role_sources.Role(
    "mitogen", "", "https://github.com/mitogen-hq/mitogen", "7c12aa300557613c0b061a2e981356d13a882c98"
)
FOLDER = prepare.BUILD / "mitogen"
SECONDS = 240.0
WITHIN = (
    "mitogen_only",
    "mitogen_shutdown_all",
    "mitogen_get_stack",
    "mitogen_action_script",
    "hosts: tc-",
    "hosts: tc_",
)
EMPTY = (
    "linux_containers",
    "has_sudo_rs",
    "tt_targets_bare",
    "tt_become_bare",
    "tt_become_by_inv",
    "tt_targets_inventory",
)
OFFICES = {"stock": "alpha", "roamlet": "beta"}  # the office of each side

# The accounts of Mitogen's test images, as far as playbooks need them, and what their modules are written in.
ACCOUNTS = """\
groupadd mitogen__group
for name in has_sudo has_sudo_nopw has_sudo_pubkey pw_required readonly_homedir require_tty require_tty_pw_required \\
        slow_user permdenied user1 user2 user3; do
    useradd --create-home --shell /bin/bash --groups mitogen__group mitogen__$name
    echo "mitogen__$name:${name}_password" | chpasswd
done
cat >/etc/sudoers.d/mitogen <<'END'
mitogen__has_sudo ALL=(ALL:ALL) ALL
mitogen__has_sudo_nopw ALL=(ALL:ALL) NOPASSWD: ALL
mitogen__has_sudo_pubkey ALL=(ALL:ALL) NOPASSWD: ALL
Defaults>mitogen__pw_required targetpw
Defaults>mitogen__require_tty requiretty
Defaults>mitogen__require_tty_pw_required requiretty,targetpw
END
chown -R root: ~mitogen__readonly_homedir
"""


def books(folder: Path) -> list[str]:
    """The playbooks below tests/ansible that are run, as paths below it."""
    found = []
    for part in ("regression", "integration"):
        for path in sorted((folder / part).rglob("*.yml")):
            book = path.relative_to(folder)
            text = path.read_text("utf-8")
            named = not book.name.startswith("_") and book.name != "all.yml"
            if (
                named
                and not {"roles", "templates"} & set(book.parts)
                and "hosts:" in text
                and not any(word in text for word in WITHIN)
            ):
                found.append(str(book))
    return found


def _inventory(lab: Lab, office: str) -> str:
    lines = [
        "[test-targets]",
        f"target ansible_host={office}-admin",
        "[issue1079]",
        f"wait-for-connection ansible_host={office}-admin",
    ]
    lines += ["[all:vars]", f"ansible_ssh_common_args='-F {lab.ssh_config}'", "ansible_user=admin"]
    lines += ["ansible_python_interpreter=/usr/bin/python3", *(f"[{name}]" for name in EMPTY)]
    return "\n".join(lines) + "\n"


def _run(side: peers.Side, venv: Path, folder: Path, book: str, out: Path) -> Ran:
    """Run one playbook; it is ended after SECONDS."""
    tests = folder / "tests" / "ansible"
    extra = {"is_macos_controller": False, "is_mitogen": False, "git_basedir": str(folder)}
    environment = {
        "PATH": f"{venv / 'bin'}:{folder}/tests/data/stubs:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(out.parent),
        "USER": os.environ.get("USER", "root"),
        "LANG": "C.UTF-8",
        "VIRTUAL_ENV": str(venv),
        "I_WAS_PRESERVED": "1",
        "ANSIBLE_STRATEGY": "linear",
        "ANSIBLE_CONFIG": str(tests / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": f"/tmp/roamlet-books-{side.name}",
        "ANSIBLE_CALLBACK_PLUGINS": f"{tests}/lib/callback:{CALLBACKS}",
        "ANSIBLE_CALLBACKS_ENABLED": "bench_results",
        "BENCH_RESULTS": str(out),
        **side.environment,
    }
    inventory = tests / "hosts" / f"lab-{side.name}.hosts"
    words = [str(venv / "bin" / "ansible-playbook"), "-i", str(inventory), "-e", json.dumps(extra), str(tests / book)]
    try:
        done = subprocess.run(
            words,
            env=environment,
            cwd=tests,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
        code, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        code, said = -1, str(error.stdout)
    out.with_suffix(".output").write_text(said)
    return Ran(0, code, out.read_text() if out.exists() else "", said[-800:])


# What ssh itself says in stderr of `raw`, which is in the list of differences.
CLIENT = r"(?:Warning: Permanently added [^\]]*? to the list of known hosts\.|Shared connection to [\w.-]+ closed\.)"

# What tells one host or one run from the other. ssh's lines are entries of stderr_lines, or the text of stderr, where
# their ends are escaped once for each text that they are quoted in.
OWN = (
    (re.compile(r"\balpha\b|\bbeta\b|192\.168\.\d+\.|198\.51\.100\.\d+ \d+|fd00:\d+:|lab-(stock|roamlet)"), "OFFICE"),
    (re.compile(r"books-(stock|roamlet)|_payload_\w{8}|/tmp/ssh-\w+/agent\.\d+|OFFICE \d+ 22"), "OWN"),
    (re.compile(r"(?<=\"dev\": )\d+"), "0"),
    (re.compile(rf"""(?<=\[)(?:(["']){CLIENT}\1(?:, )?)+"""), ""),
    (re.compile(rf"{CLIENT}(?:\\+[rn])*"), ""),
)


def _same_names(text: str) -> str:
    """Results without what is a host's or a run's own. Both sides share the controller: what was delegated is left out."""
    lines = [line for line in text.splitlines() if '"_ansible_delegated_vars"' not in line]
    text = "\n".join(lines)
    for pattern, word in OWN:
        text = pattern.sub(word, text)
    return text


def judge(installed: dict[str, peers.Side], venv: Path, folder: Path, book: str) -> tuple[str, list[str]]:
    """One playbook on both sides at once: a word for how it ended, and what was unlike."""
    home = FOLDER / "runs" / book.replace("/", ".")
    home.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as both:
        waiting = [both.submit(_run, installed[name], venv, folder, book, home / name) for name in SIDES]
        stock, ours = (one.result() for one in waiting)
    if stock.code:
        return (f"fails with stock ({stock.code}), with roamlet: {ours.code}", [])
    if ours.code:
        return (f"FAILS with roamlet ({ours.code})", [ours.said])
    unlike = compared(*(_same_names(one.results) for one in (stock, ours)))
    return ("passes, results unlike" if unlike else "passes, results equal", unlike)


def main(words: list[str]) -> int:
    """Run what was asked for: 0 where all that passes with stock passes, 1 where not, 2 where it cannot run."""
    parser = argparse.ArgumentParser(prog="make judges-ansible ARGS='mitogen ...'", description=__doc__)
    parser.add_argument(
        "--only", default="", help="words with commas between them: playbooks whose path has one of them"
    )
    chosen = parser.parse_args(words)
    if reason := why_not():
        print(f"the playbooks cannot be run on this machine: {reason}", file=sys.stderr)
        return 2
    failed = 0
    try:
        folder = role_sources.checkout(SOURCE, FOLDER / "source")
        venv = peers.installed(print)
        installed = peers.sides(venv)
        with Lab([*OFFICES.values()], rtt=0.001) as lab:
            for side, office in OFFICES.items():
                lab.office(office).server.shell(ACCOUNTS)
                inventory = folder / "tests" / "ansible" / "hosts" / f"lab-{side}.hosts"
                inventory.write_text(_inventory(lab, office))
            for book in books(folder / "tests" / "ansible"):
                if any(word in book for word in chosen.only.split(",")):
                    said, unlike = judge(installed, venv, folder, book)
                    failed += said.startswith("FAILS")
                    print(f"{book}: {said}", *(f"    {text[:600]}" for text in unlike[:6]), sep="\n", flush=True)
    except (LabError, NotPossible, prepare.NotPrepared) as error:
        print(f"the playbooks cannot be run: {error}", file=sys.stderr)
        return 2
    return 1 if failed else 0
