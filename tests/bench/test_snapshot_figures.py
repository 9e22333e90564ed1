"""The snapshot figures run for every side that is installed here, with tiny counts. How long they take is not looked at."""

from importlib.util import find_spec

import pytest

from bench.snapshot import measure as snapshot
from tests.snapshot.conftest import KNOWN

pytestmark = pytest.mark.skipif(not KNOWN, reason="tasklets are saved on the backends that see their frames")

PRESENT = {"roamlet", "pickle"} | ({"dispatch-py"} if find_spec("dispatch") else set())


def test_every_side_saves_and_restores_chains_and_tasklets_travel() -> None:
    settings = snapshot.Settings(rounds=2, frames=600, many=200, travels=5, far=1, lines=(0, 20))
    said: list[str] = []
    run = snapshot.measure(settings, said.append)
    skipped = {what.partition(",")[0] for what in run["skipped"]}
    assert skipped <= {"dispatch-py"}  # it is not there, or its chains cannot be so deep
    assert set(run["frames"]["4"]) == set(run["many"]) == PRESENT
    assert {"roamlet", "pickle"} <= set(run["frames"]["500"])
    for by_side in run["frames"].values():
        for taken in by_side.values():
            assert len(taken["turns"]["save_us"]) == 2
            assert taken["save_us"] == min(taken["turns"]["save_us"]) > 0
            assert taken["restore_us"] > 0
            assert taken["bytes"] > 100
    for taken in run["many"].values():
        assert taken["save"]["bytes"] > 200 * 50
        assert taken["save"]["peak"] >= taken["save"]["before"] > 1e6
        assert taken["restore"]["seconds"] > 0
    for line, least in (("0", 0), ("20", 0.02)):
        assert all(run["travel"][line][f"{what}_s"] > least for what in ("calls", "moves", "blocks"))
    assert said
