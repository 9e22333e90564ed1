"""Every core figure runs for every peer that is installed here, with tiny counts. How long it takes is not looked at."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from bench.core import FIGURES, beside_stackless, blocked
from bench.core.measure import RUNTIMES, Settings, measure
from bench.workers import ROOT, Worker

NEEDS = {
    "roamlet": "roamlet",
    "greenlet": "greenlet",
    "gevent": "gevent",
    "asyncio": "asyncio",
    "generators": "types",
    "threading": "threading",
}
PEERS = [
    pytest.param(peer, marks=pytest.mark.skipif(find_spec(needed) is None, reason=f"{needed} is not installed"))
    for peer, needed in NEEDS.items()
]


@pytest.mark.parametrize("peer", PEERS)
def test_each_figure_of_a_peer_takes_some_cpu_time(peer: str) -> None:
    with Worker("bench.core.worker", peer) as worker:
        assert isinstance(worker.ask("about"), dict)
        taken = {
            name: worker.ask(name, operations=2 * figure.step, timeout=30)
            for name, figure in FIGURES.items()
            if peer in figure.peers
        }
    assert taken
    assert all(seconds > 0 for seconds in taken.values()), taken


@pytest.mark.exhaustive(reason="a whole run has the blocked members of each peer at one depth")
@pytest.mark.parametrize("peer", PEERS)
def test_blocked_members_of_a_peer_take_memory_at_every_depth(peer: str) -> None:
    for frames in blocked.DEPTHS:
        done = subprocess.run(
            [sys.executable, "-m", "bench.core.blocked", peer, "2000", str(frames)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) > 0


def test_a_whole_run_of_the_core_has_each_figure_or_says_why_it_has_not() -> None:
    said: list[str] = []
    run = measure(Settings(rounds=1, turn=0.0, members=2000, depths=(1,), many=2000), said.append)
    for runtime in RUNTIMES:
        if runtime.title in run["skipped"]:
            assert runtime.title not in run["blocked"]
            continue
        if runtime.peer in blocked.PEERS:
            assert run["blocked"][runtime.title]["1"] > 0
        for name, figure in FIGURES.items():
            if runtime.peer in figure.peers:
                taken = run["times"][name][runtime.title]
                assert taken["ns"] == min(taken["turns"])
                assert taken["unit_ns"] >= run["unit_ns"] > 0
    assert all(run["million"][title]["bytes"] > 0 for title in ("roamlet", "asyncio"))
    assert said


def test_stackless_and_roamlet_take_their_turns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Stackless's place is roamlet's module of its name, and in that of its interpreter this one."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src/roamlet/stackless/_path"))
    taken = beside_stackless.measure(sys.executable, rounds=2, part=1000)
    assert {name: {side: len(ns) for side, ns in turns.items()} for name, turns in taken.items()} == {
        name: {"Stackless": 2, "roamlet": 2} for name in beside_stackless.FIGURES
    }
    assert all(ns > 0 for turns in taken.values() for all_ns in turns.values() for ns in all_ns)
    said = capsys.readouterr().out
    assert said.count("bar") == sum(bar is not None for _, _, bar in beside_stackless.BARS.values()) == 4
    assert set(beside_stackless.BARS) == set(beside_stackless.FIGURES)
    assert "message beyond" in said
    with pytest.raises(SystemExit, match="it has ended"):
        beside_stackless.Side(sys.executable, "no_such_module")
