"""The data file: each target is run or left out for a reason, and enough of them pass with stock."""

from pathlib import Path

import pytest

from apps.ansible.judges import targets
from apps.ansible.judges.records import Records


def test_each_core_line_has_a_release_and_a_python() -> None:
    cores = targets.read().cores
    assert list(cores) == ["2.16", "2.18", "2.21"]
    for line, core in cores.items():
        assert core.version.startswith(f"{line}.")


def test_at_least_120_targets_of_2_21_pass_with_stock() -> None:
    data = targets.read()
    passed = Records().stock("2.21")["pipelining"]
    assert len([name for name in data.run if passed.get(name)]) >= 120


def test_what_was_recorded_is_about_targets_that_are_run() -> None:
    data = targets.read()
    for line in data.cores:
        for recorded in Records().stock(line).values():
            assert set(recorded) <= set(data.run)
        assert {result.target for result in Records().ours(line)} <= set(data.run)


def test_a_left_out_target_has_a_reason() -> None:
    data = targets.read()
    assert data.reason("win_fetch") and data.reason("ping") is None
    assert all(len(reason) > 10 for reason in data.left_out.values())
    assert data.unknown(["ping", "win_fetch", "brand_new"]) == ["brand_new"]


@pytest.mark.parametrize(
    "text",
    [
        '[core]\n[run]\na = ["ping", "ping"]\n[left-out]\n',
        '[core]\n[run]\na = ["ping"]\n[left-out.net]\nreason = "needs the network"\ntargets = ["ping"]\n',
        '[core]\n[run]\na = []\n[left-out.a]\nreason = "x"\ntargets = ["t"]\n[left-out.b]\nreason = "y"\ntargets = ["t"]\n',
    ],
)
def test_a_target_that_is_named_twice_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "targets.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match="twice"):
        targets.read(path)


def test_a_target_that_fails_with_stock_is_run_and_has_a_reason(tmp_path) -> None:
    data = targets.read()
    assert all(len(reason) > 10 and name in data.run for name, reason in data.fails.items())
    path = tmp_path / "targets.toml"
    path.write_text('[core]\n[run]\na = ["ping"]\n[left-out]\n[fails-with-stock]\npong = "has no table"\n')
    with pytest.raises(ValueError, match="not run, so that they cannot fail with stock: pong"):
        targets.read(path)
