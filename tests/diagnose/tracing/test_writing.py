"""Traces as files: what Perfetto and speedscope read, and the page."""

import gzip
import json
import re
import time
from pathlib import Path

import pytest

import roamlet
from roamlet.diagnose.tracing import Trace, page
from tests.diagnose.tracing.test_timeline import ping_pong


@pytest.fixture
def trace():
    with Trace() as trace:
        ping_pong()
    return trace


def test_chrome_s_format(trace, tmp_path):
    path = tmp_path / "trace.json"
    trace.save(path)
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {re.sub(r"\W*#\d+$", "", name).rpartition(".")[2] for name in names.values()} >= {"ping", "pong", "main"}
    assert {e["ph"] for e in events} == {"M", "X", "s", "f"}
    slices = [e for e in events if e["ph"] == "X"]
    assert all(e["tid"] in names and e["dur"] >= 0 for e in slices)
    # Slices of a track either follow each other or lie within one another.
    for tid in names:
        ends = []
        for e in sorted((e for e in slices if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= e["ts"]:
                ends.pop()
            assert not ends or e["ts"] + e["dur"] <= ends[-1] + 1e-6
            ends.append(e["ts"] + e["dur"])
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    finishes = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == finishes.keys()
    assert sum(e["name"] == "message" for e in starts.values()) == 6
    waits = [e for e in slices if e["cat"] == "waits" and e["name"] in ("waits: send", "waits: receive")]
    assert waits
    assert all(e["args"]["place"].partition(" ")[2].startswith(f"({ping_pong.__code__.co_filename}:") for e in waits)


def test_packed(trace, tmp_path):
    path = tmp_path / "trace.json.gz"
    trace.save(path)
    with gzip.open(path, "rt") as file:
        assert json.load(file)["otherData"]["messages"] == 6


def test_speedscope_s_format(trace, tmp_path):
    path = tmp_path / "trace.speedscope.json"
    trace.save(path)
    data = json.loads(path.read_text())
    (profile,) = data["profiles"]
    assert profile["type"] == "sampled"
    assert len(profile["samples"]) == len(profile["weights"])
    assert sum(profile["weights"]) == profile["endValue"]
    frames = data["shared"]["frames"]
    stacks = [[frames[i]["name"] for i in sample] for sample in profile["samples"]]
    assert any(stack[-1] == "waits: send" and stack[0].endswith("ping") for stack in stacks)


def data_of(path):
    text = path.read_text()
    return text, json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_loads_nothing_and_has_everything(trace, tmp_path):
    path = tmp_path / "trace.html"
    trace.save(path)
    text, data = data_of(path)
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://|fetch\(|XMLHttp""", text)
    assert {name: value for value, name in data["cards"]}["messages"] == "6"
    assert {row[4] for row in data["waits"]} >= {"send"}
    assert len(data["spans"]) % 6 == 0
    assert data["missing"] == []
    assert data["thinned"] == ""


def test_names_cannot_leave_the_page_s_data(tmp_path):
    def program():
        pass

    program.__qualname__ = "</script><script>alert(1)</script><!--"
    with Trace() as trace:
        roamlet.tasklet(program)()
        roamlet.run()
    path = tmp_path / "trace.html"
    trace.save(path)
    text, data = data_of(path)
    assert "alert(1)</script>" not in text
    assert any(row[0].startswith("</script><script>alert(1)") for row in data["tracks"])


def test_a_page_of_many_spans_says_which_are_not_drawn(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "SPANS", 5)
    path = tmp_path / "trace.html"
    trace.save(path)
    _, data = data_of(path)
    assert "are not drawn" in data["thinned"]
    assert len([1 for state in data["spans"][1::6] if state < 3]) == 5


def test_a_name_without_a_form_is_refused(trace, tmp_path):
    with pytest.raises(ValueError, match=r"ends in one of \.json"):
        trace.save(tmp_path / "trace.txt")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(trace, tmp_path):
    with pytest.raises(FileNotFoundError):
        trace.save(tmp_path / "absent" / "trace.json")


def test_nothing_to_save_before_the_end(tmp_path):
    with Trace() as trace, pytest.raises(ValueError, match="has not ended"):
        trace.save(tmp_path / "trace.json")


def test_the_summary(trace, capsys):
    trace.summary()
    said = capsys.readouterr().err
    assert re.match(r"this process: \d+\.\d{3} s, [34] tasklets, \d+ switches, 6 messages\n", said)
    assert " x send at " in said


def test_what_was_ready_and_never_ran_is_named(capsys):
    def starved():
        pass

    with Trace() as trace:
        made = [roamlet.tasklet(starved)() for _ in range(7)]
        roamlet.tasklet(roamlet.sleep)(0)
    trace.summary()
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "never ran" in line)
    assert re.fullmatch(r"  ready to run, and never ran: (\S+starved #\d+, ){5}and 3 more", line)
    roamlet.run()
    assert not any(tasklet.alive for tasklet in made)


def test_a_hold_is_shown_in_the_program_and_not_in_roamlet(capsys):
    own = {"time": time}
    file = str(Path(roamlet.__file__).with_name("of_roamlet.py"))
    exec(compile("def of_roamlet():\n    time.sleep(0.1)\n", file, "exec"), own)

    def of_the_program():
        own["of_roamlet"]()

    with Trace(hold=0.01) as trace:
        roamlet.tasklet(of_the_program)()
        roamlet.run()
    trace.summary()
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "of_the_program" in line and "held" in line)
    assert re.search(r" in \S+of_the_program \(.*test_writing\.py:\d+\)$", line)


def test_what_held_its_thread_more_than_once_is_one_line_of_the_summary(capsys):
    def holds_up():
        for _ in range(3):
            time.sleep(0.03)
            roamlet.sleep(0.001)

    with Trace(hold=0.01) as trace:
        roamlet.tasklet(holds_up)()
        roamlet.run()
    trace.summary()
    lines = [line for line in capsys.readouterr().err.splitlines() if "held its thread" in line and "holds_up" in line]
    assert len(lines) == 1
    assert re.search(r"; 3 times in all, 0\.\d{3} s$", lines[0])
