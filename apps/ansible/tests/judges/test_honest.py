"""The harness reports what happened: targets made for the purpose are run through the whole of it, without ansible-core.

The sandbox is left out, except in the last tests, which make real ones.
"""

import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apps.ansible.judges import __main__ as command
from apps.ansible.judges import judging, prepare, records, sandbox, targets
from apps.ansible.judges.judging import COLUMNS, Setup, judge

DIRECT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import inside
spec = json.loads(sys.argv[2])
spec["output"] = sys.argv[3]
result = inside.run(spec)
json.dump(result, open(spec["result"], "w"))
"""

SCRIPTS = {
    "good": "exit 0",
    "bad": "echo this target fails; exit 3",
    "slow": "sleep 600",
    "needs_stock": 'grep -q "_connection=ssh" "$INVENTORY_PATH"',
    "names_the_plugin": "grep -q 'ansible_connection: roamlet.remote.ssh' plays.yml",
    "pipelined": 'grep -q " ansible_pipelining=yes" "$INVENTORY_PATH"',
    "set_by_alias": 'test "$FROM_ALIAS" = yes',
    "prepared": 'test -e "$OUTPUT_DIR/ran"',
    "first": 'touch "$OUTPUT_DIR/ran"',
}


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    source = tmp_path / "source"
    folder = source / "test/integration/targets"
    for name, script in SCRIPTS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "runme.sh").write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        (folder / name / "runme.sh").chmod(0o755)
    (folder / "names_the_plugin/plays.yml").write_text("ansible_connection: ssh\n", "utf-8")
    (folder / "set_by_alias/aliases").write_text("env/set/FROM_ALIAS/yes  # a comment\n", "utf-8")
    (folder / "prepared/aliases").write_text("setup/always/first\n", "utf-8")
    (folder / "role/tasks").mkdir(parents=True)
    playbook = tmp_path / "venv/bin/ansible-playbook"
    playbook.parent.mkdir(parents=True)
    playbook.write_text('#!/bin/sh\ncat "$3"; grep -q \'"roles": \\["role"\\]\' "$3"\n', "utf-8")
    playbook.chmod(0o755)
    return Setup(
        source=source,
        venv=tmp_path / "venv",
        wheels=tmp_path,
        version="2.21.5",
        layer=None,
        results=tmp_path / "results" / "2.21",
        where=tmp_path,
        stock_key="stock",
        sources="ours",
    )


def direct(setup: Setup, spec: dict) -> list[str]:
    """`inside.py` in this process' own surroundings."""
    here = str(judging.INSIDE.parent)
    return [sys.executable, "-I", "-c", DIRECT, here, json.dumps(spec), str(setup.results / "output")]


def outcome(setup: Setup, target: str, column: str = "ssh", seconds: float = 60) -> str:
    return judge(setup, COLUMNS[column], target, seconds, start=direct).outcome


def test_a_target_that_fails_is_reported_as_failed(setup: Setup) -> None:
    result = judge(setup, COLUMNS["ssh"], "bad", 60, start=direct)
    assert (result.outcome, result.code, result.passed) == ("failed", 3, False)
    _, log = judging.paths(setup, "ssh", "bad")
    assert log.read_text("utf-8") == "this target fails\n"


def test_a_target_that_passes_is_reported_as_passed(setup: Setup) -> None:
    assert outcome(setup, "good") == "passed"


def test_a_target_that_does_not_end_is_reported_as_timed_out(setup: Setup) -> None:
    started = time.monotonic()
    assert outcome(setup, "slow", seconds=0.5) == "timed out"
    assert time.monotonic() - started < 30
    _, log = judging.paths(setup, "ssh", "slow")
    assert "sleep 600" in log.read_text("utf-8")


def test_a_sandbox_that_says_nothing_is_broken(setup: Setup) -> None:
    result = judge(setup, COLUMNS["ssh"], "good", 60, start=lambda *_: ["false"])
    assert result.outcome == "broken" and not result.passed


def test_each_column_gets_its_connection_and_its_variables(setup: Setup) -> None:
    assert outcome(setup, "needs_stock", "ssh") == outcome(setup, "needs_stock", "pipelining") == "passed"
    assert outcome(setup, "needs_stock", "roamlet") == "failed"
    assert outcome(setup, "pipelined", "pipelining") == "passed"
    assert outcome(setup, "pipelined", "ssh") == "failed"


def test_a_plugin_that_a_targets_own_files_name_is_replaced(setup: Setup) -> None:
    assert outcome(setup, "names_the_plugin", "ssh") == "failed"
    result = judge(setup, COLUMNS["roamlet"], "names_the_plugin", 60, start=direct)
    assert (result.outcome, result.renamed) == ("passed", ("plays.yml",))


def test_aliases_set_variables_and_run_other_targets_first(setup: Setup) -> None:
    assert outcome(setup, "set_by_alias") == "passed"
    assert outcome(setup, "prepared") == "passed"


def test_a_target_without_a_script_is_run_as_a_role(setup: Setup) -> None:
    assert outcome(setup, "role") == "passed"


def test_a_result_of_another_key_is_not_taken_over(setup: Setup) -> None:
    outcome(setup, "bad")
    found = judging.kept(setup, "ssh", "bad")
    assert found is not None and found.outcome == "failed"
    other = dataclasses.replace(setup, stock_key="another")
    assert judging.kept(other, "ssh", "bad") is None
    assert judging.kept(setup, "ssh", "good") is None


