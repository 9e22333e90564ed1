"""Every figure of sockets is taken for every peer that is installed here, in short turns. How good it is is not looked at."""

from bench import bars, tables
from bench.io.measure import ALONE, BESIDE, IDLE, Settings, measure


def test_a_whole_run_has_each_figure_or_says_why_it_has_not() -> None:
    said: list[str] = []
    settings = Settings(seconds=0.05, warm_up=0.02, rounds=1, connections=(10,), idle=200)
    taken = measure(settings, said.append)
    for kind, variants in (("alone", ALONE), ("beside", BESIDE)):
        for variant in variants:
            found = taken[kind]["10"].get(variant.title, {"per_s": 0})
            reasons = [text for what, text in taken["skipped"].items() if what.startswith(variant.title)]
            assert found["per_s"] > 0 or "No module" in " ".join(reasons)
    for peer in IDLE:
        found = taken["idle"].get(peer, {"bytes": 0})
        assert found["bytes"] > 0 or "No module" in str(taken["skipped"])
    assert said
    assert [table.title for table in tables.io_tables(taken)]
    verdicts = {bar["title"]: bar["value"] for bar in bars.verdicts({"io": taken})}
    assert verdicts["an idle connection"] > 0
