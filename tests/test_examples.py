"""The programs in examples/ run, and do what they say."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.docs.blocks import ROOT
from tests.programs import printed
from tests.snapshot.conftest import KNOWN

FOLDER = ROOT / "examples"

moving = pytest.mark.skipif(not KNOWN, reason="tasklets are moved and saved on the backends that see their frames")


@pytest.fixture
def example(python):
    def run(name, *words):
        return python("-W", "error", str(FOLDER / f"{name}.py"), *map(str, words))

    return run


def test_the_list_of_examples_names_each(python):
    named = re.findall(r"\]\((\w+)\.py\)", (FOLDER / "README.md").read_text())
    assert sorted(named) == sorted(path.stem for path in FOLDER.glob("*.py"))
    assert len(named) == len(set(named)) >= 12


def test_each_is_of_a_length_that_people_copy():
    for path in FOLDER.glob("*.py"):
        assert 30 <= len(path.read_text().splitlines()) <= 120, path.name


# ---- tasklets and sockets ----


def test_the_crawler_fetches_each_page_of_a_site_once(example):
    *pages, total = printed(example("crawler")).splitlines()
    fetched = [page.split() for page in pages]
    numbers = [int(re.search(r"/(\d*)$", url)[1] or 1) for _, url in fetched]
    assert sorted(numbers) == list(range(1, 42))
    assert {number for number, (status, _) in zip(numbers, fetched, strict=True) if status == "200"} == {*range(1, 21)}
    assert total == "20 x 200, 21 x 404"


def test_the_crawler_names_what_it_cannot_reach(example):
    with socket.socket() as taken:  # bound, without a listener
        taken.bind(("127.0.0.1", 0))
        lines = printed(example("crawler", f"http://127.0.0.1:{taken.getsockname()[1]}/")).splitlines()
    assert lines[0].startswith("[Errno 111] Connection refused  http://")
    assert lines[1] == "1 x [Errno 111] Connection refused"


@pytest.fixture
def chat():
    """The chat server; a function that makes a client of it, which has said its name."""
    words = [sys.executable, "-W", "error", str(FOLDER / "chat_server.py")]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)
        port = int(process.stdout.readline().rpartition(":")[2])

        def client(name):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            file = stack.enter_context(connection.makefile("rw", encoding="utf-8"))
            assert file.readline() == "Your name?\n"
            file.write(f"{name}\n")
            file.flush()
            return connection, file

        yield client
        process.terminate()
        assert process.stderr.read() == ""


def test_what_one_says_in_the_chat_the_others_read(chat):
    _, ann = chat("ann")
    assert ann.readline() == "* ann is here: ann\n"
    connection, bob = chat("bob")
    assert ann.readline() == bob.readline() == "* bob is here: ann, bob\n"
    _, other = chat("bob")
    assert other.read() == "That name is taken.\n"
    ann.write("hello\nand good bye\n")
    ann.flush()
    assert [bob.readline(), bob.readline()] == ["ann: hello\n", "ann: and good bye\n"]
    connection.shutdown(socket.SHUT_RDWR)
    assert ann.readline() == "* bob has left\n"


def test_a_client_of_the_chat_that_does_not_read_is_sent_away_and_holds_no_other_up(chat):
    _, ann = chat("ann")
    _, bob = chat("bob")
    chat("slow")
    for file, here in ((ann, 3), (bob, 2)):
        assert [file.readline() for _ in range(here)][-1] == "* slow is here: ann, bob, slow\n"
    said = 0
    while True:  # bob reads each line before the next one is said
        ann.write(f"{'x' * 3000}\n")
        ann.flush()
        said += 1
        if (line := bob.readline()) == "* slow has left\n":
            break
        assert line == f"ann: {'x' * 3000}\n"
        assert said < 100_000
    assert said > 100


def test_a_game_of_hackysack_has_one_winner_and_is_the_same_with_the_same_seed(example):
    *misses, last = printed(example("hackysack", 6, "seed")).splitlines()
    out = [re.match(r"(player \d) misses kick \d+, by .*; (\d) still in the circle$", line) for line in misses]
    assert [int(one[2]) for one in out] == [5, 4, 3, 2, 1]
    winner = re.match(r"(player \d) has won, after \d+ kicks$", last)[1]
    assert sorted([winner, *(one[1] for one in out)]) == [f"player {number}" for number in range(1, 7)]
    assert printed(example("hackysack", 6, "seed")).splitlines() == [*misses, last]


# ---- hosts ----


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """An ssh that reaches no host, first on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text("#!/bin/sh\necho 'ssh: Could not resolve hostname' >&2\nexit 255\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_facts_of_this_machine_are_a_table_and_json(example):
    head, row = printed(example("fleet_facts")).splitlines()
    assert head.split() == ["host", "system", "python", "cores", "memory", "load", "disk", "free"]
    assert row.split()[:2] == ["local", "Linux"]
    [facts] = json.loads(printed(example("fleet_facts", "--json")))
    assert (facts["host"], facts["cores"]) == ("local", os.cpu_count())
    assert facts["python"].split(".")[0] in "23"
    assert facts["memory"] > 1e8


@pytest.mark.usefixtures("nowhere")
def test_a_host_without_facts_is_named(example):
    done = example("fleet_facts", "gone")
    assert done.returncode == 1
    assert done.stderr.startswith("gone: ")
    done = example("fleet_facts", "--json", "gone")
    assert (done.returncode, json.loads(done.stdout)[0]["host"]) == (1, "gone")


def test_lines_of_logs_are_found_in_compressed_files_too(example, tmp_path):
    import gzip

    (tmp_path / "a.log").write_text("one error\nnothing\n")
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(b"two errors\n"))
    found = printed(example("log_grep", "err[o]r", tmp_path / "a.log*"))
    assert found == f"local:{tmp_path}/a.log: one error\nlocal:{tmp_path}/a.log.1.gz: two errors\n"
    done = example("log_grep", "absent", tmp_path / "a.log*")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


