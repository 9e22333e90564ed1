"""Random programs of tasklets and channels run in exactly the order of a small pure-Python model (_model.py)."""

import pytest

import roamlet
from roamlet import core
from tests.core import _model
from tests.core._model import Program, random_program, run_model, run_real


def difference(program: Program) -> str:
    """Where the model and roamlet part, with what led to it; nothing when they agree."""
    expected, real = run_model(program), run_real(program)
    for place, (left, right) in enumerate(zip(expected, real, strict=False)):
        if left != right:
            before = "\n  ".join(map(str, expected[max(0, place - 6) : place]))
            return f"after\n  {before}\nthe model says\n  {left}\nand roamlet\n  {right}"
    return "" if len(expected) == len(real) else f"the model's log has {len(expected)} entries, roamlet's {len(real)}"


def shrunk(program: Program) -> Program:
    """A program that still makes a difference, and does so without none of its operations."""
    smaller = True
    while smaller:
        smaller = False
        for script in program.scripts:
            for width in (8, 4, 2, 1):
                place = 0
                while place < len(script):
                    taken = script[place : place + width]
                    del script[place : place + width]
                    if difference(program):
                        smaller = True
                    else:
                        script[place:place] = taken
                        place += width
    return program


def compare(program: Program) -> int:
    """Run both; a difference is shown with a short program that makes one. Returns how many operations were compared."""
    found = difference(program)
    if found:
        short = shrunk(program)
        pytest.fail(f"seed {short.seed}: {found}\n\nThe same in short, {short}:\n{difference(short)}", pytrace=False)
    assert roamlet.getruncount() == 1
    assert core.started() == []
    return sum(len(script) for script in program.scripts)


def test_the_model_knows_the_order_of_a_simple_program():
    program = Program(1, [[("receive", 0), ("schedule",)], [("send", 0)], [("schedule",)]], [0, 0, 0], 3, [0])
    order = [entry[:3] for entry in run_model(program) if entry[1] != "state"]
    # 0 waits; 1 finds it there and lets it run at once; 2, which was next, is before the sender.
    assert order == [(0, 0, (1, 0)), (1, 0, None), (0, 1, None), (2, 0, None), ("main", "run", "done")]
    assert compare(program) == len(order) - 1


def test_a_difference_is_shown_by_a_short_program(monkeypatch):
    monkeypatch.setattr(_model.Model, "leave", lambda self: self.ring.append(self.ring.pop(0)))
    with pytest.raises(pytest.fail.Exception, match="seed 3: after") as failed:
        compare(random_program(3, tasklets=4, length=6, channels=2))
    short = failed.value.msg.split("The same in short, ")[1].split("\n")[0]
    assert short.count("(") <= 6


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
    assert roamlet.getruncount() == 1
