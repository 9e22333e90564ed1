"""Memory that is damaged: whatever is in it, a reader ends, and says what it could not read."""

import random
import time
from types import SimpleNamespace

import pytest

from roamlet.diagnose import model, render
from roamlet.diagnose.outside import CannotRead
from roamlet.diagnose.outside.errors import Torn
from roamlet.diagnose.outside.python import Objects, lines_of
from roamlet.diagnose.outside.reader import RECEIVES, RUNS
from roamlet.diagnose.outside.reading import add_still, reader_of
from tests.diagnose.outside.conftest import part_of
from tests.diagnose.outside.images import captured, damaged


def read(image, with_locals=False):
    """The process, or why it cannot be read. Any other exception than CannotRead is the test's failure."""
    process = model.Process(1)
    try:
        add_still(process, image, "the image", with_locals=with_locals)
    except CannotRead as error:
        return str(error)
    for text in (render.table(process), render.tree(process), render.stacks(process)):
        assert text.startswith("process 1")
    assert model.Process.from_json(process.to_json()).to_json() == process.to_json()
    return process


def problems_of(process):
    """Without what is said on greenlet of every process."""
    return [problem for problem in process.problems if "greenlet" not in problem]


def image_of(started):
    running = started("kinds", "sleep")
    running.sleeps()
    return captured(running.pid)


def test_the_image_itself_is_whole(started):
    process = read(image_of(started), with_locals=True)
    assert problems_of(process) == []
    assert len(list(process.tasklets())) == 16


def damage_many(image, seeds):
    outcomes = {"read": 0, "with problems": 0, "refused": 0}
    slowest = 0.0
    for seed in seeds:
        chance = random.Random(seed)
        wrong = damaged(image, chance)
        began = time.perf_counter()
        process = read(wrong, with_locals=seed % 3 == 0)
        slowest = max(slowest, time.perf_counter() - began)
        outcomes["refused" if isinstance(process, str) else "with problems" if problems_of(process) else "read"] += 1
    assert slowest < 60  # nothing hangs; where it matters how long it takes, that is measured elsewhere
    return outcomes


def test_damaged_images_are_read_as_far_as_they_can_be(started):
    outcomes = damage_many(image_of(started), range(300))
    assert min(outcomes.values()) > 0, outcomes


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_thousand_damaged_images(started):
    seeds = part_of(range(300, 10_300))
    outcomes = damage_many(image_of(started), seeds)
    assert sum(outcomes.values()) == len(seeds)
    assert min(outcomes.values()) > 0, outcomes


def test_a_tasklet_that_cannot_be_in_run_is_shown_as_its_memory_says(started):
    image = image_of(started)
    reader = reader_of(image, with_locals=False)
    reader.walk()
    (thread,) = reader.threads
    t = next(t for t, task in thread.tasks.items() if task[reader.at["blocked"]] == RECEIVES)
    at = t + reader.numbers["task.blocked"]
    start = at & ~reader.memory.mask
    block = bytearray(image.blocks[start])
    block[at - start] = RUNS
    image.blocks[start] = bytes(block)
    found = read(image).find(t)
    assert (found.state, found.wait) == (model.IN_RUN, None)


@pytest.mark.backends("native", reason="greenlet's own structs are its own: no frames of suspended tasklets")
@pytest.mark.parametrize("with_locals", [False, True])
def test_frames_of_c_code_that_lead_in_a_circle_are_told(started, with_locals):
    image = image_of(started)
    reader = reader_of(image, with_locals=False)
    reader.walk()
    (thread,) = reader.threads
    t, task = next((t, task) for t, task in thread.tasks.items() if task[reader.at["blocked"]] == RECEIVES)
    begin, low, high, there = reader._begin(task)
    frame = begin + there if low <= begin < high else begin
    owner = bytes([reader.numbers["frame.entry_owner"]])
    for name, data in (("frame.owner", owner), ("frame.previous", begin.to_bytes(8, "little"))):
        at = frame + reader.numbers[name]
        start = at & ~reader.memory.mask
        block = bytearray(image.blocks[start])
        block[at - start : at - start + len(data)] = data
        image.blocks[start] = bytes(block)
    process = read(image, with_locals)
    assert any("no frame at" in problem for problem in problems_of(process))
    assert process.find(t) is None or not process.find(t).frames


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"functools.partial", "functools.partial"),
        (b"Job", "Job"),
        (b"H\x03", "object"),
        (b"", "object"),
        (b"a b", "object"),
    ],
)
def test_the_name_of_a_type_that_is_gone_is_not_made_of_what_is_in_its_place(text, name):
    memory = SimpleNamespace(word=lambda at: at + 1, text=lambda at: text.decode())
    assert Objects.type_name(SimpleNamespace(memory=memory, numbers={"type.name": 24}), 0x1000) == name


@pytest.mark.parametrize(
    "table",
    [bytes([0x80 | 13 << 3]) + b"\x7f" * 4_000_000, bytes([0x80 | 15 << 3 | 7]) * (1 << 20)],
    ids=["a line of a million digits", "eight million instructions"],
)
def test_a_table_of_lines_that_no_compiler_makes_is_refused_at_once(table):
    with pytest.raises(Torn, match="a line that is too far away|code that is too long"):
        lines_of(table, 1)