@pytest.mark.usefixtures("nowhere")
def test_a_host_whose_logs_cannot_be_read_is_named(example, tmp_path):
    done = example("log_grep", "x", tmp_path / "*", "gone")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gone: ")


def test_all_hosts_are_restarted_one_after_the_other(example, tmp_path):
    words = ["--restart", "echo begun >> log; sleep 0.1; echo ended >> log", "--check", "true", "--local", 3]
    assert printed(example("rolling_restart", *words)) == "local: restarted, and healthy\n" * 3
    assert (tmp_path / "log").read_text() == "begun\nended\n" * 3


def test_a_restart_stops_at_the_first_host_that_is_not_healthy_afterwards(example, tmp_path):
    (tmp_path / "healthy").touch()
    words = ["--restart", "echo >> log; rm healthy", "--check", "test -e healthy", "--within", 0.1, "--local", 3]
    done = example("rolling_restart", *words)
    assert done.returncode == 1
    assert done.stdout == "local: not healthy after 0.1 s: exit code 1\n"
    assert done.stderr == "local: not touched\n" * 2
    assert (tmp_path / "log").read_text() == "\n"


def test_nothing_is_restarted_where_a_host_is_not_healthy_before(example, tmp_path):
    done = example("rolling_restart", "--restart", "touch touched", "--check", "echo sick; false", "--local", 2)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("nothing was touched:\n    local: not healthy after 0 s: exit code 1 sick")
    assert not (tmp_path / "touched").exists()


def test_a_restart_that_fails_is_said_with_its_output(example):
    done = example("rolling_restart", "--restart", "echo no such service; exit 5", "--check", "true", "--local", 1)
    assert (done.returncode, done.stdout) == (1, "local: the restart failed: exit code 5 no such service\n")


def test_the_tests_of_a_folder_run_on_hosts(example, tmp_path):
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "helper.py").write_text("def three(): return 3\n")
    for name, number in (("first", 3), ("second", 4)):
        (folder / f"test_{name}.py").write_text(
            "import unittest, helper\n\n\nclass Numbers(unittest.TestCase):\n    def test_three(self):\n"
            f"        self.assertEqual(helper.three(), {number})\n\n    def test_nothing(self):\n        pass\n"
        )
    done = example("suite_on_hosts", folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"^test_first: 2 tests on local, 0 failed, [\d.]+ s$", done.stdout, re.MULTILINE)
    assert re.search(r"^test_second: 2 tests on local, 1 failed, [\d.]+ s$", done.stdout, re.MULTILINE)
    assert "AssertionError: 3 != 4" in done.stdout
    assert done.stdout.endswith("4 tests of 2 modules on 2 hosts, 1 failed\n")
    (folder / "test_second.py").unlink()
    assert printed(example("suite_on_hosts", folder)).endswith("2 tests of 1 modules on 2 hosts, 0 failed\n")


