"""What is compared when roles and Mitogen's playbooks are judged: differences are seen, what changes from run to run is not."""

import json

import pytest

from apps.ansible.judges import mitogen_books, role_sources, role_state, roles


def line(**result: object) -> str:
    return json.dumps({"task": 0, "host": "target", "action": "copy", "status": "ok", "result": result}) + "\n"


def test_a_result_that_is_not_the_same_is_named() -> None:
    assert roles.compared(line(changed=True, mode="0644"), line(changed=True, mode="0644")) == []
    assert roles.compared(line(mode="0644"), line(mode="0600")) == [
        "task 0 copy on target: result.mode: '0600', with stock '0644'"
    ]
    assert roles.compared(line(a=1), "") == ["task 0 copy on target: no result"]


@pytest.mark.parametrize(
    ("stock", "other"),
    [
        ({"stdout": "Fetched 12 MB in 3s (4 MB/s)"}, {"stdout": "Fetched 12 MB in 9s (1 MB/s)"}),
        ({"backup_file": "/etc/x.12.2026-01-02@10:11:12~"}, {"backup_file": "/etc/x.99.2026-01-02@10:11:59~"}),
        ({"status": {"ActiveState": "active", "MainPID": "1"}}, {"status": {"ActiveState": "active", "MainPID": "2"}}),
        ({"ansible_virtualization_tech_guest": ["a", "b"]}, {"ansible_virtualization_tech_guest": ["b", "a"]}),
    ],
)
def test_what_changes_from_run_to_run_is_not_compared(stock: dict[str, object], other: dict[str, object]) -> None:
    assert roles.compared(line(**stock), line(**other)) == []


def test_what_ssh_says_itself_is_not_compared() -> None:
    closed = "Shared connection to alpha.example closed.\r\n"
    for said in (closed, f"Warning: Permanently added 'alpha' (ED25519) to the list of known hosts.\r\n{closed}"):
        results = [{"stderr": text, "stderr_lines": text.splitlines()} for text in (said, "")]
        stock, other = (mitogen_books._same_names(line(**result)) for result in results)
        assert stock == other
    stock, other = (
        mitogen_books._same_names(line(msg=str({"lines": text.splitlines(), "stderr": text}))) for text in (closed, "")
    )
    assert stock == other
    assert "the disk is full" in mitogen_books._same_names(line(stderr=closed + "the disk is full"))


def test_a_unit_in_another_state_is_seen() -> None:
    stock, other = ({"status": {"ActiveState": state, "MainPID": "1"}} for state in ("active", "failed"))
    assert "status.ActiveState: 'failed', with stock 'active'" in roles.compared(line(**stock), line(**other))[0]


def test_what_is_on_the_hosts_is_compared_by_name() -> None:
    stock = {"/etc/a": ["-rw-r--r--", 0, 0, "x"], "package b": "b 1"}
    assert role_state.unlike(stock, dict(stock)) == []
    assert role_state.unlike(stock, {"/etc/a": ["-rw-------", 0, 0, "x"]}) == [
        "/etc/a: ['-rw-------', 0, 0, 'x'], with stock ['-rw-r--r--', 0, 0, 'x']",
        "package b: missing, with stock b 1",
    ]


def test_each_role_has_a_commit_and_a_playbook_that_yaml_reads() -> None:
    yaml = pytest.importorskip("yaml", reason="ansible-core is not installed for this Python")
    found, further = role_sources.read()
    assert len(found) >= 5
    assert all("." in name for name in further["names"])
    for role in found.values():
        assert len(role.commit) == 40
        (play,) = yaml.safe_load(roles.playbook(role, role.title))
        assert play["roles"] == [role.title]
        assert play["pre_tasks"]
        assert isinstance(play["vars"], dict)


def test_a_table_shows_what_was_unlike() -> None:
    run = {"seconds": 1.0, "code": 0, "ok": 3, "changed": 0}
    runs = {"stock": run, "roamlet": run}
    row = roles.Row("a.b", "web", "0" * 40, runs, runs, [], 10, [])
    assert row.passed
    assert roles.table([row])[-1] == "| a.b (0000000) | web | 3 | 0/0 | 1 | 1 | 1 | 1 | 0/0 | 0 | 10 | 0 |"
    assert not roles.Row("a.b", "web", "0" * 40, runs, runs, ["x"], 10, []).passed
    failed = {"stock": run, "roamlet": {**run, "code": 2}}
    assert not roles.Row("a.b", "web", "0" * 40, failed, runs, [], 10, []).passed


def test_playbooks_that_look_into_mitogen_are_left_out(tmp_path) -> None:
    for name, text in {
        "regression/one.yml": "- hosts: all",
        "regression/two.yml": "- hosts: all\n  tasks: [{mitogen_shutdown_all: }]",
        "regression/all.yml": "- hosts: all",
        "integration/a/_part.yml": "- hosts: all",
        "integration/a/three.yml": "- hosts: all",
        "integration/roles/x/tasks.yml": "- hosts: all",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert mitogen_books.books(tmp_path) == ["regression/one.yml", "integration/a/three.yml"]
