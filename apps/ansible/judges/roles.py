"""`python -m apps.ansible.judges roles`: public roles on fresh Debian hosts with stock ssh and with roamlet, and a comparison.

Each role is run twice on a host of a lab that nothing has touched, and that has a systemd of its own: once by stock ssh with
pipelining, once by roamlet on another such host. Results of all tasks of both runs, and what is then on the host, are compared.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apps.ansible.judges import prepare, role_packages, role_sources, role_state
from bench.ansible import peers, results
from bench.ansible.runs import CALLBACKS
from roamlet_lab import Lab, LabError, NotPossible, why_not

SIDES = ("stock", "roamlet")
RTT = 0.005
SECONDS = 1800.0
RESULTS = role_sources.FOLDER / "results.json"
PAGE = prepare.ROOT / "docs/reference/ansible-roles.md"
OFFICE = "alpha"

# As of bench.ansible.results, for what programs print about this very run.
NOISE = (
    (re.compile(r"Fetched [\d.,]+ \w+ in .*"), "Fetched"),
    (re.compile(r"(Get|Hit|Ign|Selecting|Preparing|Unpacking|Setting up|Processing triggers)\b.*\n?"), ""),
    (re.compile(r"\.\d+\.\d{4}-\d\d-\d\d@[\d:]+~"), ".BACKUP"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\btmp[a-z0-9_]{8}\b"), "TEMPORARY"),
    (re.compile(r"\bfe80::[0-9a-f:]+"), "LINK-LOCAL"),
)
UNORDERED = frozenset(("ansible_virtualization_tech_guest", "ansible_virtualization_tech_host"))  # sets, as lists
KEPT_STATUS = ("ActiveState", "SubState", "UnitFileState", "LoadState", "Result", "Type", "Restart", "FragmentPath")
VOLATILE = re.compile(
    r"cache_update_time|ansible_ssh_host_key_.*|ansible_machine_id|ssh_host_key_.*|macaddress|ansible_(e|h)\w*nqn|"
    r"ansible_product_\w+|ansible_memory.*|ansible_mem\w+|ansible_swap\w+|ansible_device\w*|finger\w*|uptime_seconds|"
    r"ansible_lsb|ansible_eth\d|ansible_processor.*|SUDO_COMMAND|server_version|execution_time_ms|epoch.*|started_at|elapsed|date|etag|last_modified|std(out|err)_lines"
)


@dataclass
class Ran:
    """One run of a playbook. Seconds by the clock, Ansible's exit code, and the lines of the callback plugin."""

    seconds: float
    code: int
    results: str
    said: str

    def statuses(self) -> Counter[str]:
        """How many tasks had which status, and how many have changed something."""
        lines = results.parse(self.results).values()
        counted = Counter(line["status"] for line in lines)
        counted["changed"] = sum(bool(line["result"].get("changed")) for line in lines if line["status"] == "ok")
        return counted


@dataclass
class Row:
    """What is known of one role: `first` and `second` by side, and what is not the same with roamlet."""

    role: str
    subject: str
    commit: str
    first: dict[str, dict[str, Any]]
    second: dict[str, dict[str, Any]]
    unlike: list[str]
    state: int
    state_unlike: list[str]

    @property
    def passed(self) -> bool:
        """Whether stock's runs ended well, and everything was the same with roamlet."""
        codes = [runs[side]["code"] for runs in (self.first, self.second) for side in SIDES]
        return not any(codes) and not self.unlike and not self.state_unlike


def calm(value: Any) -> Any:
    """A result without what differs from one run to the next on any connection."""
    if isinstance(value, dict):
        if "ActiveState" in value:
            return {name: value[name] for name in KEPT_STATUS if name in value}
        kept = {name: calm(entry) for name, entry in value.items() if not VOLATILE.fullmatch(name)}
        return {name: sorted(entry) if name in UNORDERED else entry for name, entry in kept.items()}
    if isinstance(value, list):
        return [calm(entry) for entry in value]
    if isinstance(value, str):
        for pattern, word in NOISE:
            value = pattern.sub(word, value)
    return value


def compared(stock: str, other: str) -> list[str]:
    """What the results of two runs have unlike."""
    sides = [
        {key: {**line, "result": calm(line["result"])} for key, line in results.parse(text).items()}
        for text in (stock, other)
    ]
    return results.differences(*sides)


def playbook(role: role_sources.Role, word: str) -> str:
    """The text of the playbook."""
    parts = [
        "- hosts: all",
        "  become: true",
        "  vars:",
        "    judged: true",
        textwrap.indent(role.vars.strip("\n"), " " * 4),
    ]
    update = "- {name: the archive is known, apt: {update_cache: true}, changed_when: false}\n"
    parts += ["  pre_tasks:", textwrap.indent(update + role.before.strip("\n"), " " * 4)]
    parts += ["  roles:", f"    - {word}"]
    if role.check:
        parts += ["  post_tasks:", textwrap.indent(role.check.strip("\n"), " " * 4)]
    return "\n".join(parts) + "\n"


