"""`roamlet bench`: that figures are taken and written, and what it reports about things that cannot be measured. No
figure is judged.
"""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from roamlet.cli import main
from roamlet_bench import gil, plot, server, variants
from roamlet_bench.variants import Implementation, compact, medians
from roamlet_bench.workers import Worker, WorkerFailed

SHORT = ["--seconds", "0.01", "--rounds", "1", "--interval", "5"]

THREADS = Implementation("threads", "pairs.py")
MISSING = Implementation("a peer", "no_program.py", needs="no_such_peer")
BROKEN = Implementation("broken", "no_program.py")


def programs(part, monkeypatch, *implementations):
    monkeypatch.setattr(part, "IMPLEMENTATIONS", implementations)


def test_gil_measures_every_pair_alone_and_beside_and_writes_what_it_found(tmp_path, monkeypatch, capsys):
    programs(gil, monkeypatch, THREADS, MISSING)
    figures, drawing = tmp_path / "gil.json", tmp_path / "gil.svg"
    assert main(["bench", "gil", *SHORT, "--json", str(figures), "--plot", str(drawing)]) == 0
    run = json.loads(figures.read_text())
    (row,) = run["gil"]["rows"]
    assert row["variant"]["interval"] == 0.005
    for pair in gil.PAIRS:
        assert row[pair]["value"] > 0
        assert row[pair + "+cpu"]["value"] > 0
        assert len(row[pair]["turns"]) == 1
    assert 0.1 < row["efficiency"]["value"] < 10
    assert run["versions"]["python"].endswith(row["variant"]["version"])
    told = capsys.readouterr()
    assert re.search(r"efficiency +Lock +Condition", told.out)
    assert "not measured: " in told.out
    assert "a peer: ModuleNotFoundError: No module named 'no_such_peer'" in told.out
    assert "\r" not in told.err
    words = {element.text for element in ElementTree.parse(drawing).iter() if element.text}
    assert {"Lock", "SimpleQueue", "Hand-overs a second, alone"} <= words


def test_server_measures_every_implementation_that_is_here(tmp_path, capsys):
    figures = tmp_path / "server.json"
    assert main(["bench", "server", *SHORT, "--pin", "--json", str(figures)]) == 0
    taken = json.loads(figures.read_text())["server"]
    rows = {row["variant"]["name"]: row for row in taken["rows"]}
    assert {
        "threads",
        "roamlet.threads",
        "roamlet.patch",
        "one thread",
        "gevent",
        "asyncio",
        "uvloop",
        "roamlet",
    } <= set(rows)
    for row in rows.values():
        for figure in ("1", "10", "1+cpu", "10+cpu"):
            assert row[figure]["requests"] > 0
            assert row[figure]["p99"] >= row[figure]["median"] > 0
        assert 0 < row["10+cpu"]["computing"] < 2
        assert row["10"]["cpu_us"] > 0
        assert row["10"]["switches"] >= 0
    assert rows["threads"]["10"]["switches"] > 0
    assert re.search(r"(?m)^ +threads +\d\S+ +nothing +- +5 ms ", capsys.readouterr().out)


@pytest.mark.parametrize("part", [gil, server])
def test_what_fails_is_named_with_its_last_words_and_the_status_is_1(part, monkeypatch, capsys):
    programs(part, monkeypatch, BROKEN)
    assert main(["bench", part.__name__.rpartition(".")[2], *SHORT]) == 1
    assert re.search(r"broken, 5 ms failed: [\s\S]*no_program\.py", capsys.readouterr().err)


def test_a_server_that_answers_nonsense_is_told_and_the_others_go_on(monkeypatch):
    # It listens and closes every connection without a word: head's first line is a port, the rest of it is not HTTP.
    silent = """
import os, socket, threading
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], os.getpid(), flush=True)
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()
while True:
    s.accept()[0].close()
"""
    monkeypatch.setattr(
        variants.Variant,
        "command",
        lambda self, *words: (
            [sys.executable, "-c", silent]
            if self.implementation.name == "silent"
            else [sys.executable, str(variants.PROGRAMS / "threaded.py"), *words]
        ),
    )
    programs(server, monkeypatch, Implementation("silent", ""), Implementation("threads", ""))
    settings = server.Settings(seconds=0.01, warm_up=0, rounds=1, intervals=(0.005,))
    taken = server.measure(settings, lambda text: None)
    assert [row["variant"]["name"] for row in taken["rows"]] == ["threads"]
    ((title, reason),) = taken["failed"].items()
    assert "silent" in title
    assert re.search(r"the server answered b''|reset by peer|Broken pipe", reason)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plot", "figures.gif"], r"'figures\.gif' is neither: name it plot\.svg"),
        (["--plot", "/no/such/folder/plot.svg"], r"there is no folder '/no/such/folder'"),
        (["--seconds", "0"], r"--seconds 0 is out of range: say 0\.01 to 60"),
        (["--rounds", "0"], r"--rounds 0 is out of range: say 1 to 1000"),
        (["--interval", "nan"], r"--interval nan is out of range"),
        (["--python", "/no/such/python"], r"--python /no/such/python: .*No such file"),
        (["--python", "/bin/false"], r"/bin/false is no Python that could be measured"),
        (["--cores", "100000"], r"--cores 100000 is out of range: say 1 to \d"),
    ],
)
def test_a_word_that_makes_no_sense_is_refused_before_anything_is_measured(words, message, monkeypatch, capsys):
    programs(gil, monkeypatch)  # would be status 1
    assert main(["bench", "gil", *words]) == 64
    assert re.search(message, capsys.readouterr().err)