def test_a_result_of_roamlet_depends_on_its_sources_and_one_of_stock_does_not(setup: Setup) -> None:
    outcome(setup, "good")
    outcome(setup, "good", "roamlet")
    other = dataclasses.replace(setup, sources="later")
    found = judging.kept(setup, "roamlet", "good")
    assert found is not None and found.sources == "ours"
    assert judging.kept(other, "roamlet", "good") is None
    known = judging.kept(other, "ssh", "good")
    assert known is not None and known.sources == ""


@pytest.fixture
def run(setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command, with the targets above in the place of ansible-core's."""
    data = tmp_path / "targets.toml"
    names = json.dumps(["good", "bad", "needs_stock"])
    data.write_text(
        f'[core]\n"2.21" = {{version = "2.21.5", python = "3.12"}}\n[run]\na = {names}\n[left-out]\n', "utf-8"
    )
    files = records.Records(tmp_path / "stock.json", tmp_path / "results.json")
    monkeypatch.setattr(command, "Records", lambda: files)
    monkeypatch.setattr(targets, "read", functools.partial(targets.read, data))
    monkeypatch.setattr(command, "_setup", lambda *_: setup)
    monkeypatch.setattr(command, "judge", functools.partial(judge, start=direct))
    monkeypatch.setattr(prepare, "BUILD", tmp_path)
    monkeypatch.setattr(prepare, "can_judge_roamlet", lambda: True)
    monkeypatch.setattr(sandbox, "why_not", lambda _: "")
    before = signal.getsignal(signal.SIGTERM)
    yield command.main
    signal.signal(signal.SIGTERM, before)


def test_the_exit_code_is_1_when_roamlet_fails_what_stock_passes(run, capsys) -> None:
    assert run([]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "pass with stock and fail with roamlet: needs_stock"
    assert [line.split()[:2] for line in said if line.startswith(("good", "bad"))] == [
        ["good", "passed"],
        ["bad", "failed"],
    ]


def test_the_exit_code_is_0_when_roamlet_passes_what_stock_passes(run) -> None:
    assert run(["--only", "good,bad"]) == 0


def test_without_a_column_of_roamlet_a_failing_target_is_still_shown(run, capsys) -> None:
    assert run(["--columns", "ssh"]) == 0
    assert "ssh: 2 of 3 passed" in capsys.readouterr().out


def test_recorded_results_of_stock_hold_roamlet_to_them(run, tmp_path: Path) -> None:
    assert run(["--columns", "ssh,pipelining"]) == 0
    assert run(["--record"]) == 0
    recorded = json.loads((tmp_path / "stock.json").read_text("utf-8"))["2.21"]
    assert recorded["pipelining"] == recorded["ssh"] == {"good": True, "bad": False, "needs_stock": True}
    assert run(["--columns", "roamlet"]) == 1
    assert run(["--columns", "roamlet", "--only", "bad"]) == 0


def test_recorded_results_of_roamlet_are_on_the_page_of_another_machine(run, tmp_path: Path, monkeypatch) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(prepare, "ROOT", tmp_path)
    monkeypatch.setattr(prepare, "sources", lambda: "ours")
    monkeypatch.setattr(command, "PAGE", page)
    assert run(["--page"]) == 2  # the names of the core's targets are not known
    (tmp_path / "source/ansible_core-2.21.5").symlink_to(tmp_path / "source")
    assert run(["--columns", "roamlet", "--only", "good,bad"]) == 0
    assert run(["--record", "--page"]) == 0
    before = page.read_text("utf-8")
    assert "roamlet: 1 of 2 passed" in before
    shutil.rmtree(tmp_path / "results")
    assert run(["--page"]) == 0
    assert page.read_text("utf-8") == before


def test_resume_does_not_hide_a_failure(run) -> None:
    assert run(["--resume"]) == 1
    assert run(["--resume"]) == 1


def test_wrong_words_are_refused(run, capsys) -> None:
    assert run(["--columns", "telnet"]) == 2
    assert run(["--core", "1.9"]) == 2
    assert run(["--only", "no_such_target"]) == 2
    assert "ansible-core 2.21.5 has no target no_such_target" in capsys.readouterr().err


@pytest.fixture
def where(tmp_path: Path) -> Path:
    if reason := sandbox.why_not(tmp_path):
        pytest.skip(reason)
    return tmp_path


def in_a_sandbox(where: Path, script: str) -> subprocess.CompletedProcess[str]:
    words = sandbox.command(where, ["sh", "-c", script])
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.lab
def test_the_exit_code_of_a_sandbox_is_its_programs(where: Path) -> None:
    assert [in_a_sandbox(where, f"exit {code}").returncode for code in (0, 3, 127)] == [0, 3, 127]
    assert in_a_sandbox(where, "kill -KILL $$").returncode == 128 + 9


@pytest.mark.lab
def test_what_a_sandbox_changes_is_gone_with_it(where: Path) -> None:
    mark = f"/etc/judges-{os.getpid()}"
    done = in_a_sandbox(where, f"echo changed > {mark} && hostname judged && rm /etc/passwd && cat {mark}")
    assert done.stdout == "changed\n"
    assert not Path(mark).exists() and Path("/etc/passwd").exists() and os.uname().nodename != "judged"
    assert list(where.iterdir()) == []


@pytest.mark.lab
def test_a_sandbox_reaches_nothing_but_itself(where: Path) -> None:
    assert in_a_sandbox(where, "ip -o link | cut -d: -f2").stdout.split() == ["lo"]


@pytest.mark.lab
def test_a_sandbox_ends_with_all_that_it_started(setup: Setup, where: Path) -> None:
    name = f"6{os.getpid()}"
    done = in_a_sandbox(where, f"sleep {name} & exit 4")
    assert done.returncode == 4
    assert subprocess.run(["pgrep", "-f", f"^sleep {name}"], capture_output=True, check=False).returncode == 1