def _environment(side: peers.Side, venv: Path, folder: Path, out: Path) -> dict[str, str]:
    return {
        "PATH": f"{venv / 'bin'}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_TIMEOUT": "60",
        "ANSIBLE_ROLES_PATH": str(role_sources.FOLDER / "roles"),
        "ANSIBLE_COLLECTIONS_PATH": str(role_sources.FOLDER / "collections"),
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_CALLBACKS_ENABLED": "bench_results",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        "BENCH_RESULTS": str(out),
        "ROAMLET_ANSIBLE_LOG": str(out.with_suffix(".log")),
        **side.environment,
    }


def _run(side: peers.Side, venv: Path, folder: Path, book: Path, lab: Lab) -> Ran:
    """Run the playbook once; Ansible finds nothing of an earlier run on this machine."""
    folder.mkdir(parents=True)
    (folder / "ansible.cfg").write_text("")
    inventory = folder / "inventory"
    common = f"-F {lab.ssh_config} -o ControlPersist=2s"
    inventory.write_text(
        f"target ansible_host={OFFICE}-admin ansible_ssh_common_args='{common}' "
        "ansible_python_interpreter=/usr/bin/python3\n"
    )
    out = folder / "results"
    started = time.perf_counter()
    done = subprocess.run(
        [str(venv / "bin" / "ansible-playbook"), "-i", str(inventory), str(book)],
        env=_environment(side, venv, folder, out),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    seconds = time.perf_counter() - started
    (folder / "output").write_text(done.stdout + done.stderr)
    return Ran(
        seconds, done.returncode, out.read_text() if out.exists() else "", done.stdout[-1500:] + done.stderr[-500:]
    )


def _on_a_fresh_host(
    side: peers.Side, venv: Path, folder: Path, book: Path, cached: Path
) -> tuple[Ran, Ran, dict[str, object]]:
    """Both runs, and what is then on the host."""
    with Lab([OFFICE], rtt=RTT, systemd=True) as lab:
        server = lab.office(OFFICE).server
        with role_packages.proxy(lab, role_sources.FOLDER / "packages", cached) as url:
            server.write("/etc/apt/apt.conf.d/proxy", f'Acquire::http::Proxy "{url}";\nAcquire::Languages "none";\n')
            server.shell("systemctl is-system-running --wait || :")
            first = _run(side, venv, folder / "first", book, lab)
            second = _run(side, venv, folder / "second", book, lab)
            found = role_state.parse(server.run(["python3", "-c", role_state.SCRIPT], timeout=300).stdout)
    return first, second, found


def _plain(ran: Ran) -> dict[str, Any]:
    return {"seconds": round(ran.seconds, 1), "code": ran.code, **ran.statuses()}


def judge(role: role_sources.Role, venv: Path, cached: Path) -> Row:
    """Both sides of one role. Raises LabError where a lab cannot be built, NotPrepared where the role cannot be fetched."""
    word = role_sources.fetched(role)
    folder = role_sources.FOLDER / "runs" / role.name
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir(parents=True)
    book = folder / "playbook.yml"
    book.write_text(playbook(role, word))
    installed = peers.sides(venv)
    ran = {}
    for name in SIDES:
        ran[name] = _on_a_fresh_host(installed[name], venv, folder / name, book, cached)
        first, second, _ = ran[name]
        print(f"    {role.name}: {name} {first.seconds:.0f} s, {second.seconds:.0f} s", flush=True)
        if first.code and name == "stock":
            print(textwrap.indent(first.said, " " * 8), flush=True)
    unlike = [
        f"run {number + 1}: {text}"
        for number in (0, 1)
        for text in compared(ran["stock"][number].results, ran["roamlet"][number].results)
    ]
    stock_state, state = ran["stock"][2], ran["roamlet"][2]
    return Row(
        role.title,
        role.subject,
        role.commit,
        {name: _plain(ran[name][0]) for name in SIDES},
        {name: _plain(ran[name][1]) for name in SIDES},
        unlike,
        len(state),
        role_state.unlike(stock_state, state),
    )


HEAD = (
    "| role | subject | tasks | failed | seconds, stock | roamlet | 2nd run, stock | roamlet | changed in it | results unlike "
    "| things on the host | unlike |"
)


def table(rows: list[Row]) -> list[str]:
    """The rows as lines of Markdown."""
    lines = [HEAD, "| --- | --- |" + " --- |" * 10]
    for row in rows:
        first, second = row.first, row.second
        tasks = sum(first["stock"].get(status, 0) for status in ("ok", "failed", "skipped", "unreachable"))
        changed = "/".join(str(second[side].get("changed", 0)) for side in SIDES)
        failed = "/".join(str(first[side].get("failed", 0) + second[side].get("failed", 0)) for side in SIDES)
        cells = [
            f"{row.role} ({row.commit[:7]})",
            row.subject,
            str(tasks),
            failed,
            *(f"{runs[side]['seconds']:.0f}" for runs in (first, second) for side in SIDES),
            changed,
            str(len(row.unlike)),
            str(row.state),
            str(len(row.state_unlike)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


PROSE = """# Public roles over `roamlet.remote.ssh`

`make judges-ansible ARGS=roles` runs each of these roles twice on a fresh Debian bookworm of [`roamlet lab`](../howto/lab.md) with
a systemd of its own, with stock ssh and pipelining, and the same on another such host with roamlet. It needs root, and what labs
need; `ARGS='roles --only nginx,users'` runs some of them. Roles and collections are fetched when it runs, at the commits of
`apps/ansible/judges/roles.toml`; git's own `url.X.insteadOf` names a mirror. The hosts have no way outside: apt goes through a
proxy that keeps what it has fetched, so that both hosts see the same archive.

{table}

Two numbers with a stroke between them are stock's and roamlet's. "Tasks" are results, skipped ones included. Compared are

- the results of all tasks in both runs, less times, process ids, keys and what apt says about a download;
- the files below `/etc`, `/home`, `/root`, `/srv`, `/opt`, `/usr/local` and `/var/www`, with type, mode, owner and contents;
- packages with their versions, and units with their state.

Hashes of passwords, host keys and certificates are not compared: each installation makes them anew. Seconds are one run's, and
much of the first run is apt. Where the machine did other work too they are no measure: `make bench` has figures that are.

Because the hosts are containers, `os_hardening` leaves out kernel settings, auditd and the mount options of `/proc`.
{missing}{unlike}"""


def write_page(rows: list[Row], missing: list[str]) -> None:
    """The page of the documentation; `missing` are roles of the data file without a result."""
    notes = [f"- {row.role}: {text[:200]}" for row in rows for text in (*row.unlike, *row.state_unlike)]
    unlike = "\n## Unlike\n\n" + "\n".join(notes[:40]) + "\n" if notes else ""
    text = f"\nIn the data file, and not run yet: {', '.join(missing)}.\n" if missing else ""
    PAGE.write_text(PROSE.format(table="\n".join(table(rows)), unlike=unlike, missing=text), "utf-8")


def _kept() -> dict[str, Row]:
    if not RESULTS.exists():
        return {}
    return {name: Row(**row) for name, row in json.loads(RESULTS.read_text("utf-8")).items()}


def options(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make judges-ansible ARGS='roles ...'", description=__doc__)
    parser.add_argument("--only", default="", help="names of roles.toml, with commas; all of them without it")
    parser.add_argument(
        "--page", action="store_true", help="run nothing; write the page from the results that are kept"
    )
    parser.add_argument("--again", action="store_true", help="run nothing; compare the kept runs again")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """Run what was asked for: 0 where everything was the same, 1 where not, 2 where it cannot run."""
    chosen = options(words)
    roles, further = role_sources.read()
    names = [name for name in chosen.only.split(",") if name] or list(roles)
    if unknown := [name for name in names if name not in roles]:
        print(f"no role {', '.join(unknown)}; there are {', '.join(roles)}", file=sys.stderr)
        return 2
    kept = _kept()
    if chosen.page:
        write_page([kept[name] for name in roles if name in kept], [name for name in roles if name not in kept])
        return 0
    if chosen.again:
        return _again(kept, names)
    if reason := why_not():
        print(f"the roles cannot be run on this machine: {reason}", file=sys.stderr)
        return 2
    try:
        role_sources.collections(further)
        venv = peers.installed(print)
        with role_packages.indexes() as cached:
            for name in names:
                kept[name] = judge(roles[name], venv, cached)
                _keep(kept)
                _say(kept[name])
    except (LabError, NotPossible, prepare.NotPrepared) as error:
        print(f"the roles cannot be run: {error}", file=sys.stderr)
        return 2
    print("\n".join(table([kept[name] for name in names])))
    return 0 if all(kept[name].passed for name in names) else 1


def _say(row: Row) -> None:
    for text in (*row.unlike, *row.state_unlike)[:20]:
        print(f"    unlike: {text[:300]}", flush=True)


def _keep(kept: dict[str, Row]) -> None:
    RESULTS.write_text(json.dumps({name: asdict(row) for name, row in kept.items()}, indent=1) + "\n", "utf-8")


def _again(kept: dict[str, Row], names: list[str]) -> int:
    """Compare what earlier runs have left, after a change of what is compared."""
    for name in names:
        if name not in kept:
            continue
        folder = role_sources.FOLDER / "runs" / name
        kept[name].unlike = [
            f"run {number}: {text}"
            for number, run in ((1, "first"), (2, "second"))
            for text in compared(*((folder / side / run / "results").read_text() for side in SIDES))
        ]
        _say(kept[name])
    _keep(kept)
    print("\n".join(table([kept[name] for name in names if name in kept])))
    return 0 if all(kept[name].passed for name in names if name in kept) else 1