def test_a_module_of_tests_that_cannot_be_imported_fails_the_suite(example, tmp_path):
    (tmp_path / "test_broken.py").write_text("import absent\n")
    done = example("suite_on_hosts", tmp_path)
    assert done.returncode == 1
    assert "absent" in done.stdout
    assert done.stdout.endswith("1 failed\n")


def test_the_dashboard_prints_lines_and_draws_on_a_terminal(example):
    lines = printed(example("dashboard", "--every", 0.1, "--for", 1)).splitlines()
    assert len(lines) > 2
    assert all(re.match(r"local  load [#.]{30} +[\d.]+  memory [#.]{30} +\d+%$", line) for line in lines)
    main, side = os.openpty()
    words = [sys.executable, "-W", "error", str(FOLDER / "dashboard.py"), "--every", "0.1"]
    with subprocess.Popen(words, stdout=side, stderr=side) as process:
        os.close(side)
        drawn = b""
        while drawn.count(b"\x1b[1A") < 2:
            drawn += os.read(main, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    os.close(main)
    assert b"Traceback" not in drawn


# ---- tasklets that travel ----


@moving
def test_a_tasklet_goes_on_counting_where_it_was_moved(example):
    lines = printed(example("move_a_tasklet")).splitlines()
    found = [re.match(r" +(\d+)  on \S+, process (\d+)$", line) for line in lines]
    assert [int(one[1]) for one in found if one] == [2, 3, 5, 7, 11, 13] * 2
    processes = [one[2] for one in found if one]
    assert len(set(processes[:3])) == len(set(processes[3:6])) == 1
    assert processes[0] == processes[6] not in (processes[3], processes[9])
    assert lines[6].strip() == lines[13].strip() == "[2, 3, 5, 7, 11, 13]"


@moving
def test_a_search_goes_through_all_places_and_comes_home(example):
    lines = printed(example("go_places")).splitlines()
    found = [re.match(r" +(\d+)  found by \S+ on \S+, process (\d+)$", line) for line in lines[:-1]]
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]
    assert [int(one[1]) for one in found] == primes
    places = [one[2] for one in found]
    assert [places[number] for number in range(0, 15, 3)] == [places[number] for number in range(2, 15, 3)]
    assert len(set(places)) == 4
    assert places[0] == places[-1]
    assert lines[-1] == str(primes)


@moving
def test_a_tasklet_counts_the_words_where_the_files_are(example, tmp_path):
    (tmp_path / "words").write_text("to be or\nnot to be\n")
    first, second, *counts = printed(example("follow_the_data", "words")).splitlines()
    visits = [re.match(r" +(\d+) words after \S+, process (\d+)$", line) for line in (first, second)]
    assert [int(one[1]) for one in visits] == [6, 12]
    assert len({one[2] for one in visits}) == 2
    assert [line.split() for line in counts] == [
        [n, "x", word] for n, word in zip("4422", ("to", "be", "or", "not"), strict=True)
    ]


@moving
def test_resume_goes_on_after_a_kill_by_itself_and_with_the_command(tmp_path):
    words = [sys.executable, "-W", "error", str(FOLDER / "resume.py"), "100000000"]
    file = tmp_path / "perfect.roamlet"
    for _ in range(2):
        inode = file.stat().st_ino if file.exists() else None
        running = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        with running:
            deadline = time.monotonic() + 60
            while not (file.exists() and file.stat().st_ino != inode) and time.monotonic() < deadline:
                os.sched_yield()
            running.kill()
            said = running.stderr.read()
        assert file.stat().st_ino != inode
        assert ("went on behind" in said) == (inode is not None)
    small = [sys.executable, "-W", "error", str(FOLDER / "resume.py"), "500"]
    file.unlink()
    done = subprocess.run(small, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "perfect: 6 28 496\n", "")
    assert not file.exists()
