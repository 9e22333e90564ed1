"""`roamlet ansible doctor`: has Ansible itself run the task `roamlet.remote.doctor` on the hosts, and prints what it found.

So the inventory, its variables and the options of connections are resolved as in any run; no code of core's is imported here.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from roamlet.cli import print_escaped
from roamlet_ansible import tally
from roamlet_ansible.broker.start import LOG

FAILED, UNREACHABLE = 1, 3  # exit codes
TIMEOUT = 600.0  # seconds, for Ansible to look at all hosts
OLDEST, NEWEST = (2, 16), (2, 21)  # lines of ansible-core that the tests are run with
MOST_TASKS = 50  # in the table of a log
LAST_LINES = 12  # of what Ansible says when it fails

Found = dict[str, Any]


@dataclass
class Run:
    """What Ansible said of the hosts, by name; `failure` is what it printed where it looked at none."""

    hosts: dict[str, Found] = field(default_factory=dict)
    failure: str = ""


def run(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code. Blocks, TIMEOUT at most for each of two runs of Ansible."""
    report: dict[str, Any] = {"core": _core()}
    if options.log is not None:
        with open(options.log, encoding="utf-8", errors="replace") as file:
            tasks = [task for task in tally.read(file) if task.over_roamlet]
        report["tasks"] = [tally.plain(task) for task in tasks]
    if options.log is None and report["core"]["version"] is not None:
        report["core"].update(_here())
    asked = options.inventory or options.pattern
    if asked and report["core"]["version"] is not None:
        looked = _ansible(options.pattern or "all", _words(options))
        report["hosts"] = [{"host": name, **found} for name, found in sorted(looked.hosts.items())]
        report["failure"] = looked.failure
    if options.json:
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    else:
        for line in _lines(report):
            print_escaped(line, sys.stdout)
        if options.log is not None:
            for line in tally.table(tasks, MOST_TASKS):
                print_escaped(line, sys.stdout)
    return _code(report)


def _core() -> dict[str, Any]:
    try:
        version = metadata.version("ansible-core")
    except metadata.PackageNotFoundError:
        version = None
    spec = importlib.util.find_spec("ansible_collections")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    there = [str(path) for path in (Path(folder, "roamlet", "remote") for folder in folders) if path.is_dir()]
    return {"version": version, "python": sys.executable, "collection": there[0] if there else None}


def _tried(version: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and OLDEST <= (int(found[1]), int(found[2])) <= NEWEST


def _here() -> dict[str, Any]:
    """A module on this machine: whether the installed core packs it, and starts it, as is known."""
    words = ["-i", "localhost,", "-e", "ansible_connection=roamlet.remote.local"]
    looked = _ansible("localhost", [*words, "-e", json.dumps({"ansible_python_interpreter": sys.executable})])
    found = looked.hosts.get("localhost", {})
    return {"modules": found.get("modules"), "error": looked.failure or found.get("error", "")}


def _words(options: argparse.Namespace) -> list[str]:
    words = []
    for option, values in (
        ("--inventory", options.inventory or ()),
        ("--extra-vars", options.extra_vars or ()),
        *((f"--{name}", [value]) for name, value in _single(options)),
    ):
        for value in values:
            words += [option, str(value)]
    return words + [f"--{name}" for name in ("become", "ask-pass", "ask-become-pass") if getattr(options, _field(name))]


def _single(options: argparse.Namespace) -> list[tuple[str, Any]]:
    names = ("connection", "user", "vault-password-file", "forks")
    return [(name, getattr(options, _field(name))) for name in names if getattr(options, _field(name)) is not None]


def _field(name: str) -> str:
    return name.replace("-", "_")


def _ansible(pattern: str, words: Sequence[str]) -> Run:
    """Run a playbook of one task on the hosts of `pattern`. Ansible may ask for passwords, on the terminal."""
    with tempfile.TemporaryDirectory(prefix="roamlet-") as folder:
        record = Path(folder, "record")
        play = Path(folder, "doctor.yml")
        task = {"name": "doctor", "roamlet.remote.doctor": {}}
        play.write_text(json.dumps([{"hosts": pattern, "gather_facts": False, "tasks": [task]}]), "utf-8")
        environment = {
            **os.environ,
            LOG: str(record),
            "ANSIBLE_CALLBACKS_ENABLED": "roamlet.remote.recap",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_RETRY_FILES_ENABLED": "0",
        }
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "ansible", "playbook", str(play), *words],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Run(failure=f"Ansible has not ended within {TIMEOUT:g} s.")
        hosts = _found(record.read_text("utf-8", "replace").splitlines()) if record.exists() else {}
    if hosts:
        return Run(hosts)
    said = "\n".join(ended.stdout.strip().splitlines()[-LAST_LINES:])
    if "roamlet.remote.doctor" in said:
        said += "\nIf ansible.cfg says collections_scan_sys_path = false, Ansible does not find the collection of this package."
    return Run(failure=said or f"ansible-playbook has ended with {ended.returncode} and printed nothing.")


