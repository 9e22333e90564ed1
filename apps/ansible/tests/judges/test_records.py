"""The data files: what is recorded is kept until something newer is measured, and says which sources it is of."""

import json
from pathlib import Path

import pytest

from apps.ansible.judges.judging import Result
from apps.ansible.judges.records import Records

RUN = ("ping", "raw")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "stock.json", tmp_path / "results.json")


def ours(target: str, sources: str, outcome: str = "passed") -> Result:
    return Result(target, "roamlet", outcome, 2.0, sources=sources)


def test_without_files_nothing_is_known(records: Records) -> None:
    assert records.stock("2.21") == {}
    assert records.ours("2.21") == []


def test_what_is_added_is_read_again_and_other_lines_stay(records: Records) -> None:
    records.add("2.16", [ours("ping", "a"), Result("ping", "ssh", "failed", 1.0)], "a", RUN)
    records.add("2.21", [ours("raw", "a", "timed out"), Result("raw", "pipelining", "passed", 1.0)], "a", RUN)
    assert records.ours("2.16") == [ours("ping", "a")]
    assert records.ours("2.21") == [ours("raw", "a", "timed out")]
    assert records.stock("2.16") == {"ssh": {"ping": False}}
    assert records.stock("2.21") == {"pipelining": {"raw": True}}


def test_a_result_replaces_one_of_earlier_sources_and_leaves_the_other_targets(records: Records) -> None:
    records.add("2.21", [ours("ping", "a"), ours("raw", "a")], "a", RUN)
    records.add("2.21", [ours("ping", "b", "failed")], "b", RUN)
    assert records.ours("2.21") == [ours("ping", "b", "failed"), ours("raw", "a")]


def test_what_is_left_of_an_older_run_does_not_replace_a_result_of_the_present_sources(records: Records) -> None:
    records.add("2.21", [ours("ping", "b")], "b", RUN)
    records.add("2.21", [ours("ping", "a", "failed")], "b", RUN)
    assert records.ours("2.21") == [ours("ping", "b")]


def test_a_broken_sandbox_is_not_recorded_and_a_target_that_is_no_longer_run_is_forgotten(records: Records) -> None:
    records.add("2.21", [ours("ping", "a"), ours("raw", "a")], "a", RUN)
    records.add("2.21", [ours("raw", "b", "broken")], "b", ("raw",))
    assert records.ours("2.21") == [ours("raw", "a")]
    assert json.loads(records.stock_path.read_text("utf-8")) == {"2.21": {}}
