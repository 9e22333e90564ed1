"""The benchmark of Ansible, without Ansible: its playbooks, what counts as the same result, and from figures to verdicts."""

import json
from typing import Any

from bench import bars, tables
from bench.ansible import playbooks, report
from bench.ansible.measure import QUICK, Settings
from bench.ansible.results import differences, parse
from bench.ansible.scenarios import Sizes, scenarios


def lines(*results: dict[str, Any], status: str = "ok") -> str:
    made = [
        {"task": number, "action": "copy", "host": "host01", "status": status, "result": result}
        for number, result in enumerate(results)
    ]
    return "".join(json.dumps(line) + "\n" for line in made)


def tasks(playbook: str) -> list[dict[str, Any]]:
    (play,) = json.loads(playbook)
    found: list[dict[str, Any]] = play["tasks"]
    return found


def test_playbooks_have_as_many_tasks_as_the_titles_say() -> None:
    assert len(tasks(playbooks.pings(100))) == 100
    for rounds, count in ((10, 83), (3, 28), (1, 14)):
        assert len(tasks(playbooks.mixed(rounds))) == count
        (title,) = {one.title for one in scenarios(Sizes(rounds=rounds)) if one.name == "tasks"}
        assert title == f"{count} tasks"


def test_each_bar_is_about_a_scenario_and_sides_that_are_measured() -> None:
    every = {one.name: one for one in scenarios(Settings().sizes)}
    assert every.keys() == {one.name for one in scenarios(QUICK.sizes)}
    verdicts = [bar for bar in bars.verdicts({"ansible": a_run()}) if bar["part"] == "ansible"]
    assert all(bar["met"] is not None for bar in verdicts)
    for one in every.values():
        assert "roamlet" in one.each


def test_times_and_names_of_temporary_files_are_not_compared() -> None:
    first = {
        "start": "2026-01-01 00:00:00",
        "stat": {"mtime": 1.0, "size": 3},
        "path": "/root/ansible-tmp-1.5-22-333/x",
    }
    second = {
        "start": "2026-01-02 00:00:00",
        "stat": {"mtime": 2.0, "size": 3},
        "path": "/root/ansible-tmp-2.5-44-555/x",
    }
    assert differences(parse(lines(first)), parse(lines(second))) == []


def test_a_set_that_was_made_a_list_is_compared_as_a_set() -> None:
    first, second = ({"ansible_facts": {"ansible_interfaces": order}} for order in (["lo", "eth0"], ["eth0", "lo"]))
    assert differences(parse(lines(first)), parse(lines(second))) == []


def test_a_difference_is_named_by_task_host_and_key() -> None:
    stock = parse(lines({"mode": "0600", "gone": 1, "items": [{"rc": 0}]}))
    other = parse(lines({"mode": "0644", "new": 2, "items": [{"rc": 1}]}, status="failed"))
    assert differences(stock, other) == [
        "task 0 copy on host01: result.gone: missing, with stock 1",
        "task 0 copy on host01: result.items[0].rc: 1, with stock 0",
        "task 0 copy on host01: result.mode: '0644', with stock '0600'",
        "task 0 copy on host01: result.new: 2, missing with stock",
        "task 0 copy on host01: status: 'failed', with stock 'ok'",
    ]


def test_a_type_that_changes_and_a_task_without_result_are_differences() -> None:
    stock, other = parse(lines({"started": True}, {"rc": 0})), parse(lines({"started": 1}))
    assert differences(stock, other) == [
        "task 0 copy on host01: result.started: 1, with stock True",
        "task 1 copy on host01: no result",
    ]


def figures(wall: float, rounds: int = 3) -> dict[str, list[float]]:
    """With a slow round, in which all sides are slow."""
    walls = [wall, 10 * wall, wall][:rounds]
    return {"wall": walls, "controller": walls, "target": walls, "packets": [100] * rounds}


def a_run() -> dict[str, Any]:
    names = {"stock": "stock, pipelining", "mitogen": "Mitogen", "roamlet": "roamlet", "core": "core alone"}
    made = {}
    for one in scenarios(Sizes()):
        runs = {
            name: {which: figures(wall, rounds) for which in (("first", "again") if one.again else ("first",))}
            for name, wall, rounds in (("stock", 20.0, 3), ("mitogen", 8.0, 3), ("roamlet", 4.0, 3), ("core", 2.0, 3))
            if name != "core" or name in one.each
            for rounds in [1 if name in one.once else 3]
        }
        for figures_of_core in runs.get("core", {}).values():
            figures_of_core["target"] = [0.0] * 3
        made[one.name] = {"title": one.title, "runs": runs, "differences": {}}
    made["tasks"]["differences"]["mitogen"] = [
        "first run, task 3 copy on host01: result.mode: '0644', with stock '0600'"
    ]
    return {"versions": {"mitogen": "0.3"}, "sides": names, "scenarios": made, "skipped": {}}


def test_ratios_are_taken_within_a_round() -> None:
    taken = a_run()
    assert report.ratio(taken, "pings", "wall", "stock") == 0.2
    taken["scenarios"]["pings"]["runs"]["roamlet"]["first"]["wall"] = [4.0, 4.0, 4.0]
    assert report.ratio(taken, "pings", "wall", "stock") == 0.2
    assert report.ratio(taken, "far", "wall", "mitogen", "again") == 0.5
    assert report.unlike(taken) == 0
    assert report.growth(taken) == 1


def test_tables_have_each_scenario_with_its_second_run_and_what_is_unlike_stock() -> None:
    seconds, ratios, unlike, _ = tables.tables({"ansible": a_run(), "bars": []})
    assert [row[0] for row in seconds.rows] == [row[0] for row in ratios.rows]
    assert "28 tasks, 80 ms, second run" in [row[0] for row in seconds.rows]
    assert [row[:3] for row in unlike.rows] == [["83 tasks", "Mitogen", "1"]]


def test_core_alone_is_beside_the_others_and_uses_nothing_of_targets() -> None:
    _, ratios, *_ = tables.tables({"ansible": a_run(), "bars": []})
    (pings,) = [dict(zip(ratios.heads, row, strict=True)) for row in ratios.rows if row[0] == "100 pings"]
    assert pings["controller CPU / core alone"] == "2.00"
    assert pings["target CPU / core alone"] == "-"


def test_a_run_without_roamlet_has_no_verdicts_and_says_so() -> None:
    taken = a_run()
    for one in taken["scenarios"].values():
        del one["runs"]["roamlet"]
    assert {bar["met"] for bar in bars.verdicts({"ansible": taken})} == {None}
    assert tables.tables({"ansible": taken, "bars": []})
