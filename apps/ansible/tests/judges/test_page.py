"""The page of the documentation: a target that was not run is listed as such, on the line and in the column that lack it."""

from apps.ansible.judges import report
from apps.ansible.judges.judging import Result
from apps.ansible.judges.targets import Core, Targets

TARGETS = Targets(
    {"2.16": Core("2.16", "2.16.19", "3.11"), "2.21": Core("2.21", "2.21.5", "3.12")}, ("ping", "raw"), {}
)


def result(target: str, column: str, sources: str = "now") -> Result:
    return Result(target, column, "passed", 1.0, sources=sources if column == "roamlet" else "")


def page(*results: Result, recorded: report.Recorded | None = None) -> str:
    lines = {"2.21": (report.rows(results), recorded or {}, ["ping", "raw", "win_ping"])}
    return report.page(TARGETS, lines, "now")


def test_what_was_not_run_is_listed_by_column() -> None:
    text = page(result("ping", "pipelining"), result("raw", "pipelining"), result("raw", "roamlet"))
    assert "Not run with ssh, of 2: all." in text
    assert "Not run with pipelining" not in text
    assert "Not run with roamlet, of 2: `ping`." in text


def test_what_was_recorded_is_told_as_an_earlier_run() -> None:
    text = page(recorded={"pipelining": {"ping": True}})
    assert "| ping |  |  | (passed) |  |" in text
    assert "Not run with pipelining, of 2: `raw`." in text
    assert "pipelining in an earlier run: 1 of 1 passed." in text


def test_a_line_without_results_says_so() -> None:
    assert "## ansible-core 2.21.5 on Python 3.12\n\nNot run with ssh, of 2: all." in page()


def test_results_of_earlier_sources_are_in_parentheses() -> None:
    text = page(result("ping", "roamlet", "before"), result("raw", "roamlet"), result("raw", "ssh"))
    assert "| ping |  |  |  | (passed, 1 s) |" in text
    assert "| raw | 0 | passed, 1 s |  | passed, 1 s |" in text
    assert "ssh: 1 of 1 passed; roamlet: 1 of 1 passed; roamlet with earlier sources: 1 of 1 passed." in text
    assert "Not run with roamlet" not in text


def test_what_was_changed_in_a_target_is_told_with_its_reason() -> None:
    changed = Targets({}, ("ping",), {}, {}, {"ping": [["a.yml", "sleep 5", "sleep 9"]]}, {"ping": "it is late"})
    assert "| ping | it is late | `a.yml` | `sleep 9` | `sleep 5` |" in report.page(changed, {}, "now")