def _found(lines: Iterable[str]) -> dict[str, Found]:
    hosts = {}
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            continue  # an error of the broker
        if isinstance(line, dict) and "doctor" in line:
            # Without `found` the task did not begin: no Python was discovered, a variable is undefined, and the like.
            begun = line["found"] or {"error": line["msg"], "unreachable": line["status"] == "unreachable"}
            hosts[line["doctor"]] = begun
    return hosts


def _well(found: Found) -> bool:
    return not found.get("error") and (found.get("modules") or {}).get("way") == tally.MODULE


def _code(report: dict[str, Any]) -> int:
    core = report["core"]
    if core["version"] is None or core["collection"] is None or report.get("failure"):
        return FAILED
    if "modules" in core and not _well(core):
        return FAILED
    hosts = [one for one in report.get("hosts", ()) if not _well(one)]
    if any(not one.get("unreachable") for one in hosts):
        return FAILED
    return UNREACHABLE if hosts else 0


def _lines(report: dict[str, Any]) -> list[str]:
    core = report["core"]
    if core["version"] is None:
        return [
            f"ansible-core is not installed for {core['python']}.",
            "    Install roamlet-ansible into the environment that has it, and run that environment's `roamlet`.",
        ]
    note = "" if _tried(core["version"]) else " (not tried: the tests are run with 2.16 to 2.21)"
    lines = [f"ansible-core  {core['version']}{note}, {core['python']}"]
    lines.append(
        f"collection    {core['collection'] or 'not found: is roamlet-ansible installed in this environment?'}"
    )
    if "modules" in core:
        lines.append(f"here          {_modules(core)}")
    if report.get("failure"):
        lines += ["", "Ansible has looked at no host:", *(f"    {line}" for line in report["failure"].splitlines())]
    for one in report.get("hosts", ()):
        lines += [
            "",
            f"{one['host']}  {one.get('connection', '')}".rstrip(),
            *(f"    {line}" for line in _of_host(one)),
        ]
    if "tasks" in report:
        lines.append("")
    elif "hosts" not in report:
        lines += ["", "No host was looked at: name them, with `-i INVENTORY`, or with a pattern such as `all`"]
    return lines


def _of_host(one: Found) -> list[str]:
    lines = []
    if one.get("roamlet") is False:
        lines += [
            "not over roamlet: this connection is Ansible's default, or named by the inventory, ansible.cfg or -c",
            "    try -c roamlet.remote.ssh; where the inventory names another, -e ansible_connection=roamlet.remote.ssh",
        ]
    context = one.get("context")
    if context:
        lines.append(
            f"context  {context['account']}, Python {context['python']} ({context['executable']}), "
            f"opened in {context['opened_in']:.2f} s, round trip {context['round_trip'] * 1000:.1f} ms"
        )
    if one.get("modules") or one.get("error"):
        lines.append(f"modules  {_modules(one)}")
    return lines


def _modules(one: Found) -> str:
    modules = one.get("modules")
    if one.get("error") or not modules:
        kind = "out of reach" if one.get("unreachable") else "failed"
        return f"{kind}: {one.get('error') or 'no module has run'}"
    way = tally.WORDS[modules["way"]] + (f": {modules['why']}" if modules["why"] else "")
    interpreter = f" by {modules['interpreter']}" if modules["interpreter"] else ""
    return (
        f"{way}{interpreter}, as {modules['account'] or 'an unknown account'}; "
        f"the first took {modules['first']:.2f} s, the next {modules['again'] * 1000:.0f} ms"
    )
