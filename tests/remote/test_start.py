"""What a start costs and leaves: round trips on the wire, files on the target, what every user can read in argv."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import roamlet_sent

from roamlet import remote
from tests.remote.fakes import script
from tests.remote.inside import calls_of, link_of

# Stands between parent and child and notes who sent when. What follows from the same side without an answer is one turn.
RELAY = """\
#!{python}
import json, os, select, subprocess, sys
child = subprocess.Popen([{python!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
ends = {{0: child.stdin.fileno(), child.stdout.fileno(): 1}}
turns = []
while child.stdout.fileno() in ends:
    for fd in select.select(list(ends), [], [])[0]:
        data = os.read(fd, 65536)
        way = "down" if fd == 0 else "up"
        if not data:
            os.close(ends.pop(fd))
            continue
        if turns and turns[-1][0] == way:
            turns[-1][1] += len(data)
        else:
            turns.append([way, len(data)])
        while data:
            data = data[os.write(ends[fd], data):]
with open({log!r}, "w") as log:
    json.dump(turns, log)
"""


def test_a_start_takes_one_round_trip_and_a_first_call_with_its_modules_one_more(tmp_path):
    log = tmp_path / "turns"
    relay = script(tmp_path, RELAY.format(python=sys.executable, log=str(log)))
    with remote.local(relay) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        assert context.stats.modules == 1
        assert context.stats.round_trips == 0
        down, up = context.stats.bytes_down, context.stats.bytes_up
    turns = json.loads(log.read_text())
    # payload and CONFIG / HELLO / modules and call / result / goodbye / goodbye
    assert [way for way, _ in turns] == ["down", "up", "down", "up", "down", "up"]
    assert turns[0][1] < 24_000
    assert sum(size for way, size in turns if way == "down") == down + 17  # the goodbye came after the look
    assert up <= sum(size for way, size in turns if way == "up")


def test_modules_are_sent_once_however_often_and_from_wherever_they_are_needed(shared, in_tasklets):
    in_tasklets(lambda n: shared.call(roamlet_sent.echo, (n,)), list(range(20)))
    shared.call(roamlet_sent.Shelf.size)
    assert shared.stats.modules == 1


WRITES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)")
CHANGES = (
    "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,symlink,symlinkat,link,linkat,truncate"
)


def test_the_target_opens_no_file_for_writing(target, tmp_path, strace):
    log = tmp_path / "strace"
    traced = script(
        tmp_path, f'#!/bin/sh\nexec {" ".join(strace)} -f -qq -e trace={CHANGES} -o {log} {target.python} "$@"\n'
    )
    with target.open(python=traced) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        with pytest.raises(remote.RemoteError):
            context.call(roamlet_sent.raise_own_error)
        context.call(roamlet_sent.print_lines, (["out"], ["err"]))
        context.call(roamlet_sent.log, ("somewhere", 40, "logged"))
    calls = [line for line in log.read_text().splitlines() if "ENOENT" not in line]
    opened = [line for line in calls if "open" in line]
    assert len(opened) > 5, "strace saw nothing"
    writing = [line for line in opened if WRITES.search(line) and "/dev/null" not in line]
    changing = [line for line in calls if "open" not in line and "(" in line]
    assert writing == []
    assert changing == []


def command_lines():
    """What every process of this machine was started with."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # it has ended
            continue


def test_what_is_called_and_with_what_never_stands_on_a_command_line(target):
    with target.open() as context:
        secret = "hunter2-and-more"
        assert context.call(roamlet_sent.echo, (secret,)) == secret
        words = Path(f"/proc/{context.facts.pid}/cmdline").read_bytes()
        everybody = list(command_lines())
    assert b"sys.argv" in words
    assert secret.encode() not in words and "roamlet_sent" not in words.decode()
    assert not any(secret.encode() in line for line in everybody)


def test_the_target_is_isolated_from_the_environment_and_the_login_directory(target, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise RuntimeError('a file of the working directory was imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with target.open() as context:
        assert context.call(json.dumps, ([1],)) == "[1]"
        path = context.call(roamlet_sent.search_path)
        assert "" not in path and str(tmp_path) not in path


SCRIPT = """\
import sys
sys.path.append({sent!r})
import os
import roamlet_sent
from roamlet import remote

def work(number):
    return [__name__, number + 1, os.getpid()]

if __name__ == "__main__":
    with remote.local({python!r}) as context:
        name, number, pid = context.call(work, (41,))
        print(name, number, pid == context.facts.pid)
"""

UNGUARDED = """\
from roamlet import remote

def work():
    return 1

with remote.local(name="careless") as context:
    context.call(work)
"""


def run_script(folder, text):
    path = folder / "script.py"
    path.write_text(text)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)


def test_functions_of_the_main_script_run_on_the_target_with_its_guard_false(target, tmp_path):
    sent = str(Path(__file__).parent / "sent")
    done = run_script(tmp_path, SCRIPT.format(sent=sent, python=target.python))
    assert done.stderr == ""
    assert done.stdout.split() == ["__roamlet_main__", "42", "True"]


NAMED = """\
from roamlet import remote

class Mine(Exception):
    pass

def fails():
    raise Mine("so")

def gives():
    return [Mine("so")]

if __name__ == "__main__":
    with remote.local() as context:
        for function in (fails, gives):
            try:
                context.call(function)
            except remote.RemoteError as error:
                print(error.type_name, error)
"""


def test_classes_of_the_main_script_have_the_name_that_its_author_knows(tmp_path):
    done = run_script(tmp_path, NAMED)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == "__main__.Mine __main__.Mine: so"
    assert "result[0] cannot travel: it is a __main__.Mine, and classes that come up must be known here" in second


def test_a_script_that_would_connect_again_on_the_target_is_refused_by_name(tmp_path):
    done = run_script(tmp_path, UNGUARDED)
    assert done.returncode == 1
    assert "roamlet.remote.local() was called" in done.stderr
    assert "if __name__ == " in done.stderr
    assert "careless" in done.stderr


def test_nothing_is_left_when_contexts_come_and_go(own_target):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with own_target.open() as context:
            context.call(roamlet_sent.nothing)
    assert len(os.listdir("/proc/self/fd")) == before


def test_only_python_itself_gets_a_socket_in_place_of_a_pipe(own_target):
    """Another command may open its standard output by a name, which no socket allows."""
    context = own_target.open()
    assert stat.S_ISSOCK(os.fstat(link_of(context).process.up).st_mode) == (own_target.way == "local")
    assert context.call(roamlet_sent.zeros, (2_000_000,)) == bytes(2_000_000)


def test_contexts_that_got_the_same_share_the_record_of_it():
    """It takes 8 kB, and what they said of themselves 4 kB: a parent may have thousands of them."""
    with remote.open_all([remote.local] * 2) as opened:
        for context in opened.contexts:
            context.call(roamlet_sent.add, (1, 2))
        first, second = (calls_of(context) for context in opened.contexts)
        assert "roamlet_sent" in first.shipping._sent
        assert first.shipping._sent is second.shipping._sent
        assert not first.link.hello
