"""Random programs of tasklets and channels run in exactly the order of a small pure-Python model (_model.py)."""

import pytest

import weft
from tests.core._model import Program, random_program, run_model, run_real
from weft import core


def compare(program: Program) -> int:
    """Run both; the first difference is shown with what led to it. Returns how many operations were compared."""
    expected, real = run_model(program), run_real(program)
    for place, (left, right) in enumerate(zip(expected, real, strict=False)):
        before = "\n  ".join(map(str, expected[max(0, place - 6) : place]))
        assert left == right, f"after\n  {before}\nthe model says\n  {left}\nand weft\n  {right}"
    assert len(expected) == len(real)
    assert weft.getruncount() == 1
    assert core.started() == []
    return len(real)


def test_the_model_knows_the_order_of_a_simple_program():
    program = Program(1, [[("receive", 0), ("schedule",)], [("send", 0)], [("schedule",)]], [0, 0, 0], 3)
    order = [entry[:3] for entry in run_model(program) if entry[1] != "state"]
    # 0 waits; 1 finds it there and lets it run at once; 2, which was next, is before the sender.
    assert order == [(0, 0, (1, 0)), (1, 0, None), (0, 1, None), (2, 0, None), ("main", "run", "done")]
    assert compare(program) == len(order) + 3


def test_programs_come_by_every_kind_of_outcome():
    logs = [run_model(random_program(seed)) for seed in range(200)]
    outcomes = {str(entry[2]) for log in logs for entry in log}
    kinds = {
        "None",
        "killed",
        "refused to die",
        "StopIteration",
        "ChannelClosed",
        "Boom",
        "RuntimeError",
        "fails",
        "done",
    }
    assert kinds <= outcomes


@pytest.mark.parametrize("block", range(20))
def test_small_programs(block):
    total = sum(
        compare(random_program(seed, tasklets=4, length=6, channels=2)) for seed in range(block * 50, block * 50 + 50)
    )
    assert total > 300


@pytest.mark.parametrize("block", range(10))
def test_larger_programs(block):
    total = sum(compare(random_program(10_000 + seed)) for seed in range(block * 20, block * 20 + 20))
    assert total > 500


@pytest.mark.parametrize("seed", range(5))
def test_many_tasklets_on_few_channels(seed):
    assert compare(random_program(20_000 + seed, tasklets=150, length=30, channels=4)) > 500


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_many_more_programs(block):
    for seed in range(block * 200, block * 200 + 200):
        compare(random_program(1_000_000 + seed, tasklets=4 + seed % 40, length=5 + seed % 25, channels=1 + seed % 5))
    assert weft.getruncount() == 1
