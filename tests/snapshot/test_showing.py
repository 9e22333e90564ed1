"""What is in a snapshot is shown without running, importing or unpickling anything that it names, wherever it comes from."""

import collections
import datetime
import json
import marshal
import pickle
import random
import re
import sys
from pathlib import Path

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot import showing
from roamlet.snapshot.image import plain
from tests.snapshot.test_format import parts, sealed


class Thing:
    unpickled = 0

    def __init__(self):
        self.parts = [1, 2]
        self.itself = self

    def __setstate__(self, state):
        Thing.unpickled += 1


def job(path, ch):
    number, text, thing = 12, "a\x1b[2Jb", Thing()
    many, pairs = list(range(1000)), {"a": (1, 2.5, None), "b": {3}}
    when, counted = datetime.date(2026, 1, 2), collections.Counter("aab")
    square = lambda x: x * number  # noqa: E731
    try:
        raise LookupError("handled")
    except LookupError:
        inner(path)
    return text, thing, many, pairs, when, counted, square, ch


def inner(path):
    empty = None
    del empty
    roamlet.checkpoint(path)


def waits(ch):
    return ch.receive()


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint of job(), in the file job.roamlet, with a tasklet that waits in its channel and one that has not begun."""
    path = tmp_path / "job.roamlet"
    ch = roamlet.channel()
    roamlet.tasklet(waits)(ch)
    roamlet.schedule()
    roamlet.tasklet(job)(str(path), [ch, roamlet.tasklet(waits, (ch,), {})])
    roamlet.run()
    ch.send(None)
    Thing.unpickled = 0
    return path


def variables(frame):
    return {each["name"]: each["value"] for each in frame["variables"]}


def test_a_checkpoint_says_who_wrote_it_and_where_each_tasklet_is(checkpoint):
    data = checkpoint.read_bytes()
    what = showing.described(data)
    assert (what["checkpoint"], what["bytes"], what["holds"]) == (str(checkpoint), len(data), "<tasklet 1>")
    assert what["python"] == "{}.{}".format(*sys.version_info[:2])
    assert what["left_out"] == what["classes"] == []
    first, second, third = what["tasklets"]
    assert first["state"] == "in roamlet.checkpoint()"
    assert first["handles"] == "LookupError('handled')"
    source = Path(__file__).read_text().splitlines()
    places = [(each["function"], each["file"], each["text"]) for each in first["frames"]]
    assert places == [("job", __file__, "inner(path)"), ("inner", __file__, "roamlet.checkpoint(path)")]
    assert [source[each["line"] - 1].strip() for each in first["frames"]] == ["inner(path)", "roamlet.checkpoint(path)"]
    states = {each["state"]: each for each in (second, third)}
    assert set(states) == {"paused, not begun", "blocked in receive at <channel 1>"}
    assert states["paused, not begun"]["calls"] == f"<function {__name__}.waits>(<channel 1>)"
    (waiting,) = states["blocked in receive at <channel 1>"]["frames"]
    assert (waiting["function"], waiting["text"]) == ("waits", "return ch.receive()")
    assert json.loads(json.dumps(what)) == what


def test_variables_are_shown_in_a_line_each_with_what_they_take(checkpoint):
    frame = showing.described(checkpoint.read_bytes())["tasklets"][0]["frames"][0]
    shown = variables(frame)
    assert shown["number"] == "12"  # out of its cell
    assert shown["text"] == r"'a\x1b[2Jb'"  # nothing that a terminal would obey
    assert shown["thing"].startswith(f"{__name__}.Thing(parts=[1, 2], itself={__name__}.Thing(parts=")
    assert shown["many"] == "[0, 1, 2, 3, 4, 5, 6, 7, ... 1000 in all]"
    assert shown["pairs"] == "{'a': (1, 2.5, None), 'b': set({3})}"
    assert shown["when"].startswith("datetime.date(b'")
    assert shown["counted"] == "collections.Counter({'a': 2, 'b': 1})"
    assert re.fullmatch(rf"<function {__name__}\.job(\[\d+\]|\.<locals>\.<lambda>)>", shown["square"])
    assert re.fullmatch(r"\[<channel 1>, <tasklet [23]>\]", shown["ch"])
    sizes = {each["name"]: each["bytes"] for each in frame["variables"]}
    assert 2000 < sizes["many"] < 4000
    assert sizes["text"] < 20
    inner = showing.described(checkpoint.read_bytes())["tasklets"][0]["frames"][1]
    assert set(variables(inner)) == {"path"}  # what is deleted is not there


def test_nothing_of_it_is_unpickled_or_imported(tmp_path, python, checkpoint):
    showing.described(checkpoint.read_bytes())
    assert Thing.unpickled == 0
    # A process that knows no tests at all: what it would import does not exist.
    done = python("-m", "roamlet", "show", str(checkpoint))
    assert (done.returncode, done.stderr) == (0, "")
    assert "return ch.receive()" in done.stdout


def test_as_text_it_is_a_traceback_for_each_tasklet(checkpoint):
    text = showing.text_of(showing.described(checkpoint.read_bytes()), "job.roamlet", "written yesterday")
    assert text.startswith("job.roamlet: a checkpoint, written yesterday by process ")
    assert re.search(
        r"tasklet 1, in roamlet\.checkpoint\(\)\n  handles LookupError\('handled'\)\nTraceback \(most recent call last\):\n"
        r'  File ".*test_showing\.py", line \d+, in job\n    inner\(path\)\n      path +=',
        text,
    )
    assert re.search(r"\n      pairs   = \{'a': \(1, 2\.5, None\), 'b': set\(\{3\}\)\}  \(\d+ bytes\)\n", text)


def test_a_plain_snapshot_has_no_lines_but_functions_and_values():
    ch = roamlet.channel()
    tasklet = roamlet.tasklet(waits)(ch)
    roamlet.schedule()
    what = showing.described(snapshot.dumps({"ch": ch}))
    assert what["holds"] == "{'ch': <channel 1>}"
    ((frame,),) = [each["frames"] for each in what["tasklets"]]
    assert frame["function"] == f"{__name__}.waits"
    assert "instruction" in frame and variables(frame) == {"(0)": "<channel 1>"}
    assert "instruction" in showing.text_of(what, "x", "")
    tasklet.kill()


def test_a_snapshot_of_another_python_is_shown_too(checkpoint):
    data = bytearray(checkpoint.read_bytes())
    data[10] = 99
    assert showing.described(bytes(data))["python"] == "3.99"
    with pytest.raises(snapshot.BadSnapshot, match=r"is of CPython 3\.99"):
        snapshot.loads(data)


# ---- what is no snapshot, or somebody's own ----


def refused(data):
    try:
        showing.described(data)
    except snapshot.BadSnapshot as error:
        return "it is no line" if "\n" in str(error) else str(error)
    return "it was shown"


def test_foreign_and_truncated_and_changed_bytes_are_refused_in_a_line(checkpoint):
    data = checkpoint.read_bytes()
    assert "no snapshot of roamlet's" in refused(b"") and "no snapshot of roamlet's" in refused(pickle.dumps(1))
    for length in range(8, len(data), 37):
        assert re.search("truncated|damaged", refused(data[:length]))
    for position in range(15, len(data), 41):
        changed = bytearray(data)
        changed[position] ^= 0x40
        assert "damaged" in refused(bytes(changed))


class Evil:
    ran = []

    def __reduce__(self):
        return Evil.ran.append, ("it ran",)


GARBLED = [
    *(b"", b"garbage", b"\x80\x05.", b"\x80\x05(.", b"\x80\x05h\xff.", b"\x80\x05)R.", b"\x80\x05NNb.", b"\x80\x050."),
    *(b"\x80\x05K\x01K\x02a.", b"\x80\x05}(K\x01u.", b"\x80\x05\x8e" + b"\xff" * 8, b"\x80\x05t.", b"\x80\x05N"),
    b"cos\nsystem\n(S'true'\ntR.",
]


@pytest.mark.parametrize("pickles", GARBLED)
def test_pickles_that_are_garbled_under_a_right_digest_are_refused_in_a_line(checkpoint, pickles):
    table, _ = parts(checkpoint.read_bytes())
    assert "the snapshot is garbled: its digest is right, but" in refused(sealed(table, pickles))


def test_a_pickle_that_would_run_something_is_shown_and_not_run():
    what = showing.described(sealed(("linux", "1", ()), pickle.dumps(Evil(), 5)))
    assert "append" in what["holds"] and "it ran" in what["holds"]
    assert Evil.ran == []


def test_a_table_that_is_garbled_under_a_right_digest_is_refused_in_a_line(checkpoint):
    (platform, version, entries, about), pickles = parts(checkpoint.read_bytes())
    tables = [5, None, (1, 2), (1, 2, 3), ("linux", "1", ((),)), ("linux", "1", (), {"path": 1})]
    changes = [
        {"arguments": [1]},
        {"script": b"x"},
        {"saved": "now"},
        {"stacks": [[]]},
        {"code": []},
        {"left_out": "x"},
    ]
    tables += [(platform, version, entries, {**about, **change}) for change in changes]
    for table in tables:
        assert "garbled" in refused(sealed(table, pickles)), table


def test_random_changes_under_a_right_digest_are_refused_or_shown_and_nothing_else(checkpoint):
    table, pickles = parts(checkpoint.read_bytes())
    marshalled = marshal.dumps(table)
    rng = random.Random(1)
    for _ in range(1500):
        changed = bytearray(pickles)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            what = showing.described(sealed(table, bytes(changed)))
        except snapshot.BadSnapshot:
            continue
        assert all(line.isprintable() for line in showing.text_of(what, "x", "").splitlines())
    for _ in range(1500):
        changed = bytearray(marshalled)
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            plain.table(bytes(changed))
        except plain.FAILURES:
            continue


def test_values_that_contain_each_other_many_times_are_shown_quickly():
    value = []
    for _ in range(60):
        value = [value] * 8
    assert len(showing.described(snapshot.dumps(value))["holds"]) <= 200
    data = b"\x80\x05" + b"]" * 50_000 + b"a" * 49_999 + b"."
    assert showing.described(sealed(("linux", "1", ()), data))["holds"] == "[[[[...]]]]"
