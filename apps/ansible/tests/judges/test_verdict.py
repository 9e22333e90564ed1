"""The verdict: a target that passes with stock and fails with roamlet is a regression, whatever else there is."""

import pytest

from apps.ansible.judges import report
from apps.ansible.judges.judging import Result


def result(target: str, column: str, outcome: str = "passed") -> Result:
    return Result(target=target, column=column, outcome=outcome, seconds=1.0)


def judged(**outcomes: str) -> dict[str, dict[str, Result]]:
    return report.rows(result("copy", column, outcome) for column, outcome in outcomes.items())


def test_all_that_passes_with_both_is_0() -> None:
    assert report.exit_code(judged(ssh="passed", pipelining="passed", roamlet="passed"), {}) == 0


@pytest.mark.parametrize("outcome", ["failed", "timed out"])
def test_what_passes_with_stock_and_not_with_roamlet_is_1(outcome: str) -> None:
    rows = judged(ssh="passed", roamlet=outcome)
    assert report.regressions(rows, {}) == ["copy"]
    assert report.exit_code(rows, {}) == 1
    assert report.summary(rows, {}, ["ssh", "roamlet"])[-1] == "pass with stock and fail with roamlet: copy"


@pytest.mark.parametrize(("ssh", "pipelining"), [("passed", "failed"), ("failed", "passed")])
def test_one_of_stocks_columns_is_enough_to_hold_roamlet_to_it(ssh: str, pipelining: str) -> None:
    assert report.exit_code(judged(ssh=ssh, pipelining=pipelining, roamlet="failed"), {}) == 1


def test_what_fails_with_stock_too_is_no_regression() -> None:
    assert report.exit_code(judged(ssh="failed", pipelining="timed out", roamlet="failed"), {}) == 0


def test_what_was_recorded_counts_where_stock_was_not_run() -> None:
    rows = judged(roamlet="failed")
    assert report.exit_code(rows, {}) == 0
    assert report.exit_code(rows, {"ssh": {"copy": False}, "pipelining": {"copy": True}}) == 1
    assert report.exit_code(rows, {"ssh": {"copy": False}}) == 0


def test_what_fails_where_stock_is_unknown_is_named() -> None:
    rows = judged(roamlet="failed")
    assert report.summary(rows, {}, ["roamlet"])[-2:] == [
        "fail with roamlet, and were not run with stock: copy",
        "pass with stock and fail with roamlet: none",
    ]
    assert len(report.summary(rows, {"ssh": {"copy": False}}, ["roamlet"])) == 2


def test_what_is_measured_counts_more_than_what_was_recorded() -> None:
    assert report.exit_code(judged(ssh="passed", roamlet="failed"), {"ssh": {"copy": False}}) == 1
    assert report.exit_code(judged(ssh="failed", roamlet="failed"), {"ssh": {"copy": True}}) == 0


def test_a_regression_among_many_is_not_lost() -> None:
    results = [result(name, column) for name in ("ping", "raw", "copy") for column in ("ssh", "roamlet")]
    results.append(result("file", "ssh"))
    results.append(result("file", "roamlet", "failed"))
    rows = report.rows(results)
    assert report.regressions(rows, {}) == ["file"]
    assert report.exit_code(rows, {}) == 1


def test_a_sandbox_that_did_not_work_is_neither_passed_nor_silent() -> None:
    rows = judged(ssh="broken")
    assert report.exit_code(rows, {}) == 2
    assert "the sandbox did not work for: copy" in report.summary(rows, {}, ["ssh"])
    assert report.exit_code(judged(ssh="passed", roamlet="broken"), {}) == 1


def test_no_results_are_not_success() -> None:
    assert report.exit_code({}, {}) == 2


def test_a_row_says_what_was_measured_and_what_was_recorded() -> None:
    measured = judged(roamlet="timed out")["copy"]
    words = report.line("copy", measured, ["ssh", "pipelining", "roamlet"], {"pipelining": {"copy": True}}).split("  ")
    assert [word.strip() for word in words if word.strip()] == ["copy", "-", "(passed)", "timed out 1 s"]