def test_bench_without_a_part_lists_them(capsys):
    assert main(["bench"]) == 64
    assert "gil|server" in capsys.readouterr().err


def test_a_png_says_what_to_install_where_pillow_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["bench", "gil", "--plot", str(tmp_path / "plot.png")]) == 64
    assert "pip install 'roamlet-bench[plot]'" in capsys.readouterr().err


def test_a_plot_draws_each_bar_once_and_longer_for_more(tmp_path):
    bars = [("slow & small", 0, 150.0, "150"), ("fast", 1, 37_000.0, "37.0k"), ("none", 2, 0.0, "0")]
    panels = [plot.Panel("A title", [("Lock", bars)]), plot.Panel("Empty", [("Lock", [])])]
    plot.draw("Figures", panels, tmp_path / "plot.svg")
    drawn = list(ElementTree.parse(tmp_path / "plot.svg").iter("{http://www.w3.org/2000/svg}rect"))[1:]
    widths = [float(bar.get("width")) for bar in drawn]
    assert widths[1] > 2 * widths[0] > 2 * widths[2]
    assert "slow &amp; small" in (tmp_path / "plot.svg").read_text()
    pytest.importorskip("PIL")
    plot.draw("Figures", panels, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_peers_are_taken_on_the_first_interpreter_and_the_threads_on_each(monkeypatch):
    monkeypatch.setattr(variants, "probe", lambda python, modules: (python, {"roamlet.threads": None, "gevent": None}))
    implementations = [
        THREADS,
        Implementation("roamlet.threads", "", needs="roamlet.threads", under="roamlet.threads"),
        Implementation("gevent", "", needs="gevent"),
        Implementation("roamlet", "", needs="gevent", responsive=True),
    ]
    found = list(variants.variants(implementations, ["A", "B"], [0.005, 0.0005], {}))
    assert [one.title for one in found] == [
        *("A threads, 5 ms", "A threads, 0.5 ms", "A roamlet.threads, 5 ms", "A roamlet.threads, 0.5 ms"),
        *("A gevent, 5 ms", "A gevent, 0.5 ms", "A roamlet responsive, 5 ms"),
        *("B threads, 5 ms", "B threads, 0.5 ms", "B roamlet.threads, 5 ms", "B roamlet.threads, 0.5 ms"),
    ]
    assert found[2].command("x")[1:3] == ["-m", "roamlet.threads"]


def test_medians_are_of_each_figure_by_itself():
    turns = [{"value": 1.0, "p99": 9.0}, {"value": 5.0, "p99": 1.0}, {"value": 3.0, "p99": 2.0}]
    assert medians(turns) == {"value": 3.0, "p99": 2.0, "turns": [1.0, 5.0, 3.0]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "-"),
        (0.0, "0"),
        (143.2, "143"),
        (2300, "2.30k"),
        (37_140, "37.1k"),
        (999.7, "1.00k"),
        (1_230_000, "1.23M"),
    ],
)
def test_rates_are_told_in_three_digits(value, words):
    assert compact(value) == words


def test_a_server_ends_when_whoever_started_it_has_gone():
    command = [sys.executable, str(variants.PROGRAMS / "threaded.py"), "--cpu", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().split()[1] == str(process.pid).encode()
        process.stdin.close()
        assert process.wait(30) == 0


def test_the_load_gives_up_on_a_port_where_nobody_listens():
    with Worker("the load", [sys.executable, str(variants.PROGRAMS / "load.py")]) as load:
        load.ask("begin", cores=[])
        with pytest.raises(WorkerFailed, match=r"could not measure load: ConnectionRefusedError"):
            load.ask("load", port=1, connections=2, seconds=0.01, warm_up=0)


def test_import_shows_what_one_by_one_and_a_bundle_cost(tmp_path, capsys):
    figures, drawing = tmp_path / "import.json", tmp_path / "import.svg"
    assert main(["bench", "import", "--rtt", "0", "--json", str(figures), "--plot", str(drawing), "requests"]) == 0
    taken = json.loads(figures.read_text())["import"]
    one_by_one, bundle = taken["ways"]["one by one"], taken["ways"]["bundle"]
    assert one_by_one["round_trips"] >= one_by_one["modules"] > 10
    assert bundle["round_trips"] == 0
    for way in (one_by_one, bundle):
        assert way["bytes"] > 10_000
        assert [at for at, _ in way["points"]] == sorted(at for at, _ in way["points"])
    assert "one bundle ahead of the call" in "".join(ElementTree.parse(drawing).getroot().itertext())
    assert "each module when it is missed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no_such_module_at_all"], "no_such_module_at_all cannot be imported here"),
        (["--rtt", "-1"], "--rtt -1 is out of range"),
        (["--plot", "/no/such/folder/x.svg"], "there is no folder"),
        (["--plot", "x.gif"], "a plot is written as .svg or .png"),
    ],
)
def test_import_refuses_what_makes_no_sense(words, message, capsys):
    assert main(["bench", "import", *words]) == 64
    assert message in capsys.readouterr().err
